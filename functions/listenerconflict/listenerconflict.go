// Package listenerconflict remedies Services with ports that another listener uses.
package listenerconflict

import (
	"context"
	_ "embed"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy deletes leftovers of a Service that no longer exists. Otherwise it asks which listener keeps the port.
var Remedy = &remedy.Remedy{
	Class: "listener-conflict",
	Doc:   doc,
	Codes: []string{"ListenerAlreadyExists", "InvalidParameter.ListenerPortConflict", "PortProtocolConflict", "Conflict.Port"},
	Texts: []string{
		"listener with the specified port already exists",
		"There is conflict listener port exists",
		"ListenerPort is conflict with other listener",
		"The Port * is conflict",                                                                         // of NLB
		"port matched, but conflict with user managed listener", "port matched, while protocol does not", // v1.9.3
	},
	Reads:      slices.Concat(ccm.BoundReads, ccm.DriftReads, ccm.NetworkReads, ccm.WholeGroupReads),
	Steps:      []remedy.Step{step.DeleteListener{}, step.Resync{}},
	Risks:      []remedy.Risk{remedy.High},
	Diagnose:   diagnose,
	StillFails: stillFails,
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
	plan := decide(c, lb, listeners)
	if len(plan.Ask) == 0 || lb.CLB == nil {
		return plan, nil
	}
	return leftover(ctx, c, lb, plan)
}

func others(c *remedy.Case, listeners []ccm.Listener) []ccm.Listener {
	return slices.DeleteFunc(slices.Clone(listeners), func(l ccm.Listener) bool {
		return c.OwnName(l.Description) || !slices.ContainsFunc(c.Service.Spec.Ports, l.Takes)
	})
}

// stillFails reports whether another listener uses a port of the Service. If none does, only a sync proves the end.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	if lb == nil {
		return remedy.Yes, nil
	}
	listeners, err := c.Listeners(ctx, lb)
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(len(others(c, listeners)) > 0 || !c.Written() && !ccm.InForce(c.Service)), nil
}

func decide(c *remedy.Case, lb *ccm.Instance, listeners []ccm.Listener) remedy.Plan {
	var own []string
	var ports []int32 // used by others
	var theirs []ccm.Listener
	var owners []say.Text // of the others' listeners
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
