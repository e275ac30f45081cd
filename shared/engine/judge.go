package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// What a record says of a plan is for people. A run that takes one over works out anew
// what risk it has and whether somebody has agreed to it: by the class, as long as no step
// is made, and after that by the steps and by what the sync after them changes.

// judge works out what a plan that was taken over may do. What the class would not plan
// any more ends the run, with nothing written.
func (x *application) judge(ctx context.Context) (rec event.Record, ended bool, err error) {
	if into := x.into; into != nil { // the time of this look is that of a diagnosis, and what is before and after it is not
		x.lap(into)
		defer func() { x.into = into }()
	}
	ends := func(rec event.Record, err error) (event.Record, bool, error) { return rec, true, err }
	// The run before may have made its step and could not say so. The document must, before anything puts the plan off.
	if i := x.rec.Next; i < len(x.steps) && x.doubt {
		switch a, err := x.ask(ctx, hand.Check, false, x.steps[i]); {
		case err != nil: // it is asked again below
		case a.State == hand.Todo:
			x.doubt = false
		case a.State == hand.Found:
			if err := x.made(ctx); err != nil {
				return ends(x.lost(err))
			}
		}
	}
	// While nothing may be written anyway, nothing else needs to be read.
	if h, err := x.env.hold(ctx, x.c.Policy); err != nil {
		return ends(x.fail(ctx, err))
	} else if h != nil {
		return ends(x.park(ctx, h.wait, event.ForPolicy, h.rule))
	}
	plan, left := remedy.Plan{Steps: x.steps}, x.steps[x.rec.Next:]
	if len(left) > 0 {
		a, err := x.ask(ctx, hand.Check, false, left[0])
		if err != nil {
			return ends(x.fail(ctx, fmt.Errorf("check step %d: %w", x.rec.Next+1, err)))
		}
		x.doubt = x.doubt && a.State != hand.Todo
		if a.State == hand.Found { // and the run that made it could not say so
			left = left[1:]
		}
	}
	made := len(left) < len(x.steps)
	if made {
		// What is made, the controller may have synced, too: only what is left brings a sync.
		plan, err = x.compare(ctx, plan, len(x.steps)-len(left))
	} else {
		var over bool
		if plan, over, err = x.diagnose(ctx); over {
			return ends(x.settle(ctx, x.rec.Result))
		}
	}
	if err != nil {
		return ends(x.fail(ctx, err))
	}
	uid := string(x.c.Service.UID)
	if (remedy.Plan{Steps: plan.Steps}).Digest(x.r.Class, uid) != (remedy.Plan{Steps: x.steps}).Digest(x.r.Class, uid) {
		return ends(x.moved(ctx, x.steps[0]))
	}
	// That the record lists what was agreed to shows in the digest. Of that, what a step has
	// made since will not be changed any more.
	said := remedy.Plan{Steps: x.steps, Changes: x.rec.Changes}
	digest, less := said.Digest(x.r.Class, uid), remedy.Within(plan.Changes, said.Changes)
	if !made {
		x.rec.Changes = plan.Changes
	}
	x.risk = plan.Highest()
	x.rec.Risk, x.rec.Approved, x.rec.Seconded = x.risk.String(), nil, nil
	g, err := x.guards(ctx, true)
	if err != nil {
		return ends(x.fail(ctx, err))
	}
	x.c.Policy = g.policy
	if less {
		now := x.rec
		now.Digest = digest
		if x.approved(g.answers, &now, x.rec.Attempt, x.c.Policy.Consent(x.risk)) {
			x.rec.Approved, x.rec.Seconded = now.Approved, now.Seconded
		}
	}
	if made || x.doubt || x.rec.Approved != nil {
		return event.Record{}, false, nil
	}
	// It waited, and what it was decided by may have changed: as long as nothing is written, that holds it back as it would a new plan.
	why := say.Text(nil)
	if g.breaker != nil {
		why = g.breaker.Text()
	} else if why, _, err = x.env.spend(ctx, false, x.c.Policy.Budgets, x.r.Class, uid); err != nil {
		return ends(x.fail(ctx, err))
	}
	if len(why) == 0 {
		return event.Record{}, false, nil
	}
	return ends(x.giveUp(ctx, why))
}

// compare returns a plan of the class, of which so many steps are made, with what the sync after the others changes, and with the
// risk of that.
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
