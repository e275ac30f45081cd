package ccm

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lbremedy/lbremedy/shared/say"
)

// WhyNoEndpoint says why these groups' ports have no ready endpoint, what a person can do, and whether it lasts until then. pods are the namespace's.
func (s *Candidates) WhyNoEndpoint(groups []Group, pods []corev1.Pod) (finding, ask say.Text, lasts bool) {
	svc := s.Service
	for _, g := range groups {
		if ready := s.anyPort(g.Port, s.Family); len(ready) > 0 {
			return say.F("The targetPort %s of port %d is a name that no port of the ready Pods has: %s.", Quote(g.Port.TargetPort.StrVal), g.Port.Port,
					EndpointNames(ready)),
				say.F("Give this name to a container port of the Pods, or set the number on which they listen: %s.", TargetPortCommand(svc, g.Port)), true
		}
	}
	if finding, ask = s.otherFamily(groups); len(finding) > 0 {
		return finding, ask, true
	}
	if len(svc.Spec.Selector) == 0 {
		return say.F("The Service has no selector, and none of its EndpointSlices has a ready endpoint of %s.", s.Family),
			say.F("Give the Service a selector, or write its EndpointSlices with the label kubernetes.io/service-name=%s.", svc.Name), true
	}
	selector := labels.SelectorFromSet(svc.Spec.Selector)
	own := slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool { return !selector.Matches(labels.Set(p.Labels)) })
	if len(own) == 0 {
		return say.F("The selector %s matches no Pod of the namespace %s, which has %s.", selector, svc.Namespace, say.Count(len(pods), "Pod")).
				Then(nearest(svc, pods)),
			say.F("Start the Pods, or change the selector to match their labels: kubectl -n %s get pods --show-labels.", svc.Namespace), true
	}
	var reasons []say.Text
	worst := "" // the first Pod that needs a person to become ready, or else the first Pod
	for i := range own {
		reason, stuck := unready(&own[i])
		reasons = append(reasons, reason)
		if worst == "" || stuck && !lasts {
			worst = own[i].Name
		}
		lasts = lasts || stuck
	}
	return say.F("The selector %s matches %s, but none is ready: %s.", selector, say.Count(len(own), "Pod"), say.Clauses(reasons, 5)),
		say.F("Make the Pods ready. Find out why one is not: kubectl -n %s describe pod %s.", svc.Namespace, worst), lasts
}

// Unreached returns the nodes without a route from the controller for which a Pod of the Service waits. Such a node has the condition with
// this reason (pkg/controller/node/manager.go and pkg/controller/route/route_controller.go), and a taint.
func (s *Candidates) Unreached(pods []corev1.Pod) (nodes []string) {
	selector := labels.SelectorFromSet(s.Service.Spec.Selector)
	waits := func(p corev1.Pod) bool {
		return selector.Matches(labels.Set(p.Labels)) && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable && strings.Contains(c.Message, corev1.TaintNodeNetworkUnavailable)
		})
	}
	if selector.Empty() || !slices.ContainsFunc(pods, waits) {
		return nil
	}
	for _, n := range s.Nodes {
		if slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionTrue && c.Reason == "NoRouteCreated"
		}) {
			nodes = append(nodes, n.Name)
		}
	}
	return nodes
}

// otherFamily says that ready Pods, if any, only have addresses of the family that the controller does not use.
func (s *Candidates) otherFamily(groups []Group) (finding, ask say.Text) {
	svc, other, families := s.Service, discoveryv1.AddressTypeIPv6, `["IPv6","IPv4"]`
	if s.Family == other {
		other, families = discoveryv1.AddressTypeIPv4, `["IPv4","IPv6"]`
	}
	var ready []Endpoint
	for _, g := range groups {
		ready = append(ready, s.anyPort(g.Port, other)...)
	}
	if len(ready) == 0 {
		return nil, nil
	}
	patch := PatchCommand(svc, `{"spec":{"ipFamilyPolicy":"RequireDualStack","ipFamilies":`+families+`}}`)
	finding = say.F("The ready endpoints of the Service only have addresses of %s: %s.", other, EndpointNames(ready))
	ask = say.F("In a cluster with both address families, give the Service both: %s.", patch)
	if s.Family == discoveryv1.AddressTypeIPv6 {
		return finding.And("But its annotations ask for IPv6 backends."), ask.And("Or use IPv4 backends: %s.", RemoveCommand(svc, "backend-ip-version"))
	}
	return finding.And("But without the annotations ip-version and backend-ip-version, the controller uses IPv4 backends."),
		ask.And("Or, if the controller has the feature gates IPv6DualStack and EndpointSlice, recreate the Service with IPv6: its address changes.").
			And("The annotations for an IPv6 load balancer and IPv6 backends are %[1]sip-version and %[1]sbackend-ip-version.", Prefix)
}

func (s *Candidates) anyPort(port corev1.ServicePort, family discoveryv1.AddressType) []Endpoint {
	port.TargetPort = intstr.FromInt32(1)
	return Ready(s.Slices, port, family)
}

// EndpointNames lists the names of endpoints.
func EndpointNames(list []Endpoint) say.Text {
	var out []string
	for _, e := range list {
		out = append(out, e.Name())
	}
	return say.List(out, 5)
}

func nearest(svc *corev1.Service, pods []corev1.Pod) say.Text {
	most := 0
	var text say.Text
	for _, p := range pods {
		var lacks []string
		for k, v := range svc.Spec.Selector {
			if have, ok := p.Labels[k]; !ok || have != v {
				lacks = append(lacks, k+"="+v)
			}
		}
		slices.Sort(lacks)
		if n := len(svc.Spec.Selector) - len(lacks); n > most {
			most, text = n, say.F("The most similar Pod is %s, which lacks %s.", p.Name, strings.Join(lacks, ", "))
		}
	}
	return text
}

// unready says, as a clause, why a Pod is not a backend in PodMode or LocalMode, and whether that lasts until a person does something.
func unready(p *corev1.Pod) (reason say.Text, stuck bool) {
	switch {
	case p.DeletionTimestamp != nil:
		return say.F("%s is terminating", p.Name), false
	case p.Status.Phase == corev1.PodSucceeded:
		return say.F("%s has completed", p.Name), true
	case p.Status.Phase == corev1.PodFailed:
		return say.F("%s has failed%s", p.Name, brackets(p.Status.Reason, p.Status.Message)), true
	}
	for _, cond := range p.Status.Conditions {
		if cond.Type == corev1.PodScheduled && cond.Status == corev1.ConditionFalse {
			return say.F("%s is not scheduled%s", p.Name, brackets(cond.Reason, cond.Message)), cond.Reason == corev1.PodReasonUnschedulable
		}
	}
	if p.Spec.NodeName == "" {
		return say.F("%s is not scheduled yet", p.Name), false
	}
	for _, c := range p.Status.InitContainerStatuses {
		if state, stuck := container(c); len(state) > 0 && (c.State.Terminated == nil || c.State.Terminated.ExitCode != 0) {
			return say.F("%s waits for its init container %s: %s", p.Name, c.Name, state), stuck
		}
	}
	for _, c := range p.Status.ContainerStatuses {
		if state, stuck := container(c); len(state) > 0 {
			return say.F("%s waits for its container %s: %s", p.Name, c.Name, state), stuck
		}
	}
	for _, g := range p.Spec.ReadinessGates {
		if !met(p, g.ConditionType) {
			return say.F("%s waits for its readiness gate %s", p.Name, g.ConditionType), false
		}
	}
	if met(p, corev1.PodReady) {
		return say.F("%s is ready, but no EndpointSlice shows it yet", p.Name), false
	}
	return say.F("%s has not reported that it is ready", p.Name), false
}

var starting = []string{"ContainerCreating", "PodInitializing", ""}

func container(c corev1.ContainerStatus) (state say.Text, stuck bool) {
	switch s := c.State; {
	case s.Waiting != nil && slices.Contains(starting, s.Waiting.Reason):
		return say.F("it is starting"), false
	case s.Waiting != nil:
		return say.F("it is waiting%s after %s", brackets(s.Waiting.Reason, s.Waiting.Message), say.Count(int(c.RestartCount), "restart")), true
	case s.Terminated != nil:
		return say.F("it exited with code %d%s", s.Terminated.ExitCode, brackets(s.Terminated.Reason, "")), false
	case !c.Ready && s.Running != nil:
		return say.F("it is running but fails its readiness probe"), false
	}
	return nil, false
}

// readinessPrefix begins the readiness gate that the controller sets once the Pod is a backend of the Service whose name follows.
const readinessPrefix = "service.readiness.alibabacloud.com/"

// Gated returns the Service's EndpointSlices and, as the controller does, counts as ready also endpoints whose Pods wait only for readiness
// gates, one of them the controller's (setBackendsFromEndpointSlices in clbv1/vgroups.go). It needs ListPods if an endpoint is not ready.
func (c *View) Gated(ctx context.Context, ends []discoveryv1.EndpointSlice) ([]discoveryv1.EndpointSlice, error) {
	var pods []corev1.Pod
	read := false
	out := slices.Clone(ends)
	for i := range out {
		out[i].Endpoints = slices.Clone(out[i].Endpoints)
		for k := range out[i].Endpoints {
			e := &out[i].Endpoints[k]
			ready := e.Conditions.Ready != nil && *e.Conditions.Ready
			if ready || e.Conditions.Terminating != nil && *e.Conditions.Terminating || e.TargetRef == nil || e.TargetRef.Kind != "Pod" {
				continue
			}
			if !read {
				var err error
				if pods, err = c.Kube.Pods(ctx, c.Service.Namespace, c.Service.Spec.Selector); err != nil {
					return nil, err
				}
				read = true
			}
			if slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Name == e.TargetRef.Name && gated(&p, c.Service) }) {
				e.Conditions.Ready = new(true)
			}
		}
	}
	return out, nil
}

func gated(p *corev1.Pod, svc *corev1.Service) bool {
	own := func(g corev1.PodReadinessGate) bool { return string(g.ConditionType) == readinessPrefix+svc.Name }
	return met(p, corev1.ContainersReady) && slices.ContainsFunc(p.Spec.ReadinessGates, own)
}

func met(p *corev1.Pod, kind corev1.PodConditionType) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind && c.Status == corev1.ConditionTrue })
}

// longestMessage is the part of a message that a sentence shows, in bytes.
const longestMessage = 120

func brackets(reason, message string) say.Text {
	message = strings.TrimRight(strings.Join(strings.Fields(message), " "), ". ")
	if len(message) > longestMessage {
		message = strings.ToValidUTF8(message[:longestMessage], "") + "…"
	}
	switch {
	case reason == "" && message == "":
		return nil
	case reason == "" || message == "":
		return say.F(" (%s)", reason+message)
	}
	return say.F(" (%s: %s)", reason, message)
}
