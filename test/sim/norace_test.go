//go:build !race

package sim

// slowdown is 1: nothing slows what is measured.
const slowdown = 1
