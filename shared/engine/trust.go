package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

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

// The failures of one Service are what the stream holds of them.
type failures struct {
	env *Env
	of  event.Service
}

// newer returns the class of a failed sync of the Service that is newer than the
// failure in hand, if it is another one.
func (k failures) newer(ctx context.Context, than event.Failure, class string) (string, error) {
	if k.env.Stream == nil {
		return "", nil
	}
	f, ok, err := k.newest(ctx, "*")
	if err != nil || !ok {
		return "", err
	}
	if f.Class != class && f.Type == corev1.EventTypeWarning && f.Last.After(than.Last) {
		return f.Class, nil
	}
	return "", nil
}

// newest returns the newest failure of the Service in the stream, of one class or of any ("*").
func (k failures) newest(ctx context.Context, class string) (event.Failure, bool, error) {
	subject := fmt.Sprintf("lbremedy.failed.%s.%s.%s", k.env.Cluster, class, k.of.UID)
	msg, err := k.env.Stream.Last(ctx, stream.Failed, subject)
	if errors.Is(err, stream.ErrNotFound) {
		return event.Failure{}, false, nil
	}
	if err != nil {
		return event.Failure{}, false, fmt.Errorf("read the newest failure: %w", err)
	}
	f, mine, err := k.kept(msg)
	if err != nil {
		return event.Failure{}, false, err
	}
	if !mine || f.Last.IsZero() {
		return k.newestOfOurs(ctx, subject)
	}
	return f, true, nil
}

// kept returns the failure that a message of FAILED holds, and whether it is one of the
// Service in hand: a stranger may have put this Service's UID into an Event about
// another. One that is dated in the future has no time, since nobody knows when it was.
func (k failures) kept(m stream.Message) (f event.Failure, mine bool, err error) {
	e, err := event.DecodeNATS(m.Header, m.Data)
	if err != nil {
		return f, false, fmt.Errorf("read the newest failure: %w", err)
	}
	if f, err = event.ReadFailed(e); err != nil {
		return f, false, fmt.Errorf("read the newest failure: %w", err)
	}
	if f.Last.After(k.env.now().Add(skew)) {
		f.Last = time.Time{}
	}
	return f, f.Service.Namespace == k.of.Namespace && f.Service.Name == k.of.Name, nil
}

// newestOfOurs returns the newest failure of the Service that has a time. The newest
// message under its UID may be a stranger's.
func (k failures) newestOfOurs(ctx context.Context, subject string) (newest event.Failure, found bool, err error) {
	kept, err := k.env.Stream.Lasts(ctx, stream.Failed, subject)
	if err != nil {
		return event.Failure{}, false, fmt.Errorf("read the newest failure: %w", err)
	}
	for _, m := range kept { // oldest first
		f, mine, err := k.kept(m)
		if err != nil {
			return event.Failure{}, false, err
		}
		if mine && !f.Last.IsZero() {
			newest, found = f, true
		}
	}
	return newest, found, nil
}
