// Package noavailablenodes remedies Services whose load balancer has no backend attached.
package noavailablenodes

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

// Remedy finds out why no backend is attached. It moves a Pod off a master if only that helps.
var Remedy = &remedy.Remedy{
	Class: "no-available-nodes",
	Doc:   doc,
	Texts: []string{
		"There are no available nodes for LoadBalancer",
		"There are no available nodes for NetworkLoadBalancer",
		"no available backend loadbalancer nodes",
	},
	Reads: slices.Concat(
		[]grant.Grant{grant.DescribeClusterDetail, grant.ListNodes, grant.ListPods, grant.ListEndpointSlices, grant.DescribeNetworkInterfaces},
		ccm.GroupReads),
	Steps:      []remedy.Step{step.Evict{}},
	Diagnose:   diagnose,
	StillFails: stillFails,
	Sees:       true,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	mode, err := c.BackendMode(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	groups, lb, err := c.Groups(ctx, mode)
	if err != nil {
		return remedy.Plan{}, err
	}
	s := state{c: c, mode: mode, family: c.Family(), opening: opening(c, groups, lb), empty: empty(groups)}
	if s.nodes, err = c.Kube.Nodes(ctx); err != nil {
		return remedy.Plan{}, err
	}
	if s.endpoints, err = c.Kube.EndpointSlices(ctx, c.Service.Namespace, c.Service.Name); err != nil {
		return remedy.Plan{}, err
	}
	if s.pods, err = c.Kube.Pods(ctx, c.Service.Namespace, nil); err != nil {
		return remedy.Plan{}, err
	}
	if ready := s.ready(); mode == ccm.PodMode && len(ready) > 0 {
		cluster, err := c.Cloud.CS.Cluster(ctx)
		if err != nil {
			return remedy.Plan{}, fmt.Errorf("describe the cluster: %w", err)
		}
		var ips []string
		for _, e := range ready {
			ips = append(ips, e.IP)
		}
		if s.interfaces, err = c.Cloud.ECS.Interfaces(ctx, cluster.VPC, ips); err != nil {
			return remedy.Plan{}, fmt.Errorf("look up the network interfaces of the Pods: %w", err)
		}
	}
	return s.judge(), nil
}

// empty returns the groups that hold no backend.
func empty(groups []ccm.Group) []ccm.Group {
	return slices.DeleteFunc(slices.Clone(groups), func(g ccm.Group) bool { return g.Servers > 0 })
}

// opening says which ports have no backend.
func opening(c *remedy.Case, groups []ccm.Group, lb string) say.Text {
	var text say.Text
	if lb != "" {
		text = say.F("The Service has the load balancer %s.", lb)
	} else if !ccm.NLB(c.Service) {
		text = say.F("No load balancer of the Service was found.")
	}
	for _, g := range empty(groups) {
		if g.ID == "" {
			text = text.And("No backend is attached to port %d, which has no group.", g.Port.Port)
		} else {
			text = text.And("No backend is attached to port %d: its group %s is empty.", g.Port.Port, g.ID)
		}
	}
	return text
}

// stillFails reports whether a port of the Service has no backend. The controller reports that in a sync
// that succeeds, and therefore nothing that it leaves on the Service shows it.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	mode, err := c.BackendMode(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	groups, _, err := c.Groups(ctx, mode)
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(len(empty(groups)) > 0), nil
}
