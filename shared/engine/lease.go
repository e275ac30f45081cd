package engine

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
)

const (
	leased  = 10 * time.Second    // a run that has given no sign of life for so long is dead
	renewal = leased / 4          // how often it gives one
	known   = 30 * 24 * time.Hour // how long a key outlives its last run; the journal keeps records as long
)

// A lease is a run's claim on the key that says who runs on its Service and class. While
// it reads, however slowly, it renews the lease; who dies stops to.
type lease struct {
	state    event.Running
	revision uint64
	found    bool // the key was there
	ends     chan struct{}
	renewed  chan struct{} // closed when nothing renews it any more
}

// remember reads what is known of the runs before this one.
func (x *run) remember(ctx context.Context) error {
	e, err := x.env.Stream.Entry(ctx, x.key())
	x.lease = &lease{revision: e.Revision}
	switch {
	case errors.Is(err, stream.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("read who runs: %w", err)
	}
	x.lease.found = true
	if err := json.Unmarshal(e.Value, &x.lease.state); err != nil {
		x.log.Error("who runs can't be read", "key", x.key(), "error", err)
		x.lease.state = event.Running{}
	}
	return nil
}

func (x *run) key() string {
	return event.RunKey(x.env.Cluster, x.ev.Failure.Service.UID, x.r.Class)
}

// enter takes the lease. If another run has it, or is faster, it returns how long to
// wait. A run that left its lease behind never ended.
func (x *run) enter(ctx context.Context, prev event.Record) (wait time.Duration, err error) {
	l := x.lease
	switch {
	case l.state.Holder != "":
		if left := leased - x.since(l.state.Renewed); left > 0 {
			return min(left, soon), nil
		}
		l.state.Crashes++
	case !l.found && prev.Phase != "" && prev.Phase != event.Settled && x.other.Phase == "":
		l.state.Crashes = prev.Crashes + 1 // of a release that had no leases
	}
	l.state.Holder, l.state.Renewed = rand.Text(), x.env.now()
	if err := x.put(ctx); err != nil {
		if errors.Is(err, stream.ErrConflict) {
			return time.Second, nil
		}
		return 0, err
	}
	x.rec.Crashes = l.state.Crashes
	l.ends, l.renewed = make(chan struct{}), make(chan struct{})
	go x.renew(context.WithoutCancel(ctx))
	return 0, nil
}

// put writes the key, if nobody else has since.
func (x *run) put(ctx context.Context) error {
	data, err := json.Marshal(x.lease.state)
	if err != nil {
		return fmt.Errorf("encode who runs: %w", err)
	}
	revision, err := x.env.Stream.Swap(ctx, x.key(), data, x.lease.revision, known)
	if err != nil {
		return fmt.Errorf("write who runs: %w", err)
	}
	x.lease.revision = revision
	return nil
}

// renew keeps the lease until the run ends or another one has it.
func (x *run) renew(ctx context.Context) {
	defer close(x.lease.renewed)
	tick := time.NewTicker(renewal)
	defer tick.Stop()
	for {
		select {
		case <-x.lease.ends:
			return
		case <-tick.C:
		}
		x.lease.state.Renewed = x.env.now()
		if err := x.put(ctx); errors.Is(err, stream.ErrConflict) {
			return
		} else if err != nil {
			x.log.Warn("a lease is not renewed", "key", x.key(), "error", err)
		}
	}
}

// still stops renewing the lease, whatever ends the run.
func (x *run) still() {
	if x.lease == nil || x.lease.ends == nil {
		return
	}
	select {
	case <-x.lease.ends:
	default:
		close(x.lease.ends)
	}
	<-x.lease.renewed
}

// release gives the lease back: the run has ended, however. That it can't is no error of
// the run's: the lease runs out.
func (x *run) release(ctx context.Context) {
	if x.lease == nil || x.lease.ends == nil {
		return
	}
	x.still()
	s := &x.lease.state
	s.Holder, s.Renewed, s.Crashes = "", time.Time{}, 0
	if now := x.env.now(); x.settled || x.repeated {
		if s.Seen++; x.settled {
			s.Seen, s.First = 1, now
		}
		s.Last, s.Event, s.Errors, s.Wait = now, x.ev.ID, x.rec.Errors, x.rec.Wait
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := x.put(ctx); err != nil && !errors.Is(err, stream.ErrConflict) {
		x.log.Warn("a lease stays until it runs out", "key", x.key(), "error", err)
	}
}

// last returns when a run last ended as the record says.
func (x *run) last(rec event.Record) time.Time {
	if x.lease != nil && x.lease.state.Last.After(rec.At) {
		return x.lease.state.Last
	}
	return rec.At
}

// errors returns how many runs before this one have ended with an error, in a row. A
// question that errors have led to stands while they come back.
func (x *run) errors(prev event.Record) int {
	switch {
	case prev.Phase == "", prev.Phase == event.Settled && final(prev.Result) && (prev.Error == "" || x.since(x.last(prev)) >= stale):
		return 0
	case x.lease != nil && x.lease.state.Last.After(prev.At):
		return x.lease.state.Errors
	}
	return prev.Errors
}

// repeats reports whether the run has ended as the last record says already, and has
// written nothing: then that record stands for it, too.
func (x *run) repeats(r event.Result) bool {
	// Without a count that it could be added to, it is told again: the first time after an
	// upgrade, and when a person has closed the incident.
	if x.lease == nil || x.lease.state.Seen == 0 {
		return false
	}
	if x.prev.Phase != event.Settled || x.journalled || r == event.Fixed || r == event.Unsettled || r == event.Undone {
		return false
	}
	now := x.rec
	now.Result = r
	return sameEnd(x.prev, now)
}

// digits are what may change in a sentence that says the same again.
var digits = regexp.MustCompile(`[0-9]+`)

// sameEnd reports whether two records of a Service and class say the same, but for
// numbers: how long something lasts, how much is left.
func sameEnd(a, b event.Record) bool {
	return endOf(a) == endOf(b)
}

// endOf digests what a record says of how its run ended.
func endOf(r event.Record) string {
	h := sha256.New()
	steps := 0
	for _, s := range r.Steps {
		steps += len(s.Text)
	}
	fmt.Fprintln(h, r.Result, r.Reason, r.Held, r.Digest, r.Cause, r.Risk, r.Mode, r.Muted, r.Impact, r.Attempt, r.Next, steps, r.Undoing, r.Written.UnixNano(), r.Since.UnixNano(), r.Approved != nil)
	for _, said := range []string{r.Finding, r.Ask, r.Note, r.Rule, r.Error} {
		fmt.Fprintln(h, digits.ReplaceAllString(said, "#"))
	}
	return hex.EncodeToString(h.Sum(nil))
}
