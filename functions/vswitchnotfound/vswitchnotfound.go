// Package vswitchnotfound remedies Services whose vSwitch does not exist.
package vswitchnotfound

import (
	"context"
	_ "embed"
	"slices"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy asks for an existing vSwitch. It chooses one if nobody named a vSwitch, or if the policy
// allows it.
var Remedy = &remedy.Remedy{
	Class: "vswitch-not-found",
	Doc:   doc,
	Codes: []string{"VSwitchNotExist", "InvalidVSwitchId.NotFound", "ResourceNotFound.VSwitch"},
	Texts: []string{
		"specified VSwitch does not exist.",
		"specified vSwitch instance is invalid",
		"resource of vSwitch is not found",
		"vpc subnet is not exist",
	},
	Reads:       ccm.VPCReads,
	Steps:       []remedy.Step{step.Annotate{}},
	Annotations: []string{ccm.VSwitchID, ccm.ZoneMap},
	Sections:    []remedy.Section{remedy.VSwitchRules},
	Diagnose:    diagnose,
	StillFails:  stillFails,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	exists, err := c.Made(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	vpc, err := c.VPC(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if ccm.NLB(c.Service) {
		return decideNLB(c, vpc, exists), nil
	}
	if exists != "" {
		return remedy.Plan{
			Finding: say.F("The load balancer %s exists, but the controller asks for a vSwitch that does not exist.", exists),
			Ask: say.F("Check the controller's log for what it tries to create: %s.", c.LogQuery()).
				And("A load balancer never changes its vSwitch: the annotation %svswitch-id only applies to a new one.", ccm.Prefix),
		}, nil
	}
	id, _ := ccm.Annotation(c.Service, ccm.VSwitchID)
	if now, ok := vpc.All[id]; ok {
		return remedy.Plan{
			Finding: say.F("The annotation vswitch-id names %s, which now exists in %s.", id, now.Zone),
			Wait:    ccm.Retry,
		}, nil
	}
	return decideCLB(c, vpc, id), nil
}

// decideCLB plans for a new CLB whose vSwitch does not exist: the one with the ID, or without an ID
// the one that the controller uses by default.
func decideCLB(c *remedy.Case, vpc ccm.VPC, id string) remedy.Plan {
	p := remedy.Plan{
		Finding: vpc.Lacks(ccm.VSwitchID, id),
		Cause:   ccm.CutID(id),
	}
	if id == "" {
		p.Finding = say.F("The Service names no vSwitch, and the controller's default vSwitch does not exist.").
			And("The cluster's own vSwitches: %s.", vpc.DescribeOwn())
		p.Cause = vpc.OwnIDs()
	}
	to, ok := c.BestVSwitch(vpc, "", id, false)
	held := c.HeldVSwitches(vpc, "", id, false)
	switch {
	case !ok:
		p.Ask = say.F("Add a vSwitch to the VPC %s and to the cluster, or free addresses, or allow another vSwitch of the VPC in the policy file.", vpc.ID).
			And("Then name it: %s.", ccm.SetCommand(c.Service, ccm.VSwitchID, "VSWITCH"))
		if len(held) > 0 {
			p.Finding, p.Wait = p.Finding.Then(held), ccm.AddressLag
		} else {
			p.Finding = p.Finding.And("No allowed vSwitch has more free addresses than the reserve.")
		}
		return p
	case id == "":
		p.Note = say.F("The controller's configuration still names the missing vSwitch. Until it is corrected, other new Services fail in the same way.")
	case !remedy.VSwitchRules.Of(c.Policy).ReplaceMissing:
		p.Ask = say.F("Name a vSwitch of the VPC %s. The cluster's own vSwitches: %s.", vpc.ID, vpc.DescribeOwn()).
			And("For example, to use %s: %s.", to.ID, ccm.SetCommand(c.Service, ccm.VSwitchID, to.ID)).
			And("lbremedy does this automatically if vswitches.replaceMissing is set in the policy file.")
		return p
	default:
		p.Finding = p.Finding.And("The best of the allowed vSwitches: %s.", ccm.DescribeVSwitch(to))
	}
	p.Steps = []remedy.Step{step.With(c.Service, ccm.VSwitchID, to.ID)}
	p.Claims = []remedy.Claim{c.PlaceIn(to)}
	return p
}

// decideNLB plans for a zone map that names a vSwitch which does not exist.
func decideNLB(c *remedy.Case, vpc ccm.VPC, exists string) remedy.Plan {
	value, _ := ccm.Annotation(c.Service, ccm.ZoneMap)
	zones, whole := ccm.Zones(value)
	if !whole {
		return c.Malformed(value)
	}
	replaced, written, claims := c.Rezone(vpc, zones, func(z ccm.Zone) bool { _, ok := vpc.All[z.VSwitch]; return !ok })
	if len(replaced) == 0 {
		return remedy.Plan{
			Finding: say.F("Every vSwitch of the zone map %s exists now.", ccm.Quote(value)),
			Wait:    ccm.Retry,
		}
	}
	var gone, quoted []string
	var found []say.Text
	var held say.Text
	bound, full := false, false
	for _, r := range replaced {
		gone, quoted = append(gone, ccm.CutID(r.For.VSwitch)), append(quoted, ccm.Quote(r.For.VSwitch))
		bound = bound || r.For.Binds()
		if r.To.ID == "" {
			full, held = true, r.Held
		} else {
			found = append(found, ccm.DescribeVSwitch(r.To))
		}
	}
	p := remedy.Plan{
		Finding: say.F("The annotation zone-maps names vSwitches that the cluster's VPC %s does not have: %s.", vpc.ID, say.List(quoted, 5)),
		Cause:   remedy.List(gone, 5),
	}
	switch {
	case exists != "":
		p.Finding = p.Finding.And("The NLB %s exists, and a change of its zones moves traffic.", exists)
		p.Ask = say.F("Name existing vSwitches in the annotation %szone-maps, one for each zone of the NLB.", ccm.Prefix)
	case bound:
		p.Finding = p.Finding.And("The zone map asks for an address in a missing vSwitch.")
		p.Ask = say.F("Name an existing vSwitch, with an address that belongs to it or without an address.")
	case full && len(held) > 0:
		p.Finding, p.Wait = p.Finding.Then(held), ccm.AddressLag
		return p
	case full:
		p.Finding = p.Finding.And("No vSwitch of the same zone has more free addresses than the reserve.")
		p.Ask = say.F("In the annotation %szone-maps, name another vSwitch of that zone or another zone. Or add a vSwitch to the zone.", ccm.Prefix)
	case !remedy.VSwitchRules.Of(c.Policy).ReplaceMissing:
		p.Ask = say.F("Name existing vSwitches.").
			And("The most similar zone map: %s.", ccm.SetCommand(c.Service, ccm.ZoneMap, written)).
			And("lbremedy sets it automatically if vswitches.replaceMissing is set in the policy file.")
	default:
		p.Finding = p.Finding.And("Replacements in the same zones: %s.", say.Items(found, len(found)))
		p.Steps = []remedy.Step{step.With(c.Service, ccm.ZoneMap, written)}
		p.Claims = claims
		return p
	}
	p.Ask = p.Ask.And("The cluster's own vSwitches: %s.", vpc.DescribeOwn())
	return p
}

// stillFails reports whether the Service still asks for a vSwitch that does not exist. The controller's
// default cannot be read: there only a successful sync is evidence, and the engine has already checked
// for one.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	if c.Written() && ccm.Synced(c.Service) {
		return remedy.No, nil
	}
	vpc, err := c.VPC(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	asked, whole := ccm.AskedVSwitches(c.Service)
	gone := slices.ContainsFunc(asked, func(id string) bool { _, ok := vpc.All[id]; return !ok })
	return remedy.Is(gone || !whole || len(asked) == 0), nil
}
