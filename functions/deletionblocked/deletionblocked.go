// Package deletionblocked asks about Services that are stuck in deletion.
package deletionblocked

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed doc.md
var doc string

// Remedy asks whether to delete the load balancer: somebody protected it.
var Remedy = &remedy.Remedy{
	Class: "deletion-blocked",
	Doc:   doc,
	Codes: []string{"OperationDenied.DeleteProtectionIsOn", "OperationDenied.DeletionProtectionEnabled"},
	Texts: []string{
		"due to DeleteProtection is enabled",
		"because of DeletionProtectionEnabled",
		"prepay loadBalancer does not support this action",
	},
	Reads:    slices.Concat(ccm.BoundReads, ccm.NetworkReads),
	Deleting: true,
	Diagnose: diagnose,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	if c.Service.DeletionTimestamp == nil && c.Service.Spec.Type == corev1.ServiceTypeLoadBalancer {
		return remedy.Plan{
			Finding: say.F("The Service is of type LoadBalancer and is not being deleted, so its load balancer stays. The controller syncs it again."),
			Wait:    ccm.Retry,
		}, nil
	}
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if lb == nil {
		return remedy.Plan{
			Finding: say.F("The controller could not delete the load balancer of the Service.").
				And("Now the annotation id, the tag %[1]s=%[2]s and the name %[2]s find none.", ccm.NameTag, ccm.DefaultName(c.Service)),
			Ask: say.F("If the Service still exists in ten minutes, look for its load balancer in the console.").
				And("An empty list does not prove that it is gone: permissions limited by resource return empty lists."),
		}, nil
	}
	if id, _ := ccm.Annotation(c.Service, "id"); id != "" {
		return remedy.Plan{
			Finding: say.F("The annotation id names the %s %s. The controller never deletes a load balancer that it reuses.", lb.Kind(), lb.ID).
				And("It releases the Service after it has removed the Service's backends."),
			Ask: say.F("If the Service still hangs, check the controller's log for the load balancer that it cannot delete: %s.", c.LogQuery()).
				And("The Service had that one before the annotation."),
			Wait: ccm.Retry,
		}, nil
	}
	others, err := others(ctx, c, lb)
	if err != nil {
		return remedy.Plan{}, err
	}
	return decide(c.Service, c.Cloud.Region(), lb, others), nil
}

// decide returns the plan for a load balancer that the controller created. others are its
// listeners that were not made for the Service.
func decide(svc *corev1.Service, region string, lb *ccm.Instance, others []say.Text) remedy.Plan {
	finding := say.F("The Service is now of type %s.", svc.Spec.Type)
	if at := svc.DeletionTimestamp; at != nil {
		finding = say.F("The Service has been in deletion since %s.", at.UTC().Format(time.RFC3339))
	}
	var ask say.Text
	var off string // the command that turns off the protection
	switch {
	case lb.CLB != nil && lb.CLB.PayType == "PrePay":
		finding = finding.And("Its CLB %s (%s) is a subscription, which cannot be deleted before it ends.", lb.ID, lb.Address)
		ask = say.F("Request a refund of %s in the console, or wait until the subscription ends.", lb.ID)
	case lb.CLB != nil && lb.CLB.DeleteProtection:
		finding = finding.And("Its CLB %s (%s) has deletion protection on.", lb.ID, lb.Address).
			And("The controller turns that off before it deletes, so somebody or something turned it on again.")
		off = fmt.Sprintf("aliyun slb SetLoadBalancerDeleteProtection --RegionId %s --LoadBalancerId %s --DeleteProtection off", region, lb.ID)
	case lb.NLB != nil && lb.NLB.DeleteProtection:
		finding = finding.And("Its NLB %s (%s) has deletion protection on.", lb.ID, lb.Address).
			And("Since v2.9.1, the controller turns that off before it deletes, so somebody or something turned it on again. Older versions leave it on.")
		off = fmt.Sprintf("aliyun nlb UpdateLoadBalancerProtection --RegionId %s --LoadBalancerId %s --DeletionProtectionEnabled false", region, lb.ID)
	default:
		return remedy.Plan{
			Finding: finding.And("Its %s %s (%s) has no deletion protection now and is not a subscription.", lb.Kind(), lb.ID, lb.Address).
				And("The controller retries."),
			Wait: ccm.Retry,
		}
	}
	if off != "" {
		ask = say.F("Find out who wants to keep it. To have it deleted, turn off the protection: %s.", off).
			And("The controller then retries within %.0f minutes.", ccm.Retry.Minutes())
	}
	if len(others) > 0 {
		finding = finding.And("It has listeners that do not belong to this Service, whose traffic stops when it is deleted: %s.", say.Clauses(others, 5))
	}
	keep := ccm.SetCommand(svc, "preserve-lb-on-delete", "true")
	return remedy.Plan{
		Finding: finding,
		Cause:   lb.ID,
		Ask: ask.And("Or keep it (CCM v2.10.0 or later): %s.", keep).
			And("The controller then releases the Service, and %s stays, with its address and its cost.", lb.ID),
	}
}

// others returns the listeners of the load balancer that were not made for the Service.
func others(ctx context.Context, c *remedy.Case, lb *ccm.Instance) ([]say.Text, error) {
	var list []say.Text
	add := func(protocol string, port int, description string) {
		switch t, ok := ccm.ParseTrace(description); {
		case !ok:
			list = append(list, say.F("%s:%d was made by hand", strings.ToLower(protocol), port))
		case !t.Of(c.Service, c.Cluster):
			list = append(list, say.F("%s:%d belongs to the Service %s", strings.ToLower(protocol), port, t))
		}
	}
	if lb.CLB != nil {
		for _, p := range lb.CLB.Ports {
			add(p.Protocol, p.Port, p.Description)
		}
		return list, nil
	}
	listeners, err := c.Cloud.NLB.Listeners(ctx, lb.ID)
	if err != nil {
		return nil, fmt.Errorf("list listeners of %s: %w", lb.ID, err)
	}
	for _, l := range listeners {
		add(l.Protocol, l.Port, l.Description)
	}
	return list, nil
}
