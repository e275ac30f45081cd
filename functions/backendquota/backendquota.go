// Package backendquota remedies Services whose load balancer can't take all backends.
package backendquota

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
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
		[]grant.Grant{grant.DescribeClusterDetail, grant.ListNodes, grant.ListEndpointSlices, grant.ListServices, grant.ListProductQuotas},
		ccm.GroupReads, ccm.NetworkReads, step.RaiseReads),
	Steps:      []remedy.Step{step.ApplyQuota{}},
	Scope:      remedy.Account,
	Diagnose:   diagnose,
	StillFails: stillFails,
	Sees:       true,
}

// The limits that can cause this failure:
// https://www.alibabacloud.com/help/en/slb/classic-load-balancer/user-guide/quotas
// and https://www.alibabacloud.com/help/en/slb/network-load-balancer/product-overview/limits
const (
	perBalancer = "slb_quota_backendservers_num"             // backends of one CLB
	perServer   = "slb_quota_backendserver_attached_num"     // CLBs of one server
	perNetwork  = "nlb_quota_loadbalancer_noeci_servers_num" // backends of one NLB, without Pods on virtual nodes
)

// cycle is how long the controller gets to recover: it adds backends again after it has
// removed others, and retries after 5, 10, 20 s and so on.
const cycle = time.Minute

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	s, err := read(ctx, c)
	if err != nil {
		return remedy.Plan{}, err
	}
	if s.lb == "" {
		return c.NoBalancer(say.F("how many backends it has")), nil
	}
	product, name := "slb", perBalancer
	if s.nlb {
		product, name = "nlb", perNetwork
	}
	limit, err := c.Cloud.Quotas.Named(ctx, product, name)
	switch {
	case errors.Is(err, cloud.ErrNotFound):
		return unknown(s.says(limit), s.lb, name), nil
	case err != nil:
		return remedy.Plan{}, fmt.Errorf("read the limit %s: %w", name, err)
	}
	plan := remedy.Plan{Finding: s.says(limit), Cause: s.lb}
	if left := cycle - c.Waited(); left > 0 {
		plan.Finding = plan.Finding.And("The controller removes backends that no longer exist and adds the others again. lbremedy waits a minute for that.")
		plan.Wait = max(time.Second, min(left, c.PollInterval()))
		return plan, nil
	}
	if total := s.total(); float64(total) > limit.Total {
		plan.Ask = s.ways(int(limit.Total))
		reason := fmt.Sprintf("A Kubernetes Service needs %d backends on the load balancer %s, and %.0f is the limit.", total, s.lb, limit.Total)
		return step.Raise(ctx, c, plan, limit, float64(total), reason)
	}
	if s.nlb {
		plan.Finding = plan.Finding.And("By these figures, all backends fit.")
		return compare(c, plan), nil
	}
	return servers(ctx, c, s, plan)
}

// compare completes a plan where no figure explains the failure.
func compare(c *remedy.Case, plan remedy.Plan) remedy.Plan {
	plan.Wait = c.PollInterval()
	plan.Ask = say.F("Compare the limits in the quota center with what the load balancer has in the console.").
		And("Check the controller's log for the group that it could not fill: %s.", c.LogQuery())
	return plan
}

// unknown is the plan if the quota center has no limit of that name.
func unknown(figures say.Text, lb, limit string) remedy.Plan {
	return remedy.Plan{
		Finding: figures.And("The quota center has no limit %s in this region, so the maximum is unknown.", limit),
		Cause:   lb,
		Ask: say.F("Look up in the quota center how many backends a load balancer can have and how many load balancers a server can be behind.").
			And("Apply for more."),
	}
}

// servers is the plan if the load balancer has room: its servers may be behind too many
// load balancers.
func servers(ctx context.Context, c *remedy.Case, s state, plan remedy.Plan) (remedy.Plan, error) {
	limit, err := c.Cloud.Quotas.Named(ctx, "slb", perServer)
	switch {
	case errors.Is(err, cloud.ErrNotFound):
		return unknown(plan.Finding.And("All backends fit."), s.lb, perServer), nil
	case err != nil:
		return remedy.Plan{}, fmt.Errorf("read the limit %s: %w", perServer, err)
	}
	services, err := c.Kube.Services(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	n := sharing(services, s.terway, s.lb)
	balancers := say.Count(n, "load balancer")
	if s.mode == ccm.PodMode || float64(n) <= limit.Total {
		plan.Finding = plan.Finding.And("By these figures, all backends fit. The servers are behind at most %s, and the limit is %.0f (%s).",
			balancers, limit.Total, perServer)
		return compare(c, plan), nil
	}
	plan.Cause = perServer
	plan.Finding = plan.Finding.And("All backends fit, but the Services of the cluster put its nodes behind %s, and a server can be behind at most %.0f (%s).",
		balancers, limit.Total, perServer)
	plan.Ask = say.F("Let several Services share a load balancer through the annotation %s.", ccm.Prefix+"id").
		And("Or use only some nodes for each Service, with the annotation %s or externalTrafficPolicy Local.", ccm.Prefix+"backend-label")
	reason := fmt.Sprintf("The Services of a Kubernetes cluster put its nodes behind %d load balancers, and %.0f is the limit.", n, limit.Total)
	return step.Raise(ctx, c, plan, limit, float64(n), reason)
}

// stillFails reports whether a port of the Service has fewer backends than it needs.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	s, err := read(ctx, c)
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(s.lb == "" || s.short()), nil
}

// read reads what the Service needs and what its load balancer has.
func read(ctx context.Context, c *remedy.Case) (state, error) {
	s := state{c: c, nlb: ccm.NLB(c.Service)}
	var err error
	if s.mode, err = c.BackendMode(ctx); err != nil {
		return s, err
	}
	if s.nodes, err = c.Kube.Nodes(ctx); err != nil {
		return s, err
	}
	if s.ends, err = c.Kube.EndpointSlices(ctx, c.Service.Namespace, c.Service.Name); err != nil {
		return s, err
	}
	if s.groups, s.lb, err = c.Groups(ctx, s.mode); err != nil {
		return s, err
	}
	if s.nlb {
		return s, s.network(ctx)
	}
	if s.lb == "" {
		return s, nil
	}
	all, err := c.Cloud.SLB.VServerGroups(ctx, s.lb)
	if err != nil {
		return s, fmt.Errorf("list vServer groups of %s: %w", s.lb, err)
	}
	for _, g := range all {
		s.other(g.ID, g.Name, g.Servers)
	}
	cluster, err := c.Cloud.CS.Cluster(ctx)
	if err != nil {
		return s, fmt.Errorf("describe the cluster: %w", err)
	}
	s.terway = strings.HasPrefix(cluster.Network, "terway")
	return s, nil
}

// network reads the NLB and the backends of its other listeners.
func (s *state) network(ctx context.Context) error {
	lb, err := s.c.Bound(ctx)
	if err != nil || lb == nil {
		return err
	}
	s.lb = lb.ID
	all, err := s.c.Cloud.NLB.Listeners(ctx, s.lb)
	if err != nil {
		return fmt.Errorf("list listeners of %s: %w", s.lb, err)
	}
	seen := map[string]bool{}
	for _, l := range all {
		if l.ServerGroup == "" || seen[l.ServerGroup] || s.owns(l.ServerGroup) {
			continue
		}
		seen[l.ServerGroup] = true
		servers, err := s.c.Cloud.NLB.Servers(ctx, l.ServerGroup)
		if err != nil {
			return fmt.Errorf("list servers of group %s: %w", l.ServerGroup, err)
		}
		s.other(l.ServerGroup, l.Description, len(servers))
	}
	return nil
}
