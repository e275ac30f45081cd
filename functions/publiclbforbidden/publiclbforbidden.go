// Package publiclbforbidden asks to make a load balancer private if the cluster forbids public ones.
package publiclbforbidden

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed doc.md
var doc string

// Remedy asks: the owner of a Service decides whether it faces the internet.
var Remedy = &remedy.Remedy{
	Class:      "public-lb-forbidden",
	Doc:        doc,
	Texts:      []string{"create public address slb is not allowed"},
	Reads:      []grant.Grant{grant.DescribeLoadBalancerAttribute},
	Diagnose:   diagnose,
	StillFails: stillFails,
}

// addressType is the short name of the annotation for the address type.
const addressType = "address-type"

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	allow := say.F("If it must be public, ask the cluster administrator to remove disablePublicSLB from the controller's configuration.").
		And("Change the Service afterwards, because the controller does not retry it otherwise.")
	plan := remedy.Plan{
		Finding: say.F("The controller of this cluster is configured to create no public load balancers (disablePublicSLB)."),
		Ask: say.F("Make it private: %s. The controller then retries at once.", ccm.SetCommand(c.Service, addressType, "intranet")).
			And("The load balancer gets an address of a vSwitch, which only the VPC and the networks connected to it can reach.").Then(allow),
	}
	if value, _ := ccm.Annotation(c.Service, addressType); value != "" {
		plan.Finding = plan.Finding.And("The Service asks for a public load balancer with the annotation %s: %s.", addressType, value)
	} else {
		plan.Finding = plan.Finding.And("The Service has no annotation %s. Without it, the controller creates a public load balancer.", addressType)
	}
	id := c.Service.Labels[ccm.BalancerLabel]
	if id == "" {
		return plan, nil
	}
	lb, err := c.Cloud.SLB.LoadBalancer(ctx, id)
	switch {
	case errors.Is(err, cloud.ErrNotFound):
		plan.Finding = plan.Finding.And("Its load balancer %s no longer exists.", ccm.Quote(id))
	case err != nil:
		return remedy.Plan{}, fmt.Errorf("describe load balancer %s: %w", id, err)
	case lb.AddressType == "intranet":
		plan.Finding = plan.Finding.And("Its load balancer %s is already private: the annotation was lost.", lb.ID)
	default:
		plan.Finding = plan.Finding.And("Its load balancer %s was created earlier and is public, at %s. The controller no longer syncs it.", lb.ID, lb.Address)
		plan.Ask = say.F("Choose one option. A load balancer never changes its address type.").
			And("For a private one, delete the Service and recreate it with the annotation %s%s: intranet. Its address changes.", ccm.Prefix, addressType).
			Then(allow)
	}
	return plan, nil
}

// stillFails reports whether the Service still asks for a public load balancer. The controller checks
// that before anything else
// (github.com/kubernetes/cloud-provider-alibaba-cloud, pkg/controller/service/clbv1/service_controller.go).
func stillFails(_ context.Context, c *remedy.Case) (remedy.Verdict, error) {
	value, _ := ccm.Annotation(c.Service, addressType)
	return remedy.Is(value == "" || value == "internet"), nil
}
