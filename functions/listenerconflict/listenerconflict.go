// Package listenerconflict asks about ports that another listener uses.
package listenerconflict

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed doc.md
var doc string

// Remedy asks which listener keeps the port.
var Remedy = &remedy.Remedy{
	Class: "listener-conflict",
	Doc:   doc,
	Codes: []string{"ListenerAlreadyExists", "InvalidParameter.ListenerPortConflict", "PortProtocolConflict", "Conflict.Port"},
	Texts: []string{
		"listener with the specified port already exists",
		"There is conflict listener port exists",
		"ListenerPort is conflict with other listener",
		"The Port * is conflict", // of NLB
	},
	Reads:    slices.Concat(ccm.BoundReads, ccm.DriftReads, ccm.NetworkReads),
	Diagnose: diagnose,
}

// forceOverride, if "true", makes the controller manage the listeners of a load balancer that it
// did not create.
const forceOverride = "force-override-listeners"

// A listener is one of either kind of load balancer.
type listener struct {
	id          string // of an NLB's
	port, last  int    // last of a range; else the same
	protocol    string
	description string
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if lb == nil {
		return c.NoBalancer(say.F("its listeners")), nil
	}
	listeners, err := read(ctx, c, lb)
	if err != nil {
		return remedy.Plan{}, err
	}
	return decide(c, lb, listeners), nil
}

// decide returns the plan for a load balancer with these listeners.
func decide(c *remedy.Case, lb *ccm.Instance, listeners []listener) remedy.Plan {
	var own []string
	var taken []say.Text
	var ports []int32
	var theirs []listener
	for _, p := range c.Service.Spec.Ports {
		for _, l := range listeners {
			if int(p.Port) < l.port || int(p.Port) > l.last || !shares(string(p.Protocol), l.protocol) {
				continue
			}
			if t, ok := ccm.ParseTrace(l.description); ok && t.Of(c.Service, c.Cluster) {
				own = append(own, l.String())
				continue
			}
			taken = append(taken, l.owner(c))
			ports = append(ports, p.Port)
			theirs = append(theirs, l)
		}
	}
	switch {
	case len(taken) == 0 && len(own) > 0:
		return remedy.Plan{
			Finding: say.F("On %s, only the Service's own listeners use its ports: %s. The controller replaces them step by step.", lb.ID, strings.Join(own, ", ")),
			Wait:    ccm.Retry,
		}
	case len(taken) == 0:
		return remedy.Plan{
			Finding: say.F("No listener of %s uses a port of the Service now. The controller retries within %.0f minutes.", lb.ID, ccm.Retry.Minutes()),
			Wait:    ccm.Retry,
		}
	}
	return remedy.Plan{
		Finding: say.F("On %s, other listeners use ports of the Service: %s.", lb.ID, say.Clauses(taken, len(taken))),
		Cause:   lb.ID,
		Ask:     ask(c, lb, free(c, ports, listeners), ports, theirs),
	}
}

// ask names the ways out of the conflict with these listeners. free are ports that could be used
// instead of the taken ones.
func ask(c *remedy.Case, lb *ccm.Instance, free []string, taken []int32, theirs []listener) say.Text {
	ways := say.F("Give the Service another port. These are free on %s: %s.", lb.ID, strings.Join(free, ", "))
	if len(free) == 0 {
		ways = say.F("Give the Service another port: one below %d that no listener of %s uses.", slices.Min(taken), lb.ID)
	}
	force, _ := ccm.Annotation(c.Service, forceOverride)
	_, reused := ccm.Annotation(c.Service, "id")
	switch {
	case reused && ccm.Synced(c.Service):
		// Without the annotation, the controller would look for the load balancer with the address, and fail.
		ways = ways.And("Or give it its own load balancer: delete the Service and recreate it without the annotation %s, which changes its address.",
			ccm.AnnotationKey(c.Service, "id"))
	case reused:
		ways = ways.And("Or give it its own load balancer: %s.", ccm.RemoveCommand(c.Service, "id"))
	}
	if zones, _ := ccm.Annotation(c.Service, "zone-maps"); reused && lb.NLB != nil && zones == "" {
		ways = ways.And("The new load balancer also needs the annotation zone-maps, which says where to create it.")
	}
	ways = ways.And("Or delete the listener if nobody uses it: %s.", theirs[0].remove(c, lb)).
		And("Its traffic stops at once, and a Service that it belongs to recreates it.")
	byHand := slices.DeleteFunc(slices.Clone(theirs), func(l listener) bool { _, created := ccm.ParseTrace(l.description); return created })
	ranged := func(l listener) bool { return l.port != l.last }
	switch {
	case !reused || len(byHand) == 0:
	case force == "true":
		ways = ways.And(`The annotation %s is "true", but does not help here.`, forceOverride).
			And("The controller takes over only listeners with the same protocol and port.")
	case !slices.ContainsFunc(byHand, ranged): // a range of ports cannot be taken over
		ways = ways.And("Or let the controller take over the listener: %s.", ccm.SetCommand(c.Service, forceOverride, "true")).
			And("It then replaces the settings of every listener on the Service's ports with those of the annotations.")
	}
	return ways
}

// read returns the listeners of the load balancer.
func read(ctx context.Context, c *remedy.Case, lb *ccm.Instance) ([]listener, error) {
	var out []listener
	if lb.NLB != nil {
		list, err := c.Cloud.NLB.Listeners(ctx, lb.ID)
		if err != nil {
			return nil, fmt.Errorf("list listeners of %s: %w", lb.ID, err)
		}
		for _, l := range list {
			first, last := l.Port, l.Port
			if l.Port == 0 {
				if _, err := fmt.Sscanf(l.First+" "+l.Last, "%d %d", &first, &last); err != nil {
					return nil, fmt.Errorf("read the port range %q to %q of listener %s: %w", l.First, l.Last, l.ID, err)
				}
			}
			out = append(out, listener{l.ID, first, last, strings.ToLower(l.Protocol), l.Description})
		}
		return out, nil
	}
	list, err := c.Cloud.SLB.Listeners(ctx, lb.ID)
	if err != nil {
		return nil, fmt.Errorf("list listeners of %s: %w", lb.ID, err)
	}
	for _, l := range list {
		out = append(out, listener{"", l.Port, l.Port, l.Protocol, l.Description})
	}
	return out, nil
}

// shares reports whether a port of the Service and a listener with the same number conflict. Only
// UDP and the other protocols can share a number.
func shares(protocol, other string) bool {
	return strings.EqualFold(protocol, "udp") == (other == "udp")
}

// String returns protocol and port.
func (l listener) String() string {
	if l.last != l.port {
		return fmt.Sprintf("%s:%d-%d", l.protocol, l.port, l.last)
	}
	return fmt.Sprintf("%s:%d", l.protocol, l.port)
}

// owner describes the listener with its owner, as far as its description tells.
func (l listener) owner(c *remedy.Case) say.Text {
	t, ok := ccm.ParseTrace(l.description)
	switch {
	case !ok && l.description == "":
		return say.F("%s was created by hand and has no description", l)
	case !ok:
		return say.F("%s was created by hand and has the description %s", l, ccm.Quote(l.description))
	case t.Cluster != c.Cluster:
		return say.F("%s belongs to the Service %s of the cluster %s", l, t, t.Cluster)
	}
	return say.F("%s belongs to the Service %s of this cluster", l, t)
}

// remove returns the command that deletes the listener.
func (l listener) remove(c *remedy.Case, lb *ccm.Instance) string {
	if lb.NLB != nil {
		return fmt.Sprintf("aliyun nlb DeleteListener --RegionId %s --ListenerId %s", c.Cloud.Region(), l.id)
	}
	return fmt.Sprintf("aliyun slb DeleteLoadBalancerListener --RegionId %s --LoadBalancerId %s --ListenerPort %d --ListenerProtocol %s",
		c.Cloud.Region(), lb.ID, l.port, l.protocol)
}

// free returns up to three unused ports above each of the taken ones.
func free(c *remedy.Case, taken []int32, listeners []listener) []string {
	var out []string
	for _, p := range taken {
		for candidate, n := int(p)+1, 0; candidate <= 65535 && n < 3; candidate++ {
			used := slices.ContainsFunc(listeners, func(l listener) bool { return l.port <= candidate && candidate <= l.last }) ||
				slices.ContainsFunc(c.Service.Spec.Ports, func(p corev1.ServicePort) bool { return int(p.Port) == candidate })
			if text := fmt.Sprint(candidate); !used && !slices.Contains(out, text) {
				out = append(out, text)
				n++
			}
		}
	}
	return out
}
