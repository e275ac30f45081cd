// Package eniunsupported remedies Services whose CLB can't have network interfaces as backends.
package eniunsupported

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy converts a shared-resource CLB into one that can have them. This can't be
// undone and interrupts its traffic, so the policy file must name the class.
var Remedy = &remedy.Remedy{
	Class:       "eni-unsupported",
	Doc:         doc,
	Texts:       []string{"does not support backend servers of eni type"},
	Reads:       slices.Concat(ccm.BoundReads, ccm.ControllerReads, []grant.Grant{grant.DescribeVServerGroups}),
	Steps:       []remedy.Step{step.Convert{}},
	Annotations: []string{chargeType, spec},
	OptIn:       true,
	Diagnose:    diagnose,
	StillFails:  holds,
}

// Short names of the annotations for the charge type of a CLB, and for its spec if it
// is billed by spec.
const (
	chargeType = "instance-charge-type"
	spec       = "spec"
)

// backendType is the annotation for the kind of backends. It has no other prefix.
const backendType = "service.beta.kubernetes.io/backend-type"

// Charge types and spec of a CLB that can have network interfaces.
const (
	byLCU  = "PayByCLCU"
	bySpec = "PayBySpec"
	small  = "slb.s1.small"
)

// chooses is the first release of the controller that reads the charge type.
var chooses = ccm.Version{Major: 2, Minor: 4}

// retry is the time by which the controller has retried.
const retry = time.Minute

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	// The option that does not change the load balancer.
	nodes := fmt.Sprintf("The other way leaves the load balancer as it is, and lets traffic go through the nodes: kubectl -n %s annotate service %s %s=ecs --overwrite.", c.Service.Namespace, c.Service.Name, backendType)
	if slices.ContainsFunc(c.Service.Spec.Ports, func(p corev1.ServicePort) bool { return p.NodePort == 0 }) {
		nodes += fmt.Sprintf(" The Service needs node ports for that: kubectl -n %s patch service %s --type=merge -p '{\"spec\":{\"allocateLoadBalancerNodePorts\":true}}'.", c.Service.Namespace, c.Service.Name)
	}
	if ccm.NLB(c.Service) {
		return remedy.WrongController("The event says that a CLB takes no network interfaces as backends, and the Service is served by an NLB, which does."), nil
	}
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if lb == nil {
		return c.NoBalancer("its spec and charge type"), nil
	}
	finding := fmt.Sprintf("The CLB %s is a shared-resource instance (no spec, %s, %s), which takes no network interfaces as backends.", lb.ID, lb.CLB.ChargeType, lb.CLB.PayType)
	ask := func(why, what string) (remedy.Plan, error) {
		return remedy.Plan{Finding: finding + " " + why, Ask: what + " " + nodes}, nil
	}
	if lb.CLB.PayType == "PrePay" {
		return ask("It is a subscription, whose charge type changes in the console alone.",
			"Turn it into a pay-as-you-go instance in the console, or use another load balancer.")
	}
	owner, evidence, err := c.Owner(ctx, lb)
	if err != nil {
		return remedy.Plan{}, err
	}
	if id, _ := ccm.Annotation(c.Service, "id"); id != "" || owner != ccm.Own {
		return ask(evidence, fmt.Sprintf("Ask those who use %[1]s: to pay by LCU interrupts its traffic for 10 to 30 seconds, and there is no way back. Then: aliyun slb ModifyLoadBalancerInstanceChargeType --RegionId %[2]s --LoadBalancerId %[1]s --InstanceChargeType %[3]s.",
			lb.ID, c.Cloud.Region(), byLCU))
	}
	ctl, err := c.Controller(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	became := fmt.Sprintf("pays by LCU (%s)", byLCU)
	edits := []step.Edit{step.With(c.Service, chargeType, byLCU)}
	want, wanted := ccm.Annotation(c.Service, chargeType)
	switch {
	case c.Policy.PayBySpec && lb.CLB.ChargeType == bySpec && want != byLCU:
		became = "has the spec " + small
		edits = []step.Edit{step.With(c.Service, spec, small)}
		if wanted && want != bySpec {
			edits = append(edits, step.Without(c.Service, chargeType))
		}
	case ctl.Version == ccm.Version{}:
		return ask("The version of the controller can't be told, so that what it can change is not known.",
			fmt.Sprintf("Find out the version of the controller. From %s on: %s.", chooses, ccm.SetCommand(c.Service, chargeType, byLCU)))
	case ctl.Version.Before(chooses):
		return ask(fmt.Sprintf("Only CCM %s or newer can change how a CLB pays, and this is %s.", chooses, ctl.Version),
			fmt.Sprintf("Upgrade the add-on cloud-controller-manager, then: %s.", ccm.SetCommand(c.Service, chargeType, byLCU)))
	case want == byLCU:
		return remedy.Plan{
			Finding: finding + fmt.Sprintf(" The annotation %s asks for %s already; the controller has not changed it yet.", chargeType, byLCU),
			Wait:    retry,
			Ask:     "If it stays so, look up in the controller's log why it can't change it: " + c.LogQuery() + ".",
		}, nil
	default:
		if _, ok := ccm.Annotation(c.Service, spec); ok {
			edits = append(edits, step.Without(c.Service, spec)) // by LCU there is none, and older controllers fail on it
		}
	}
	risk, traffic := remedy.Medium, "It has no listener, so that no traffic is interrupted."
	if n := len(lb.CLB.Ports); n > 0 {
		risk, traffic = remedy.High, fmt.Sprintf("The traffic over its %s is interrupted for 10 to 30 seconds.", ccm.Count(n, "listener"))
	}
	return remedy.Plan{
		Finding: finding + " " + evidence,
		Risk:    risk,
		Note:    fmt.Sprintf("%s then %s, which costs otherwise, and there is no way back. %s %s", lb.ID, became, traffic, nodes),
		Steps:   []remedy.Step{step.Convert{Annotate: step.Together(edits...).(step.Annotate), LB: lb.ID}},
	}, nil
}

// holds reports whether the Service still asks for network interfaces behind a
// shared-resource CLB. Without a spec, only the charge type shows that it is one.
func holds(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	if ccm.NLB(c.Service) {
		return remedy.Yes, nil // there is nothing to compare: a person looks
	}
	if c.Service.Annotations[backendType] == "ecs" {
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
	return remedy.Is(lb.CLB.Spec == "" && lb.CLB.ChargeType != byLCU), nil
}
