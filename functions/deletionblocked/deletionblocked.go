// Package deletionblocked asks about Services that hang in deletion.
package deletionblocked

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

//go:embed doc.md
var doc string

// Remedy asks whether the load balancer is to be deleted: somebody protected it.
var Remedy = &remedy.Remedy{
	Class: "deletion-blocked",
	Doc:   doc,
	Codes: []string{"OperationDenied.DeleteProtectionIsOn", "OperationDenied.DeletionProtectionEnabled"},
	Texts: []string{
		"due to DeleteProtection is enabled",
		"because of DeletionProtectionEnabled",
		"prepay loadBalancer does not support this action",
	},
	Reads:    slices.Concat(remedy.BoundReads, []grant.Grant{grant.ListNLBs, grant.GetNLB, grant.ListNLBTags}),
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
			Finding: fmt.Sprintf("The controller could not delete the load balancer of the Service, and none is found now by the annotation id, the tag %s=%s or that name.", remedy.NameTag, remedy.DefaultName(c.Service)),
			Ask:     "If the Service is still there in ten minutes, look in the console for its load balancer. An empty list is no proof that it is gone: permissions limited by resource give empty lists.",
		}, nil
	}
	keep := fmt.Sprintf("Or keep it: kubectl -n %s annotate service %s %spreserve-lb-on-delete=true --overwrite (CCM v2.10.0 or later). The Service goes, and %s stays with its address and its costs.",
		c.Service.Namespace, c.Service.Name, remedy.Prefix, lb.ID)
	what := fmt.Sprintf("The %s %s (%s) of the Service, which %s,", lb.Kind(), lb.ID, lb.Address, how(c))
	switch {
	case lb.CLB != nil && lb.CLB.PayType == "PrePay":
		return remedy.Plan{
			Finding: what + " is a subscription: it can't be deleted before it ends.",
			Cause:   lb.ID,
			Ask:     fmt.Sprintf("Ask for a refund of %s in the console, or wait until the subscription ends. %s", lb.ID, keep),
		}, nil
	case lb.CLB != nil && lb.CLB.DeleteProtection:
		return remedy.Plan{
			Finding: what + " has deletion protection on. The controller turns it off before it deletes; somebody or something turned it on again.",
			Cause:   lb.ID,
			Ask: fmt.Sprintf("Find out who wants it to stay. To have it deleted: aliyun slb SetLoadBalancerDeleteProtection --RegionId %s --LoadBalancerId %s --DeleteProtection off. The controller then tries again within 5 minutes. %s",
				c.Cloud.Region(), lb.ID, keep),
		}, nil
	case lb.NLB != nil && lb.NLB.DeleteProtection:
		return remedy.Plan{
			Finding: what + " has deletion protection on. A controller since v2.9.1 turns it off before it deletes, so that somebody or something turned it on again; an older one leaves it on.",
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

// how says how the Service leaves its load balancer.
func how(c *remedy.Case) string {
	if at := c.Service.DeletionTimestamp; at != nil {
		return "is being deleted since " + at.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("is of type %s now", c.Service.Spec.Type)
}
