// Package zoneshortage asks to choose zones in which load balancers are in stock.
package zoneshortage

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed doc.md
var doc string

// Remedy asks: only the owner of a Service can decide on its zones.
var Remedy = &remedy.Remedy{
	Class: "zone-shortage",
	Doc:   doc,
	Codes: []string{
		"OperationFailed.ZoneResourceLimit", "OperationFailed.RegionResourceLimit",
		"PRODUCT.NOT_AVAILABLE_IZ", "PRODUCT.INSUFFICIENT_STOCK", "ResourceNotAvailible.*",
	},
	Texts: []string{
		"resource limit of the specified zone", "resource limit of the specified region", "product stock is insufficient",
		"Instance zone id doesn t support", // without its apostrophe, as the API's description writes it
		"Instance zone id doesn't support", // as the list of its error codes does
	},
	Reads:    append([]grant.Grant{grant.DescribeAvailableResource}, ccm.VPCReads...),
	Sections: []remedy.Section{remedy.VSwitchRules},
	Diagnose: diagnose,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	made, err := c.Made(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if ccm.NLB(c.Service) {
		vpc, err := c.VPC(ctx)
		if err != nil {
			return remedy.Plan{}, err
		}
		return decideNLB(c, vpc, made), nil
	}
	if made != "" {
		return remedy.Plan{
			Finding: say.F("The zones of the load balancer %s have no capacity for the change that the Service asks for: the message is %s.", ccm.Quote(made), c.Said()).
				And("A CLB never changes its zones."),
			Ask: say.F("Restore the annotations of the Service to those of its last successful sync. Its other changes are then made.").
				And("For this change, wait until Alibaba Cloud has capacity there again, or recreate the Service in other zones: its address changes."),
		}, nil
	}
	return diagnoseCLB(ctx, c)
}

// diagnoseCLB reads which zones have stock for the CLB that the Service asks for.
func diagnoseCLB(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	kind, wrong := oneOf(c, "address-type", "internet", "intranet")
	version, worse := oneOf(c, "ip-version", "ipv4", "ipv6")
	if len(wrong)+len(worse) > 0 {
		right := ccm.SetCommand(c.Service, "address-type", "internet")
		if len(wrong) == 0 {
			right = ccm.SetCommand(c.Service, "ip-version", "ipv4")
		}
		return remedy.Plan{
			Finding: say.F("Which zones have capacity depends on the kind of load balancer, but the Service does not say which kind it wants.").Then(wrong).Then(worse),
			Ask:     say.F("Correct this first, for example: %s.", right),
		}, nil
	}
	pairs, err := c.Cloud.SLB.Available(ctx, kind, version)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("list zones with stock: %w", err)
	}
	var vpc ccm.VPC // of a private CLB, which is in a vSwitch
	if kind == "intranet" {
		if vpc, err = c.VPC(ctx); err != nil {
			return remedy.Plan{}, err
		}
	}
	return decideCLB(c, kind, version, pairs, vpc), nil
}

// decideCLB asks for other zones, among these pairs that have stock.
func decideCLB(c *remedy.Case, kind, version string, pairs []cloud.ZonePair, vpc ccm.VPC) remedy.Plan {
	master, _ := ccm.Annotation(c.Service, ccm.MasterZone)
	slave, _ := ccm.Annotation(c.Service, ccm.SlaveZone)
	p := remedy.Plan{Cause: strings.Trim(master+","+slave, ",")}
	if master == "" && slave == "" {
		p.Finding = say.F("The Service names no zones, and Alibaba Cloud chose them.")
	}
	if master != "" {
		p.Finding = p.Finding.And("The Service asks for the primary zone %s.", ccm.Quote(master))
	}
	if slave != "" {
		p.Finding = p.Finding.And("The Service asks for the standby zone %s.", ccm.Quote(slave))
	}
	p.Finding = p.Finding.And("The zones have no capacity for its CLB (%s, %s): the message is %s.", kind, version, c.Said())
	others := slices.DeleteFunc(pairs, func(z cloud.ZonePair) bool { return z.Zone == master && (z.SlaveZone == slave || slave == "") })
	if len(others) < len(pairs) {
		p.Finding = p.Finding.And("The list of zones with stock still contains them. The shortage may concern one specification only, or may have just ended.")
	}
	if len(others) == 0 {
		p.Finding = p.Finding.And("No other zones of the region %s have stock.", c.Cloud.Region())
		p.Ask = say.F("Wait until Alibaba Cloud has capacity again, or ask Alibaba Cloud when it will.").
			And("Or use an NLB, which has other zones: a Service with spec.loadBalancerClass: alibabacloud.com/nlb.")
		return p
	}
	to := others[0]
	var own say.Text
	if kind == "intranet" {
		if i := slices.IndexFunc(others, func(z cloud.ZonePair) bool { _, ok := c.BestVSwitch(vpc, z.Zone, "", true); return ok }); i >= 0 {
			to = others[i]
		}
		own = say.F("The cluster's own vSwitches: %s.", vpc.DescribeOwn())
	}
	p.Ask = say.F("Choose zones that have stock (primary/standby): %s.", describe(others)).
		And("For example: %s.", ccm.ZonesCommand(c.Service, to)).
		And("Traffic from Pods in other zones then crosses zones.").Then(own)
	return p
}

// decideNLB asks for other zones of an NLB, among those with vSwitches of the cluster. An existing NLB
// can change its zones.
func decideNLB(c *remedy.Case, vpc ccm.VPC, made string) remedy.Plan {
	value, _ := ccm.Annotation(c.Service, ccm.ZoneMap)
	var used []string
	parts, _ := ccm.Zones(value)
	for _, z := range parts {
		used = append(used, z.Name)
	}
	slices.Sort(used)
	used = slices.Compact(used)
	names := slices.DeleteFunc(slices.Clone(used), func(s string) bool { return s == "" || len(s) > 64 }) // no names of zones
	p := remedy.Plan{
		Finding: say.F("A zone of the zone map %s has no capacity for the NLB: the message is %s.", ccm.Quote(value), c.Said()),
		Cause:   strings.Join(names[:min(len(names), 8)], ","),
	}
	if made != "" {
		p.Finding = say.F("A zone of the zone map %s has no capacity for the NLB %s: the message is %s.", ccm.Quote(value), ccm.Quote(made), c.Said())
	}
	var list []say.Text
	var pairs []string // the best vSwitch of each zone that is not in the map
	for _, zone := range vpc.Zones() {
		if best, ok := c.BestVSwitch(vpc, zone, "", true); ok && !slices.Contains(used, zone) {
			list, pairs = append(list, ccm.DescribeVSwitch(best)), append(pairs, best.Zone+":"+best.ID)
		}
	}
	if len(pairs) == 0 {
		p.Finding = p.Finding.And("The cluster has no vSwitch with enough free addresses in another zone. Its own vSwitches: %s.", vpc.DescribeOwn())
		p.Ask = say.F("Add a vSwitch in another zone to the VPC and to the cluster, and name it in the annotation zone-maps.").
			And("Or wait until Alibaba Cloud has capacity again.")
		return p
	}
	p.Ask = say.F("Name other zones in the annotation zone-maps. The cluster has vSwitches in other zones: %s.", say.Items(list, 5))
	if len(pairs) == 1 {
		p.Ask = p.Ask.And("For example, with the pair of the map that has capacity as the second: %s.",
			ccm.SetCommand(c.Service, ccm.ZoneMap, pairs[0]+",ZONE:VSWITCH"))
	} else {
		p.Ask = p.Ask.And("For example: %s.", ccm.SetCommand(c.Service, ccm.ZoneMap, pairs[0]+","+pairs[1]))
	}
	p.Ask = p.Ask.And("An NLB needs two zones to survive the loss of one.")
	if made != "" {
		p.Ask = p.Ask.And("Its host name does not change, but the addresses behind it change with the zones.")
	}
	return p
}

// oneOf returns the value of an annotation that has two valid ones, of which the first is the
// default. For any other value it returns what is wrong.
func oneOf(c *remedy.Case, short, usual, other string) (string, say.Text) {
	value, _ := ccm.Annotation(c.Service, short)
	switch value {
	case "":
		return usual, nil
	case usual, other:
		return value, nil
	}
	return "", say.F("The annotation %s is %s, but must be %s or %s.", short, ccm.Quote(value), usual, other)
}

// describe lists pairs of a primary and a standby zone.
func describe(pairs []cloud.ZonePair) say.Text {
	var list []string
	for _, z := range pairs {
		list = append(list, strings.TrimSuffix(z.Zone+"/"+z.SlaveZone, "/"))
	}
	return say.List(list, 6)
}
