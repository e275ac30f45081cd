package noavailablenodes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// settled is how long a Service must have been without a backend before that counts
// as a failure: every rollout can cause it for a moment.
const settled = 2 * time.Minute

// A state holds everything that was read about the Service.
type state struct {
	c          *remedy.Case
	mode       ccm.BackendMode
	family     discoveryv1.AddressType // of the Pods' addresses
	opening    string                  // which ports have no backend, as a sentence
	empty      []ccm.Group             // of those ports
	nodes      []corev1.Node
	pods       []corev1.Pod // of the namespace
	ends       []discoveryv1.EndpointSlice
	interfaces []cloud.Interface
}

// ask returns the plan that asks, once the state has lasted longer than a rollout.
func (s *state) ask(finding, ask string) remedy.Plan {
	plan := remedy.Plan{Finding: say.F("%s %s", s.opening, finding), Ask: say.Literal(ask)}
	if left := settled - s.c.Waited(); left > 0 {
		plan.Wait = max(time.Second, min(left, s.c.PollInterval()))
	}
	return plan
}

// wait returns the plan for a temporary cause; ask is the question if it lasts.
func (s *state) wait(finding, ask string) remedy.Plan {
	return remedy.Plan{Finding: say.F("%s %s", s.opening, finding), Ask: say.Literal(ask), Wait: s.c.PollInterval()}
}

// ready returns the ready endpoints of the ports without a backend: they or their nodes
// should be backends.
func (s *state) ready() []ccm.Endpoint {
	var all []ccm.Endpoint
	seen := map[string]bool{}
	for _, g := range s.empty {
		for _, e := range ccm.Ready(s.ends, g.Port, s.family) {
			if !seen[e.IP] {
				seen[e.IP] = true
				all = append(all, e)
			}
		}
	}
	return all
}

// judge finds out why there is no backend.
func (s *state) judge() remedy.Plan {
	if s.mode == ccm.ClusterMode {
		return s.cluster()
	}
	ready := s.ready()
	switch {
	case len(ready) == 0:
		return s.noEndpoint()
	case s.mode == ccm.PodMode:
		return s.byInterface(ready)
	}
	return s.byNode(ready)
}

// cluster answers if all nodes should be backends.
func (s *state) cluster() remedy.Plan {
	out := s.leftOut(s.nodes)
	for _, e := range s.ready() { // Pods on virtual nodes serve themselves
		if slices.Contains(out.of[ccm.Virtual], e.Node) {
			out.of[ccm.Serves] = append(out.of[ccm.Serves], name(e)+" on "+e.Node)
		}
	}
	switch {
	case len(s.nodes) == 0:
		return s.ask("All nodes are to be backends, and the cluster has none.", "Add nodes to the cluster.")
	case len(out.of[ccm.Serves]) > 0:
		return s.wait(fmt.Sprintf("All nodes are to be backends, and nothing keeps %s from it: the controller has not added them yet.", remedy.List(out.of[ccm.Serves], 5)),
			"Look into the controller's log for why it does not add these nodes to the load balancer: "+s.c.LogQuery()+".")
	case len(out.of[ccm.Unlabel]) == len(s.nodes):
		plan := s.ask("All nodes are to be backends that have the labels of the annotation backend-label, and none has them all: "+s.labels(), s.relabel())
		plan.Wait = 0 // it is there in writing
		return plan
	}
	finding := "All nodes are to be backends, and the controller leaves each of them out: " + out.sentence() + "."
	if out.passes() {
		return s.wait(finding, out.remedies(s.c.Service))
	}
	return s.ask(finding, out.remedies(s.c.Service))
}

// byNode answers if the nodes of the ready Pods should be backends.
func (s *state) byNode(ready []ccm.Endpoint) remedy.Plan {
	var on []corev1.Node
	var lost []string
	for _, e := range ready {
		i := slices.IndexFunc(s.nodes, func(n corev1.Node) bool { return n.Name == e.Node })
		switch {
		case i < 0:
			lost = append(lost, fmt.Sprintf("%s on %s", name(e), ccm.Quote(e.Node)))
		case !slices.ContainsFunc(on, func(n corev1.Node) bool { return n.Name == e.Node }):
			on = append(on, s.nodes[i])
		}
	}
	out := s.leftOut(on)
	serve := slices.Concat(out.of[ccm.Serves], out.of[ccm.Virtual])
	const local = "With externalTrafficPolicy Local the nodes of the ready Pods are to be backends"
	if len(serve) > 0 {
		return s.wait(fmt.Sprintf("%s, and nothing keeps %s from it: the controller has not added them yet.", local, remedy.List(serve, 5)),
			"Look into the controller's log for why it does not add these nodes to the load balancer: "+s.c.LogQuery()+".")
	}
	if len(on) == 0 {
		return s.ask(fmt.Sprintf("%s, and those of %s don't exist.", local, remedy.List(lost, 5)),
			"Bring the nodes back, or have the Pods made anew elsewhere. Endpoints that a person wrote need the nodeName of a node.")
	}
	finding := fmt.Sprintf("%s, and the controller leaves each of them out: %s.", local, out.sentence())
	if len(out.of[ccm.Unlabel]) == len(on) {
		finding += " " + s.labels()
	}
	if out.passes() {
		return s.wait(finding, out.remedies(s.c.Service))
	}
	plan := s.ask(finding, out.remedies(s.c.Service)+s.elsewhere())
	if plan.Wait > 0 || len(out.of[ccm.Master]) == 0 {
		return plan
	}
	return s.evict(ready, plan)
}

// elsewhere offers to let all nodes serve, if some of them would.
func (s *state) elsewhere() string {
	out := s.leftOut(s.nodes)
	if len(out.of[ccm.Serves]) == 0 {
		return ""
	}
	return fmt.Sprintf(" Or let all nodes serve, which lead to the Pods wherever they are, and hide the clients' addresses from them: kubectl -n %s patch service %s -p '{\"spec\":{\"externalTrafficPolicy\":\"Cluster\"}}'; the backends are then %s.",
		s.c.Service.Namespace, s.c.Service.Name, remedy.List(out.of[ccm.Serves], 5))
}

// byInterface answers if the ready Pods themselves should be backends.
func (s *state) byInterface(ready []ccm.Endpoint) remedy.Plan {
	var have, lack []string
	for _, e := range ready {
		i := slices.IndexFunc(s.interfaces, func(i cloud.Interface) bool { return i.IP == e.IP || slices.Contains(i.IPs, e.IP) })
		switch {
		case i < 0:
			lack = append(lack, fmt.Sprintf("%s (%s) has none", name(e), e.IP))
		case s.interfaces[i].Status != "InUse":
			lack = append(lack, fmt.Sprintf("%s (%s) has %s, which is %s", name(e), e.IP, s.interfaces[i].ID, s.interfaces[i].Status))
		default:
			have = append(have, fmt.Sprintf("%s (%s, %s)", name(e), e.IP, s.interfaces[i].ID))
		}
	}
	if len(have) > 0 {
		return s.wait(fmt.Sprintf("The ready Pods are to be the backends, and these have a network interface in use: %s. The controller has not added them yet.", remedy.List(have, 5)),
			"Look into the controller's log for why it does not add these Pods to the load balancer: "+s.c.LogQuery()+".")
	}
	return s.wait(fmt.Sprintf("The ready Pods are to be the backends, by their network interfaces: %s.", remedy.List(lack, 5)),
		"Look why the Pods have no network interface of the VPC: with Terway in the log of its Pod on their node; with Flannel they never have one, and the annotation "+ccm.BackendType+" must be ecs.")
}

// noEndpoint answers if no Pod is ready behind the Service.
func (s *state) noEndpoint() remedy.Plan {
	svc := s.c.Service
	for _, g := range s.empty {
		anyPort := g.Port
		anyPort.TargetPort = intstr.FromInt32(1)
		if ready := ccm.Ready(s.ends, anyPort, s.family); len(ready) > 0 {
			return s.ask(fmt.Sprintf("The targetPort %s of port %d is a name that none of the ready Pods gives to a port: %s.", ccm.Quote(g.Port.TargetPort.StrVal), g.Port.Port, names(ready)),
				fmt.Sprintf("Give a container port of the Pods this name, or set the number that they listen on: %s.", ccm.TargetPortCommand(svc, g.Port)))
		}
	}
	if plan, ok := s.otherFamily(); ok {
		return plan
	}
	if len(svc.Spec.Selector) == 0 {
		return s.ask(fmt.Sprintf("The Service has no selector, and no EndpointSlice of it holds a ready endpoint of %s.", s.family),
			fmt.Sprintf("Give the Service a selector, or write its EndpointSlices with the label kubernetes.io/service-name=%s.", svc.Name))
	}
	selector := labels.SelectorFromSet(svc.Spec.Selector)
	var own []corev1.Pod
	for _, p := range s.pods {
		if selector.Matches(labels.Set(p.Labels)) {
			own = append(own, p)
		}
	}
	if len(own) == 0 {
		return s.ask(fmt.Sprintf("The selector %s matches none of the %s in the namespace %s.%s", selector, ccm.Count(len(s.pods), "Pod"), svc.Namespace, s.nearest()),
			fmt.Sprintf("Start the Pods, or correct the selector to their labels: kubectl -n %s get pods --show-labels.", svc.Namespace))
	}
	found := health(own)
	finding := fmt.Sprintf("The selector %s matches %s, and none is ready: %s.", selector, ccm.Count(len(own), "Pod"), ccm.Clauses(found.texts, 5))
	ask := fmt.Sprintf("Make the Pods ready: kubectl -n %s describe pod %s shows why one is not.", svc.Namespace, found.worst)
	if found.stuck {
		return s.ask(finding, ask)
	}
	return s.wait(finding, ask)
}

// otherFamily answers if the ready Pods only have addresses of a family that the
// controller does not use.
func (s *state) otherFamily() (remedy.Plan, bool) {
	svc := s.c.Service
	other, families := discoveryv1.AddressTypeIPv6, `["IPv6","IPv4"]`
	if s.family == discoveryv1.AddressTypeIPv6 {
		other, families = discoveryv1.AddressTypeIPv4, `["IPv4","IPv6"]`
	}
	var ready []ccm.Endpoint
	for _, g := range s.empty {
		anyPort := g.Port
		anyPort.TargetPort = intstr.FromInt32(1)
		ready = append(ready, ccm.Ready(s.ends, anyPort, other)...)
	}
	if len(ready) == 0 {
		return remedy.Plan{}, false
	}
	dual := fmt.Sprintf("Let the Service have both families, in a cluster that has them: kubectl -n %s patch service %s --type=merge -p '{\"spec\":{\"ipFamilyPolicy\":\"RequireDualStack\",\"ipFamilies\":%s}}'.", svc.Namespace, svc.Name, families)
	found := fmt.Sprintf("The ready endpoints of the Service have addresses of %s alone (%s)", other, names(ready))
	if s.family == discoveryv1.AddressTypeIPv6 {
		return s.ask(found+", and its annotations ask for backends of IPv6.",
			dual+" Or take backends of IPv4: "+ccm.RemoveCommand(svc, "backend-ip-version")+"."), true
	}
	return s.ask(found+", and without the annotations ip-version and backend-ip-version the controller takes those of IPv4.",
		dual+fmt.Sprintf(" Or, with a controller that has the feature gates IPv6DualStack and EndpointSlice, create the Service again with a load balancer and backends of IPv6, by the annotations %[1]sip-version and %[1]sbackend-ip-version: its address changes.", ccm.Prefix)), true
}

// nearest names the Pod that matches most of the selector, in a sentence.
func (s *state) nearest() string {
	most, at := 0, -1
	for i, p := range s.pods {
		n := 0
		for k, v := range s.c.Service.Spec.Selector {
			if have, ok := p.Labels[k]; ok && have == v {
				n++
			}
		}
		if n > most {
			most, at = n, i
		}
	}
	if at < 0 {
		return ""
	}
	var lacks []string
	for k, v := range s.c.Service.Spec.Selector {
		if s.pods[at].Labels[k] != v {
			lacks = append(lacks, k+"="+v)
		}
	}
	slices.Sort(lacks)
	return fmt.Sprintf(" The nearest is %s, which lacks %s.", s.pods[at].Name, strings.Join(lacks, ", "))
}

// labels compares what the annotation backend-label asks for with the nodes' labels.
func (s *state) labels() string {
	wanted, _ := ccm.Annotation(s.c.Service, "backend-label")
	var parts []string
	for pair := range strings.SplitSeq(wanted, ",") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return fmt.Sprintf("it is %s, and its form is key=value, with commas between.", ccm.Quote(wanted))
		}
		var others []string
		with := 0
		for _, n := range s.nodes {
			have, there := n.Labels[key]
			switch {
			case there && have == value:
				with++
			case there && !slices.Contains(others, have):
				others = append(others, have)
			}
		}
		part := fmt.Sprintf("%s is on %s", ccm.Quote(pair), ccm.Count(with, "node"))
		if len(others) > 0 {
			part += fmt.Sprintf(", while others have the values %s", remedy.List(others, 5))
		}
		parts = append(parts, part)
		if len(parts) == 5 {
			break
		}
	}
	return strings.Join(parts, "; ") + "."
}

// relabel says how nodes can serve a Service that asks for labels.
func (s *state) relabel() string {
	return fmt.Sprintf("Label the nodes that are to serve it, or ask for labels that they have, as in %s, or for none: %s.",
		ccm.SetCommand(s.c.Service, "backend-label", "KEY=VALUE"), ccm.RemoveCommand(s.c.Service, "backend-label"))
}

func name(e ccm.Endpoint) string {
	if e.Pod == "" {
		return e.IP
	}
	return e.Pod
}

func names(list []ccm.Endpoint) string {
	var out []string
	for _, e := range list {
		out = append(out, name(e))
	}
	return remedy.List(out, 5)
}
