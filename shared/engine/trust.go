package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// skew is how far the clock of who dated a failure may be ahead of ours.
const skew = time.Minute

// dated returns a failure with a time that may be true. Whoever writes an Event chooses
// its time, and one of 2100 would be newer than all that comes: what is dated in the
// future happened when the exporter met it, and now if it doesn't say.
func dated(f event.Failure, now time.Time) event.Failure {
	if f.Last.After(now.Add(skew)) {
		f.Last = now
		if !f.Recorded.IsZero() && f.Recorded.Before(now) {
			f.Last = f.Recorded
		}
	}
	return f
}

// kept returns the failure that a message of FAILED holds, and whether it is one of the
// Service in hand: a stranger may have put this Service's UID into an Event about
// another. One that is dated in the future has no time, since nobody knows when it was.
func (x *run) kept(m stream.Message) (f event.Failure, mine bool, err error) {
	e, err := event.DecodeNATS(m.Header, m.Data)
	if err != nil {
		return f, false, fmt.Errorf("read the newest failure: %w", err)
	}
	if f, err = event.ReadFailed(e); err != nil {
		return f, false, fmt.Errorf("read the newest failure: %w", err)
	}
	if f.Last.After(x.env.now().Add(skew)) {
		f.Last = time.Time{}
	}
	of := x.ev.Failure.Service
	return f, f.Service.Namespace == of.Namespace && f.Service.Name == of.Name, nil
}

// newestOfOurs returns the newest failure of the Service that has a time. The newest
// message under its UID may be a stranger's.
func (x *run) newestOfOurs(ctx context.Context, subject string) (newest event.Failure, found bool, err error) {
	kept, err := x.env.Stream.Lasts(ctx, stream.Failed, subject)
	if err != nil {
		return event.Failure{}, false, fmt.Errorf("read the newest failure: %w", err)
	}
	for _, m := range kept { // oldest first
		f, mine, err := x.kept(m)
		if err != nil {
			return event.Failure{}, false, err
		}
		if mine && !f.Last.IsZero() {
			newest, found = f, true
		}
	}
	return newest, found, nil
}
