// Package ipversion remedies Services whose load balancer, vSwitches and backends have different IP versions.
package ipversion

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

// Remedy asks: only people know which IP versions are meant, and changing them can
// change the address.
var Remedy = &remedy.Remedy{
	Class: "ip-version",
	Doc:   doc,
	Texts: []string{
		"because of ServerGroupNotSupportIpv6",
		"because of LBNotSupportIpv6Backend",
		"vSwitchNotSupportIpv6",
		noZones,
		noIntranet,
	},
	Reads: slices.Concat(ccm.BoundReads, []grant.Grant{
		grant.ListNLBs, grant.GetNLB, grant.ListNLBTags, grant.DescribeClusterDetail, grant.DescribeVSwitches, grant.DescribeAvailableResource,
	}),
	Diagnose: diagnose,
}

// What the API says of a CLB that is to be made.
const (
	noZones    = "master/slave zones does not support ipv6"
	noIntranet = "IPv6 does not support intranet instance"
)

// Short names of the annotations that ask for IP versions, and for places.
const (
	ipVersion      = "ip-version"
	backendVersion = "backend-ip-version"
	zoneMaps       = "zone-maps"
	vswitchID      = "vswitch-id"
	addressType    = "address-type"
)

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	cluster, err := c.Cloud.CS.Cluster(ctx)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("describe the cluster: %w", err)
	}
	vsws, err := c.Cloud.VPC.VSwitches(ctx, cluster.VPC)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("list vSwitches of %s: %w", cluster.VPC, err)
	}
	used, without := side(vsws, places(c, lb))
	parts := []string{families(c), "no load balancer of it was found yet"}
	if lb != nil {
		parts[1] = fmt.Sprintf("the %s %s is %s", lb.Kind(), lb.ID, cmp.Or(lb.IPVersion, "of an IP version that the API does not say"))
	}
	if len(used) > 0 {
		parts = append(parts, strings.Join(used, ", "))
	}
	finding := fmt.Sprintf("The IP versions of the Service and its load balancer don't go together: %s.", strings.Join(parts, "; "))
	message := strings.ToLower(strings.Join(strings.Fields(c.Event.Message), " "))
	says := func(text string) bool { return strings.Contains(message, strings.ToLower(text)) }
	switch {
	case says("vSwitchNotSupportIpv6"):
		return remedy.Plan{Finding: finding, Ask: forVSwitches(c, lb, without, able(vsws, cluster))}, nil
	case says(noIntranet):
		return remedy.Plan{Finding: finding + " No CLB of IPv6 is private.", Ask: forIntranet(c)}, nil
	case says(noZones):
		pairs, err := c.Cloud.SLB.Available(ctx, "internet", "ipv6")
		if err != nil {
			return remedy.Plan{}, fmt.Errorf("list zones with IPv6: %w", err)
		}
		return remedy.Plan{Finding: finding + " The zones that are asked for, or that Alibaba Cloud chose, have no IPv6.", Ask: forZones(c, pairs)}, nil
	}
	return remedy.Plan{Finding: finding, Ask: forBackends(c, lb)}, nil
}

// families says what the Service is and asks for.
func families(c *remedy.Case) string {
	text := "the Service names no IP family"
	switch list := c.Service.Spec.IPFamilies; len(list) {
	case 0:
	case 1:
		text = "the Service has the family " + string(list[0])
	default:
		text = fmt.Sprintf("the Service has the families %s and %s", list[0], list[1])
	}
	if p := c.Service.Spec.IPFamilyPolicy; p != nil {
		text += fmt.Sprintf(" (%s)", *p)
	}
	for _, name := range []string{ipVersion, backendVersion, addressType} {
		if v, ok := ccm.Annotation(c.Service, name); ok {
			text += fmt.Sprintf(", the annotation %s is %s", name, ccm.Quote(v))
		}
	}
	return text
}

// places returns the IDs of the vSwitches that the load balancer is in, or is to be in.
func places(c *remedy.Case, lb *ccm.Instance) []string {
	var ids []string
	switch {
	case lb != nil && lb.NLB != nil:
		for _, z := range lb.NLB.Zones {
			ids = append(ids, z.VSwitch)
		}
		ids = append(ids, mapped(c)...) // it can be asked for further zones
	case lb != nil:
		ids = append(ids, lb.CLB.VSwitch)
	default:
		id, _ := ccm.Annotation(c.Service, vswitchID)
		ids = append(append(ids, id), mapped(c)...)
	}
	return ids
}

// mapped returns the IDs of the vSwitches in the annotation of an NLB's zones.
func mapped(c *remedy.Case) []string {
	var ids []string
	maps, _ := ccm.Annotation(c.Service, zoneMaps)
	for part := range strings.SplitSeq(maps, ",") {
		if fields := strings.SplitN(part, ":", 3); len(fields) > 1 {
			ids = append(ids, fields[1])
		}
	}
	return ids
}

// side describes the vSwitches with these IDs, and returns those without IPv6.
func side(vsws []cloud.VSwitch, ids []string) (text, without []string) {
	for _, v := range vsws {
		if !slices.Contains(ids, v.ID) {
			continue
		}
		has := "has IPv6"
		if !v.IPv6 {
			has = "has no IPv6"
			without = append(without, v.ID)
		}
		text = append(text, fmt.Sprintf("the vSwitch %s in %s %s", v.ID, v.Zone, has))
	}
	return text, without
}

// able returns the cluster's own vSwitches with IPv6.
func able(vsws []cloud.VSwitch, cluster cloud.Cluster) []cloud.VSwitch {
	return slices.DeleteFunc(slices.Clone(vsws), func(v cloud.VSwitch) bool { return !v.IPv6 || !slices.Contains(cluster.VSwitches, v.ID) })
}
