// Package chargetypeconflict remedies Services that ask for billing by spec on a CLB that is billed by LCU.
package chargetypeconflict

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy removes the request for a spec, so that the Service syncs again.
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
	Annotations: []string{chargeType, spec},
	Diagnose:    diagnose,
	StillFails:  holds,
}

// Short names of the annotations for the charge type of a CLB, and for its spec if it
// is billed by spec. Letter case counts.
const (
	chargeType = "instance-charge-type"
	spec       = "spec"
)

// byLCU is the charge type that can't be changed to another.
const byLCU = "PayByCLCU"

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	if ccm.NLB(c.Service) {
		return remedy.WrongController("The event is about the charge type of a CLB, and the Service is served by an NLB, which has none to choose."), nil
	}
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if lb == nil {
		return c.NoBalancer("its charge type and spec"), nil
	}
	asked := wishes(c)
	if lb.CLB.ChargeType != byLCU {
		return remedy.Plan{
			Finding: fmt.Sprintf("The CLB %s pays %s (%s), and the annotations ask for %s. Only a change from %s is known to be impossible, and this is none.", lb.ID, pays(lb.CLB), lb.CLB.PayType, asked, byLCU),
			Ask: fmt.Sprintf("Look up in the controller's log which change the API refused, and why: %s. A subscription (PrePay) changes in the console alone. To take the wishes back: %s.",
				c.LogQuery(), takeBack(c)),
		}, nil
	}
	var edits []step.Edit
	if want, _ := ccm.Annotation(c.Service, chargeType); want != "" && want != byLCU {
		edits = append(edits, step.With(c.Service, chargeType, byLCU))
	}
	if _, ok := ccm.Annotation(c.Service, spec); ok {
		edits = append(edits, step.Without(c.Service, spec))
	}
	return remedy.Plan{
		Finding: fmt.Sprintf("The CLB %s pays by LCU (%s), and the annotations ask for %s. No way leads from there to a spec.", lb.ID, byLCU, asked),
		Note:    "Nothing changes on the load balancer: by LCU it has no spec, and grows with its load.",
		Steps:   []remedy.Step{step.Together(edits...)},
	}, nil
}

// wishes returns what the annotations ask for, for a sentence.
func wishes(c *remedy.Case) string {
	var out []string
	for _, name := range []string{chargeType, spec} {
		if v, _ := ccm.Annotation(c.Service, name); v != "" {
			out = append(out, name+" "+ccm.Quote(v))
		}
	}
	return strings.Join(out, " and ")
}

// takeBack returns the commands by which a person removes the annotations.
func takeBack(c *remedy.Case) string {
	var out []string
	for _, name := range []string{chargeType, spec} {
		if _, ok := ccm.Annotation(c.Service, name); ok {
			out = append(out, ccm.RemoveCommand(c.Service, name))
		}
	}
	return strings.Join(out, "; ")
}

func pays(lb *cloud.LoadBalancer) string {
	switch {
	case lb.ChargeType == "":
		return "in a way that the API does not say"
	case lb.Spec == "":
		return "by spec, and has none: it is a shared-resource instance"
	}
	return "by the spec " + lb.Spec
}

// holds reports whether the annotations still differ from the load balancer.
func holds(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	wantCharge, _ := ccm.Annotation(c.Service, chargeType)
	wantSpec, _ := ccm.Annotation(c.Service, spec)
	if wantCharge == "" && wantSpec == "" {
		return remedy.No, nil // the controller compares only what is asked for
	}
	if ccm.NLB(c.Service) {
		return remedy.Yes, nil // there is nothing to compare: a person looks
	}
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	if lb == nil {
		return remedy.Yes, nil
	}
	if lb.CLB.ChargeType == byLCU {
		return remedy.Is(wantSpec != "" || wantCharge != "" && wantCharge != byLCU), nil
	}
	return remedy.Is(wantCharge != "" && wantCharge != lb.CLB.ChargeType || wantSpec != "" && wantSpec != lb.CLB.Spec), nil
}
