// Package deletionblocked asks about Services that are stuck in deletion.
package deletionblocked

import (
	"context"
	_ "embed"
	"slices"
	"strings"
	"time"

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
	if len(ccm.Leaving(c.Service)) == 0 {
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
	listeners, err := c.ListenerPorts(ctx, lb)
	if err != nil {
		return remedy.Plan{}, err
	}
	return decide(c, lb, listeners), nil
}

// decide returns the plan for a load balancer that the controller created, with these listeners.
func decide(c *remedy.Case, lb *ccm.Instance, listeners []ccm.Listener) remedy.Plan {
	finding := say.F("The Service is now of type %s.", c.Service.Spec.Type)
	if at := c.Service.DeletionTimestamp; at != nil {
		finding = say.F("The Service has been in deletion since %s.", at.UTC().Format(time.RFC3339))
	}
	ask := say.F("Find out who wants to keep it. To have it deleted, turn off the protection: %s.", lb.UnprotectCommand(c.Cloud.Region())).
		Then(ccm.ThenRetries())
	switch {
	case lb.CLB != nil && lb.CLB.PayType == "PrePay":
		finding = finding.And("Its CLB %s (%s) is a subscription, which cannot be deleted before it ends.", lb.ID, lb.Address)
		ask = say.F("Request a refund of %s in the console, or wait until the subscription ends.", lb.ID)
	case !lb.DeleteProtected():
		return remedy.Plan{
			Finding: finding.And("Its %s %s (%s) has no deletion protection now and is not a subscription.", lb.Kind(), lb.ID, lb.Address).
				And("The controller retries."),
			Wait: ccm.Retry,
		}
	case lb.NLB != nil:
		finding = finding.And("Its NLB %s (%s) has deletion protection on.", lb.ID, lb.Address).
			And("Since v2.9.1, the controller turns that off before it deletes, so somebody or something turned it on again. Older versions leave it on.")
	default:
		finding = finding.And("Its CLB %s (%s) has deletion protection on.", lb.ID, lb.Address).
			And("The controller turns that off before it deletes, so somebody or something turned it on again.")
	}
	if list := others(c, listeners); len(list) > 0 {
		finding = finding.And("It has listeners that do not belong to this Service, whose traffic stops when it is deleted: %s.", say.Clauses(list, 5))
	}
	return remedy.Plan{
		Finding: finding,
		Cause:   lb.ID,
		Ask: ask.And("Or keep it (CCM v2.10.0 or later): %s.", ccm.PreserveCommand(c.Service)).
			And("The controller then releases the Service, and %s stays, with its address and its cost.", lb.ID),
	}
}

// others describes the listeners of the load balancer that were not made for the Service.
func others(c *remedy.Case, listeners []ccm.Listener) []say.Text {
	var list []say.Text
	for _, l := range listeners {
		l.Protocol = strings.ToLower(l.Protocol)
		switch t, ok := ccm.ParseTrace(l.Description); {
		case !ok:
			list = append(list, say.F("%s was made by hand", l))
		case !t.Of(c.Service, c.Cluster):
			list = append(list, say.F("%s belongs to the Service %s", l, t))
		}
	}
	return list
}
