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
)

//go:embed doc.md
var doc string

// Remedy asks whether to delete the load balancer: someone protected it.
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

// soon is how long the controller takes to try again by itself at most.
const soon = 5 * time.Minute

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	if c.Service.DeletionTimestamp == nil && c.Service.Spec.Type == corev1.ServiceTypeLoadBalancer {
		return remedy.Plan{
			Finding: "The Service is of type LoadBalancer and is not being deleted now, so that its load balancer is to stay; the controller syncs it again by itself.",
			Wait:    soon,
		}, nil
	}
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if lb == nil {
		return remedy.Plan{
			Finding: fmt.Sprintf("The controller could not delete the load balancer of the Service, and none is found now by the annotation id, the tag %s=%s or that name.", ccm.NameTag, ccm.DefaultName(c.Service)),
			Ask:     "If the Service is still there in ten minutes, look in the console for its load balancer. An empty list is no proof that it is gone: permissions limited by resource give empty lists.",
		}, nil
	}
	if id, _ := ccm.Annotation(c.Service, "id"); id != "" {
		return remedy.Plan{
			Finding: fmt.Sprintf("The annotation id names the %s %s: the controller deletes no load balancer that it reuses, and lets go of the Service when its backends are off it.", lb.Kind(), lb.ID),
			Ask:     fmt.Sprintf("If the Service hangs all the same, look which load balancer the controller can't delete: %s. It is one that the Service had before the annotation.", c.LogQuery()),
			Wait:    soon,
		}, nil
	}
	others, err := others(ctx, c, lb)
	if err != nil {
		return remedy.Plan{}, err
	}
	keep := fmt.Sprintf("Or keep it, with CCM v2.10.0 or later: %s. The controller then lets go of the Service, and %s stays with its address and its costs.",
		ccm.SetCommand(c.Service, "preserve-lb-on-delete", "true"), lb.ID)
	more := ""
	if len(others) > 0 {
		more = fmt.Sprintf(" It has listeners that are not of this Service, whose traffic stops when it is deleted: %s.", ccm.Clauses(others, 5))
	}
	what := fmt.Sprintf("The %s %s (%s) of the Service, which %s,", lb.Kind(), lb.ID, lb.Address, how(c))
	switch {
	case lb.CLB != nil && lb.CLB.PayType == "PrePay":
		return remedy.Plan{
			Finding: what + " is a subscription: it can't be deleted before it ends." + more,
			Cause:   lb.ID,
			Ask:     fmt.Sprintf("Ask for a refund of %s in the console, or wait until the subscription ends. %s", lb.ID, keep),
		}, nil
	case lb.CLB != nil && lb.CLB.DeleteProtection:
		return remedy.Plan{
			Finding: what + " has deletion protection on. The controller turns it off before it deletes; somebody or something turned it on again." + more,
			Cause:   lb.ID,
			Ask: fmt.Sprintf("Find out who wants it to stay. To have it deleted: aliyun slb SetLoadBalancerDeleteProtection --RegionId %s --LoadBalancerId %s --DeleteProtection off. The controller then tries again within 5 minutes. %s",
				c.Cloud.Region(), lb.ID, keep),
		}, nil
	case lb.NLB != nil && lb.NLB.DeleteProtection:
		return remedy.Plan{
			Finding: what + " has deletion protection on. A controller since v2.9.1 turns it off before it deletes, so that somebody or something turned it on again; an older one leaves it on." + more,
			Cause:   lb.ID,
			Ask: fmt.Sprintf("Find out who wants it to stay. To have it deleted: aliyun nlb UpdateLoadBalancerProtection --RegionId %s --LoadBalancerId %s --DeletionProtectionEnabled false. The controller then tries again within 5 minutes. %s",
				c.Cloud.Region(), lb.ID, keep),
		}, nil
	}
	return remedy.Plan{
		Finding: what + " has no deletion protection now and is no subscription; the controller tries again by itself.",
		Wait:    soon,
	}, nil
}

// others returns the listeners of the load balancer that do not belong to the Service.
func others(ctx context.Context, c *remedy.Case, lb *ccm.Instance) ([]string, error) {
	var list []string
	add := func(protocol string, port int, description string) {
		text := fmt.Sprintf("%s:%d", strings.ToLower(protocol), port)
		switch t, ok := ccm.ParseTrace(description); {
		case !ok:
			list = append(list, text+" was made by hand")
		case !t.Of(c.Service, c.Cluster):
			list = append(list, fmt.Sprintf("%s is of the Service %s", text, t))
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

// how says how the Service leaves its load balancer.
func how(c *remedy.Case) string {
	if at := c.Service.DeletionTimestamp; at != nil {
		return "is being deleted since " + at.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("is of type %s now", c.Service.Spec.Type)
}
