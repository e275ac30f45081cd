package engine

import (
	"context"
	"slices"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/machine"
	"github.com/lbremedy/lbremedy/shared/say"
)

// tell writes the machine's decision, made on the document was, into the document for people and hands.
func (x *run) tell(ctx context.Context, was machine.Doc) error {
	d := x.object
	mine := x.object.Decided()
	fresh := slices.Clone(d.State.Outbox[min(len(was.Outbox), len(d.State.Outbox)):])
	d.State.Outbox = d.State.Outbox[:len(d.State.Outbox)-len(fresh)]
	for class := range d.Cases {
		d.Keep(class, d.Record(class))
	}
	rested := x.began && !x.rested && d.State.Holder == ""
	noted := false
	for _, e := range fresh {
		var err error
		switch {
		case e.Code == string(machine.Crashed):
			if err = x.tellCrash(e); err == nil && e.Class == x.r.Class { // any class's run may take over the document
				x.rec, noted = *d.Case(e.Class).Record, true
			}
		case e.Code == "planned":
			x.intend(mine)
			err = x.append(e, event.Intent)
		case e.Code == "made":
			err = x.tellMade(e, mine)
		case e.Code == "unmade" || e.Code == "passed":
			x.rec.Next = min(x.rec.Next+1, len(x.rec.Steps))
			err = x.append(e, event.Step)
		default:
			err, noted = x.rests(ctx, &e, mine), true
		}
		if err != nil {
			return err
		}
	}
	if rested && !noted {
		return x.rests(ctx, nil, mine)
	}
	return nil
}

func (x *run) intend(mine machine.Case) {
	rec := &x.rec
	rec.Attempt, rec.Hash = mine.Attempt, x.c.Service.Labels[ccm.HashLabel]
	rec.Next, rec.Written, rec.Left, rec.Back = 0, time.Time{}, ccm.SpecDigest(x.c.Service), time.Time{}
	rec.Decided = rec.Rule
	x.c.Attempt = mine.Attempt
	x.clock = x.env.Time()
	x.into, x.intended = &rec.Timings.Apply, true
}

func (x *run) tellMade(e machine.Entry, mine machine.Case) error {
	if x.rec.Attempt != e.Attempt || x.rec.Undoing || e.Step >= len(x.rec.Steps) { // its plan was given up while this was in doubt
		for _, done := range x.object.Mine().Done {
			if done.Attempt == e.Attempt {
				rec := x.rec
				x.rec = done
				err := x.append(e, event.Step)
				x.rec = rec
				return err
			}
		}
		return nil
	}
	rec := &x.rec
	rec.Written, rec.Left, rec.Answers = x.env.Time(), ccm.SpecDigest(x.c.Service), x.failed
	made := &rec.Steps[e.Step]
	if made.Began.IsZero() { // an earlier run has made it
		made.Began = rec.Written
	}
	made.Ended, made.Found, made.Unknown = rec.Written, !x.checked && !slices.ContainsFunc(made.Calls, event.Call.Wrote), false
	x.checked = false
	rec.Next = e.Step + 1
	return x.append(e, event.Step)
}

func (x *run) tellCrash(e machine.Entry) error {
	rec := x.object.Record(e.Class)
	if rec.Phase == "" {
		rec = x.rec
		rec.Class = e.Class
	}
	rec.Phase, rec.Result, rec.At, rec.Wait, rec.Error, rec.Held, rec.Reason = event.Settled, event.Failed, x.env.Time(), 0, "", "", ""
	if e.Class == x.r.Class {
		rec.Event, rec.EventTime, rec.Message = x.ev.ID, x.ev.Failure.Last, x.ev.Failure.Message
	}
	rec.Crashes = x.object.State.Case(e.Class).Crashes
	rec.Finding = say.F("%d consecutive runs on this event did not finish.", rec.Crashes)
	rec.Ask = say.F("Check the log of lbremedy up for why it stopped, then replay the event.")
	x.object.Case(e.Class).Wait = x.object.State.Case(e.Class).Wait.Until.Sub(x.at)
	x.object.State.Outbox = append(x.object.State.Outbox, e)
	return x.object.Append(rec)
}

// append puts the current record into the document, with its entry of the machine's outbox.
func (x *run) append(e machine.Entry, phase event.Phase) error {
	rec := &x.rec
	rec.Phase, rec.At = phase, x.env.Time()
	if mine := x.object.State.Case(x.r.Class); mine != nil {
		rec.Attempts = slices.Clone(mine.Attempts)
	}
	if x.stored {
		rec.Reads = nil
	}
	switch {
	case !rec.Idle() && !rec.Lasting() && phase == event.Settled:
		rec.Since = time.Time{}
	case rec.Idle() && rec.Since.IsZero() && rec.Error == "":
		rec.Since = rec.At
	}
	if phase == event.Settled {
		rec.Crashes = 0
	}
	x.object.State.Outbox = append(x.object.State.Outbox, e)
	if err := x.object.Append(*rec); err != nil {
		return err
	}
	x.recorded, x.stored = true, true
	return nil
}

// rests puts into the document how the run ends, with the machine's entry, if any.
func (x *run) rests(ctx context.Context, e *machine.Entry, mine machine.Case) error {
	rec := &x.rec
	x.rested = true
	if x.into != nil {
		x.lap(x.into)
	}
	x.concludes(mine)
	rec.Impact = ""
	switch rec.Result {
	case event.Asked, event.Failed, event.Planned:
		rec.Impact = x.impact(ctx)
	case event.Waiting:
		if rec.Held != "" {
			rec.Impact = x.impact(ctx)
		}
	}
	switch {
	case x.unclear:
	case rec.Error != "":
		rec.Errors++
	default:
		rec.Errors = 0
	}
	if rec.Result != event.Waiting && len(rec.Decided) > 0 {
		rec.Rule = rec.Decided // it no longer waits
	}
	if o := x.object.State.Order; o != nil && o.Class == x.r.Class && !o.Undo && o.Attempt == rec.Attempt && o.Step < len(rec.Steps) {
		rec.Steps[o.Step].Unknown = true
	}
	c, now, version := x.object.Mine(), x.env.Time(), x.ev.Failure.Event.ResourceVersion
	if x.repeats() {
		rec.Case, rec.First, rec.Phase, rec.At, rec.Repeats = x.prev.Case, x.prev.First, event.Settled, now, true
		c.Ended(*rec, version, now)
		return nil
	}
	if !x.recorded && !x.ev.Again && rec.Error == "" && !x.person { // errors have a pace of their own
		used, wait := c.Uses(now)
		if wait > 0 {
			x.log.Warn("the failure ends in one way after the other, and how this run has ended is not recorded", "outcome", rec.Result, "again", wait)
			rec.Result, rec.Wait, rec.Phase = event.Waiting, wait, event.Settled
			x.object.State.Case(x.r.Class).Event = "" // the failure is not answered yet
			return nil
		}
		c.Used = used
	}
	if e == nil {
		e = &machine.Entry{Class: x.r.Class, Attempt: mine.Attempt, Code: string(mine.State)}
	}
	c.Ended(*rec, version, now)
	return x.append(*e, event.Settled)
}

func (x *run) concludes(mine machine.Case) {
	rec := &x.rec
	result := rec.Result
	rec.Wait = 0
	switch mine.State {
	case machine.Idle:
		rec.Result = event.Result(mine.Outcome)
		if rec.Held = ""; mine.Outcome == machine.Undone {
			rec.Undoing = true
		}
		return
	case machine.Asked:
		x.question(mine, result)
	default:
		x.waits(mine)
	}
	// For a plan that ended without a step, the record shows only which step failed.
	if x.dropped || mine.Plan == nil && rec.Error != "" && !x.intended && !rec.Undoing {
		rec.Steps, rec.Next = nil, 0
	}
}

func (x *run) waits(mine machine.Case) {
	rec := &x.rec
	rec.Result, rec.Wait = event.Waiting, max(time.Second, mine.Wait.Until.Sub(x.at))
	why := mine.Wait.Why
	switch why {
	case machine.ForPause, machine.ForPlace, machine.ForPolicy, machine.ForStep, machine.ForSync:
		if x.held != nil {
			rec.Rule = x.held.rule
		}
	}
	switch why {
	case machine.ForPause, machine.ForPlace:
		if mine.Plan != nil {
			rec.Held, rec.Reason = "", event.ForPolicy
		} else if x.held != nil {
			rec.Held = x.held.by
		}
	case machine.ForPolicy:
		rec.Reason = event.ForPolicy
	case machine.ForSync:
		if rec.Reason != event.ByCause {
			rec.Reason = event.ForSync
		}
	case machine.ForRetry:
		if len(x.unsettled) > 0 && mine.Undo != nil {
			rec.Note = rec.Note.Then(x.unsettled)
			rec.Ask = rec.Ask.Then(say.F("%d attempts did not end the failure. Find out why. lbremedy makes no further attempt.", len(mine.Attempts)))
			rec.Rule = say.F("The policy undoes fixes that did not work.")
		} else if len(x.unsettled) > 0 {
			rec.Result = event.Unsettled
			rec.Note = rec.Note.Then(x.unsettled)
		}
	case machine.ForOther:
		rec.Rule = say.F("Another case is writing to the same target.")
	case machine.ForAnswer:
		rec.Reason = event.ForStep
	}
	if mine.Undo != nil && why != machine.ForPause {
		rec.Held = event.TakenBack
	}
}

func (x *run) question(mine machine.Case, result event.Result) {
	rec := &x.rec
	switch mine.Outcome {
	case machine.NeedsApproval:
		rec.Result = event.Asked
		rec.Ask = rec.Ask.Then(x.approval(x.want))
	case machine.Spent:
		rec.Result = event.Failed
		if len(x.unsettled) > 0 {
			rec.Note = rec.Note.Then(x.unsettled)
		}
		rec.Rule = say.F("The limit is %d attempts per Service and class in 24 hours.", x.c.Policy.Budgets.Tries())
		rec.Ask = rec.Ask.Then(x.spent())
	case machine.Lasts:
		x.asksWhatLasts(mine)
	case machine.Stopped, machine.Drift, machine.Denied:
		x.asksAboutUndo(mine)
	case refused:
		rec.Result = event.Failed
	default:
		rec.Result = result
	}
}

// asksWhatLasts puts a person's question into the record after an hour without progress.
func (x *run) asksWhatLasts(mine machine.Case) {
	rec := &x.rec
	rec.Result = event.Asked
	switch mine.Wait.Why {
	case machine.ForCause:
		rec.Rule = say.F("The failure was expected to end without a fix but has lasted %s.", x.env.waited(*rec).Round(time.Minute))
		rec.Ask = rec.Ask.Then(say.F("Find out why it lasts."))
	case machine.ForUnknown:
		rec.Ask = say.F("Check the Service and its load balancer by hand.")
		if rec.Service.Kind != "" {
			rec.Ask = say.F("Check the nodes and their routes by hand.")
		}
	case machine.ForPlace:
		if x.held != nil {
			rec.Rule = x.held.rule
		}
		if rec.Service.Kind != "" { // it takes no Approval
			rec.Ask = rec.Ask.Then(say.F("The plan has waited for an hour. Raise the budget in the policy file."))
			return
		}
		rec.Ask = rec.Ask.Then(say.F("The plan has waited for an hour. Approve it: lbremedy approve %s. Or raise the budget in the policy file.", rec.Case))
	default:
		rec.Result = event.Failed
		rec.Ask = say.F("Fix the cause of the error, then replay the event.")
	}
}

// repeats reports whether the run has written nothing and ended as the last record says, which then covers it too.
func (x *run) repeats() bool {
	// After a person has closed the incident, a new record is needed.
	if x.object.Mine().Repeats == 0 || x.person || x.prev.Phase != event.Settled || x.recorded {
		return false
	}
	switch r := x.rec.Result; {
	case r.Worked(), r == event.Unsettled, r == event.Undone:
		return false
	}
	return x.prev.SameEnd(x.rec)
}

func (x *run) lap(into *time.Duration) {
	now := x.env.Time()
	*into += now.Sub(x.clock)
	x.clock, x.into = now, nil
}
