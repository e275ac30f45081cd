// Package deletionblocked releases Services that are stuck in deletion because their load balancer is protected.
package deletionblocked

import (
	"context"
	_ "embed"
	"slices"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy disables the protection of a load balancer made for the Service alone, or asks whether to, because somebody has enabled it. It never
// does so for a load balancer that the Service is to leave behind.
var Remedy = &remedy.Remedy{
	Class: "deletion-blocked",
	Doc:   doc,
	Codes: []string{"OperationDenied.DeleteProtectionIsOn", "OperationDenied.DeletionProtectionEnabled"},
	Texts: []string{
		"due to DeleteProtection is enabled",
		"because of DeletionProtectionEnabled",
		"prepay loadBalancer does not support this action",
	},
	Reads:      slices.Concat(ccm.BoundReads, ccm.NetworkReads),
	Steps:      []remedy.Step{step.Unprotect{}, step.Resync{}},
	Risks:      []remedy.Risk{remedy.High},
	Deleting:   true,
	Diagnose:   diagnose,
	StillFails: stillFails,
}

// stillFails can't tell for a Service without a load balancer, or with a reused one.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	if len(ccm.Leaving(c.Service)) == 0 {
		return remedy.No, nil
	}
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	id, _ := ccm.Annotation(c.Service, ccm.BalancerID)
	return remedy.Is(lb == nil || id != "" || lb.Subscribed() || lb.DeleteProtected()), nil
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
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
	if keep, _ := ccm.Annotation(c.Service, ccm.Preserve); keep != "" {
		return kept(c, lb), nil
	}
	listeners, err := c.ListenerPorts(ctx, lb)
	if err != nil {
		return remedy.Plan{}, err
	}
	return decide(c, lb, listeners), nil
}
