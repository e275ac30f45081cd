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
	reason := fmt.Sprintf("Each node of a Flannel cluster needs an entry of the route table: %s in all, and %s is the limit.",
		say.Figure(need), say.Figure(limit.Total))
	return step.Raise(ctx, c, plan, *limit, need, reason)
}

func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	r, err := c.Routing(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(len(r.Unrouted(c.Event.Service.Name)) > 0), nil
}
