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

// Short names of the annotations that decide where a load balancer is created. Only zone-maps has an
// effect afterwards.
const (
	masterZone = "master-zoneid"
	slaveZone  = "slave-zoneid"
	zoneMaps   = "zone-maps"
)

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	made, err := c.Made(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if ccm.NLB(c.Service) {
		return network(ctx, c, made)
	}
	if made != "" {
		return remedy.Plan{
			Finding: say.F("The zones of the load balancer %s have no capacity for the change that the Service asks for: the message is %s.", ccm.Quote(made), c.Said()).
				And("A CLB never changes its zones."),
			Ask: say.F("Restore the annotations of the Service to those of its last successful sync. Its other changes are then made.").
				And("For this change, wait until Alibaba Cloud has capacity there again, or recreate the Service in other zones: its address changes."),
		}, nil
	}
	return classic(ctx, c)
}

// classic asks for other zones of a CLB, among those with stock.
func classic(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
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
	master, _ := ccm.Annotation(c.Service, masterZone)
	slave, _ := ccm.Annotation(c.Service, slaveZone)
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
		return p, nil
	}
	to := others[0]
	var own say.Text
	if kind == "intranet" {
		vpc, err := c.VPC(ctx)
		if err != nil {
			return remedy.Plan{}, err
		}
		if i := slices.IndexFunc(others, func(z cloud.ZonePair) bool { _, ok := c.BestVSwitch(vpc, z.Zone, "", true); return ok }); i >= 0 {
			to = others[i]
		}
		own = say.F("The cluster's own vSwitches: %s.", vpc.DescribeOwn())
	}
	p.Ask = say.F("Choose zones that have stock (primary/standby): %s.", describe(others)).
		And("For example: %s.", command(c, to)).
		And("Traffic from Pods in other zones then crosses zones.").Then(own)
	return p, nil
}

// network asks for other zones of an NLB, among those with vSwitches of the cluster. An existing NLB
// can change its zones.
func network(ctx context.Context, c *remedy.Case, made string) (remedy.Plan, error) {
	vpc, err := c.VPC(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	value, _ := ccm.Annotation(c.Service, zoneMaps)
	used := map[string]bool{}
	for part := range strings.SplitSeq(value, ",") {
		zone, _, _ := strings.Cut(strings.TrimSpace(part), ":")
		used[zone] = true
	}
	p := remedy.Plan{
		Finding: say.F("A zone of the zone map %s has no capacity for the NLB: the message is %s.", ccm.Quote(value), c.Said()),
		Cause:   causeOf(used),
	}
	if made != "" {
		p.Finding = say.F("A zone of the zone map %s has no capacity for the NLB %s: the message is %s.", ccm.Quote(value), ccm.Quote(made), c.Said())
	}
	var list []say.Text
	var pairs []string // the best vSwitch of each zone that is not in the map
	for _, zone := range zonesOf(vpc) {
		if best, ok := c.BestVSwitch(vpc, zone, "", true); ok && !used[zone] {
			list, pairs = append(list, ccm.DescribeVSwitch(best)), append(pairs, best.Zone+":"+best.ID)
		}
	}
	if len(pairs) == 0 {
		p.Finding = p.Finding.And("The cluster has no vSwitch with enough free addresses in another zone. Its own vSwitches: %s.", vpc.DescribeOwn())
		p.Ask = say.F("Add a vSwitch in another zone to the VPC and to the cluster, and name it in the annotation zone-maps.").
			And("Or wait until Alibaba Cloud has capacity again.")
		return p, nil
	}
	p.Ask = say.F("Name other zones in the annotation zone-maps. The cluster has vSwitches in other zones: %s.", say.Items(list, 5))
	if len(pairs) == 1 {
		p.Ask = p.Ask.And("For example, with the pair of the map that has capacity as the second: %s.", ccm.SetCommand(c.Service, zoneMaps, pairs[0]+",ZONE:VSWITCH"))
	} else {
		p.Ask = p.Ask.And("For example: %s.", ccm.SetCommand(c.Service, zoneMaps, pairs[0]+","+pairs[1]))
	}
	p.Ask = p.Ask.And("An NLB needs two zones to survive the loss of one.")
	if made != "" {
		p.Ask = p.Ask.And("Its host name does not change, but the addresses behind it change with the zones.")
	}
	return p, nil
}
