package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/machine"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/retry"
	"github.com/lbremedy/lbremedy/shared/say"
)

// mostClaimed limits how often a class may choose other places in one run: each choice leaves claims for ten minutes.
const mostClaimed = 16

// try makes a server-side dry run of the steps that write to the cluster and returns the error of a step. The cloud API has no dry run.
func (x *run) try(ctx context.Context, steps []remedy.Step) error {
	unsure := map[string]bool{}
	for i, s := range steps {
		if unsure[s.Target()] {
			continue
		}
		unsure[s.Target()] = s.Target() != ""
		_, err := x.order(ctx, s, hand.Order{Fresh: true, Dry: true})
		switch {
		case errors.Is(err, hand.ErrUnsure):
			x.rec.Note = x.rec.Note.Then(say.F("Step %d could not be tried: %s.", i+1, event.Redact(err.Error())))
			return nil
		case errors.Is(err, hand.ErrMoved):
			return nil // the Service is changing now, and a run would diagnose again
		case err != nil:
			return fmt.Errorf("step %d, %s: %w", i+1, s.Says(), err)
		}
	}
	return nil
}

// claim takes a place of each claim, or returns false and records which one is full.
func (x *run) claim(ctx context.Context, claims []remedy.Claim) (bool, error) {
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

// lock locks the targets of the steps beside the Service until the run ends. A run that only looks checks whether they are free.
func (x *run) lock(ctx context.Context, steps []remedy.Step) (held bool, err error) {
	if x.unlock != nil {
		return true, nil
	}
	var targets []string
	for _, s := range steps {
		if t := s.Target(); t != "" {
			targets = append(targets, t)
		}
	}
	unlock, held, err := control.LockTargets(ctx, x.env.Stream, x.dry, targets, string(x.c.Service.UID), x.env.bound())
	if held {
		x.unlock = unlock
	}
	return held, err
}

func (x *run) permits(ctx context.Context) machine.Guarded {
	if x.refusal != nil {
		return machine.Guarded{Readable: true, Revision: x.object.Revision, Moved: true, Outcome: x.refused(x.refusal).Outcome}
	}
	order := x.object.State.Order
	s := x.steps[order.Step]
	first := order.Step == 0
	begun := x.object.Decided().Plan.Begun
	out := machine.Guarded{Readable: true, Permits: true, Place: true, Revision: x.object.Revision}
	wait := func(d time.Duration, reason event.Reason, why say.Text) machine.Guarded {
		x.held, x.rec.Reason, out.Due = &hold{rule: why}, reason, max(d, time.Second)
		return out
	}
	taken := x.taken
	if taken || !first || x.checked || remedy.IsResync(s) {
		over, around, err := x.readPlace(ctx)
		if err != nil {
			return x.unguarded(err)
		}
		if len(over) > 0 {
			out.Over = x.gone(over)
			return out
		}
		x.around = around
	}
	if held, err := x.lock(ctx, x.steps[order.Step:]); err != nil {
		return x.unguarded(err)
	} else if !held {
		return wait(2*time.Second, event.ForTarget, say.F("Another case is writing to the same target."))
	}
	if x.taken {
		var moved bool
		var err error
		if moved, out.Over, err = x.reassess(ctx, order.Step); err != nil {
			return x.unguarded(err)
		} else if out.Over != "" {
			return out
		} else if out.Moved = moved; moved {
			x.drifted(x.steps[0])
			return out
		}
	}
	resync, syncs := s.(remedy.ResyncStep)
	if syncs {
		proof, err := x.syncedAlready(ctx)
		switch {
		case err != nil:
			return x.unguarded(err)
		case len(proof) > 0:
			r, why, _ := x.traffic(ctx)
			x.rec.Note = x.rec.Note.Then(proof.And("A resync was not needed.").Then(why))
			out.Over = machine.Outcome(r)
			return out
		// A full sync overwrites what the plan has compared, so the Service must be unchanged.
		case ccm.SpecDigest(x.c.Service) != x.rec.Left && !x.c.Written():
			x.drifted(s)
			out.Moved = true
			return out
		}
	}
	if d := x.env.due(s, x.rec, begun); d > 0 {
		return wait(d, event.ForStep, say.F("Waiting before the next step: %s.", s.Says()))
	}
	if syncs && !x.reserved {
		if err := x.object.Flush(ctx); err != nil { // people who follow CASES see the plan while it waits
			return x.unguarded(err)
		}
		began := x.env.Time()
		parked, err := x.env.pace(ctx, resync.Pace(), order.Expires.Add(-fresh))
		if err != nil {
			return x.unguarded(err)
		}
		if parked > 0 {
			return wait(parked, event.AfterOthers, say.F("Other writes of this kind come first."))
		}
		if x.reserved = true; x.env.since(began) > fresh { // the earlier reads are stale
			x.taken = true
			return x.permits(ctx)
		}
	}
	if x.resumed { // CASES records that the plan goes on before it does
		phase := event.Step
		if first {
			phase = event.Intent
		}
		if err := x.append(machine.Entry{Class: x.r.Class, Attempt: x.rec.Attempt, Code: "resumed", Step: order.Step}, phase); err != nil {
			return x.unguarded(err)
		}
		if err := x.object.Store(ctx); err != nil {
			return x.unguarded(err)
		}
		x.resumed = false
	}
	if err := x.object.Confirm(ctx); err != nil {
		return x.unguarded(err)
	}
	var g guards
	var unkept error
	err := x.aside(func() error { unkept = x.object.Flush(ctx); return nil },
		func() (err error) { g, err = x.guards(ctx, first || x.taken); return err })
	if err != nil {
		return x.unguarded(err)
	}
	if out.Journaled = unkept == nil; unkept != nil {
		x.fail(unkept)
	}
	x.known = g
	x.c.Policy = g.policy
	x.stand(x.around)
	out.Revision = g.revision
	may := x.permission(g.policy)
	ok, rule := may.Allows(x.r, x.risk, remedy.OneWay(x.steps))
	out.Permits, out.Approved = ok, x.rec.Approved != nil
	if may.Mode != remedy.Fix {
		out.Outcome = machine.Outcome(event.Planned)
	}
	if !ok && !out.Approved || out.Outcome != "" {
		x.held = &hold{rule: say.F("The policy changed before all steps of the plan were applied.").Then(rule)}
	}
	if first {
		if why := x.objection(g); len(why) > 0 {
			x.rec.Note = x.rec.Note.Then(why.Then(say.F("Nothing of the plan was written. The case is diagnosed again.")))
			out.Approved, out.Permits, x.dropped = false, false, true
		}
		if taken && g.breaker != nil && !out.Approved {
			x.rec.Note = x.rec.Note.Then(g.breaker.Text().Then(say.F("Nothing of the plan was written. The case is diagnosed again.")))
			out.Permits, x.dropped = false, true
		}
	}
	if taken && first && !out.Approved {
		spent, err := x.env.spend(ctx, true, g.policy.Budgets, g.count, x.r.Class, string(x.c.Service.UID))
		if err != nil {
			return x.unguarded(err)
		}
		out.Place = spent == nil
	}
	if h := x.env.held(g.pause, g.policy); h != nil {
		x.held, out.Paused, out.Hold = h, true, h.wait
	}
	return out
}

// reassess works out again the risk of an earlier run's plan and whether it is approved; what a record says of them is for people. Before
// the first step the class decides; then what the sync after the remaining steps changes. moved means that the class has another plan now.
func (x *run) reassess(ctx context.Context, made int) (moved bool, over machine.Outcome, err error) {
	if into := x.into; into != nil { // only this look counts as diagnosis time
		x.lap(into)
		defer func() { x.into = into }()
	}
	if x.c.Policy, err = x.env.policy(x.object.Since(ctx)); err != nil {
		return false, "", err
	}
	x.stand(x.around)
	plan := remedy.Plan{Steps: x.steps}
	a, err := x.ask(ctx, hand.Check, false, x.steps[made])
	if err != nil {
		return false, "", fmt.Errorf("check step %d: %w", made+1, err)
	}
	if a.State == hand.Found { // somebody else has made it; the remaining steps trigger the sync
		made++
	}
	if made > 0 {
		plan, err = x.compare(ctx, plan, made)
	} else {
		var ended bool
		if plan, ended, err = x.diagnose(ctx); ended && err == nil {
			if x.rec.Result == event.Waiting {
				return true, "", nil
			}
			return false, machine.Outcome(x.rec.Result), nil
		}
	}
	if err != nil {
		return false, "", err
	}
	uid := string(x.c.Service.UID)
	if (remedy.Plan{Steps: plan.Steps}).Digest(x.r.Class, uid) != (remedy.Plan{Steps: x.steps}).Digest(x.r.Class, uid) {
		return true, "", nil
	}
	// The digest proves that the record lists the approved changes. Steps made since have used some of them up.
	said := remedy.Plan{Steps: x.steps, Changes: x.rec.Changes}
	digest, less := said.Digest(x.r.Class, uid), remedy.Within(plan.Changes, said.Changes)
	if made == 0 {
		x.rec.Changes = plan.Changes
	}
	x.risk = plan.RiskTo(x.c.Service, x.env.Time())
	x.rec.Risk, x.rec.Approved, x.rec.Seconded = x.risk.String(), nil, nil
	if less {
		given, err := x.answers(ctx)
		if err != nil {
			return false, "", err
		}
		now := x.rec
		now.Digest = digest
		if given.Approved(&now, x.rec.Attempt, x.c.Policy.Consent(x.risk)) {
			x.rec.Approved, x.rec.Seconded = now.Approved, now.Seconded
		}
	}
	x.taken = false
	return false, "", nil
}

// compare returns the class's plan, after made steps, with what the sync after the remaining ones changes, and its risk.
func (x *run) compare(ctx context.Context, plan remedy.Plan, made int) (remedy.Plan, error) {
	data, err := hand.Steps(plan.Steps)
	if err != nil {
		return remedy.Plan{}, err
	}
	a, err := x.asks(ctx, hand.LookRequest{For: hand.Compare, Steps: data, Made: made})
	if err != nil {
		return remedy.Plan{}, err
	}
	if a.Plan == nil {
		return remedy.Plan{}, errors.New("the hand has compared nothing")
	}
	plan.Risk, plan.Changes = a.Plan.Risk, a.Plan.Changes
	return plan, nil
}

func (x *run) send(ctx context.Context, o machine.Order) machine.Report {
	s, out := x.steps[o.Step], machine.Applied{ID: o.ID}
	log := x.log.With("step", s.Kind())
	x.rec.Steps[o.Step].Began = x.env.Time()
	a, err := x.order(ctx, s, hand.Order{Fresh: o.Step == 0 && !x.checked && len(x.plan.Steps) > 0})
	failed := func(r machine.Result) machine.Result {
		x.fail(fmt.Errorf("step %d, %s: %w", o.Step+1, s.Says(), err))
		return r
	}
	switch doubt := doubted(a); {
	case doubt != "":
		out.Result = failed(doubt)
	case err != nil && a.State != hand.Moved && slices.ContainsFunc(a.Calls, event.Call.Wrote):
		out.Result = failed(machine.Partly)
	case err != nil && a.State == "":
		x.fail(fmt.Errorf("check step %d: %w", o.Step+1, err))
		out.Result = machine.Refused
	case remedy.IsResync(s) && errors.Is(err, hand.ErrMoved):
		// The write before this one may be the controller's, which makes a resync unnecessary.
		x.rec.Reason = event.AfterOthers
		x.rec.Rule = say.F("Somebody else has just written to the Service.")
		out.Result = machine.Blocked
	case a.State == hand.Moved, errors.Is(err, hand.ErrMoved):
		x.drifted(s)
		out.Result = machine.Moved
	case err != nil:
		log.Error("step not applied", "error", event.Redact(err.Error()))
		out.Result = failed(machine.Refused)
	case a.State == hand.Found:
		out.Result = machine.Found
	default:
		log.Info("step applied", "text", s.Says().String())
		out.Result = machine.Done
	}
	return out
}

// doubted returns the result of an order whose step may or may not have been made; empty if that is known.
func doubted(a hand.ApplyAnswer) machine.Result {
	switch {
	case a.State == hand.Lost:
		return machine.NoAnswer
	case slices.ContainsFunc(a.Calls, event.Call.Open):
		return machine.Unsure
	}
	return ""
}

// syncedAlready returns the evidence that the controller has synced the Service without a resync step since the failure and the last step,
// or nothing. A retry that syncs only backends leaves an Event, which anybody may write: it counts if the class no longer finds its cause.
func (x *run) syncedAlready(ctx context.Context) (proof say.Text, err error) {
	since := x.ev.Failure.Last
	if x.rec.Written.After(since) {
		since = x.rec.Written
	}
	if proof, _, err = x.env.synced(ctx, x.c, since); err != nil || len(proof) == 0 {
		return nil, err
	}
	a, err := x.ask(ctx, hand.Prove, false)
	switch {
	case err != nil:
		return nil, fmt.Errorf("prove that it was synced: %w", err)
	case a.Verdict != remedy.No:
		return nil, nil
	}
	return proof, nil
}

func (e *Env) due(s remedy.Step, rec event.Record, begun time.Time) time.Duration {
	settler, ok := s.(remedy.Settler)
	if !ok {
		return 0
	}
	since := rec.Written
	if since.IsZero() {
		since = begun
	}
	return settler.Settle() - e.since(since)
}

// pace waits for the cluster's next free moment for such a step, or returns the time until a moment beyond this run's time or after by.
func (e *Env) pace(ctx context.Context, every time.Duration, by time.Time) (time.Duration, error) {
	wait, err := control.Reserve(ctx, e.Stream, e.Cluster, every)
	if err != nil {
		return 0, err
	}
	if wait > min(e.watch(), by.Sub(e.Time())) {
		return wait, nil
	}
	if !retry.Sleep(ctx, wait) {
		return 0, ctx.Err()
	}
	return 0, nil
}
