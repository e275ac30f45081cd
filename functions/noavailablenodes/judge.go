package noavailablenodes

import (
	"cmp"
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

// settled is how long a Service must be without a backend before that is a failure: the controller
// reports it for a moment during every rollout.
const settled = 2 * time.Minute

// A state is everything that was read about the Service.
type state struct {
	c          *remedy.Case
	mode       ccm.BackendMode
	family     discoveryv1.AddressType // of the Pods' addresses
	opening    say.Text                // which ports have no backend
	empty      []ccm.Group             // of those ports
	nodes      []corev1.Node
	pods       []corev1.Pod // of the namespace
	endpoints  []discoveryv1.EndpointSlice
	interfaces []cloud.Interface
}

// ask is the plan that asks, once the failure has lasted longer than a rollout.
func (s *state) ask(finding, ask say.Text) remedy.Plan {
	plan := remedy.Plan{Finding: s.opening.Then(finding), Ask: ask}
	if left := settled - s.c.Waited(); left > 0 {
		plan.Wait = max(time.Second, min(left, s.c.PollInterval()))
	}
	return plan
}

// wait is the plan for what may pass without a person; it asks if it does not pass.
func (s *state) wait(finding, ask say.Text) remedy.Plan {
	return remedy.Plan{Finding: s.opening.Then(finding), Ask: ask, Wait: s.c.PollInterval()}
}

// ready returns the ready endpoints behind the ports that have no backend.
func (s *state) ready() []ccm.Endpoint {
	var all []ccm.Endpoint
	for _, g := range s.empty {
		for _, e := range ccm.Ready(s.endpoints, g.Port, s.family) {
			if !slices.ContainsFunc(all, func(o ccm.Endpoint) bool { return o.IP == e.IP }) {
				all = append(all, e)
			}
		}
	}
	return all
}

// node returns the node with this name, or nil.
func (s *state) node(name string) *corev1.Node {
	if i := slices.IndexFunc(s.nodes, func(n corev1.Node) bool { return n.Name == name }); i >= 0 {
		return &s.nodes[i]
	}
	return nil
}

// judge finds out why there is no backend.
func (s *state) judge() remedy.Plan {
	ready := s.ready()
	switch {
	case s.mode == ccm.ClusterMode:
		return s.allNodes(ready)
	case len(ready) == 0:
		return s.noEndpoint()
	case s.mode == ccm.PodMode:
		return s.byInterface(ready)
	}
	return s.byNode(ready)
}

// allNodes plans for a Service whose backends should be all nodes.
func (s *state) allNodes(ready []ccm.Endpoint) remedy.Plan {
	should := say.F("All nodes should be backends.")
	if len(s.nodes) == 0 {
		return s.ask(should.And("But the cluster has no nodes."), say.F("Add nodes to the cluster."))
	}
	x := s.excluded(s.nodes)
	serve := x.of[ccm.Serves]
	for _, e := range ready { // Pods on virtual nodes serve without their node
		if slices.Contains(x.of[ccm.Virtual], e.Node) {
			serve = append(serve, fmt.Sprintf("%s (%s)", name(e), e.Node))
		}
	}
	switch {
	case len(serve) > 0:
		return s.pending(should, serve)
	case len(x.of[ccm.Unlabel]) == len(s.nodes):
		plan := s.ask(should.And("But they need all labels of the annotation backend-label, and no node has all of them.").Then(s.labels()), relabel(s.c.Service))
		plan.Wait = 0 // what is written in the annotation does not pass
		return plan
	}
	finding := should.And("But the controller excludes each of them: %s.", say.Clauses(x.reasons, 5))
	if x.passes() {
		return s.wait(finding, x.remedies(s.c.Service))
	}
	return s.ask(finding, x.remedies(s.c.Service))
}

// byNode plans for a Service whose backends should be the nodes of the ready Pods.
func (s *state) byNode(ready []ccm.Endpoint) remedy.Plan {
	var on []corev1.Node
	var lost []string
	for _, e := range ready {
		switch n := s.node(e.Node); {
		case n == nil:
			lost = append(lost, fmt.Sprintf("%s (%s)", name(e), ccm.Quote(e.Node)))
		case !slices.ContainsFunc(on, func(o corev1.Node) bool { return o.Name == e.Node }):
			on = append(on, *n)
		}
	}
	x := s.excluded(on)
	should := say.F("With externalTrafficPolicy Local, the nodes of the ready Pods should be backends.")
	if serve := slices.Concat(x.of[ccm.Serves], x.of[ccm.Virtual]); len(serve) > 0 {
		return s.pending(should, serve)
	}
	if len(on) == 0 {
		return s.ask(should.And("But the nodes of these Pods do not exist: %s.", say.List(lost, 5)),
			say.F("Restore the nodes, or recreate the Pods on other nodes. Endpoints that a person wrote need the nodeName of an existing node."))
	}
	finding := should.And("But the controller excludes each of them: %s.", say.Clauses(x.reasons, 5))
	if len(x.of[ccm.Unlabel]) == len(on) {
		finding = finding.Then(s.labels())
	}
	if x.passes() {
		return s.wait(finding, x.remedies(s.c.Service))
	}
	plan := s.ask(finding, x.remedies(s.c.Service).Then(s.elsewhere()))
	if plan.Wait > 0 || len(x.of[ccm.Master]) == 0 {
		return plan
	}
	return s.evict(ready, plan)
}

// pending plans for nodes that the controller should add.
func (s *state) pending(should say.Text, serve []string) remedy.Plan {
	return s.wait(should.And("Nothing excludes the following, but the controller has not added them yet: %s.", say.List(serve, 5)),
		say.F("Check the controller's log for why it does not add these nodes to the load balancer: %s.", s.c.LogQuery()))
}

// elsewhere offers all nodes as backends, if some of them would serve.
func (s *state) elsewhere() say.Text {
	serve := s.excluded(s.nodes).of[ccm.Serves]
	if len(serve) == 0 {
		return nil
	}
	patch := fmt.Sprintf(`kubectl -n %s patch service %s -p '{"spec":{"externalTrafficPolicy":"Cluster"}}'`, s.c.Service.Namespace, s.c.Service.Name)
	return say.F("Or let all nodes serve: %s.", patch).
		And("They forward traffic to the Pods wherever these run, but hide the clients' addresses from them. The backends are then: %s.", say.List(serve, 5))
}

// byInterface plans for a Service whose backends should be the ready Pods.
func (s *state) byInterface(ready []ccm.Endpoint) remedy.Plan {
	var have []string
	var lack []say.Text
	for _, e := range ready {
		i := slices.IndexFunc(s.interfaces, func(i cloud.Interface) bool { return i.IP == e.IP || slices.Contains(i.IPs, e.IP) })
		switch {
		case i < 0:
			lack = append(lack, say.F("%s (%s) has none", name(e), e.IP))
		case s.interfaces[i].Status != "InUse":
			lack = append(lack, say.F("%s (%s) has %s, which is %s", name(e), e.IP, s.interfaces[i].ID, s.interfaces[i].Status))
		default:
			have = append(have, fmt.Sprintf("%s (%s, %s)", name(e), e.IP, s.interfaces[i].ID))
		}
	}
	should := say.F("The ready Pods should be backends.")
	if len(have) > 0 {
		return s.wait(should.And("These have a network interface in use, but the controller has not added them yet: %s.", say.List(have, 5)),
			say.F("Check the controller's log for why it does not add these Pods to the load balancer: %s.", s.c.LogQuery()))
	}
	return s.wait(should.And("But none of them has a network interface in use: %s.", say.Clauses(lack, 5)),
		say.F("Find out why the Pods have no network interface of the VPC. With Terway, check the log of its Pod on their node.").
			And("With Flannel, Pods never have one, and the annotation %s must be ecs.", ccm.BackendType))
}

// noEndpoint plans for a Service without a ready endpoint.
func (s *state) noEndpoint() remedy.Plan {
	svc := s.c.Service
	for _, g := range s.empty {
		if ready := s.anyPort(g, s.family); len(ready) > 0 {
			target := ccm.Quote(g.Port.TargetPort.StrVal)
			return s.ask(say.F("The targetPort %s of port %d is a name that no port of the ready Pods has: %s.", target, g.Port.Port, names(ready)),
				say.F("Give this name to a container port of the Pods, or set the number on which they listen: %s.", ccm.TargetPortCommand(svc, g.Port)))
		}
	}
	if plan, ok := s.otherFamily(); ok {
		return plan
	}
	if len(svc.Spec.Selector) == 0 {
		return s.ask(say.F("The Service has no selector, and none of its EndpointSlices has a ready endpoint of %s.", s.family),
			say.F("Give the Service a selector, or write its EndpointSlices with the label kubernetes.io/service-name=%s.", svc.Name))
	}
	selector := labels.SelectorFromSet(svc.Spec.Selector)
	var own []corev1.Pod
	for _, p := range s.pods {
		if selector.Matches(labels.Set(p.Labels)) {
			own = append(own, p)
		}
	}
	if len(own) == 0 {
		return s.ask(say.F("The selector %s matches no Pod of the namespace %s, which has %s.", selector, svc.Namespace, say.Count(len(s.pods), "Pod")).
			Then(s.nearest()),
			say.F("Start the Pods, or change the selector to match their labels: kubectl -n %s get pods --show-labels.", svc.Namespace))
	}
	found := health(own)
	finding := say.F("The selector %s matches %s, but none is ready: %s.", selector, say.Count(len(own), "Pod"), say.Clauses(found.reasons, 5))
	ask := say.F("Make the Pods ready. Find out why one is not: kubectl -n %s describe pod %s.", svc.Namespace, found.worst)
	if found.stuck {
		return s.ask(finding, ask)
	}
	return s.wait(finding, ask)
}

// anyPort returns the ready endpoints of a family, whether or not they have the target port.
func (s *state) anyPort(g ccm.Group, family discoveryv1.AddressType) []ccm.Endpoint {
	port := g.Port
	port.TargetPort = intstr.FromInt32(1)
	return ccm.Ready(s.endpoints, port, family)
}

// otherFamily plans for ready Pods that only have addresses which the controller does not use.
func (s *state) otherFamily() (remedy.Plan, bool) {
	svc := s.c.Service
	other, families := discoveryv1.AddressTypeIPv6, `["IPv6","IPv4"]`
	if s.family == discoveryv1.AddressTypeIPv6 {
		other, families = discoveryv1.AddressTypeIPv4, `["IPv4","IPv6"]`
	}
	var ready []ccm.Endpoint
	for _, g := range s.empty {
		ready = append(ready, s.anyPort(g, other)...)
	}
	if len(ready) == 0 {
		return remedy.Plan{}, false
	}
	patch := fmt.Sprintf(`kubectl -n %s patch service %s --type=merge -p '{"spec":{"ipFamilyPolicy":"RequireDualStack","ipFamilies":%s}}'`,
		svc.Namespace, svc.Name, families)
	finding := say.F("The ready endpoints of the Service only have addresses of %s: %s.", other, names(ready))
	ask := say.F("In a cluster with both address families, give the Service both: %s.", patch)
	if s.family == discoveryv1.AddressTypeIPv6 {
		return s.ask(finding.And("But its annotations ask for IPv6 backends."),
			ask.And("Or use IPv4 backends: %s.", ccm.RemoveCommand(svc, "backend-ip-version"))), true
	}
	return s.ask(finding.And("But without the annotations ip-version and backend-ip-version, the controller uses IPv4 backends."),
		ask.And("Or, if the controller has the feature gates IPv6DualStack and EndpointSlice, recreate the Service with IPv6: its address changes.").
			And("The annotations for an IPv6 load balancer and IPv6 backends are %[1]sip-version and %[1]sbackend-ip-version.", ccm.Prefix)), true
}

// nearest names the Pod that has most labels of the selector.
func (s *state) nearest() say.Text {
	most := 0
	var text say.Text
	for _, p := range s.pods {
		var lacks []string
		for k, v := range s.c.Service.Spec.Selector {
			if have, ok := p.Labels[k]; !ok || have != v {
				lacks = append(lacks, k+"="+v)
			}
		}
		slices.Sort(lacks)
		if n := len(s.c.Service.Spec.Selector) - len(lacks); n > most {
			most, text = n, say.F("The most similar Pod is %s, which lacks %s.", p.Name, strings.Join(lacks, ", "))
		}
	}
	return text
}

// name returns what an endpoint is called: its Pod, or its address.
func name(e ccm.Endpoint) string { return cmp.Or(e.Pod, e.IP) }

func names(list []ccm.Endpoint) say.Text {
	var out []string
	for _, e := range list {
		out = append(out, name(e))
	}
	return say.List(out, 5)
}
