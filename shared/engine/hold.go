package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/lbremedy/lbremedy/shared/engine/control"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A hold is what keeps a plan from being applied now, though it is allowed.
type hold struct {
	by   event.Hold
	rule say.Text      // as a sentence
	wait time.Duration // until the case is looked at again
	drop bool          // the plan is given up, and not put off
}

const (
	pausedWait  = 10 * time.Second
	frozenWait  = 10 * time.Second // at most; the policy may change meanwhile
	classWait   = 2 * time.Minute
	clusterWait = 10 * time.Minute
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
		g.policy, err = e.policy(now, x.r.Sections)
		return err
	}
	view, err := e.Stream.View(now, control.Keys(e.Cluster)...)
	if err != nil {
		return unreadable{fmt.Errorf("read what may hold the plan back: %w", err)}
	}
	if err := x.shows(view); err != nil {
		return err
	}
	g.breaker, g.pause = control.BreakerIn(view, e.Cluster, x.r.Class), control.PauseIn(view, e.Cluster)
	g.policy, err = e.policy(now, x.r.Sections)
	return err
}

// stands returns the pause or freeze that held the case back and still does; nil if
// it is over. While it stands, nothing else needs to be read.
func (e *Env) stands(ctx context.Context, prev event.Record) *hold {
	if prev.Held != event.HeldByPause && prev.Held != event.HeldByFreeze {
		return nil
	}
	p, err := e.policy(ctx, nil)
	if err != nil {
		return nil // it is read again, and said
	}
	h, err := e.hold(ctx, p)
	if err != nil {
		return nil
	}
	return h
}

// objection returns what persons have said of a plan, before its first step, that keeps it from being applied: a rejection that
// came after it was decided, or that its approval does not carry it any more. nil: nothing does. From the intent on none is taken.
func (x *run) objection(g guards) *hold {
	now := x.rec
	switch {
	case g.answers.rejected(&now):
		return &hold{rule: now.Said.Rule, drop: true}
	case x.rec.Approved != nil && !x.approved(g.answers, &now, x.rec.Attempt, g.policy.Consent(x.risk)):
		return &hold{rule: say.F("The approval of the plan no longer counts."), drop: true}
	}
	return nil
}

// keep puts a hold into the record: the case waits, and is diagnosed afresh then.
func (x *run) keep(h *hold) {
	x.rec.Result, x.rec.Held, x.rec.Wait = event.Waiting, h.by, h.wait
	x.rec.SetRule(h.rule)
}

// afford takes the places in the budgets that a plan needs which nobody has agreed
// to, and reports whether it may begin. What waits for an hour becomes a question.
func (x *application) afford(ctx context.Context) (bool, error) {
	return x.affords(ctx, false)
}

// affords is afford. If it is dry, it takes no place.
func (x *application) affords(ctx context.Context, dry bool) (bool, error) {
	if x.rec.Approved != nil {
		return true, nil
	}
	why, wait, err := x.env.spend(ctx, dry, x.c.Policy.Budgets, x.r.Class, string(x.c.Service.UID))
	if err != nil || len(why) == 0 {
		return err == nil, err
	}
	said, err := x.answers(ctx)
	if err != nil {
		return false, err
	}
	if x.approved(said, &x.rec, x.c.Attempt, x.c.Policy.Consent(x.risk)) {
		return true, nil
	}
	if x.env.waited(x.rec) > patience {
		x.rec.Result = event.Asked
		x.rec.SetRule(why)
		x.rec.AddAsk(say.F("The plan has waited for an hour. Approve it: lbremedy approve %s. Or raise the budget in the policy file.", x.rec.Case))
		return false, nil
	}
	x.keep(&hold{by: event.HeldByBudget, rule: why, wait: wait})
	return false, nil
}
