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

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if lb == nil {
		return c.NoBalancer(say.F("its listeners")), nil
	}
	listeners, err := c.Listeners(ctx, lb)
	if err != nil {
		return remedy.Plan{}, err
	}
	for i := range listeners {
		listeners[i].Protocol = strings.ToLower(listeners[i].Protocol) // as people read it, for both kinds
	}
	return decide(c, lb, listeners), nil
}

// decide returns the plan for a load balancer with these listeners.
func decide(c *remedy.Case, lb *ccm.Instance, listeners []ccm.Listener) remedy.Plan {
	var own []string
	var taken []say.Text
	var ports []int32
	var theirs []ccm.Listener
	for _, p := range c.Service.Spec.Ports {
		for _, l := range listeners {
			if !l.Takes(p) {
				continue
			}
			if t, ok := ccm.ParseTrace(l.Description); ok && t.Of(c.Service, c.Cluster) {
				own = append(own, l.String())
				continue
			}
			taken = append(taken, owner(c, l))
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
			Finding: say.F("No listener of %s uses a port of the Service now.", lb.ID).Then(ccm.Retries()),
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
func ask(c *remedy.Case, lb *ccm.Instance, free []string, taken []int32, theirs []ccm.Listener) say.Text {
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
	ways = ways.And("Or delete the listener if nobody uses it: %s.", c.DeleteListenerCommand(lb, theirs[0])).
		And("Its traffic stops at once, and a Service that it belongs to recreates it.")
	byHand := slices.DeleteFunc(slices.Clone(theirs), func(l ccm.Listener) bool { _, created := ccm.ParseTrace(l.Description); return created })
	ranged := func(l ccm.Listener) bool { return l.Port != l.Last }
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

// owner describes the listener with its owner, as far as its description tells.
func owner(c *remedy.Case, l ccm.Listener) say.Text {
	t, ok := ccm.ParseTrace(l.Description)
	switch {
	case !ok && l.Description == "":
		return say.F("%s was created by hand and has no description", l)
	case !ok:
		return say.F("%s was created by hand and has the description %s", l, ccm.Quote(l.Description))
	case t.Cluster != c.Cluster:
		return say.F("%s belongs to the Service %s of the cluster %s", l, t, t.Cluster)
	}
	return say.F("%s belongs to the Service %s of this cluster", l, t)
}

// free returns up to three unused ports above each of the taken ones.
func free(c *remedy.Case, taken []int32, listeners []ccm.Listener) []string {
	var out []string
	for _, p := range taken {
		for candidate, n := int(p)+1, 0; candidate <= 65535 && n < 3; candidate++ {
			used := slices.ContainsFunc(listeners, func(l ccm.Listener) bool { return l.Port <= candidate && candidate <= l.Last }) ||
				slices.ContainsFunc(c.Service.Spec.Ports, func(p corev1.ServicePort) bool { return int(p.Port) == candidate })
			if text := fmt.Sprint(candidate); !used && !slices.Contains(out, text) {
				out = append(out, text)
				n++
			}
		}
	}
	return out
}
