package backendquota

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A state is what the Service needs and what its load balancer has.
type state struct {
	c      *remedy.Case
	nlb    bool
	mode   ccm.BackendMode
	terway bool
	nodes  []corev1.Node
	ends   []discoveryv1.EndpointSlice
	groups []ccm.Group    // of the Service's ports
	lb     string         // ID; empty: none was found
	rest   int            // backends of the load balancer in other groups; the next three add up to it
	shares map[string]int // of other Services
	former int            // of ports that the Service no longer has
	manual int            // of groups that a person created
}

// owns reports whether the group belongs to a port of the Service.
func (s *state) owns(group string) bool {
	return slices.ContainsFunc(s.groups, func(own ccm.Group) bool { return own.ID == group })
}

// other counts the backends of a group that belongs to no port of the Service. The name tells
// who owns the group.
func (s *state) other(group, name string, servers int) {
	if servers == 0 || s.owns(group) {
		return
	}
	s.rest += servers
	switch t, ok := ccm.ParseTrace(name); {
	case !ok:
		s.manual += servers
	case t.Of(s.c.Service, s.c.Cluster):
		s.former += servers
	default:
		if s.shares == nil {
			s.shares = map[string]int{}
		}
		s.shares[t.String()] += servers
	}
}

// need returns how many backends a port needs if only the nodes are used that keep accepts.
func (s *state) need(mode ccm.BackendMode, p corev1.ServicePort, keep func(*corev1.Node) bool) int {
	ready := ccm.Ready(s.ends, p, s.c.Family())
	if mode == ccm.PodMode {
		return len(ready)
	}
	with := map[string]int{} // Pods by node
	for _, e := range ready {
		with[e.Node]++
	}
	n := 0
	for i := range s.nodes {
		node := &s.nodes[i]
		switch why, _ := ccm.ExclusionOf(node, s.c.Service); {
		case why == ccm.Virtual && s.nlb:
			// its Pods are backends themselves, and the limit of NLBs does not count them
		case why == ccm.Virtual:
			n += with[node.Name]
		case why == ccm.Serves && keep(node) && (mode == ccm.ClusterMode || with[node.Name] > 0):
			n++
		}
	}
	return n
}

func every(*corev1.Node) bool { return true }

// own returns how many backends the Service needs. Ports that share a target share a group.
func (s *state) own(mode ccm.BackendMode, keep func(*corev1.Node) bool) int {
	by := map[string]int{}
	for _, g := range s.groups {
		by[g.Name] = max(by[g.Name], s.need(mode, g.Port, keep))
	}
	n := 0
	for _, k := range by {
		n += k
	}
	return n
}

// total returns how many backends the load balancer needs.
func (s *state) total() int { return s.rest + s.own(s.mode, every) }

// short reports whether a port has fewer backends than it needs.
func (s *state) short() bool {
	return slices.ContainsFunc(s.groups, func(g ccm.Group) bool { return g.Servers < s.need(s.mode, g.Port, every) })
}

// says returns the figures. A limit without a name is not known.
func (s *state) says(limit cloud.Quota) say.Text {
	var ports []say.Text
	attached := map[string]int{}
	for _, g := range s.groups {
		ports = append(ports, say.F("%d for port %d", s.need(s.mode, g.Port, every), g.Port.Port))
		attached[g.Name] = g.Servers
	}
	now := 0
	for _, n := range attached {
		now += n
	}
	has := say.Count(now+s.rest, "backend")
	text := say.F("The load balancer %s has %s.", s.lb, has)
	if limit.Name != "" {
		text = say.F("The load balancer %s has %s, and the limit is %.0f (%s).", s.lb, has, limit.Total, limit.Name)
	}
	text = text.And("The Service needs %s there (%s) and has %d.", say.Count(s.own(s.mode, every), "backend"), say.Clauses(ports, 5), now)
	switch s.mode {
	case ccm.PodMode:
		text = text.And("Its backends are its ready Pods.")
	case ccm.LocalMode:
		text = text.And("Its backends are the nodes of its ready Pods, because of externalTrafficPolicy Local.")
	default:
		text = text.And("Its backends are all nodes that the controller does not exclude.")
	}
	if s.rest > 0 {
		text = text.And("The other backends belong to %s.", say.Clauses(s.sharers(), 5))
	}
	return text.And("In total, the load balancer needs %s.", say.Count(s.total(), "backend"))
}

// sharers names the owners of the load balancer's other backends.
func (s *state) sharers() []say.Text {
	var out []say.Text
	for _, service := range slices.Sorted(maps.Keys(s.shares)) {
		out = append(out, say.F("%s (%d)", service, s.shares[service]))
	}
	if s.manual > 0 {
		out = append(out, say.F("groups that a person created (%d)", s.manual))
	}
	if s.former > 0 {
		out = append(out, say.F("former ports of the Service (%d)", s.former))
	}
	return out
}

// ways names each change that would make the Service fit, with its effect. In ENI mode it
// therefore says nothing about nodes.
func (s *state) ways(limit int) say.Text {
	svc := s.c.Service
	var out say.Text
	if n := s.own(ccm.LocalMode, every); s.mode == ccm.ClusterMode && n > 0 && s.rest+n <= limit {
		patch := fmt.Sprintf(`kubectl -n %s patch service %s -p '{"spec":{"externalTrafficPolicy":"Local"}}'`, svc.Namespace, svc.Name)
		out = out.And("Use only nodes with ready Pods of the Service as backends, which makes %d in total: %s.", s.rest+n, patch).
			And("The Pods then see the addresses of the clients. Traffic for a node whose Pods are gone is lost until the controller removes the node.")
	}
	if label, nodes, n := s.label(limit); label != "" {
		value := label
		if now, _ := ccm.Annotation(svc, "backend-label"); now != "" {
			value = now + "," + label
		}
		out = out.And("Use only nodes with the label %s (%s) as backends, which makes %d in total: %s.",
			label, say.Count(nodes, "node"), s.rest+n, ccm.SetCommand(svc, "backend-label", value))
	}
	id, _ := ccm.Annotation(svc, "id")
	if n := s.own(s.mode, every); id != "" && s.rest > 0 && n <= limit {
		out = out.And("Give the Service its own load balancer, which has room for %s: delete it and recreate it without the annotation %s.",
			say.Count(n, "backend"), ccm.Prefix+"id").
			And("Its address changes, and the load balancer costs money.")
	}
	if len(out) == 0 {
		return say.F("Split the Service into several, each with its own load balancer and with fewer ports or Pods.")
	}
	return out
}

// label returns a label with which the Service fits if only nodes with that label are backends,
// the number of these nodes, and the number of backends. Of several labels it returns the one
// that most nodes have.
func (s *state) label(limit int) (label string, nodes, backends int) {
	if s.mode == ccm.PodMode {
		return "", 0, 0
	}
	count := map[string]int{}
	serving := 0
	for i := range s.nodes {
		if why, _ := ccm.ExclusionOf(&s.nodes[i], s.c.Service); why != ccm.Serves {
			continue
		}
		serving++
		for k, v := range s.nodes[i].Labels {
			if k != corev1.LabelHostname && v != "" {
				count[k+"="+v]++
			}
		}
	}
	all := slices.Collect(maps.Keys(count))
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(-cmp.Compare(count[a], count[b]), cmp.Compare(a, b)) })
	for _, l := range all {
		if count[l] == serving {
			continue // all nodes have it
		}
		key, value, _ := strings.Cut(l, "=")
		n := s.own(s.mode, func(node *corev1.Node) bool { return node.Labels[key] == value })
		if n > 0 && s.rest+n <= limit {
			return l, count[l], n
		}
	}
	return "", 0, 0
}

// sharing returns how many CLBs the Services put the cluster's nodes behind, including this one.
func sharing(services []corev1.Service, terway bool, lb string) int {
	balancers := map[string]bool{lb: true}
	for i := range services {
		svc := &services[i]
		kind := svc.Annotations[ccm.BackendType]
		if svc.Spec.Type != corev1.ServiceTypeLoadBalancer || ccm.NLB(svc) || kind == "eni" || kind == "" && terway {
			continue
		}
		if id := svc.Labels[ccm.BalancerLabel]; id != "" {
			balancers[id] = true
		}
	}
	return len(balancers)
}
