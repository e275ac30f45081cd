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
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy replaces the name with the number if it means the same number on all Pods.
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
	StillFails: holds,
}

// resolves is the first release that resolves a name through the EndpointSlices
// (pkg/controller/service/clbv1/vgroups.go).
var resolves = ccm.Version{Major: 2}

func lookUp(c *remedy.Case) string {
	return "Look up in the controller's log which port it sent, in the call that adds backends to the group, and correct it in the Service: " + c.LogQuery() + "."
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
			Finding: fmt.Sprintf("The API refuses a port of a backend, and every targetPort of the Service is a number: %s.", list(c)),
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
	var findings, unclear []string
	for _, p := range named {
		m := resolve(all, p, c.Family())
		findings = append(findings, m.says(p))
		if m.number == 0 {
			unclear = append(unclear, m.ask(c, p))
			continue
		}
		set.Ports = append(set.Ports, step.TargetPort{Port: p.Port, Protocol: p.Protocol, To: intstr.FromInt32(m.number), Was: p.TargetPort})
	}
	if ctl.Version != (ccm.Version{}) && !ctl.Version.Before(resolves) {
		return remedy.Plan{
			Finding: fmt.Sprintf("The API refuses a port of a backend. Pods are the backends, and the controller is %s, which resolves targetPorts by name: those are not why. %s", ctl.Version, strings.Join(findings, " ")),
			Ask:     lookUp(c),
		}, nil
	}
	plan := remedy.Plan{Finding: "Pods are the backends, and the controller took a targetPort by name for the number 0. " + strings.Join(findings, " "), Note: upgrade(ctl.Version)}
	if len(unclear) > 0 {
		plan.Ask = strings.Join(unclear, " ")
		return plan, nil
	}
	plan.Steps = []remedy.Step{set}
	return plan, nil
}

// upgrade says how the name can stay.
func upgrade(v ccm.Version) string {
	is := "The version of this one can't be told."
	if v != (ccm.Version{}) {
		is = "This one is " + v.String() + "."
	}
	return "A controller of " + resolves.String() + " or later resolves names by itself. " + is
}

// nodes answers if nodes are the backends: the port is then the node port.
func nodes(c *remedy.Case) remedy.Plan {
	var without []string
	for _, p := range c.Service.Spec.Ports {
		if p.NodePort == 0 {
			without = append(without, fmt.Sprint(p.Port))
		}
	}
	if len(without) > 0 {
		return remedy.Plan{
			Finding: fmt.Sprintf("Nodes are the backends of the Service, and there is no node port for port %s: the controller sends 0.", strings.Join(without, ", ")),
			Ask: fmt.Sprintf("Give the ports node ports: kubectl -n %s patch service %s --type=merge -p '{\"spec\":{\"allocateLoadBalancerNodePorts\":true}}'. "+
				"Or, with Terway, make Pods the backends: kubectl -n %[1]s annotate service %[2]s %[3]s=eni --overwrite; traffic then reaches them without nodes.", c.Service.Namespace, c.Service.Name, ccm.BackendType),
		}
	}
	return remedy.Plan{
		Finding: fmt.Sprintf("The API refuses a port of a backend. Nodes are the backends of the Service, so that a targetPort by name does no harm, and every port has a node port: %s.", list(c)),
		Ask:     lookUp(c),
	}
}

// names returns the ports whose targetPort is a name.
func names(c *remedy.Case) []corev1.ServicePort {
	var named []corev1.ServicePort
	for _, p := range c.Service.Spec.Ports {
		if p.TargetPort.Type == intstr.String {
			named = append(named, p)
		}
	}
	return named
}

func list(c *remedy.Case) string {
	var ports []string
	for _, p := range c.Service.Spec.Ports {
		ports = append(ports, fmt.Sprintf("%d to %s by node port %d", p.Port, p.TargetPort.String(), p.NodePort))
	}
	if len(ports) == 0 {
		return "there are none"
	}
	return remedy.List(ports, 10)
}

// holds reports whether the controller would still read a name as 0. If that was not
// the cause, a person looks.
func holds(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	if !c.Written() {
		return remedy.Yes, nil
	}
	mode, err := c.BackendMode(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(mode == ccm.PodMode && len(names(c)) > 0), nil
}
