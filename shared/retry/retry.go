// Package retry computes when to try again: after a doubling pause, or when the other side asks for it. The arithmetic is that of
// k8s.io/apimachinery/pkg/util/wait. Begin with Backoff.
//
// It covers neither colliding writers in package stream, which wait milliseconds that grow by steps, nor the schedules of tickers.
package retry

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Backoff returns pauses that double from first up to longest. Step returns the next one; a new Backoff begins again.
func Backoff(first, longest time.Duration) wait.Backoff {
	return wait.Backoff{Duration: first, Factor: 2, Steps: math.MaxInt, Cap: longest}
}

// Pause returns the pause after the n-th failure in a row, from 1.
func Pause(first, longest time.Duration, n uint64) time.Duration {
	b := Backoff(first, longest)
	d := b.Step()
	for ; n > 1 && d < longest; n-- {
		d = b.Step()
	}
	return d
}

// Spread returns a random time between half of the pause and all of it, which spreads out callers that failed together.
func Spread(pause time.Duration) time.Duration { return wait.Jitter(pause/2, 1) }

// Sleep waits, and reports whether the context is still alive.
func Sleep(ctx context.Context, pause time.Duration) bool {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// After returns how long an answer asks to wait, at most longest, by its Retry-After (RFC 9110, section 10.2.3); false for a past or unreadable value.
func After(h http.Header, now time.Time, longest time.Duration) (time.Duration, bool) {
	text := h.Get("Retry-After")
	d := longest
	if s, err := strconv.ParseUint(text, 10, 64); err == nil {
		if s < uint64(longest/time.Second) {
			d = time.Duration(s) * time.Second
		}
	} else if at, err := http.ParseTime(text); err == nil {
		d = min(at.Sub(now), longest)
	} else {
		return 0, false
	}
	return max(d, 0), d > 0
}
