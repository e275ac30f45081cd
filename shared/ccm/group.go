package ccm

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/say"
)

// OwnName reports whether the controller gives this name to what it makes for the Service.
func (c *View) OwnName(name string) bool {
	t, ok := ParseTrace(name)
	return ok && t.Of(c.Service, c.Cluster)
}

// DeleteGroupCommands names the vServer groups that the controller made for the Service, each with the command that deletes it.
func (c *View) DeleteGroupCommands(groups []cloud.VServerGroup) []say.Text {
	var out []say.Text
	for _, g := range groups {
		if c.OwnName(g.Name) {
			out = append(out, say.F("%s: aliyun slb DeleteVServerGroup --RegionId %s --VServerGroupId %s", g.Name, c.Cloud.Region(), g.ID))
		}
	}
	return out
}

// Owned are the vServer groups of a CLB that the controller made for a Service.
type Owned struct {
	Groups   []cloud.VServerGroup // without their backends
	Blocking []cloud.VServerGroup // those that it wants to delete and that listeners or rules use
	Adopted  []cloud.VServerGroup // a user's groups that the Service names for its ports, without their backends
	svc      *corev1.Service
	mode     BackendMode
	cluster  string
}

// Owned reads the Owned of the Service on lb. The controller wants to delete all groups of a released Service, and otherwise those of ports
// that the Service no longer has or for which it names a user's group (cleanup in clbv1/model_applier.go). It needs DescribeClusterDetail
// and DescribeVServerGroups.
func (c *View) Owned(ctx context.Context, lb string) (Owned, error) {
	o := Owned{svc: c.Service, cluster: c.Cluster}
	var err error
	if o.mode, err = c.BackendMode(ctx); err != nil {
		return o, err
	}
	all, err := c.Cloud.SLB.VServerGroups(ctx, lb)
	if err != nil {
		return o, fmt.Errorf("list vServer groups of %s: %w", lb, err)
	}
	for _, g := range all {
		if slices.ContainsFunc(c.Service.Spec.Ports, func(p corev1.ServicePort) bool { return AdoptedGroup(c.Service, p) == g.ID }) {
			o.Adopted = append(o.Adopted, g)
		}
	}
	o.Groups = slices.DeleteFunc(all, func(g cloud.VServerGroup) bool { return !c.OwnName(g.Name) })
	for _, g := range o.Groups {
		if len(g.Listeners)+len(g.Rules) > 0 && (len(Leaving(c.Service)) > 0 || o.portOf(g) < 0) {
			o.Blocking = append(o.Blocking, g)
		}
	}
	return o, nil
}

// Of returns the present group of the Service's port with this index, or nil: the one that the Service names, else the one with the right
// name (ports with the same target port share it), else the former one that still counts.
func (o Owned) Of(port int) *cloud.VServerGroup {
	p := o.svc.Spec.Ports[port]
	if id := AdoptedGroup(o.svc, p); id != "" {
		return first(o.Adopted, func(g cloud.VServerGroup) bool { return g.ID == id })
	}
	name := GroupName(o.svc, p, o.mode, o.cluster)
	if g := first(o.Groups, func(g cloud.VServerGroup) bool { return g.Name == name }); g != nil {
		return g
	}
	return first(o.Groups, func(g cloud.VServerGroup) bool { return o.portOf(g) == port })
}

func first(groups []cloud.VServerGroup, fits func(cloud.VServerGroup) bool) *cloud.VServerGroup {
	if i := slices.IndexFunc(groups, fits); i >= 0 {
		return &groups[i]
	}
	return nil
}

// Needed returns the controller's groups whose rebuilding an obstacle prevents and that listeners or rules use.
func (o Owned) Needed(list []Obstacle) []cloud.VServerGroup {
	var needed []cloud.VServerGroup
	for i, p := range o.svc.Spec.Ports {
		g := o.Of(i)
		if g == nil || AdoptedGroup(o.svc, p) != "" || slices.ContainsFunc(needed, func(have cloud.VServerGroup) bool { return have.ID == g.ID }) {
			continue
		}
		stuck := slices.ContainsFunc(list, func(b Obstacle) bool { return slices.Contains(b.Ports, strconv.Itoa(int(p.Port))) })
		if stuck && len(g.Listeners)+len(g.Rules) > 0 {
			needed = append(needed, *g)
		}
	}
	return needed
}

// portOf returns the index of the Service's port that the group serves, or -1. A group's name contains the node port, or in PodMode the
// target port. A group named after the other one is older than that setting; it counts until its port has one with the right name. A port
// for which the Service names a user's group has none of the controller's.
func (o Owned) portOf(group cloud.VServerGroup) int {
	number := func(g cloud.VServerGroup) string {
		t, _ := ParseTrace(g.Name)
		return t.Port
	}
	former := -1
	for i, p := range o.svc.Spec.Ports {
		if AdoptedGroup(o.svc, p) != "" {
			continue
		}
		now, before := strconv.Itoa(int(p.NodePort)), p.TargetPort.String()
		if o.mode == PodMode {
			now, before = before, now
		}
		if number(group) == now {
			return i
		}
		renamed := slices.ContainsFunc(o.Groups, func(other cloud.VServerGroup) bool { return number(other) == now })
		if former < 0 && number(group) == before && !renamed {
			former = i
		}
	}
	return former
}

// BackendsOf reads the backends of each of the groups, by its ID. It needs DescribeVServerGroupAttribute.
func (c *View) BackendsOf(ctx context.Context, groups []cloud.VServerGroup) (map[string][]cloud.Backend, error) {
	by := map[string][]cloud.Backend{}
	for _, g := range groups {
		backends, err := c.Backends(ctx, Group{ID: g.ID})
		if err != nil {
			return nil, err
		}
		by[g.ID] = backends
	}
	return by, nil
}

// A NetworkGroup is a server group that the controller made for a Service with an NLB.
type NetworkGroup struct {
	cloud.ServerGroup
	Listeners []Listener // the listeners of one NLB that use it; other NLBs may use it, too
}

// NetworkGroups returns the server groups with the Service's name tag, with their listeners. It needs ListServerGroups and ListNLBListeners.
func (c *View) NetworkGroups(ctx context.Context, lb *Instance) ([]NetworkGroup, error) {
	listeners, err := c.Cloud.NLB.Listeners(ctx, lb.ID)
	if err != nil {
		return nil, fmt.Errorf("list listeners of %s: %w", lb.ID, err)
	}
	name := DefaultName(c.Service)
	own, err := c.Cloud.NLB.ServerGroups(ctx, NameTag, name)
	if err != nil {
		return nil, fmt.Errorf("list server groups with the tag %s=%s: %w", NameTag, name, err)
	}
	var out []NetworkGroup
	for _, g := range own {
		with := NetworkGroup{ServerGroup: g}
		for _, l := range listeners {
			if l.ServerGroup == g.ID {
				with.Listeners = append(with.Listeners, Listener{ID: l.ID, Protocol: l.Protocol, Port: l.Port, Last: l.Port, Description: l.Description})
			}
		}
		out = append(out, with)
	}
	return out, nil
}

// Unmanaged returns, by server and address, a group's backends that are neither the controller's, by their description, nor among the others.
func (c *View) Unmanaged(backends, others []cloud.Backend) []string {
	var out []string
	for _, b := range backends {
		if !c.OwnName(b.Description) && !slices.ContainsFunc(others, func(o cloud.Backend) bool { return o.ID == b.ID && o.IP == b.IP }) {
			out = append(out, strings.TrimSpace(b.ID+" "+b.IP))
		}
	}
	return out
}
