package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/machine"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A hold is what keeps a plan from being applied now, though it is allowed.
type hold struct {
	by   event.Hold
	rule say.Text      // as a sentence
	wait time.Duration // until the case is looked at again
}

const (
	pausedWait  = 10 * time.Second
	frozenWait  = 10 * time.Second // at most; the policy may change meanwhile
	budgetWait  = time.Minute      // at most; a raised budget lets the case go on
	budgetLeast = 10 * time.Second // where the clock of NATS is behind
)

// hold returns what holds back every write now; nil if nothing does.
func (e *Env) hold(ctx context.Context, p remedy.Policy) (*hold, error) {
	pause, err := e.paused(ctx)
	if err != nil {
		return nil, err
	}
	return e.held(pause, p), nil
}

// paused returns the pause that is in force now; nil if there is none.
func (e *Env) paused(ctx context.Context) (*control.Pause, error) {
	if e.Stream == nil {
		return nil, nil
	}
	pause, err := control.Paused(ctx, e.Stream, e.Cluster)
	if err != nil {
		return nil, unreadable{err}
	}
	return pause, nil
}

// held returns what holds back every write, with this pause or none.
func (e *Env) held(pause *control.Pause, p remedy.Policy) *hold {
	if pause != nil {
		return &hold{by: event.HeldByPause, rule: pause.Text(), wait: pausedWait}
	}
	now := e.now()
	if text, until := p.Frozen(now); len(text) > 0 {
		return &hold{by: event.HeldByFreeze, rule: text, wait: max(time.Second, min(until.Sub(now), frozenWait))}
	}
	return nil
}

// guards are the stream's contents that may hold a plan back, all read at one moment, and the policy. The policy is read
// last: a run that finds a pause over sees every change of the policy that was made during the pause.
type guards struct {
	breaker *control.Breaker // of the class, if it is open
	pause   *control.Pause   // in force
	policy  remedy.Policy
	answers answers // Approvals of the plan, from the API server; empty if the caller did not ask for them
	count   int     // LoadBalancer Services of the cluster, as the exporter has counted; 0 if it has not yet

	revision uint64 // of the document
}

// guards reads them as they were when the run last wrote the document, or later, and the answers as they are now.
func (x *run) guards(ctx context.Context, answered bool) (g guards, err error) {
	reads := []func() error{func() error { return x.inStream(ctx, &g) }}
	if answered {
		reads = append(reads, func() (err error) { g.answers, err = x.answers(ctx); return err })
	}
	err = x.aside(reads...)
	return g, err
}

// inStream reads what the stream holds of them.
func (x *run) inStream(ctx context.Context, g *guards) (err error) {
	e, now := x.env, x.since(ctx)
	if e.Stream == nil {
		g.policy, err = e.policy(now)
		return err
	}
	view, err := e.Stream.View(now, append(control.Keys(e.Cluster), x.object.key, event.CountKey(e.Cluster))...)
	if err != nil {
		return unreadable{fmt.Errorf("read what may hold the plan back: %w", err)}
	}
	if g.count, err = countIn(view, e.Cluster); err != nil {
		return err
	}
	g.revision = view[x.object.key].Revision
	g.breaker, g.pause = control.BreakerIn(view, e.Cluster, x.r.Class), control.PauseIn(view, e.Cluster)
	g.policy, err = e.policy(now)
	return err
}

// stillHeld returns the pause, freeze or spent budget that held the case back and still does; nil if it is over, or can't be
// read. While it lasts, nothing else needs to be read.
func (x *run) stillHeld(ctx context.Context) *hold {
	p, err := x.env.policy(ctx)
	if err != nil {
		return nil
	}
	switch x.prev.Held {
	case event.HeldByPause, event.HeldByFreeze:
		h, err := x.env.hold(ctx, p)
		if err != nil {
			return nil
		}
		return h
	case event.HeldByBudget:
		view, err := x.env.Stream.View(ctx, event.CountKey(x.env.Cluster))
		if err != nil {
			return nil
		}
		count, err := countIn(view, x.env.Cluster)
		if err != nil {
			return nil
		}
		why, wait, err := x.env.spend(ctx, true, p.Budgets, count, x.r.Class, x.ev.Failure.Service.UID)
		if err != nil || len(why) == 0 {
			return nil
		}
		return &hold{by: event.HeldByBudget, rule: why, wait: wait}
	}
	return nil
}

// objection returns what persons have said of a plan, before its first step, that keeps it from being applied: a rejection that
// came after it was decided, or that its approval does not carry it any more. From the intent on none is taken.
func (x *run) objection(g guards) say.Text {
	now := x.rec
	switch {
	case g.answers.rejected(&now):
		return now.Said.Rule
	case x.rec.Approved != nil && !x.approved(g.answers, &now, x.rec.Attempt, g.policy.Consent(x.risk)):
		return say.F("The approval of the plan no longer counts.")
	}
	return nil
}

// takes takes places in budgets and claims for the plan, and a snapshot of what it will change. nil: it only looks, and the plan
// could begin.
func (x *run) takes(ctx context.Context, t machine.Take) machine.Report {
	if x.dry && !x.ev.Again {
		return nil // whatever the budgets hold by the time that it is run
	}
	if !t.Approved {
		why, wait, err := x.env.spend(ctx, x.dry, x.c.Policy.Budgets, x.known.count, x.r.Class, string(x.c.Service.UID))
		if err == nil && len(why) > 0 {
			var said answers
			if said, err = x.answers(ctx); err == nil && !x.approved(said, &x.rec, x.c.Attempt, x.c.Policy.Consent(x.risk)) {
				x.held = &hold{by: event.HeldByBudget, rule: why, wait: wait}
				return machine.Taken{After: wait}
			}
		}
		if err != nil {
			return x.found(err)
		}
	}
	if x.dry {
		return x.free(ctx)
	}
	if x.object.state().Plan.Begun != (time.Time{}) { // the plan has begun, and its place has lapsed
		return machine.Taken{OK: true}
	}
	if taken, err := x.claim(ctx, x.plan.Claims); err != nil {
		return x.found(err)
	} else if !taken {
		if x.claimed++; x.claimed > mostClaimed {
			return x.found(fmt.Errorf("class %s chose places that are taken %d times", x.r.Class, mostClaimed))
		}
		return machine.Taken{Again: true}
	}
	if err := x.preserve(ctx, x.plan.Highest(), x.steps, false); err != nil {
		return x.found(err)
	}
	return machine.Taken{OK: true}
}

// free reports whether a look's plan could begin: nothing else writes to its targets.
func (x *run) free(ctx context.Context) machine.Report {
	free, err := x.env.targetsFree(ctx, x.steps)
	switch {
	case err != nil:
		return x.found(err)
	case !free:
		x.held = &hold{rule: say.F("Another case is writing to the same target.")}
		x.rec.Reason = event.ForTarget
		return machine.Taken{After: 2 * time.Second}
	}
	return machine.Taken{OK: true}
}
