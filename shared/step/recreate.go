package step

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// Retag returns the plan, without finding, that restores the name tag of the Service's own load balancer.
func Retag(svc *corev1.Service, lb *ccm.Instance) remedy.Plan {
	return remedy.Plan{
		Note:  say.F("With this tag, the controller deletes %s when the Service is deleted.", lb.ID),
		Steps: []remedy.Step{TagLB{LB: lb.ID, Key: ccm.NameTag, Value: ccm.DefaultName(svc), Network: lb.NLB != nil}, Resync{}},
	}
}

// Recreate returns the plan, without finding, that makes the controller replace the Service's own load balancer, which is gone.
func Recreate(svc *corev1.Service) remedy.Plan {
	steps := []remedy.Step{Resync{}}
	if ccm.Synced(svc) {
		steps = []remedy.Step{ClearStatus{Was: svc.Status.LoadBalancer.Ingress}, Resync{}}
	}
	return remedy.Plan{
		Risk: remedy.High,
		Note: say.F("The new load balancer has another address.").
			And("A controller that still remembers the token of the previous creation may need a restart.").
			And("To do this by hand, %s. Or delete the Service and create it again.", RecreateByHand(svc)).
			Then(Allowlisted(svc)).Then(NoLongerNeeded(svc)),
		Steps: steps,
	}
}

// NoLongerNeeded says what else a person can do about a Service whose load balancer is gone.
func NoLongerNeeded(svc *corev1.Service) say.Text {
	return say.F("If the Service is no longer needed, delete it: kubectl -n %s delete service %s.", svc.Namespace, svc.Name)
}

// Allowlisted says that a new CLB may be refused; empty for an NLB
// (https://www.alibabacloud.com/help/en/ack/ack-managed-and-ack-dedicated/user-guide/considerations-for-configuring-a-loadbalancer-type-service).
func Allowlisted(svc *corev1.Service) say.Text {
	if ccm.NLB(svc) {
		return nil
	}
	return say.F("With CCM v2.5.0 or newer, Alibaba Cloud creates new CLBs only for accounts on an allowlist: apply for it first, or use an NLB.")
}

// RecreateByHand returns, as a clause, what a person does instead of Recreate. While the status has an address the controller creates
// no load balancer, and a change of the status alone does not trigger a sync.
func RecreateByHand(svc *corev1.Service) say.Text {
	resync := ccm.ResyncCommand(svc)
	if ccm.Synced(svc) {
		return say.F("clear the status: %s, then trigger a resync: %s", ccm.ClearCommand(svc), resync)
	}
	return say.F("trigger a resync: %s", resync)
}
