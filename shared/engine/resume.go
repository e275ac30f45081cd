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
)

// unread ends a run that can't read the document: one that no version of
// this program can read blocks the object, and asking each second won't help.
var unread = event.Record{Run: event.Run{Result: event.Waiting}, Outcome: event.Outcome{Wait: time.Minute}}

// load reads what is known of the object.
func (x *run) load(ctx context.Context) (err error) {
	if x.object, err = readObject(ctx, x.env, x.ev.Failure.Service.UID, x.r.Class, x.log); err != nil {
		return fmt.Errorf("read what is known of the object: %w", err)
	}
	x.prev = x.object.record()
	return nil
}

// last returns when a run last ended as the record of the class says.
func (x *run) last() time.Time {
	if x.object == nil {
		return x.prev.At
	}
	return x.object.mine().Since(x.prev).At
}

// errors returns how many runs before this one have ended with an error, in a row. A
// question that errors have led to stands while they come back.
func (x *run) errors() int {
	prev := x.prev
	switch {
	case prev.Phase == "", prev.Phase == event.Settled && final(prev.Result) && (prev.Error == "" || x.env.since(x.last()) >= stale):
		return 0
	case x.object != nil && x.object.mine().Last.After(prev.At):
		return x.object.mine().Errors
	}
	return prev.Errors
}

// What a run does after it has read the document.
type next int

const (
	afresh   next = iota // diagnose
	answered             // nothing: the document has the answer
	goOn                 // apply the rest of the steps
	prove                // all is written; look whether it worked
	takeBack             // it did not work, and the policy wants it undone
	refuse               // nothing: the document holds a plan that the class can't make
)

// A way is how a run goes on after it has read the document.
type way struct {
	next     next
	answer   event.Record // what the document says, of a run that is answered
	reserved bool         // the plan to go on with was parked until a moment that is its own
	stale    bool         // there is a plan which is too old to go on with
}

// resume decides from what was before how to go on, and begins the new record.
func (x *run) resume(ctx context.Context) (on way, err error) {
	prev := x.prev
	x.begin()
	x.sign()
	if prev.Phase == "" {
		return way{next: afresh}, nil
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
		left, err = x.object.busy(ctx)
	case parked && !prev.Done(), held && prev.Event == x.ev.ID && !x.ev.Again:
		left = prev.Wait - x.env.since(prev.At)
	}
	if left > 0 || err != nil {
		return later(left), err
	}
	switch {
	case prev.Held == event.TakenBack, prev.Undoing && !final(prev.Result):
		return way{next: takeBack}, nil
	case held || answerable(prev):
		return way{next: afresh}, nil
	case parked && prev.Done() && prev.Reason == event.ByCause:
		return way{next: afresh}, nil
	case (open || parked) && prev.Done():
		return x.take(prove), nil
	case (open || parked) && len(prev.Attempts) > 0 && x.env.since(prev.Attempts[len(prev.Attempts)-1]) > stale:
		return way{next: afresh, stale: true}, nil
	case open || parked:
		return x.take(goOn), nil
	case x.ev.Again:
		return way{next: afresh}, nil
	case (prev.Event == x.ev.ID || x.object.mine().Event == x.ev.ID) && prev.Result.Settled():
		return way{next: answered, answer: prev}, nil
	// The clock of the run that ended may have been ahead: what has failed since by NATS' clock is another failure.
	case prev.Result.Worked() && !x.ev.Failure.Last.After(prev.At) && !x.ev.Failure.Last.After(x.object.stored) && !x.ev.Failure.Last.IsZero():
		return way{next: answered, answer: prev}, nil
	}
	return way{next: afresh}, nil
}

// since returns how long ago a time was. A clock that jumped back must not make
// anything wait for longer than it was to wait: it is never negative.
func (e *Env) since(at time.Time) time.Duration { return max(0, e.now().Sub(at)) }

// begin starts the record of this run. An open case goes on under its ID; after
// one that ended, another begins.
func (x *run) begin() {
	prev, f := x.prev, x.ev.Failure
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
	x.rec.Errors = x.errors()
	switch {
	case prev.Phase == event.Settled && prev.Result == event.Undone:
		x.rec.Back = prev.At
	case !ended:
		x.rec.Back = prev.Back
	}
	x.rec.Since = x.waitsSince()
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
func (x *run) take(n next) way {
	prev := x.prev
	steps, err := x.r.Planned(x.env.Decode, prev)
	switch {
	case errors.Is(err, remedy.ErrUndeclared):
		x.log.Error("stored plan refused", "error", err)
		x.rec.SetFinding(say.F("The stored plan is not one that the class can make, and none of it was applied: %s.", err))
		x.rec.SetAsk(say.F("Find out who wrote it. The next failure of the Service is diagnosed from scratch."))
		return way{next: refuse}
	case err != nil:
		x.log.Error("stored step can't be read", "error", err)
		return way{next: afresh}
	}
	rec := prev
	rec.Event, rec.Message, rec.EventTime, rec.Who, rec.Person = x.rec.Event, x.rec.Message, x.rec.EventTime, x.env.Who, x.env.Person
	rec.Recorded, rec.Trace, rec.Opened, rec.Prior, rec.Began = x.rec.Recorded, x.rec.Trace, x.rec.Opened, x.rec.Prior, x.rec.Began
	rec.Timings, rec.Error, rec.Wait, rec.Result, rec.Reason = x.rec.Timings, "", 0, "", ""
	rec.Crashes, rec.Errors = x.rec.Crashes, x.rec.Errors // the document may have counted more than the record
	x.rec, x.steps, x.intent = rec, steps, true
	ended := prev.Phase == event.Settled
	if i := rec.Next; i < len(rec.Steps) {
		s := &rec.Steps[i]
		x.doubt, s.Unknown = x.object.mine().Doubt || x.ordered(i) || s.Unknown || slices.ContainsFunc(s.Calls, event.Call.Wrote), false
	}
	x.c.ID, x.c.Attempt = rec.Case, rec.Attempt
	return way{next: n, reserved: ended && prev.Reason == event.AfterOthers}
}

// ordered reports whether a step of the class's plan may have been ordered.
func (x *run) ordered(step int) bool {
	o := x.object.doc.Order
	return o != nil && o.Class == x.r.Class && !o.Undo && o.Attempt == x.prev.Attempt && o.Step == step
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
func (x *run) waitsSince() time.Time {
	if idle(x.prev) || lasting(x.prev) && x.env.since(x.last()) < stale {
		return x.prev.Since
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
