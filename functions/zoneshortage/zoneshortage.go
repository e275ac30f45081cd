// Package zoneshortage asks to choose zones in which load balancers are in stock.
package zoneshortage

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

//go:embed doc.md
var doc string

// Remedy asks: the owner of a Service decides which zones it may be in.
var Remedy = &remedy.Remedy{
	Class: "zone-shortage",
	Doc:   doc,
	Codes: []string{
		"OperationFailed.ZoneResourceLimit", "OperationFailed.RegionResourceLimit", "PRODUCT.NOT_AVAILABLE_IZ", "PRODUCT.INSUFFICIENT_STOCK", "ResourceNotAvailible.*",
	},
	Texts: []string{
		"resource limit of the specified zone", "resource limit of the specified region", "product stock is insufficient",
		"Instance zone id doesn t support", // without its apostrophe, as the API's description writes it
		"Instance zone id doesn't support", // as the list of its error codes does
	},
	Reads:    append([]grant.Grant{grant.DescribeAvailableResource}, ccm.VPCReads...),
	Diagnose: diagnose,
}

// Short names of the annotations that choose the zones of a load balancer.
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
			Finding: fmt.Sprintf("The zones of the load balancer %s have no room for the change that the Service asks for: the message is %s. A CLB keeps its zones for life.", ccm.Quote(made), c.Said()),
			Ask: "Put the annotations of the Service back to what was there when it synced last, so that its other changes are made. " +
				"For the change itself wait until Alibaba Cloud has room there again, or create the Service again in other zones: its address changes then.",
		}, nil
	}
	return classic(ctx, c)
}

// classic asks to choose other zones for a CLB, among those with stock.
func classic(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	kind, bad := oneOf(c, "address-type", "internet", "intranet")
	version, worse := oneOf(c, "ip-version", "ipv4", "ipv6")
	if bad+worse != "" {
		right := ccm.SetCommand(c.Service, "address-type", "internet")
		if bad == "" {
			right = ccm.SetCommand(c.Service, "ip-version", "ipv4")
		}
		return remedy.Plan{
			Finding: "Which zones have room depends on the kind of load balancer, and the Service does not say which it wants. " + strings.TrimSpace(bad+" "+worse),
			Ask:     fmt.Sprintf("Set that right first, such as: %s.", right),
		}, nil
	}
	pairs, err := c.Cloud.SLB.Available(ctx, kind, version)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("list zones with stock: %w", err)
	}
	master, _ := ccm.Annotation(c.Service, masterZone)
	slave, _ := ccm.Annotation(c.Service, slaveZone)
	asked := "The Service names no zones, and the ones that the cloud chose"
	if master != "" || slave != "" {
		asked = fmt.Sprintf("The zones that the Service asks for (primary %s, standby %s)", ccm.Quote(cmp.Or(master, "any")), ccm.Quote(cmp.Or(slave, "any")))
	}
	p := remedy.Plan{
		Finding: fmt.Sprintf("%s have no room for its CLB (%s, %s): the message is %s.", asked, kind, version, c.Said()),
		Cause:   strings.Trim(master+","+slave, ","),
	}
	others := slices.DeleteFunc(pairs, func(z cloud.ZonePair) bool { return z.Zone == master && (z.SlaveZone == slave || slave == "") })
	if len(others) < len(pairs) {
		p.Finding += " The list of zones with stock still has them, so that the shortage may be of one specification, or just over."
	}
	if len(others) == 0 {
		p.Finding += fmt.Sprintf(" No other zones of the region %s have stock.", c.Cloud.Region())
		p.Ask = "Wait until Alibaba Cloud has room again, ask it when, or use an NLB, which has other zones: a Service with spec.loadBalancerClass: alibabacloud.com/nlb."
		return p, nil
	}
	to, where := others[0], ""
	if kind == "intranet" {
		vpc, err := c.VPC(ctx)
		if err != nil {
			return remedy.Plan{}, err
		}
		if i := slices.IndexFunc(others, func(z cloud.ZonePair) bool { _, ok := c.BestVSwitch(vpc, z.Zone, "", true); return ok }); i >= 0 {
			to = others[i]
		}
		where = fmt.Sprintf(" The cluster's own vSwitches: %s.", vpc.DescribeOwn())
	}
	p.Ask = fmt.Sprintf("Choose zones that have stock: %s. Such as: %s. Traffic from Pods in other zones crosses zones then.%s", describe(others), command(c, to), where)
	return p, nil
}

// network asks to choose other zones for an NLB, among those in which the cluster has
// vSwitches. An existing NLB can change its zones.
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
		Finding: fmt.Sprintf("A zone of the zone map %s has no room for the NLB: the message is %s.", ccm.Quote(value), c.Said()),
		Cause:   zones(used),
	}
	if made != "" {
		p.Finding = fmt.Sprintf("A zone of the zone map %s has no room for the NLB %s: the message is %s.", ccm.Quote(value), ccm.Quote(made), c.Said())
	}
	var other []cloud.VSwitch // the best of each zone that is not in the map
	for _, zone := range zonesOf(vpc) {
		if best, ok := c.BestVSwitch(vpc, zone, "", true); ok && !used[zone] {
			other = append(other, best)
		}
	}
	if len(other) == 0 {
		p.Finding += fmt.Sprintf(" The cluster has no vSwitch with room in another zone: %s.", vpc.DescribeOwn())
		p.Ask = "Add a vSwitch in another zone to the VPC and to the cluster, and name it in the annotation zone-maps; or wait until Alibaba Cloud has room again."
		return p, nil
	}
	pairs := make([]string, len(other))
	list := make([]string, len(other))
	for i, v := range other {
		pairs[i], list[i] = v.Zone+":"+v.ID, ccm.DescribeVSwitch(v)
	}
	such := fmt.Sprintf("Such as: %s.", ccm.SetCommand(c.Service, zoneMaps, strings.Join(pairs[:min(2, len(pairs))], ",")))
	if len(pairs) == 1 {
		such = fmt.Sprintf("Such as, with the pair of the map that has room as its second: %s.", ccm.SetCommand(c.Service, zoneMaps, pairs[0]+",ZONE:VSWITCH"))
	}
	p.Ask = fmt.Sprintf("Name other zones in the annotation zone-maps. The cluster has vSwitches in: %s. %s An NLB needs two zones to outlive the loss of one.", remedy.List(list, 5), such)
	if made != "" {
		p.Ask += " Its host name stays, and the addresses behind it change with the zones."
	}
	return p, nil
}
