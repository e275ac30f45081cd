//go:build !linux

package main

// disk cannot mount a disk on this system.
func disk(string) (release func(), ok bool) { return nil, false }
