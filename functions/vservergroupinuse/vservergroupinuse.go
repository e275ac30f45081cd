// Package vservergroupinuse remedies Services whose old vServer group can't be deleted.
package vservergroupinuse

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy frees the group: it points the listener at the new group of the same
// port, or deletes the listener where nobody is to use it any more.
var Remedy = &remedy.Remedy{
	Class: "vserver-group-in-use",
	Doc:   doc,
	Codes: []string{"RspoolVipExist", "RspoolRuleExist", "ResourceInUse.ServerGroup"},
	Texts: []string{
		"there are vips associating with this vServer group",
		"there are rules associating with this vServer group",
		"resource of ServerGroup is in use",
	},
	Reads: slices.Concat(remedy.BoundReads, remedy.DriftReads, remedy.NetworkReads, []grant.Grant{
		grant.DescribeVServerGroups, grant.DescribeVServerGroupAttribute, grant.ListSLBTags, grant.ListServerGroups,
	}),
	Steps:    []remedy.Step{step.MoveListener{}, step.DeleteListener{}, step.Touch{}},
	Deleting: true,
	Diagnose: diagnose,
	Holds:    holds,
}

// soon is how long the controller takes to try again by itself at most.
const soon = 5 * time.Minute

// override is the short name of the annotation that lets the controller manage
// the listeners of a reused load balancer.
const override = "force-override-listeners"

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if lb == nil {
		return c.Unfound("its vServer groups and the listeners that use them"), nil
	}
	if lb.NLB != nil {
		return network(ctx, c, lb)
	}
	groups, err := read(ctx, c, lb.ID)
	if err != nil {
		return remedy.Plan{}, err
	}
	blocking := groups.blocking(c)
	if len(blocking) == 0 {
		return remedy.Plan{Finding: fmt.Sprintf("No listener or rule of %s uses an old vServer group of the Service any more; the controller tries again by itself.", lb.ID), Wait: soon}, nil
	}
	listeners, err := c.Cloud.SLB.Listeners(ctx, lb.ID)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("list listeners of %s: %w", lb.ID, err)
	}
	a := answer{c: c, lb: lb, groups: groups, listeners: listeners, leaves: leaves(c)}
	for _, g := range blocking {
		if err := a.free(ctx, g); err != nil {
			return remedy.Plan{}, err
		}
	}
	p := a.plan()
	if len(p.Steps) == 0 || a.leaves {
		return p, nil // nothing of a Service that leaves is synced again
	}
	return c.WithDrift(ctx, lb, p)
}

// leaves reports whether the controller is to let go of the Service.
func leaves(c *remedy.Case) bool {
	return c.Service.DeletionTimestamp != nil || c.Service.Spec.Type != corev1.ServiceTypeLoadBalancer
}

// groups are the vServer groups of a load balancer that were made for the Service.
type groups []cloud.VServerGroup

func read(ctx context.Context, c *remedy.Case, lb string) (groups, error) {
	all, err := c.Cloud.SLB.VServerGroups(ctx, lb)
	if err != nil {
		return nil, fmt.Errorf("list vServer groups of %s: %w", lb, err)
	}
	return slices.DeleteFunc(all, func(g cloud.VServerGroup) bool {
		t, ok := remedy.ParseTrace(g.Name)
		return !ok || !t.Of(c.Service, c.Event.Cluster)
	}), nil
}

// blocking returns those that something uses and that the controller wants to
// delete: all of a Service that leaves, else those of ports that it has no more.
func (g groups) blocking(c *remedy.Case) []cloud.VServerGroup {
	var out []cloud.VServerGroup
	for _, group := range g {
		if len(group.Listeners)+len(group.Rules) > 0 && (leaves(c) || g.portOf(c, group) < 0) {
			out = append(out, group)
		}
	}
	return out
}

// portOf returns which port of the Service the group serves now; -1 if none. The
// name of a group holds the node port, or with backend-type eni the target port.
func (g groups) portOf(c *remedy.Case, group cloud.VServerGroup) int {
	t, _ := remedy.ParseTrace(group.Name)
	return slices.IndexFunc(c.Service.Spec.Ports, func(p corev1.ServicePort) bool {
		return t.Port == fmt.Sprint(p.NodePort) || t.Port == p.TargetPort.String()
	})
}

// answer is a plan in the making.
type answer struct {
	c         *remedy.Case
	lb        *remedy.Instance
	groups    groups
	listeners []cloud.Listener
	leaves    bool

	found []string // what uses the old groups
	asks  []string // why a person has to look
	steps []remedy.Step
}

// free finds out how an old group can be freed.
func (a *answer) free(ctx context.Context, old cloud.VServerGroup) error {
	for _, r := range old.Rules {
		a.found = append(a.found, fmt.Sprintf("the rule %s (%s%s) uses %s", r.ID, r.Domain, r.URL, old.Name))
		a.asks = append(a.asks, fmt.Sprintf("Point the rule %s at another group, or delete it.", r.ID))
	}
	for _, port := range old.Listeners {
		i := slices.IndexFunc(a.listeners, func(l cloud.Listener) bool { return l.Port == port.Port && l.Protocol == port.Protocol })
		if i < 0 {
			a.asks = append(a.asks, fmt.Sprintf("The listener %s:%d went while it was looked at; look again.", port.Protocol, port.Port))
			continue
		}
		l := a.listeners[i]
		a.found = append(a.found, fmt.Sprintf("the listener %s:%d uses %s (%s)", l.Protocol, l.Port, old.Name, old.ID))
		if err := a.listener(ctx, old, l); err != nil {
			return err
		}
	}
	return nil
}

// listener finds out what to do with a listener that uses an old group.
func (a *answer) listener(ctx context.Context, old cloud.VServerGroup, l cloud.Listener) error {
	if a.leaves {
		a.drop(l, "the Service leaves")
		return nil
	}
	i := slices.IndexFunc(a.c.Service.Spec.Ports, func(p corev1.ServicePort) bool {
		return int(p.Port) == l.Port && strings.EqualFold(string(p.Protocol), "udp") == (l.Protocol == "udp")
	})
	if i < 0 {
		if value, _ := remedy.Annotation(a.c.Service, override); value == "true" {
			a.drop(l, "the Service has no port "+fmt.Sprint(l.Port)+" any more, and its annotation says that listeners are the controller's")
			return nil
		}
		a.asks = append(a.asks, fmt.Sprintf("The Service has no port %d any more. Delete the listener %s:%d if nobody uses it, or point it at another group.", l.Port, l.Protocol, l.Port))
		return nil
	}
	n := slices.IndexFunc(a.groups, func(g cloud.VServerGroup) bool { return a.groups.portOf(a.c, g) == i })
	if n < 0 {
		a.asks = append(a.asks, fmt.Sprintf("There is no new vServer group for the port %d yet. Point the listener %s:%d at it when there is.", l.Port, l.Protocol, l.Port))
		return nil
	}
	to := a.groups[n]
	foreign, err := a.foreign(ctx, old, to)
	if err != nil {
		return err
	}
	switch {
	case to.Servers == 0:
		a.asks = append(a.asks, fmt.Sprintf("The new vServer group %s (%s) has no backend: with it the listener %s:%d would serve nobody. Find out why it is empty.", to.Name, to.ID, l.Protocol, l.Port))
	case len(foreign) > 0:
		a.asks = append(a.asks, fmt.Sprintf("The old group holds backends that the new one, %s, does not: %s. Find out whose they are before the listener %s:%d moves.", to.ID, strings.Join(foreign, ", "), l.Protocol, l.Port))
	default:
		a.steps = append(a.steps, step.MoveListener{LB: a.lb.ID, Port: l.Port, Protocol: l.Protocol, Group: to.ID, Was: old.ID})
	}
	return nil
}

// drop plans to delete a listener, where all of it can be made again.
func (a *answer) drop(l cloud.Listener, why string) {
	if l.Protocol == "https" {
		a.asks = append(a.asks, fmt.Sprintf("Delete the listener https:%d by hand, since %s. lbremedy could not make its further domains again.", l.Port, why))
		return
	}
	a.steps = append(a.steps, step.DeleteListener{LB: a.lb.ID, Listener: l})
}

// foreign returns the backends of the old group that the new one does not hold.
func (a *answer) foreign(ctx context.Context, old, to cloud.VServerGroup) ([]string, error) {
	var have [2][]cloud.Backend
	for i, id := range []string{old.ID, to.ID} {
		g, err := a.c.Cloud.SLB.VServerGroup(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("describe vServer group %s: %w", id, err)
		}
		have[i] = g.Backends
	}
	var out []string
	for _, b := range have[0] {
		if !slices.ContainsFunc(have[1], func(o cloud.Backend) bool { return o.ID == b.ID && o.IP == b.IP }) {
			out = append(out, strings.TrimSpace(b.ID+" "+b.IP))
		}
	}
	return out, nil
}

// plan puts the answer together. What a person has to do comes before any step:
// the controller fails on what is left, whatever lbremedy does.
func (a *answer) plan() remedy.Plan {
	whose := "The Service made it"
	if _, reused := remedy.Annotation(a.c.Service, "id"); reused {
		whose = "It is reused"
		if value, _ := remedy.Annotation(a.c.Service, override); value != "true" {
			whose += ", and without force-override-listeners the controller never makes its listeners again"
		}
	}
	p := remedy.Plan{
		Finding: fmt.Sprintf("The controller can't delete old vServer groups of the Service on %s: %s. %s.", a.lb.ID, strings.Join(a.found, "; "), whose),
		Cause:   a.lb.ID,
	}
	if len(a.asks) > 0 {
		p.Ask = strings.Join(a.asks, " ")
		return p
	}
	p.Steps = append(a.steps, step.Touch{})
	p.Risk = remedy.High
	if slices.ContainsFunc(a.steps, func(s remedy.Step) bool { return s.Kind() == step.DeleteListener{}.Kind() }) {
		p.Note = "The whole configuration of a deleted listener is in the journal. It can be made again as long as its vServer group exists."
	}
	return p
}

// network answers for a Service of an NLB: its server groups are no part of it,
// and may be used by any NLB.
func network(ctx context.Context, c *remedy.Case, lb *remedy.Instance) (remedy.Plan, error) {
	listeners, err := c.Cloud.NLB.Listeners(ctx, lb.ID)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("list listeners of %s: %w", lb.ID, err)
	}
	name := remedy.DefaultName(c.Service)
	own, err := c.Cloud.NLB.ServerGroups(ctx, remedy.NameTag, name)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("list server groups with the tag %s=%s: %w", remedy.NameTag, name, err)
	}
	var used, idle []string
	for _, g := range own {
		by := ""
		for _, l := range listeners {
			if l.ServerGroup == g.ID {
				by = fmt.Sprintf("%s (%s) by the listener %s:%d", g.Name, g.ID, strings.ToLower(l.Protocol), l.Port)
			}
		}
		if by == "" {
			idle = append(idle, fmt.Sprintf("%s (%s)", g.Name, g.ID))
		} else {
			used = append(used, by)
		}
	}
	finding := fmt.Sprintf("The controller can't delete a server group of the Service on %s. ", lb.ID)
	if len(used) > 0 {
		finding += fmt.Sprintf("In use on it are %s. ", strings.Join(used, "; "))
	}
	if len(idle) > 0 {
		finding += fmt.Sprintf("No listener of it uses %s. ", strings.Join(idle, ", "))
	}
	return remedy.Plan{
		Finding: strings.TrimSpace(finding),
		Cause:   lb.ID,
		Ask: "Look in the NLB console which listeners, also of other NLBs, use the group that the Service no longer needs. Point each at the new group of the same port, or delete it if nobody uses it. " +
			"lbremedy does not change listeners of NLBs.",
	}, nil
}

// holds reports whether something still uses a group that the controller wants to delete.
func holds(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	if remedy.NLB(c.Service) {
		return remedy.Yes, nil // the engine has looked for a sync that succeeded
	}
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	if lb == nil {
		return remedy.Yes, nil
	}
	groups, err := read(ctx, c, lb.ID)
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(len(groups.blocking(c)) > 0), nil
}
