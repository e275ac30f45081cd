package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/machine"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// unread ends a run that can't read the document. An unreadable one blocks the object, and retrying each second would not help.
var unread = event.Record{Run: event.Run{Result: event.Waiting}, Outcome: event.Outcome{Wait: time.Minute}}

func (x *run) load(ctx context.Context) (err error) {
	if x.object, err = x.env.Documents().Read(ctx, x.ev.Failure.Service.UID, x.r.Class); err != nil {
		return fmt.Errorf("read what is known of the object: %w", err)
	}
	x.object.Mine() // creates the class's entry, which the machine decides on and the document shows
	x.object.Dry, x.prev = x.dry, x.object.Last()
	return nil
}

func (x *run) last() time.Time {
	if x.object == nil {
		return x.prev.At
	}
	return x.object.Mine().Since(x.prev).At
}

// since returns how long ago a time was, never negative: a clock that jumped back must not prolong a wait.
func (e *Env) since(at time.Time) time.Duration { return max(0, e.Time().Sub(at)) }

// begin starts the record of this run. An open case keeps its ID; after one that ended, a new case begins.
func (x *run) begin() {
	prev, f := x.prev, x.ev.Failure
	x.rec = event.Record{
		Origin: event.Origin{
			Case: event.CaseID(f.Service.UID, f.Last), Cluster: f.Cluster, Class: x.r.Class, Service: f.Service, Event: x.ev.ID, Message: f.Message, EventTime: f.Last,
			Recorded: f.Recorded, Trace: cmp.Or(f.Trace, event.TraceOf(f.Cluster, x.ev.ID)),
		},
		Run: event.Run{Who: x.env.Who, Person: x.env.Person, First: x.env.Time(), Began: x.clock},
	}
	if prev.Event == x.ev.ID && prev.Phase == event.Settled {
		x.rec.Prior = prev.At
	}
	for _, at := range x.object.Decided().Attempts {
		if x.env.since(at) < attemptsFor {
			x.rec.Attempts = append(x.rec.Attempts, at)
		}
	}
	ended := prev.Phase == "" || prev.Phase == event.Settled && prev.Result.Final()
	if !ended {
		x.rec.Case, x.rec.First = prev.Case, prev.First
		if opened := cmp.Or(prev.Opened, prev.Trace); event.TraceID(opened) != event.TraceID(x.rec.Trace) {
			x.rec.Opened = opened
		}
		x.rec.Errors = x.object.Mine().Errors
		ahead := prev.First.After(x.clock) // of another engine's clock: the attempts were read as made now
		x.tried = slices.ContainsFunc(x.rec.Attempts, func(at time.Time) bool { return ahead || !at.Before(prev.First) })
	}
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
	// Numbers go on after attempts are forgotten: a mark that the Service already has would trigger no sync.
	x.rec.Attempt = prev.Attempt
	x.c.ID, x.c.Attempt = x.rec.Case, x.object.Decided().Attempt+1
}

func (x *run) sign() {
	x.log = x.log.With("case", x.rec.Case)
}

// take takes a plan over from its record, which is data: a plan that the class could not make is an error.
func (x *run) take(mine machine.Case) error {
	prev := x.prev
	if prev.Attempt != mine.Attempt || len(prev.Steps) < mine.Plan.Steps {
		return fmt.Errorf("the record is not that of the plan: %w", remedy.ErrUndeclared)
	}
	steps, err := x.r.Planned(x.env.Decode, prev)
	if err != nil {
		return err
	}
	rec := prev
	rec.Event, rec.Message, rec.EventTime, rec.Who, rec.Person = x.rec.Event, x.rec.Message, x.rec.EventTime, x.env.Who, x.env.Person
	rec.Recorded, rec.Trace, rec.Opened, rec.Prior, rec.Began = x.rec.Recorded, x.rec.Trace, x.rec.Opened, x.rec.Prior, x.rec.Began
	rec.Timings, rec.Error, rec.Wait, rec.Result, rec.Reason, rec.Held = x.rec.Timings, "", 0, "", "", ""
	rec.Crashes, rec.Next, rec.Written = x.rec.Crashes, mine.Plan.Next, mine.Plan.Written
	x.rec, x.steps, x.taken, x.intended, x.resumed = rec, steps[:mine.Plan.Steps], true, true, true
	x.risk = riskOf(rec, x.steps)
	for i := range rec.Steps {
		rec.Steps[i].Unknown = false
	}
	x.c.ID, x.c.Attempt = rec.Case, rec.Attempt
	x.reserved = prev.Reason == event.AfterOthers
	return nil
}

// waitsSince returns since when the case of the last record waits, or zero.
func (x *run) waitsSince() time.Time {
	if x.prev.Idle() || x.prev.Lasting() && x.env.since(x.last()) < stale {
		return x.prev.Since
	}
	return time.Time{}
}

func (e *Env) waited(rec event.Record) time.Duration {
	if rec.Since.IsZero() {
		return 0
	}
	return e.since(rec.Since)
}
