//go:build race

package sim

const slowdown = 10
