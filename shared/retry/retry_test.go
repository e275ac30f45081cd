package retry

import (
	"context"
	"net/http"
	"testing"
	"time"
)

func TestAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"":                              0,
		"0":                             0,
		"-5":                            0,
		"soon":                          0,
		"1.5":                           0,
		"30":                            30 * time.Second,
		"3600":                          time.Hour,
		"86400":                         time.Hour,
		"18446744073709551615":          time.Hour,
		"184467440737095516150":         0,
		"Fri, 20 Nov 2026 08:02:00 GMT": 2 * time.Minute,
		"Fri, 20 Nov 2026 07:59:00 GMT": 0,
		"Sat, 20 Nov 2027 08:00:00 GMT": time.Hour,
	} {
		if got, ok := After(http.Header{"Retry-After": {text}}, now, time.Hour); got != want || ok != (want > 0) {
			t.Errorf("%q: %s, %v, want %s", text, got, ok, want)
		}
	}
	if got, ok := After(nil, now, time.Hour); got != 0 || ok {
		t.Errorf("no header: %s, %v", got, ok)
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	const longest = 5 * time.Minute
	for n, want := range map[uint64]time.Duration{0: time.Second, 1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 9: 256 * time.Second, 10: longest,
		1 << 63: longest} {
		if got := Pause(time.Second, longest, n); got != want {
			t.Errorf("failure %d: %s, want %s", n, got, want)
		}
	}
	b := Backoff(50*time.Millisecond, 150*time.Millisecond)
	for i, want := range []time.Duration{50, 100, 150, 150, 150} {
		if got := b.Step(); got != want*time.Millisecond {
			t.Errorf("step %d: %s, want %d ms", i, got, want)
		}
	}
}

func TestSpread(t *testing.T) {
	t.Parallel()
	seen := map[time.Duration]bool{}
	for range 50 {
		d := Spread(time.Second)
		if d < time.Second/2 || d > time.Second {
			t.Fatalf("%s is not from half a second to a second", d)
		}
		seen[d] = true
	}
	if len(seen) < 10 {
		t.Errorf("only %d different pauses", len(seen))
	}
}

func TestSleep(t *testing.T) {
	t.Parallel()
	if !Sleep(t.Context(), time.Millisecond) {
		t.Error("the context lives")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if Sleep(ended, time.Hour) {
		t.Error("the context has ended")
	}
}
