package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// unread ends a run that can't read the journal: a record that no version of
// this program can read blocks the Service, and asking each second won't help.
var unread = event.Record{Run: event.Run{Result: event.Waiting}, Outcome: event.Outcome{Wait: time.Minute}}

// A history is what a run finds in the journal when it begins.
type history struct {
	prev  event.Record // the last record of the Service and class
	other event.Record // the last record of the Service, if it is another class's
}

// history reads what was before this run.
func (x *run) history(ctx context.Context) (h history, err error) {
	if h.prev, err = x.load(ctx); err != nil {
		return h, err
	}
	if other := x.journal.Other(); other != nil {
		if h.other, err = x.env.decode(ctx, *other, x.r.Class); err != nil {
			return h, err
		}
	}
	return h, nil
}

// load reads the last record of this Service and class, and what is known of the runs.
func (x *run) load(ctx context.Context) (event.Record, error) {
	var err error
	if x.lease, err = newLease(ctx, x.env, x.ev.Failure.Service.UID, x.r.Class, x.log); err != nil {
		return event.Record{}, err
	}
	last, err := x.journal.LoadSince(ctx, x.lease.knows())
	if err != nil {
		return event.Record{}, fmt.Errorf("read the journal: %w", err)
	}
	if last == nil {
		return event.Record{}, nil
	}
	x.stored = *last
	return x.env.decode(ctx, *last, x.r.Class)
}

// others returns the last record of the Service if it is another class's; the
// zero record if it is this one's.
func (e *Env) others(ctx context.Context, uid, class string) (event.Record, error) {
	last, err := e.Stream.Last(ctx, stream.Cases, event.CaseFilter(e.Cluster, uid))
	switch {
	case errors.Is(err, stream.ErrNotFound):
		return event.Record{}, nil
	case err != nil:
		return event.Record{}, fmt.Errorf("read the journal: %w", err)
	case last.Subject == event.CaseSubject(e.Cluster, uid, class):
		return event.Record{}, nil
	}
	return e.decode(ctx, last, class)
}

// writing returns for how long the run that wrote the record may still be writing.
func (e *Env) writing(rec event.Record) time.Duration {
	if !applies(rec) {
		return 0
	}
	return e.bound() - e.since(rec.At)
}

// applies reports whether the run that wrote the record has steps to make.
func applies(rec event.Record) bool {
	return (rec.Phase == event.Intent || rec.Phase == event.Step) && !rec.Done()
}

// decode reads a record for a class, with a time that is not in the future, and that of a run which may be writing is by NATS' clock.
func (e *Env) decode(ctx context.Context, m stream.Message, class string) (event.Record, error) {
	rec, err := decode(m)
	switch {
	case err != nil:
	case applies(rec):
		rec.At, err = e.heard(ctx, class, rec.At, m.Time)
	default:
		rec.At = e.told(rec.At, m.Time)
	}
	return rec, err
}

// heard returns when NATS heard of a run that has not ended, in the time of this machine. Whether that run is dead is told
// by one clock, that of NATS: neither its own nor this one's need be right. Where the class has no consumer, and none but
// people run it, there is nobody to ask for NATS' time, and it is as told says.
func (e *Env) heard(ctx context.Context, class string, at, heard time.Time) (time.Time, error) {
	now, err := e.Stream.Now(ctx, e.Cluster, class)
	switch {
	case errors.Is(err, stream.ErrNotFound):
		return e.told(at, heard), nil
	case err != nil:
		return time.Time{}, fmt.Errorf("find out how long a run has said nothing: %w", err)
	}
	return e.now().Add(-max(0, now.Sub(heard))), nil
}

// told returns a time that another run has told, or when NATS heard it if it lies in the future:
// the clock of that run, or this one's, is wrong then. Who had the other's clock would wait until
// this one has caught up for a run that died.
func (e *Env) told(at, heard time.Time) time.Time {
	if at.After(e.now()) && heard.Before(at) {
		return heard
	}
	return at
}

func decode(m stream.Message) (event.Record, error) {
	rec, err := event.DecodeRecord(m.Subject, m.Header, m.Data)
	if err != nil {
		return event.Record{}, fmt.Errorf("read the journal: %w", err)
	}
	return rec, nil
}

// What a run does after it has read the journal.
type next int

const (
	afresh   next = iota // diagnose
	answered             // nothing: the journal has the answer
	goOn                 // apply the rest of the steps
	prove                // all is written; look whether it worked
	takeBack             // it did not work, and the policy wants it undone
	refuse               // nothing: the journal holds what is no plan of the class
)

// A way is how a run goes on after it has read the journal.
type way struct {
	next     next
	answer   event.Record // what the journal says, of a run that is answered
	reserved bool         // the plan to go on with was parked until a moment that is its own
	stale    bool         // there is a plan which is too old to go on with
}

// resume decides from what was before how to go on, and begins the new record.
func (x *run) resume(h history) way {
	prev := h.prev
	x.begin(prev)
	x.sign()
	if prev.Phase == "" {
		return way{next: afresh}
	}
	later := func(d time.Duration) way {
		prev.Result, prev.Wait = event.Waiting, max(d, time.Second)
		return way{next: answered, answer: prev}
	}
	open := prev.Phase == event.Intent || prev.Phase == event.Step
	held := prev.Phase == event.Settled && prev.Held != ""
	parked := prev.Phase == event.Settled && prev.Result == event.Waiting && len(prev.Steps) > 0 && !held
	var left time.Duration // until the run that wrote prev, or what it waits for, is over
	switch {
	case open && !prev.Done():
		left = x.env.writing(prev)
	case parked && !prev.Done(), held && prev.Event == x.ev.ID && !x.ev.Again:
		left = prev.Wait - x.env.since(prev.At)
	}
	if left > 0 {
		return later(left)
	}
	switch {
	case prev.Held == event.TakenBack, prev.Undoing && !final(prev.Result):
		return way{next: takeBack}
	case held || answerable(prev):
		return way{next: afresh}
	case parked && prev.Done() && prev.Reason == event.ByCause:
		return way{next: afresh}
	case (open || parked) && prev.Done():
		return x.take(prev, prove)
	case (open || parked) && len(prev.Attempts) > 0 && x.env.since(prev.Attempts[len(prev.Attempts)-1]) > stale:
		return way{next: afresh, stale: true}
	case open || parked:
		return x.take(prev, goOn)
	case x.ev.Again:
		return way{next: afresh}
	case (prev.Event == x.ev.ID || x.lease.state.Event == x.ev.ID) && prev.Result.Settled():
		return way{next: answered, answer: prev}
	// The clock of the run that ended may have been ahead: what has failed since by NATS' clock is another failure.
	case prev.Result.Worked() && !x.ev.Failure.Last.After(prev.At) && !x.ev.Failure.Last.After(x.stored.Time) && !x.ev.Failure.Last.IsZero():
		return way{next: answered, answer: prev}
	}
	return way{next: afresh}
}

// since returns how long ago a time was. A clock that jumped back must not make
// anything wait for longer than it was to wait: it is never negative.
func (e *Env) since(at time.Time) time.Duration { return max(0, e.now().Sub(at)) }

// begin starts the record of this run. An open case goes on under its ID; after
// one that ended, another begins.
func (x *run) begin(prev event.Record) {
	f := x.ev.Failure
	x.rec = event.Record{
		Origin: event.Origin{
			Case: caseID(f), Cluster: f.Cluster, Class: x.r.Class, Service: f.Service, Event: x.ev.ID, Message: f.Message, EventTime: f.Last,
			Recorded: f.Recorded, Trace: cmp.Or(f.Trace, event.TraceOf(f.Cluster, x.ev.ID)),
		},
		Run: event.Run{Who: x.env.Who, Person: x.env.Person, First: x.env.now(), Began: x.clock},
	}
	if prev.Event == x.ev.ID && prev.Phase == event.Settled {
		x.rec.Prior = prev.At
	}
	for _, at := range prev.Attempts {
		if x.env.since(at) < attemptsFor {
			x.rec.Attempts = append(x.rec.Attempts, at)
		}
	}
	ended := prev.Phase == "" || prev.Phase == event.Settled && final(prev.Result)
	if !ended {
		x.rec.Case, x.rec.First = prev.Case, prev.First
		if opened := cmp.Or(prev.Opened, prev.Trace); event.TraceID(opened) != event.TraceID(x.rec.Trace) {
			x.rec.Opened = opened
		}
		x.tried = slices.ContainsFunc(x.rec.Attempts, func(at time.Time) bool { return !at.Before(prev.First) })
	}
	x.rec.Errors = x.lease.errors(prev, x.env)
	switch {
	case prev.Phase == event.Settled && prev.Result == event.Undone:
		x.rec.Back = prev.At
	case !ended:
		x.rec.Back = prev.Back
	}
	x.rec.Since = x.waitsSince(prev)
	if !f.Last.IsZero() {
		x.rec.Timings.Queue = x.env.since(f.Last)
	}
	// Numbers go on where attempts are forgotten: a mark that the Service bears
	// already would wake nobody.
	x.rec.Attempt = prev.Attempt
	x.c.ID, x.c.Attempt = x.rec.Case, max(prev.Attempt, len(x.rec.Attempts))+1
}

// caseID returns the ID of the case that begins with this failure.
func caseID(f event.Failure) string {
	uid := f.Service.UID
	if len(uid) > 8 {
		uid = uid[:8]
	}
	return fmt.Sprintf("%s-%s", uid, f.Last.UTC().Format("20060102T150405"))
}

// sign lets all further lines of the log bear the case.
func (x *run) sign() {
	x.log = x.log.With("case", x.rec.Case)
}

func final(r event.Result) bool {
	switch r {
	case event.Gone, event.Superseded, event.Fixed, event.Synced, event.Foreign, event.Failed, event.Undone:
		return true
	}
	return false
}

// take takes a plan over from the record that it stands in. What stands there is data:
// what is no plan of the class is refused.
func (x *run) take(prev event.Record, n next) way {
	steps, err := x.r.Planned(x.env.Decode, prev)
	switch {
	case errors.Is(err, remedy.ErrUndeclared):
		x.log.Error("journalled plan refused", "error", err)
		x.rec.SetFinding(say.F("The plan in the journal is not one that the class can make, and none of it was applied: %s.", err))
		x.rec.SetAsk(say.F("Find out who wrote it. The next failure of the Service is diagnosed from scratch."))
		return way{next: refuse}
	case err != nil:
		x.log.Error("journalled step can't be read", "error", err)
		return way{next: afresh}
	}
	rec := prev
	rec.Event, rec.Message, rec.EventTime, rec.Who, rec.Person = x.rec.Event, x.rec.Message, x.rec.EventTime, x.env.Who, x.env.Person
	rec.Recorded, rec.Trace, rec.Opened, rec.Prior, rec.Began = x.rec.Recorded, x.rec.Trace, x.rec.Opened, x.rec.Prior, x.rec.Began
	rec.Timings, rec.Error, rec.Wait, rec.Result, rec.Reason = x.rec.Timings, "", 0, "", ""
	rec.Crashes, rec.Errors = x.rec.Crashes, x.rec.Errors // the lease may have counted more than the record
	x.rec, x.steps, x.intent = rec, steps, true
	ended := prev.Phase == event.Settled
	if i := rec.Next; i < len(rec.Steps) {
		s := &rec.Steps[i]
		x.doubt, s.Unknown = !ended || s.Unknown || slices.ContainsFunc(s.Calls, event.Call.Wrote), false
	}
	x.c.ID, x.c.Attempt = rec.Case, rec.Attempt
	return way{next: n, reserved: ended && prev.Reason == event.AfterOthers}
}

// idle reports whether the record is one of a case that waits and writes nothing.
func idle(rec event.Record) bool {
	return rec.Phase == event.Settled && rec.Result == event.Waiting && (len(rec.Steps) == 0 || rec.Held != "")
}

// lasting reports whether the record is one of a case that has asked because it
// waited in vain. It need not wait again as long as its failure comes back.
func lasting(rec event.Record) bool {
	return rec.Phase == event.Settled && rec.Result == event.Asked && !rec.Since.IsZero()
}

// waitsSince returns since when the case waits whose last record this is; zero if
// it doesn't.
func (x *run) waitsSince(prev event.Record) time.Time {
	if idle(prev) || lasting(prev) && x.env.since(x.lease.last(prev)) < stale {
		return prev.Since
	}
	return time.Time{}
}

// waited returns for how long the case has waited with nothing to write.
func (e *Env) waited(rec event.Record) time.Duration {
	if rec.Since.IsZero() {
		return 0
	}
	return e.since(rec.Since)
}
