// Package backendquota remedies Services whose load balancer cannot accept all backends.
package backendquota

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy applies for a higher limit, or asks a person to use fewer backends.
var Remedy = &remedy.Remedy{
	Class: "backend-quota",
	Doc:   doc,
	Codes: []string{"InstanceBackendServerNumberOverLimit"},
	Texts: []string{
		"backend server number has reached to the quota limit of this load balancer",
		"backend server number has reached the quota limit of this load balancer",
		"quota of nlb_quota_loadbalancer_noeci_servers_num is exceeded",
	},
	Reads:        slices.Concat([]grant.Grant{grant.ListServices, grant.ListProductQuotas}, ccm.RoomReads, step.RaiseReads),
	Steps:        []remedy.Step{step.ApplyQuota{}},
	Scope:        remedy.Account,
	Backends:     true,
	Diagnose:     diagnose,
	StillFails:   stillFails,
	IgnoresEvent: true,
}

// cycle is the time for the controller to recover: it adds backends again after removing others, and retries after 5, 10, 20 s and so on.
const cycle = time.Minute

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	s, err := c.Room(ctx, c.Family())
	if err != nil || s.LB == "" {
		return c.NoBalancer(say.F("how many backends it has")), err
	}
	limit, name, err := c.BackendLimit(ctx)
	if err != nil || limit == nil {
		return unknown(s.Describe(nil), s.LB, name), err
	}
	plan, total := remedy.Plan{Finding: s.Describe(limit), Cause: s.LB}, s.Total()
	switch wait := c.Settling(cycle); {
	case wait > 0:
		plan.Finding = plan.Finding.And("The controller removes backends that no longer exist and adds the others again. lbremedy waits a minute for that.")
		plan.Wait = wait
		return plan, nil
	case float64(total) > limit.Total:
		plan.Ask = s.Ways(int(limit.Total))
		reason := fmt.Sprintf("A Kubernetes Service needs %d backends on the load balancer %s, and %.0f is the limit.", total, s.LB, limit.Total)
		return step.Raise(ctx, c, plan, *limit, float64(total), reason)
	case ccm.NLB(c.Service):
		plan.Finding = plan.Finding.And("According to these figures, all backends fit.")
		return compare(c, plan), nil
	}
	return servers(ctx, c, s, plan)
}

// servers completes the plan if the load balancer has room: its servers may belong to too many load balancers.
func servers(ctx context.Context, c *remedy.Case, s ccm.Room, plan remedy.Plan) (remedy.Plan, error) {
	limit, err := c.Limit(ctx, "slb", ccm.LimitAttached.Name)
	if err != nil || limit == nil {
		return unknown(plan.Finding.And("All backends fit."), s.LB, ccm.LimitAttached.Name), err
	}
	n, err := c.Behind(ctx, s.LB)
	if err != nil {
		return remedy.Plan{}, err
	}
	balancers := say.Count(n, "load balancer")
	if s.Mode == ccm.PodMode || float64(n) <= limit.Total {
		plan.Finding = plan.Finding.And("According to these figures, all backends fit. The servers are behind at most %s, and the limit is %.0f (%s).",
			balancers, limit.Total, limit.Name)
		return compare(c, plan), nil
	}
	plan.Cause = limit.Name
	plan.Finding = plan.Finding.And("All backends fit, but the Services of the cluster put its nodes behind %s, and a server can be behind at most %.0f (%s).",
		balancers, limit.Total, limit.Name)
	plan.Ask = say.F("Let several Services share a load balancer through the annotation %s.", ccm.Prefix+"id").
		And("Or use only some nodes for each Service, with the annotation %s or externalTrafficPolicy Local.", ccm.Prefix+"backend-label")
	reason := fmt.Sprintf("The Services of a Kubernetes cluster put its nodes behind %d load balancers, and %.0f is the limit.", n, limit.Total)
	return step.Raise(ctx, c, plan, *limit, float64(n), reason)
}

func compare(c *remedy.Case, plan remedy.Plan) remedy.Plan {
	plan.Wait = c.PollInterval()
	plan.Ask = say.F("Compare the limits in the quota center with what the load balancer has in the console.").
		And("Check the controller's log for the group that it could not fill: %s.", c.LogQuery())
	return plan
}

func unknown(figures say.Text, lb, limit string) remedy.Plan {
	finding := figures.And("The quota center has no limit %s in this region, so the maximum is unknown.", limit)
	ask := say.F("Look up in the quota center how many backends a load balancer can have and how many load balancers a server can be behind.").
		And("Apply for more.")
	return remedy.Plan{Finding: finding, Cause: lb, Ask: ask}
}

func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	s, err := c.Room(ctx, c.Family())
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(s.LB == "" || s.Short()), nil
}
