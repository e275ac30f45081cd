package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/retry"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// A Rechecker looks again at the failures that people were notified of. If a person repairs by hand what lbremedy asked about, no
// event would end the case and close the ticket. A failure that is over gets one more run, which records that.
//
// It skips the doctor's findings: each scheduled run looks at all cases of its checks, and one look would read all load balancers of the account.
type Rechecker struct {
	Env          *engine.Env
	Remedies     []*remedy.Remedy
	OpenFailures func(context.Context) ([]event.Record, error) // the failures that people were notified of, with the fields that Due needs

	last map[string]time.Time // by keyOf
}

func keyOf(r event.Record) string { return r.Class + " " + r.Service.UID }

// The interval between two looks at a Service is the age of its failure, within these limits.
const (
	shortest = 5 * time.Minute
	longest  = time.Hour
)

const (
	perRound   = 30              // at most in one round
	round      = time.Minute     // between two rounds
	roundLimit = 4 * time.Minute // longest time of a round; less than its lock is held
)

// Run looks until ctx ends, then returns nil. A lock admits one worker per cluster.
func (l *Rechecker) Run(ctx context.Context) error {
	for retry.Sleep(ctx, round) {
		if err := l.Round(ctx); err != nil && ctx.Err() == nil {
			l.Env.Logger().Warn("failures that people were notified of are looked at later", "cluster", l.Env.Cluster, "error", event.Redact(err.Error()))
		}
	}
	return nil
}

// Round looks at the Services that are due. An error does not stop the others; errors are joined.
func (l *Rechecker) Round(ctx context.Context) error {
	unlock, held, err := control.Lock(ctx, l.Env.Stream, "again."+l.Env.Cluster, l.Env.Who, 5*time.Minute)
	if err != nil || !held {
		return err
	}
	defer unlock()
	due, err := l.Due(ctx)
	if err != nil {
		return err
	}
	inner, cancel := context.WithTimeout(ctx, roundLimit)
	defer cancel()
	var errs []error
	for _, r := range due {
		if inner.Err() != nil {
			break
		}
		l.last[keyOf(r)] = l.Env.Time()
		if err := l.recheck(inner, r); err != nil {
			errs = append(errs, fmt.Errorf("look again at %s: %w", r.Service, err))
		}
	}
	return errors.Join(errs...)
}

// Due returns the open failures that are due, the longest waiting first.
func (l *Rechecker) Due(ctx context.Context) ([]event.Record, error) {
	standing, err := l.OpenFailures(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the open failures: %w", err)
	}
	looked := map[string]time.Time{} // of those still open
	last := func(r event.Record) time.Time {
		if at := looked[keyOf(r)]; at.After(r.At) {
			return at
		}
		return r.At
	}
	var due []event.Record
	for _, r := range standing {
		if r.Result == event.Unsettled || strings.HasPrefix(r.Class, event.DoctorPrefix) { // the stream delivers unsettled ones again
			continue
		}
		if at, ok := l.last[keyOf(r)]; ok {
			looked[keyOf(r)] = at
		}
		if wait := min(max(last(r).Sub(r.First), shortest), longest); !l.Env.Time().Before(last(r).Add(wait)) {
			due = append(due, r)
		}
	}
	l.last = looked
	slices.SortStableFunc(due, func(a, b event.Record) int { return last(a).Compare(last(b)) })
	return due[:min(len(due), perRound)], nil
}

func (l *Rechecker) recheck(ctx context.Context, r event.Record) error {
	i := slices.IndexFunc(l.Remedies, func(of *remedy.Remedy) bool { return of.Class == r.Class })
	if i < 0 {
		return nil // another program's
	}
	kept, err := l.Env.Stream.Last(ctx, stream.Failed, event.FailedSubject(l.Env.Cluster, r.Class, r.Service.UID))
	if errors.Is(err, stream.ErrNotFound) {
		return nil // a person replaced it, or a week has passed: a person closes the ticket
	}
	if err != nil {
		return err
	}
	e, err := event.DecodeNATS(kept.Header, kept.Data)
	if err != nil {
		return err
	}
	f, err := event.ReadFailed(e)
	if err != nil {
		return err
	}
	found, err := engine.Look(ctx, l.Env, l.Remedies[i], engine.Event{ID: e.ID(), Failure: f})
	if err != nil || !found.Result.Final() {
		return err
	}
	// With the event's own ID, or that of an earlier look, the document would answer as before.
	id := fmt.Sprintf("%s.again.%d", e.ID(), l.Env.Time().Unix())
	_, err = engine.Run(ctx, l.Env, l.Remedies[i], engine.Event{ID: id, Failure: f})
	return err
}
