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
	rest   int            // backends of the load balancer in other groups
	shares map[string]int // of those, by the Service or owner
}

// owns reports whether the group is of a port of the Service.
func (s *state) owns(group string) bool {
	return slices.ContainsFunc(s.groups, func(own ccm.Group) bool { return own.ID == group })
}

// other counts the backends of a group that belongs to no port of the Service; the
// group's name tells the owner.
func (s *state) other(group, name string, servers int) {
	if servers == 0 || s.owns(group) {
		return
	}
	whose := "groups that a person made"
	if t, ok := ccm.ParseTrace(name); ok {
		whose = t.String()
		if t.Of(s.c.Service, s.c.Cluster) {
			whose = "ports that the Service had before"
		}
	}
	if s.shares == nil {
		s.shares = map[string]int{}
	}
	s.rest += servers
	s.shares[whose] += servers
}

// need returns how many backends a port should have, among the nodes that keep accepts.
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
			// its Pods are backends themselves, and the limit of NLBs leaves them out
		case why == ccm.Virtual:
			n += with[node.Name]
		case why == ccm.Serves && keep(node) && (mode == ccm.ClusterMode || with[node.Name] > 0):
			n++
		}
	}
	return n
}

func every(*corev1.Node) bool { return true }

// own returns how many backends the Service should have. Ports that share a target
// share a group.
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

// total returns how many backends the load balancer should have.
func (s *state) total() int { return s.rest + s.own(s.mode, every) }

// short reports whether a port has fewer backends than it should have.
func (s *state) short() bool {
	return slices.ContainsFunc(s.groups, func(g ccm.Group) bool { return g.Servers < s.need(s.mode, g.Port, every) })
}

// kinds are what the backends are, by mode.
var kinds = map[ccm.BackendMode]string{
	ccm.PodMode:     "the ready Pods are its backends",
	ccm.LocalMode:   "the nodes of its ready Pods are its backends, by externalTrafficPolicy Local",
	ccm.ClusterMode: "all nodes that the controller does not leave out are its backends",
}

// says returns the figures, as sentences; a limit without a name is not known.
func (s *state) says(limit cloud.Quota) string {
	var parts []string
	attached := map[string]int{}
	for _, g := range s.groups {
		parts = append(parts, fmt.Sprintf("%d for port %d", s.need(s.mode, g.Port, every), g.Port.Port))
		attached[g.Name] = g.Servers
	}
	now := 0
	for _, n := range attached {
		now += n
	}
	most := ""
	if limit.Name != "" {
		most = fmt.Sprintf(", and %.0f is the most (%s)", limit.Total, limit.Name)
	}
	text := fmt.Sprintf("The load balancer %s has %s%s. The Service is to have %d there and has %d: %s; %s.",
		s.lb, ccm.Count(now+s.rest, "backend"), most, s.own(s.mode, every), now, remedy.List(parts, 5), kinds[s.mode])
	if len(s.shares) > 0 {
		var with []string
		for _, whose := range slices.Sorted(maps.Keys(s.shares)) {
			with = append(with, fmt.Sprintf("%s (%d)", whose, s.shares[whose]))
		}
		text += fmt.Sprintf(" It shares the load balancer with %s.", remedy.List(with, 5))
	}
	return text + fmt.Sprintf(" That makes %d in all.", s.total())
}

// ways names what would make the Service fit, each with its effect. It names only
// what helps: in ENI mode nothing about nodes.
func (s *state) ways(limit int) string {
	svc := s.c.Service
	var out []string
	if n := s.own(ccm.LocalMode, every); s.mode == ccm.ClusterMode && n > 0 && s.rest+n <= limit {
		out = append(out, fmt.Sprintf("Let only nodes with ready Pods of the Service be backends, which makes %d in all: kubectl -n %s patch service %s -p '{\"spec\":{\"externalTrafficPolicy\":\"Local\"}}'; the Pods then see the clients' addresses, and what comes for a node whose Pods have gone is lost until the controller has removed it.",
			s.rest+n, svc.Namespace, svc.Name))
	}
	if label, nodes, n := s.label(limit); label != "" {
		value := label
		if now, _ := ccm.Annotation(svc, "backend-label"); now != "" {
			value = now + "," + label
		}
		out = append(out, fmt.Sprintf("Let only the %s with the label %s be backends, which makes %d in all: %s.", ccm.Count(nodes, "node"), label, s.rest+n, ccm.SetCommand(svc, "backend-label", value)))
	}
	id, _ := ccm.Annotation(svc, "id")
	if n := s.own(s.mode, every); id != "" && s.rest > 0 && n <= limit {
		out = append(out, fmt.Sprintf("Give the Service a load balancer of its own, which has room for its %d: delete it and create it again without the annotation %sid; its address changes, and the load balancer costs.", n, ccm.Prefix))
	}
	if len(out) == 0 {
		out = append(out, "Split the Service into several, each with a load balancer of its own and fewer ports or Pods.")
	}
	return strings.Join(out, " ")
}

// label returns a label of some nodes that alone would fit, the number of these nodes,
// and the number of backends that they make. If several labels qualify, it returns the
// one that most nodes have.
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
			continue // it would change nothing
		}
		key, value, _ := strings.Cut(l, "=")
		n := s.own(s.mode, func(node *corev1.Node) bool { return node.Labels[key] == value })
		if n > 0 && s.rest+n <= limit {
			return l, count[l], n
		}
	}
	return "", 0, 0
}

// sharing returns how many CLBs the Services put the cluster's nodes behind, including
// the one of this case.
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
