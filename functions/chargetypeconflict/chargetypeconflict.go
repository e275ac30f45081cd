// Package chargetypeconflict remedies Services that request billing by spec for a CLB that is billed by LCU.
package chargetypeconflict

import (
	"context"
	_ "embed"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy removes the request for a spec, and the Service syncs again.
var Remedy = &remedy.Remedy{
	Class: "charge-type-conflict",
	Doc:   doc,
	Codes: []string{"OperationDenied.PayByCLCU", "OperationDenied.PayBySpec", "Forbidden.LcuToSpec"},
	Texts: []string{
		"instanceChargeType of loadbalancer is PayByCLCU",
		"instanceChargeType of loadbalancer is PayBySpec",
		"permission modify InstanceChargeType to spec",
	},
	Reads:       ccm.BoundReads,
	Steps:       []remedy.Step{step.Annotate{}, step.RemoveAnnotation{}},
	Annotations: []string{ccm.ChargeType, ccm.ChargeSpec},
	Diagnose:    diagnose,
	StillFails:  stillFails,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	wrong := say.F("The Event is about the charge type of a CLB, but an NLB serves this Service.").
		And("NLBs have no charge type to choose.")
	return c.PlanCLB(ctx, wrong, say.F("its charge type and spec"), decide)
}

func decide(_ context.Context, c *remedy.Case, lb *ccm.Instance) (remedy.Plan, error) {
	var asked, commands []string
	var edits []step.Edit
	for _, name := range []string{ccm.ChargeType, ccm.ChargeSpec} {
		v, ok := ccm.Annotation(c.Service, name)
		if !ok {
			continue
		}
		commands = append(commands, ccm.RemoveCommand(c.Service, name))
		if v != "" {
			asked = append(asked, name+"="+ccm.Quote(v))
		}
		switch {
		case name == ccm.ChargeSpec:
			edits = append(edits, step.Without(c.Service, ccm.ChargeSpec))
		case v != "" && v != ccm.PayByLCU:
			edits = append(edits, step.With(c.Service, ccm.ChargeType, ccm.PayByLCU))
		}
	}
	asks := say.F("The annotations ask for %s.", strings.Join(asked, ", "))
	if lb.CLB.ChargeType != ccm.PayByLCU {
		return remedy.Plan{
			Finding: billing(lb.CLB).Then(asks).And("Only a change from %s is known to be impossible.", ccm.PayByLCU),
			Ask: say.F("Check the controller's log for the change that the API refused, and why: %s.", c.LogQuery()).
				And("A subscription (PrePay) can be changed only in the console. To stop asking for a change: %s.", strings.Join(commands, "; ")),
		}, nil
	}
	return remedy.Plan{
		Finding: say.F("The CLB %s is billed by LCU (%s).", lb.ID, ccm.PayByLCU).Then(asks).And("A CLB cannot change from LCU back to a spec."),
		Note:    say.F("Nothing changes on the load balancer: billed by LCU, it has no spec and scales with its load."),
		Steps:   []remedy.Step{step.Together(edits...)},
	}, nil
}

func billing(lb *cloud.LoadBalancer) say.Text {
	switch {
	case lb.ChargeType == "":
		return say.F("The API does not say how the CLB %s is billed (%s).", lb.ID, lb.PayType)
	case lb.Spec == "":
		return say.F("The CLB %s is billed by spec (%s) but has none: it is a shared-resource instance.", lb.ID, lb.PayType)
	}
	return say.F("The CLB %s is billed by its spec %s (%s).", lb.ID, lb.Spec, lb.PayType)
}

func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	wantCharge, _ := ccm.Annotation(c.Service, ccm.ChargeType)
	wantSpec, _ := ccm.Annotation(c.Service, ccm.ChargeSpec)
	if wantCharge == "" && wantSpec == "" {
		return remedy.No, nil // without the annotations the controller compares nothing
	}
	return c.CLBFails(ctx, func(lb *ccm.Instance) remedy.Verdict {
		if lb.CLB.ChargeType == ccm.PayByLCU {
			return remedy.Is(wantSpec != "" || wantCharge != "" && wantCharge != ccm.PayByLCU)
		}
		return remedy.Is(wantCharge != "" && wantCharge != lb.CLB.ChargeType || wantSpec != "" && wantSpec != lb.CLB.Spec)
	})
}
