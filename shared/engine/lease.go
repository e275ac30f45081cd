package engine

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/stream"
)

const (
	leased  = 10 * time.Second    // a run that has given no sign of life for so long is dead
	renewal = leased / 4          // how often it gives one
	known   = 30 * 24 * time.Hour // how long a key outlives its last run; the journal keeps records as long
	heard   = time.Second         // who has renewed its lease within this is not cut off from the stream

	// Of runs that write nothing, so many in a row may end in another way than the one before, and then one in this time.
	idleBurst = 8
	idleEach  = time.Hour
	idleWait  = 10 * time.Minute // at most, until a run that may not is made again
)

// A lease is a run's claim on the key that says who runs on its Service and class. While
// it reads, however slowly, it renews the lease; who dies stops to.
type lease struct {
	env *Env
	key string

	mu       sync.Mutex // while something renews it
	state    event.Running
	revision uint64
	written  time.Time // when the last write that was acknowledged began, by the clock of this machine
	ends     chan struct{}
	renewed  chan struct{} // closed when nothing renews it any more
}

// newLease returns the lease of a Service and class with what is known of the runs before this one.
func newLease(ctx context.Context, env *Env, uid, class string, log *slog.Logger) (*lease, error) {
	key := event.RunKey(env.Cluster, uid, class)
	e, err := env.Stream.Entry(ctx, key)
	l := &lease{env: env, key: key, revision: e.Revision}
	switch {
	case errors.Is(err, stream.ErrNotFound):
		return l, nil
	case err != nil:
		return l, fmt.Errorf("read who runs: %w", err)
	}
	if err := json.Unmarshal(e.Value, &l.state); err != nil {
		log.Error("who runs can't be read", "key", key, "error", err)
		l.state = event.Running{}
	}
	if l.state.Holder != "" {
		l.state.Renewed, err = env.heard(ctx, class, l.state.Renewed, e.Time)
	}
	return l, err
}

// enter takes the lease. If another run has it, or is faster, it returns how long to
// wait. A run that left its lease behind never ended.
func (l *lease) enter(ctx context.Context, log *slog.Logger) (wait time.Duration, err error) {
	if l.state.Holder != "" {
		if left := leased - l.env.since(l.state.Renewed); left > 0 {
			return min(left, soon), nil
		}
		l.state.Crashes++
	}
	l.state.Holder, l.state.Renewed = rand.Text(), l.env.now()
	if err := l.put(ctx); err != nil {
		if errors.Is(err, stream.ErrConflict) {
			return time.Second, nil
		}
		return 0, err
	}
	l.ends, l.renewed = make(chan struct{}), make(chan struct{})
	go l.renew(context.WithoutCancel(ctx), log)
	return 0, nil
}

// put writes the key, if nobody else has since.
func (l *lease) put(ctx context.Context) error {
	data, err := json.Marshal(l.state)
	if err != nil {
		return fmt.Errorf("encode who runs: %w", err)
	}
	began := time.Now()
	revision, err := l.env.Stream.Swap(ctx, l.key, data, l.revision, known)
	if err != nil {
		return fmt.Errorf("write who runs: %w", err)
	}
	l.revision, l.written = revision, began
	return nil
}

// renew keeps the lease until the run ends or another one has it, and no longer than a run may take: one that hangs in its class
// has no lease then, and what it would write is refused.
func (l *lease) renew(ctx context.Context, log *slog.Logger) {
	defer close(l.renewed)
	tick := time.NewTicker(renewal)
	defer tick.Stop()
	over := time.After(l.env.bound() + renewal/2)
	for {
		select {
		case <-l.ends:
			return
		case <-over:
			log.Error("a run does not end; its lease is left to others", "key", l.key)
			return
		case <-tick.C:
		}
		if err := l.again(ctx, 0); errors.Is(err, stream.ErrConflict) {
			return
		} else if err != nil {
			log.Warn("a lease is not renewed", "key", l.key, "error", err)
		}
	}
}

// again renews the lease now, if its last write is older than this.
func (l *lease) again(ctx context.Context, older time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.written) < older {
		return nil
	}
	l.state.Renewed = l.env.now()
	return l.put(ctx)
}

// stored notes the last record that the run has appended, which the next one must know of.
func (l *lease) stored(sequence uint64) {
	if l == nil {
		return // a run that broke before it had read the journal
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.Stored, l.state.At = sequence, l.env.now()
}

// uses notes that the run has left a record, and until when none more may follow, as idle said.
func (l *lease) uses(until time.Time) {
	if l == nil || until.IsZero() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.Used = until
}

// idle returns how long a run has to wait that is about to leave a record and has written nothing; zero: it may, and Used is
// to be this then. Whoever may create Events can make a failure end in one way and in another in turn, by Events of success,
// and each such end is a record: without a limit one namespace would fill the journal, which all clusters share.
func (l *lease) idle() (used time.Time, wait time.Duration) {
	if l == nil {
		return time.Time{}, 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.env.now()
	if used = l.state.Used; used.Before(now) || used.Sub(now) > idleBurst*idleEach { // by a clock that was ahead
		used = now
	}
	if left := used.Sub(now) - (idleBurst-1)*idleEach; left > 0 {
		return time.Time{}, min(left, idleWait)
	}
	return used.Add(idleEach), 0
}

// knows returns the sequence of a record that the journal has. After a while it may have none: what is old is removed, and a
// stream that was made anew counts from the beginning.
func (l *lease) knows() uint64 {
	if l.env.since(l.state.At) > stale {
		return 0
	}
	return l.state.Stored
}

// since returns a context in which the stream answers with what held when the lease was last written, or with what is newer.
// A node of NATS that is behind the others, or cut off from them, goes on answering who reads, with what it has: a pause, a
// policy or a rejection that is newer than that is not in it.
func (x *run) since(ctx context.Context) context.Context {
	if x.lease == nil || x.lease.ends == nil {
		return ctx // it writes nothing
	}
	x.lease.mu.Lock()
	defer x.lease.mu.Unlock()
	return stream.Since(ctx, x.lease.key, x.lease.revision)
}

// still stops renewing the lease, whatever ends the run.
func (l *lease) still() {
	if l == nil || l.ends == nil {
		return
	}
	select {
	case <-l.ends:
	default:
		close(l.ends)
	}
	<-l.renewed
}

// release gives the lease back: the run has ended, however, with this record and error. That it can't is no error of
// the run's, since the lease runs out, unless the run has left no record: then the lease alone says
// that it has answered its event, which has to come again, and the run waits, whatever it has found out.
func (x *run) release(ctx context.Context, rec event.Record, ended error) (event.Record, error) {
	if x.lease == nil || x.lease.ends == nil {
		return rec, ended
	}
	x.lease.still()
	s := &x.lease.state
	s.Holder, s.Renewed, s.Crashes = "", time.Time{}, 0
	if now := x.env.now(); x.settled || x.repeated {
		if s.Seen++; x.settled {
			s.Seen, s.First = 1, now
		}
		s.Answered(x.ev.ID, x.ev.Failure.Event.ResourceVersion, now)
		s.Last, s.Errors, s.Wait = now, x.rec.Errors, x.rec.Wait
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := x.lease.put(ctx)
	if err != nil && x.repeated {
		rec.Result, rec.Wait = event.Waiting, max(rec.Wait, time.Second)
		return rec, errors.Join(ended, fmt.Errorf("note that the run ended as the one before: %w", err))
	}
	if err != nil && !errors.Is(err, stream.ErrConflict) {
		x.log.Warn("a lease stays until it runs out", "key", x.lease.key, "error", err)
	}
	return rec, ended
}

// last returns when a run last ended as the record says.
func (l *lease) last(rec event.Record) time.Time {
	if l != nil && l.state.Last.After(rec.At) {
		return l.state.Last
	}
	return rec.At
}

// errors returns how many runs before this one have ended with an error, in a row. A
// question that errors have led to stands while they come back.
func (l *lease) errors(prev event.Record, env *Env) int {
	switch {
	case prev.Phase == "", prev.Phase == event.Settled && final(prev.Result) && (prev.Error == "" || env.since(l.last(prev)) >= stale):
		return 0
	case l != nil && l.state.Last.After(prev.At):
		return l.state.Errors
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
	if x.prev.Phase != event.Settled || x.journalled || r.Worked() || r == event.Unsettled || r == event.Undone {
		return false
	}
	now := x.rec
	now.Result = r
	return sameEnd(x.prev, now)
}

// digits are what may change in a sentence that says the same again.
var digits = regex.New(`[0-9]+`)

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
	fmt.Fprintln(h, r.Result, r.Reason, r.Held, r.Digest, r.Cause, r.Risk, r.Mode, r.Muted, r.Impact, r.Attempt, r.Next, steps, r.Undoing,
		r.Written.UnixNano(), r.Since.UnixNano(), r.Approved != nil)
	for _, said := range []string{r.Finding, r.Ask, r.Note, r.Rule, r.Error} {
		fmt.Fprintln(h, digits().ReplaceAllString(said, "#"))
	}
	return hex.EncodeToString(h.Sum(nil))
}
