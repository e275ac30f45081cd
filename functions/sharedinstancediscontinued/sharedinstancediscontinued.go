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
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy requests a CLB that is billed by LCU, which is sold, or asks for a newer controller.
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
	Annotations: []string{chargeType, spec},
	Scope:       remedy.Cluster,
	Diagnose:    diagnose,
	StillFails:  holds,
}

// Short names of the annotations for the charge type of a CLB, and for its spec if it
// is billed by spec.
const (
	chargeType = "instance-charge-type"
	spec       = "spec"
	byLCU      = "PayByCLCU"
)

// retry is the time by which the controller has retried.
const retry = time.Minute

// chooses is the first release of the controller that reads the charge type, and
// charges the first that asks for PayByCLCU by itself.
var (
	chooses = ccm.Version{Major: 2, Minor: 4}
	charges = ccm.Version{Major: 2, Minor: 12, Patch: 1}
)

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	name := c.Service.Namespace + "/" + c.Service.Name
	if ccm.NLB(c.Service) {
		p := remedy.WrongController("The event is about the making of a CLB, and the Service " + name + " is served by an NLB, of which there is one kind.")
		p.Cause = name
		return p, nil
	}
	none, err := c.None(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if !none {
		return remedy.Plan{
			Finding: "Alibaba Cloud no longer sells shared-resource CLBs, and refused to make one for the Service " + name + ", which has a load balancer by its tag, its name, its address or the annotation id.",
			Cause:   name,
			Ask:     "Look up in the controller's log why it wants to make another one: " + c.LogQuery() + ".",
		}, nil
	}
	ctl, err := c.Controller(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	const finding = "Alibaba Cloud no longer sells shared-resource CLBs, and the Service asks for one:"
	if want, _ := ccm.Annotation(c.Service, chargeType); want == byLCU && !ctl.Version.Before(chooses) {
		return remedy.Plan{
			Finding: fmt.Sprintf("%s that was so when the event was written. By now its annotation %s is %s, which CCM %s understands.", finding, chargeType, byLCU, ctl.Version),
			Wait:    retry,
			Ask:     "If the controller still can't make a CLB, look up in its log what it asks for: " + c.LogQuery() + ".",
		}, nil
	}
	if ctl.Version.Before(chooses) {
		return upgrade(ctx, c, ctl, finding)
	}
	edits := []step.Edit{step.With(c.Service, chargeType, byLCU)}
	asks := "it names no charge type"
	if want, ok := ccm.Annotation(c.Service, chargeType); ok {
		asks = fmt.Sprintf("its annotation %s is %s", chargeType, ccm.Quote(want))
	}
	if want, ok := ccm.Annotation(c.Service, spec); ok {
		edits = append(edits, step.Without(c.Service, spec))
		asks += fmt.Sprintf(", and its annotation %s is %s", spec, ccm.Quote(want))
	}
	return remedy.Plan{
		Finding: fmt.Sprintf("%s %s. CCM %s can ask for one that pays by LCU.", finding, asks, ctl.Version),
		Cause:   "shared-resource CLB",
		Risk:    remedy.Medium,
		Note:    fmt.Sprintf("A CLB that pays by LCU costs by what it carries, and can never pay by spec. CCM %s and newer ask for one by themselves.", charges),
		Steps:   []remedy.Step{step.Together(edits...)},
	}, nil
}

// upgrade asks for a controller that can request what is sold, and names what the new
// one needs and what its first syncs overwrite.
func upgrade(ctx context.Context, c *remedy.Case, ctl ccm.Controller, finding string) (remedy.Plan, error) {
	if ctl.Version == (ccm.Version{}) {
		return remedy.Plan{
			Finding: finding + " the version of the controller can't be told, neither from its DaemonSet nor from the list of add-ons, so that what it can ask for is not known.",
			Cause:   "CCM of unknown version",
			Ask: fmt.Sprintf("Find out the version of the controller. From %s on: %s, which costs by LCU. If it is older, upgrade it to %s or newer.",
				chooses, ccm.SetCommand(c.Service, chargeType, byLCU), charges),
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
	newest := ccm.Newest()
	rights := "The service roles of ACK, under which it runs in a managed cluster, get what it needs from Alibaba Cloud; if the console asks to authorise them again, do so first."
	if !cluster.Managed() {
		role, err := c.MasterRole(ctx)
		if err != nil {
			return remedy.Plan{}, err
		}
		rights = lacks(role, ctl.Version, ccm.Needs(newest, ccm.InUse(cluster, services)), ccm.Gains(ctl.Version, newest, ccm.InUse(cluster, services)))
	}
	return remedy.Plan{
		Finding: fmt.Sprintf("%s CCM %s asks for nothing else, and only CCM %s or newer can ask for one that pays by LCU.", finding, ctl.Version, chooses),
		Cause:   "CCM " + ctl.Version.String(),
		Ask: fmt.Sprintf("Upgrade the add-on cloud-controller-manager of the cluster %s, in the ACK console under Operations, Add-ons: to %s or newer, which makes CLBs that pay by LCU; from %s on, a Service can ask for one by %s%s=%s. %s",
			cluster.ID, charges, chooses, ccm.Prefix, chargeType, byLCU, rights),
		Note: fmt.Sprintf("An upgrade over %s syncs every Service in full once, which puts changes made in the console back. %s", ccm.Rehashed(), drift),
	}, nil
}

// lacks says, as sentences, which actions a role lacks of those that the newest
// controller calls here; gains are those that the one which runs does not call.
func lacks(role ccm.Role, runs ccm.Version, needs, gains []string) string {
	if role.Name == "" {
		return fmt.Sprintf("The cluster names no RAM role of its masters: before that, see to it that the role under which the controller runs allows what CCM %s calls and %s does not: %s.", ccm.Newest(), runs, strings.Join(gains, ", "))
	}
	gap := role.Lacks(needs)
	if len(gap.Missing) == 0 {
		return fmt.Sprintf("The masters' RAM role %s allows all that CCM %s calls here.", role.Name, ccm.Newest())
	}
	denied := gap.Denied
	missing := slices.DeleteFunc(gap.Missing, func(action string) bool { return slices.Contains(denied, action) })
	var parts []string
	if len(missing) > 0 {
		parts = append(parts, fmt.Sprintf("Before that, give the masters' RAM role %s the %s that CCM %s calls here and it lacks: %s.", role.Name, ccm.Count(len(missing), "action"), ccm.Newest(), ccm.AllowCommand(role.Name, missing)))
	}
	if len(denied) > 0 {
		parts = append(parts, fmt.Sprintf("A Deny statement forbids %s %s, which CCM %s calls here: take it out of the statement before that.", role.Name, strings.Join(denied, ", "), ccm.Newest()))
	}
	return strings.Join(parts, " ")
}

// holds reports whether the Service still has no load balancer.
func holds(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	if ccm.NLB(c.Service) {
		return remedy.Yes, nil // there is nothing to compare: a person looks
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
