package ccm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/say"
)

type pool struct {
	id, name string
	own      bool               // it has the Service's name
	network  *cloud.ServerGroup // of an NLB; nil for a CLB's group, or one that the Service adopts
}

// groupChanges returns what a full sync changes on the groups of the Service and their servers, and which listeners get another group.
func (c *View) groupChanges(ctx context.Context, lb *Instance, listeners []port) ([]Difference, error) {
	mode, err := c.BackendMode(ctx)
	if err != nil {
		return nil, err
	}
	there, err := c.pools(ctx, lb)
	if err != nil {
		return nil, err
	}
	var list []Difference
	var wanted []string // names and IDs, which never coincide
	behind := map[int]pool{}
	world := &backing{c: c, mode: mode}
	for _, p := range c.Service.Spec.Ports {
		want := pool{id: AdoptedGroup(c.Service, p), name: GroupName(c.Service, p, mode, c.Cluster)}
		if span := RangeName(c.Service, p, c.Cluster); span != "" {
			want.name = span
		}
		if want.id != "" {
			want.name = want.id
		}
		if i := slices.IndexFunc(there, func(g pool) bool { return want.id != "" && g.id == want.id || want.id == "" && g.name == want.name }); i >= 0 {
			want.id, want.name, want.network = there[i].id, there[i].name, there[i].network
		} else if want.id == "" {
			list = append(list, Difference{What: "group " + want.name, Text: say.F("the group %s is created", want.name), Quiet: true})
		}
		behind[int(p.Port)] = want
		if slices.Contains(wanted, want.name) {
			continue
		}
		wanted = append(wanted, want.name, want.id)
		if want.id == "" {
			continue
		}
		if want.network != nil {
			drift := groupDifferences(c.Service, p, *want.network)
			list = append(list, drift...)
			if slices.ContainsFunc(drift, func(d Difference) bool { return d.Cuts }) { // it is made anew
				behind[int(p.Port)] = pool{name: want.name}
				continue
			}
		}
		d, err := world.compare(ctx, p, want)
		if err != nil {
			return nil, err
		}
		list = append(list, d...)
	}
	for _, g := range there {
		if g.own && !slices.Contains(wanted, g.name) {
			list = append(list, Difference{What: "group " + g.name, Text: say.F("the group %s has no port of the Service and would be deleted", g.name), Quiet: true})
		}
	}
	for _, l := range listeners {
		want := behind[l.of]
		if l.group != want.id || want.id == "" {
			i := slices.IndexFunc(there, func(g pool) bool { return g.id == l.group })
			follows := i >= 0 && there[i].own && !slices.Contains(wanted, there[i].name)
			list = append(list, Difference{What: "listener " + l.key, Text: say.F("listener %s sends to %s and would send to %s", l.key,
				say.Or(l.group, "no group of that kind"), say.Or(want.id, "a group of the Service's own")), Quiet: follows})
		}
		if l.description != l.own {
			t, ok := ParseTrace(l.description)
			taken := ok && !t.Of(c.Service, c.Cluster)
			text := say.F("the description of listener %s would be set", l.key)
			if taken {
				text = say.F("listener %s belongs to the Service %s of the cluster %s and would be taken over", l.key, t, t.Cluster)
			}
			list = append(list, Difference{What: "listener " + l.key, Text: text, Quiet: !taken})
		}
	}
	return list, nil
}

func (c *View) pools(ctx context.Context, lb *Instance) ([]pool, error) {
	var out []pool
	add := func(id, name string, network *cloud.ServerGroup) {
		out = append(out, pool{id: id, name: name, own: c.OwnName(name), network: network})
	}
	if lb.NLB != nil {
		all, err := c.Cloud.NLB.ServerGroups(ctx, NameTag, DefaultName(c.Service))
		if err != nil {
			return nil, fmt.Errorf("list server groups with the tag %s=%s: %w", NameTag, DefaultName(c.Service), err)
		}
		for i, g := range all {
			add(g.ID, g.Name, &all[i])
		}
		return out, nil
	}
	all, err := c.Cloud.SLB.VServerGroups(ctx, lb.ID)
	if err != nil {
		return nil, fmt.Errorf("list vServer groups of %s: %w", lb.ID, err)
	}
	for _, g := range all {
		add(g.ID, g.Name, nil)
	}
	return out, nil
}

// RangeName returns the name of the group of a port with a range of listener ports, or "" (nlbv2/server_groups.go).
func RangeName(svc *corev1.Service, p corev1.ServicePort, cluster string) string {
	protocol, number, _ := strings.Cut(networkKey(svc, p), ":")
	if !NLB(svc) || !strings.Contains(number, "-") {
		return ""
	}
	return strings.Join([]string{"k8s", strings.ReplaceAll(number, "-", "_"), protocol, svc.Name, svc.Namespace, cluster}, ".")
}

type backing struct {
	c     *View
	mode  BackendMode
	read  bool
	ends  []discoveryv1.EndpointSlice
	nodes []corev1.Node
}

func (b *backing) load(ctx context.Context) error {
	if b.read {
		return nil
	}
	var err error
	if b.ends, err = b.c.Kube.EndpointSlices(ctx, b.c.Service.Namespace, b.c.Service.Name); err != nil {
		return fmt.Errorf("list EndpointSlices: %w", err)
	}
	if b.mode != PodMode {
		if b.nodes, err = b.c.Kube.Nodes(ctx); err != nil {
			return fmt.Errorf("list nodes: %w", err)
		}
	}
	b.read = true
	return nil
}

func (b *backing) compare(ctx context.Context, p corev1.ServicePort, g pool) ([]Difference, error) {
	have, err := b.c.Backends(ctx, Group{Port: p, ID: g.id, Name: g.name})
	if errors.Is(err, cloud.ErrNotFound) {
		return nil, nil // deleted meanwhile, or it never existed: the sync fails on it
	}
	if err != nil {
		return nil, err
	}
	if err := b.load(ctx); err != nil {
		return nil, err
	}
	want := Servers(b.c.Service, p, b.mode, b.ends, b.nodes)
	var gets, loses, weighs []string
	there, unmanaged, cuts, woken := map[string]bool{}, false, false, false
	keep, _ := Annotation(b.c.Service, "ignore-weight-update")
	for _, s := range have {
		key := serverKey(s)
		there[key] = true
		weight, ok := want[key]
		ours := b.c.OwnName(s.Description)
		switch {
		case !ours && !ok:
			unmanaged = true
		case !ok && s.Weight == 0 && b.drains(s):
		case !ok:
			loses = append(loses, key)
			cuts = cuts || s.Weight > 0 && b.serves(s)
		case weight != s.Weight && !strings.EqualFold(keep, "on"):
			weighs = append(weighs, key)
			woken = woken || s.Weight == 0
		}
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if !there[key] {
			gets = append(gets, key)
		}
	}
	var parts []say.Text
	for _, of := range []struct {
		what say.Text
		keys []string
	}{{say.F("gets %s", some(gets)), gets}, {say.F("loses %s", some(loses)), loses}, {say.F("changes the weight of %s", some(weighs)), weighs}} {
		if len(of.keys) > 0 {
			parts = append(parts, of.what)
		}
	}
	if len(parts) == 0 {
		return nil, nil
	}
	cuts = cuts || len(loses) > 0 && len(want) == 0 && !unmanaged
	return []Difference{{What: "group " + g.name, Text: say.F("the group %s %s", g.name, say.Items(parts, len(parts))), Cuts: cuts, Quiet: !cuts && !woken}}, nil
}

// gracefulShutdown is the annotation that keeps terminating Pods among the servers, with the weight 0; ignore-weight-update switches it off.
// From the release notes of v2.15.0 only: its source is not published.
const gracefulShutdown = "graceful-shutdown"

// drains reports whether a server is a terminating Pod that stays until it is gone. An older controller removes it without harm.
func (b *backing) drains(s cloud.Backend) bool {
	keep, _ := Annotation(b.c.Service, "ignore-weight-update")
	value, _ := Annotation(b.c.Service, gracefulShutdown)
	if value == "" || strings.EqualFold(value, "off") || strings.EqualFold(keep, "on") || s.Type != "eni" {
		return false
	}
	for _, slice := range b.ends {
		for _, e := range slice.Endpoints {
			if e.Conditions.Terminating != nil && *e.Conditions.Terminating && slices.Contains(e.Addresses, s.IP) {
				return true
			}
		}
	}
	return false
}

func some(names []string) say.Text { return say.List(names, 3) }

// serverKey returns the key of a server within its group: a node by its instance, a Pod and all of a group of addresses by the address.
func serverKey(s cloud.Backend) string {
	if s.Type == "eni" || s.Type == "ip" {
		return fmt.Sprintf("%s:%d", s.IP, s.Port)
	}
	return fmt.Sprintf("%s:%d", s.ID, s.Port)
}

// serves reports whether a server that a sync removes may still take traffic: an existing, ready, lasting node, or a ready Pod of the Service.
func (b *backing) serves(s cloud.Backend) bool {
	if s.Type == "eni" || s.Type == "ip" && b.mode == PodMode {
		return false
	}
	for i := range b.nodes {
		if n := &b.nodes[i]; serverOf(n, b.c.Service) == s.ID {
			why, _ := ExclusionOf(n, b.c.Service)
			return why != NotReady && why != Going
		}
	}
	return b.mode == PodMode
}

// Servers returns the servers that the controller puts behind a port, with their weights: nodes as "i-1:30080" or "192.168.0.1:30080", Pods as
// "10.0.0.1:8080", or "10.0.0.1:0" behind a range of ports (getBackendPort in nlbv2/server_groups.go). It does not know which Pods have a
// network interface, or wait only for the controller.
func Servers(svc *corev1.Service, p corev1.ServicePort, mode BackendMode, ends []discoveryv1.EndpointSlice, nodes []corev1.Node) map[string]int {
	ready := Ready(ends, p, FamilyOf(svc))
	pods := map[string]int{} // by node
	for i := range ready {
		pods[ready[i].Node]++
		if RangeName(svc, p, "") != "" {
			ready[i].Port = 0
		}
	}
	out := map[string]int{} // 0 for a server without its own weight yet
	if mode == PodMode {
		for _, e := range ready {
			out[fmt.Sprintf("%s:%d", e.IP, e.Port)] = 0
		}
		return share(svc, out)
	}
	for i := range nodes {
		n := &nodes[i]
		server := fmt.Sprintf("%s:%d", serverOf(n, svc), p.NodePort)
		switch why, _ := ExclusionOf(n, svc); {
		case why == Virtual:
			for _, e := range ready {
				switch key := fmt.Sprintf("%s:%d", e.IP, e.Port); {
				case e.Node != n.Name:
				case mode == LocalMode: // one Pod (podNumberAlgorithm and removeDuplicatedECS, since v2.12.4)
					out[key] = 1
				default:
					out[key] = 0
				}
			}
		case why != Serves || mode == LocalMode && pods[n.Name] == 0:
		case mode == LocalMode:
			out[server] += pods[n.Name]
		default:
			out[server] = 0
		}
	}
	return share(svc, out)
}

// share sets the weights of the servers: their part of the weight that the Service gives all, else their own, else the default.
func share(svc *corev1.Service, servers map[string]int) map[string]int {
	normal := 100
	if text, _ := Annotation(svc, "default-weight"); text != "" {
		if n, err := strconv.Atoi(text); err == nil && n >= 0 && n <= 100 {
			normal = n
		}
	}
	own, shared := OwnWeight(svc, Newest())
	all := 0
	for _, w := range servers {
		all += max(w, 1)
	}
	for key, w := range servers {
		switch {
		case shared && own == 0:
			servers[key] = 0
		case shared:
			servers[key] = max(max(w, 1)*own/all, 1)
		case w == 0:
			servers[key] = normal
		}
	}
	return servers
}

// serverOf returns how a group names a node.
func serverOf(n *corev1.Node, svc *corev1.Service) string {
	if GroupsOfAddresses(svc) {
		return internalIP(n)
	}
	return instanceOf(n)
}

func instanceOf(n *corev1.Node) string {
	parts := strings.Split(strings.TrimPrefix(n.Spec.ProviderID, "alicloud://"), ".")
	if len(parts) < 2 {
		return ""
	}
	return parts[1]
}

// SplitProviderID reads a provider ID such as cn-hangzhou.i-1, or alicloud://cn-hangzhou.i-1, as the controller does, or returns false.
func SplitProviderID(id string) (region, instance string, ok bool) {
	region, instance, ok = strings.Cut(strings.TrimPrefix(id, "alicloud://"), ".")
	return region, instance, ok && region != "" && instance != "" && !strings.ContainsAny(instance, `"\ ,[]`)
}
