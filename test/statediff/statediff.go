// Package statediff compares a whole cluster and a whole simulated account before and after: only allowed changes, each with a
// reason, may occur. Begin with [Read] and [Compare].
package statediff

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/testbed"
)

// A State is the state of a cluster and a simulated account.
type State struct {
	values map[string]string // JSON values by path
	World  *sim.World        // the account
}

// At joins the parts of a path.
func At(parts ...string) string { return strings.Join(parts, " > ") }

// Read returns the current state. It omits Events, which the controller writes at will, objects that the API server writes itself
// (a Service's IPAddress is deleted minutes after the Service if its release failed), and the rights of the test's users.
func Read(t *testing.T, tb *testbed.Testbed) State {
	t.Helper()
	s := State{values: map[string]string{}, World: tb.Cloud.Snapshot()}
	account := *s.World
	account.Callers = nil // keys of the test's own users
	s.add(t, "cloud", account)
	for _, kind := range listed(t, tb.Cluster) {
		all, err := tb.Cluster.Dynamic().Resource(kind).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatalf("list %s: %v", kind.Resource, err)
		}
		for _, o := range all.Items {
			if strings.HasPrefix(o.GetName(), "lbremedy-sandbox:") {
				continue
			}
			o.SetManagedFields(nil)
			o.SetResourceVersion("")
			s.add(t, object(kind.GroupResource(), &o), o.Object)
		}
	}
	return s
}

func object(kind schema.GroupResource, o metav1.Object) string {
	return At(kind.String(), strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/"))
}

func service(s event.Service) string { return At("services", s.Namespace+"/"+s.Name) }

func listed(t *testing.T, c *cluster.Cluster) []schema.GroupVersionResource {
	t.Helper()
	groups, err := c.Client().Discovery().ServerPreferredResources()
	if err != nil {
		t.Fatalf("ask which kinds there are: %v", err)
	}
	var kinds []schema.GroupVersionResource
	for _, g := range groups {
		version, err := schema.ParseGroupVersion(g.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range g.APIResources {
			own := slices.Contains([]string{"events", "leases", "componentstatuses", "ipaddresses"}, r.Name)
			if !own && !strings.Contains(r.Name, "/") && slices.Contains(r.Verbs, "list") {
				kinds = append(kinds, version.WithResource(r.Name))
			}
		}
	}
	return kinds
}

func (s State) add(t *testing.T, path string, v any) {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	read := json.NewDecoder(bytes.NewReader(data))
	read.UseNumber()
	var plain any
	if err := read.Decode(&plain); err != nil {
		t.Fatal(err)
	}
	s.put(path, plain)
}

func (s State) put(path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			s.put(At(path, k), e)
		}
	case []any:
		names := map[string]bool{}
		for i, e := range v {
			name := nameOf(e)
			if name == "" || names[name] {
				name = fmt.Sprint(i)
			}
			names[name] = true
			s.put(At(path, name), e)
		}
	case nil:
	default:
		data, err := json.Marshal(v)
		if err != nil {
			panic(fmt.Sprintf("a value of JSON does not encode: %v", err))
		}
		s.values[path] = string(data)
	}
}

// nameOf returns a list element's identity regardless of its position, or "".
func nameOf(v any) string {
	e, ok := v.(map[string]any)
	if !ok {
		return ""
	}
	if id, ok := e["id"].(string); ok {
		return id
	}
	if port, ok := e["port"]; ok && e["protocol"] != nil {
		return fmt.Sprintf("%v:%v", e["protocol"], port)
	}
	name, _ := e["name"].(string)
	return name
}

// An Allowance is a path that may change, with everything below it.
type Allowance struct{ path, why string }

// Compare returns the differences that no allowance covers, one line each.
func Compare(before, after State, allowed ...[]Allowance) []string {
	all := slices.Concat(allowed...)
	var diff []string
	for _, path := range slices.Sorted(maps.Keys(union(before.values, after.values))) {
		was, is := before.values[path], after.values[path]
		covered := slices.ContainsFunc(all, func(a Allowance) bool { return path == a.path || strings.HasPrefix(path, At(a.path, "")) })
		if was != is && !covered {
			diff = append(diff, fmt.Sprintf("%s: was %s, is %s", path, cmp.Or(was, "not there"), cmp.Or(is, "not there")))
		}
	}
	return diff
}

func union(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// BySteps returns what a plan's applied steps name. Unknown kinds of steps may change nothing.
func BySteps(t *testing.T, rec event.Record) []Allowance {
	t.Helper()
	svc := service(rec.Service)
	var all []Allowance
	for _, s := range rec.Steps[:rec.Next] {
		made, err := step.Decode(s.Kind, s.Step)
		if err != nil {
			t.Fatal(err)
		}
		may := func(parts ...string) { all = append(all, Allowance{At(parts...), s.Text.String()}) }
		may(svc, "metadata", "annotations", ccm.Resync)
		if keyed, ok := made.(remedy.Keyed); ok {
			for _, key := range keyed.Keys() {
				may(svc, "metadata", "annotations", key)
			}
		}
		switch made := made.(type) {
		case step.TagLB:
			for _, kind := range []string{"loadBalancers", "nlbs"} {
				may("cloud", kind, made.LB, "tags", made.Key)
			}
		case step.UntagLB:
			for _, kind := range []string{"loadBalancers", "nlbs"} {
				may("cloud", kind, made.LB, "tags", made.Key)
			}
		case step.Protect:
			may("cloud", "nlbs", made.LB, "deletionProtection")
		case step.Unprotect:
			may("cloud", "loadBalancers", made.LB, "deleteProtection")
			may("cloud", "nlbs", made.LB, "deletionProtection")
		case step.DeleteListener:
			may("cloud", "loadBalancers", made.LB, "listeners", fmt.Sprintf("%s:%d", made.Listener.Protocol, made.Listener.Port))
		case step.PolicyVersion:
			may("cloud", "policies", made.Policy, "versions")
		case step.ClearStatus:
			may(svc, "status", "loadBalancer")
		}
	}
	return all
}

// ByDeletion returns what is deleted with a Service whose load balancer a step released: Service, load balancer, groups, addresses.
func ByDeletion(t *testing.T, before State, rec event.Record) []Allowance {
	t.Helper()
	var all []Allowance
	for _, s := range rec.Steps[:rec.Next] {
		decoded, err := step.Decode(s.Kind, s.Step)
		if err != nil {
			t.Fatal(err)
		}
		freed, ok := decoded.(step.Unprotect)
		if !ok {
			continue
		}
		may := func(parts ...string) { all = append(all, Allowance{At(parts...), "it is deleted"}) }
		may(service(rec.Service))
		may("cloud", "loadBalancers", freed.LB)
		may("cloud", "nlbs", freed.LB)
		for _, ip := range before.World.EIPs {
			if ip.Instance == freed.LB {
				may("cloud", "eips", ip.ID)
			}
		}
		for _, g := range before.World.ServerGroups {
			if g.Tags[nameTag] == nameOwn(rec.Service) {
				may("cloud", "serverGroups", g.ID)
			}
		}
		for _, v := range before.World.VSwitches {
			may("cloud", "vswitches", v.ID, "free")
		}
	}
	return all
}

func marks(svc event.Service) []Allowance {
	path := service(svc)
	return []Allowance{
		{At(path, "metadata", "labels", ccm.HashLabel), "the hash of what was synced"},
		{At(path, "metadata", "labels", ccm.BalancerLabel), "the ID of the load balancer"},
		{At(path, "metadata", "finalizers"), "so that the Service does not go before its load balancer"},
		{At(path, "status", "loadBalancer"), "the address"},
	}
}

var settings = map[string][]string{
	"address-type": {
		"addressType",
		"vpc",
		"vswitch",
	}, "name": {"name"}, "spec": {"spec"}, "instance-charge-type": {"chargeType", "spec"}, "charge-type": {"internetChargeType"},
	"bandwidth": {
		"bandwidth",
	}, "delete-protection": {"deleteProtection"}, "modification-protection": {"modificationProtection"}, "zone-maps": {"zones"},
	"security-group-ids": {"securityGroups"},
	"cross-zone-enabled": {"noCrossZone"}, "bandwidth-package-id": {"bandwidthPackage"}, "ipv6-address-type": {"ipv6AddressType"},
}

// ByChanges returns what the controller may change when it syncs a Service after a plan: its marks on the Service, and in the
// cloud what the plan's record says that the sync will change. The step covers settings that its annotations request.
func ByChanges(t *testing.T, before, after State, rec event.Record) []Allowance {
	t.Helper()
	all := marks(rec.Service)
	cloud := func(why string, parts ...string) {
		all = append(all, Allowance{At(append([]string{"cloud"}, parts...)...), why})
	}
	worlds := []*sim.World{before.World, after.World} // objects are created and deleted
	setting := func(why, id, short string) {
		for _, field := range settings[short] {
			cloud(why, "loadBalancers", id, field)
			cloud(why, "nlbs", id, field)
		}
		if short == "address-type" {
			all = append(all, publicAddresses(worlds, id)...)
		}
	}
	for _, c := range rec.Changes {
		kind, name, _ := strings.Cut(c.What, " ")
		switch {
		case c.What == "load balancer" && c.Balancer == "":
			all = append(all, made(before, after, rec.Service)...)
			for _, g := range after.World.ServerGroups {
				if g.Tags[nameTag] == nameOwn(rec.Service) {
					cloud(c.How.String(), "serverGroups", g.ID)
				}
			}
		case kind == "tag":
			cloud(c.How.String(), "loadBalancers", c.Balancer, "tags", name)
			cloud(c.How.String(), "nlbs", c.Balancer, "tags", name)
		case kind == "listener":
			cloud(c.How.String(), "loadBalancers", c.Balancer, "listeners", name)
			for _, w := range worlds {
				for _, n := range w.NLBs {
					for _, l := range n.Listeners {
						if n.ID == c.Balancer && fmt.Sprintf("%s:%d", l.Protocol, l.Port) == name {
							cloud(c.How.String(), "nlbs", n.ID, "listeners", l.ID)
						}
					}
				}
			}
		case kind == "group":
			for _, w := range worlds {
				for _, lb := range w.LoadBalancers {
					for _, g := range lb.VGroups {
						if lb.ID == c.Balancer && g.Name == name {
							cloud(c.How.String(), "loadBalancers", lb.ID, "vgroups", g.ID)
						}
					}
				}
				for _, g := range w.ServerGroups {
					if g.Name == name {
						cloud(c.How.String(), "serverGroups", g.ID)
					}
				}
			}
		default:
			setting(c.How.String(), c.Balancer, c.What)
		}
	}
	for _, s := range rec.Steps[:rec.Next] {
		decoded, err := step.Decode(s.Kind, s.Step)
		if err != nil {
			t.Fatal(err)
		}
		keyed, ok := decoded.(remedy.Keyed)
		if !ok {
			continue
		}
		for _, key := range keyed.Keys() {
			for _, w := range worlds {
				for _, lb := range w.LoadBalancers {
					if lb.Tags[nameTag] == nameOwn(rec.Service) {
						setting(s.Text.String(), lb.ID, strings.TrimPrefix(key, ccm.Prefix))
					}
				}
			}
		}
	}
	return all
}

func publicAddresses(worlds []*sim.World, id string) []Allowance {
	const why = "the public address of its load balancer"
	var all []Allowance
	for _, w := range worlds {
		for _, n := range w.NLBs {
			if n.ID != id {
				continue
			}
			for i, z := range n.Zones {
				all = append(
					all,
					Allowance{At("cloud", "eips", z.EIP), why},
					Allowance{At("cloud", "nlbs", id, "zones", fmt.Sprint(i), "eip"), why},
					Allowance{At("cloud", "nlbs", id, "zones", fmt.Sprint(i), "public"), why},
				)
			}
		}
	}
	return all
}

const nameTag = "kubernetes.do.not.delete"

func nameOwn(svc event.Service) string { return "a" + strings.ReplaceAll(svc.UID, "-", "")[:31] }

// ByController returns what the controller changes when it syncs an unchanged Service: its marks, and the Service's resources in
// the cloud: groups and listeners of an existing load balancer, and the whole of a new one that the controller created.
func ByController(before, after State, svc event.Service) []Allowance {
	own := marks(svc)
	name := nameOwn(svc)
	cloud := func(why string, parts ...string) {
		own = append(own, Allowance{At(append([]string{"cloud"}, parts...)...), why})
	}
	for _, world := range []*sim.World{before.World, after.World} { // groups and listeners are also deleted
		theirs := fmt.Sprintf("/%s/%s/%s", svc.Name, svc.Namespace, testbed.ClusterID)
		for _, lb := range world.LoadBalancers {
			for _, g := range lb.VGroups {
				if strings.HasPrefix(g.Name, "k8s/") && strings.HasSuffix(g.Name, theirs) {
					cloud("the Service's group", "loadBalancers", lb.ID, "vgroups", g.ID)
				}
			}
			for _, l := range lb.Listeners {
				if strings.HasPrefix(l.Description, "k8s/") && strings.HasSuffix(l.Description, theirs) {
					cloud("the Service's listener", "loadBalancers", lb.ID, "listeners", fmt.Sprintf("%s:%d", l.Protocol, l.Port))
				}
			}
		}
		for _, g := range world.ServerGroups {
			if g.Tags[nameTag] == name {
				cloud("the Service's group", "serverGroups", g.ID)
			}
		}
	}
	return append(own, made(before, after, svc)...)
}

func made(before, after State, svc event.Service) []Allowance {
	var own []Allowance
	name := nameOwn(svc)
	cloud := func(why string, parts ...string) {
		own = append(own, Allowance{At(append([]string{"cloud"}, parts...)...), why})
	}
	for _, lb := range after.World.LoadBalancers {
		switch was := slices.ContainsFunc(before.World.LoadBalancers, func(o sim.LoadBalancer) bool { return o.ID == lb.ID }); {
		case lb.Tags[nameTag] != name:
		case was:
			cloud("the name by which it knows its load balancer", "loadBalancers", lb.ID, "tags", nameTag)
		default:
			cloud("the load balancer that it has made", "loadBalancers", lb.ID)
			cloud("the address of the load balancer that it has made", "vswitches", lb.VSwitch, "free")
		}
	}
	for _, n := range after.World.NLBs {
		if n.Tags[nameTag] != name {
			continue
		}
		was := slices.IndexFunc(before.World.NLBs, func(o sim.NLB) bool { return o.ID == n.ID })
		zones := n.Zones
		if was < 0 {
			cloud("the load balancer that it has made", "nlbs", n.ID)
		} else {
			cloud("whether an NLB has public addresses can be changed", "nlbs", n.ID, "addressType")
			zones = slices.Concat(zones, before.World.NLBs[was].Zones)
		}
		for _, z := range zones {
			if was < 0 {
				cloud("the address of the load balancer that it has made", "vswitches", z.VSwitch, "free")
			}
			cloud("the public address of its load balancer", "eips", z.EIP)
		}
		for i := range n.Zones {
			cloud("the public address of its load balancer", "nlbs", n.ID, "zones", fmt.Sprint(i), "eip")
			cloud("the public address of its load balancer", "nlbs", n.ID, "zones", fmt.Sprint(i), "public")
		}
	}
	return own
}

// ByNodes returns what changes of nodes change in all Services but these: the backends of their groups, unless Halt interrupted it.
func ByNodes(but []event.Service, worlds ...*sim.World) []Allowance {
	const why = "backends of nodes that have come or gone"
	left := func(group string) bool {
		t, ok := ccm.ParseTrace(group)
		return ok && t.Cluster == testbed.ClusterID &&
			!slices.ContainsFunc(but, func(s event.Service) bool { return s.Namespace == t.Namespace && s.Name == t.Service })
	}
	var all []Allowance
	for _, w := range worlds {
		for _, lb := range w.LoadBalancers {
			for _, g := range lb.VGroups {
				if left(g.Name) {
					all = append(all, Allowance{At("cloud", "loadBalancers", lb.ID, "vgroups", g.ID, "backends"), why})
				}
			}
		}
		for _, g := range w.ServerGroups {
			if left(g.Name) {
				all = append(all, Allowance{At("cloud", "serverGroups", g.ID, "servers"), why})
			}
		}
	}
	return all
}

// ByUndo returns what remains when a plan is undone: our mark, whose removal would trigger another sync, and versions of a RAM
// policy that are no longer in force.
func ByUndo(t *testing.T, after State, rec event.Record) []Allowance {
	t.Helper()
	all := []Allowance{{At(service(rec.Service), "metadata", "annotations", ccm.Resync), "the mark"}}
	for _, s := range rec.Steps[:rec.Next] {
		made, err := step.Decode(s.Kind, s.Step)
		if err != nil {
			t.Fatal(err)
		}
		extended, ok := made.(step.PolicyVersion)
		if !ok {
			continue
		}
		for _, p := range after.World.Policies {
			for _, v := range p.Versions {
				if p.Name == extended.Policy && v.Document == extended.Document && !v.Default {
					all = append(all, Allowance{At("cloud", "policies", p.Name, "versions", v.ID), "no longer in force"})
				}
			}
		}
	}
	return all
}

// Allow returns the allowance for a path and everything below it, with a reason.
func Allow(why string, parts ...string) Allowance { return Allowance{At(parts...), why} }
