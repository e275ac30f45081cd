package survey

import (
	_ "embed"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/checkup"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed deletionprotection.md
var protectionDoc string

// protection looks for load balancers that the policy wants protected and that are not.
var protection = &checkup.Check{
	ID:    "deletion-protection",
	Doc:   protectionDoc,
	Needs: []checkup.Part{checkup.Services, checkup.Policy},
	Uses:  []checkup.Part{checkup.CLBs, checkup.NLBs},
	Find:  findProtection,
	Fix: &checkup.Fix{
		Steps: []remedy.Step{step.Annotate{}},
		Plan: func(_ *checkup.Snapshot, svc *corev1.Service, found []checkup.Finding) remedy.Plan {
			if found[0].Key != "made" {
				return remedy.Plan{Finding: found[0].Text, Ask: found[0].Do}
			}
			return remedy.Plan{Finding: found[0].Text, Steps: []remedy.Step{step.With(&remedy.Case{Service: svc}, deleteProtection, "on")}}
		},
	},
}

const deleteProtection = "delete-protection"

func findProtection(s *checkup.Snapshot, r *checkup.Report) {
	for _, svc := range s.OfType() {
		if !s.Policy.Survey.Protects(svc.Namespace) {
			continue
		}
		b, err := s.Balancer(svc)
		if err != nil {
			r.Unknown(checkup.OfService(svc), err)
			continue
		}
		if b == nil || b.CLB != nil && b.CLB.DeleteProtection || b.NLB != nil && b.NLB.DeleteProtection {
			continue
		}
		why := ""
		if want, _ := remedy.Annotation(svc, deleteProtection); want != "" {
			why = fmt.Sprintf(", whose annotation %s is %s,", deleteProtection, remedy.Quote(want))
		}
		f := checkup.Finding{Severity: checkup.Warning, About: checkup.OfService(svc), Key: "made",
			Evidence: map[string]string{"load balancer": b.ID, "address": b.Address},
			Text:     fmt.Sprintf("The policy wants the load balancers of the namespace %s protected, and the %s %s of the Service%s can be deleted: its deletion protection is off.", svc.Namespace, b.Kind(), b.ID, why),
			Do:       fmt.Sprintf("Have the controller turn it on: %s. It turns it off again by itself when the Service is deleted.", remedy.SetCommand(svc, deleteProtection, "on"))}
		if id, _ := remedy.Annotation(svc, "id"); id != "" || !b.ByController() {
			f.Key, f.Do = "reused", fmt.Sprintf("The controller did not make it and leaves that to its owner: %s.", protectCommand(s.Region, b))
		}
		r.Add(f)
	}
}

// protectCommand returns the command by which a person turns deletion protection on.
func protectCommand(region string, b *checkup.LoadBalancer) string {
	if b.NLB != nil {
		return fmt.Sprintf("aliyun nlb UpdateLoadBalancerProtection --RegionId %s --LoadBalancerId %s --DeletionProtectionEnabled true", region, b.ID)
	}
	return fmt.Sprintf("aliyun slb SetLoadBalancerDeleteProtection --RegionId %s --LoadBalancerId %s --DeleteProtection on", region, b.ID)
}
