// Package listenerconflict asks about ports that another listener uses.
package listenerconflict

import (
	"context"
	_ "embed"
	"slices"
	"strings"

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
	return decide(c, lb, listeners), nil
}

// decide returns the plan for a load balancer with these listeners.
func decide(c *remedy.Case, lb *ccm.Instance, listeners []ccm.Listener) remedy.Plan {
	var own []string
	var ports []int32 // that others use
	var theirs []ccm.Listener
	var owners []say.Text // of theirs
	for _, p := range c.Service.Spec.Ports {
		for _, l := range listeners {
			switch {
			case !l.Takes(p):
			case c.OwnName(l.Description):
				own = append(own, strings.ToLower(l.String()))
			default:
				ports = append(ports, p.Port)
				theirs, owners = append(theirs, l), append(owners, c.MadeFor(l))
			}
		}
	}
	switch {
	case len(theirs) == 0 && len(own) > 0:
		return remedy.Plan{
			Finding: say.F("On %s, only the Service's own listeners use its ports: %s. The controller replaces them step by step.", lb.ID, strings.Join(own, ", ")),
			Wait:    ccm.Retry,
		}
	case len(theirs) == 0:
		return remedy.Plan{
			Finding: say.F("No listener of %s uses a port of the Service now.", lb.ID).Then(ccm.Retries()),
			Wait:    ccm.Retry,
		}
	}
	return remedy.Plan{
		Finding: say.F("On %s, other listeners use ports of the Service: %s.", lb.ID, say.Clauses(owners, len(owners))),
		Cause:   lb.ID,
		Ask:     ask(c, lb, ccm.FreePorts(c.Service, listeners, ports, 3), ports, theirs),
	}
}

// ask names the ways out of the conflict with these listeners. free are ports that could be used
// instead of the taken ones.
func ask(c *remedy.Case, lb *ccm.Instance, free []string, taken []int32, theirs []ccm.Listener) say.Text {
	ways := say.F("Give the Service another port. These are free on %s: %s.", lb.ID, strings.Join(free, ", "))
	if len(free) == 0 {
		ways = say.F("Give the Service another port: one below %d that no listener of %s uses.", slices.Min(taken), lb.ID)
	}
	_, reused := ccm.Annotation(c.Service, ccm.BalancerID)
	switch {
	case reused && ccm.Synced(c.Service):
		// Without the annotation, the controller would look for the load balancer with the address, and fail.
		ways = ways.And("Or give it its own load balancer: delete the Service and recreate it without the annotation %s, which changes its address.",
			ccm.AnnotationKey(c.Service, ccm.BalancerID))
	case reused:
		ways = ways.And("Or give it its own load balancer: %s.", ccm.RemoveCommand(c.Service, ccm.BalancerID))
	}
	if zones, _ := ccm.Annotation(c.Service, ccm.ZoneMap); reused && lb.NLB != nil && zones == "" {
		ways = ways.And("The new load balancer also needs the annotation zone-maps, which says where to create it.")
	}
	ways = ways.And("Or delete the listener if nobody uses it: %s.", c.DeleteListenerCommand(lb, theirs[0])).
		And("Its traffic stops at once, and a Service that it belongs to recreates it.")
	ranged := func(l ccm.Listener) bool { return l.ByHand() && l.Port != l.Last }
	switch force, _ := ccm.Annotation(c.Service, ccm.ForceOverride); {
	case !reused || !slices.ContainsFunc(theirs, ccm.Listener.ByHand):
	case force == "true":
		ways = ways.And(`The annotation %s is "true", but does not help here.`, ccm.ForceOverride).
			And("The controller takes over only listeners with the same protocol and port.")
	case !slices.ContainsFunc(theirs, ranged): // a range of ports cannot be taken over
		ways = ways.And("Or let the controller take over the listener: %s.", ccm.SetCommand(c.Service, ccm.ForceOverride, "true")).
			And("It then replaces the settings of every listener on the Service's ports with those of the annotations.")
	}
	return ways
}
