// Package publiclbforbidden asks to make a load balancer private if the cluster forbids public ones. It restores the annotation if the
// load balancer is already private, and releases Services whose deletion fails for that reason.
package publiclbforbidden

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy asks: the owner of a Service decides whether it is public, unless its load balancer is private or it is in deletion.
var Remedy = &remedy.Remedy{
	Class:       "public-lb-forbidden",
	Doc:         doc,
	Texts:       []string{"create public address slb is not allowed", "PublicAddress SLB is not allowed"},
	Reads:       ccm.BoundReads,
	Steps:       []remedy.Step{step.Annotate{}},
	Annotations: []string{addressType},
	Deleting:    true,
	Diagnose:    diagnose,
	StillFails:  stillFails,
}

const addressType = "address-type"

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	allow := say.F("If it must be public, ask the cluster administrator to remove disablePublicSLB from the controller's configuration.").
		And("Then change the Service: otherwise the controller does not retry.")
	plan := remedy.Plan{
		Finding: say.F("The controller is configured to create no public load balancers (disablePublicSLB)."),
		Ask: say.F("Make it private: %s. The controller then retries at once.", ccm.SetCommand(c.Service, addressType, "intranet")).
			And("It then has an address of a vSwitch, which only the VPC and networks connected to it can reach.").Then(allow),
	}
	if value, _ := ccm.Annotation(c.Service, addressType); value != "" {
		plan.Finding = plan.Finding.And("The Service asks for a public load balancer with the annotation %s: %s.", addressType, value)
	} else {
		plan.Finding = plan.Finding.And("The Service has no annotation %s. Without it, the controller creates a public load balancer.", addressType)
	}
	if len(ccm.Leaving(c.Service)) > 0 {
		return release(ctx, c, plan.Finding)
	}
	bound, err := c.Bound(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if bound != nil && bound.AddressType == "intranet" && ccm.HasAddress(c.Service, bound) {
		return remedy.Plan{
			Finding: plan.Finding.And("But the load balancer that the controller finds for it, %s (%s), is private, and never changes that.", bound.ID, bound.Address),
			Steps:   []remedy.Step{step.With(c.Service, addressType, "intranet")},
			Note:    say.F("The annotation says what the load balancer already is. Who can reach the Service does not change."),
		}, nil
	}
	if bound == nil || bound.AddressType == "intranet" {
		id := c.Service.Labels[ccm.BalancerLabel]
		if id == "" {
			return plan, nil
		}
		lb, err := c.Cloud.SLB.LoadBalancer(ctx, id)
		switch {
		case errors.Is(err, cloud.ErrNotFound):
			plan.Finding = plan.Finding.And("Its load balancer %s no longer exists.", ccm.Quote(id))
			return plan, nil
		case err != nil:
			return remedy.Plan{}, fmt.Errorf("describe load balancer %s: %w", id, err)
		case lb.AddressType == "intranet":
			plan.Finding = plan.Finding.And("Its label names %s, which is private.", lb.ID).
				And("But the controller does not find this load balancer with the Service's address for the Service.")
			return plan, nil
		}
		bound = ccm.Classic(lb)
	}
	plan.Finding = plan.Finding.And("Its load balancer %s is public, at %s. The controller does not sync it.", bound.ID, bound.Address)
	plan.Ask = say.F("Choose one option. A load balancer never changes its address type.").Then(ccm.PrivateAdvice(c.Service, bound)).Then(allow)
	return plan, nil
}

// release plans for a Service that the controller releases. It checks the annotation first, and then uses it for nothing else.
func release(ctx context.Context, c *remedy.Case, finding say.Text) (remedy.Plan, error) {
	fate, none, err := c.Fate(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	p := remedy.Plan{
		Finding: ccm.WhyLeaving(c.Service).Then(finding).And("The controller checks this before it cleans up, so the Service is never released.").Then(fate),
		Risk:    remedy.High,
	}
	if none {
		p.Risk = remedy.Low
	}
	if c.Service.DeletionTimestamp == nil {
		p.Ask = say.F("If the Service is not to be of type LoadBalancer again, let the controller clean up: %s.", ccm.SetCommand(c.Service, addressType, "intranet"))
		return p, nil
	}
	p.Steps = []remedy.Step{step.With(c.Service, addressType, "intranet")}
	p.Note = say.F("While a Service is being deleted, the controller reads the annotation %s for this check alone.", addressType)
	return p, nil
}

// stillFails reports whether the Service requests a public load balancer. The controller checks that first, even in deletion, but not for
// NLBs (github.com/kubernetes/cloud-provider-alibaba-cloud, pkg/controller/service/clbv1/service_controller.go).
func stillFails(_ context.Context, c *remedy.Case) (remedy.Verdict, error) {
	value, _ := ccm.Annotation(c.Service, addressType)
	return remedy.Is(!ccm.NLB(c.Service) && (value == "" || value == "internet")), nil
}
