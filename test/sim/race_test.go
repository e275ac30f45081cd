//go:build race

package sim

// slowdown is by how much the race detector slows what is measured.
const slowdown = 10
