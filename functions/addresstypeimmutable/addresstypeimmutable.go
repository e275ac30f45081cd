// Package addresstypeimmutable remedies Services that request an address type other than their load balancer's.
package addresstypeimmutable

import (
	"context"
	_ "embed"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy sets the annotation to the load balancer's address type, and the Service syncs again.
var Remedy = &remedy.Remedy{
	Class:       "address-type-immutable",
	Doc:         doc,
	Texts:       []string{"can not change LoadBalancer AddressType once created"},
	Reads:       ccm.BoundReads,
	Steps:       []remedy.Step{step.Annotate{}},
	Annotations: []string{addressType},
	Diagnose:    diagnose,
	StillFails:  stillFails,
}

const addressType = "address-type"

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	wrong := say.F("The Event is about the address type of a CLB, but an NLB serves this Service.").
		And("The controller can change the address type of an NLB in place.")
	return c.PlanCLB(ctx, wrong, say.F("its address type"), putBack)
}

func putBack(_ context.Context, c *remedy.Case, lb *ccm.Instance) (remedy.Plan, error) {
	want, _ := ccm.Annotation(c.Service, addressType)
	var note say.Text
	if ccm.Synced(c.Service) {
		note = say.F("The Service stays reachable at %s.", lb.Address)
	}
	if id, _ := ccm.Annotation(c.Service, ccm.BalancerID); id != "" {
		note = note.And("To change the address type, delete the Service and recreate it with another load balancer in the annotation id, or without it.").
			And("Its address changes.").Then(step.Allowlisted(c.Service)).
			And("A person created the old load balancer, so it stays and keeps its address.")
	} else {
		note = note.And("To change the address type, delete and recreate the Service. It gets a new load balancer and a new address.").
			Then(step.Allowlisted(c.Service))
		keep := ccm.PreserveCommand(c.Service)
		note = note.And("To keep the old load balancer and its address, run this before you delete the Service (CCM v2.10.0 or later): %s.", keep).
			And("A Service can then use it through the annotation id.")
	}
	return remedy.Plan{
		Finding: say.F("The annotation %s asks for %s, but the CLB %s with the address %s is %s.", addressType, ccm.Quote(want), lb.ID, lb.Address, lb.AddressType).
			And("The address type of a CLB never changes."),
		Note:  note,
		Steps: []remedy.Step{step.With(c.Service, addressType, lb.AddressType)},
	}, nil
}

// stillFails compares the annotation with case, as the controller does.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	want, _ := ccm.Annotation(c.Service, addressType)
	if want == "" {
		return remedy.No, nil // without the annotation the controller compares nothing
	}
	return c.CLBFails(ctx, func(lb *ccm.Instance) remedy.Verdict { return remedy.Is(want != lb.AddressType) })
}
