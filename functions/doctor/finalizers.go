package doctor

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

// finalizers looks for Services that could be deleted before their load balancer.
var finalizers = &doctor.Check{
	ID:    "finalizers",
	Doc:   page("finalizers"),
	Needs: []doctor.Part{doctor.Services},
	Uses:  []doctor.Part{doctor.Controller},
	Find:  findFinalizers,
	Fix: &doctor.Fix{
		Steps: []remedy.Step{step.Resync{}},
		Plan: func(_ *doctor.Snapshot, _ *corev1.Service, found []doctor.Finding) remedy.Plan {
			plan := remedy.Plan{Finding: found[0].Text}
			for _, f := range found {
				if f.Key == "missing" {
					plan.Finding, plan.Steps = f.Text, []remedy.Step{step.Resync{}}
				} else {
					plan.Ask = plan.Ask.Then(f.Do)
				}
			}
			return plan
		},
	},
}

// finalizes is the first release that sets finalizers. v1.9.3, another program, learns of a deletion afterwards.
var finalizes = ccm.Version{Major: 2}

func findFinalizers(s *doctor.Snapshot, r *doctor.Report) {
	v, unknown := versionOf(s)
	for i := range s.Services {
		svc := &s.Services[i]
		clb, nlb := slices.Contains(svc.Finalizers, ccm.CLBFinalizer), slices.Contains(svc.Finalizers, ccm.NLBFinalizer)
		want, has, other, foreign := ccm.CLBFinalizer, clb, ccm.NLBFinalizer, nlb
		if ccm.NLB(svc) {
			want, has, other, foreign = ccm.NLBFinalizer, nlb, ccm.CLBFinalizer, clb
		}
		add := func(severity doctor.Severity, key string, text, do say.Text) {
			r.Add(doctor.Finding{Severity: severity, About: doctor.OfService(svc), Key: key, Text: text, Do: do,
				Evidence: map[string]string{"finalizers": fmt.Sprint(svc.Finalizers), "wants": want}})
		}
		switch {
		case svc.DeletionTimestamp != nil:
			continue // a stuck deletion has Events of its own
		case !doctor.Ours(svc):
			if (clb || nlb) && s.Time.Sub(s.Marks[svc.UID].Changed) > settling { // otherwise it is being cleaned up
				add(doctor.Warning, "left", became(svc).And("Its load balancer is not cleaned up, and the Service could not be deleted."),
					say.F("Check the controller's log for why it does not clean up: %s.", remedy.LogQuery(name(svc))).
						And("Remove the finalizer by hand only when the load balancer is gone."))
			}
			continue
		}
		switch {
		case has || !synced(svc):
			// it is set, or the first sync has not happened yet
		case unknown != nil:
			r.Unknown(about(svc), say.Errorf("whether the controller should have set the finalizer %s: %w", want, unknown))
		case !v.Before(finalizes):
			add(doctor.Critical, "missing",
				say.F("The Service has a load balancer but lacks the finalizer %s. If the Service is deleted, its load balancer is left behind.", want),
				say.F("Trigger a resync, which restores the finalizer: %s.", ccm.ResyncCommand(svc)).
					And("Find out what removed it, such as kubectl replace or a tool that writes whole objects."))
		}
		if foreign {
			add(doctor.Warning, "foreign",
				say.F("The Service has the finalizer %s, but the one for its load balancer is %s.", other, want).
					And("Nobody removes the first, and the Service could not be deleted."),
				say.F("Find out whether the Service had a load balancer of the other kind, and delete that load balancer.").
					And("Then remove the finalizer %s by hand.", other))
		}
	}
}

func became(svc *corev1.Service) say.Text {
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return say.F("The Service is of type %s but still has the controller's finalizer.", svc.Spec.Type)
	}
	return say.F("The controller ignores the Service because of its class or an annotation, but the Service still has the controller's finalizer.")
}

func synced(svc *corev1.Service) bool {
	return ccm.Synced(svc) || svc.Labels[ccm.HashLabel] != ""
}
