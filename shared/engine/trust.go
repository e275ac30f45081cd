package engine

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// newer returns the class of the Service's newest failed sync if it is newer than the failure in hand and of another class.
func (x *run) newer(ctx context.Context) (string, error) {
	if x.env.Stream == nil {
		return "", nil
	}
	f, ok, err := x.newest(ctx, "*")
	if err != nil || !ok || f.Class == x.r.Class || f.Type != corev1.EventTypeWarning || !f.Last.After(x.ev.Failure.Last) {
		return "", err
	}
	return f.Class, nil
}

// newest returns the newest dated failure of the Service in the stream, of one class or of any ("*"). A stranger may have written another
// Service's under its UID, and the time of a message dated in the future is unknown.
func (x *run) newest(ctx context.Context, class string) (f event.Failure, found bool, err error) {
	of := x.ev.Failure.Service
	kept, err := x.env.Stream.Lasts(ctx, stream.Failed, event.FailedSubject(x.env.Cluster, class, of.UID))
	if err != nil {
		return f, false, fmt.Errorf("read the newest failure: %w", err)
	}
	for _, m := range slices.Backward(kept) { // oldest first
		e, err := event.DecodeNATS(m.Header, m.Data)
		if err == nil {
			f, err = event.ReadFailed(e)
		}
		if err != nil {
			return event.Failure{}, false, fmt.Errorf("read the newest failure: %w", err)
		}
		if f.Service.Namespace == of.Namespace && f.Service.Name == of.Name && !f.Last.IsZero() && !f.Last.After(x.env.Time().Add(event.Skew)) {
			return f, true, nil
		}
	}
	return event.Failure{}, false, nil
}
