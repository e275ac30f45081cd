package testbed

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/sim"
)

const allPods = "172.20.0.0/16"

const saysRouteDenied = "You are not authorized to do this action. You should be authorized by RAM."

// NoRoute is a new node without a route, because the controller's role has lost the right to create one. Releases before v2.11.2
// create each route separately and report it for the node. They retry after five minutes, so the clock is fast.
func NoRoute() Fixture {
	return Fixture{
		Name: "denied-route", Class: permission, Kind: event.KindNode, Says: saysRouteDenied, Ends: event.Fixed, Heals: true,
		Config: Config{Version: "v2.10.0", Speed: 60, Routes: true, Own: "policy without a right to routes"},
		Story:  "It joins, and the controller's RAM role has lost the right to create a route.",
		inject: inOrder(routesMade, loses("vpc:CreateRouteEntry", "vpc:DeleteRouteEntry"), nodeJoins),
		repair: allowed(),
	}
}

// NoRoutes is a cluster with a new node without a route, because the controller's role lacks a right that v2.11.2 and later need:
// they create routes in one call, whose failure concerns all routes rather than a node.
func NoRoutes() Fixture {
	return Fixture{
		Name: "denied-routes", Class: permission, Kind: event.KindCluster, Says: saysRouteDenied, Ends: event.Fixed, Heals: true,
		Config: Config{Routes: true, Own: "policy without a right to several routes"},
		Story:  "A node joins, and the controller's RAM role lacks the right to create several routes at once, which came with v2.11.2.",
		inject: inOrder(routesMade, loses("vpc:CreateRouteEntries", "vpc:DeleteRouteEntries"), nodeJoins),
		repair: allowed(),
	}
}

func loses(actions ...string) operation {
	return account(func(st *sim.State) {
		p := st.Policies[rolePolicy]
		for i := range p.Versions {
			if p.Versions[i].ID == poorVersion {
				p.Versions[i].Document = document(without(actions...))
			}
		}
		impoverish(st)
	})
}

func routesMade(ctx context.Context, tb *Testbed, _ string) error {
	return tb.Until(ctx, func() bool { return tb.routed(event.Service{}) })
}

func nodeJoins(ctx context.Context, tb *Testbed, name string) error {
	_, err := tb.node(ctx, kind(name))
	return err
}

// About returns the fixture's object, without UID.
func (tb *Testbed) About(f Fixture) event.Service {
	switch f.Kind {
	case event.KindNode:
		return event.Service{Kind: f.Kind, Name: tb.Namespace + "-" + f.Service}
	case event.KindCluster:
		return event.Thing(tb.ID, f.Kind, tb.ID)
	}
	return event.Service{Namespace: tb.Namespace, Name: f.Service}
}

func (tb *Testbed) keyOf(service string) string {
	tb.mu.Lock()
	kind := tb.kinds[service]
	tb.mu.Unlock()
	if kind == "" {
		return service
	}
	return tb.About(Fixture{Service: service, Kind: kind}).String()
}

func (tb *Testbed) routed(about event.Service) bool {
	nodes := tb.watch.allNodes()
	if about.Kind == event.KindNode {
		nodes = slices.DeleteFunc(nodes, func(n *corev1.Node) bool { return n.Name != about.Name })
	}
	lacks := len(nodes) == 0
	tb.Cloud.View(func(st *sim.State) {
		for _, n := range nodes {
			lacks = lacks || !leadsTo(st, n)
		}
	})
	return !lacks
}

func leadsTo(st *sim.State, n *corev1.Node) bool {
	made := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse
	})
	for _, t := range st.RouteTables {
		if t.VPC == vpc && slices.ContainsFunc(t.Routes, func(r sim.Route) bool {
			return r.Block == n.Spec.PodCIDR && region+"."+r.NextHop == n.Spec.ProviderID && r.Status == "Available"
		}) {
			return made
		}
	}
	return false
}
