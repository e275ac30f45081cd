// Package sharedinstancediscontinued remedies Services that ask for a kind of CLB that is no longer sold.
package sharedinstancediscontinued

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy asks for a CLB that is billed by LCU, which is sold, or for a newer controller.
var Remedy = &remedy.Remedy{
	Class: "shared-instance-discontinued",
	Doc:   doc,
	Codes: []string{"ShareSlbHaltSales"},
	Texts: []string{
		"share instance has been discontinued",
		"param LoadBalancerSpec is required",
	},
	Reads: slices.Concat(ccm.BoundReads, ccm.DriftReads, ccm.ControllerReads, ccm.RoleReads,
		[]grant.Grant{grant.DescribeClusterDetail, grant.ListServices}),
	Steps:       []remedy.Step{step.Annotate{}},
	Annotations: []string{ccm.ChargeType, ccm.ChargeSpec},
	Scope:       remedy.Cluster,
	Diagnose:    diagnose,
	StillFails:  stillFails,
}

// retry is the time after which the controller has tried again.
const retry = time.Minute

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
			Wait: retry,
			Ask:  say.F("If the controller still cannot create a CLB, check its log for what it asks for: %s.", c.LogQuery()),
		}, nil
	case ok:
		finding = finding.And("The Service asks for one: its annotation %s is %s.", ccm.ChargeType, ccm.Quote(want))
	default:
		finding = finding.And("The Service asks for one: it does not have the annotation %s.", ccm.ChargeType)
	}
	if size, ok := ccm.Annotation(c.Service, ccm.ChargeSpec); ok {
		finding = finding.And("Its annotation %s is %s.", ccm.ChargeSpec, ccm.Quote(size))
	}
	plan := step.ByLCU(c.Service)
	plan.Finding = finding.And("CCM %s can ask for a CLB that is billed by LCU.", ctl.Version)
	plan.Cause = "shared-resource CLB"
	return plan, nil
}

// upgrade asks for a controller that can ask for what is sold. It names the permissions that the new
// controller needs, and what its first syncs overwrite.
func upgrade(ctx context.Context, c *remedy.Case, ctl ccm.Controller, finding say.Text) (remedy.Plan, error) {
	if ctl.Version == (ccm.Version{}) {
		return remedy.Plan{
			Finding: finding.And("The version of the controller could not be determined, neither from its DaemonSet nor from the list of add-ons.").
				And("It is therefore unknown which kind of CLB the controller can ask for."),
			Cause: "CCM of unknown version",
			Ask: say.F("Find out the version of the controller.").
				And("If it is %s or newer, ask for a CLB that is billed by LCU: %s.", ccm.FirstChargeType(), ccm.SetCommand(c.Service, ccm.ChargeType, ccm.PayByLCU)).
				And("If it is older, upgrade it to %s or newer.", ccm.FirstPayByLCU()),
		}, nil
	}
	cluster, err := c.Cloud.CS.Cluster(ctx)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("describe the cluster: %w", err)
	}
	services, err := c.Kube.Services(ctx)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("list Services: %w", err)
	}
	drift, err := c.Elsewhere(ctx, services)
	if err != nil {
		return remedy.Plan{}, err
	}
	rights := say.F("In a managed cluster the controller runs under the service roles of ACK, to which Alibaba Cloud grants what it needs.").
		And("If the console asks you to authorize these roles again, do that first.")
	if !cluster.Managed() {
		role, err := c.MasterRole(ctx)
		if err != nil {
			return remedy.Plan{}, err
		}
		use := ccm.InUse(cluster, services)
		rights = lacks(role, ctl.Version, ccm.Needs(ccm.Newest(), use), ccm.Gains(ctl.Version, ccm.Newest(), use))
	}
	return remedy.Plan{
		Finding: finding.And("CCM %s cannot ask for any other kind. Only CCM %s or newer can ask for one that is billed by LCU.", ctl.Version, ccm.FirstChargeType()),
		Cause:   "CCM " + ctl.Version.String(),
		Ask: say.F("Upgrade the add-on cloud-controller-manager of the cluster %s to %s or newer.", cluster.ID, ccm.FirstPayByLCU()).
			And("The add-on is in the ACK console under Operations, Add-ons.").
			And("From %s on, the controller creates CLBs that are billed by LCU.", ccm.FirstPayByLCU()).
			And("From %s on, a Service can ask for one with %s%s=%s.", ccm.FirstChargeType(), ccm.Prefix, ccm.ChargeType, ccm.PayByLCU).Then(rights),
		Note: say.F("An upgrade past %s syncs every Service in full once, which reverts changes made in the console.", ccm.Rehashed()).Then(drift.Text()),
	}, nil
}

// lacks says which actions the role lacks of those that the newest controller calls here. The gains
// are the actions that the running controller does not call yet.
func lacks(role ccm.Role, runs ccm.Version, needs, gains []string) say.Text {
	if role.Name == "" {
		return say.F("The cluster names no RAM role of its masters.").
			And("Before the upgrade, make sure that the role of the controller allows what CCM %s calls and %s does not: %s.",
				ccm.Newest(), runs, strings.Join(gains, ", "))
	}
	gap := role.Lacks(needs)
	if len(gap.Missing) == 0 {
		return say.F("The masters' RAM role %s allows everything that CCM %s calls here.", role.Name, ccm.Newest())
	}
	missing := slices.DeleteFunc(gap.Missing, func(action string) bool { return slices.Contains(gap.Denied, action) })
	var text say.Text
	if len(missing) > 0 {
		text = text.And("The masters' RAM role %s lacks %s that CCM %s calls here.", role.Name, say.Count(len(missing), "action"), ccm.Newest()).
			And("Grant this before the upgrade: %s.", ccm.AllowCommand(role.Name, missing))
	}
	if len(gap.Denied) > 0 {
		text = text.And("A Deny statement of the role %s forbids actions that CCM %s calls here: %s.", role.Name, ccm.Newest(), strings.Join(gap.Denied, ", ")).
			And("Remove these actions from the statement before the upgrade.")
	}
	return text
}

// stillFails reports whether the Service still has no load balancer.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	if ccm.NLB(c.Service) {
		return remedy.Yes, nil // there is nothing to compare: a person must check
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
