package doctor

import (
	_ "embed"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed deletionprotection.md
var protectionDoc string

// protection looks for unprotected load balancers that should be protected by policy.
var protection = &doctor.Check{
	ID:    "deletion-protection",
	Doc:   protectionDoc,
	Needs: []doctor.Part{doctor.Services, doctor.Policy},
	Uses:  []doctor.Part{doctor.CLBs, doctor.NLBs, doctor.Controller},
	Find:  findProtection,
	Fix: &doctor.Fix{
		Steps:       []remedy.Step{step.Annotate{}, step.Touch{}},
		Annotations: []string{deleteProtection},
		Plan: func(s *doctor.Snapshot, svc *corev1.Service, found []doctor.Finding) remedy.Plan {
			want, _ := ccm.Annotation(svc, deleteProtection)
			switch {
			case found[0].Key != "made" || ccm.NLB(svc) && s.Controller.Version.Before(protectsNLBs):
				return remedy.Plan{Finding: found[0].Text, Ask: found[0].Do}
			case want == "on": // it says so already
				return remedy.Plan{Finding: found[0].Text, Steps: []remedy.Step{step.Touch{}}}
			}
			return remedy.Plan{Finding: found[0].Text, Steps: []remedy.Step{step.With(svc, deleteProtection, "on")}}
		},
	},
}

const deleteProtection = "delete-protection"

// protectsNLBs is the first release that changes the deletion protection of an NLB
// (UpdateLoadBalancerProtection; pkg/provider/alibaba/nlb).
var protectsNLBs = ccm.Version{Major: 2, Minor: 9, Patch: 1}

// byItself ends the text about a load balancer that the controller protects.
const byItself = ". It turns it off again by itself when the Service is deleted."

func findProtection(s *doctor.Snapshot, r *doctor.Report) {
	for _, svc := range s.OfType() {
		if !s.Policy.Survey.Protects(svc.Namespace) {
			continue
		}
		b, err := s.Balancer(svc)
		if err != nil {
			r.Unknown(doctor.OfService(svc), err)
			continue
		}
		if b == nil || b.CLB != nil && b.CLB.DeleteProtection || b.NLB != nil && b.NLB.DeleteProtection {
			continue
		}
		why, do := "", "Have the controller turn it on: "+ccm.SetCommand(svc, deleteProtection, "on")+byItself
		want, _ := ccm.Annotation(svc, deleteProtection)
		if want != "" {
			why = fmt.Sprintf(", whose annotation %s is %s,", deleteProtection, ccm.Quote(want))
		}
		switch {
		case ccm.NLB(svc) && s.Controller.Version.Before(protectsNLBs): // also one of unknown version
			do = fmt.Sprintf("Controllers before %s leave that of an NLB alone, and this one is not known to be newer: turn it on yourself: %s. Turn it off before the Service is deleted.", protectsNLBs, protectCommand(s.Region, b))
		case want == "on":
			do = "Wake the controller, which turns it on again: " + ccm.WakeCommand(svc) + byItself
		}
		f := doctor.Finding{Severity: doctor.Warning, About: doctor.OfService(svc), Key: "made",
			Evidence: map[string]string{"load balancer": b.ID, "address": b.Address},
			Text:     say.F("The policy wants the load balancers of the namespace %s protected, and the %s %s of the Service%s can be deleted: its deletion protection is off.", svc.Namespace, b.Kind(), b.ID, why),
			Do:       say.Literal(do)}
		if id, _ := ccm.Annotation(svc, "id"); id != "" || !b.ByController() {
			f.Key, f.Do = "reused", say.F("The controller did not make it and leaves that to its owner: %s.", protectCommand(s.Region, b))
		}
		r.Add(f)
	}
}

// protectCommand returns the command by which a person turns deletion protection on.
func protectCommand(region string, b *doctor.LoadBalancer) string {
	if b.NLB != nil {
		return fmt.Sprintf("aliyun nlb UpdateLoadBalancerProtection --RegionId %s --LoadBalancerId %s --DeletionProtectionEnabled true", region, b.ID)
	}
	return fmt.Sprintf("aliyun slb SetLoadBalancerDeleteProtection --RegionId %s --LoadBalancerId %s --DeleteProtection on", region, b.ID)
}
