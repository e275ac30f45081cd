// Package routetableambiguous asks about clusters whose VPC has several route tables while the controller can use only one.
package routetableambiguous

import (
	"context"
	_ "embed"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed doc.md
var doc string

// Remedy asks: only the owner of the network knows which table serves the nodes.
var Remedy = &remedy.Remedy{
	Class:        "route-table-ambiguous",
	Doc:          doc,
	Kinds:        []string{remedy.KindCluster},
	Texts:        []string{"multiple route tables found by vpc id"},
	Reads:        ccm.RoutingReads,
	Scope:        remedy.Cluster,
	Diagnose:     diagnose,
	StillFails:   stillFails,
	IgnoresEvent: true,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	r, err := c.Routing(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	var ids []string
	for _, t := range r.Tables {
		ids = append(ids, t.ID)
	}
	plan := remedy.Plan{
		Finding: say.F("The VPC %s has %d route tables (%s). According to the Event, the controller's configuration names none.",
			r.Cluster.VPC, len(ids), strings.Join(ids, ", ")).
			And("No route leads to the Pods of these nodes, so other nodes cannot reach them: %s.", say.List(ccm.NodeNames(r.Unrouted("")), 5)),
		Cause: r.Cluster.VPC,
		Ask: say.F("Find out which route table the vSwitches of the nodes use: %s.",
			ccm.RouteTablesCommand(c.Cloud.Region(), r.Cluster.VPC)),
	}
	if r.Cluster.Managed() {
		plan.Ask = plan.Ask.And("Then name it in the configuration of the add-on %s in the ACK console.", ccm.DaemonSet)
		return plan, nil
	}
	plan.Ask = plan.Ask.And("Then set routeTableIDs in the ConfigMap cloud-config of kube-system to it, and restart the controller: %s.",
		"kubectl -n kube-system rollout restart daemonset "+ccm.DaemonSet)
	return plan, nil
}

func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	r, err := c.Routing(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(len(r.Tables) > 1 && len(r.Unrouted("")) > 0), nil
}
