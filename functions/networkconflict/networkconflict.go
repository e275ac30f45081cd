// Package networkconflict asks about reused load balancers in another VPC.
package networkconflict

import (
	"context"
	_ "embed"
	"errors"
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
	n := network{cluster: cluster.VPC, lb: lb}
	if lb.CLB != nil {
		if err := n.readGroups(ctx, c); err != nil {
			return remedy.Plan{}, err
		}
	}
	reusable, err := c.Reusable(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	finding, seen := n.finding()
	ask := n.ask(c, reusable)
	if !seen {
		ask = say.F("Check the controller's log for what it added to which group: %s.", c.LogQuery()).
			And("If the Service uses the wrong load balancer, change it as follows.").Then(ask)
	}
	return remedy.Plan{Finding: finding, Cause: lb.ID, Ask: ask, Seen: seen}, nil
}

// A network is the VPCs that a load balancer and its backends are in.
type network struct {
	cluster string // VPC of the cluster
	lb      *ccm.Instance
	others  map[string][]string  // by the VPC of backends: names of the vServer groups that hold them; "" is the default group
	left    []cloud.VServerGroup // created for the Service
}

// readGroups reads the vServer groups of a CLB and the VPCs of their backends.
func (n *network) readGroups(ctx context.Context, c *remedy.Case) error {
	n.others = map[string][]string{}
	n.hold("", n.lb.CLB.Backends)
	groups, err := c.Cloud.SLB.VServerGroups(ctx, n.lb.ID)
	if err != nil {
		return fmt.Errorf("list vServer groups of %s: %w", n.lb.ID, err)
	}
	for _, g := range groups {
		if t, ok := ccm.ParseTrace(g.Name); ok && t.Of(c.Service, c.Cluster) {
			n.left = append(n.left, g)
		}
		whole, err := c.Cloud.SLB.VServerGroup(ctx, g.ID)
		if errors.Is(err, cloud.ErrNotFound) {
			continue // it was deleted in the meantime
		}
		if err != nil {
			return fmt.Errorf("describe vServer group %s: %w", g.ID, err)
		}
		n.hold(g.Name, whole.Backends)
	}
	return nil
}

// hold notes the VPCs of the backends in a group.
func (n *network) hold(group string, backends []cloud.Backend) {
	for _, b := range backends {
		if b.VPC != "" && !slices.Contains(n.others[b.VPC], group) {
			n.others[b.VPC] = append(n.others[b.VPC], group)
		}
	}
}

// finding returns which VPCs conflict, and whether any conflict can be seen.
func (n *network) finding() (text say.Text, seen bool) {
	text = say.F("The nodes of the cluster are in the VPC %s.", n.cluster)
	kind, id := n.lb.Kind(), n.lb.ID
	if n.lb.VPC != "" && n.lb.VPC != n.cluster {
		return text.And("The %s %s is in %s, so its backends must be there, too.", kind, id, n.lb.VPC), true
	}
	var foreign []say.Text
	for _, vpc := range slices.Sorted(maps.Keys(n.others)) {
		groups := slices.Sorted(slices.Values(n.others[vpc]))
		switch {
		case vpc == n.cluster:
		case groups[0] != "":
			foreign = append(foreign, say.F("%s (%s)", vpc, strings.Join(groups, ", ")))
		case len(groups) == 1:
			foreign = append(foreign, say.F("%s (the default group)", vpc))
		default:
			foreign = append(foreign, say.F("%s (the default group, %s)", vpc, strings.Join(groups[1:], ", ")))
		}
	}
	switch {
	case len(foreign) > 0:
		return text.And("The %s %s already has backends in another VPC: %s.", kind, id, say.Clauses(foreign, len(foreign))).
			And("All backends of a load balancer must be in one VPC."), true
	case n.lb.VPC != "":
		text = text.And("The %s %s is in it, too.", kind, id)
	case n.lb.AddressType == "internet":
		text = text.And("The %s %s faces the internet and has no backend in another VPC.", kind, id)
	default:
		text = text.And("The %s %s is in the classic network, or the API does not say in which VPC it is. It has no backend in another VPC.", kind, id)
	}
	return text.And("No conflicting VPC can be seen."), false
}

// ask returns how the Service gets another load balancer, and what to clean up afterwards.
func (n *network) ask(c *remedy.Case, reusable []ccm.Instance) say.Text {
	var ids []string
	for _, r := range reusable {
		if r.ID != n.lb.ID {
			ids = append(ids, fmt.Sprintf("%s (%s)", r.ID, r.Address))
		}
	}
	free := say.F("No load balancer in the cluster's VPC is free for reuse: create one there first.")
	if len(ids) > 0 {
		free = say.F("These seem to be unused: %s.", strings.Join(ids, ", "))
	}
	address := ccm.Address(c.Service)
	var ask say.Text
	switch named, _ := ccm.Annotation(c.Service, "id"); {
	case named == "":
		ask = say.F("The Service names no load balancer. The controller found this one by its tag or name, and deletes it together with the Service.").
			And("If a person added the tag or the name, remove it: %s.", c.UntagCommand(n.lb.ID, ccm.NameTag))
		if ccm.Synced(c.Service) {
			ask = ask.And("Only then delete and recreate the Service, which is bound to the address %s.", address).
				And("The controller creates another load balancer, with another address.")
		} else {
			ask = ask.And("The controller then creates another one.")
		}
	case ccm.Synced(c.Service):
		ask = say.F("The Service is bound to the address %s and never moves. Delete and recreate it, which changes its address.", address).
			And("Name a load balancer in the cluster's VPC in the annotation %s, or leave it out to have the controller create one.",
				ccm.AnnotationKey(c.Service, "id")).Then(free)
	default:
		ask = say.F("Reuse a load balancer in the cluster's VPC: %s.", ccm.SetCommand(c.Service, "id", "ID")).Then(free).
			And("Or let the controller create one: %s.", ccm.RemoveCommand(c.Service, "id"))
	}
	if len(n.left) > 0 {
		var left []say.Text
		for _, g := range n.left {
			left = append(left, say.F("%s with aliyun slb DeleteVServerGroup --RegionId %s --VServerGroupId %s", g.Name, c.Cloud.Region(), g.ID))
		}
		ask = ask.And("Afterwards, delete what is left of this Service on %s. Its vServer groups: %s.", n.lb.ID, say.Clauses(left, 5))
	}
	return ask
}
