//go:build race

package event

// slowdown is how much slower code runs with the race detector, roughly.
const slowdown = 20
