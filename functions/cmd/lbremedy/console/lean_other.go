//go:build !linux

package console

// unmap does something on Linux alone.
func unmap() {}
