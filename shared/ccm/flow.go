package ccm

import (
	"cmp"
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/say"
)

// FlowReads (for CLBs) and NetworkFlowReads (for NLBs) are what Flow reads.
var (
	FlowReads        = []grant.Grant{grant.DescribeLoadBalancerListeners}
	NetworkFlowReads = []grant.Grant{grant.ListNLBListeners}
)

// An IdlePort is a port of a Service without a running listener on the load balancer.
type IdlePort struct {
	Port   corev1.ServicePort
	Key    string // protocol and port of the listener that the controller would make
	There  bool   // a listener exists, but does not run
	Status string // of that listener, as the API has it
}

// Stopped reports whether the listener exists and is stopped.
func (p IdlePort) Stopped() bool { return p.There && strings.EqualFold(p.Status, "stopped") }

// Text says what is missing, as a clause.
func (p IdlePort) Text() say.Text {
	if !p.There {
		return say.F("there is no listener %s", p.Key)
	}
	return say.F("listener %s is %s", p.Key, say.Or(p.Status, "in no known state"))
}

// IdlePorts returns the ports of the Service without a running listener: the one that the controller makes if it sets the listeners, otherwise any.
func IdlePorts(svc *corev1.Service, listeners []Listener) []IdlePort {
	var all []IdlePort
	for _, p := range svc.Spec.Ports {
		if idle := idlePort(svc, p, listeners); idle != nil {
			all = append(all, *idle)
		}
	}
	return all
}

func idlePort(svc *corev1.Service, p corev1.ServicePort, listeners []Listener) *IdlePort {
	idle := &IdlePort{Port: p, Key: ListenerKey(svc, p)}
	if NLB(svc) {
		idle.Key = networkKey(svc, p)
	}
	_, span, _ := strings.Cut(idle.Key, ":")
	first, _ := ends(span)
	takes := p
	takes.Port = int32(first)
	for _, l := range listeners {
		if l.String() != idle.Key && (OwnsListeners(svc) || !l.Takes(takes)) {
			continue
		}
		if strings.EqualFold(l.Status, "running") {
			return nil
		}
		idle.There, idle.Status = true, l.Status
	}
	return idle
}

// A Flow says whether traffic can reach a Service.
type Flow struct {
	Why   say.Text `json:"why,omitempty"`   // why it is not proven that traffic can flow; empty if it is
	Soon  bool     `json:"soon,omitempty"`  // a listener is about to run, so a later look may prove it
	Ports Share    `json:"ports,omitempty"` // how many of the ports take traffic; empty if unknown
}

// A Share says how many of the ports of a Service take traffic.
type Share string

// The shares.
const (
	AllPorts  Share = "all"
	SomePorts Share = "some"
	NoPorts   Share = "none"
)

func shareOf(lacking, ports int) Share {
	switch {
	case lacking == 0:
		return AllPorts
	case lacking < ports:
		return SomePorts
	}
	return NoPorts
}

// Flow checks that each port has a running listener on the load balancer that the annotation id or the controller's label names. Listeners
// that a person sets prove nothing. It needs FlowReads, or NetworkFlowReads for an NLB.
func (c *View) Flow(ctx context.Context) (Flow, error) {
	id, _ := Annotation(c.Service, BalancerID)
	if id = cmp.Or(id, c.Service.Labels[BalancerLabel]); !Identifier(id) {
		return Flow{Why: say.F("It is not known which load balancer the Service has, so its listeners were not checked.")}, nil
	}
	lb := &Instance{ID: id}
	if NLB(c.Service) {
		lb.NLB = &cloud.NetworkLoadBalancer{}
	}
	listeners, err := c.Listeners(ctx, lb)
	if err != nil {
		return Flow{}, err
	}
	idle := IdlePorts(c.Service, listeners)
	var clauses []say.Text
	soon := OwnsListeners(c.Service)
	for _, p := range idle {
		clauses = append(clauses, p.Text())
		soon = soon && p.There && !p.Stopped()
	}
	ports := shareOf(len(idle), len(c.Service.Spec.Ports))
	switch {
	case !OwnsListeners(c.Service) && len(idle) > 0:
		return Flow{Ports: ports, Why: say.F("Not every port of the Service takes traffic on %s: %s.", id, say.Clauses(clauses, 5)).
			And(`The Service reuses %s without force-override-listeners: "true", so a person sets the listeners. "lbremedy doctor" says how.`, id)}, nil
	case !OwnsListeners(c.Service):
		return Flow{Why: say.F(`The Service reuses %s without force-override-listeners: "true". Whether its listeners lead to the Service was not checked.`, id)}, nil
	case len(idle) > 0:
		return Flow{Ports: ports, Why: say.F("Not every port of the Service takes traffic on %s: %s.", id, say.Clauses(clauses, 5)), Soon: soon}, nil
	}
	return Flow{Ports: ports}, nil
}

// BackedReads (for CLBs) and NetworkBackedReads (for NLBs) are what Backed reads.
var (
	BackedReads        = append([]grant.Grant{grant.DescribeClusterDetail, grant.ListEndpointSlices, grant.DescribeVServerGroups}, BoundReads...)
	NetworkBackedReads = []grant.Grant{grant.DescribeClusterDetail, grant.ListEndpointSlices, grant.ListServerGroups, grant.ListServerGroupServers}
)

// Backed checks that each port has a backend that takes traffic. It needs BackedReads, or NetworkBackedReads for an NLB.
func (c *View) Backed(ctx context.Context) (Flow, error) {
	mode, err := c.BackendMode(ctx)
	if err != nil {
		return Flow{}, err
	}
	ends, err := c.Kube.EndpointSlices(ctx, c.Service.Namespace, c.Service.Name)
	if err != nil {
		return Flow{}, err
	}
	groups, _, err := c.Groups(ctx, mode)
	if err != nil {
		return Flow{}, err
	}
	return Unbacked(groups, ends, FamilyOf(c.Service)), nil
}

// Unbacked says which groups have no backend, or no ready Pod behind them.
func Unbacked(groups []Group, ends []discoveryv1.EndpointSlice, family discoveryv1.AddressType) Flow {
	var clauses []say.Text
	for _, g := range groups {
		switch {
		case len(Ready(ends, g.Port, family)) == 0:
			clauses = append(clauses, say.F("no Pod is ready for port %d", g.Port.Port))
		case g.ID == "":
			clauses = append(clauses, say.F("there is no group %s", g.Name))
		case g.Servers == 0:
			clauses = append(clauses, say.F("group %s of port %d is empty", g.ID, g.Port.Port))
		}
	}
	flow := Flow{Ports: shareOf(len(clauses), len(groups))}
	if len(clauses) > 0 {
		flow.Why = say.F("Not every port of the Service has a backend: %s.", say.Clauses(clauses, 5))
	}
	return flow
}
