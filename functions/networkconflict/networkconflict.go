// Package networkconflict asks about reused load balancers in another VPC.
package networkconflict

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
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

// Remedy asks which load balancer is meant: a load balancer never changes its VPC.
var Remedy = &remedy.Remedy{
	Class: "network-conflict",
	Doc:   doc,
	Codes: []string{"NetworkConflict"},
	Texts: []string{
		"network conflicts in specified parameter",
		"have to be in the same vpc or all classic",
		"VpcId is mismatched for * and",
	},
	Reads: slices.Concat(ccm.ReusableReads, ccm.NetworkReads, []grant.Grant{
		grant.DescribeVServerGroups, grant.DescribeVServerGroupAttribute, grant.ListSLBTags,
	}),
	Diagnose: diagnose,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	cluster, err := c.Cloud.CS.Cluster(ctx)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("describe the cluster: %w", err)
	}
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if lb == nil {
		return c.NoBalancer(say.F("its VPC")), nil
	}
	var groups []cloud.VServerGroup
	if lb.CLB != nil {
		if groups, err = c.WholeGroups(ctx, lb.ID); err != nil {
			return remedy.Plan{}, err
		}
	}
	reusable, err := c.Reusable(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	return decide(c, cluster.VPC, lb, groups, reusable), nil
}

// decide returns the plan for a load balancer with these vServer groups in a cluster of this VPC.
func decide(c *remedy.Case, vpc string, lb *ccm.Instance, groups []cloud.VServerGroup, reusable []ccm.Instance) remedy.Plan {
	finding, seen := conflict(vpc, lb, groups)
	ask := another(c, lb, reusable)
	if !seen {
		ask = say.F("Check the controller's log for what it added to which group: %s.", c.LogQuery()).
			And("If the Service uses the wrong load balancer, change it as follows.").Then(ask)
	}
	var left []say.Text
	for _, g := range groups {
		if t, ok := ccm.ParseTrace(g.Name); ok && t.Of(c.Service, c.Cluster) {
			left = append(left, say.F("%s with aliyun slb DeleteVServerGroup --RegionId %s --VServerGroupId %s", g.Name, c.Cloud.Region(), g.ID))
		}
	}
	if len(left) > 0 {
		ask = ask.And("Afterwards, delete what is left of this Service on %s. Its vServer groups: %s.", lb.ID, say.Clauses(left, 5))
	}
	return remedy.Plan{Finding: finding, Cause: lb.ID, Ask: ask, Seen: seen}
}

// conflict returns which VPCs conflict, and whether any conflict can be seen.
func conflict(cluster string, lb *ccm.Instance, groups []cloud.VServerGroup) (text say.Text, seen bool) {
	text = say.F("The nodes of the cluster are in the VPC %s.", cluster)
	kind, id := lb.Kind(), lb.ID
	if lb.VPC != "" && lb.VPC != cluster {
		return text.And("The %s %s is in %s, so its backends must be there, too.", kind, id, lb.VPC), true
	}
	if lb.CLB != nil {
		groups = append([]cloud.VServerGroup{{Backends: lb.CLB.Backends}}, groups...) // the default group has no name
	}
	holders := map[string][]string{} // names of groups, by the VPC of the backends that they hold
	for _, g := range groups {
		for _, b := range g.Backends {
			if b.VPC != "" && b.VPC != cluster && !slices.Contains(holders[b.VPC], g.Name) {
				holders[b.VPC] = append(holders[b.VPC], g.Name)
			}
		}
	}
	var foreign []say.Text
	for _, vpc := range slices.Sorted(maps.Keys(holders)) {
		var names []say.Text
		for _, name := range slices.Sorted(slices.Values(holders[vpc])) {
			if name == "" {
				names = append(names, say.F("the default group"))
			} else {
				names = append(names, say.Literal(name))
			}
		}
		foreign = append(foreign, say.F("%s (%s)", vpc, say.Items(names, len(names))))
	}
	switch {
	case len(foreign) > 0:
		return text.And("The %s %s already has backends in another VPC: %s.", kind, id, say.Clauses(foreign, len(foreign))).
			And("All backends of a load balancer must be in one VPC."), true
	case lb.VPC != "":
		text = text.And("The %s %s is in it, too.", kind, id)
	case lb.AddressType == "internet":
		text = text.And("The %s %s faces the internet and has no backend in another VPC.", kind, id)
	default:
		text = text.And("The %s %s is in the classic network, or the API does not say in which VPC it is. It has no backend in another VPC.", kind, id)
	}
	return text.And("No conflicting VPC can be seen."), false
}

// another asks to give the Service another load balancer.
func another(c *remedy.Case, lb *ccm.Instance, reusable []ccm.Instance) say.Text {
	var ids []string
	for _, r := range reusable {
		if r.ID != lb.ID {
			ids = append(ids, fmt.Sprintf("%s (%s)", r.ID, r.Address))
		}
	}
	free := say.F("No load balancer in the cluster's VPC is free for reuse: create one there first.")
	if len(ids) > 0 {
		free = say.F("These seem to be unused: %s.", strings.Join(ids, ", "))
	}
	address := ccm.Address(c.Service)
	switch named, _ := ccm.Annotation(c.Service, "id"); {
	case named == "":
		ask := say.F("The Service names no load balancer. The controller found this one by its tag or name, and deletes it together with the Service.").
			And("If a person added the tag or the name, remove it: %s.", c.UntagCommand(lb.ID, ccm.NameTag))
		if ccm.Synced(c.Service) {
			return ask.And("Only then delete and recreate the Service, which is bound to the address %s.", address).
				And("The controller creates another load balancer, with another address.")
		}
		return ask.And("The controller then creates another one.")
	case ccm.Synced(c.Service):
		return say.F("The Service is bound to the address %s and never moves. Delete and recreate it, which changes its address.", address).
			And("Name a load balancer in the cluster's VPC in the annotation %s, or leave it out to have the controller create one.",
				ccm.AnnotationKey(c.Service, "id")).Then(free)
	}
	return say.F("Reuse a load balancer in the cluster's VPC: %s.", ccm.SetCommand(c.Service, "id", "ID")).Then(free).
		And("Or let the controller create one: %s.", ccm.RemoveCommand(c.Service, "id"))
}
