// Package vservergroupinuse remedies Services whose old vServer group can't be deleted.
package vservergroupinuse

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy frees the group: it points the listener at the new group of the same
// port, or deletes the listener if nobody should use it any more.
var Remedy = &remedy.Remedy{
	Class: "vserver-group-in-use",
	Doc:   doc,
	Codes: []string{"RspoolVipExist", "RspoolRuleExist", "ResourceInUse.ServerGroup"},
	Texts: []string{
		"there are vips associating with this vServer group",
		"there are rules associating with this vServer group",
		"resource of ServerGroup is in use",
	},
	Reads: slices.Concat(ccm.BoundReads, ccm.NetworkReads, []grant.Grant{
		grant.DescribeVServerGroups, grant.DescribeVServerGroupAttribute, grant.ListSLBTags, grant.ListServerGroups, grant.DescribeClusterDetail,
	}),
	Steps:      []remedy.Step{step.MoveListener{}, step.DeleteListener{}, step.Touch{}},
	Deleting:   true,
	Diagnose:   diagnose,
	StillFails: holds,
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
		return c.NoBalancer("its vServer groups and the listeners that use them"), nil
	}
	if lb.NLB != nil {
		return network(ctx, c, lb)
	}
	if id, _ := ccm.Annotation(c.Service, "id"); id == "" && leaves(c) {
		return remedy.Plan{
			Finding: fmt.Sprintf("The controller made %s for the Service, which leaves, and deletes it with all that stands on it: no vServer group holds that up.", lb.ID),
			Wait:    soon,
		}, nil
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
	return a.plan(), nil
}

// leaves reports whether the Service no longer needs its load balancer.
func leaves(c *remedy.Case) bool {
	return c.Service.DeletionTimestamp != nil || c.Service.Spec.Type != corev1.ServiceTypeLoadBalancer
}

// groups are the vServer groups of a load balancer that belong to the Service.
type groups struct {
	list []cloud.VServerGroup
	mode ccm.BackendMode // by which the controller names those of the Service's ports
}

func read(ctx context.Context, c *remedy.Case, lb string) (groups, error) {
	mode, err := c.BackendMode(ctx)
	if err != nil {
		return groups{}, err
	}
	all, err := c.Cloud.SLB.VServerGroups(ctx, lb)
	if err != nil {
		return groups{}, fmt.Errorf("list vServer groups of %s: %w", lb, err)
	}
	return groups{mode: mode, list: slices.DeleteFunc(all, func(g cloud.VServerGroup) bool {
		t, ok := ccm.ParseTrace(g.Name)
		return !ok || !t.Of(c.Service, c.Cluster)
	})}, nil
}

// blocking returns those that something uses and that the controller wants to
// delete: all of a Service that leaves, else those of ports that it has no more.
func (g groups) blocking(c *remedy.Case) []cloud.VServerGroup {
	var out []cloud.VServerGroup
	for _, group := range g.list {
		if len(group.Listeners)+len(group.Rules) > 0 && (leaves(c) || g.portOf(c, group) < 0) {
			out = append(out, group)
		}
	}
	return out
}

// portOf returns which port of the Service the group serves now; -1 if none. The
// name of a group holds the node port, or the target port where Pods are the
// backends: a group by the other one is of the time before that was changed. It
// counts all the same as long as its port has none of the right name, since what
// the backends are is the controller's to configure.
func (g groups) portOf(c *remedy.Case, group cloud.VServerGroup) int {
	byNode := func(p corev1.ServicePort) string { return strconv.Itoa(int(p.NodePort)) }
	byTarget := func(p corev1.ServicePort) string { return p.TargetPort.String() }
	now, before := byNode, byTarget
	if g.mode == ccm.PodMode {
		now, before = byTarget, byNode
	}
	ports := c.Service.Spec.Ports
	number := func(group cloud.VServerGroup) string {
		t, _ := ccm.ParseTrace(group.Name)
		return t.Port
	}
	if i := slices.IndexFunc(ports, func(p corev1.ServicePort) bool { return now(p) == number(group) }); i >= 0 {
		return i
	}
	return slices.IndexFunc(ports, func(p corev1.ServicePort) bool {
		return before(p) == number(group) && !slices.ContainsFunc(g.list, func(o cloud.VServerGroup) bool { return number(o) == now(p) })
	})
}

// answer is a plan in the making.
type answer struct {
	c         *remedy.Case
	lb        *ccm.Instance
	groups    groups
	listeners []cloud.Listener
	leaves    bool

	found []string // what uses the old groups
	asks  []string // why a person has to look
	steps []remedy.Step
}

// free decides how to free an old group.
func (a *answer) free(ctx context.Context, old cloud.VServerGroup) error {
	for _, r := range old.Rules {
		a.found = append(a.found, fmt.Sprintf("the rule %s (%s%s) uses %s", r.ID, r.Domain, r.URL, old.Name))
		a.asks = append(a.asks, fmt.Sprintf("Point the rule %[1]s at another group: %[2]s SetRule --RegionId %[3]s --RuleId %[1]s --VServerGroupId GROUP-ID. Or delete it, if nobody needs what it serves: %[2]s DeleteRules --RegionId %[3]s --RuleIds '[\"%[1]s\"]'.",
			r.ID, "aliyun slb", a.c.Cloud.Region()))
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

// listener decides what to do with a listener that uses an old group.
func (a *answer) listener(ctx context.Context, old cloud.VServerGroup, l cloud.Listener) error {
	if a.leaves {
		return a.drop(ctx, old, l, "the Service leaves")
	}
	i := slices.IndexFunc(a.c.Service.Spec.Ports, func(p corev1.ServicePort) bool {
		return int(p.Port) == l.Port && strings.EqualFold(string(p.Protocol), "udp") == (l.Protocol == "udp")
	})
	if i < 0 {
		if value, _ := ccm.Annotation(a.c.Service, override); value == "true" {
			return a.drop(ctx, old, l, "the Service has no port "+fmt.Sprint(l.Port)+" any more, and its annotation says that listeners are the controller's")
		}
		a.asks = append(a.asks, fmt.Sprintf("The Service has no port %d any more. Delete the listener if nobody uses it: %s. Else point it at another group: %s.", l.Port, a.deleteCommand(l), a.pointCommand(l)))
		return nil
	}
	n := slices.IndexFunc(a.groups.list, func(g cloud.VServerGroup) bool { return a.groups.portOf(a.c, g) == i })
	if n < 0 {
		a.asks = append(a.asks, fmt.Sprintf("There is no new vServer group for the port %d yet. Point the listener at it when there is: %s.", l.Port, a.pointCommand(l)))
		return nil
	}
	to := a.groups.list[n]
	foreign, err := a.foreign(ctx, old, to.ID)
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

// drop plans to delete a listener if it can be fully recreated and serves only the
// controller's backends.
func (a *answer) drop(ctx context.Context, old cloud.VServerGroup, l cloud.Listener, why string) error {
	foreign, err := a.foreign(ctx, old, "")
	if err != nil {
		return err
	}
	switch {
	case len(foreign) > 0:
		a.asks = append(a.asks, fmt.Sprintf("The group %s holds backends that the controller did not add: %s. Find out whose they are before the listener %s:%d is deleted, since %s: %s.",
			old.ID, strings.Join(foreign, ", "), l.Protocol, l.Port, why, a.deleteCommand(l)))
	case l.Protocol == "https":
		a.asks = append(a.asks, fmt.Sprintf("Delete the listener https:%d by hand, since %s: %s. lbremedy could not make its further domains again.", l.Port, why, a.deleteCommand(l)))
	default:
		a.steps = append(a.steps, step.DeleteListener{LB: a.lb.ID, Listener: l})
	}
	return nil
}

func (a *answer) deleteCommand(l cloud.Listener) string {
	return fmt.Sprintf("aliyun slb DeleteLoadBalancerListener --RegionId %s --LoadBalancerId %s --ListenerPort %d --ListenerProtocol %s", a.c.Cloud.Region(), a.lb.ID, l.Port, l.Protocol)
}

func (a *answer) pointCommand(l cloud.Listener) string {
	return fmt.Sprintf("aliyun slb SetLoadBalancer%sListenerAttribute --RegionId %s --LoadBalancerId %s --ListenerPort %d --VServerGroup on --VServerGroupId GROUP-ID",
		strings.ToUpper(l.Protocol), a.c.Cloud.Region(), a.lb.ID, l.Port)
}

// foreign returns the backends of the old group that the controller did not add
// for the Service, and that the other group, if there is one, does not hold. The
// controller describes its backends by the name of their group.
func (a *answer) foreign(ctx context.Context, old cloud.VServerGroup, to string) ([]string, error) {
	var have [2][]cloud.Backend
	for i, id := range []string{old.ID, to} {
		if id == "" {
			continue
		}
		g, err := a.c.Cloud.SLB.VServerGroup(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("describe vServer group %s: %w", id, err)
		}
		have[i] = g.Backends
	}
	var out []string
	for _, b := range have[0] {
		t, ok := ccm.ParseTrace(b.Description)
		own := ok && t.Of(a.c.Service, a.c.Cluster)
		if !own && !slices.ContainsFunc(have[1], func(o cloud.Backend) bool { return o.ID == b.ID && o.IP == b.IP }) {
			out = append(out, strings.TrimSpace(b.ID+" "+b.IP))
		}
	}
	return out, nil
}

// plan returns the plan. If a person has to do something, there are no steps: the
// controller would still fail on the rest, whatever lbremedy does.
func (a *answer) plan() remedy.Plan {
	whose := "The Service made it"
	if id, _ := ccm.Annotation(a.c.Service, "id"); id != "" {
		whose = "It is reused"
		if value, _ := ccm.Annotation(a.c.Service, override); value != "true" {
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

// network answers for a Service with an NLB: server groups are not part of an NLB,
// and any NLB may use them.
func network(ctx context.Context, c *remedy.Case, lb *ccm.Instance) (remedy.Plan, error) {
	listeners, err := c.Cloud.NLB.Listeners(ctx, lb.ID)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("list listeners of %s: %w", lb.ID, err)
	}
	name := ccm.DefaultName(c.Service)
	own, err := c.Cloud.NLB.ServerGroups(ctx, ccm.NameTag, name)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("list server groups with the tag %s=%s: %w", ccm.NameTag, name, err)
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
	if ccm.NLB(c.Service) {
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
