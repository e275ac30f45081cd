package ticket

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// A Looker looks again at the failures that people were notified of. Who sets right by hand
// what lbremedy asked about leaves no failure behind, so that no event would ever say
// that it is over, and the ticket would stay. What is found to be over is run once
// more, so that the journal says so; all else is left as it is.
//
// What the doctor found is not looked at here: each scheduled run looks at all cases of its
// checks, whoever reported them, and one look at one of them would read all load
// balancers of the account.
type Looker struct {
	Env      *engine.Env
	Remedies []*remedy.Remedy

	looked map[string]time.Time // by member's key
}

// Between two looks at one Service: as long as it has stood, within these.
const (
	soonest = 5 * time.Minute
	latest  = time.Hour
)

const (
	looks   = 30              // at most in one round
	round   = time.Minute     // between the beginnings of two rounds
	lookFor = 4 * time.Minute // one round at most; less than its lock is held
)

// Run looks until ctx ends, and returns nil then. Of several workers of a cluster one
// at a time does.
func (l *Looker) Run(ctx context.Context) error {
	tick := time.NewTicker(round)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := l.round(ctx); err != nil && ctx.Err() == nil {
			l.log().Warn("failures that people were notified of are looked at later", "cluster", l.Env.Cluster, "error", event.Redact(err.Error()))
		}
	}
}

func (l *Looker) log() *slog.Logger {
	if l.Env.Log != nil {
		return l.Env.Log
	}
	return slog.New(slog.DiscardHandler)
}

func (l *Looker) now() time.Time {
	if l.Env.Now != nil {
		return l.Env.Now()
	}
	return time.Now()
}

// round looks at the Services whose turn it is. Those that can't be looked at don't keep
// the others from it; their errors are joined.
func (l *Looker) round(ctx context.Context) error {
	unlock, held, err := control.Lock(ctx, l.Env.Stream, "again."+l.Env.Cluster, l.Env.Who, 5*time.Minute)
	if err != nil || !held {
		return err
	}
	defer unlock()
	due, err := l.due(ctx)
	if err != nil {
		return err
	}
	inner, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	var errs []error
	for _, c := range due {
		if inner.Err() != nil {
			break
		}
		l.looked[c.incident.member(c.member.uid)] = l.now()
		if err := l.look(inner, c.incident.class, c.member); err != nil {
			errs = append(errs, fmt.Errorf("look again at %s: %w", c.member.Service, err))
		}
	}
	return errors.Join(errs...)
}

// due returns the members that stand and whose turn it is, the one that waits longest first.
func (l *Looker) due(ctx context.Context) ([]change, error) {
	looked := map[string]time.Time{} // of those that still stand
	now := l.now()
	var due []change
	last := func(c change) time.Time { return later(c.member.At, looked[c.incident.member(c.member.uid)]) }
	err := l.Env.Stream.EachEntry(ctx, memberRoot+">", func(e stream.Entry) {
		i, m, err := readMember(e.Key, e.Value, e.Revision)
		if err != nil || m.Over || m.Cluster != l.Env.Cluster || m.Result == event.Unsettled || // the stream brings what is unsettled
			strings.HasPrefix(i.class, event.DoctorPrefix) {
			return
		}
		if t, ok := l.looked[e.Key]; ok {
			looked[e.Key] = t
		}
		c := change{i, m}
		if wait := min(max(last(c).Sub(m.Since), soonest), latest); !now.Before(last(c).Add(wait)) {
			due = append(due, c)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("read who fails: %w", err)
	}
	l.looked = looked
	slices.SortStableFunc(due, func(a, b change) int { return last(a).Compare(last(b)) })
	return due[:min(len(due), looks)], nil
}

// look finds out whether the failure of a Service is over, and has the journal say so.
func (l *Looker) look(ctx context.Context, class string, m Member) error {
	i := slices.IndexFunc(l.Remedies, func(r *remedy.Remedy) bool { return r.Class == class })
	if i < 0 {
		return nil // another program's
	}
	kept, err := l.Env.Stream.Last(ctx, stream.Failed, event.FailedSubject(m.Cluster, class, m.Service.UID))
	if errors.Is(err, stream.ErrNotFound) {
		return nil // it was replaced by a person, or a week has passed: a person closes the ticket
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
	if err != nil || !ends(found.Result) {
		return err
	}
	// Under the event's own ID the journal would answer with what it said before.
	_, err = engine.Run(ctx, l.Env, l.Remedies[i], engine.Event{ID: e.ID() + ".again", Failure: f})
	return err
}
