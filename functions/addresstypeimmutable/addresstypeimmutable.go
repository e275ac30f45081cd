// Package addresstypeimmutable remedies Services that ask for an address type that their load balancer does not have.
package addresstypeimmutable

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy sets the annotation back to the load balancer's address type, so that the Service syncs again.
var Remedy = &remedy.Remedy{
	Class:       "address-type-immutable",
	Doc:         doc,
	Texts:       []string{"can not change LoadBalancer AddressType once created"},
	Reads:       ccm.BoundReads,
	Steps:       []remedy.Step{step.Annotate{}},
	Annotations: []string{addressType},
	Diagnose:    diagnose,
	StillFails:  holds,
}

// addressType is the short name of the annotation that asks for a kind of address.
const addressType = "address-type"

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	if ccm.NLB(c.Service) {
		return remedy.WrongController("The event says that a CLB's address type can't change, and the Service is served by an NLB, whose address type the controller changes in place."), nil
	}
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if lb == nil {
		return c.NoBalancer("its address type"), nil
	}
	want, _ := ccm.Annotation(c.Service, addressType)
	keep := "Before you delete the Service: " + ccm.SetCommand(c.Service, "preserve-lb-on-delete", "true") + " (CCM v2.10.0 or newer): then the load balancer and its address stay, and a Service can use it by the annotation id."
	if id, _ := ccm.Annotation(c.Service, "id"); id != "" {
		keep = "The load balancer was made by a person and stays when the Service goes, with its address."
	}
	stays := ""
	if ccm.Synced(c.Service) {
		stays = fmt.Sprintf("The Service stays reachable at %s. ", lb.Address)
	}
	return remedy.Plan{
		Finding: fmt.Sprintf("The annotation %s asks for %s, and the CLB %s with the address %s is %s. A CLB keeps its address type for life.",
			addressType, ccm.Quote(want), lb.ID, lb.Address, lb.AddressType),
		Note:  stays + "To change the address type, delete the Service and create it again: it then has a new load balancer and a new address. " + keep,
		Steps: []remedy.Step{step.With(c.Service, addressType, lb.AddressType)},
	}, nil
}

// holds reports whether the annotation still asks for another kind of address. Letter case counts.
func holds(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	want, _ := ccm.Annotation(c.Service, addressType)
	if want == "" {
		return remedy.No, nil // the controller compares only what is asked for
	}
	if ccm.NLB(c.Service) {
		return remedy.Yes, nil // there is nothing to compare: a person looks
	}
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(lb == nil || want != lb.AddressType), nil
}
