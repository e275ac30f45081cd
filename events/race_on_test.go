//go:build race

package events

// slowdown is how much slower code runs with the race detector, roughly.
const slowdown = 20
