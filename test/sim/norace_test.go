//go:build !race

package sim

// slowdown is 1 without the race detector.
const slowdown = 1
