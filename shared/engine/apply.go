package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/engine/control"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// An application is the phase that writes: it applies a plan that is decided.
type application struct {
	*run
	taken    bool // the plan was taken over from the document, and must be judged
	reserved bool // the plan was parked until a moment that is its own
}

// mostClaimed is how often a class may choose other places in one run, since each choice leaves claims behind for ten minutes.
const mostClaimed = 16

// write claims what the plan needs, stores the intent and applies the steps.
func (x *application) write(ctx context.Context, plan remedy.Plan) (event.Record, error) {
	if ok, err := x.afford(ctx); err != nil {
		return x.fail(ctx, err)
	} else if !ok {
		return x.settle(ctx, x.rec.Result)
	}
	for tries := 0; ; tries++ {
		taken, err := x.claim(ctx, plan.Claims)
		if err != nil {
			return x.fail(ctx, err)
		}
		if taken {
			break
		}
		if tries == mostClaimed {
			return x.fail(ctx, fmt.Errorf("class %s chose places that are taken %d times", x.r.Class, tries))
		}
		// A place is gone. The class is asked again and told so.
		var ok bool
		if plan, ok, err = x.plan(ctx); err != nil {
			return x.fail(ctx, err)
		}
		if !ok {
			return x.settle(ctx, x.rec.Result)
		}
	}
	began := x.env.now()
	if err := x.preserve(ctx, plan.Highest(), plan.Steps, false); err != nil {
		return x.fail(ctx, err)
	}
	x.clock = x.env.now()
	x.rec.Attempts = append(x.rec.Attempts, x.clock)
	x.rec.Attempt, x.rec.Hash = x.c.Attempt, x.c.Service.Labels[ccm.HashLabel]
	x.rec.Next, x.rec.Written, x.rec.Left, x.rec.Back = 0, time.Time{}, left(x.c.Service), time.Time{}
	x.rec.Decided, x.rec.Said.Decided = x.rec.Rule, x.rec.Said.Rule
	x.object.order(x.rec.Attempt, 0, false)
	if err := x.append(ctx, event.Intent); err != nil {
		return x.lost(err)
	}
	x.intent = true
	// A large load balancer takes a while to read: what the plan saw may be stale.
	return x.apply(ctx, x.clock.Sub(began) > fresh)
}

// waits finds out what would keep write from applying the plan now, and puts it into the
// record. It takes nothing.
func (x *application) waits(ctx context.Context, plan remedy.Plan) error {
	if left, err := x.object.busy(ctx); err != nil {
		return err
	} else if left > 0 {
		x.rec.Result, x.rec.Wait = event.Waiting, left
		x.rec.SetRule(say.F("Another run may be writing to the Service now."))
		return nil
	}
	if ok, err := x.affords(ctx, true); err != nil || !ok {
		return err
	}
	free, err := x.env.targetsFree(ctx, plan.Steps)
	if err != nil {
		return err
	}
	if !free {
		x.rec.Result, x.rec.Reason, x.rec.Wait = event.Waiting, event.ForTarget, 2*time.Second
		x.rec.SetRule(say.F("Another case is writing to the same target."))
		return nil
	}
	return x.try(ctx, plan.Steps)
}

// try has the API server try the steps that write to the cluster. What it refuses is the error
// that the step would end with. The cloud can't be asked.
func (x *application) try(ctx context.Context, steps []remedy.Step) error {
	unsure := map[string]bool{}
	for i, s := range steps {
		if unsure[s.Target()] {
			continue
		}
		unsure[s.Target()] = s.Target() != ""
		_, err := x.order(ctx, s, hand.Order{Fresh: true, Dry: true})
		switch {
		case errors.Is(err, hand.ErrUnsure):
			x.rec.AddNote(say.F("Step %d could not be tried: %s.", i+1, event.Redact(err.Error())))
			return nil
		case errors.Is(err, hand.ErrMoved):
			return nil // it changes just now: a run would diagnose again
		case err != nil:
			return fmt.Errorf("step %d, %s: %w", i+1, s.Says(), err)
		}
	}
	return nil
}

// claim takes a place of each claim. false means that one has none left, and
// that the case now says so.
func (x *application) claim(ctx context.Context, claims []remedy.Claim) (bool, error) {
	for _, cl := range claims {
		ok, err := control.Claim(ctx, x.env.Stream, false, cl.Key, cl.Of, string(x.c.Service.UID), claimFor)
		if err != nil {
			return false, fmt.Errorf("claim a place in %s: %w", cl.Key, err)
		}
		if ok {
			continue
		}
		if x.c.Taken[cl.Key] {
			return false, fmt.Errorf("class %s chose %s again, which has no place left", x.r.Class, cl.Key)
		}
		x.c.Taken[cl.Key] = true
		return false, nil
	}
	return true, nil
}

// goOn applies the rest of a plan that an earlier run left open or parked.
func (x *application) goOn(ctx context.Context) (event.Record, error) {
	var err error
	if x.c.Policy, err = x.env.policy(x.since(ctx), x.r.Sections); err != nil {
		return x.fail(ctx, err)
	}
	// The append takes the plan over: a run that has lost its object stops here.
	phase := event.Step
	if x.rec.Next == 0 {
		phase = event.Intent
	}
	if err := x.append(ctx, phase); err != nil {
		return x.lost(err)
	}
	over, err := x.readService(ctx)
	if err != nil {
		return x.fail(ctx, err)
	}
	if len(over) > 0 {
		return x.gone(ctx, over)
	}
	if err := x.locate(ctx); err != nil {
		return x.fail(ctx, err)
	}
	return x.apply(ctx, true)
}

// gone ends a run whose Service went while the plan was under way. A clean-up has
// worked then, if all of it is written.
func (x *run) gone(ctx context.Context, over say.Text) (event.Record, error) {
	if x.r.Deleting && x.rec.Done() {
		return x.settle(ctx, event.Fixed)
	}
	when := say.F("This happened before all steps of the plan were applied.")
	if x.rec.Done() {
		when = say.F("This happened after the write.")
	}
	x.rec.AddNote(over.Then(when))
	return x.settle(ctx, event.Gone)
}

// apply makes the steps from rec.Next on. The document has each before it is ordered, and after it is made.
// check is set when a step may have been made already.
func (x *application) apply(ctx context.Context, check bool) (event.Record, error) {
	x.into = &x.rec.Timings.Apply
	unlock, held, err := x.env.lockTargets(ctx, string(x.c.Service.UID), x.steps[x.rec.Next:])
	defer unlock()
	if err != nil {
		return x.fail(ctx, err)
	}
	if !held {
		return x.park(ctx, 2*time.Second, event.ForTarget, say.F("Another case is writing to the same target."))
	}
	if x.taken {
		if rec, ended, err := x.judge(ctx); ended {
			return rec, err
		}
	}
	for ; x.rec.Next < len(x.steps); check = true {
		s := x.steps[x.rec.Next]
		log := x.log.With("step", s.Kind())
		waker, wakes := s.(remedy.Waker)
		if wakes {
			over, proof, err := x.awake(ctx)
			if err != nil {
				return x.fail(ctx, err)
			}
			if len(over) > 0 {
				return x.gone(ctx, over)
			}
			if len(proof) > 0 {
				r, why, _ := x.traffic(ctx)
				x.rec.AddNote(proof.And("A resync was not needed.").Then(why))
				return x.settle(ctx, r)
			}
			// A full sync overwrites what the plan has compared: it must be as it was.
			if left(x.c.Service) != x.rec.Left && !x.c.Written() {
				return x.moved(ctx, s)
			}
		}
		if wait := x.env.due(s, x.rec); wait > 0 {
			return x.park(ctx, wait, event.ForStep, say.F("Waiting before the next step: %s.", s.Says()))
		}
		if wakes && !x.reserved {
			began := x.env.now()
			if parked, err := x.env.pace(ctx, waker.Pace()); err != nil {
				return x.fail(ctx, err)
			} else if parked > 0 {
				return x.park(ctx, parked, event.AfterOthers, say.F("Other writes of this kind come first."))
			}
			// What was read before it waited is stale by now, as it is for a plan that was parked until then.
			if x.env.since(began) > fresh {
				if x.c.Policy, err = x.env.policy(x.since(ctx), x.r.Sections); err != nil {
					return x.fail(ctx, err)
				}
				if rec, ended, err := x.judge(ctx); ended {
					return rec, err
				}
				x.reserved = true
				continue
			}
		}
		x.reserved = false
		if err := x.object.intend(ctx, x.rec.Attempt, x.rec.Next, false); errors.Is(err, stream.ErrConflict) {
			return x.later(time.Second)
		} else if err != nil {
			return x.fail(ctx, err)
		}
		over, h, err := x.stopped(ctx, x.rec.Next > 0 || check && x.rec.Written.IsZero())
		switch {
		case errors.Is(err, stream.ErrConflict):
			return x.later(time.Second)
		case err != nil:
			return x.fail(ctx, err)
		case len(over) > 0:
			return x.gone(ctx, over)
		case h != nil && h.drop:
			return x.giveUp(ctx, h.rule)
		case h != nil:
			return x.park(ctx, h.wait, event.ForPolicy, h.rule)
		}
		x.rec.Steps[x.rec.Next].Began = x.env.now()
		a, err := x.order(ctx, s, hand.Order{Fresh: !check})
		switch {
		case err != nil && a.State == "":
			return x.fail(ctx, fmt.Errorf("check step %d: %w", x.rec.Next+1, err))
		case a.State == hand.Moved:
			return x.moved(ctx, s)
		case wakes && errors.Is(err, hand.ErrMoved):
			// Who has written before us may well be the controller, which needs no waking then.
			return x.park(ctx, time.Second, event.AfterOthers, say.F("Somebody else has just written to the Service."))
		case errors.Is(err, hand.ErrMoved):
			return x.moved(ctx, s)
		case err != nil:
			log.Error("step not applied", "error", event.Redact(err.Error()))
			return x.fail(ctx, fmt.Errorf("step %d, %s: %w", x.rec.Next+1, s.Says(), err))
		case a.State == hand.Done:
			log.Info("step applied", "text", s.Says().String())
		}
		if err := x.made(ctx); err != nil {
			return x.lost(err)
		}
	}
	x.lap(&x.rec.Timings.Apply)
	return verification{x.run}.verify(ctx)
}

// made stores that the next step is made.
func (x *application) made(ctx context.Context) error {
	x.rec.Written, x.rec.Left = x.env.now(), left(x.c.Service)
	x.rec.Answers = x.failed
	made := &x.rec.Steps[x.rec.Next]
	if made.Began.IsZero() { // an earlier run has made it
		made.Began = x.rec.Written
	}
	made.Ended, made.Found = x.rec.Written, !x.doubt && !slices.ContainsFunc(made.Calls, event.Call.Wrote) // a write may land late
	x.doubt = false
	x.rec.Next++
	return x.append(ctx, event.Step)
}

// forget looks whether the run that had a plan, which is too old to go on with, has made the step that it was about to
// make, and stores that it has: what the document lacks can't be undone. ended says that it has, or could not be told.
// A step that it had not tried when it was parked is not its own, whoever has made it since.
func (x *application) forget(ctx context.Context) (rec event.Record, ended bool, err error) {
	ends := func(rec event.Record, err error) (event.Record, bool, error) { return rec, true, err }
	begun, id, attempt := x.rec, x.c.ID, x.c.Attempt
	var a hand.LookAnswer
	if x.take(goOn).next == goOn && x.doubt {
		over, err := x.readService(ctx)
		if err == nil && len(over) == 0 {
			a, err = x.ask(ctx, hand.Check, false, x.steps[x.rec.Next])
		}
		if errors.Is(err, hand.ErrNotFound) {
			err = nil // what it would have written to is gone
		}
		if err != nil {
			return ends(x.fail(ctx, fmt.Errorf("look at step %d of a plan that is too old: %w", x.rec.Next+1, err)))
		}
	}
	if a.State == hand.Moved && x.doubt {
		return ends(x.moved(ctx, x.steps[x.rec.Next]))
	}
	if a.State != hand.Found {
		x.rec, x.steps, x.intent, x.doubt, x.c.ID, x.c.Attempt = begun, nil, false, false, id, attempt
		return rec, false, nil
	}
	if err := x.made(ctx); err != nil {
		return ends(x.lost(err))
	}
	x.rec.AddNote(say.F("The plan is too old to go on with. What it has written is recorded. The case is diagnosed again."))
	x.rec.Steps, x.rec.Next, x.rec.Wait = nil, 0, time.Second
	return ends(x.settle(ctx, event.Waiting))
}

// stopped returns why the rest of a plan must not be applied now; nil if it may. It is asked
// anew before each step, so that a person can stop the rest of a plan, also by a label: again
// says that the Service and its namespace are to be read for that, too. over says why there is
// nothing left to do for the Service. What is read is read side by side.
func (x *application) stopped(ctx context.Context, again bool) (over say.Text, h *hold, err error) {
	var g guards
	first := x.rec.Next == 0 && !x.doubt
	reads := []func() error{func() (err error) { g, err = x.guards(ctx, first); return err }}
	around := x.around
	if again {
		reads = append(reads,
			func() (err error) { over, err = x.readService(ctx); return err },
			func() (err error) { around, err = x.readNamespace(ctx); return err })
	}
	if err := x.aside(reads...); err != nil || len(over) > 0 {
		return over, nil, err
	}
	if again {
		x.stand(around)
	}
	may := x.permission(g.policy)
	ok, rule := may.Allows(x.r, x.risk, oneWay(x.steps))
	if !ok && (x.rec.Approved == nil || may.Mode != remedy.Fix) {
		return nil, &hold{rule: say.F("The policy changed before all steps of the plan were applied.").Then(rule), wait: time.Minute}, nil
	}
	if first {
		if h := x.objection(g); h != nil {
			return nil, h, nil
		}
	}
	return nil, x.env.held(g.pause, g.policy), nil
}

// awake returns the evidence that the controller has synced the Service by itself
// since the failure and since the last step; empty if there is none.
func (x *application) awake(ctx context.Context) (over, proof say.Text, err error) {
	if over, err = x.readService(ctx); err != nil || len(over) > 0 {
		return over, nil, err
	}
	since := x.ev.Failure.Last
	if x.rec.Written.After(since) {
		since = x.rec.Written
	}
	proof, _, err = x.env.synced(ctx, x.c, since)
	return nil, proof, err
}

// moved ends a run whose step found something else than it was planned on. What
// is not written yet is dropped, and the case is diagnosed afresh.
func (x *run) moved(ctx context.Context, s remedy.Step) (event.Record, error) {
	if i := x.rec.Next; x.doubt && i < len(x.rec.Steps) {
		x.rec.Steps[i].Unknown = true
		if err := x.append(ctx, event.Step); err != nil { // for the record: the plan is dropped
			return x.lost(err)
		}
	}
	x.rec.AddNote(say.F("What the step %q would change has changed in the meantime. The case is diagnosed again.", s.Says()))
	x.drop()
	// What changes all the time must not be tried all the time.
	return x.settle(ctx, backOff(&x.rec, fmt.Errorf("%s: %w", s.Says(), remedy.ErrMoved)))
}

// drop gives up what is left of a plan. An attempt that has written nothing is none.
func (x *run) drop() {
	x.rec.Steps, x.rec.Next = nil, 0
	if n := len(x.rec.Attempts); n > 0 && x.rec.Written.IsZero() {
		x.rec.Attempts = x.rec.Attempts[:n-1]
	}
}

// giveUp ends a run whose plan must not begin any more.
func (x *run) giveUp(ctx context.Context, why say.Text) (event.Record, error) {
	x.rec.AddNote(why.Then(say.F("Nothing of the plan was written. The case is diagnosed again.")))
	x.drop()
	x.rec.Wait = time.Second
	return x.settle(ctx, event.Waiting)
}

// park ends a run between two steps, or after the last one. The next delivery goes on
// after wait. Who has reserved a moment to write doesn't reserve another one then, behind
// all who did meanwhile: with many waiting, nobody's moment would ever be near.
func (x *run) park(ctx context.Context, wait time.Duration, reason event.Reason, why say.Text) (event.Record, error) {
	x.rec.Wait, x.rec.Reason = wait, reason
	x.rec.SetRule(why)
	return x.settle(ctx, event.Waiting)
}

// due returns how long the step must still wait for the one before it.
func (e *Env) due(s remedy.Step, rec event.Record) time.Duration {
	settler, ok := s.(remedy.Settler)
	if !ok {
		return 0
	}
	since := rec.Written
	if since.IsZero() {
		since = rec.Attempts[len(rec.Attempts)-1]
	}
	return settler.Settle() - e.since(since)
}

// pace waits for the cluster's next free moment for such a step. If it lies beyond
// this run's time, the time until then is returned.
func (e *Env) pace(ctx context.Context, every time.Duration) (time.Duration, error) {
	wait, err := control.Reserve(ctx, e.Stream, e.Cluster, every)
	if err != nil {
		return 0, err
	}
	if wait > e.watch() {
		return wait, nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return 0, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// lockTargets takes the locks of all that the rest of the plan writes beside the
// Service, which the run holds.
func (e *Env) lockTargets(ctx context.Context, uid string, steps []remedy.Step) (unlock func(), held bool, err error) {
	var unlocks []func()
	unlock = func() {
		for _, u := range unlocks {
			u()
		}
	}
	for _, t := range targets(steps) {
		u, ok, err := control.Lock(ctx, e.Stream, "target."+t, uid, e.bound())
		if err != nil {
			return unlock, false, fmt.Errorf("lock %s: %w", t, err)
		}
		if !ok {
			return unlock, false, nil
		}
		unlocks = append(unlocks, u)
	}
	return unlock, true, nil
}

// targetsFree reports whether lockTargets would get the locks, and takes none.
func (e *Env) targetsFree(ctx context.Context, steps []remedy.Step) (bool, error) {
	for _, t := range targets(steps) {
		free, err := control.Claim(ctx, e.Stream, true, "target."+t, 1, "nobody", 0)
		if err != nil {
			return false, fmt.Errorf("lock %s: %w", t, err)
		}
		if !free {
			return false, nil
		}
	}
	return true, nil
}

// targets returns what steps write beside the Service, in one order for all runs, so that
// no two wait for each other.
func targets(steps []remedy.Step) []string {
	var all []string
	for _, s := range steps {
		if t := s.Target(); t != "" {
			all = append(all, t)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
