package ccm

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
)

// CandidateReads is what Candidates reads; a class that calls it declares it.
var CandidateReads = append([]grant.Grant{grant.DescribeClusterDetail, grant.ListNodes, grant.ListEndpointSlices}, GroupReads...)

// Candidates are the nodes and Pods from which the controller chooses a Service's backends, and the groups that hold them.
type Candidates struct {
	Service *corev1.Service
	Mode    BackendMode
	Family  discoveryv1.AddressType // of the backends
	Nodes   []corev1.Node
	Slices  []discoveryv1.EndpointSlice
	Groups  []Group // of the Service's ports
	LB      string  // ID; empty if not found, and for an NLB
}

// Candidates reads the candidates of the Service. family is that of its backends.
func (c *View) Candidates(ctx context.Context, family discoveryv1.AddressType) (Candidates, error) {
	s := Candidates{Service: c.Service, Family: family}
	var err error
	if s.Mode, err = c.BackendMode(ctx); err != nil {
		return s, err
	}
	if s.Groups, s.LB, err = c.Groups(ctx, s.Mode); err != nil {
		return s, err
	}
	if s.Nodes, err = c.Kube.Nodes(ctx); err != nil {
		return s, err
	}
	s.Slices, err = c.Kube.EndpointSlices(ctx, c.Service.Namespace, c.Service.Name)
	return s, err
}

// Node returns the node with this name, or nil.
func (s *Candidates) Node(name string) *corev1.Node {
	if i := slices.IndexFunc(s.Nodes, func(n corev1.Node) bool { return n.Name == name }); i >= 0 {
		return &s.Nodes[i]
	}
	return nil
}

// Ready returns the ready endpoints behind the ports of these groups, each address once.
func (s *Candidates) Ready(groups []Group) []Endpoint {
	var all []Endpoint
	for _, g := range groups {
		for _, e := range Ready(s.Slices, g.Port, s.Family) {
			if !slices.ContainsFunc(all, func(o Endpoint) bool { return o.IP == e.IP }) {
				all = append(all, e)
			}
		}
	}
	return all
}

// Needs returns how many backends a port needs in a mode with the nodes that keep accepts; nil accepts all.
func (s *Candidates) Needs(mode BackendMode, p corev1.ServicePort, keep func(*corev1.Node) bool) int {
	ready := Ready(s.Slices, p, s.Family)
	if mode == PodMode {
		return len(slices.DeleteFunc(ready, func(e Endpoint) bool { return !PodServes(s.Node(e.Node), s.Service) }))
	}
	with := map[string]int{} // Pods by node
	for _, e := range ready {
		with[e.Node]++
	}
	n := 0
	for i := range s.Nodes {
		node := &s.Nodes[i]
		switch why, _ := ExclusionOf(node, s.Service); {
		case why == Virtual && NLB(s.Service):
			// its Pods are backends themselves, and do not count toward the limit of NLBs
		case why == Virtual:
			n += with[node.Name]
		case why == Serves && (keep == nil || keep(node)) && (mode == ClusterMode || with[node.Name] > 0):
			n++
		}
	}
	return n
}

// Demand returns how many backends the Service needs, as in Needs. Ports with the same target share a group.
func (s *Candidates) Demand(mode BackendMode, keep func(*corev1.Node) bool) int {
	by := map[string]int{}
	for _, g := range s.Groups {
		by[g.Name] = max(by[g.Name], s.Needs(mode, g.Port, keep))
	}
	n := 0
	for _, k := range by {
		n += k
	}
	return n
}

// Attached returns how many backends the groups of the Service have.
func (s *Candidates) Attached() int {
	by := map[string]int{}
	for _, g := range s.Groups {
		by[g.Name] = g.Servers
	}
	n := 0
	for _, k := range by {
		n += k
	}
	return n
}

// Short reports whether a port has fewer backends than it needs.
func (s *Candidates) Short() bool {
	return slices.ContainsFunc(s.Groups, func(g Group) bool { return g.Servers < s.Needs(s.Mode, g.Port, nil) })
}

// Label returns the label, of the most nodes, that limits the Service to at most most backends, with its nodes and backends; or empty.
func (s *Candidates) Label(most int) (label string, nodes, backends int) {
	if s.Mode == PodMode {
		return "", 0, 0
	}
	count := map[string]int{}
	serving := 0
	for i := range s.Nodes {
		if why, _ := ExclusionOf(&s.Nodes[i], s.Service); why != Serves {
			continue
		}
		serving++
		for k, v := range s.Nodes[i].Labels {
			if k != corev1.LabelHostname && v != "" {
				count[k+"="+v]++
			}
		}
	}
	all := slices.Collect(maps.Keys(count))
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(-cmp.Compare(count[a], count[b]), cmp.Compare(a, b)) })
	for _, l := range all {
		if count[l] == serving {
			continue // all nodes have it
		}
		key, value, _ := strings.Cut(l, "=")
		n := s.Demand(s.Mode, func(node *corev1.Node) bool { return node.Labels[key] == value })
		if n > 0 && n <= most {
			return l, count[l], n
		}
	}
	return "", 0, 0
}

// Tenants counts the backends that a load balancer has besides those of the Service's ports. It needs DescribeVServerGroups for a CLB, and
// ListNLBListeners and ListServerGroupServers for an NLB.
func (c *View) Tenants(ctx context.Context, lb string, own []Group) (Tally, error) {
	var t Tally
	seen := map[string]bool{"": true} // a listener may have no group
	for _, g := range own {
		seen[g.ID] = true
	}
	if !NLB(c.Service) {
		all, err := c.Cloud.SLB.VServerGroups(ctx, lb)
		if err != nil {
			return t, fmt.Errorf("list vServer groups of %s: %w", lb, err)
		}
		for _, g := range all {
			if !seen[g.ID] {
				t.Add(g.Name, g.Servers, c.Service, c.Cluster)
			}
		}
		return t, nil
	}
	all, err := c.Cloud.NLB.Listeners(ctx, lb)
	if err != nil {
		return t, fmt.Errorf("list listeners of %s: %w", lb, err)
	}
	for _, l := range all {
		if seen[l.ServerGroup] {
			continue
		}
		seen[l.ServerGroup] = true
		servers, err := c.Cloud.NLB.Servers(ctx, l.ServerGroup)
		if err != nil {
			return t, fmt.Errorf("list servers of group %s: %w", l.ServerGroup, err)
		}
		t.Add(l.Description, len(servers), c.Service, c.Cluster)
	}
	return t, nil
}

// Behind returns behind how many CLBs the Services of a cluster put its nodes, always counting the CLB lb.
func Behind(cluster cloud.Cluster, services []corev1.Service, lb string) int {
	balancers := map[string]bool{lb: true}
	for i := range services {
		svc := &services[i]
		if svc.Spec.Type != corev1.ServiceTypeLoadBalancer || NLB(svc) || ModeOf(svc, cluster.Network) == PodMode {
			continue
		}
		if id := svc.Labels[BalancerLabel]; id != "" {
			balancers[id] = true
		}
	}
	return len(balancers)
}

// Interfaces returns the cluster's network interfaces with these addresses. It needs DescribeClusterDetail and DescribeNetworkInterfaces.
func (c *View) Interfaces(ctx context.Context, of []Endpoint) ([]cloud.Interface, error) {
	cluster, err := c.Cloud.CS.Cluster(ctx)
	if err != nil {
		return nil, fmt.Errorf("describe the cluster: %w", err)
	}
	var ips []string
	for _, e := range of {
		ips = append(ips, e.IP)
	}
	all, err := c.Cloud.ECS.Interfaces(ctx, cluster.VPC, ips)
	if err != nil {
		return nil, fmt.Errorf("look up the network interfaces of the Pods: %w", err)
	}
	return all, nil
}

// Interface returns the interface that has the endpoint's address, or nil.
func (e Endpoint) Interface(all []cloud.Interface) *cloud.Interface {
	i := slices.IndexFunc(all, func(i cloud.Interface) bool { return i.IP == e.IP || slices.Contains(i.IPs, e.IP) })
	if i < 0 {
		return nil
	}
	return &all[i]
}
