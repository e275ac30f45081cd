package engine

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// plan asks the class and decides about its plan; ok says that it is applied. If not,
// the record's result says how the run ends instead.
func (x *run) plan(ctx context.Context) (plan remedy.Plan, ok bool, err error) {
	plan, ended, err := x.diagnose(ctx)
	if err != nil || ended {
		return plan, false, err
	}
	ok, err = x.decide(ctx, plan)
	return plan, ok, err
}

// decide says whether the plan is applied. If not, the record's result says what happens instead.
func (x *run) decide(ctx context.Context, plan remedy.Plan) (bool, error) {
	defer x.lap(&x.rec.Timings.Decide)
	steps, err := remedy.Records(plan.Steps)
	if err != nil {
		return false, err
	}
	x.steps, x.risk = plan.Steps, plan.Highest()
	x.rec.SetFinding(plan.Finding.Map(event.Redact))
	x.rec.SetAsk(plan.Ask.Map(event.Redact))
	x.rec.SetNote(plan.Note.Map(event.Redact))
	x.rec.Cause, x.rec.Wait = event.Redact(plan.Cause), plan.Wait
	x.rec.Steps, x.rec.Changes, x.rec.Risk = steps, plan.Changes, ""
	x.rec.Held, x.rec.Approved, x.rec.Seconded, x.rec.Rejected, x.rec.Digest, x.rec.Decided = "", nil, nil, nil, "", ""
	may := x.permission(x.c.Policy)
	if len(plan.Steps) == 0 {
		x.rec.Result = event.Asked
		switch lasted := x.env.waited(x.rec); {
		case plan.Wait == 0:
		case lasted <= max(remedy.Lasting, plan.Patience):
			x.rec.Result = event.Waiting
		default:
			x.rec.Wait = 0
			x.rec.SetRule(say.F("The failure was expected to end without a fix but has lasted %s.", lasted.Round(time.Minute)))
			x.rec.AddAsk(say.F("Find out why it lasts."))
		}
		if may.Muted && x.rec.Result == event.Asked {
			x.rec.Result = event.Planned
			x.rec.SetRule(may.Why.And("Nobody is asked."))
		}
		return false, nil
	}
	if x.object != nil && !x.object.room(x.rec) {
		x.rec.Steps, x.rec.Changes, x.rec.Result = nil, nil, event.Asked
		x.rec.SetRule(say.F("The plan is too large: what lbremedy knows of a Service has at most %d KiB.", documented>>10))
		x.rec.AddAsk(say.F("Make the change by hand."))
		return false, nil
	}
	x.rec.Risk = x.risk.String()

	own := ownerOf(x.c.Service, x.around, plan)
	x.rec.AddNote(own.note)
	switch {
	case own.manager == "" || may.Muted:
	case x.c.Service.DeletionTimestamp != nil:
		// Its source may be gone, and no manager recreates the Service before the deletion has ended.
		x.rec.AddNote(say.F("%s owns what the plan writes. The Service is being deleted, so the plan writes it all the same.", own.manager))
	default:
		// Without a digest: to agree would not help.
		x.rec.Result = event.Asked
		x.rec.SetRule(say.F("%s owns what the plan would write and would revert it.", own.manager))
		x.rec.AddAsk(say.F("Commit this patch to the source of the Service: %s", patches(x.c, plan)))
		return false, nil
	}
	x.rec.Digest = plan.Digest(x.r.Class, string(x.c.Service.UID))
	return x.permit(ctx, may, x.risk, oneWay(plan.Steps))
}

// permit says whether a plan with these properties is applied: by the policy, or
// by a person's word for it.
func (x *run) permit(ctx context.Context, may remedy.Permission, risk remedy.Risk, oneWay say.Text) (bool, error) {
	var g guards
	if may.Mode == remedy.Fix { // else nothing more needs to be read
		var err error
		if g, err = x.guards(ctx, true); err != nil {
			return false, err
		}
		// The policy that the class was asked with is from before the run held the object.
		x.c.Policy = g.policy
		x.stand(x.around)
		may = x.permission(x.c.Policy)
	}
	allowed, rule := may.Allows(x.r, risk, oneWay)
	if may.Mode != remedy.Fix {
		x.rec.Result = event.Planned
		x.rec.SetRule(rule)
		return false, nil
	}
	if allowed && !x.rec.Back.IsZero() {
		allowed, rule = false, say.F("The fix for this failure was undone at %s.", x.rec.Back.Format(time.RFC3339))
	}
	if allowed && g.breaker != nil {
		allowed, rule = false, g.breaker.Text()
	}
	// What a person has said no to stays undone, whatever the policy allows by now.
	if g.answers.rejected(&x.rec) {
		x.rec.Result = event.Planned
		return false, nil
	}
	x.rec.SetRule(rule)
	if !allowed {
		want := x.c.Policy.Consent(risk)
		if !x.approved(g.answers, &x.rec, x.c.Attempt, want) {
			x.rec.Result = event.Asked
			x.rec.AddAsk(x.approval(want))
			return false, nil
		}
	}
	if most := x.c.Policy.Budgets.Tries(); len(x.rec.Attempts) >= most {
		x.rec.Result = event.Failed
		x.rec.SetRule(say.F("The limit is %d attempts per Service and class in 24 hours.", most))
		x.rec.AddAsk(spent())
		return false, nil
	}
	h := x.env.held(g.pause, x.c.Policy)
	if h == nil {
		return true, nil
	}
	x.keep(h)
	return false, nil
}

// approval asks for a person's word for the plan. A case that is not in the document can't be
// approved.
func (x *run) approval(want remedy.Consent) say.Text {
	if want.Special() && x.rec.Case != "" {
		return say.F("The policy wants the %s. To approve the plan: lbremedy approve %s. Or apply it by hand.", want.Text(), x.rec.Case)
	}
	if x.rec.Case == "" {
		return say.F("A person has to approve the plan. Or allow it in the policy file, or apply it by hand.")
	}
	return say.F("Approve the plan: lbremedy approve %s. Or allow it in the policy file, or apply it by hand.", x.rec.Case)
}

// spent asks what to do where no attempt is left.
func spent() say.Text {
	return say.F("Find out why the writes so far did not end the failure. lbremedy makes no further attempt.")
}

// oneWay returns the first step that can't be taken back, as text. To wake the
// controller is no such step: there is nothing to take back.
func oneWay(steps []remedy.Step) say.Text {
	for _, s := range steps {
		if _, ok := s.Undo(); !ok && !remedy.Wakes(s) {
			return s.Says()
		}
	}
	return nil
}

// ownerOf finds out who owns what a plan would write.
func ownerOf(svc *corev1.Service, around map[string]string, plan remedy.Plan) ownership {
	var keys []string
	for _, s := range plan.Steps {
		if k, ok := s.(remedy.Keyed); ok {
			keys = append(keys, k.Keys()...)
		}
	}
	return owner(svc, around, keys)
}

// patches returns what a person commits instead of a plan.
func patches(c *remedy.Case, plan remedy.Plan) string {
	var all string
	for _, s := range plan.Steps {
		if k, ok := s.(remedy.Keyed); ok {
			all = strings.TrimSpace(all + " " + string(k.Patch(c)))
		}
	}
	return all
}
