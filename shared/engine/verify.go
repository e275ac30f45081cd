package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/machine"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// proves watches the Service after the write for all marks of a full sync: the same Service as the write left it, a new hash label, an
// address that its load balancer has, and a class that no longer finds its cause. It is fixed if each port also has a running listener, and
// a backend where the class is about backends.
func (x *run) proves(ctx context.Context) machine.Report {
	if x.refusal != nil {
		return x.refused(x.refusal)
	}
	if x.into != nil {
		x.lap(x.into)
	}
	if x.taken || x.c.Service == nil {
		var err error
		if x.c.Policy, err = x.env.policy(x.object.Since(ctx)); err != nil {
			return x.found(err)
		}
		if over, err := x.readService(ctx); err != nil {
			return x.found(err)
		} else if len(over) > 0 {
			return machine.Looked{Answer: machine.Gone, Outcome: x.gone(over)}
		}
	}
	x.clock, x.into = x.env.Time(), &x.rec.Timings.Verify
	if !x.c.Written() && !slices.ContainsFunc(x.steps, func(s remedy.Step) bool { return s.Target() == "" }) {
		return x.provesByCause(ctx)
	}
	ref := x.rec.Service
	watch, cancel := context.WithTimeout(ctx, x.env.watch())
	defer cancel()
	defer context.AfterFunc(x.object.Yields, cancel)() // another class's failure of the object
	last := x.c.Service                                // as read, or as the write left it: the watch goes on from there
	tells := func(svc *corev1.Service) bool {
		return len(x.c.Over(svc)) > 0 || ccm.SpecDigest(svc) != x.rec.Left || ccm.SyncedAnew(svc, x.rec.Hash)
	}
	if err := x.object.Flush(ctx); err != nil { // otherwise people who follow CASES would see the step only when the watch ends
		x.log.Warn("CASES lacks a record of the object", "error", err)
	}
	for known := tells(last); ; known = false {
		var err error
		switch {
		case known:
		case x.env.busy():
			return x.unproven(ctx)
		default:
			err = x.env.Kube.WatchService(watch, ref.Namespace, ref.Name, last.ResourceVersion, func(svc *corev1.Service) bool {
				last, x.c.Service = svc, svc
				return tells(svc)
			})
		}
		switch {
		case errors.Is(err, kube.ErrNotFound):
			over := say.F("The Service was deleted.")
			if svc, err := x.env.Kube.Service(ctx, ref.Namespace, ref.Name); err == nil && string(svc.UID) != ref.UID {
				over = x.c.Over(svc)
			}
			return machine.Looked{Answer: machine.Gone, Outcome: x.gone(over)}
		case watch.Err() != nil && ctx.Err() == nil:
			return x.unproven(ctx)
		case err != nil:
			return x.found(fmt.Errorf("watch Service %s: %w", ref, err))
		case len(x.c.Over(last)) > 0:
			return machine.Looked{Answer: machine.Gone, Outcome: x.gone(x.c.Over(last))}
		case ccm.SpecDigest(last) != x.rec.Left:
			x.dropped = true
			x.rec.Note = x.rec.Note.Then(say.F("Somebody changed the Service after the write. The case is diagnosed again."))
			return machine.Looked{Answer: machine.Changed}
		}
		a, err := x.ask(watch, hand.Prove, false)
		switch {
		case err != nil && ctx.Err() == nil && (watch.Err() != nil || errors.Is(err, hand.ErrThrottled) && hand.Late(err)):
			return x.unproven(ctx) // the time to watch is over, or too short for another call
		case err != nil:
			return x.found(fmt.Errorf("prove that it worked: %w", err))
		case a.Verdict == remedy.No:
			x.rec.Timings.Sync = ccm.SyncDelay(last)
			return x.proven(ctx)
		}
	}
}

// proven reports that the failure is over. It checks a listener that is about to run and a failed read again for as long as a sync may take.
func (x *run) proven(ctx context.Context) machine.Report {
	r, why, soon := x.traffic(ctx)
	if soon && x.env.since(x.rec.Written) <= x.limit() {
		x.held = &hold{rule: say.F("Applied. Waiting for proof that traffic can flow.")}
		return machine.Looked{Answer: machine.NotYet}
	}
	x.rec.Note = x.rec.Note.Then(why)
	return machine.Looked{Answer: machine.Proven, Outcome: machine.Outcome(r)}
}

// traffic returns how a run ends that has ended the failure: fixed if traffic can flow or the Service is being deleted, otherwise synced,
// and why that is unproven. soon means that another look may prove it.
func (x *run) traffic(ctx context.Context) (r event.Result, why say.Text, soon bool) {
	if x.ev.Failure.Service.Kind != "" || len(ccm.Leaving(x.c.Service)) > 0 {
		return event.Fixed, nil, false
	}
	a, err := x.ask(ctx, hand.Flow, false)
	switch {
	case err != nil:
		lacks := errors.Is(err, hand.ErrDenied) || errors.Is(err, hand.ErrNotFound)
		return event.Synced, say.F("Whether traffic can flow could not be checked: %s.", event.Redact(err.Error())), !lacks
	case len(a.Flow.Why) > 0:
		return event.Synced, a.Flow.Why, a.Flow.Soon
	}
	return event.Fixed, nil, false
}

func (x *run) limit() time.Duration {
	if x.c.Service != nil && ccm.NLB(x.c.Service) {
		return proofNLB
	}
	return proofCLB
}

// provesByCause checks whether a plan worked that left no mark on the Service. If the class still finds its cause later, it diagnoses again.
func (x *run) provesByCause(ctx context.Context) machine.Report {
	a, err := x.ask(ctx, hand.Cause, false)
	switch {
	case err != nil:
		return x.found(err)
	case a.Verdict == remedy.No:
		return x.proven(ctx)
	case x.env.since(x.rec.Written) >= byCause:
		x.dropped = true
		return machine.Looked{Answer: machine.Changed}
	}
	x.rec.Reason = event.ByCause
	x.held = &hold{rule: say.F("Applied. Only the cause shows whether it worked; it is checked again.")}
	return machine.Looked{Answer: machine.NotYet, After: byCause}
}

func (x *run) unproven(ctx context.Context) machine.Report {
	f, found, err := x.newest(ctx, "*")
	if err != nil {
		return x.found(err)
	}
	same, sameFound, err := x.newest(ctx, x.r.Class)
	if err != nil {
		return x.found(err)
	}
	limit, written := x.limit(), x.rec.Written
	switch {
	case found && f.Class != x.r.Class && f.Type == corev1.EventTypeWarning && f.Last.After(written):
		over, err := x.readService(ctx)
		if err != nil {
			return x.found(err)
		}
		if len(over) > 0 {
			return machine.Looked{Answer: machine.Gone, Outcome: x.gone(over)}
		}
		a, err := x.ask(ctx, hand.Cause, false)
		if err != nil {
			return x.found(err)
		}
		if a.Verdict == remedy.No {
			x.rec.Note = x.rec.Note.Then(say.F("This cause is gone. The Service now fails for another reason: %s.", f.Class))
			return machine.Looked{Answer: machine.Superseded, Outcome: machine.Outcome(event.Superseded)}
		}
	// The local clock may be behind the clock that dates failures: the failure in hand is not one that came back.
	case sameFound && same.Last.After(written.Add(staleEvent)) && same.Last.After(x.rec.Answers.Add(staleEvent)):
		return x.failedAgain(ctx, say.F("The same failure came back after the write."))
	}
	if x.env.Time().Sub(written) > limit {
		return x.failedAgain(ctx, say.F("There is no sign that the controller has synced the Service in the %s since the write.", limit))
	}
	x.held = &hold{rule: say.F("Applied. Waiting for the controller to sync.")}
	if !x.env.busy() {
		return machine.Looked{Answer: machine.NotYet}
	}
	after := min(max(10*time.Second, x.env.Time().Sub(written)/2), time.Minute) // each look costs two synced writes
	return machine.Looked{Answer: machine.NotYet, After: after}
}

// bears is how many recent fixes of low or medium risk that did not work open a breaker. One of high risk does.
const bears = 3

func (x *run) failedAgain(ctx context.Context, why say.Text) machine.Report {
	most, opens := 1, say.F("A fix of high risk did not work: case %s.", x.rec.Case)
	if riskOf(x.rec, x.steps) < remedy.High {
		most, opens = bears, say.F("%d fixes did not work within %d minutes, the last one in case %s.", bears, int(control.Window.Minutes()), x.rec.Case)
	}
	if err := x.recordFailedFix(ctx, most, opens); err != nil {
		return x.found(err)
	}
	x.unsettled = why
	return machine.Looked{
		Answer: machine.StillFails, Undoes: x.c.Policy.TakeBack, Spent: len(x.object.Decided().Attempts) >= x.c.Policy.Budgets.Tries(),
	}
}

func (x *run) recordFailedFix(ctx context.Context, most int, why say.Text) error {
	attempt := fmt.Sprintf("%s.%d", x.rec.Case, x.rec.Attempt)
	opened, err := control.RecordFailedFix(ctx, x.env.Stream, x.env.Cluster, x.r.Class, attempt, most, why)
	if opened != nil {
		x.log.Error("breaker opened", "reason", opened.Why.String())
	}
	return err
}

// riskOf returns the risk of an applied fix. The cause is gone by then, so the recorded risk counts too; it can only open a breaker.
func riskOf(rec event.Record, steps []remedy.Step) remedy.Risk {
	said := remedy.High
	if err := said.UnmarshalText([]byte(rec.Risk)); err != nil {
		return remedy.High
	}
	return remedy.Plan{Risk: said, Steps: steps}.Highest()
}
