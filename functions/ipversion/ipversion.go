// Package ipversion remedies Services whose load balancer, vSwitches and backends have different IP versions.
package ipversion

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed doc.md
var doc string

// Remedy asks: only people know which IP versions are meant, and changing them changes the address.
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

// What the API says if the place of a load balancer has no IPv6. The last two are about new CLBs.
const (
	noVSwitches = "vSwitchNotSupportIpv6"
	noZones     = "master/slave zones does not support ipv6"
	noIntranet  = "IPv6 does not support intranet instance"
)

// Short names of the annotations for IP versions and for places.
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
	var pairs []cloud.ZonePair // with IPv6
	if says(c, noZones) {
		if pairs, err = c.Cloud.SLB.Available(ctx, "internet", "ipv6"); err != nil {
			return remedy.Plan{}, fmt.Errorf("list zones with IPv6: %w", err)
		}
	}
	return decide(c, lb, cluster, vsws, pairs), nil
}

// says reports whether the failure's message has the text.
func says(c *remedy.Case, text string) bool {
	return strings.Contains(strings.ToLower(strings.Join(strings.Fields(c.Event.Message), " ")), strings.ToLower(text))
}

// decide returns the plan for a cluster with these vSwitches in its VPC.
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
	clauses := slices.Concat(families(c.Service), versions(lb, used))
	plan := remedy.Plan{
		Finding: say.F("The IP versions of the Service, its load balancer and its vSwitches do not match: %s.", say.Clauses(clauses, len(clauses))),
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

// families returns clauses about the IP versions that the Service asks for.
func families(svc *corev1.Service) []say.Text {
	var facts []say.Text
	switch list := svc.Spec.IPFamilies; len(list) {
	case 0:
		facts = append(facts, say.F("the Service names no IP family"))
	case 1:
		facts = append(facts, say.F("the Service has the IP family %s", list[0]))
	default:
		facts = append(facts, say.F("the Service has the IP families %s and %s", list[0], list[1]))
	}
	if p := svc.Spec.IPFamilyPolicy; p != nil {
		facts = append(facts, say.F("its ipFamilyPolicy is %s", *p))
	}
	for _, name := range []string{ipVersion, backendVersion, addressType} {
		if v, ok := ccm.Annotation(svc, name); ok {
			facts = append(facts, say.F("the annotation %s is %s", name, ccm.Quote(v)))
		}
	}
	return facts
}

// versions returns clauses about the IP versions of the load balancer and of its vSwitches.
func versions(lb *ccm.Instance, used []cloud.VSwitch) []say.Text {
	facts := []say.Text{say.F("no load balancer of the Service was found")}
	switch {
	case lb != nil && lb.IPVersion == "":
		facts[0] = say.F("the API does not say which IP version the %s %s has", lb.Kind(), lb.ID)
	case lb != nil:
		facts[0] = say.F("the %s %s is %s", lb.Kind(), lb.ID, lb.IPVersion)
	}
	for _, v := range used {
		if v.IPv6 {
			facts = append(facts, say.F("the vSwitch %s in %s has IPv6", v.ID, v.Zone))
		} else {
			facts = append(facts, say.F("the vSwitch %s in %s has no IPv6", v.ID, v.Zone))
		}
	}
	return facts
}
