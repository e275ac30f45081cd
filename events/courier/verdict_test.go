package courier

import (
	"net/http"
	"testing"
	"time"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	for want, statuses := range map[end][]int{
		acked:   {200, 201, 202, 204, 299},
		later:   {408, 409, 425, 429, 500, 501, 502, 503, 504, 599},
		dead:    {400, 413, 415, 422},
		refused: {101, 301, 302, 304, 307, 401, 403, 404, 405, 407, 410, 411, 418, 421, 431, 451},
	} {
		for _, s := range statuses {
			if got := judge(s); got != want {
				t.Errorf("%d: %s, want %s", s, got, want)
			}
		}
	}
}

func TestAsked(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{"": 0, "30": 30 * time.Second, "Fri, 20 Nov 2026 08:02:00 GMT": 2 * time.Minute, "86400": longestAsked} {
		for range 20 {
			got, ok := asked(http.Header{"Retry-After": {text}}, now)
			if ok != (want > 0) || got < want || got > min(want+want/10, longestAsked) {
				t.Errorf("%q: %s, %v, want %s", text, got, ok, want)
			}
		}
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	for n, want := range map[uint64]time.Duration{0: time.Second, 1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 10: longestPause, 40: longestPause,
		1 << 63: longestPause} {
		seen := map[time.Duration]bool{}
		for range 50 {
			got := pause(time.Second, n)
			if got < want/2 || got > want {
				t.Errorf("delivery %d: %s, want %s to %s", n, got, want/2, want)
			}
			seen[got] = true
		}
		if len(seen) < 10 {
			t.Errorf("delivery %d: only %d different pauses", n, len(seen))
		}
	}
}
