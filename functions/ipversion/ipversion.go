// Package ipversion remedies Services whose load balancer, vSwitches and backends differ in their IP versions.
package ipversion

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

// Remedy asks: only people know which IP versions they need, and a change of them changes the address.
var Remedy = &remedy.Remedy{
	Class: "ip-version",
	Doc:   doc,
	Texts: []string{
		"because of ServerGroupNotSupportIpv6",
		"because of LBNotSupportIpv6Backend",
		noVSwitches,
		noZones,
		noIntranet,
	},
	Reads: slices.Concat(ccm.BoundReads, []grant.Grant{
		grant.ListNLBs, grant.GetNLB, grant.ListNLBTags, grant.DescribeClusterDetail, grant.DescribeVSwitches, grant.DescribeAvailableResource,
	}),
	Diagnose: diagnose,
}

// The API's messages about places without IPv6. The last two are about new CLBs.
const (
	noVSwitches = "vSwitchNotSupportIpv6"
	noZones     = "master/slave zones does not support ipv6"
	noIntranet  = "IPv6 does not support intranet instance"
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
	var pairs []cloud.ZonePair // with IPv6
	if says(c, noZones) {
		if pairs, err = c.Cloud.SLB.Available(ctx, "internet", "ipv6"); err != nil {
			return remedy.Plan{}, fmt.Errorf("list zones with IPv6: %w", err)
		}
	}
	return decide(c, lb, cluster, vsws, pairs), nil
}

func says(c *remedy.Case, text string) bool {
	return strings.Contains(strings.ToLower(strings.Join(strings.Fields(c.Event.Message), " ")), strings.ToLower(text))
}

func decide(c *remedy.Case, lb *ccm.Instance, cluster cloud.Cluster, vsws []cloud.VSwitch, pairs []cloud.ZonePair) remedy.Plan {
	ids := ccm.VSwitchesOf(c.Service, lb)
	var used, able []cloud.VSwitch // able are the cluster's own with IPv6
	for _, v := range vsws {
		if slices.Contains(ids, v.ID) {
			used = append(used, v)
		}
		if v.IPv6 && slices.Contains(cluster.VSwitches, v.ID) {
			able = append(able, v)
		}
	}
	clauses := slices.Concat(ccm.DescribeFamilies(c.Service), ccm.DescribeVersions(lb, used))
	plan := remedy.Plan{
		Finding: say.F("According to the Event, the IP versions of the Service, its load balancer and its vSwitches do not match.").
			And("Found: %s.", say.Clauses(clauses, len(clauses))),
	}
	switch {
	case says(c, noVSwitches):
		plan.Ask = forVSwitches(c.Service, lb, used, able)
	case says(c, noIntranet):
		plan.Finding = plan.Finding.And("A CLB with IPv6 cannot be private.")
		plan.Ask = forIntranet(c.Service)
	case says(c, noZones):
		plan.Finding = plan.Finding.And("The zones that the Service asks for, or that Alibaba Cloud chose, have no IPv6.")
		plan.Ask = forZones(c, pairs)
	default:
		plan.Ask = forBackends(c.Service, lb)
	}
	return plan
}
