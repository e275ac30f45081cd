package ccm

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/say"
)

// BuildingReads is what Unbuilt reads; a class that calls it declares it.
var BuildingReads = slices.Concat(ControllerReads,
	[]grant.Grant{grant.DescribeClusterDetail, grant.ListNodes, grant.ListEndpointSlices, grant.DescribeVServerGroups})

// The annotations that set server weights: GroupWeight for all servers of a user's groups together, DefaultWeight for each other server.
const (
	GroupWeight   = "weight"
	DefaultWeight = "default-weight"
)

// FirstSilentBuild returns the first release that skips a port whose vServer group it cannot build, without a reason (BuildLocalModel in
// clbv1/vgroups.go: its commit of 2025-08-29 is older than v2.12.1). Older releases fail with the reason.
func FirstSilentBuild() Version { return v2121 }

// A Building is what the controller builds the vServer groups of a Service with a CLB from.
type Building struct {
	Service *corev1.Service
	Mode    BackendMode
	Version Version // needed if the default weight is wrong; zero if unknown
	Nodes   []corev1.Node
	Slices  []discoveryv1.EndpointSlice
	Groups  []Group // of the reused load balancer; needed if the Service names some
}

// NamesGroups reports whether the Service names vServer groups of a load balancer that it reuses.
func NamesGroups(svc *corev1.Service) bool {
	id, _ := Annotation(svc, BalancerID)
	pairs, _ := Annotation(svc, GroupPairs)
	return id != "" && pairs != "" && !NLB(svc)
}

func (c *View) building(ctx context.Context) (Building, error) {
	b := Building{Service: c.Service}
	var err error
	if b.Mode, err = c.BackendMode(ctx); err != nil {
		return b, err
	}
	if len(b.weight(DefaultWeight)) > 0 {
		ctl, err := c.Controller(ctx)
		if err != nil {
			return b, err
		}
		b.Version = ctl.Version
	}
	if b.Mode != PodMode {
		if b.Nodes, err = c.Kube.Nodes(ctx); err != nil {
			return b, fmt.Errorf("list nodes: %w", err)
		}
		if b.Slices, err = c.Kube.EndpointSlices(ctx, c.Service.Namespace, c.Service.Name); err != nil {
			return b, fmt.Errorf("list EndpointSlices: %w", err)
		}
	}
	if NamesGroups(c.Service) {
		lb, _ := Annotation(c.Service, BalancerID)
		all, err := c.Cloud.SLB.VServerGroups(ctx, lb)
		if err != nil {
			return b, fmt.Errorf("list vServer groups of %s: %w", lb, err)
		}
		for _, g := range all {
			b.Groups = append(b.Groups, Group{ID: g.ID, Name: g.Name, Servers: g.Servers})
		}
	}
	return b, nil
}

// An Obstacle keeps the controller from building the vServer groups of some ports.
type Obstacle struct {
	Ports []string // their numbers
	Name  string   // of the node, endpoint or vServer group; short name of an annotation
	Text  say.Text // what is wrong, as a clause
	Key   string   // short name of the wrong annotation; empty if another thing is wrong
	Means string   // the only value that the annotation can mean; empty if unknown
	Doubt bool     // the version is unknown, and older releases do not read the annotation
	Node  bool     // it is a node, which also affects other Services
	fault Fault
	note  func(*NodeFaults)
}

// Obstacles returns what keeps the controller from building the vServer groups, in its order (buildVGroupForServicePort in
// clbv1/vgroups.go): named groups and weights, nodes with unreadable provider IDs, endpoints without a node. Failing API calls do not show
// here. A released Service, and one with an NLB, has no obstacles.
func (b Building) Obstacles() []Obstacle {
	if NLB(b.Service) || len(Leaving(b.Service)) > 0 {
		return nil
	}
	var all []Obstacle
	for _, p := range b.Service.Spec.Ports {
		number := strconv.Itoa(int(p.Port))
		for _, o := range b.of(p) {
			at := slices.IndexFunc(all, func(have Obstacle) bool { return have.Name == o.Name && have.Key == o.Key })
			if at < 0 {
				all, at = append(all, o), len(all)
			}
			if !slices.Contains(all[at].Ports, number) {
				all[at].Ports = append(all[at].Ports, number)
			}
		}
	}
	return all
}

func (b Building) of(p corev1.ServicePort) []Obstacle {
	var found []Obstacle
	if NamesGroups(b.Service) {
		found = append(b.paired(p), b.weight(GroupWeight)...)
	}
	if unknown := b.Version == (Version{}); unknown || !b.Version.Before(v214) { // clbv1/vgroups.go of v2.14.0 reads it
		for _, o := range b.weight(DefaultWeight) {
			if unknown {
				o.Doubt, o.Means = true, ""
			}
			found = append(found, o)
		}
	}
	if b.Mode == PodMode {
		return found
	}
	ready := Ready(b.Slices, p, FamilyOf(b.Service))
	on := map[string]bool{}
	for _, e := range ready {
		on[e.Node] = true
	}
	for _, n := range b.Nodes {
		if (b.Mode == ClusterMode || on[n.Name]) && b.candidate(&n) && !parses(n.Spec.ProviderID) {
			found = append(found, noted(n.Name, true, func(f *NodeFaults) { f.unnamed(n) }))
		}
	}
	for _, e := range ready {
		if e.Node == "" {
			found = append(found, noted(e.IP, false, func(f *NodeFaults) { f.nameless(e) }))
		}
	}
	return found
}

func noted(name string, node bool, note func(*NodeFaults)) Obstacle {
	var f NodeFaults
	note(&f)
	return Obstacle{Name: name, Text: f.Findings[0], Node: node, note: note}
}

// candidate reports whether the controller reads the provider ID of a node; of a virtual node only in ClusterMode, unless a label excludes
// it. Every release that skips an unbuilt group knows hybrid nodes.
func (b Building) candidate(n *corev1.Node) bool {
	why, _ := ExclusionOf(n, b.Service)
	return why == Serves || why == Virtual && b.Mode == ClusterMode && ExcludingLabel(n) == ""
}

// parses reports whether the controller can read an instance from a provider ID, which needs only a dot (NodeFromProviderID in helper/node_utils.go).
func parses(id string) bool {
	if rest, ok := strings.CutPrefix(id, "alicloud://"); ok {
		id, _, _ = strings.Cut(rest, "://")
	}
	return strings.Contains(id, ".")
}

func (b Building) weight(name string) []Obstacle {
	value, _ := Annotation(b.Service, name)
	rules := ValueRules()
	rule := rules[slices.IndexFunc(rules, func(r ValueRule) bool { return r.Name == name && r.Reads(false) })]
	if value == "" || rule.Takes(value) {
		return nil
	}
	f := Fault{ValueRule: rule, Value: value, There: true}
	o := Obstacle{Name: name, Key: name, fault: f, Text: say.F("the annotation %s", DescribeFaults([]Fault{f}))}
	if plain := strings.TrimSpace(value); rule.Takes(plain) {
		o.Means = plain
	}
	return []Obstacle{o}
}

// pairOf returns the ID of a port's group in vgroup-port as the controller reads it, white space included, or "". Parts without a colon fail elsewhere.
func pairOf(value string, p corev1.ServicePort) string {
	for part := range strings.SplitSeq(value, ",") {
		if f := strings.Split(part, ":"); len(f) > 1 && f[1] == strconv.Itoa(int(p.Port)) {
			return f[0]
		}
	}
	return ""
}

func (b Building) paired(p corev1.ServicePort) []Obstacle {
	lb, _ := Annotation(b.Service, BalancerID)
	value, _ := Annotation(b.Service, GroupPairs)
	id := pairOf(value, p)
	i := slices.IndexFunc(b.Groups, func(g Group) bool { return g.ID == id })
	switch {
	case id == "":
	case i < 0:
		o := Obstacle{Name: id, Key: GroupPairs, Text: say.F("the annotation %s names the vServer group %s, which %s does not have", GroupPairs, Quote(id), lb)}
		if b.usable(strings.TrimSpace(id)) {
			o.Means = unspaced(value)
			o.Text = say.F("the annotation %s names the vServer group %s with white space around its ID, and the controller looks for that", GroupPairs, Quote(id))
		}
		return []Obstacle{o}
	case !b.usable(id):
		return []Obstacle{{Name: id, Key: GroupPairs, Text: say.F("the annotation %s names %s (%s), which a controller created and manages itself",
			GroupPairs, id, b.Groups[i].Name)}}
	}
	return nil
}

func unspaced(value string) string {
	parts := strings.Split(value, ",")
	for i, part := range parts {
		id, rest, _ := strings.Cut(part, ":")
		parts[i] = strings.TrimSpace(id) + ":" + rest
	}
	return strings.Join(parts, ",")
}

// usable reports whether the load balancer has the group, with a name that is not a controller's (LoadVGroupNamedKey in pkg/model/load_balancer.go).
func (b Building) usable(id string) bool {
	return slices.ContainsFunc(b.Groups, func(g Group) bool { return g.ID == id && !byController(g) })
}

func byController(g Group) bool {
	_, ok := ParseTrace(g.Name)
	return ok && strings.HasPrefix(g.Name, "k8s/")
}

// Unbuilt reads what keeps the vServer groups of the Service from being built; nothing for a released Service, or one with an NLB.
func (c *View) Unbuilt(ctx context.Context) (Building, []Obstacle, error) {
	if NLB(c.Service) || len(Leaving(c.Service)) > 0 {
		return Building{Service: c.Service}, nil, nil
	}
	b, err := c.building(ctx)
	if err != nil {
		return b, nil, err
	}
	return b, b.Obstacles(), nil
}

// DescribeObstacles says for which ports no group can be built, and why.
func DescribeObstacles(list []Obstacle) say.Text {
	var text say.Text
	for len(list) > 0 {
		ports, doubt := list[0].Ports, list[0].Doubt
		var same []say.Text
		list = slices.DeleteFunc(slices.Clone(list), func(o Obstacle) bool {
			if slices.Equal(o.Ports, ports) && o.Doubt == doubt {
				same = append(same, o.Text)
				return true
			}
			return false
		})
		switch {
		case doubt:
			text = text.Then(NoVersion()).And("From %s on, the controller cannot build the vServer groups of the ports %s: %s.", v214, say.List(ports, 5),
				say.Clauses(same, 5))
		case len(ports) == 1:
			text = text.And("The controller cannot build the vServer group of port %s: %s.", ports[0], say.Clauses(same, 5))
		default:
			text = text.And("The controller cannot build the vServer groups of the ports %s: %s.", say.List(ports, 5), say.Clauses(same, 5))
		}
	}
	return text
}

// Corrections returns the only values that the annotations can mean, by short name; false if a person has to decide.
func Corrections(list []Obstacle) (map[string]string, bool) {
	out := map[string]string{}
	for _, o := range list {
		if o.Means == "" {
			return nil, false
		}
		out[o.Key] = o.Means
	}
	return out, len(out) > 0
}

// Ask says what a person does about the obstacles.
func (b Building) Ask(list []Obstacle) say.Text {
	var ask say.Text
	var nodes NodeFaults
	asked := map[string]bool{}
	for _, o := range list {
		if o.note != nil {
			o.note(&nodes)
			continue
		}
		if asked[o.Key] {
			continue
		}
		asked[o.Key] = true
		same := slices.DeleteFunc(slices.Clone(list), func(other Obstacle) bool { return other.Key != o.Key })
		means, ok := Corrections(same)
		switch {
		case ok:
			ask = ask.And("Set the annotation to what it can only mean: %s.", SetCommand(b.Service, o.Key, means[o.Key]))
		case o.Key == GroupPairs:
			ask = ask.Then(b.nameGroup())
		default:
			ask = ask.Then(o.fault.Advice(b.Service)).And("Or remove it: %s.", RemoveCommand(b.Service, o.Key))
		}
	}
	return ask.Then(nodes.Ask(b.Service))
}

func (b Building) nameGroup() say.Text {
	lb, _ := Annotation(b.Service, BalancerID)
	ask := say.F("In the annotation %s, name a vServer group of %s that a person created: %s.", GroupPairs, lb, SetCommand(b.Service, GroupPairs, "GROUP-ID:PORT"))
	var able []string
	for _, g := range b.Groups {
		if !byController(g) {
			able = append(able, described(g.ID, g.Name))
		}
	}
	if len(able) == 0 {
		return ask.And("%s has none: create one first.", lb)
	}
	return ask.And("%s has %s.", lb, say.List(able, 5))
}

// Advice says how to set the annotation to a value that the controller accepts.
func (f Fault) Advice(svc *corev1.Service) say.Text {
	return say.F("Set the annotation to the intended value: %s.", SetCommand(svc, f.Name, "VALUE"))
}
