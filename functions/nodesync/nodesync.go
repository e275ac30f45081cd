// Package nodesync asks about nodes that the controller cannot initialize or update.
package nodesync

import (
	"context"
	_ "embed"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed doc.md
var doc string

// Remedy asks: the obstacle is the node's server or its kubelet.
var Remedy = &remedy.Remedy{
	Class: "node-sync",
	Doc:   doc,
	Kinds: []string{remedy.KindNode},
	Texts: []string{
		"Failed to disable source dest check for node",
		"failed to get specified nodeIP in cloud provider",
		"cloud instance api fail",
		"list instances by ip fail",
	},
	Reads:        []grant.Grant{grant.GetNodes, grant.DescribeInstances},
	Diagnose:     diagnose,
	StillFails:   stillFails,
	IgnoresEvent: true,
}

type state struct {
	node   *corev1.Node // nil: deleted
	id     string       // of its ECS instance; empty: unknown
	region string       // of the instance
	unseen bool         // lbremedy sees no such instance in the cluster's region
}

func read(ctx context.Context, c *remedy.Case) (s state, err error) {
	if s.node, err = c.NodeNamed(ctx, c.Event.Service.Name); err != nil || s.node == nil {
		return s, err
	}
	region, id, ok := ccm.SplitProviderID(s.node.Spec.ProviderID)
	if !ok {
		return s, nil
	}
	if s.region, s.id = region, id; region != c.Cloud.Region() { // the controller asks in that region
		return s, nil
	}
	list, err := c.Cloud.ECS.Instances(ctx, []string{id})
	if err != nil {
		return s, fmt.Errorf("describe the instance %s: %w", id, err)
	}
	s.unseen = len(list) == 0
	return s, nil
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	s, err := read(ctx, c)
	if err != nil {
		return remedy.Plan{}, err
	}
	name := c.Event.Service.Name
	plan := remedy.Plan{Finding: say.F("The node %s has the taint %s, so no Pods are scheduled on it.", name, ccm.CloudTaint), Cause: name}
	if s.node != nil && !ccm.Tainted(s.node) {
		plan.Finding = say.F("The controller cannot update the node %s.", name)
	}
	log := say.F("Check the controller's log for what it does about the nodes: %s.", c.LogQuery())
	switch {
	case s.node == nil || s.node.Spec.ProviderID == "":
		plan.Finding = plan.Finding.And("It has no providerID, so the controller looks for its server by its address.")
		plan.Ask = say.F("Check that exactly one server of the VPC has the internal address of the node, and that its kubelet runs with the right --provider-id.")
	case s.id == "" && ccm.IsLingJun(s.node):
		plan.Finding = plan.Finding.And("It is a LingJun node with the providerID %s, which is not an ECS server.", ccm.Quote(s.node.Spec.ProviderID))
		plan.Ask = log
	case s.id == "":
		plan.Finding = plan.Finding.And("Its providerID is %s, which is not region.instance.", ccm.Quote(s.node.Spec.ProviderID))
		var faults ccm.NodeFaults
		faults.Add(*s.node, nil)
		plan.Ask = faults.Ask(c.Service)
	case s.unseen && ccm.NodeReady(s.node):
		plan.Finding = plan.Finding.And("Its providerID names the instance %s, which lbremedy does not see in %s.", s.id, s.region).
			And("The node reports Ready, so its server runs, and lbremedy may not be allowed to see it.")
		plan.Ask = log
	case s.unseen:
		plan.Finding = plan.Finding.And("Its providerID names the instance %s, which lbremedy does not see in %s.", s.id, s.region)
		plan.Ask = say.F("Delete the node if its server was released: kubectl delete node %s.", name).
			And("If the server exists, let its kubelet register it again with --provider-id=REGION.INSTANCE.")
	case s.region != c.Cloud.Region():
		plan.Finding = plan.Finding.And("Its instance %s is in the region %s, where lbremedy does not look.", s.id, s.region)
		plan.Ask = log
	default:
		plan.Finding = plan.Finding.And("Its instance %s exists.", s.id)
		plan.Wait = c.Settling(ccm.Retry)
		plan.Ask = log
	}
	return plan, nil
}

func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	s, err := read(ctx, c)
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(s.node != nil && (ccm.Tainted(s.node) || s.unseen)), nil
}
