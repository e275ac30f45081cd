package engine

import (
	"log/slog"
	"testing"
	"time"
)

// A run that hangs does not keep its lease.
func TestLeaseOfHungRun(t *testing.T) {
	t.Parallel()
	l := &lease{env: &Env{Bound: time.Millisecond}, ends: make(chan struct{}), renewed: make(chan struct{})}
	go l.renew(t.Context(), slog.New(slog.DiscardHandler))
	select {
	case <-l.renewed:
	case <-time.After(renewal):
		t.Error("the lease is renewed after the run should have ended")
		l.ends <- struct{}{}
	}
}
