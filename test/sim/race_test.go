//go:build race

package sim

// slowdown is the factor by which the race detector slows benchmarks down.
const slowdown = 10
