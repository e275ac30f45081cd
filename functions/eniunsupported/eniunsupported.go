// Package eniunsupported remedies Services whose CLB does not support network interfaces as backends.
package eniunsupported

import (
	"context"
	_ "embed"
	"slices"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy converts a shared-resource CLB to one that supports network interfaces, only if the policy file names the class: the conversion
// is permanent and interrupts traffic. Otherwise nodes become the backends instead of Pods.
var Remedy = &remedy.Remedy{
	Class:       "eni-unsupported",
	Doc:         doc,
	Texts:       []string{"does not support backend servers of eni type"},
	Reads:       slices.Concat(ccm.BoundReads, ccm.ControllerReads, []grant.Grant{grant.DescribeVServerGroups, grant.ListEndpointSlices, grant.ListNodes}),
	Steps:       []remedy.Step{step.Convert{}, step.Annotate{}},
	Risks:       []remedy.Risk{remedy.Medium, remedy.High},
	Annotations: []string{ccm.ChargeType, ccm.ChargeSpec, ccm.BackendType},
	OptIn:       true,
	Backends:    true,
	Diagnose:    diagnose,
	StillFails:  stillFails,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	wrong := say.F("The Event says that a CLB does not accept network interfaces as backends.").
		And("But an NLB serves this Service, and NLBs accept them.")
	return c.PlanCLB(ctx, wrong, say.F("its spec and charge type"), decide)
}

// decide converts only the Service's own CLB.
func decide(ctx context.Context, c *remedy.Case, lb *ccm.Instance) (remedy.Plan, error) {
	finding := say.F("The CLB %s is a shared-resource instance (no spec, %s, %s), which does not accept network interfaces as backends.",
		lb.ID, lb.CLB.ChargeType, lb.CLB.PayType)
	virtual, err := c.VirtualPods(ctx, c.Family())
	if err != nil {
		return remedy.Plan{}, err
	}
	if lb.Subscribed() {
		return throughNodes(ctx, c, virtual, finding.And("It is a subscription, whose charge type can only be changed in the console."),
			say.F("Convert it to pay-as-you-go in the console, or use another load balancer."))
	}
	owner, evidence, err := c.Owner(ctx, lb)
	if err != nil {
		return remedy.Plan{}, err
	}
	if id, _ := ccm.Annotation(c.Service, ccm.BalancerID); id != "" || owner != ccm.Own {
		finding = finding.Then(evidence)
		check := say.F("Check with everyone who uses %s: the conversion to pay-by-LCU interrupts its traffic for 10 to 30 seconds and cannot be undone.", lb.ID).
			And("Then run: %s.", ccm.ConvertCommand(c.Cloud.Region(), lb.ID))
		if owner == ccm.Users || id != "" && owner != ccm.APIServer {
			return throughNodes(ctx, c, virtual, finding, check)
		}
		return ask(c, virtual, finding, check), nil
	}
	ctl, err := c.Controller(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	p := convert(c, lb, ctl.Version, virtual, finding, evidence)
	old := ctl.Version != ccm.Version{} && ctl.Version.Before(ccm.FirstChargeType())
	if len(p.Steps) == 0 && (old || p.Wait > 0 && c.Lasts()) { // the controller cannot convert it, or the cloud rejects that
		return throughNodes(ctx, c, virtual, p.Finding, p.Ask)
	}
	return p, nil
}

// convert asks if this controller cannot do the conversion.
func convert(c *remedy.Case, lb *ccm.Instance, v ccm.Version, virtual []ccm.Endpoint, finding, evidence say.Text) remedy.Plan {
	command := ccm.SetCommand(c.Service, ccm.ChargeType, ccm.PayByLCU)
	want, _ := ccm.Annotation(c.Service, ccm.ChargeType)
	change, edits := say.F("This switches %s to pay-by-LCU (%s).", lb.ID, ccm.PayByLCU), step.AskLCU(c.Service)
	switch {
	case c.Policy.PayBySpec && lb.CLB.ChargeType == ccm.PayBySpec && want != ccm.PayByLCU:
		change, edits = say.F("This gives %s the spec %s.", lb.ID, ccm.SmallSpec), step.AskSpec(c.Service, ccm.SmallSpec)
	case v == ccm.Version{}:
		return ask(c, virtual, finding.And("The version of the controller could not be determined, so it is unknown whether it can change the charge type."),
			say.F("Find out the version of the controller. If it is %s or newer, run: %s.", ccm.FirstChargeType(), command))
	case v.Before(ccm.FirstChargeType()):
		return remedy.Plan{
			Finding: finding.And("Changing the charge type requires CCM %s or newer, and this one is %s.", ccm.FirstChargeType(), v),
			Ask:     say.F("Upgrade the add-on cloud-controller-manager, then run: %s.", command),
		}
	case want == ccm.PayByLCU:
		return remedy.Plan{
			Finding: finding.And("The annotation %s already asks for %s, but the controller has not applied it yet.", ccm.ChargeType, ccm.PayByLCU),
			Wait:    ccm.NextTry,
			Ask:     say.F("If this persists, check the controller's log for the reason: %s.", c.LogQuery()),
		}
	}
	p := step.Conversion(lb, finding.Then(evidence), change, edits)
	if !c.Policy.PayBySpec {
		// https://www.alibabacloud.com/help/en/ack/ack-managed-and-ack-dedicated/user-guide/service-faq
		p.Note = p.Note.And("The vendor's own fix is a spec, for example: %s.", ccm.SetCommand(c.Service, ccm.ChargeSpec, ccm.SmallSpec)).
			And("A spec is billed by its size for every hour, used or not, and has not been sold since 2025-06-01 for new CLBs: Alibaba Cloud may refuse it.").
			And("To have lbremedy use it, allow pay-by-specification in the policy file.")
	}
	p.Note = p.Note.Then(unchanged(c.Service, virtual))
	return p
}

// stillFails reports whether the Service needs network interfaces on a shared-resource CLB. With nodes as backends, only Pods on virtual nodes do.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	if !ccm.NLB(c.Service) && c.Service.Annotations[ccm.BackendType] == "ecs" {
		virtual, err := c.VirtualPods(ctx, c.Family())
		if err != nil {
			return remedy.Unknown, err
		}
		if len(virtual) == 0 {
			return remedy.No, nil
		}
	}
	return c.CLBFails(ctx, func(lb *ccm.Instance) remedy.Verdict {
		shared, known := lb.Shared()
		if !known {
			return remedy.Unknown
		}
		return remedy.Is(shared)
	})
}
