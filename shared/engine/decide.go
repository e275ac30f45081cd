package engine

import (
	"slices"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/machine"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// decide records the class's plan and reports what it leads to, before any policy.
func (x *run) decide(plan remedy.Plan) machine.Report {
	defer x.lap(&x.rec.Timings.Decide)
	steps, err := remedy.Records(plan.Steps)
	if err != nil {
		return x.found(err)
	}
	rec := &x.rec
	x.steps, x.risk = plan.Steps, plan.RiskTo(x.c.Service, x.env.Time())
	rec.Finding = plan.Finding.Map(event.Redact)
	rec.Ask = plan.Ask.Map(event.Redact)
	rec.Note = plan.Note.Map(event.Redact)
	rec.Cause = event.Redact(plan.Cause)
	rec.Steps, rec.Changes, rec.Risk = steps, plan.Changes, ""
	rec.Held, rec.Approved, rec.Seconded, rec.Rejected, rec.Digest, rec.Decided = "", nil, nil, nil, "", nil
	rec.Source = nil
	may := x.permission(x.c.Policy)
	ask := func(r event.Result, why say.Text) machine.Report {
		if rec.Result = r; len(why) > 0 {
			rec.Rule = why
		}
		return machine.Looked{Answer: machine.Person, Outcome: machine.Outcome(r)}
	}
	if len(plan.Steps) == 0 {
		switch {
		case plan.Wait > 0:
			return machine.Looked{Answer: machine.NotYet, After: plan.Wait, Patience: max(remedy.Lasting, plan.Patience)}
		case may.Muted:
			return ask(event.Planned, may.Why.And("Nobody is asked."))
		}
		return ask(event.Asked, nil)
	}
	if !x.object.Room(*rec) {
		rec.Steps, rec.Changes = nil, nil
		rec.Ask = rec.Ask.Then(say.F("Make the change by hand."))
		return ask(event.Asked, say.F("The plan is too large: lbremedy stores at most %d KiB for each Service.", event.MaxDocument>>10))
	}
	rec.Risk = x.risk.String()

	own := remedy.Owner(x.c.Service, x.around, plan.Keys())
	rec.Note = rec.Note.Then(own.Note)
	if e, found := remedy.Edited(x.c.Service, plan.Keys(), x.env.Time()); found {
		rec.Note = rec.Note.Then(say.F("%q changed %s on the Service at %s. The plan changes it again.", e.By, e.Key, e.At.UTC().Format(time.RFC3339)))
	}
	switch {
	case own.Manager == "" || may.Muted:
	case x.c.Service.DeletionTimestamp != nil:
		// Its source may be gone, and no manager recreates the Service before the deletion has ended.
		rec.Note = rec.Note.Then(say.F("%s owns what the plan writes. The Service is being deleted, so the plan writes it all the same.", own.Manager))
	default:
		// No digest: an approval would not help.
		rec.Source = remedy.SourceOf(x.c.Service, own.Manager)
		rec.Source.Patch, rec.Source.Digest = plan.Patch(x.c), plan.Digest(x.r.Class, string(x.c.Service.UID))
		rec.Ask = rec.Ask.Then(say.F("Commit this patch to the source of the Service: %s", string(rec.Source.Patch)))
		return ask(event.Asked, say.F("%s owns what the plan would write and would revert it.", own.Manager))
	}
	rec.Digest = plan.Digest(x.r.Class, string(x.c.Service.UID))
	if may.Mode != remedy.Fix {
		_, rule := may.Allows(x.r, x.risk, remedy.OneWay(plan.Steps))
		return ask(event.Planned, rule)
	}
	proof := x.limit()
	if !slices.ContainsFunc(plan.Steps, func(s remedy.Step) bool { return s.Target() == "" }) {
		proof = byCause
	}
	return machine.Looked{Answer: machine.Planned, Plan: machine.Plan{Steps: len(plan.Steps), Proof: proof}}
}

// admits returns what decides whether a new plan begins, as read beside the look. permits reads it again before each order.
func (x *run) admits() machine.Guarded {
	g := x.known
	rec := &x.rec
	x.c.Policy = g.policy
	x.stand(x.around)
	may := x.permission(x.c.Policy)
	allowed, rule := may.Allows(x.r, x.risk, remedy.OneWay(x.steps))
	out := machine.Guarded{Readable: true, Revision: g.revision, Attempts: g.policy.Budgets.Tries(), Undoes: g.policy.TakeBack}
	if may.Mode != remedy.Fix {
		rec.Result, out.Outcome = event.Planned, machine.Outcome(event.Planned)
		rec.Rule = rule
		return out
	}
	if allowed && !rec.Back.IsZero() {
		allowed, rule = false, say.F("The fix for this failure was undone at %s.", rec.Back.Format(time.RFC3339))
	}
	if _, found := remedy.Edited(x.c.Service, x.plan.Keys(), x.env.Time()); allowed && found {
		allowed, rule = false, say.F("The plan changes what a person has changed within the last hour.")
	}
	if allowed && g.breaker != nil {
		allowed, rule = false, g.breaker.Text()
	}
	if g.answers.Rejected(rec) {
		rec.Result, out.Outcome = event.Planned, machine.Outcome(event.Rejected)
		return out
	}
	rec.Rule = rule
	if out.Permits = allowed; !allowed {
		x.want = x.c.Policy.Consent(x.risk)
		out.Approved = g.answers.Approved(rec, x.c.Attempt, x.want)
	}
	if h := x.env.held(g.pause, x.c.Policy); h != nil {
		x.held, out.Paused, out.Hold = h, true, h.wait
	}
	return out
}

// approval asks a person to approve the plan, which only works for a case that the document holds.
func (x *run) approval(want remedy.Consent) say.Text {
	switch {
	case x.rec.Case == "" || x.dry && x.rec.Case != x.prev.Case:
		return say.F("A person has to approve the plan. Or allow it in the policy file, or apply it by hand.")
	case x.rec.Service.Kind != "": // an Approval needs a Service's namespace
		return say.F("Allow the plan in the policy file, or apply it by hand.")
	case want.Special():
		return say.F("The policy wants the %s. To approve the plan: lbremedy approve %s. Or apply it by hand.", want.Text(), x.rec.Case)
	}
	return say.F("Approve the plan: lbremedy approve %s. Or allow it in the policy file, or apply it by hand.", x.rec.Case)
}

func (x *run) spent() say.Text {
	ask := say.F("Find out why the writes so far did not end the failure. lbremedy makes no further attempt.").
		And("To allow more attempts, raise budgets.attempts in the policy file.")
	if x.rec.Service.Kind != "" {
		return ask
	}
	return ask.And("To try once now, save such a policy as FILE and run it with: lbremedy run %s --policy FILE --apply.", x.rec.Service)
}
