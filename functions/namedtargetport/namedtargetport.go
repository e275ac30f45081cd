// Package namedtargetport remedies Services whose target port is a name that the controller reads as 0.
package namedtargetport

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy replaces the name with the number if all Pods give it the same one.
var Remedy = &remedy.Remedy{
	Class: "named-target-port",
	Doc:   doc,
	Texts: []string{
		"Port must be between 1 and 65535",
		"Port value should be in [1, 65535]",
	},
	Reads: slices.Concat(
		[]grant.Grant{grant.DescribeClusterDetail, grant.ListEndpointSlices}, ccm.ControllerReads,
		ccm.BoundReads, ccm.NetworkReads),
	Steps:      []remedy.Step{step.TargetPorts{}},
	Diagnose:   diagnose,
	StillFails: stillFails,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	mode, err := c.BackendMode(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if mode != ccm.PodMode {
		return nodes(c), nil
	}
	named := names(c)
	if len(named) == 0 {
		return remedy.Plan{
			Finding: say.F("The API refuses the port of a backend, but every targetPort of the Service is a number: %s.", list(c)),
			Ask:     lookUp(c),
		}, nil
	}
	ends, err := c.Kube.EndpointSlices(ctx, c.Service.Namespace, c.Service.Name)
	if err != nil {
		return remedy.Plan{}, err
	}
	ctl, err := c.Controller(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	return decide(c, named, ends, ctl.Version), nil
}

// decide returns the plan for a Service whose Pods are the backends. named are its ports whose
// targetPort is a name; v is the release of the controller.
func decide(c *remedy.Case, named []corev1.ServicePort, ends []discoveryv1.EndpointSlice, v ccm.Version) remedy.Plan {
	var set step.TargetPorts
	var meanings, ask say.Text
	for _, p := range named {
		m := ccm.ResolvePort(ends, p, c.Family())
		meanings = meanings.Then(meaning(m, p))
		if n := m.Number(); n != 0 {
			set.Ports = append(set.Ports, step.TargetPort{Port: p.Port, Protocol: p.Protocol, To: intstr.FromInt32(int32(n)), Was: p.TargetPort})
		} else {
			ask = ask.Then(agree(m, c.Service, p))
		}
	}
	known := v != ccm.Version{}
	if known && !v.Before(ccm.FirstNamedPorts()) {
		return remedy.Plan{
			Finding: say.F("The API refuses the port of a backend. Pods are the backends.").
				And("CCM %s resolves the names of target ports, so they are not the cause.", v).Then(meanings),
			Ask: lookUp(c),
		}
	}
	plan := remedy.Plan{
		Finding: say.F("Pods are the backends, and the controller took the name of a targetPort for the number 0.").Then(meanings),
		Note:    say.F("CCM %s and newer resolve such names.", ccm.FirstNamedPorts()),
		Ask:     ask,
	}
	if known {
		plan.Note = plan.Note.And("This one is %s.", v)
	} else {
		plan.Note = plan.Note.And("The version of this one could not be determined.")
	}
	if len(ask) == 0 {
		plan.Steps = []remedy.Step{set}
	}
	return plan
}

// nodes plans for a Service whose backends are nodes: the port of a backend is then the node port.
func nodes(c *remedy.Case) remedy.Plan {
	var without []string
	for _, p := range c.Service.Spec.Ports {
		if p.NodePort == 0 {
			without = append(without, fmt.Sprint(p.Port))
		}
	}
	if len(without) == 0 {
		return remedy.Plan{
			Finding: say.F("The API refuses the port of a backend. Nodes are the backends, so a named targetPort does no harm.").
				And("Every port of the Service has a node port: %s.", list(c)),
			Ask: lookUp(c),
		}
	}
	return remedy.Plan{
		Finding: say.F("Nodes are the backends, but these ports of the Service have no node port: %s. The controller sends 0 instead.", strings.Join(without, ", ")),
		Ask: say.F("Allocate node ports: %s.", ccm.PatchCommand(c.Service, `{"spec":{"allocateLoadBalancerNodePorts":true}}`)).
			And("Or, with Terway, make Pods the backends: %s.", ccm.SetCommand(c.Service, ccm.BackendType, "eni")).
			And("Traffic then goes to the Pods directly instead of through nodes."),
	}
}

// names returns the ports whose targetPort is a name.
func names(c *remedy.Case) []corev1.ServicePort {
	return slices.DeleteFunc(slices.Clone(c.Service.Spec.Ports), func(p corev1.ServicePort) bool { return p.TargetPort.Type != intstr.String })
}

// stillFails reports whether the controller would still take a name for 0. If that was not the cause, a
// person has to check.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	if !c.Written() {
		return remedy.Yes, nil
	}
	mode, err := c.BackendMode(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(mode == ccm.PodMode && len(names(c)) > 0), nil
}
