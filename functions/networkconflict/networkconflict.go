// Package networkconflict asks about reused load balancers in another VPC.
package networkconflict

import (
	"context"
	_ "embed"
	"errors"
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

// Remedy asks which load balancer is meant: a load balancer can't change its VPC.
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
		return c.NoBalancer("its VPC"), nil
	}
	n := network{at: lb.VPC}
	if lb.CLB != nil {
		if err := n.readGroups(ctx, c, lb); err != nil {
			return remedy.Plan{}, err
		}
	}
	finding, seen := n.finding(lb, cluster.VPC)
	reusable, err := c.Reusable(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	ask := n.ask(c, lb, reusable)
	if !seen {
		ask = fmt.Sprintf("Look in the controller's log what it added to which group: %s. If the load balancer is the wrong one: %s", c.LogQuery(), ask)
	}
	return remedy.Plan{Finding: finding, Cause: lb.ID, Ask: ask, Seen: seen}, nil
}

// A network holds the VPCs of a load balancer and its backends.
type network struct {
	at     string               // VPC of the load balancer; empty for a CLB that faces the internet
	others map[string][]string  // by the VPC of backends: names of the vServer groups that hold them
	left   []cloud.VServerGroup // that were made for the Service
}

// readGroups reads the vServer groups of a CLB and the VPCs of their backends.
func (n *network) readGroups(ctx context.Context, c *remedy.Case, lb *ccm.Instance) error {
	n.others = map[string][]string{}
	for _, b := range lb.CLB.Backends {
		n.holds(b.VPC, "the default group")
	}
	groups, err := c.Cloud.SLB.VServerGroups(ctx, lb.ID)
	if err != nil {
		return fmt.Errorf("list vServer groups of %s: %w", lb.ID, err)
	}
	for _, g := range groups {
		if t, ok := ccm.ParseTrace(g.Name); ok && t.Of(c.Service, c.Cluster) {
			n.left = append(n.left, g)
		}
		whole, err := c.Cloud.SLB.VServerGroup(ctx, g.ID)
		if errors.Is(err, cloud.ErrNotFound) {
			continue // it went meanwhile
		}
		if err != nil {
			return fmt.Errorf("describe vServer group %s: %w", g.ID, err)
		}
		for _, b := range whole.Backends {
			n.holds(b.VPC, g.Name)
		}
	}
	return nil
}

func (n *network) holds(vpc, group string) {
	if vpc != "" && !slices.Contains(n.others[vpc], group) {
		n.others[vpc] = append(n.others[vpc], group)
	}
}

// finding says which VPCs conflict, and whether a conflict was seen at all.
func (n *network) finding(lb *ccm.Instance, cluster string) (text string, seen bool) {
	what := fmt.Sprintf("the %s %s", lb.Kind(), lb.ID)
	if n.at != "" && n.at != cluster {
		return fmt.Sprintf("The nodes of the cluster are in the VPC %s, and %s is in %s: its backends have to be in that one.", cluster, what, n.at), true
	}
	var foreign []string
	for vpc, groups := range n.others {
		if vpc != cluster {
			slices.Sort(groups)
			foreign = append(foreign, fmt.Sprintf("%s (%s)", vpc, strings.Join(groups, ", ")))
		}
	}
	slices.Sort(foreign)
	if len(foreign) > 0 {
		return fmt.Sprintf("The nodes of the cluster are in the VPC %s, and %s has backends in %s already: all backends of a load balancer have to be in one VPC.", cluster, what, strings.Join(foreign, " and ")), true
	}
	where := "is in it"
	switch {
	case n.at == "" && lb.AddressType == "internet":
		where = "faces the internet and has no backend of another VPC"
	case n.at == "":
		where = "is in the classic network, or the API does not say in which VPC it is, and has no backend of another VPC"
	}
	return fmt.Sprintf("The nodes of the cluster are in the VPC %s, and %s %s: the conflict is not with a VPC that can be seen.", cluster, what, where), false
}

// ask names the load balancers that could be used, and what stays behind.
func (n *network) ask(c *remedy.Case, lb *ccm.Instance, reusable []ccm.Instance) string {
	var ids []string
	for _, r := range reusable {
		if r.ID == lb.ID {
			continue
		}
		ids = append(ids, fmt.Sprintf("%s (%s)", r.ID, r.Address))
	}
	free := "No load balancer of the cluster's VPC is free to be reused: make one there first."
	if len(ids) > 0 {
		free = fmt.Sprintf("In use by nobody, as far as can be seen, are %s.", strings.Join(ids, ", "))
	}
	named, _ := ccm.Annotation(c.Service, "id")
	var ways []string
	switch {
	case named == "":
		then := "The controller then makes another one."
		if ccm.Synced(c.Service) {
			then = fmt.Sprintf("Only then delete the Service, which is bound to the address %s, and create it again: the controller makes another one, with another address.", ccm.Address(c.Service))
		}
		ways = append(ways, fmt.Sprintf("The Service names no load balancer: the controller found this one by its tag or name, and deletes it with the Service. If a person put them on it, take them off: %s. %s",
			c.UntagCommand(lb.ID, ccm.NameTag), then))
	case ccm.Synced(c.Service):
		ways = append(ways, fmt.Sprintf("The Service is bound to the address %s, and never moves: delete it and create it again, with the annotation %s of a load balancer in the cluster's VPC, or without it, and the controller makes one. Its address changes. %s",
			ccm.Address(c.Service), ccm.AnnotationKey(c.Service, "id"), free))
	default:
		ways = append(ways, fmt.Sprintf("Reuse a load balancer of the cluster's VPC: %s. %s Or let the controller make one: %s.",
			ccm.SetCommand(c.Service, "id", "ID"), free, ccm.RemoveCommand(c.Service, "id")))
	}
	if len(n.left) > 0 {
		var left []string
		for _, g := range n.left {
			left = append(left, fmt.Sprintf("the vServer group %s, aliyun slb DeleteVServerGroup --RegionId %s --VServerGroupId %s", g.Name, c.Cloud.Region(), g.ID))
		}
		ways = append(ways, fmt.Sprintf("Afterwards delete what was made for this Service on %s: %s.", lb.ID, remedy.List(left, 5)))
	}
	return strings.Join(ways, " ")
}
