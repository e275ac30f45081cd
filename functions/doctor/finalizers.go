package doctor

import (
	_ "embed"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed finalizers.md
var finalizersDoc string

// finalizers looks for Services that could be deleted before their load balancer.
var finalizers = &doctor.Check{
	ID:    "finalizers",
	Doc:   finalizersDoc,
	Needs: []doctor.Part{doctor.Services},
	Uses:  []doctor.Part{doctor.Controller},
	Find:  findFinalizers,
	Fix: &doctor.Fix{
		Steps: []remedy.Step{step.Touch{}},
		Plan: func(_ *doctor.Snapshot, _ *corev1.Service, found []doctor.Finding) remedy.Plan {
			plan := remedy.Plan{Finding: found[0].Text}
			for _, f := range found {
				if f.Key == "missing" {
					plan.Finding, plan.Steps = f.Text, []remedy.Step{step.Touch{}}
				} else {
					plan.Ask = plan.Ask.Then(f.Do)
				}
			}
			return plan
		},
	},
}

// finalizes is the first release that puts finalizers on Services: v1.9.3, which was
// another program, learns of a deletion afterwards.
var finalizes = ccm.Version{Major: 2}

func findFinalizers(s *doctor.Snapshot, r *doctor.Report) {
	controller := s.Err(doctor.Controller)
	if controller == nil && s.Controller.Version == (ccm.Version{}) {
		controller = errNoVersion
	}
	for i := range s.Services {
		svc := &s.Services[i]
		clb, nlb := slices.Contains(svc.Finalizers, ccm.CLBFinalizer), slices.Contains(svc.Finalizers, ccm.NLBFinalizer)
		want, has, other, foreign := ccm.CLBFinalizer, clb, ccm.NLBFinalizer, nlb
		if ccm.NLB(svc) {
			want, has, other, foreign = ccm.NLBFinalizer, nlb, ccm.CLBFinalizer, clb
		}
		add := func(severity doctor.Severity, key, text, do string) {
			r.Add(doctor.Finding{Severity: severity, About: doctor.OfService(svc), Key: key, Text: say.Literal(text), Do: say.Literal(do),
				Evidence: map[string]string{"finalizers": fmt.Sprint(svc.Finalizers), "wants": want}})
		}
		switch {
		case svc.DeletionTimestamp != nil:
			continue // what hangs in deletion fails with events of its own
		case !doctor.Ours(svc):
			if (clb || nlb) && s.Time.Sub(s.Marks[svc.UID].Changed) > settling { // else it is being cleaned up
				add(doctor.Warning, "left", fmt.Sprintf("The Service is %s and still has the controller's finalizer: its load balancer is not cleaned up, and the Service could not be deleted.", became(svc)),
					"Look why the controller does not clean up: "+remedy.LogQuery(name(svc))+". Remove the finalizer by hand only when the load balancer is gone.")
			}
			continue
		}
		switch {
		case has || !synced(svc):
			// it is there, or its first sync is still to come
		case controller != nil:
			r.Unknown(about(svc), fmt.Errorf("whether the controller is to have put the finalizer %s on it: %w", want, controller))
		case !s.Controller.Version.Before(finalizes):
			add(doctor.Critical, "missing", fmt.Sprintf("The Service has a load balancer and not the finalizer %s: who deletes the Service leaves the load balancer behind.", want),
				"Wake the controller, which puts the finalizer back: "+ccm.WakeCommand(svc)+". Find out who took it away, such as a kubectl replace or a tool that writes whole objects.")
		}
		if foreign {
			add(doctor.Warning, "foreign", fmt.Sprintf("The Service has the finalizer %s, and the one for its load balancer is %s: nobody takes the other away, so that the Service could not be deleted.", other, want),
				"Find out whether the Service had a load balancer of the other kind, and delete that. Then remove the finalizer "+other+" by hand.")
		}
	}
}

// became says what a Service is that is not the controller's; the text follows "is".
func became(svc *corev1.Service) string {
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return fmt.Sprintf("of type %s", svc.Spec.Type)
	}
	return "another controller's, by its class,"
}

// synced reports whether a sync has left something on the Service.
func synced(svc *corev1.Service) bool {
	return ccm.Synced(svc) || svc.Labels[ccm.HashLabel] != ""
}
