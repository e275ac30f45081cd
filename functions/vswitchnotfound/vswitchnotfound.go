// Package vswitchnotfound remedies Services whose vSwitch does not exist.
package vswitchnotfound

import (
	_ "embed"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy names an existing vSwitch: one with room if nobody named one, else one in the same zone, or in any zone if the policy allows that.
var Remedy = &remedy.Remedy{
	Class: "vswitch-not-found",
	Doc:   doc,
	Codes: []string{"VSwitchNotExist", "InvalidVSwitchId.NotFound", "ResourceNotFound.VSwitch"},
	Texts: []string{"specified VSwitch does not exist.", "specified vSwitch instance is invalid", "resource of vSwitch is not found",
		"vpc subnet is not exist", "no vswitches found"},
	Reads:       ccm.VPCReads,
	Steps:       []remedy.Step{step.Annotate{}},
	Risks:       []remedy.Risk{remedy.Low, remedy.Medium},
	Annotations: []string{ccm.VSwitchID, ccm.ZoneMap},
	Diagnose:    remedy.OfVSwitches(decideCLB, decideNLB),
	StillFails:  remedy.VSwitchesMissing,
}

func decideCLB(c *remedy.Case, vpc ccm.VPC, made string) remedy.Plan {
	id, _ := ccm.Annotation(c.Service, ccm.VSwitchID)
	p := remedy.Plan{Finding: vpc.Lacks(ccm.VSwitchID, id), Cause: ccm.CutID(id)}
	if id == "" {
		p.Finding, p.Cause = vpc.LacksDefault(c.Event.Message), vpc.OwnIDs()
	}
	r, near := c.Replace(vpc, ccm.Zone{VSwitch: id}, false), remedy.Replacement{}
	if zone := vpc.MeantZone(c.Service); zone != "" {
		near = c.Replace(vpc, ccm.Zone{Name: zone, VSwitch: id}, true)
	}
	address, _ := ccm.Annotation(c.Service, "ip")
	allowed := c.Policy.VSwitches.ReplaceMissing
	switch {
	case made != "":
		return remedy.Plan{
			Finding: say.F("The load balancer %s exists, but the controller asks for a vSwitch that does not exist.", made),
			Ask: say.F("Check the controller's log for what it tries to create: %s.", c.LogQuery()).
				And("A load balancer never changes its vSwitch: the annotation %svswitch-id only applies to a new one.", ccm.Prefix),
		}
	case vpc.Has(id):
		return remedy.Plan{Finding: say.F("The annotation vswitch-id names %s, which now exists in %s.", id, vpc.All[id].Zone), Wait: ccm.Retry}
	case r.To.ID == "":
		p.Ask = say.F("Add a vSwitch to the VPC %s and to the cluster, or free addresses, or allow another vSwitch of the VPC in the policy file.", vpc.ID).
			And("Then name it: %s.", ccm.SetCommand(c.Service, ccm.VSwitchID, "VSWITCH"))
		if len(r.Held) > 0 {
			p.Finding, p.Wait = p.Finding.Then(r.Held), ccm.AddressLag
		} else {
			p.Finding = p.Finding.And("No allowed vSwitch has more free addresses than the reserve.")
		}
		return p
	case id == "":
		p.Note = ccm.UntilDefault(c.Event.Message)
	case address != "":
		p.Finding = p.Finding.And("The annotation ip asks for the address %s, which was to lie in it.", ccm.Quote(address))
		p.Ask = say.F("Name an existing vSwitch, with an address that belongs to it or without an address. The cluster's own vSwitches: %s.", vpc.DescribeOwn())
		return p
	case !allowed && near.To.ID == "" && len(near.Held) > 0:
		p.Finding, p.Wait = p.Finding.Then(near.Held), ccm.AddressLag
		return p
	case !allowed && near.To.ID == "":
		p.Ask = say.F("Name a vSwitch of the VPC %s. The cluster's own vSwitches: %s.", vpc.ID, vpc.DescribeOwn()).
			And("For example, to use %s: %s.", r.To.ID, ccm.SetCommand(c.Service, ccm.VSwitchID, r.To.ID)).
			And("lbremedy does this automatically if vswitches.replaceMissing is set in the policy file.")
		return p
	case !allowed:
		p.Finding, p.Risk, p.Note, r = p.Finding.And("In the zone that it was for: %s.", ccm.DescribeVSwitch(near.To)), remedy.Medium, remedy.OtherBlock(), near
	default:
		p.Finding = p.Finding.And("The best of the allowed vSwitches: %s.", ccm.DescribeVSwitch(r.To))
	}
	p.Steps = []remedy.Step{step.With(c.Service, ccm.VSwitchID, r.To.ID)}
	p.Claims = []remedy.Claim{c.PlaceIn(r.To)}
	return p
}

func decideNLB(c *remedy.Case, vpc ccm.VPC, made string, zones []ccm.Zone) remedy.Plan {
	replaced, written, claims := c.Rezone(vpc, zones, func(z ccm.Zone) bool { return !vpc.Has(z.VSwitch) })
	p := remedy.Plan{Finding: vpc.LacksAll(ccm.ZoneMap, replaced.IDs()), Cause: replaced.Cause()}
	switch held, full := replaced.Lack(); {
	case len(replaced) == 0:
		value, _ := ccm.Annotation(c.Service, ccm.ZoneMap)
		return remedy.Plan{Finding: say.F("Every vSwitch of the zone map %s exists now.", ccm.Quote(value)), Wait: ccm.Retry}
	case made != "":
		p.Finding = p.Finding.And("The NLB %s exists, and a change of its zones moves traffic.", made)
		p.Ask = say.F("Name existing vSwitches in the annotation %szone-maps, one for each zone of the NLB.", ccm.Prefix)
	case replaced.Bind():
		p.Finding = p.Finding.And("The zone map asks for an address in a missing vSwitch.")
		p.Ask = say.F("Name an existing vSwitch, with an address that belongs to it or without an address.")
	case len(held) > 0:
		p.Finding, p.Wait = p.Finding.Then(held), ccm.AddressLag
		return p
	case full:
		p.Finding = p.Finding.And("No vSwitch of the same zone has more free addresses than the reserve.")
		p.Ask = say.F("In the annotation %szone-maps, name another vSwitch of that zone or another zone. Or add a vSwitch to the zone.", ccm.Prefix)
	default:
		if !c.Policy.VSwitches.ReplaceMissing {
			p.Risk, p.Note = remedy.Medium, remedy.OtherBlock()
		}
		p.Finding = p.Finding.And("Replacements in the same zones: %s.", replaced.Text())
		p.Steps = []remedy.Step{step.With(c.Service, ccm.ZoneMap, written)}
		p.Claims = claims
		return p
	}
	p.Ask = p.Ask.And("The cluster's own vSwitches: %s.", vpc.DescribeOwn())
	return p
}
