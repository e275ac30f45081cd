// Package zoneshortage moves a load balancer that is not yet created to zones with stock, or asks for such zones.
package zoneshortage

import (
	"context"
	_ "embed"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy names zones with stock if the cluster is in them. It asks for other zones, and for those of an NLB, whose stock no API lists.
var Remedy = &remedy.Remedy{
	Class: "zone-shortage",
	Doc:   doc,
	Codes: []string{
		"OperationFailed.ZoneResourceLimit", "OperationFailed.RegionResourceLimit",
		"PRODUCT.NOT_AVAILABLE_IZ", "PRODUCT.INSUFFICIENT_STOCK",
	},
	Texts: []string{
		"resource limit of the specified zone", "resource limit of the specified region", "product stock is insufficient",
		"Instance zone id doesn t support", // without the apostrophe, as in the API's description
		"Instance zone id doesn't support", // as in the API's list of error codes
	},
	Reads:       ccm.PlaceReads,
	Steps:       []remedy.Step{step.Annotate{}},
	Risks:       []remedy.Risk{remedy.Medium},
	Creates:     true,
	Annotations: []string{ccm.MasterZone, ccm.SlaveZone, ccm.VSwitchID},
	Diagnose:    diagnose,
	StillFails:  stillFails,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	made, err := c.Made(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	network := ccm.NLB(c.Service)
	if made != "" && !network {
		return remedy.Plan{
			Finding: say.F("The zones of the load balancer %s have no capacity for the change that the Service asks for: the message is %s.", ccm.Quote(made), c.Said()).
				And("A CLB never changes its zones."),
			Ask: say.F("Restore the annotations of the Service to those of its last successful sync. Its other changes are then made.").
				And("For this change, wait until Alibaba Cloud has capacity there again, or recreate the Service in other zones: its address changes."),
		}, nil
	}
	places, err := c.Places(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if network {
		return decideNLB(c, places.VPC, made), nil
	}
	if !places.Private() && len(places.Others) > 0 && !places.InStock {
		if places.VPC, err = c.VPC(ctx); err != nil {
			return remedy.Plan{}, err
		}
	}
	return decideCLB(c, places), nil
}

func decideCLB(c *remedy.Case, places ccm.Places) remedy.Plan {
	if len(places.Wrong) > 0 {
		return remedy.Plan{
			Finding: say.F("Which zones have capacity depends on the kind of load balancer, but the Service does not say which kind it wants.").Then(places.Wrong),
			Ask:     say.F("Correct this first, for example: %s.", places.Correct),
		}
	}
	finding := places.DescribeAsked().
		And("The zones have no capacity for its CLB (%s, %s): the message is %s.", places.AddressType, places.IPVersion, c.Said())
	if places.InStock {
		finding = finding.And("The list of zones with stock still contains them. The shortage may concern one specification only, or may have just ended.")
	}
	p := remedy.Plan{Finding: finding, Cause: strings.Trim(places.Asked.Zone+","+places.Asked.SlaveZone, ",")}
	if len(places.Others) == 0 {
		p.Finding = finding.And("No other zones of the region %s have stock.", c.Cloud.Region())
		p.Ask = say.F("Wait until Alibaba Cloud has capacity again, or ask Alibaba Cloud when it will.").
			And("Or use an NLB, which has other zones: a Service with spec.loadBalancerClass: alibabacloud.com/nlb.")
		return p
	}
	if to, ok := choose(c, places); ok && !places.InStock {
		return move(c, p, places, to)
	}
	if held := held(c, places); len(held) > 0 && !places.InStock {
		p.Finding, p.Wait = p.Finding.Then(held), ccm.AddressLag
		return p
	}
	p.Ask = say.F("Choose zones that have stock (primary/standby): %s.", ccm.DescribeZonePairs(places.Others)).
		And("For example: %s.", ccm.ZonesCommand(c.Service, c.BestZones(places.VPC, places.Others))).
		And("Traffic from Pods in other zones then crosses zones.")
	if places.Private() {
		p.Ask = p.Ask.And("The cluster's own vSwitches: %s.", places.VPC.DescribeOwn())
		if ip, _ := ccm.Annotation(c.Service, address); ip != "" {
			p.Ask = p.Ask.And("The annotation ip asks for the address %s, which lies in one vSwitch.", ccm.Quote(ip)).
				And("Name a vSwitch of the primary zone and an address in it, or let the cloud choose an address: %s.", ccm.RemoveCommand(c.Service, address))
		}
	}
	return p
}

// decideNLB asks for zones with the cluster's vSwitches. An existing NLB can change its zones.
func decideNLB(c *remedy.Case, vpc ccm.VPC, made string) remedy.Plan {
	value, _ := ccm.Annotation(c.Service, ccm.ZoneMap)
	used := ccm.ZoneNames(value)
	p := remedy.Plan{
		Finding: say.F("A zone of the zone map %s has no capacity for the NLB: the message is %s.", ccm.Quote(value), c.Said()),
		Cause:   strings.Join(used[:min(len(used), 8)], ","),
	}
	var change say.Text
	if made != "" {
		p.Finding = say.F("A zone of the zone map %s has no capacity for the NLB %s: the message is %s.", ccm.Quote(value), ccm.Quote(made), c.Said())
		change = say.F("Its host name does not change, but the addresses behind it change with the zones.")
	}
	others := c.BestVSwitches(vpc, used)
	if len(others) == 0 {
		p.Finding = p.Finding.And("The cluster has no vSwitch with enough free addresses in another zone. Its own vSwitches: %s.", vpc.DescribeOwn())
		p.Ask = say.F("Add a vSwitch in another zone to the VPC and to the cluster, and name it in the annotation zone-maps.").
			And("Or wait until Alibaba Cloud has capacity again.")
		return p
	}
	example := say.F("For example: %s.", ccm.ZoneMapCommand(c.Service, others))
	if len(others) == 1 {
		example = say.F("For example, keep the pair whose zone has capacity as the second one: %s.", ccm.ZoneMapCommand(c.Service, others))
	}
	p.Ask = say.F("Name other zones in the annotation zone-maps. The cluster has vSwitches in other zones: %s.", ccm.DescribeVSwitches(others, 5)).
		Then(example).And("An NLB needs two zones to survive the loss of one.").Then(change)
	return p
}
