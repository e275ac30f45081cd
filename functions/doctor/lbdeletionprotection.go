package doctor

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

// lbProtection looks for load balancers that the policy wants protected from deletion and that aren't.
var lbProtection = &doctor.Check{
	ID:    "lb-deletion-protection",
	Doc:   page("lb-deletion-protection"),
	Needs: []doctor.Part{doctor.Services, doctor.Policy},
	Uses:  []doctor.Part{doctor.CLBs, doctor.NLBs, doctor.Controller},
	Find:  findLBProtection,
	Fix: &doctor.Fix{
		Steps:       []remedy.Step{step.Annotate{}, step.Resync{}, step.Protect{}},
		Annotations: []string{deleteProtection},
		Plan: func(s *doctor.Snapshot, svc *corev1.Service, found []doctor.Finding) remedy.Plan {
			want, _ := ccm.Annotation(svc, deleteProtection)
			switch {
			case found[0].Key != "made" || ccm.NLB(svc) && s.Controller.Version.Before(protectsNLBs):
				return remedy.Plan{Finding: found[0].Text, Ask: found[0].Do}
			case ccm.NLB(svc):
				return remedy.Plan{Finding: found[0].Text, Steps: []remedy.Step{step.Protect{LB: found[0].Evidence[evidenceBalancer]}}}
			case want == "on": // the annotation is already right
				return remedy.Plan{Finding: found[0].Text, Steps: []remedy.Step{step.Resync{}}}
			}
			return remedy.Plan{Finding: found[0].Text, Steps: []remedy.Step{step.With(svc, deleteProtection, "on")}}
		},
	},
}

// deleteProtection is for CLBs. No annotation sets that of an NLB.
const deleteProtection = "delete-protection"

const evidenceBalancer = "load balancer"

// protectsNLBs is the first release that turns off an NLB's deletion protection before deleting it (UpdateLoadBalancerProtection;
// pkg/provider/alibaba/nlb). With older ones, protection blocks the Service's deletion.
var protectsNLBs = ccm.Version{Major: 2, Minor: 9, Patch: 1}

func findLBProtection(s *doctor.Snapshot, r *doctor.Report) {
	for _, svc := range s.OfType() {
		if !s.Policy.Doctor.Protects(svc.Namespace) {
			continue
		}
		b, err := s.Balancer(svc)
		if err != nil {
			r.Unknown(doctor.OfService(svc), err)
			continue
		}
		if b == nil || b.DeleteProtected() {
			continue
		}
		f := doctor.Finding{Severity: doctor.Warning, About: doctor.OfService(svc), Key: "made",
			Evidence: map[string]string{evidenceBalancer: b.ID, "address": b.Address},
			Text: say.F("The policy wants the load balancers of the namespace %s protected.", svc.Namespace).
				And("But the deletion protection of the Service's %s %s is off.", b.Kind(), b.ID)}
		want, _ := ccm.Annotation(svc, deleteProtection)
		if want != "" && !ccm.NLB(svc) {
			f.Text = f.Text.And("The annotation %s is %s.", deleteProtection, ccm.Quote(want))
		}
		id, _ := ccm.Annotation(svc, "id")
		switch {
		case id != "" || !b.ByController():
			f.Key = "reused"
			f.Do = say.F("The controller did not create the load balancer and does not protect it. Turn the protection on: %s.", b.ProtectCommand(s.Region))
		case ccm.NLB(svc) && s.Controller.Version.Before(protectsNLBs): // or its version is unknown
			f.Do = say.F("Controllers older than %s do not protect NLBs, and this one is not known to be newer.", protectsNLBs).
				And("Turn the protection on: %s. Turn it off before you delete the Service.", b.ProtectCommand(s.Region))
		case ccm.NLB(svc):
			f.Do = say.F("No annotation turns it on for an NLB. Turn it on: %s.", b.ProtectCommand(s.Region)).
				And("The controller turns it off again when the Service is deleted.")
		case want == "on":
			f.Do = say.F("Trigger a resync to make the controller turn the protection on again: %s.", ccm.ResyncCommand(svc)).Then(turnsOff)
		default:
			f.Do = say.F("Let the controller turn the protection on: %s.", ccm.SetCommand(svc, deleteProtection, "on")).Then(turnsOff)
		}
		r.Add(f)
	}
}

var turnsOff = say.F("It turns the protection off again when the Service is deleted.")
