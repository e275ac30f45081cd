package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/machine"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// ErrNoUndo means that a record holds a step that can't be undone, or no longer can.
var ErrNoUndo = errors.New("it can't be undone")

// Undo undoes the steps of a case's attempts, as [document.Store.Applied] returns them, the last step first, and records it. It stops before
// the first step whose target is not as the plan left it, with an error that says where. Resync steps have nothing to undo; a step with
// nothing left to undo is Found. The error is ErrNoUndo for a value that no longer fits because a load balancer was created in the
// meantime. After an error and an empty record, nothing was written. Because a person ordered it, pauses, freezes and observe mode do not hold it back.
func Undo(ctx context.Context, env *Env, r *remedy.Remedy, applied []event.Record) (event.Record, error) {
	if _, err := undo(ctx, env, r, applied, true); err != nil { // an undo that can't begin leaves no record
		return event.Record{}, err
	}
	return undo(ctx, env, r, applied, false)
}

// LookUndo returns what Undo would do, and Undo's error, and writes nothing; the API server dry-runs the writes to the cluster. The record
// says what would be done before the error.
func LookUndo(ctx context.Context, env *Env, r *remedy.Remedy, applied []event.Record) (event.Record, error) {
	return undo(ctx, env, r, applied, true)
}

func undo(ctx context.Context, env *Env, r *remedy.Remedy, applied []event.Record, dry bool) (event.Record, error) {
	if len(applied) == 0 {
		return event.Record{}, errNothingApplied
	}
	env, stop := env.started(ctx)
	defer stop()
	rec := applied[0]
	ev := Event{ID: rec.Event, Failure: event.Failure{
		Cluster: rec.Cluster, Class: rec.Class, Service: rec.Service, Message: rec.Message, Last: rec.EventTime,
		Recorded: rec.Recorded, Trace: rec.Trace,
	}}
	return answer(ctx, env, r, ev, func(ctx context.Context, x *run) (event.Record, error) {
		x.dry, x.person = dry, true
		return x.takeBack(ctx, rec.Case)
	})
}

func (x *run) takeBack(ctx context.Context, id string) (out event.Record, err error) {
	if err := x.load(ctx); err != nil {
		return event.Record{}, err
	}
	made := x.object.Mine().Done
	open, planned := x.object.Plan(x.r.Class)
	if planned {
		made = append(slices.Clip(made), open)
	}
	own := 0
	for i, rec := range slices.Backward(made) {
		if rec.Case == id {
			own = len(made) - i
		} else if rec.Wrote() && own == 0 {
			return event.Record{}, say.Errorf("case %s can't be undone before case %s, which wrote later; if lbremedy can't undo that one, undo both by hand",
				id, rec.Case)
		} else if rec.Wrote() {
			break
		}
	}
	if planned && own > 0 {
		own-- // the machine counts it itself
	}
	x.begin()
	x.rec.Case, x.c.ID = id, id
	x.sign()
	if x.lives, err = x.object.Lives(ctx); err != nil {
		return event.Record{}, err
	}
	// The clock of an earlier request may have been ahead.
	request := max(uint64(x.env.Time().UnixNano()), x.object.Decided().Request+1)
	out, err = x.drive(ctx, machine.UndoAsked{Request: request, Lives: x.lives, Own: own})
	switch {
	case err != nil:
		return out, err
	case x.cause != nil:
		return out, x.cause
	case !x.began && x.acked:
		return event.Record{}, errNothingApplied
	case !x.began, out.Result == event.Waiting:
		wait := max(time.Second, out.Wait).Round(time.Second)
		return event.Record{}, fmt.Errorf("case %s: a run may be writing to the Service now; try again in %s", id, wait)
	case x.dry:
		out.Result, out.Next, out.Phase = event.Planned, 0, ""
	}
	return out, nil
}

var errNothingApplied = errors.New("no step was applied that can be undone")

type undoer struct {
	steps  []remedy.Step   // that undo, in order
	made   []remedy.Step   // what they undo, as the class declares it
	of     []place         // the attempt and the step of each
	maybe  map[int]bool    // steps that possibly have nothing to undo
	unsure map[string]bool // targets whose state a dry run no longer knows
	last   event.Record    // the last write of the case
	begun  bool            // its record is written
}

type place struct{ attempt, step int }

// reverse begins the record of an undo of the case's attempts, without the steps that are undone already.
func (x *run) reverse(ctx context.Context) error {
	if x.undoer != nil {
		return nil
	}
	mine := x.object.Decided()
	var applied []event.Record
	for _, done := range slices.Backward(x.object.Mine().Done[max(0, len(x.object.Mine().Done)-mine.Own):]) {
		applied = append(applied, done)
	}
	i := slices.IndexFunc(applied, event.Record.Wrote) // later cases only triggered a resync
	if i < 0 || x.person && applied[i].Case != x.rec.Case {
		return errNothingApplied
	}
	id := applied[i].Case
	if !x.person {
		first := x.rec
		x.prev = x.object.Last()
		x.begin()
		x.rec.First, x.rec.Crashes, x.rec.Held = first.First, first.Crashes, event.TakenBack
	}
	x.rec.Case, x.c.ID, x.rec.Undoing = id, id, true
	x.rec.Finding = say.F("Undo of %s: %s", id, applied[i].Finding)
	x.sign()
	v := &undoer{maybe: map[int]bool{}, unsure: map[string]bool{}, last: lastWrite(applied, x.prev)}
	x.undoer, x.unsettled, x.taken, x.reserved = v, nil, false, false
	if err := x.inverse(v, applied); err != nil {
		return err
	}
	x.steps = v.steps
	var err error
	if x.rec.Steps, err = remedy.Records(v.steps); err != nil {
		return err
	}
	for i := range x.rec.Steps {
		x.rec.Steps[i].Undo = nil // an undo is not undone
	}
	x.rec.Attempt, x.rec.Next, x.c.Attempt = mine.Attempt, 0, mine.Attempt
	return nil
}

// inverse works out the steps that undo attempts, the newest attempt's last step first, and notes which may have nothing to undo. The undo
// follows from the step; what a record says of it is for people.
func (x *run) inverse(v *undoer, applied []event.Record) error {
	for _, rec := range applied {
		planned, err := x.r.Planned(x.env.Decode, rec)
		if err != nil {
			return err
		}
		for i, s := range slices.Backward(planned[:len(rec.Made())]) {
			back, ok := s.Undo()
			switch {
			case rec.Steps[i].Found: // somebody else has made it and may need it
			case ok:
				v.maybe[len(v.steps)] = rec.Steps[i].Unknown
				v.steps, v.made, v.of = append(v.steps, back), append(v.made, s), append(v.of, place{rec.Attempt, i})
			case remedy.IsResync(s):
			case rec.Steps[i].Unknown:
				x.rec.Note = x.rec.Note.Then(say.F("Whether step %d was applied is unknown, and it cannot be undone: %s.", i+1, s.Says()))
			default:
				return fmt.Errorf("step %d, %s: %w", i+1, s.Says(), ErrNoUndo)
			}
		}
	}
	if len(v.steps) == 0 {
		return errNothingApplied
	}
	return nil
}

func (x *run) bars(ctx context.Context) machine.Report {
	drifted := func(err error) machine.Report {
		x.fail(fmt.Errorf("case %s: %w", x.rec.Case, err))
		return machine.Looked{Answer: machine.Drifted}
	}
	if err := x.reverse(ctx); err != nil {
		return drifted(err)
	}
	v := x.undoer
	over, err := x.undoPlace(ctx)
	switch {
	case err != nil:
		return x.found(err)
	case len(over) > 0:
		return machine.Looked{Answer: machine.Gone, Outcome: x.gone(over)}
	}
	if !x.person {
		works, err := x.works(ctx)
		if err != nil {
			return x.found(err)
		}
		if len(works) > 0 {
			return machine.Looked{Answer: machine.Works, Outcome: x.keepsFix(ctx, works)}
		}
	}
	if err := x.lockUndo(ctx); err != nil {
		return x.found(err)
	}
	for i, s := range v.made {
		a, failed := x.ask(ctx, hand.Check, true, s)
		err := x.reversible(i, a.State, a.Differs, failed)
		if v.maybe[i] && errors.Is(err, remedy.ErrMoved) && i < len(v.made)-1 {
			continue // a step that was possibly not made, and whose target has changed since, does not stop the others
		}
		if errors.Is(err, remedy.ErrMoved) {
			x.fail(err)
			return machine.Looked{Answer: machine.Drifted}
		}
		if err != nil {
			return x.found(err)
		}
		break
	}
	if x.r.Creates {
		switch a, err := x.ask(ctx, hand.Bars, true, v.made...); {
		case err != nil:
			return x.found(fmt.Errorf("case %s: look for a load balancer that rules the undo out: %w", x.rec.Case, err))
		case a.Bars != "":
			return drifted(fmt.Errorf("%w: %s", ErrNoUndo, a.Bars))
		}
	}
	return machine.Looked{Answer: machine.Clear}
}

// undoPlace reads the policy, which has settings for the hand, and the Service. over says why nothing is left to undo automatically; a
// person's undo of a deleted Service is an error.
func (x *run) undoPlace(ctx context.Context) (over say.Text, err error) {
	if x.c.Policy, err = x.env.policy(x.object.Since(ctx)); err != nil {
		return nil, err
	}
	x.c.Service = nil // a deleted one is not read
	over, around, err := x.readPlace(ctx)
	switch {
	case err != nil || len(over) > 0 && !x.person:
		return over, err
	case x.c.Service == nil || string(x.c.Service.UID) != x.rec.Service.UID:
		return nil, fmt.Errorf("case %s: the Service was deleted since", x.rec.Case)
	}
	x.stand(around)
	return nil, nil
}

func (x *run) lockUndo(ctx context.Context) error {
	held, err := x.lock(ctx, x.undoer.steps)
	if err == nil && !held {
		err = fmt.Errorf("case %s: another case is writing to the same target; try again in a minute", x.rec.Case)
	}
	return err
}

func (x *run) keepsFix(ctx context.Context, works say.Text) machine.Outcome {
	r, why, _ := x.traffic(ctx)
	x.rec.Steps, x.rec.Undoing, x.rec.Held = nil, false, ""
	x.rec.Finding = works
	x.rec.Note = x.rec.Note.Then(why)
	return machine.Outcome(r)
}

// reversible returns what keeps step i of an undo from being made in the state found, such as how the target differs from what the plan left.
func (x *run) reversible(i int, state hand.State, differs string, failed error) error {
	switch {
	case failed != nil && state == "":
		return fmt.Errorf("check undo %d: %w", i+1, failed)
	case state != hand.Moved:
		return nil
	case differs != "":
		differs = " " + differs
	}
	return fmt.Errorf("undo %d, %s: %w.%s", i+1, x.undoer.steps[i].Says(), remedy.ErrMoved, differs)
}

// restores reads what decides whether the order of an undo is sent. Only the document can hold back a person's undo.
func (x *run) restores(ctx context.Context) machine.Guarded {
	if err := x.reverse(ctx); err != nil {
		x.fail(err)
		return machine.Guarded{Failed: true}
	}
	out := machine.Guarded{Readable: true, Revision: x.object.Revision, Undoes: true, Permits: true, Place: true}
	if x.c.Service == nil || !x.person && !x.dry { // a dry run keeps the Service as its steps would leave it
		over, err := x.undoPlace(ctx)
		switch {
		case err != nil:
			return x.unguarded(err)
		case len(over) > 0:
			out.Over = x.gone(over)
			return out
		}
	}
	if err := x.lockUndo(ctx); err != nil { // an undo that goes on has lost its locks
		return x.unguarded(err)
	}
	if !x.undoer.begun {
		if err := x.opens(ctx); err != nil {
			return x.unguarded(err)
		}
		out.Revision = x.object.Revision
	}
	if x.dry {
		return out
	}
	if x.person {
		if err := x.object.Confirm(ctx); err != nil {
			return x.unguarded(err)
		}
		view, err := x.env.Stream.View(x.object.Since(ctx), x.object.Key)
		if err != nil {
			return x.unguarded(err)
		}
		out.Revision = view[x.object.Key].Revision
		return out
	}
	if x.rec.Written.IsZero() {
		works, err := x.works(ctx)
		if err != nil {
			return x.unguarded(err)
		}
		if len(works) > 0 {
			out.Over = x.keepsFix(ctx, works)
			return out
		}
	}
	if err := x.object.Confirm(ctx); err != nil {
		return x.unguarded(err)
	}
	g, err := x.guards(ctx, false)
	if err != nil {
		return x.unguarded(err)
	}
	x.c.Policy, out.Revision = g.policy, g.revision
	x.stand(x.around)
	ok, rule := x.permission(g.policy).Allows(x.r, remedy.Plan{Steps: x.undoer.steps[x.rec.Next:]}.Highest(), nil)
	if ok && !g.policy.TakeBack {
		ok, rule = false, say.F("The policy does not undo fixes automatically.")
	}
	if out.Undoes = ok; !ok {
		x.rec.Rule = rule
	}
	if h := x.env.held(g.pause, g.policy); h != nil {
		x.held, out.Paused, out.Hold = h, true, h.wait
	}
	return out
}

// opens keeps a snapshot and the record of an undo that begins; a dry run only reads what the snapshot holds.
func (x *run) opens(ctx context.Context) error {
	v := x.undoer
	risk := remedy.Plan{Steps: v.steps}.Highest()
	v.begun = true
	if err := x.preserve(ctx, risk, v.made, true); err != nil || x.dry {
		v.begun = x.dry
		return err
	}
	x.rec.Hash = x.c.Service.Labels[ccm.HashLabel]
	x.clock, x.into = x.env.Time(), &x.rec.Timings.Apply
	if err := x.append(machine.Entry{Class: x.r.Class, Attempt: x.rec.Attempt, Code: "undoing"}, event.Intent); err != nil {
		return err
	}
	if err := x.object.Store(ctx); err != nil {
		return err
	}
	return x.object.Flush(ctx)
}

func (x *run) restore(ctx context.Context, o machine.Order) machine.Report {
	v, out := x.undoer, machine.Applied{ID: o.ID}
	i := slices.Index(v.of, place{o.Attempt, o.Step})
	if i < 0 { // nothing to put back
		out.Result = machine.Found
		x.rec.Next-- // tell counts it
		return out
	}
	x.rec.Next = i
	s, made, began := v.steps[i], &x.rec.Steps[i], x.env.Time()
	if x.dry && v.unsure[s.Target()] {
		x.rec.Note = x.rec.Note.Then(say.F("Step %d is checked when the step before it is undone.", i+1))
		out.Result = machine.Found
		return out
	}
	a, failed := x.order(ctx, v.made[i], hand.Order{Undo: true, Dry: x.dry})
	err, doubt := x.reversible(i, a.State, a.Differs, failed), doubted(a)
	refused := func(r machine.Result, err error) machine.Report {
		x.fail(err)
		out.Result = r
		return out
	}
	switch {
	case errors.Is(err, remedy.ErrMoved) && v.maybe[i]:
		x.rec.Note = x.rec.Note.Then(say.F("Whether this was applied is unknown, and it is left as it is: %s", err.Error()))
		made.Found = true
		out.Result = machine.Moved
		return out
	case errors.Is(err, remedy.ErrMoved):
		return refused(machine.Moved, err)
	case doubt != "":
		return refused(doubt, fmt.Errorf("undo %d, %s: %w", i+1, s.Says(), failed))
	case err != nil:
		return refused(machine.Refused, err)
	case a.State == hand.Found:
	case x.dry && errors.Is(failed, hand.ErrUnsure):
		v.unsure[s.Target()] = true // its state is unknown after a dry run
		x.rec.Note = x.rec.Note.Then(say.F("Step %d could not be tried: %s.", i+1, event.Redact(failed.Error())))
	case failed != nil:
		return refused(machine.Refused, fmt.Errorf("undo %d, %s: %w", i+1, s.Says(), failed))
	case x.dry && s.Target() != "":
		v.unsure[s.Target()] = true
	}
	made.Found = a.State == hand.Found || !x.dry && len(made.Calls) == 0
	if out.Result = machine.Done; x.dry {
		return out
	}
	if made.Found {
		x.rec.Note = x.rec.Note.Then(say.F("Already undone, or no longer there: %s.", s.Says()))
		out.Result = machine.Found
	}
	x.rec.Written = x.env.Time()
	made.Began, made.Ended = began, x.rec.Written
	return out
}

func (x *run) asksAboutUndo(mine machine.Case) {
	rec := &x.rec
	rec.Result, rec.Held = event.Failed, ""
	switch {
	case mine.Outcome == machine.Denied:
		rec.Ask = say.F("The fix did not work, and %d of %d steps were undone. Undo the others or keep them: lbremedy undo %s.", rec.Next, len(rec.Steps), rec.Case)
	case !x.person && (x.undoer == nil || !x.undoer.begun):
		if x.cause != nil {
			rec.Note = rec.Note.Then(say.F("The fix was not undone: %s.", event.Redact(x.cause.Error())))
		}
		x.cause, rec.Error = nil, ""
		rec.Ask = rec.Ask.Then(x.spent())
	default:
		rec.Ask = say.F("%d of %d steps were undone. Undo the others by hand or keep them.", rec.Next, len(rec.Steps))
	}
}

// works returns the evidence that the controller has synced the Service since the case's last write, perhaps later than a run waits, and
// that the failure is over; empty otherwise. A failure after that sync proves that the fix does not work; an Event alone does not prove a
// sync.
func (x *run) works(ctx context.Context) (say.Text, error) {
	last := x.undoer.last
	since, failed := last.Written, x.c.Event.Last
	newest, found, err := x.newest(ctx, x.r.Class)
	if err != nil {
		return nil, err
	}
	if found && newest.Last.After(failed) {
		failed = newest.Last
	}
	again := failed.After(since)
	if again {
		since = failed
	}
	proof, byEvent, err := x.env.synced(ctx, x.c, since)
	if byEvent {
		proof = nil
	}
	if err != nil || len(proof) == 0 && (again || !ccm.SyncedAnew(x.c.Service, last.Hash)) {
		return nil, err
	}
	own := x.c.Attempt
	defer func() { x.c.Attempt = own }()
	for x.c.Attempt > 1 && !x.c.Written() {
		x.c.Attempt-- // ask the class about the attempt whose mark the Service has
	}
	a, err := x.ask(ctx, hand.Prove, false)
	switch {
	case err != nil:
		return nil, fmt.Errorf("find out whether the fix works by now: %w", err)
	case a.Verdict == remedy.Unknown:
		return nil, errors.New("whether the fix works by now could not be determined")
	case a.Verdict == remedy.Yes:
		return nil, nil
	}
	return say.F("The fix works by now and is not undone.").Then(proof), nil
}

// lastWrite returns the record of a case's last write; attempts come newest first. An undo that did not record its end may have written too.
func lastWrite(applied []event.Record, prev event.Record) (last event.Record) {
	if len(applied) > 0 {
		last = applied[0]
	}
	switch {
	case prev.Undoing && !prev.Written.IsZero():
		last = prev
	case prev.Undoing && prev.Phase == event.Intent:
		last = prev
		last.Written = prev.At
	}
	return last
}
