package up

import "testing"

// The collector has room to wait where little memory is in use, and where much is, none beyond the usual.
func TestPercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 1200, 4 << 20: 1200, 12 << 20: 400, 24 << 20: 200, 48 << 20: 100, 1 << 30: 100} {
		if got := percent(live); got != want {
			t.Errorf("%d bytes: %d %%, want %d", live, got, want)
		}
	}
}
