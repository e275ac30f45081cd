package vservergroupinuse

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

// plan has no steps if a person has to act: the controller fails on the rest, whatever lbremedy does.
func (s *state) plan() remedy.Plan {
	var uses []say.Text
	var asks say.Text
	var steps []remedy.Step
	for _, old := range s.own.Blocking {
		for _, r := range old.Rules {
			uses = append(uses, say.F("the rule %s (%s%s) uses %s (%s)", r.ID, r.Domain, r.URL, old.Name, old.ID))
			point, remove := s.c.RuleCommands(r.ID)
			asks = asks.And("Point the rule %s at another group: %s. Or delete the rule if nobody needs what it serves: %s.", r.ID, point, remove)
		}
		for _, p := range old.Listeners {
			uses = append(uses, say.F("the listener %s:%d uses %s (%s)", p.Protocol, p.Port, old.Name, old.ID))
			ask, do := s.free(old, p)
			if asks = asks.Then(ask); do != nil {
				steps = append(steps, do)
			}
		}
	}
	plan := remedy.Plan{
		Finding: say.F("The controller cannot delete old vServer groups of the Service on %s: %s.", s.lb.ID, say.Clauses(uses, len(uses))).Then(s.origin()),
		Cause:   s.lb.ID,
		Ask:     asks,
	}
	if len(asks) > 0 {
		return plan
	}
	plan.Steps, plan.Risk = append(steps, step.Resync{}), remedy.High
	if slices.ContainsFunc(steps, func(do remedy.Step) bool { return do.Kind() == step.DeleteListener{}.Kind() }) {
		plan.Note = say.F("The journal keeps the whole configuration of a deleted listener. It can be created again as long as its vServer group exists.")
	}
	return plan
}

// needed plans while the controller cannot build groups of the Service. On a reused load balancer it then wants to delete the existing
// groups for these ports (cleanup in pkg/controller/service/clbv1/model_applier.go): freeing a group, or a resync, would end their traffic.
func (s *state) needed(b ccm.Building, unbuilt []ccm.Obstacle) remedy.Plan {
	var uses []say.Text
	for _, g := range s.own.Needed(unbuilt) {
		uses = append(uses, say.F("%s (%s)", g.Name, g.ID))
	}
	finding := say.F("Nothing on %s can be freed safely: its next full sync would also delete vServer groups that the Service needs.", s.lb.ID)
	switch {
	case !slices.ContainsFunc(unbuilt, func(o ccm.Obstacle) bool { return !o.Doubt }):
		finding = say.F("It is unknown whether a vServer group on %s can be freed safely.", s.lb.ID)
	case len(uses) > 0:
		finding = say.F("The controller wants to delete vServer groups on %s that the Service needs and listeners or rules use: %s.", s.lb.ID, say.Clauses(uses, 5))
	}
	return remedy.Plan{
		Finding: finding.Then(ccm.DescribeObstacles(unbuilt)),
		Cause:   s.lb.ID,
		Ask:     b.Ask(unbuilt).And("Until then, do not move the listeners to other groups, and do not delete them.").Then(ccm.Retries()),
	}
}

func (s *state) origin() say.Text {
	id, _ := ccm.Annotation(s.c.Service, "id")
	switch {
	case id == "":
		return say.F("The controller created this load balancer for the Service.")
	case s.overrides():
		return say.F("The Service reuses this load balancer.")
	}
	return say.F("The Service reuses this load balancer, and without the annotation %s the controller never creates its listeners again.", ccm.ForceOverride)
}

func (s *state) overrides() bool {
	value, _ := ccm.Annotation(s.c.Service, ccm.ForceOverride)
	return value == "true"
}

// free returns the step that removes an old group from a listener, or what a person has to do instead.
func (s *state) free(old cloud.VServerGroup, p cloud.ListenerPort) (say.Text, remedy.Step) {
	i := slices.IndexFunc(s.listeners, func(l cloud.Listener) bool { return l.Port == p.Port && l.Protocol == p.Protocol })
	if i < 0 {
		return say.F("The listener %s:%d disappeared while it was checked. Check again.", p.Protocol, p.Port), nil
	}
	l := s.listeners[i]
	at := ccm.Listener{Protocol: l.Protocol, Port: l.Port, Last: l.Port}
	point, remove := s.c.MoveListenerCommand(s.lb, at), s.c.DeleteListenerCommand(s.lb, at)
	if why := ccm.WhyLeaving(s.c.Service); len(why) > 0 {
		return s.drop(old, l, why, remove)
	}
	port := slices.IndexFunc(s.c.Service.Spec.Ports, at.Takes)
	if port < 0 {
		gone := say.F("The Service no longer has the port %d.", l.Port)
		if s.overrides() {
			return s.drop(old, l, gone.And("Its annotation %s lets the controller manage the listeners.", ccm.ForceOverride), remove)
		}
		return gone.And("Delete the listener if nobody uses it: %s. Otherwise point it at another group: %s.", remove, point), nil
	}
	to := s.own.Of(port)
	if to == nil {
		return say.F("The port %d has no new vServer group yet. When it has one, point the listener at it: %s.", l.Port, point), nil
	}
	foreign := s.c.Unmanaged(s.backends[old.ID], s.backends[to.ID])
	switch {
	case to.Servers == 0:
		return say.F("The new vServer group %s (%s) has no backend: with it, the listener %s:%d would serve nobody.", to.Name, to.ID, l.Protocol, l.Port).
			And("Find out why it is empty."), nil
	case len(foreign) > 0:
		return say.F("The old group has backends that the new one, %s, does not have: %s.", to.ID, strings.Join(foreign, ", ")).
			And("Find out whose they are before you move the listener %s:%d.", l.Protocol, l.Port), nil
	}
	return nil, step.MoveListener{LB: s.lb.ID, Port: l.Port, Protocol: l.Protocol, Group: to.ID, Was: old.ID}
}

// drop deletes a listener if it can be restored completely and serves only the controller's backends.
func (s *state) drop(old cloud.VServerGroup, l cloud.Listener, why say.Text, remove string) (say.Text, remedy.Step) {
	foreign := s.c.Unmanaged(s.backends[old.ID], nil)
	switch {
	case len(foreign) > 0:
		return why.And("But the group %s has backends that the controller did not add: %s.", old.ID, strings.Join(foreign, ", ")).
			And("Find out whose they are before you delete the listener %s:%d: %s.", l.Protocol, l.Port, remove), nil
	case l.Protocol == "http" || l.Protocol == "https":
		return why.And("Delete the listener %s:%d by hand: %s.", l.Protocol, l.Port, remove).
			And("lbremedy cannot restore its forwarding rules and additional domains and therefore does not delete it."), nil
	case !step.Restorable(l):
		return why.And("Delete the listener %s:%d by hand: %s.", l.Protocol, l.Port, remove).
			And("It is starting or stopping, or lbremedy cannot read all of its settings to restore them, and therefore does not delete it."), nil
	}
	return nil, step.DeleteListener{LB: s.lb.ID, Listener: l}
}

// network plans for an NLB's groups, which other NLBs may use, too.
func network(lb *ccm.Instance, own []ccm.NetworkGroup) remedy.Plan {
	var used []say.Text
	var idle []string
	for _, g := range own {
		for _, l := range g.Listeners {
			used = append(used, say.F("the listener %s:%d uses %s (%s)", strings.ToLower(l.Protocol), l.Port, g.Name, g.ID))
		}
		if len(g.Listeners) == 0 {
			idle = append(idle, fmt.Sprintf("%s (%s)", g.Name, g.ID))
		}
	}
	finding := say.F("The controller cannot delete a server group of the Service on %s.", lb.ID)
	if len(used) > 0 {
		finding = finding.And("In use there: %s.", say.Clauses(used, len(used)))
	}
	if len(idle) > 0 {
		finding = finding.And("No listener of %s uses these groups: %s.", lb.ID, strings.Join(idle, ", "))
	}
	return remedy.Plan{
		Finding: finding,
		Cause:   lb.ID,
		Ask: say.F("Check the NLB console for all listeners, also of other NLBs, that use the group that the Service no longer needs.").
			And("Point each of them at the new group of the same port, or delete it if nobody uses it.").
			And("lbremedy does not change listeners of NLBs."),
	}
}
