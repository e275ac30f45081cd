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
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// ErrNoUndo says that a record holds a step that can't be taken back, or not any more.
var ErrNoUndo = errors.New("there is no way back")

// Applied returns what there is to take back of the case that a record is of: of each attempt that wrote something, or may have, the record that tells
// the most, the newest attempt first. back is when it was taken back; zero if it was not.
func Applied(ctx context.Context, s *stream.Stream, of event.Record) (applied []event.Record, back time.Time, err error) {
	o, err := readObject(ctx, &Env{Cluster: of.Cluster, Stream: s}, of.Service.UID, of.Class, nil)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read what was written: %w", err)
	}
	applied = o.mine().Attempts(of.Case)
	if rec := o.mine().Record; len(applied) == 0 && rec != nil && rec.Case == of.Case && rec.Result == event.Undone {
		back = rec.At
	}
	return applied, back, nil
}

// Undo takes back the steps of the attempts of a case, as [Applied] returns them, the
// last step first, and records it. It stops before the first step whose target is
// not as the plan left it: then somebody has moved on, and the error says where. A
// touch has nothing to take back and is passed over. A step that has nothing left to take
// back is Found. What a load balancer that was created since rules out is not put back: that
// is an ErrNoUndo. An error that leaves the record empty has written nothing.
//
// It is a person's word: neither a pause nor a freeze nor observe mode keeps it.
func Undo(ctx context.Context, env *Env, r *remedy.Remedy, applied []event.Record) (out event.Record, err error) {
	return undo(ctx, env, r, applied, undoing{})
}

// LookUndo answers what Undo would do, and writes nothing, neither in the cluster nor in the
// cloud nor in NATS: it goes the same way, and has the API server try the writes to
// the cluster. The error is that of Undo; the record says what would be done before it.
func LookUndo(ctx context.Context, env *Env, r *remedy.Remedy, applied []event.Record) (out event.Record, err error) {
	return undo(ctx, env, r, applied, undoing{dry: true})
}

// An undoing says on whose word an undo is: a person's, if it says nothing.
type undoing struct {
	dry  bool         // they look at what it would do
	by   *run         // the run that undoes as the policy wants; nobody has asked for it: what holds back every write of a run holds back each step
	last event.Record // of that: the last write of the case
}

// undo is Undo and LookUndo, and the undo that the policy wants.
func undo(ctx context.Context, env *Env, r *remedy.Remedy, applied []event.Record, how undoing) (out event.Record, err error) {
	defer func() { err = safe(err) }()
	ctx, cancel := context.WithTimeout(ctx, env.bound())
	defer cancel()
	if !how.dry {
		var stop func()
		env, stop = env.started(ctx)
		defer stop()
	}
	if len(applied) == 0 {
		return event.Record{}, errNothingApplied
	}
	rec := applied[0]
	ev := Event{ID: rec.Event, Failure: event.Failure{
		Cluster: rec.Cluster, Class: rec.Class, Service: rec.Service, Message: rec.Message, Last: rec.EventTime,
		Recorded: rec.Recorded, Trace: rec.Trace,
	}}
	own, err := newRun(env, r, ev)
	if err != nil {
		return event.Record{}, err
	}
	x := reversal{run: own, last: how.last, maybe: map[int]bool{}}
	if how.by != nil {
		x.object = how.by.object
	} else {
		defer func() { x.object.leave() }()
		defer func() { out, err = x.release(ctx, out, err) }()
	}
	if how.dry {
		x.unsure = map[string]bool{}
	}
	if err := x.ready(ctx, rec, applied); err != nil {
		return event.Record{}, err
	}
	if how.by != nil {
		x.c.Event, x.rec.Held = how.by.c.Event, event.TakenBack
		if rec, ended, err := x.stays(ctx); ended {
			return rec, err
		}
	}
	unlock, err := x.lock(ctx)
	defer unlock()
	if err != nil {
		return event.Record{}, err
	}
	if err := x.begins(ctx); err != nil {
		return event.Record{}, err
	}
	if err := x.barred(ctx); err != nil {
		return event.Record{}, err
	}
	if err := x.open(ctx); err != nil {
		return event.Record{}, err
	}
	for i, s := range x.steps {
		if !x.dry() {
			if err := x.object.intend(ctx, x.rec.Attempt, i, true); errors.Is(err, stream.ErrConflict) {
				return x.later(time.Second)
			} else if err != nil {
				return x.halfUndone(ctx, err)
			}
		}
		if how.by != nil {
			if rec, ended, err := x.stays(ctx); ended {
				return rec, err
			}
		}
		if err := x.takeBackStep(ctx, i, s); err != nil {
			return x.halfUndone(ctx, err)
		}
		if !x.dry() && i+1 < len(x.steps) {
			if err := x.append(ctx, event.Step); err != nil {
				return x.lost(err)
			}
		}
	}
	x.rec.Held = ""
	if x.dry() {
		x.rec.Result, x.rec.Next = event.Planned, 0
		return x.rec, nil
	}
	return x.settle(ctx, event.Undone)
}

// ready begins the record of the undo, and returns what keeps it from being one: another
// run, a step that has no way back, a Service that is gone.
func (x *reversal) ready(ctx context.Context, rec event.Record, applied []event.Record) error {
	if x.object == nil {
		if err := x.load(ctx); err != nil {
			return err
		}
	}
	x.prev = x.object.record()
	left, err := x.object.busy(ctx)
	if left == 0 && err == nil && x.object.holding == nil && !x.dry() {
		left, err = x.object.enter(ctx)
	}
	if err != nil {
		return err
	}
	if left > 0 {
		return fmt.Errorf("case %s: a run may be writing to the Service now; try again in %s", rec.Case, left.Round(time.Second))
	}
	x.begin()
	x.c.ID = rec.Case
	x.rec.Undoing = true
	x.rec.Case = rec.Case
	x.rec.SetFinding(say.F("Undo of %s: %s", rec.Case, rec.Texts().Finding))
	x.sign()
	if err := x.inverse(applied); err != nil {
		return fmt.Errorf("case %s: %w", rec.Case, err)
	}
	if x.rec.Steps, err = remedy.Records(x.steps); err != nil {
		return err
	}
	for i := range x.rec.Steps {
		x.rec.Steps[i].Undo = nil // an undo is not undone
	}
	if _, err := x.readService(ctx); err != nil {
		return err
	}
	if x.c.Service == nil || string(x.c.Service.UID) != rec.Service.UID {
		return fmt.Errorf("case %s: the Service was deleted since", rec.Case)
	}
	return nil
}

// barred returns what keeps the Service from being as the undo would leave it: an ErrNoUndo, or that this could not be read.
func (x reversal) barred(ctx context.Context) error {
	if !x.r.Creates {
		return nil
	}
	switch a, err := x.ask(ctx, hand.Bars, true, x.made...); {
	case err != nil:
		return fmt.Errorf("case %s: look for a load balancer that rules the undo out: %w", x.rec.Case, err)
	case a.Bars != "":
		return fmt.Errorf("case %s: %w: %s", x.rec.Case, ErrNoUndo, a.Bars)
	}
	return nil
}

// lock takes the locks of what the undo writes beside the Service; a dry run looks whether
// they are free. Unlock is never nil.
func (x reversal) lock(ctx context.Context) (unlock func(), err error) {
	var free bool
	if unlock = func() {}; x.dry() {
		free, err = x.env.targetsFree(ctx, x.steps)
	} else {
		unlock, free, err = x.env.lockTargets(ctx, string(x.c.Service.UID), x.steps)
	}
	if err == nil && !free {
		err = fmt.Errorf("case %s: another case is writing to the same target; try again in a minute", x.rec.Case)
	}
	return unlock, err
}

// open stores a snapshot and the intent; a dry run only reads what the snapshot holds.
func (x reversal) open(ctx context.Context) error {
	risk := remedy.Plan{Steps: x.steps}.Highest()
	if x.dry() {
		_, err := x.standing(ctx, risk, x.made, true)
		return err
	}
	if err := x.preserve(ctx, risk, x.made, true); err != nil {
		return err
	}
	x.rec.Attempts = append(x.rec.Attempts, x.env.now())
	x.rec.Attempt, x.rec.Held = x.c.Attempt, event.TakenBack // who finds it open goes on with it
	x.rec.Hash = x.c.Service.Labels[ccm.HashLabel]
	if err := x.append(ctx, event.Intent); err != nil {
		return err
	}
	x.intent = true
	x.clock, x.into = x.env.now(), &x.rec.Timings.Apply
	return nil
}

// begins returns what keeps the undo from its first step: what can't begin leaves no record behind. A
// step that was perhaps not made, and that somebody has moved on from, keeps the others from nothing.
func (x reversal) begins(ctx context.Context) (err error) {
	for i, s := range x.made {
		a, failed := x.ask(ctx, hand.Check, true, s)
		if err = x.reversible(i, a.State, a.Differs, failed); !x.maybe[i] || !errors.Is(err, remedy.ErrMoved) {
			return err
		}
	}
	return err
}

// takeBackStep takes one step back. That nothing was left to take back is noted.
func (x reversal) takeBackStep(ctx context.Context, i int, s remedy.Step) error {
	made, began := &x.rec.Steps[i], x.env.now()
	if x.unsure[s.Target()] {
		x.rec.AddNote(say.F("Step %d is checked when the step before it is undone.", i+1))
		x.rec.Next = i + 1
		return nil
	}
	a, failed := x.order(ctx, x.made[i], hand.Order{Undo: true, Dry: x.dry()})
	err := x.reversible(i, a.State, a.Differs, failed)
	if x.maybe[i] && errors.Is(err, remedy.ErrMoved) {
		x.rec.AddNote(say.F("Whether this was applied is unknown, and it is left as it is: %s", err.Error()))
		x.rec.Next, made.Found = i+1, true
		return nil
	}
	if err != nil {
		return err
	}
	if a.State != hand.Found {
		untried := x.dry() && errors.Is(failed, hand.ErrUnsure)
		if x.dry() && (s.Target() != "" || untried) {
			x.unsure[s.Target()] = true // it is not as it would be
		}
		if untried {
			x.rec.AddNote(say.F("Step %d could not be tried: %s.", i+1, event.Redact(failed.Error())))
		} else if failed != nil {
			return fmt.Errorf("undo %d, %s: %w", i+1, s.Says(), failed)
		}
	}
	x.rec.Next, x.doubt = i+1, false
	made.Found = a.State == hand.Found || !x.dry() && len(made.Calls) == 0
	if x.dry() {
		return nil
	}
	if made.Found {
		x.rec.AddNote(say.F("Already undone, or no longer there: %s.", s.Says()))
	}
	x.rec.Written = x.env.now()
	made.Began, made.Ended = began, x.rec.Written
	return nil
}

// dry reports whether nothing is to be written.
func (x reversal) dry() bool { return x.unsure != nil }

// errNothingApplied says that there is nothing to undo.
var errNothingApplied = errors.New("no step was applied that can be undone")

// inverse works out the steps that take attempts back, in the order to apply them, and the steps that they take back. It notes of
// which it is unknown whether there is anything to take back. The way back follows from each step: what a record says of it is for people.
func (x *reversal) inverse(applied []event.Record) error {
	for _, rec := range applied {
		planned, err := x.r.Planned(x.env.Decode, rec)
		if err != nil {
			return err
		}
		for i, s := range slices.Backward(planned[:len(rec.Made())]) {
			back, ok := s.Undo()
			switch {
			case rec.Steps[i].Found: // somebody else has made it, and may need it
			case ok:
				x.maybe[len(x.steps)] = rec.Steps[i].Unknown
				x.steps, x.made = append(x.steps, back), append(x.made, s)
			case remedy.Wakes(s):
			case rec.Steps[i].Unknown:
				x.rec.AddNote(say.F("Whether step %d was applied is unknown, and it cannot be undone: %s.", i+1, s.Says()))
			default:
				return fmt.Errorf("step %d, %s: %w", i+1, s.Says(), ErrNoUndo)
			}
		}
	}
	if len(x.steps) == 0 {
		return errNothingApplied
	}
	return nil
}

// reversible returns what keeps step i of an undo from being made, which was found to stand there. That its target is
// something else than what the plan left is an error, which says what differs.
func (x *reversal) reversible(i int, state hand.State, differs string, failed error) error {
	switch {
	case failed != nil && state == "":
		return fmt.Errorf("check undo %d: %w", i+1, failed)
	case state != hand.Moved:
		return nil
	case differs != "":
		differs = " " + differs
	}
	return fmt.Errorf("undo %d, %s: %w.%s", i+1, x.steps[i].Says(), remedy.ErrMoved, differs)
}

// A reversal is a run that takes back what earlier ones have written.
type reversal struct {
	*run
	made   []remedy.Step   // what its steps take back, as the class has declared it
	maybe  map[int]bool    // steps of which it is unknown whether there is anything to take back
	unsure map[string]bool // targets that a dry run does not know any more; nil: it is none
	last   event.Record    // of a take-back by the policy: the last write of the case
}

// stays ends a take-back by the policy that must not go on now; it is asked before all else, and right before each step. A
// run that has lost its object writes nothing. A fix that works by now stays. What a pause or a
// freeze holds goes on when that is over; where the policy only observes, allows less
// risk or takes nothing back any more, the rest is left to a person. It reads the Service anew: a label of it may say so.
func (x reversal) stays(ctx context.Context) (rec event.Record, ended bool, err error) {
	ends := func(rec event.Record, err error) (event.Record, bool, error) { return rec, true, err }
	now := x.since(ctx)
	if x.c.Policy, err = x.env.policy(now, x.r.Sections); err != nil {
		return ends(x.fail(ctx, err))
	}
	if over, err := x.readService(ctx); err != nil {
		return ends(x.fail(ctx, err))
	} else if len(over) > 0 {
		x.rec.Held = ""
		return ends(x.gone(ctx, over))
	}
	if err := x.locate(ctx); err != nil {
		return ends(x.fail(ctx, err))
	}
	if x.rec.Written.IsZero() {
		if works, err := x.works(ctx); err != nil {
			return ends(x.fail(ctx, err))
		} else if len(works) > 0 {
			r, why, _ := x.traffic(ctx)
			x.rec.Steps, x.rec.Undoing, x.rec.Held = nil, false, ""
			x.rec.SetFinding(works)
			x.rec.AddNote(why)
			return ends(x.settle(ctx, r))
		}
	}
	// What the document holds to take back is data, as a plan there is.
	ok, rule := x.permission(x.c.Policy).Allows(x.r, remedy.Plan{Steps: x.steps[x.rec.Next:]}.Highest(), nil)
	if ok && !x.c.Policy.TakeBack {
		ok, rule = false, say.F("The policy does not undo fixes automatically.")
	}
	if !ok {
		x.rec.Held = ""
		x.rec.SetRule(rule)
		x.rec.SetAsk(say.F("The fix did not work, and %d of %d steps were undone. Undo the others or keep them: lbremedy undo %s.", x.rec.Next, len(x.rec.Steps),
			x.rec.Case))
		return ends(x.settle(ctx, event.Failed))
	}
	h, err := x.env.hold(now, x.c.Policy)
	switch {
	case err != nil:
		return ends(x.fail(ctx, err))
	case h != nil:
		x.keep(h)
		return ends(x.settle(ctx, event.Waiting))
	}
	return rec, false, nil
}

// works returns the evidence that the controller has synced the Service since the last write of the case, and that the failure
// is over; empty if there is none. The controller may have been slower than a run waits. What has failed since that sync proves
// that it does not work, and an Event alone tells of no sync. An error leaves it open.
func (x reversal) works(ctx context.Context) (say.Text, error) {
	since, failed := x.last.Written, x.c.Event.Last
	newest, found, err := x.failures.newest(ctx, x.r.Class)
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
	proof, told, err := x.env.synced(ctx, x.c, since)
	if told {
		proof = nil
	}
	if err != nil || len(proof) == 0 && (again || !marked(x.c.Service, x.last.Hash)) {
		return nil, err
	}
	own := x.c.Attempt
	defer func() { x.c.Attempt = own }()
	for x.c.Attempt > 1 && !x.c.Written() {
		x.c.Attempt-- // the class is asked about the attempt whose mark the Service bears
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

// lastWrite returns the record of the last write of a case, given its attempts, the newest first. An undo that began and never
// said how it ended may have written, too: from then on.
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

// halfUndone ends an undo that stopped on its way: a person must look.
func (x reversal) halfUndone(ctx context.Context, cause error) (event.Record, error) {
	if x.dry() {
		return x.rec, cause
	}
	x.rec.Error, x.rec.Held = event.Redact(cause.Error()), ""
	x.rec.SetAsk(say.F("%d of %d steps were undone. Undo the others by hand or keep them.", x.rec.Next, len(x.rec.Steps)))
	rec, err := x.settle(ctx, event.Failed)
	return rec, errors.Join(cause, err)
}

// takeBack undoes what the attempts of the case have written, as the policy wants it
// where they are spent. What can't be taken back is left, and a person is told.
func (x reversal) takeBack(ctx context.Context) (event.Record, error) {
	x.rec.Held = event.TakenBack // also where it must be tried again
	applied := x.object.mine().Attempts(x.rec.Case)
	rec, err := undo(ctx, x.env, x.r, applied, undoing{by: x.run, last: lastWrite(applied, x.prev)})
	switch {
	case err == nil || rec.Result != "":
		return rec, err
	case errors.Is(err, remedy.ErrMoved), errors.Is(err, ErrNoUndo), errors.Is(err, remedy.ErrUndeclared), errors.Is(err, errNothingApplied):
		x.rec.Held = ""
		x.rec.AddNote(say.F("The fix was not undone: %s.", event.Redact(err.Error())))
		x.rec.AddAsk(spent())
		return x.settle(ctx, event.Failed)
	}
	return x.fail(ctx, err)
}
