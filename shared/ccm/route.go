package ccm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/say"
)

// RoutingReads is what Routing reads; a class that calls it declares it.
var RoutingReads = []grant.Grant{grant.ListNodes, grant.DescribeClusterDetail, grant.DescribeRouteTableList, grant.DescribeRouteEntryList}

// CloudTaint is the taint that a Node has until the controller has initialized it (k8s.io/cloud-provider/api).
const CloudTaint = "node.cloudprovider.kubernetes.io/uninitialized"

// A Table is a route table of the cluster's VPC.
type Table struct {
	ID      string
	Entries []cloud.Route // the custom ones
}

// Routing is how the VPC of a cluster routes to the Pods of its Nodes.
type Routing struct {
	Cluster cloud.Cluster
	Tables  []Table
	All     []corev1.Node
	Nodes   []corev1.Node // those for which the controller keeps a route; see NeedsRoute
}

// Routing reads the route tables of the cluster's VPC, and the Nodes that need a route, which the controller keeps only with Flannel. No API
// returns which of several tables it uses in a managed cluster, so a Node has its route if any table has it.
func (c *View) Routing(ctx context.Context) (Routing, error) {
	var r Routing
	var err error
	if r.Cluster, err = c.Cloud.CS.Cluster(ctx); err != nil {
		return r, fmt.Errorf("describe the cluster: %w", err)
	}
	if r.Cluster.Network == "" {
		return r, errors.New("the API does not say which network plug-in the cluster has, so it is unknown whether its nodes need routes")
	}
	if r.All, err = c.Kube.Nodes(ctx); err != nil {
		return r, fmt.Errorf("list nodes: %w", err)
	}
	if flannel(Features{cluster: r.Cluster}) {
		r.Nodes = slices.DeleteFunc(slices.Clone(r.All), func(n corev1.Node) bool { return !NeedsRoute(&n) })
	}
	tables, err := c.Cloud.VPC.RouteTables(ctx, r.Cluster.VPC)
	if err != nil {
		return r, fmt.Errorf("list the route tables of %s: %w", r.Cluster.VPC, err)
	}
	for _, id := range tables {
		entries, err := c.Cloud.VPC.Routes(ctx, id)
		if err != nil {
			return r, fmt.Errorf("list the entries of the route table %s: %w", id, err)
		}
		r.Tables = append(r.Tables, Table{id, slices.DeleteFunc(entries, func(e cloud.Route) bool { return e.Type != "Custom" })})
	}
	return r, nil
}

// NeedsRoute reports whether the controller keeps a route for a Node: not if it ignores the Node, or if that is silent, being deleted, or
// without an instance or a block of Pods (needSyncRoute and batchSyncCloudRoutes in pkg/controller/route).
func NeedsRoute(n *corev1.Node) bool {
	_, _, ecs := SplitProviderID(n.Spec.ProviderID)
	silent := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown
	})
	return ecs && !IsHybrid(n) && !silent && n.DeletionTimestamp == nil && labelOf(n, ignoreLabels) == "" && PodBlock(n) != ""
}

// PodBlock returns the block of IPv4 addresses of a Node's Pods, or "".
func PodBlock(n *corev1.Node) string {
	for _, block := range append(slices.Clip(n.Spec.PodCIDRs), n.Spec.PodCIDR) {
		if p, err := netip.ParsePrefix(block); err == nil && p.Addr().Is4() {
			return block
		}
	}
	return ""
}

func leads(e cloud.Route, n *corev1.Node) bool {
	return e.Block == PodBlock(n) && e.Next != "" && e.Next == instanceOf(n)
}

// Routed reports whether a table leads to a Node's Pods.
func (r Routing) Routed(n *corev1.Node) bool {
	return slices.ContainsFunc(r.Tables, func(t Table) bool {
		return slices.ContainsFunc(t.Entries, func(e cloud.Route) bool { return leads(e, n) })
	})
}

// Unrouted returns the Nodes that lack the route they need; a name limits it to that Node.
func (r Routing) Unrouted(name string) []corev1.Node {
	return slices.DeleteFunc(slices.Clone(r.Nodes), func(n corev1.Node) bool { return name != "" && n.Name != name || r.Routed(&n) })
}

// Elsewhere returns the entries with a Node's block that lead to something else.
func (r Routing) Elsewhere(n *corev1.Node) (out []cloud.Route) {
	for _, t := range r.Tables {
		for _, e := range t.Entries {
			if e.Block == PodBlock(n) && !leads(e, n) {
				out = append(out, e)
			}
		}
	}
	return out
}

// Stranded are the Nodes that the controller has not finished with.
type Stranded struct {
	Unrouted []string // they need a route and have none
	Tainted  []string // they have CloudTaint
}

// Stranded returns the Nodes without a route or with the taint; a name limits it to that Node.
func (c *View) Stranded(ctx context.Context, name string) (s Stranded, err error) {
	r, err := c.Routing(ctx)
	if err != nil {
		return s, err
	}
	for _, n := range r.All {
		if (name == "" || n.Name == name) && Tainted(&n) {
			s.Tainted = append(s.Tainted, n.Name)
		}
	}
	s.Unrouted = NodeNames(r.Unrouted(name))
	return s, nil
}

// Any reports whether such Nodes exist.
func (s Stranded) Any() bool { return len(s.Unrouted)+len(s.Tainted) > 0 }

// Describe names these Nodes, and the effect.
func (s Stranded) Describe() (text say.Text) {
	if len(s.Unrouted) > 0 {
		text = text.And("No route leads to the Pods of these nodes, so other nodes cannot reach them: %s.", say.List(s.Unrouted, 5))
	}
	if len(s.Tainted) > 0 {
		text = text.And("These nodes are not initialized, so no Pods are scheduled on them: %s.", say.List(s.Tainted, 5))
	}
	return text
}

// NodeNamed returns the node of this name, or nil. It needs GetNodes.
func (c *View) NodeNamed(ctx context.Context, name string) (*corev1.Node, error) {
	n, err := c.Kube.Node(ctx, name)
	if errors.Is(err, kube.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read node %s: %w", name, err)
	}
	return n, nil
}

// Fullest returns the fullest table that leads to a Node of the cluster, or the VPC's only one; zero if it is unknown which the controller uses.
func (r Routing) Fullest() Table {
	used := slices.DeleteFunc(slices.Clone(r.Tables), func(t Table) bool {
		return len(r.Tables) > 1 && !slices.ContainsFunc(t.Entries, func(e cloud.Route) bool {
			return slices.ContainsFunc(r.Nodes, func(n corev1.Node) bool { return leads(e, &n) })
		})
	})
	if len(used) == 0 {
		return Table{}
	}
	return slices.MaxFunc(used, func(a, b Table) int { return len(a.Entries) - len(b.Entries) })
}

// RouteTablesCommand lists the route tables of a VPC.
func RouteTablesCommand(region, vpc string) string {
	return "aliyun vpc DescribeRouteTableList --RegionId " + region + " --VpcId " + vpc
}

// SaveRoutes says what helps besides a higher limit on routes.
func SaveRoutes() say.Text { return savings[LimitRoutes.Name] }

// NodeNames returns the names of nodes.
func NodeNames(nodes []corev1.Node) []string {
	var names []string
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	return names
}

// Tainted reports whether a Node has CloudTaint, because the controller has not initialized it.
func Tainted(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == CloudTaint })
}
