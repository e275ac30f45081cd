package testbed

import (
	"context"
	"fmt"
	"maps"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/sim"
)

const (
	missing   = "tag-missing"
	ambiguous = "lb-ambiguous"
)

const (
	saysNotFound = "can not find loadbalancer, but it's defined in service"
	saysNoTag    = "can not find loadbalancer by tag ["
	saysGone     = "The specified LoadBalancerId does not exist."
)

func strayed(lb *sim.LoadBalancer) { lb.Name = "frontend"; delete(lb.Tags, nameTag) }

func strayedNetwork(_ *sim.State, n *sim.NLB) { n.Name = "frontend"; delete(n.Tags, nameTag) }

// LostTag is a Service whose load balancer was renamed and lost the name tag in the console. The controller fails when it syncs backends.
func LostTag() Fixture {
	return Fixture{
		Name: "tag-lost", Class: missing, Says: saysNoTag, Ends: event.Fixed, Heals: true,
		Story:   "Somebody renames its load balancer and takes the tag off it; then a Pod starts.",
		prepare: created(),
		inject:  inOrder(balancer(strayed), starts(pods{n: 1})),
		repair:  retagged,
	}
}

// LostTagFullSync is LostTag at a change of the Service: a full sync reports it in other words.
func LostTagFullSync() Fixture {
	f := LostTag()
	f.Name, f.Says = "tag-lost-change", saysNotFound
	f.Story = "Somebody renames its load balancer and takes the tag off it; then the Service changes."
	f.inject = inOrder(balancer(strayed), touched)
	return f
}

func retagged(ctx context.Context, tb *Testbed, service string) error {
	svc := tb.watch.service(service)
	if svc == nil {
		return fmt.Errorf("the Service %s is not there", service)
	}
	return balancer(func(lb *sim.LoadBalancer) { lb.Tags[nameTag] = ownName(svc) })(ctx, tb, service)
}

// Gone is a Service whose load balancer was deleted by hand. The controller that created it would create it again with the same
// client token, so a restarted one fails.
func Gone() Fixture {
	return Fixture{
		Name: "balancer-gone", Class: missing, Says: saysNoTag, Ends: event.Fixed, Heals: true, restarts: true,
		Story:   "Somebody deletes its load balancer.",
		prepare: created(),
		inject: func(_ context.Context, tb *Testbed, service string) error {
			id, err := tb.balancer(service)
			if err != nil {
				return err
			}
			tb.Cloud.DropLoadBalancer(id)
			return nil
		},
		repair: forgetful,
	}
}

// NamesNone is a Service that names a missing load balancer.
func NamesNone() Fixture {
	return Fixture{
		Name: "balancer-none", Class: missing, Says: saysGone, Ends: event.Asked,
		Story:  "It names a load balancer that does not exist.",
		inject: created(with("id", "lb-of-yesteryear")),
		repair: annotated("id", ""),
	}
}

// Unbound is a Service that used a person's load balancer and no longer names it.
func Unbound() Fixture {
	return Fixture{
		Name: "balancer-unnamed", Class: missing, Says: saysNotFound, Ends: event.Synced, Heals: true,
		Story:   "It used a load balancer of its owner's; then its annotation id gets lost.",
		prepare: inOrder(lent(), created(borrows)),
		inject:  annotated("id", ""),
		repair:  rebound("lb", ""),
	}
}

func identityFixtures() []Fixture {
	return []Fixture{
		LostTag(), LostTagFullSync(), Gone(), NamesNone(), Unbound(),
		{
			Name: "tag-lost-nlb", Class: missing, Says: saysNoTag, Ends: event.Fixed, Heals: true,
			Story:   "Somebody renames its NLB and takes the tag off it; then a Pod starts.",
			prepare: created(network),
			inject:  inOrder(networkBalancer(strayedNetwork), starts(pods{n: 1})),
			repair: func(ctx context.Context, tb *Testbed, service string) error {
				svc := tb.watch.service(service)
				return networkBalancer(func(_ *sim.State, n *sim.NLB) { n.Tags[nameTag] = ownName(svc) })(ctx, tb, service)
			},
		},
		{
			Name: "balancer-misnamed", Class: missing, Says: saysGone, Ends: event.Synced, Heals: true,
			Story:   "It uses a load balancer of its owner's; then its annotation id names one that does not exist.",
			prepare: inOrder(lent(), created(borrows)),
			inject:  annotated("id", "lb-of-yesteryear"),
			repair:  rebound("lb", ""),
		},
		{
			Name: "balancer-misnamed-own", Class: missing, Says: saysGone, Ends: event.Fixed, Heals: true,
			Story:   "It has a load balancer of its own; then its annotation id names one that does not exist.",
			prepare: created(),
			inject:  annotated("id", "lb-of-yesteryear"),
			repair:  annotated("id", ""),
		},
		{
			Name: "balancer-none-nlb", Class: missing, Says: "The specified resource of loadbalancer is not found.", Ends: event.Asked,
			Story:  "It names an NLB that does not exist.",
			inject: created(with("id", "nlb-of-yesteryear"), network),
			repair: inOrder(lentNetwork(), rebound("nlb", "")),
		},
		{
			Name: "balancer-two", Class: ambiguous, Says: "find multiple loadbalances by tag, lbIds[", Ends: event.Asked,
			Story:   "Somebody copies its load balancer, tags and all; then a Pod starts.",
			prepare: created(),
			inject: inOrder(func(ctx context.Context, tb *Testbed, service string) error {
				var tags map[string]string
				err := balancer(func(lb *sim.LoadBalancer) { tags = maps.Clone(lb.Tags) })(ctx, tb, service)
				if err != nil {
					return err
				}
				return lent(func(lb *sim.LoadBalancer) { lb.Tags = tags })(ctx, tb, service)
			}, starts(pods{n: 1})),
			repair: func(_ context.Context, tb *Testbed, service string) error {
				tb.Cloud.DropLoadBalancer("lb-of-" + service)
				return nil
			},
		},
		{
			Name: "balancer-two-nlb", Class: ambiguous, Says: "find multiple loadbalances by tag, lbIds[", Ends: event.Asked,
			Story:   "Somebody copies the tags of its NLB to another one; then a Pod starts.",
			prepare: created(network),
			inject: inOrder(func(ctx context.Context, tb *Testbed, service string) error {
				var tags map[string]string
				err := networkBalancer(func(_ *sim.State, n *sim.NLB) { tags = maps.Clone(n.Tags) })(ctx, tb, service)
				if err != nil {
					return err
				}
				return lentNetwork(func(n *sim.NLB) { n.Tags = tags })(ctx, tb, service)
			}, starts(pods{n: 1})),
			repair: func(_ context.Context, tb *Testbed, service string) error {
				tb.Cloud.Edit(func(st *sim.State) { delete(st.NLBs, "nlb-of-"+service) })
				return nil
			},
		},
	}
}
