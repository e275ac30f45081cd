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
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy applies for a higher limit, or asks and names the ways to need fewer backends.
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
	StillFails: holds,
	Sees:       true,
}

// The limits that this failure can be about:
// https://www.alibabacloud.com/help/en/slb/classic-load-balancer/user-guide/quotas
// and https://www.alibabacloud.com/help/en/slb/network-load-balancer/product-overview/limits
const (
	perBalancer = "slb_quota_backendservers_num"             // backends of one CLB
	perServer   = "slb_quota_backendserver_attached_num"     // CLBs of one server
	perNetwork  = "nlb_quota_loadbalancer_noeci_servers_num" // backends of one NLB, Pods on virtual nodes left out
)

// cycle is how long to wait for the controller: it adds backends again after it has
// removed others, and retries after 5, 10, 20 s and so on.
const cycle = time.Minute

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	s, err := read(ctx, c)
	if err != nil {
		return remedy.Plan{}, err
	}
	if s.lb == "" {
		return c.NoBalancer("how many backends it has"), nil
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
		plan.Finding += " The controller removes backends that are gone and adds the others again: it gets a minute for that."
		plan.Wait = max(time.Second, min(left, c.PollInterval()))
		return plan, nil
	}
	if total := s.total(); float64(total) > limit.Total {
		plan.Ask = s.ways(int(limit.Total))
		return step.Raise(ctx, c, plan, limit, float64(total), fmt.Sprintf("A Kubernetes Service needs %d backends on the load balancer %s, and %.0f is the limit.", total, s.lb, limit.Total))
	}
	if s.nlb {
		plan.Finding += " By these figures it fits."
		return compare(c, plan), nil
	}
	return servers(ctx, c, s, plan)
}

// compare completes a plan where no figure explains the failure.
func compare(c *remedy.Case, plan remedy.Plan) remedy.Plan {
	plan.Wait = c.PollInterval()
	plan.Ask = "Compare the limits in the quota center with what the load balancer has in the console, and look which group the controller could not fill: " + c.LogQuery() + "."
	return plan
}

// unknown answers where the quota center does not have a limit under its name.
func unknown(figures, lb, limit string) remedy.Plan {
	return remedy.Plan{
		Finding: figures + fmt.Sprintf(" The quota center has no limit %s in this region, so that the most can't be told.", limit),
		Cause:   lb,
		Ask:     "Look up in the quota center how many backends a load balancer can have, and how many load balancers a server, and apply for more.",
	}
}

// servers answers if the load balancer has room: its servers may then be behind too
// many load balancers.
func servers(ctx context.Context, c *remedy.Case, s state, plan remedy.Plan) (remedy.Plan, error) {
	limit, err := c.Cloud.Quotas.Named(ctx, "slb", perServer)
	switch {
	case errors.Is(err, cloud.ErrNotFound):
		return unknown(plan.Finding+" That fits.", s.lb, perServer), nil
	case err != nil:
		return remedy.Plan{}, fmt.Errorf("read the limit %s: %w", perServer, err)
	}
	services, err := c.Kube.Services(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	balancers := sharing(services, s.terway, s.lb)
	if s.mode != ccm.PodMode && float64(balancers) > limit.Total {
		plan.Cause = perServer
		plan.Finding += fmt.Sprintf(" That fits, but the Services of the cluster put its nodes behind %s, and a server can be behind %.0f (%s).", ccm.Count(balancers, "load balancer"), limit.Total, perServer)
		plan.Ask = fmt.Sprintf("Let several Services share a load balancer by the annotation %sid, or let each use some nodes alone, by %sbackend-label or with externalTrafficPolicy Local.", ccm.Prefix, ccm.Prefix)
		return step.Raise(ctx, c, plan, limit, float64(balancers), fmt.Sprintf("The Services of a Kubernetes cluster put its nodes behind %d load balancers, and %.0f is the limit.", balancers, limit.Total))
	}
	plan.Finding += fmt.Sprintf(" By these figures it fits, and its servers are behind no more than %s of %.0f (%s).", ccm.Count(balancers, "load balancer"), limit.Total, perServer)
	return compare(c, plan), nil
}

// holds reports whether a port of the Service has fewer backends than it should have.
func holds(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
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

// network finds the NLB and counts the backends of its other listeners.
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
