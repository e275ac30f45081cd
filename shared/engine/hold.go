package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/lbremedy/lbremedy/shared/approval"
	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/machine"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

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

// held returns what holds back every write; pause may be nil.
func (e *Env) held(pause *control.Pause, p remedy.Policy) *hold {
	if pause != nil {
		return &hold{by: event.HeldByPause, rule: pause.Text(), wait: pausedWait}
	}
	now := e.Time()
	if text, until := p.Frozen(now); len(text) > 0 {
		return &hold{by: event.HeldByFreeze, rule: text, wait: max(time.Second, min(until.Sub(now), frozenWait))}
	}
	return nil
}

// guards are what the stream holds that may hold a plan back, read at one moment, and the policy. The policy is read last: a run that sees
// the end of a pause also sees every policy change made during it.
type guards struct {
	breaker *control.Breaker // of the class, if it is open
	pause   *control.Pause   // in force
	policy  remedy.Policy
	answers approval.Answers // to the plan, from the API server; empty unless the caller asked for them
	count   int              // LoadBalancer Services of the cluster, as the exporter has counted; 0 if not counted yet

	revision uint64 // of the document
}

// guards reads them no older than the run's last write of the document. The answers are current.
func (x *run) guards(ctx context.Context, answered bool) (g guards, err error) {
	reads := []func() error{func() error { return x.inStream(ctx, &g) }}
	if answered {
		reads = append(reads, func() (err error) { g.answers, err = x.answers(ctx); return err })
	}
	err = x.aside(reads...)
	return g, err
}

func (x *run) inStream(ctx context.Context, g *guards) (err error) {
	e, now := x.env, x.object.Since(ctx)
	if e.Stream == nil {
		g.policy, err = e.policy(now)
		return err
	}
	view, err := e.Stream.View(now, append(control.Keys(e.Cluster), x.object.Key, event.CountKey(e.Cluster))...)
	if err != nil {
		return unreadable{fmt.Errorf("read what may hold the plan back: %w", err)}
	}
	if g.count, err = control.ServicesIn(view, e.Cluster); err != nil {
		return err
	}
	g.revision = view[x.object.Key].Revision
	g.breaker, g.pause = control.BreakerIn(view, e.Cluster, x.r.Class), control.PauseIn(view, e.Cluster)
	g.policy, err = e.policy(now)
	return err
}

// stillHeld returns the pause, freeze or spent budget that still holds the case, or nil, also if unreadable. While it lasts, nothing else is read.
func (x *run) stillHeld(ctx context.Context) *hold {
	g, err := x.guards(ctx, false)
	switch {
	case err != nil:
	case x.prev.Held == event.HeldByPause, x.prev.Held == event.HeldByFreeze:
		return x.env.held(g.pause, g.policy)
	case x.prev.Held == event.HeldByBudget:
		h, _ := x.env.spend(ctx, true, g.policy.Budgets, g.count, x.r.Class, x.ev.Failure.Service.UID)
		return h
	}
	return nil
}

// spend takes the Service's places in the budgets of its class and of a cluster with this many Services, and returns the full budget, if
// any. A dry run takes none. A place counts once for all writes to a Service and lasts until its window is over.
func (e *Env) spend(ctx context.Context, dry bool, b remedy.Budgets, services int, class, uid string) (*hold, error) {
	most := b.OfCluster(services)
	room, err := control.Spend(ctx, e.Stream, dry, e.Cluster, class, uid, b.OfClass(), most)
	h := &hold{by: event.HeldByBudget, wait: budgetWait}
	switch {
	case err != nil:
		return nil, err
	case !room.Class:
		h.rule = say.F("The budget of the class is spent: %s in %d minutes.", say.Count(b.OfClass(), "Service"), int(control.ClassWindow.Minutes()))
	case !room.Cluster:
		h.rule = say.F("The budget of the cluster is spent: writes to %d of its %s in an hour.", min(most, control.MostServices),
			say.Count(services, "LoadBalancer Service"))
	default:
		return nil, nil
	}
	if !room.Free.IsZero() {
		h.rule = h.rule.And("The next place is free at %s.", room.Free.UTC().Format(time.RFC3339))
		h.wait = min(h.wait, max(budgetLeast, room.Free.Sub(e.Time())))
	}
	return h, nil
}

// answers returns people's answers to plans for the Service as of now. A rejection stays in the case, even if its Approval is deleted.
func (x *run) answers(ctx context.Context) (a approval.Answers, err error) {
	a = approval.Answers{Agreed: x.env.Agreed, At: x.env.Time()}
	ref := x.ev.Failure.Service // this run reads this Service; anyone with access to NATS can forge a record
	if x.env.Stream == nil || ref.Kind != "" {
		return a, nil
	}
	var earlier []approval.Given
	if no := x.prev.Rejected; no != nil && x.prev.Status() == event.Rejected && a.At.Before(no.At.Add(approval.RejectionLife)) {
		earlier = append(earlier, approval.Given{Approved: *no, Digest: x.prev.Digest, Rejects: true})
	}
	if a.Given, a.Void, err = approval.Read(ctx, x.env.Kube, x.env.Cluster, ref, a.At, earlier...); err != nil {
		return a, unreadable{fmt.Errorf("read the Approvals: %w", err)}
	}
	return a, nil
}

// answerable reports whether a person may since have answered the record's plan, or revoked a rejection, so it must be looked at again: a
// NATS node that is behind may hide an answer from a run that does not hold the object.
func answerable(rec event.Record) bool {
	return rec.Phase == event.Settled && rec.Digest != "" && (rec.Result == event.Asked || rec.Status() == event.Rejected)
}

// objection returns why people's answers keep a plan from being applied before its first step: a later rejection, or an approval that no
// longer covers the plan. After the intent is recorded, objections no longer count.
func (x *run) objection(g guards) say.Text {
	now := x.rec
	switch {
	case g.answers.Rejected(&now):
		return now.Rule
	case x.rec.Approved != nil && !g.answers.Approved(&now, x.rec.Attempt, g.policy.Consent(x.risk)):
		return say.F("The approval of the plan no longer counts.")
	}
	return nil
}

// takes takes places in budgets and claims for the plan, and a snapshot of what it will change. nil means that a look's plan could begin.
func (x *run) takes(ctx context.Context, t machine.Take) machine.Report {
	if x.dry && !x.ev.Again {
		return nil // budgets may differ when it is applied
	}
	if !t.Approved {
		h, err := x.env.spend(ctx, x.dry, x.c.Policy.Budgets, x.known.count, x.r.Class, string(x.c.Service.UID))
		if err == nil && h != nil {
			var said approval.Answers
			if said, err = x.answers(ctx); err == nil && !said.Approved(&x.rec, x.c.Attempt, x.c.Policy.Consent(x.risk)) {
				x.held = h
				return machine.Taken{After: h.wait}
			}
		}
		if err != nil {
			return x.found(err)
		}
	}
	if x.dry || !x.object.Decided().Plan.Begun.IsZero() { // a plan that has begun: its place has lapsed
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
