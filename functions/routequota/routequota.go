// Package routequota remedies nodes that get no route because the route table is full.
package routequota

import (
	"context"
	_ "embed"
	"fmt"
	"slices"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy applies for more entries if the table is proven to be full, and asks otherwise.
var Remedy = &remedy.Remedy{
	Class:        "route-quota",
	Doc:          doc,
	Kinds:        []string{remedy.KindNode},
	Codes:        []string{"QuotaExceeded.*"},
	Texts:        []string{"Route entry quota exceeded in this route table"},
	Reads:        slices.Concat([]grant.Grant{grant.ListProductQuotas}, step.RaiseReads, ccm.RoutingReads),
	Steps:        []remedy.Step{step.ApplyQuota{}},
	Scope:        remedy.Account,
	Diagnose:     diagnose,
	StillFails:   stillFails,
	IgnoresEvent: true,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	r, err := c.Routing(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	limit, err := c.Limit(ctx, "vpc", ccm.LimitRoutes.Name)
	if err != nil {
		return remedy.Plan{}, err
	}
	lack, fullest := r.Unrouted(""), r.Fullest()
	if fullest.ID == "" {
		return remedy.Plan{
			Finding: say.F("These nodes lack a route: %s.", say.List(ccm.NodeNames(lack), 5)).And("Other nodes cannot reach their Pods.").
				And("The VPC %s has %d route tables, and none leads to a node of the cluster, so it is unknown which one is full.", r.Cluster.VPC, len(r.Tables)),
			Cause: ccm.LimitRoutes.Name,
			Ask: say.F("Find out which route table the vSwitches of the nodes use: %s.", ccm.RouteTablesCommand(c.Cloud.Region(), r.Cluster.VPC)).
				And("Compare its entries with the limit in the quota center, and apply for more: %s.", "https://quotas.console.alibabacloud.com").
				Then(ccm.SaveRoutes()),
		}, nil
	}
	plan := remedy.Plan{
		Finding: say.F("The route table %s has %s, and these nodes lack a route: %s.", fullest.ID, say.Count(len(fullest.Entries), "route"),
			say.List(ccm.NodeNames(lack), 5)).And("Other nodes cannot reach their Pods."),
		Cause: ccm.LimitRoutes.Name,
		Ask:   ccm.SaveRoutes(),
	}
	if limit == nil {
		plan.Finding = plan.Finding.And("The quota center does not list the limit %s in this region.", ccm.LimitRoutes.Name)
		plan.Ask = say.F("Compare the number with the limit in the quota center, and apply for more: %s.", "https://quotas.console.alibabacloud.com").Then(plan.Ask)
		return plan, nil
	}
	need := float64(len(fullest.Entries) + len(lack))
	plan.Finding = plan.Finding.And("The limit %s is %s.", limit.Name, say.Figure(limit.Total))
	reason := fmt.Sprintf("The route table has %d entries, and %d more nodes of a Flannel cluster need one each: %s is the limit.",
		len(fullest.Entries), len(lack), say.Figure(limit.Total))
	return step.Raise(ctx, c, plan, *limit, need, reason)
}

func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	r, err := c.Routing(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(len(r.Unrouted(c.Event.Service.Name)) > 0), nil
}
