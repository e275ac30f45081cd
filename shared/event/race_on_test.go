//go:build race

package event

// slowdown is roughly how much slower code runs with the race detector.
const slowdown = 20
