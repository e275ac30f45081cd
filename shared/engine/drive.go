package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/machine"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

func (x *run) phases(ctx context.Context) (event.Record, error) {
	if err := x.load(ctx); err != nil {
		return unread, err
	}
	x.begin()
	x.sign()
	x.lap(&x.rec.Timings.Resume)
	mine := x.object.Decided()
	if mine.State == machine.Waiting && x.object.State.Holder == "" && !x.ev.Again && x.env.since(x.last()) < heldRecheck {
		if h := x.stillHeld(ctx); h != nil { // the document says so already
			x.rec.Result, x.rec.Held, x.rec.Wait, x.rec.Undoing = event.Waiting, h.by, h.wait, mine.Undo != nil
			x.rec.Rule = h.rule
			return x.rec, nil
		}
	}
	lives, err := x.object.Lives(ctx)
	if err != nil {
		return unread, err
	}
	x.lives = lives
	if lives && x.object.State.Order == nil {
		x.env.Engine.Ask(x.object.Key)
	}
	at := x.ev.Failure.Last
	return x.drive(ctx, machine.Delivered{
		Event: x.ev.ID, Lives: lives, Again: x.ev.Again || answerable(x.prev),
		// The clock of the previous run may have been ahead: what has failed since, by the clock of NATS, is another failure.
		Old: x.prev.Result.Worked() && !at.IsZero() && !at.After(x.prev.At) && !at.After(x.object.Stored),
	})
}

// drive has the machine decide on a report and performs the effects, until one ends the run.
func (x *run) drive(ctx context.Context, report machine.Report) (event.Record, error) {
	for {
		was := x.object.State
		x.at = x.env.Time()
		now, effects := machine.Next(was, machine.Input{
			Now: x.at, Engine: x.engine(), Nonce: rand.Text(), Class: x.r.Class, Person: x.person, Report: report,
		})
		if len(effects) == 0 {
			return x.rec, fmt.Errorf("%T was not expected of a case that is %s", report, x.object.Decided().State)
		}
		if !x.began && !x.lives && now.Holder == x.engine() {
			if wait, err := x.object.Enter(ctx, x.env.bound()); err != nil {
				return unread, err
			} else if wait > 0 {
				return x.later(wait)
			}
			x.began = true
			if c := now.Case(x.r.Class); c.Plan != nil {
				x.refusal = x.take(*c)
			}
			if len(was.Outbox) > 0 {
				err := x.object.Flush(ctx)
				if err == nil {
					continue // the next decision sees a document without the records that CASES has now
				}
				x.log.Warn("CASES lacks a record of the object", "error", err) // guard tries again before anything is written
			}
		}
		x.object.State = now
		if x.began && x.rec.Crashes == 0 {
			x.rec.Crashes = x.object.Decided().Crashes
		}
		if err := x.tell(ctx, was); err != nil {
			return x.rec, err
		}
		report = nil
		for _, effect := range effects {
			var end bool
			var err error
			if report, end, err = x.perform(ctx, effect); end {
				return x.ends(ctx, effect, err)
			}
		}
	}
}

func (x *run) engine() string {
	if x.env.Engine == nil {
		return "nobody" // it only looks
	}
	return x.env.Engine.Name()
}

// perform carries out an effect. report is what it found out; end means that the run ends with it.
func (x *run) perform(ctx context.Context, effect machine.Effect) (report machine.Report, end bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			report, end, err = x.found(hand.Panicked(p, x.r.Class, x.log)), false, nil
			switch effect.(type) {
			case machine.Send:
				report = machine.Applied{ID: x.object.State.Order.ID, Result: machine.Unsure}
			case machine.Guard:
				report = machine.Guarded{Failed: true}
			}
		}
	}()
	switch effect.(type) {
	case machine.Store, machine.Flush: // how a run ends that is out of time
		if x.began && ctx.Err() != nil {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
		}
	}
	switch e := effect.(type) {
	case machine.Store:
		err := x.object.Store(ctx)
		return nil, err != nil, err
	case machine.Flush:
		err := x.object.Flush(ctx)
		if err != nil {
			x.cause = err
		}
		return machine.Flushed{OK: err == nil}, false, nil
	case machine.Look:
		switch e.For {
		case machine.Diagnose:
			return x.diagnoses(ctx), false, nil
		case machine.Check:
			return x.checks(ctx, e), false, nil
		case machine.Bars:
			return x.bars(ctx), false, nil
		default:
			return x.proves(ctx), false, nil
		}
	case machine.Guard:
		return x.guard(ctx), false, nil
	case machine.Take:
		report := x.takes(ctx, e)
		return report, report == nil, nil
	case machine.Send:
		if x.dry && !e.Order.Undo {
			return nil, true, x.try(ctx, x.steps)
		}
		if e.Order.Undo {
			return x.restore(ctx, e.Order), false, nil
		}
		return x.send(ctx, e.Order), false, nil
	}
	return nil, true, nil // Return or Ack
}

// guard appends the records that CASES lacks, and reads what decides about a new plan or the order in the document.
func (x *run) guard(ctx context.Context) (g machine.Guarded) {
	order := x.object.State.Order
	if order != nil && !order.Undo {
		return x.permits(ctx)
	}
	if err := x.object.Flush(ctx); err != nil {
		x.fail(err)
		return machine.Guarded{Readable: true, Revision: x.object.Revision}
	}
	if order == nil {
		g = x.admits()
	} else {
		g = x.restores(ctx)
	}
	g.Journaled = true
	return g
}

// ends ends the run with an effect: a Return or an Ack, a Store that failed, or the first write of a look.
func (x *run) ends(ctx context.Context, effect machine.Effect, err error) (event.Record, error) {
	switch e := effect.(type) {
	case machine.Store:
		switch {
		case err != nil && x.rec.Repeats:
			// Only the document shows that the event was answered, and it was not stored: the event must be delivered again.
			x.rec.Result, x.rec.Wait = event.Waiting, max(x.rec.Wait, time.Second)
			return x.rec, fmt.Errorf("note that the run ended as the one before: %w", err)
		case errors.Is(err, stream.ErrConflict):
			return x.later(time.Second)
		case !x.recorded:
			return unread, err
		}
		return event.Record{}, err
	case machine.Take, machine.Send:
		if x.rec.Result == "" {
			x.rec.Result = event.Planned
		}
		return x.rec, err
	case machine.Return:
		if x.dry {
			return x.lookResult()
		}
		if !x.began {
			return x.asBefore(e.After), x.cause
		}
		if x.rec.Phase != event.Settled && x.rec.Result == "" {
			x.rec.Result = event.Waiting
		}
		x.rec.Wait = max(x.rec.Wait, e.After)
	case machine.Ack:
		if x.acked = true; x.dry {
			return x.lookResult()
		}
		if !x.began && x.rec.Phase != event.Settled {
			return x.prev, nil
		}
	}
	if err := x.object.Flush(ctx); err != nil {
		return x.rec, errors.Join(x.cause, err)
	}
	return x.rec, x.cause
}

// asBefore returns the record of a run that has not begun: the case waits, as its newest record says.
func (x *run) asBefore(wait time.Duration) event.Record {
	rec := x.prev
	if rec.Phase == "" {
		rec = x.rec
	}
	rec.Result, rec.Wait = event.Waiting, max(time.Second, wait)
	return rec
}

func (x *run) lookResult() (event.Record, error) {
	if !x.began {
		return x.under(), nil
	}
	x.rec.Phase = ""
	return x.rec, x.cause
}

func (x *run) later(d time.Duration) (event.Record, error) {
	x.rec.Result, x.rec.Wait = event.Waiting, d
	return x.rec, nil
}

func (x *run) leave() {
	if x.unlock != nil {
		x.unlock()
	}
	x.object.Leave()
}

func (x *run) found(err error) machine.Looked {
	x.fail(err)
	if unclear(err) {
		return machine.Looked{Answer: machine.Unread}
	}
	return machine.Looked{Answer: machine.Failed}
}

func (x *run) unguarded(err error) machine.Guarded {
	x.fail(err)
	if unclear(err) || errors.Is(err, stream.ErrConflict) {
		return machine.Guarded{}
	}
	return machine.Guarded{Failed: true}
}

func (x *run) fail(err error) {
	x.cause, x.unclear = err, unclear(err)
	x.rec.Error = event.Redact(err.Error())
}

func (x *run) diagnoses(ctx context.Context) machine.Report {
	if x.taken || x.undoer != nil { // the plan is over, and the failure is looked at again
		first := x.rec
		x.prev = x.object.Last()
		x.begin()
		x.rec.First, x.rec.Crashes = first.First, first.Crashes
		x.taken, x.undoer, x.steps = false, nil, nil
	}
	plan, ended, err := x.diagnose(ctx)
	switch {
	case err != nil:
		return x.found(err)
	case !ended:
		x.plan = plan
		return x.decide(plan)
	case x.rec.Result == event.Waiting:
		return machine.Looked{Answer: machine.Unknown, After: x.rec.Wait}
	case x.rec.Result == event.Superseded:
		return machine.Looked{Answer: machine.Superseded, Outcome: machine.Outcome(event.Superseded)}
	}
	return machine.Looked{Answer: machine.Gone, Outcome: machine.Outcome(x.rec.Result)}
}

func (x *run) checks(ctx context.Context, e machine.Look) machine.Report {
	step, err := x.ordered()
	if err != nil {
		return x.refused(err)
	}
	if over, err := x.readService(ctx); err != nil {
		return x.found(err)
	} else if len(over) > 0 {
		return machine.Looked{Answer: machine.Gone, Outcome: x.gone(over)}
	}
	a, err := x.ask(ctx, hand.Check, e.Undo, step)
	switch {
	case errors.Is(err, hand.ErrNotFound): // its target is gone
		return machine.Looked{Answer: machine.Unmade}
	case err != nil:
		return x.found(fmt.Errorf("check step %d: %w", e.Step+1, err))
	case a.State == hand.Found:
		x.checked = true
		return machine.Looked{Answer: machine.Made}
	case a.State == hand.Moved:
		x.drifted(step)
		return machine.Looked{Answer: machine.Drifted}
	}
	return machine.Looked{Answer: machine.Unmade}
}

func (x *run) ordered() (remedy.Step, error) {
	o := x.object.State.Order
	rec := x.prev
	if rec.Attempt != o.Attempt || rec.Undoing || o.Step >= len(rec.Steps) {
		for _, done := range x.object.Mine().Done {
			if done.Attempt == o.Attempt {
				rec = done
			}
		}
	}
	steps, err := x.r.Planned(x.env.Decode, rec)
	if err == nil && (rec.Attempt != o.Attempt || o.Step >= len(steps)) {
		err = fmt.Errorf("the step of the order is not in the document: %w", remedy.ErrUndeclared)
	}
	if err != nil {
		return nil, err
	}
	return steps[o.Step], nil
}

const refused machine.Outcome = "refused"

func (x *run) refused(err error) machine.Looked {
	x.dropped = true
	if !errors.Is(err, remedy.ErrUndeclared) { // this release does not know the step
		x.log.Error("stored step can't be read", "error", err)
		return machine.Looked{Answer: machine.Drifted}
	}
	x.log.Error("stored plan refused", "error", err)
	x.rec.Finding = say.F("The stored plan is not one that the class can make, and none of it was applied: %s.", err)
	x.rec.Ask = say.F("Find out who wrote it. The next failure of the Service is diagnosed from scratch.")
	return machine.Looked{Answer: machine.Changed, Outcome: refused}
}

// gone returns how a case ends whose Service was deleted during a plan. A clean-up has worked if all of it is written.
func (x *run) gone(over say.Text) machine.Outcome {
	if x.r.Deleting && x.rec.Done() {
		return machine.Outcome(event.Fixed)
	}
	when := say.F("This happened before all steps of the plan were applied.")
	if x.rec.Done() {
		when = say.F("This happened after the write.")
	}
	x.rec.Note = x.rec.Note.Then(over.Then(when))
	return machine.Outcome(event.Gone)
}

func (x *run) drifted(s remedy.Step) {
	x.dropped = true
	x.rec.Note = x.rec.Note.Then(say.F("The target of the step %q has changed in the meantime. The case is diagnosed again.", s.Says()))
	x.rec.Error = event.Redact(fmt.Sprintf("%s: %s", s.Says(), remedy.ErrMoved))
}
