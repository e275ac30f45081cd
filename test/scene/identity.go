package scene

import (
	"context"
	"fmt"
	"maps"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/sim"
)

// Classes of these scenes.
const (
	missing   = "tag-missing"
	ambiguous = "lb-ambiguous"
)

const (
	saysNotFound = "can not find loadbalancer, but it's defined in service"
	saysNoTag    = "can not find loadbalancer by tag ["
	saysGone     = "The specified LoadBalancerId does not exist."
)

// strayed renames a CLB and takes its tag off, as a person in the console does.
func strayed(lb *sim.LoadBalancer) { lb.Name = "frontend"; delete(lb.Tags, nameTag) }

func strayedNetwork(_ *sim.State, n *sim.NLB) { n.Name = "frontend"; delete(n.Tags, nameTag) }

// LostTag is a Service whose load balancer was renamed and lost the name tag in
// the console. The controller meets it when it syncs backends.
func LostTag() Scene {
	return Scene{
		Name: "tag-lost", Class: missing, Says: saysNoTag, Ends: event.Fixed, Heals: true,
		Story:   "Somebody renames its load balancer and takes the tag off it; then a Pod starts.",
		prepare: created(),
		spoil:   inTurn(balancer(strayed), starts(crew{n: 1})),
		mend:    retagged,
	}
}

// LostTagFullSync is LostTag, met when somebody changes the Service: a full sync
// says it in other words.
func LostTagFullSync() Scene {
	scene := LostTag()
	scene.Name, scene.Says = "tag-lost-change", saysNotFound
	scene.Story = "Somebody renames its load balancer and takes the tag off it; then the Service changes."
	scene.spoil = inTurn(balancer(strayed), touched)
	return scene
}

// retagged puts the tag back on the CLB.
func retagged(ctx context.Context, s *Stage, service string) error {
	svc := s.watch.service(service)
	if svc == nil {
		return fmt.Errorf("the Service %s is not there", service)
	}
	return balancer(func(lb *sim.LoadBalancer) { lb.Tags[nameTag] = ownName(svc) })(ctx, s, service)
}

// Gone is a Service whose load balancer was deleted by hand. A controller that
// made the load balancer itself would ask for it again with the client token of
// then, so a fresh one meets it.
func Gone() Scene {
	return Scene{
		Name: "balancer-gone", Class: missing, Says: saysNoTag, Ends: event.Fixed, Heals: true, restarts: true,
		Story:   "Somebody deletes its load balancer.",
		prepare: created(),
		spoil: func(_ context.Context, s *Stage, service string) error {
			id, err := s.balancer(service)
			if err != nil {
				return err
			}
			s.Cloud.DropLoadBalancer(id)
			return nil
		},
		mend: forgetful,
	}
}

// NamesNone is a Service that names a load balancer which does not exist.
func NamesNone() Scene {
	return Scene{
		Name: "balancer-none", Class: missing, Says: saysGone, Ends: event.Asked,
		Story: "It names a load balancer that does not exist.",
		spoil: created(with("id", "lb-of-yesteryear")),
		mend:  annotated("id", ""),
	}
}

// Unbound is a Service that used a person's load balancer and no longer says so.
func Unbound() Scene {
	return Scene{
		Name: "balancer-unnamed", Class: missing, Says: saysNotFound, Ends: event.Fixed, Heals: true,
		Story:   "It used a load balancer of its owner's; then its annotation id gets lost.",
		prepare: inTurn(lent(), created(borrows)),
		spoil:   annotated("id", ""),
		mend:    rebound("lb", ""),
	}
}

func identityScenes() []Scene {
	return []Scene{
		LostTag(), LostTagFullSync(), Gone(), NamesNone(), Unbound(),
		{
			Name: "tag-lost-nlb", Class: missing, Says: saysNoTag, Ends: event.Fixed, Heals: true,
			Story:   "Somebody renames its NLB and takes the tag off it; then a Pod starts.",
			prepare: created(network),
			spoil:   inTurn(networkBalancer(strayedNetwork), starts(crew{n: 1})),
			mend: func(ctx context.Context, s *Stage, service string) error {
				svc := s.watch.service(service)
				return networkBalancer(func(_ *sim.State, n *sim.NLB) { n.Tags[nameTag] = ownName(svc) })(ctx, s, service)
			},
		},
		{
			Name: "balancer-none-nlb", Class: missing, Says: "The specified resource of loadbalancer is not found.", Ends: event.Asked,
			Story: "It names an NLB that does not exist.",
			spoil: created(with("id", "nlb-of-yesteryear"), network),
			mend:  inTurn(lentNetwork(), rebound("nlb", "")),
		},
		{
			Name: "balancer-two", Class: ambiguous, Says: "find multiple loadbalances by tag, lbIds[", Ends: event.Asked,
			Story:   "Somebody copies its load balancer, tags and all; then a Pod starts.",
			prepare: created(),
			spoil: inTurn(func(ctx context.Context, s *Stage, service string) error {
				var tags map[string]string
				err := balancer(func(lb *sim.LoadBalancer) { tags = maps.Clone(lb.Tags) })(ctx, s, service)
				if err != nil {
					return err
				}
				return lent(func(lb *sim.LoadBalancer) { lb.Tags = tags })(ctx, s, service)
			}, starts(crew{n: 1})),
			mend: func(_ context.Context, s *Stage, service string) error {
				s.Cloud.DropLoadBalancer("lb-of-" + service)
				return nil
			},
		},
		{
			Name: "balancer-two-nlb", Class: ambiguous, Says: "find multiple loadbalances by tag, lbIds[", Ends: event.Asked,
			Story:   "Somebody copies the tags of its NLB to another one; then a Pod starts.",
			prepare: created(network),
			spoil: inTurn(func(ctx context.Context, s *Stage, service string) error {
				var tags map[string]string
				err := networkBalancer(func(_ *sim.State, n *sim.NLB) { tags = maps.Clone(n.Tags) })(ctx, s, service)
				if err != nil {
					return err
				}
				return lentNetwork(func(n *sim.NLB) { n.Tags = tags })(ctx, s, service)
			}, starts(crew{n: 1})),
			mend: func(_ context.Context, s *Stage, service string) error {
				s.Cloud.Edit(func(st *sim.State) { delete(st.NLBs, "nlb-of-"+service) })
				return nil
			},
		},
	}
}
