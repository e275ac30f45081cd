package engine

import (
	"context"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
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
	classWait   = 2 * time.Minute
	clusterWait = 10 * time.Minute
)

// hold returns what holds back every write now; nil if nothing does.
func (e *Env) hold(ctx context.Context, p remedy.Policy) (*hold, error) {
	if e.Stream != nil {
		pause, err := Paused(ctx, e.Stream, e.Cluster)
		if err != nil {
			return nil, unreadable{err}
		}
		if pause != nil {
			return &hold{event.HeldByPause, pause.Text(), pausedWait}, nil
		}
	}
	now := e.now()
	if text, until := p.Frozen(now); len(text) > 0 {
		return &hold{event.HeldByFreeze, text, max(time.Second, min(until.Sub(now), frozenWait))}, nil
	}
	return nil, nil
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

// keep puts a hold into the record: the case waits, and is diagnosed afresh then.
func (x *run) keep(h *hold) {
	x.rec.Result, x.rec.Held, x.rec.Wait = event.Waiting, h.by, h.wait
	x.rec.SetRule(h.rule)
}

// afford takes the places in the budgets that a plan needs which nobody has agreed
// to, and reports whether it may begin. What waits for an hour becomes a question.
func (x *application) afford(ctx context.Context) (bool, error) {
	return x.affords(ctx, x.env.Stream.Claim)
}

// affords is afford, with what takes a place or only looks for one.
func (x *application) affords(ctx context.Context, claim claiming) (bool, error) {
	if x.rec.Approved != nil {
		return true, nil
	}
	why, wait, err := x.env.spend(ctx, claim, x.c.Policy.Budgets, x.r.Class, string(x.c.Service.UID))
	if err != nil || len(why) == 0 {
		return err == nil, err
	}
	if agreed, err := x.approvals.approved(ctx, &x.rec, x.c.Attempt, x.c.Policy.Consent(x.risk)); err != nil || agreed {
		return agreed, err
	}
	if x.env.waited(x.rec) > patience {
		x.rec.Result = event.Asked
		x.rec.SetRule(why)
		x.rec.AddAsk(say.F("The plan has waited for an hour. Approve it: lbremedy approve %s. Or raise the budget in the policy file.", x.rec.Case))
		return false, nil
	}
	x.keep(&hold{event.HeldByBudget, why, wait})
	return false, nil
}

// broken returns the open breaker of the class; nil if there is none.
func (e *Env) broken(ctx context.Context, class string) (*Breaker, error) {
	if e.Stream == nil {
		return nil, nil
	}
	return breaker(ctx, e.Stream, e.Cluster, class)
}
