// Package backendquota remedies Services whose load balancer can't take all backends.
package backendquota

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
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
	Reads: slices.Concat(
		[]grant.Grant{grant.ListServices, grant.ListProductQuotas}, ccm.CandidateReads, ccm.NetworkReads, step.RaiseReads),
	Steps:      []remedy.Step{step.ApplyQuota{}},
	Scope:      remedy.Account,
	Diagnose:   diagnose,
	StillFails: stillFails,
	Sees:       true,
}

// cycle is how long the controller gets to recover: it adds backends again after it has
// removed others, and retries after 5, 10, 20 s and so on.
const cycle = time.Minute

// A state is what the Service needs and what its load balancer has.
type state struct {
	ccm.Candidates
	c    *remedy.Case
	rest ccm.Tally // backends of the load balancer that are not of the Service's ports
}

// read reads what the Service needs and what its load balancer has.
func read(ctx context.Context, c *remedy.Case) (*state, error) {
	all, err := c.Candidates(ctx, c.Family())
	if err != nil {
		return nil, err
	}
	s := &state{Candidates: all, c: c}
	if ccm.NLB(c.Service) {
		lb, err := c.Bound(ctx)
		if err != nil {
			return nil, err
		}
		if lb != nil {
			s.LB = lb.ID
		}
	}
	if s.LB == "" {
		return s, nil
	}
	s.rest, err = c.Tenants(ctx, s.LB, s.Groups)
	return s, err
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	s, err := read(ctx, c)
	if err != nil {
		return remedy.Plan{}, err
	}
	if s.LB == "" {
		return c.NoBalancer(say.F("how many backends it has")), nil
	}
	product, name := "slb", ccm.LimitBackends.Name
	if ccm.NLB(c.Service) {
		product, name = "nlb", ccm.LimitNLBBackends.Name
	}
	limit, err := named(ctx, c, product, name)
	if err != nil {
		return remedy.Plan{}, err
	}
	plan := s.plan(limit, name)
	total := s.total()
	switch {
	case limit.Name == "", plan.Wait > 0:
		return plan, nil
	case float64(total) > limit.Total:
		reason := fmt.Sprintf("A Kubernetes Service needs %d backends on the load balancer %s, and %.0f is the limit.", total, s.LB, limit.Total)
		return step.Raise(ctx, c, plan, limit, float64(total), reason)
	case ccm.NLB(c.Service):
		plan.Finding = plan.Finding.And("By these figures, all backends fit.")
		return compare(c, plan), nil
	}
	return servers(ctx, c, s, plan)
}

// named reads a limit; its name is empty if the quota center has none of that name.
func named(ctx context.Context, c *remedy.Case, product, name string) (cloud.Quota, error) {
	limit, err := c.Cloud.Quotas.Named(ctx, product, name)
	switch {
	case errors.Is(err, cloud.ErrNotFound):
		return cloud.Quota{}, nil
	case err != nil:
		return limit, fmt.Errorf("read the limit %s: %w", name, err)
	}
	return limit, nil
}

// servers completes the plan if the load balancer has room: its servers may be behind too many load
// balancers.
func servers(ctx context.Context, c *remedy.Case, s *state, plan remedy.Plan) (remedy.Plan, error) {
	limit, err := named(ctx, c, "slb", ccm.LimitAttached.Name)
	if err != nil {
		return remedy.Plan{}, err
	}
	if limit.Name == "" {
		return unknown(plan.Finding.And("All backends fit."), s.LB, ccm.LimitAttached.Name), nil
	}
	services, err := c.Kube.Services(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	cluster, err := c.Cloud.CS.Cluster(ctx)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("describe the cluster: %w", err)
	}
	n := ccm.Behind(cluster, services, s.LB)
	plan = s.attached(plan, n, limit)
	if plan.Wait > 0 {
		return plan, nil
	}
	reason := fmt.Sprintf("The Services of a Kubernetes cluster put its nodes behind %d load balancers, and %.0f is the limit.", n, limit.Total)
	return step.Raise(ctx, c, plan, limit, float64(n), reason)
}

// stillFails reports whether a port of the Service has fewer backends than it needs.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	s, err := read(ctx, c)
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(s.LB == "" || s.Short()), nil
}
