// Package eniunsupported remedies Services whose CLB can't have network interfaces as backends.
package eniunsupported

import (
	"context"
	_ "embed"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy converts a shared-resource CLB to one that accepts network interfaces. The conversion is
// permanent and interrupts traffic, so it runs only where the policy file names the class.
var Remedy = &remedy.Remedy{
	Class:       "eni-unsupported",
	Doc:         doc,
	Texts:       []string{"does not support backend servers of eni type"},
	Reads:       slices.Concat(ccm.BoundReads, ccm.ControllerReads, []grant.Grant{grant.DescribeVServerGroups}),
	Steps:       []remedy.Step{step.Convert{}},
	Annotations: []string{ccm.ChargeType, ccm.ChargeSpec},
	OptIn:       true,
	Sections:    []remedy.Section{PayBySpec},
	Diagnose:    diagnose,
	StillFails:  stillFails,
}

// PayBySpec says that CLBs that pay by spec are still sold to this account, such as slb.s1.small.
// The check charge-types reads it, too.
var PayBySpec = &remedy.Setting[bool]{
	Key: "payBySpec",
	Doc: "CLBs that pay by spec are still sold to this account; default false, which is so for most since June 2025",
}

// small is a size of CLBs that accept network interfaces.
const small = "slb.s1.small"

// retry is how long to wait for the controller to retry.
const retry = time.Minute

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	if ccm.NLB(c.Service) {
		return remedy.WrongController(say.F("The Event says that a CLB does not accept network interfaces as backends.").
			And("But an NLB serves this Service, and NLBs accept them.")), nil
	}
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if lb == nil {
		return c.NoBalancer(say.F("its spec and charge type")), nil
	}
	finding := say.F("The CLB %s is a shared-resource instance (no spec, %s, %s), which does not accept network interfaces as backends.",
		lb.ID, lb.CLB.ChargeType, lb.CLB.PayType)
	if lb.CLB.PayType == "PrePay" {
		return ask(c, finding.And("It is a subscription, whose charge type can only be changed in the console."),
			say.F("Convert it to pay-as-you-go in the console, or use another load balancer.")), nil
	}
	owner, evidence, err := c.Owner(ctx, lb)
	if err != nil {
		return remedy.Plan{}, err
	}
	if id, _ := ccm.Annotation(c.Service, "id"); id != "" || owner != ccm.Own {
		return ask(c, finding.Then(evidence),
			say.F("Check with everyone who uses %s: pay-by-LCU interrupts its traffic for 10 to 30 seconds and cannot be undone.", lb.ID).
				And("Then run: aliyun slb ModifyLoadBalancerInstanceChargeType --RegionId %s --LoadBalancerId %s --InstanceChargeType %s.",
					c.Cloud.Region(), lb.ID, ccm.PayByLCU)), nil
	}
	ctl, err := c.Controller(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	return convert(c, lb, ctl.Version, finding, evidence), nil
}

// convert plans the conversion of the Service's own CLB, or asks if this controller cannot do it.
func convert(c *remedy.Case, lb *ccm.Instance, v ccm.Version, finding say.Text, evidence say.Text) remedy.Plan {
	change := say.F("This switches %s to pay-by-LCU (%s).", lb.ID, ccm.PayByLCU)
	edits := []step.Edit{step.With(c.Service, ccm.ChargeType, ccm.PayByLCU)}
	command := ccm.SetCommand(c.Service, ccm.ChargeType, ccm.PayByLCU)
	want, wanted := ccm.Annotation(c.Service, ccm.ChargeType)
	switch {
	case PayBySpec.Of(c.Policy) && lb.CLB.ChargeType == ccm.PayBySpec && want != ccm.PayByLCU:
		change = say.F("This gives %s the spec %s.", lb.ID, small)
		edits = []step.Edit{step.With(c.Service, ccm.ChargeSpec, small)}
		if wanted && want != ccm.PayBySpec {
			edits = append(edits, step.Without(c.Service, ccm.ChargeType))
		}
	case v == ccm.Version{}:
		return ask(c, finding.And("The version of the controller could not be determined, so it is unknown whether it can change the charge type."),
			say.F("Find out the version of the controller. If it is %s or newer, run: %s.", ccm.FirstChargeType(), command))
	case v.Before(ccm.FirstChargeType()):
		return ask(c, finding.And("Changing the charge type requires CCM %s or newer, and this one is %s.", ccm.FirstChargeType(), v),
			say.F("Upgrade the add-on cloud-controller-manager, then run: %s.", command))
	case want == ccm.PayByLCU:
		return remedy.Plan{
			Finding: finding.And("The annotation %s already asks for %s, but the controller has not applied it yet.", ccm.ChargeType, ccm.PayByLCU),
			Wait:    retry,
			Ask:     say.F("If this persists, check the controller's log for the reason: %s.", c.LogQuery()),
		}
	default:
		if _, ok := ccm.Annotation(c.Service, ccm.ChargeSpec); ok {
			edits = append(edits, step.Without(c.Service, ccm.ChargeSpec)) // pay-by-LCU has no spec, and older controllers fail on one
		}
	}
	note := change.And("The cost changes, and the change cannot be undone.")
	risk := remedy.Medium
	if n := len(lb.CLB.Ports); n > 0 {
		risk = remedy.High
		note = note.And("The traffic of %s over its %s is interrupted for 10 to 30 seconds.", lb.ID, say.Count(n, "listener"))
	} else {
		note = note.And("%s has no listener, so no traffic is interrupted.", lb.ID)
	}
	return remedy.Plan{
		Finding: finding.Then(evidence),
		Risk:    risk,
		Note:    note.Then(throughNodes(c.Service)),
		Steps:   []remedy.Step{step.Convert{Annotate: step.Together(edits...).(step.Annotate), LB: lb.ID}},
	}
}

// ask returns the plan that asks for one thing, or for the alternative.
func ask(c *remedy.Case, finding, what say.Text) remedy.Plan {
	return remedy.Plan{Finding: finding, Ask: what.Then(throughNodes(c.Service))}
}

// throughNodes describes the alternative that does not change the load balancer.
func throughNodes(svc *corev1.Service) say.Text {
	way := say.F("Alternatively, keep the load balancer as it is and send traffic through the nodes: kubectl -n %s annotate service %s %s=ecs --overwrite.",
		svc.Namespace, svc.Name, ccm.BackendType)
	if slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return p.NodePort == 0 }) {
		way = way.And(`The Service needs node ports for that: kubectl -n %s patch service %s --type=merge -p '{"spec":{"allocateLoadBalancerNodePorts":true}}'.`,
			svc.Namespace, svc.Name)
	}
	return way
}

// stillFails reports whether the Service still wants network interfaces behind a shared-resource
// CLB. A CLB without a spec is one unless it is billed by LCU.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	if ccm.NLB(c.Service) {
		return remedy.Yes, nil // nothing to compare: a person checks
	}
	if c.Service.Annotations[ccm.BackendType] == "ecs" {
		return remedy.No, nil // it no longer wants network interfaces
	}
	lb, err := c.Bound(ctx)
	switch {
	case err != nil:
		return remedy.Unknown, err
	case lb == nil:
		return remedy.Yes, nil
	case lb.CLB.Spec == "" && lb.CLB.ChargeType == "":
		return remedy.Unknown, nil
	}
	return remedy.Is(lb.CLB.Spec == "" && lb.CLB.ChargeType != ccm.PayByLCU), nil
}
