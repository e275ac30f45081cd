// Package routeconflict asks about nodes whose block of Pods has a route to another target.
package routeconflict

import (
	"context"
	_ "embed"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed doc.md
var doc string

// Remedy asks: somebody uses, or used, the entry with another target.
var Remedy = &remedy.Remedy{
	Class:        "route-conflict",
	Doc:          doc,
	Kinds:        []string{remedy.KindNode},
	Codes:        []string{"InvalidCIDRBlock.Duplicate", "RouterEntryConflict.Duplicated", "Duplicated.VpcNextHop"},
	Texts:        []string{"Specified CIDR block is already exists"},
	Reads:        ccm.RoutingReads,
	Diagnose:     diagnose,
	StillFails:   stillFails,
	IgnoresEvent: true,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	r, err := c.Routing(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	node, err := of(c, r.All)
	if err != nil {
		return remedy.Plan{}, err
	}
	plan := remedy.Plan{
		Finding: say.F("No route leads to the Pods of the node %s in %s, so other nodes cannot reach them.", node.Name, ccm.PodBlock(node)),
		Cause:   ccm.PodBlock(node),
	}
	found := r.Elsewhere(node)
	if len(found) == 0 {
		plan.Finding = plan.Finding.And("No entry of the VPC's route tables has this block any more.").Then(ccm.Retries())
		plan.Wait = c.PollInterval()
		plan.Ask = say.F("Check the controller's log for what it does about the nodes: %s.", c.LogQuery())
		return plan, nil
	}
	for _, e := range found {
		plan.Finding = plan.Finding.And("The entry %s sends the block to %s.", e.ID, next(e.To, e.Next))
		plan.Ask = plan.Ask.And("If nothing needs the entry, delete it: %s.",
			"aliyun vpc DeleteRouteEntry --RegionId "+c.Cloud.Region()+" --RouteEntryId "+e.ID)
	}
	plan.Ask = plan.Ask.And("Otherwise remove the node from the cluster and add it again, so that it gets another block.")
	return plan, nil
}

func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	r, err := c.Routing(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(len(r.Unrouted(c.Event.Service.Name)) > 0), nil
}

func of(c *remedy.Case, nodes []corev1.Node) (*corev1.Node, error) {
	for i := range nodes {
		if string(nodes[i].UID) == c.Event.Service.UID {
			return &nodes[i], nil
		}
	}
	return nil, errors.New("the node left while it was looked at")
}

func next(kind, id string) say.Text {
	if id == "" {
		return say.F("several next hops")
	}
	return say.F("%s (%s)", id, kind)
}
