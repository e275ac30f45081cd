package testbed

import (
	"context"
	"fmt"
	"maps"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/sim"
)

const (
	reuse    = "reuse-of-ccm-lb"
	bound    = "already-bound"
	conflict = "network-conflict"
	inUse    = "vserver-group-in-use"
	taken    = "listener-conflict"
)

const (
	saysReuse = "can not reuse loadbalancer created by kubernetes."
	saysInUse = "there are vips associating with this vServer group."
)

func takesOver(of func(service string) string) operation {
	return func(ctx context.Context, tb *Testbed, service string) error {
		id, err := tb.balancer(of(service))
		if err != nil {
			return err
		}
		return tb.annotate(ctx, service, map[string]any{prefix + "id": id})
	}
}

func itself(service string) string { return service }

func neighbourly(lb *sim.LoadBalancer) {
	lb.AddressType, lb.VPC, lb.VSwitch = "intranet", otherVPC, otherVSW
}

func sixth(lb *sim.LoadBalancer) { lb.IPVersion = "ipv6" }

func pointed(lb *sim.LoadBalancer) {
	lb.Listeners = append(lb.Listeners, sim.Listener{Port: 80, VGroup: lb.VGroups[0].ID, Status: "running"})
}

func pointedNetwork(ctx context.Context, tb *Testbed, service string) error {
	return networkBalancer(func(st *sim.State, n *sim.NLB) {
		for id, g := range st.ServerGroups {
			if g.Tags[nameTag] == ownName(tb.watch.service(service)) {
				n.Listeners = append(n.Listeners, sim.NLBListener{Port: 80, ServerGroup: id})
			}
		}
	})(ctx, tb, service)
}

func ungrouped(_ context.Context, tb *Testbed, service string) error {
	own := ownName(tb.watch.service(service))
	tb.Cloud.Edit(func(st *sim.State) {
		maps.DeleteFunc(st.ServerGroups, func(_ string, g *sim.ServerGroup) bool { return g.Tags[nameTag] == own })
	})
	return nil
}

// abandoned creates a CLB by hand with the listener and the empty group of a deleted Service. closed removes a CLB's listeners.
func abandoned(ctx context.Context, tb *Testbed, service string) error {
	trace := fmt.Sprintf("k8s/80/%s-of-old/%s/%s", service, tb.Namespace, tb.ID)
	return lent(func(lb *sim.LoadBalancer) {
		lb.VGroups = []sim.VGroup{{ID: "rsp-of-" + service, Name: trace}}
		lb.Listeners = []sim.Listener{{Port: 80, Protocol: "tcp", Description: trace, Status: "running", VGroup: "rsp-of-" + service}}
	})(ctx, tb, service)
}

func closed(lb *sim.LoadBalancer) { lb.Listeners = nil }

func closedNetwork(_ *sim.State, n *sim.NLB) { n.Listeners = nil }

func reuseFixtures() []Fixture {
	terway := Config{Terway: true}
	return []Fixture{
		{
			Name: "reuse-other", Class: reuse, Says: saysReuse, Ends: event.Asked, later: true,
			Story:   "It is created to use the load balancer that the controller made for another Service.",
			prepare: companion(created()),
			inject: func(ctx context.Context, tb *Testbed, service string) error {
				id, err := tb.balancer(companionOf(service))
				if err != nil {
					return err
				}
				return created(with("id", id))(ctx, tb, service)
			},
			repair: annotated("id", ""),
		},
		{
			Name: "reuse-own", Class: reuse, Says: saysReuse, Ends: event.Fixed, Heals: true,
			Story:   "Somebody writes down in its annotations which load balancer the controller made for it.",
			prepare: created(),
			inject:  takesOver(itself),
			repair:  annotated("id", ""),
		},
		{
			Name: "reuse-pending", Class: reuse, Says: saysReuse, Ends: event.Fixed, Heals: true,
			Story:   "Its address gets lost, and somebody writes down in its annotations which load balancer the controller made for it.",
			prepare: created(),
			inject:  inOrder(forgetful, takesOver(itself)),
			repair:  annotated("id", ""),
		},
		{
			Name: "reuse-moves", Class: reuse, Says: saysReuse, Ends: event.Fixed, Heals: true,
			Story:   "It has a load balancer of its own, and is to move to that of another Service.",
			prepare: inOrder(companion(created()), created()),
			inject:  takesOver(companionOf),
			repair:  annotated("id", ""),
		},
		{
			Name: "reuse-own-nlb", Class: reuse, Says: saysReuse, Ends: event.Fixed, Heals: true,
			Story:   "Somebody writes down in its annotations which NLB the controller made for it.",
			prepare: created(network),
			inject:  takesOver(itself),
			repair:  annotated("id", ""),
		},
		{
			Name: "bound-lent", Class: bound, Says: "service has been associated with ip [", Ends: event.Synced, Heals: true,
			Story:   "It uses a load balancer of its owner's, and is to move to another one.",
			prepare: inOrder(lent(), lentAs("-new"), created(borrows)),
			inject:  rebound("lb", "-new"),
			repair:  rebound("lb", ""),
		},
		{
			Name: "bound-own", Class: bound, Says: "service has been associated with ip [", Ends: event.Fixed, Heals: true,
			Story:   "It has a load balancer of its own, and is to move to one of its owner's.",
			prepare: inOrder(lent(), created()),
			inject:  rebound("lb", ""),
			repair:  annotated("id", ""),
		},
		{
			Name: "bound-lent-nlb", Class: bound, Says: "service has been associated with dnsname [", Ends: event.Synced, Heals: true,
			Story:   "It uses an NLB of its owner's, and is to move to another one.",
			prepare: inOrder(lentNetwork(), lentNetworkAs("-new"), created(network, bare, borrows)),
			inject:  rebound("nlb", "-new"),
			repair:  rebound("nlb", ""),
		},
		{
			// Since v2.12 the controller also compares the IP version of a load balancer that outlives the Service.
			Name: "fixed-family-deleted", Class: "attribute-immutable", Ends: event.Asked,
			Says:    "can not change LoadBalancer AddressIPVersion once created",
			Story:   "It is deleted, and uses an IPv6 load balancer of its owner's.",
			prepare: inOrder(lent(sixth), created(borrows, with("ip-version", "ipv6"))),
			inject:  deleted,
			repair:  annotated("id", ""),
		},
		{
			Name: "network-other", Class: conflict, Says: "there are network conflicts in specified parameter.", Ends: event.Asked,
			Story:  "It is created to use a load balancer of another VPC.",
			inject: inOrder(lent(neighbourly), lentAs("-here"), created(borrows)),
			repair: rebound("lb", "-here"),
		},
		{
			Name: "network-other-nlb", Class: conflict, Says: "The VpcId is mismatched for", Ends: event.Asked,
			Story: "It is created to use an NLB of another VPC.",
			inject: inOrder(
				lentNetwork(func(n *sim.NLB) { n.VPC, n.Zones = otherVPC, []sim.NLBZone{{VSwitch: otherVSW}} }),
				lentNetworkAs("-here"),
				created(network, bare, borrows),
			),
			// The controller would find the group that was created in the other VPC.
			repair: inOrder(ungrouped, rebound("nlb", "-here")),
		},
		{
			Name: "group-in-use", Class: inUse, Says: saysInUse, Ends: event.Asked, Config: terway,
			Story:   "It uses a load balancer of its owner's, whose listener forwards to its Pods; then the Pods get another port.",
			prepare: inOrder(lent(), created(borrows)),
			inject:  inOrder(balancer(pointed), retargeted),
			repair:  balancer(closed),
		},
		{
			Name: "group-in-use-nlb", Class: inUse, Says: "The specified resource of ServerGroup is in use.", Ends: event.Asked, Config: terway,
			Story:   "It uses an NLB of its owner's, whose listener forwards to its Pods; then the Pods get another port.",
			prepare: inOrder(lentNetwork(), created(network, bare, borrows)),
			inject:  inOrder(pointedNetwork, retargeted),
			repair:  networkBalancer(closedNetwork),
		},
		{
			Name: "group-left", Class: inUse, Says: saysInUse, Ends: event.Asked,
			Story:   "It is deleted while a listener of its owner's still forwards to its nodes.",
			prepare: inOrder(lent(), created(borrows)),
			inject:  inOrder(balancer(pointed), deleted),
			repair:  balancer(closed),
		},
		{
			Name: "group-left-nlb", Class: inUse, Says: "The specified resource of ServerGroup is in use.", Ends: event.Asked,
			Story:   "It is deleted while a listener of its owner's NLB still forwards to its nodes.",
			prepare: inOrder(lentNetwork(), created(network, bare, borrows)),
			inject:  inOrder(pointedNetwork, deleted),
			repair:  networkBalancer(closedNetwork),
		},
		{
			Name: "listener-taken", Class: taken, Says: "A listener with the specified port already exists.", Ends: event.Asked,
			Story: "It is created to use its owner's load balancer with all that is on it, and an HTTP listener has the port.",
			inject: inOrder(lent(func(lb *sim.LoadBalancer) {
				lb.Listeners = []sim.Listener{{Port: 80, Protocol: "http", Description: "the old shop", Status: "running"}}
			}), created(borrows, with("force-override-listeners", "true"))),
			repair: balancer(closed),
		},
		{
			Name: "listener-left", Class: taken, Says: "A listener with the specified port already exists.", Ends: event.Asked,
			Config: Config{Own: "HTTP listeners"},
			Story:  "It is created to use its owner's load balancer, where the listener of a Service that is no more has the port.",
			inject: inOrder(abandoned, created(borrows, with("force-override-listeners", "true", "protocol-port", "http:80"))),
			repair: balancer(closed),
		},
		{
			Name: "listener-taken-nlb", Class: taken, Says: "The Port [80] is conflict.", Ends: event.Asked,
			Story: "It is created to use its owner's NLB with all that is on it, and a TCPSSL listener has the port.",
			inject: inOrder(lentNetwork(func(n *sim.NLB) {
				n.Listeners = []sim.NLBListener{{Port: 80, Protocol: "TCPSSL", Description: "the old shop"}}
			}), created(network, bare, borrows, with("force-override-listeners", "true"))),
			repair: networkBalancer(closedNetwork),
		},
	}
}
