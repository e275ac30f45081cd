// Package namedtargetport remedies Services whose target port is a name that the controller reads as 0.
package namedtargetport

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
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
		ccm.BoundReads, []grant.Grant{grant.ListSLBTags}, ccm.NetworkReads),
	Steps:      []remedy.Step{step.TargetPorts{}},
	Diagnose:   diagnose,
	StillFails: stillFails,
}

// resolves is the first release that resolves names through EndpointSlices
// (pkg/controller/service/clbv1/vgroups.go).
var resolves = ccm.Version{Major: 2}

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
	all, err := c.Kube.EndpointSlices(ctx, c.Service.Namespace, c.Service.Name)
	if err != nil {
		return remedy.Plan{}, err
	}
	ctl, err := c.Controller(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	var set step.TargetPorts
	var meanings, ask say.Text
	for _, p := range named {
		m := resolve(all, p, c.Family())
		meanings = meanings.Then(m.says(p))
		if m.number == 0 {
			ask = ask.Then(m.ask(c, p))
			continue
		}
		set.Ports = append(set.Ports, step.TargetPort{Port: p.Port, Protocol: p.Protocol, To: intstr.FromInt32(m.number), Was: p.TargetPort})
	}
	known := ctl.Version != ccm.Version{}
	if known && !ctl.Version.Before(resolves) {
		return remedy.Plan{
			Finding: say.F("The API refuses the port of a backend. Pods are the backends.").
				And("CCM %s resolves the names of target ports, so they are not the cause.", ctl.Version).Then(meanings),
			Ask: lookUp(c),
		}, nil
	}
	plan := remedy.Plan{
		Finding: say.F("Pods are the backends, and the controller took the name of a targetPort for the number 0.").Then(meanings),
		Note:    say.F("CCM %s and newer resolve such names.", resolves),
		Ask:     ask,
	}
	if known {
		plan.Note = plan.Note.And("This one is %s.", ctl.Version)
	} else {
		plan.Note = plan.Note.And("The version of this one could not be determined.")
	}
	if len(ask) == 0 {
		plan.Steps = []remedy.Step{set}
	}
	return plan, nil
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
	namespace, name := c.Service.Namespace, c.Service.Name
	return remedy.Plan{
		Finding: say.F("Nodes are the backends, but these ports of the Service have no node port: %s. The controller sends 0 instead.", strings.Join(without, ", ")),
		Ask: say.F(`Allocate node ports: kubectl -n %s patch service %s --type=merge -p '{"spec":{"allocateLoadBalancerNodePorts":true}}'.`, namespace, name).
			And("Or, with Terway, make Pods the backends: kubectl -n %s annotate service %s %s=eni --overwrite.", namespace, name, ccm.BackendType).
			And("Traffic then goes to the Pods directly instead of through nodes."),
	}
}

// lookUp asks for the port that the API refuses.
func lookUp(c *remedy.Case) say.Text {
	return say.F("Check the controller's log for the port that it sent when it added backends to the group: %s.", c.LogQuery()).
		And("Correct that port in the Service.")
}

// names returns the ports whose targetPort is a name.
func names(c *remedy.Case) []corev1.ServicePort {
	return slices.DeleteFunc(slices.Clone(c.Service.Spec.Ports), func(p corev1.ServicePort) bool { return p.TargetPort.Type != intstr.String })
}

// list describes the ports of the Service.
func list(c *remedy.Case) say.Text {
	var ports []say.Text
	for _, p := range c.Service.Spec.Ports {
		ports = append(ports, say.F("%d to %s (node port %d)", p.Port, p.TargetPort.String(), p.NodePort))
	}
	return say.Clauses(ports, 10)
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
