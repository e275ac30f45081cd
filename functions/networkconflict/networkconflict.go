// Package networkconflict asks about reused load balancers in another VPC.
package networkconflict

import (
	"context"
	_ "embed"
	"slices"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed doc.md
var doc string

// Remedy asks for the intended load balancer: a load balancer never changes its VPC.
var Remedy = &remedy.Remedy{
	Class: "network-conflict",
	Doc:   doc,
	Codes: []string{"NetworkConflict", "Mismatch.VpcId"},
	Texts: []string{
		"network conflicts in specified parameter",
		"have to be in the same vpc or all classic",
		"VpcId is mismatched for * and",
	},
	Reads:    slices.Concat(ccm.BoundReads, ccm.NetworkReads, ccm.WholeGroupReads, ccm.ReusableReads),
	Diagnose: diagnose,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	vpc, err := c.ClusterVPC(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if lb == nil {
		return c.NoBalancer(say.F("its VPC")), nil
	}
	groups, err := c.WholeGroups(ctx, lb)
	if err != nil {
		return remedy.Plan{}, err
	}
	reusable, err := c.Reusable(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	return decide(c, vpc, lb, groups, reusable), nil
}

func decide(c *remedy.Case, vpc string, lb *ccm.Instance, groups []cloud.VServerGroup, reusable []ccm.Instance) remedy.Plan {
	finding, seen := conflict(vpc, lb, groups)
	ask := another(c, lb, reusable)
	if !seen {
		ask = say.F("Check the controller's log for what it added to which group: %s.", c.LogQuery()).
			And("If the Service uses the wrong load balancer, change it as follows.").Then(ask)
	}
	if left := c.DeleteGroupCommands(groups); len(left) > 0 {
		ask = ask.And("Afterwards, delete what is left of this Service on %s. Its vServer groups: %s.", lb.ID, say.Clauses(left, 5))
	}
	return remedy.Plan{Finding: finding, Cause: lb.ID, Ask: ask, Proven: seen}
}

func conflict(cluster string, lb *ccm.Instance, groups []cloud.VServerGroup) (text say.Text, seen bool) {
	text = say.F("The nodes of the cluster are in the VPC %s.", cluster)
	switch kind, id, foreign := lb.Kind(), lb.ID, ccm.OtherVPCs(cluster, lb, groups); {
	case lb.VPC != "" && lb.VPC != cluster:
		return text.And("The %s %s is in %s, so its backends must be there, too.", kind, id, lb.VPC), true
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

func another(c *remedy.Case, lb *ccm.Instance, reusable []ccm.Instance) say.Text {
	var unused []say.Text
	for _, r := range reusable {
		if r.ID != lb.ID {
			unused = append(unused, say.F("%s (%s)", r.ID, r.Address))
		}
	}
	free := say.F("No load balancer in the cluster's VPC is free for reuse: create one there first.")
	if len(unused) > 0 {
		free = say.F("These seem to be unused: %s.", say.Items(unused, len(unused)))
	}
	switch named, _ := ccm.Annotation(c.Service, ccm.BalancerID); {
	case named == "":
		ask := say.F("The Service names no load balancer. The controller found this one by its tag or name, and deletes it together with the Service.").
			And("If a person made it, first hide it from the controller.")
		if lb.Tags[ccm.NameTag] == ccm.DefaultName(c.Service) {
			ask = ask.And("Remove its tag: %s.", c.UntagCommand(lb.ID, ccm.NameTag))
		}
		if lb.Name == ccm.DefaultName(c.Service) {
			ask = ask.And("Give it another name: %s.", c.RenameCommand(lb.ID, "NAME"))
		}
		if ccm.Synced(c.Service) {
			return ask.And("Only then delete and recreate the Service, which is bound to the address %s.", ccm.Address(c.Service)).
				And("The controller creates another load balancer, with another address.")
		}
		return ask.And("The controller then creates another one.")
	case ccm.Synced(c.Service):
		return say.F("The Service is bound to the address %s and never moves. Save it, then delete and recreate it, which changes its address: %s.",
			ccm.Address(c.Service), "kubectl -n "+c.Service.Namespace+" get service "+c.Service.Name+" -o yaml").
			And("Name a load balancer in the cluster's VPC in the annotation %s, or leave it out to have the controller create one.",
				ccm.AnnotationKey(c.Service, ccm.BalancerID)).Then(free)
	}
	return say.F("Reuse a load balancer in the cluster's VPC: %s.", ccm.SetCommand(c.Service, ccm.BalancerID, "ID")).Then(free).
		And("Or let the controller create one: %s.", ccm.RemoveCommand(c.Service, ccm.BalancerID))
}
