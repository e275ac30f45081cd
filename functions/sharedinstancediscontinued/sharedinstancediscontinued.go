// Package sharedinstancediscontinued remedies Services that request a kind of CLB that is no longer sold.
package sharedinstancediscontinued

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

// Remedy requests a CLB that is billed by LCU, which is sold, or asks for a newer controller.
var Remedy = &remedy.Remedy{
	Class:       "shared-instance-discontinued",
	Doc:         doc,
	Codes:       []string{"ShareSlbHaltSales"},
	Texts:       []string{"share instance has been discontinued", "param LoadBalancerSpec is required"},
	Reads:       ccm.UpgradeReads,
	Steps:       []remedy.Step{step.Annotate{}},
	Risks:       []remedy.Risk{remedy.Medium},
	Creates:     true,
	Annotations: []string{ccm.ChargeType, ccm.ChargeSpec},
	Scope:       remedy.Cluster,
	Diagnose:    diagnose,
	StillFails:  stillFails,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	name := c.Service.Namespace + "/" + c.Service.Name
	if ccm.NLB(c.Service) {
		p := remedy.WrongController(say.F("The event is about creating a CLB, but the Service %s is served by an NLB, of which there is only one kind.", name))
		p.Cause = name
		return p, nil
	}
	none, err := c.None(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	finding := say.F("Alibaba Cloud no longer sells shared-resource CLBs.")
	if !none {
		return remedy.Plan{
			Finding: finding.And("It refused to create one for the Service %s.", name).
				And("But the Service already has a load balancer, by its tag, its name, its address or the annotation id."),
			Cause: name,
			Ask:   say.F("Check the controller's log for why it tries to create another one: %s.", c.LogQuery()),
		}, nil
	}
	ctl, err := c.Controller(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if ctl.Version.Before(ccm.FirstChargeType()) {
		return upgrade(ctx, c, ctl, finding)
	}
	want, ok := ccm.Annotation(c.Service, ccm.ChargeType)
	switch {
	case want == ccm.PayByLCU:
		return remedy.Plan{
			Finding: finding.And("The Service asked for one when the Event was written.").
				And("Now its annotation %s is %s, which CCM %s understands.", ccm.ChargeType, ccm.PayByLCU, ctl.Version),
			Wait: ccm.NextTry, Ask: say.F("If the controller still cannot create a CLB, check its log for what it asks for: %s.", c.LogQuery()),
		}, nil
	case ok:
		finding = finding.And("The Service asks for one: its annotation %s is %s.", ccm.ChargeType, ccm.Quote(want))
	default:
		finding = finding.And("The Service asks for one: it does not have the annotation %s.", ccm.ChargeType)
	}
	if size, ok := ccm.Annotation(c.Service, ccm.ChargeSpec); ok {
		finding = finding.And("Its annotation %s is %s.", ccm.ChargeSpec, ccm.Quote(size))
	}
	plan := step.ByLCU(c.Service, finding.And("CCM %s can ask for a CLB that is billed by LCU.", ctl.Version))
	plan.Cause = "shared-resource CLB"
	if ctl.Version.Before(ccm.FirstPayByLCU()) {
		plan.Note = plan.Note.And("Upgrade the controller to %s or newer, too: it then creates such CLBs for all Services without the annotation.",
			ccm.FirstPayByLCU())
	}
	return plan, nil
}

func upgrade(ctx context.Context, c *remedy.Case, ctl ccm.Controller, finding say.Text) (remedy.Plan, error) {
	if ctl.Version == (ccm.Version{}) {
		return remedy.Plan{
			Finding: finding.Then(ccm.NoVersion()).And("It is therefore unknown which kind of CLB the controller can ask for."),
			Cause:   "CCM of unknown version",
			Ask: say.F("Find out the version of the controller.").
				And("If it is %s or newer, ask for a CLB that is billed by LCU: %s.", ccm.FirstChargeType(), ccm.SetCommand(c.Service, ccm.ChargeType, ccm.PayByLCU)).
				And("If it is older, upgrade it to %s or newer.", ccm.FirstPayByLCU()),
		}, nil
	}
	up, err := c.Upgrade(ctx, ctl.Version)
	if err != nil {
		return remedy.Plan{}, err
	}
	return remedy.Plan{
		Finding: finding.And("CCM %s cannot ask for any other kind. Only CCM %s or newer can ask for one that is billed by LCU.", ctl.Version, ccm.FirstChargeType()),
		Cause:   "CCM " + ctl.Version.String(),
		Ask: up.Ask(ccm.FirstPayByLCU()).Then(up.Rights).And("From %s on, the controller creates CLBs that are billed by LCU.", ccm.FirstPayByLCU()).
			And("From %s on, a Service can ask for one with %s%s=%s.", ccm.FirstChargeType(), ccm.Prefix, ccm.ChargeType, ccm.PayByLCU),
		Note: up.Note(),
	}, nil
}

func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	if ccm.NLB(c.Service) {
		return remedy.Yes, nil // nothing can be compared: a person has to check
	}
	if ccm.Synced(c.Service) {
		return remedy.No, nil
	}
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(lb == nil), nil
}
