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
)

//go:embed doc.md
var doc string

// Remedy asks: whether a Service faces the internet is its owner's decision.
var Remedy = &remedy.Remedy{
	Class:      "public-lb-forbidden",
	Doc:        doc,
	Texts:      []string{"create public address slb is not allowed"},
	Reads:      []grant.Grant{grant.DescribeLoadBalancerAttribute},
	Diagnose:   diagnose,
	StillFails: holds,
}

const addressType = "address-type"

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	says := "has no annotation address-type: without one the controller makes a public load balancer"
	if value, ok := ccm.Annotation(c.Service, addressType); ok && value != "" {
		says = "asks for a public load balancer with the annotation address-type: " + value
	}
	const allow = "If it must be public, have whoever runs the cluster take disablePublicSLB out of the controller's configuration, and change the Service afterwards: the controller does not try this one again by itself."
	private := fmt.Sprintf("Make it private: %s. It then gets an address of a vSwitch, which only the VPC and what is connected to it reach, and the controller tries again at once. %s", ccm.SetCommand(c.Service, addressType, "intranet"), allow)
	finding := fmt.Sprintf("The controller of this cluster is configured to make no public load balancers (disablePublicSLB). The Service %s.", says)
	id := c.Service.Labels[ccm.BalancerLabel]
	if id == "" {
		return remedy.Plan{Finding: finding, Ask: private}, nil
	}
	lb, err := c.Cloud.SLB.LoadBalancer(ctx, id)
	switch {
	case errors.Is(err, cloud.ErrNotFound):
		finding += fmt.Sprintf(" Its load balancer %s does not exist any more.", ccm.Quote(id))
	case err != nil:
		return remedy.Plan{}, fmt.Errorf("describe load balancer %s: %w", id, err)
	case lb.AddressType == "intranet":
		finding += fmt.Sprintf(" Its load balancer %s is private already: the annotation was lost.", lb.ID)
	default:
		return remedy.Plan{
			Finding: fmt.Sprintf("%s Its load balancer %s was made before and is public, at %s; since then it is not synced any more.", finding, lb.ID, lb.Address),
			Ask:     fmt.Sprintf("Choose. A load balancer never changes its address type, so that a private one means to delete the Service and create it again with the annotation %s%s: intranet, at another address. %s", ccm.Prefix, addressType, allow),
		}, nil
	}
	return remedy.Plan{Finding: finding, Ask: private}, nil
}

// holds reports whether the Service still asks for a public load balancer, which the
// controller checks first
// (github.com/kubernetes/cloud-provider-alibaba-cloud, pkg/controller/service/clbv1/service_controller.go).
func holds(_ context.Context, c *remedy.Case) (remedy.Verdict, error) {
	value, _ := ccm.Annotation(c.Service, addressType)
	return remedy.Is(value == "" || value == "internet"), nil
}
