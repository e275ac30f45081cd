// Package namedtargetport remedies Services with a named target port that the controller reads as 0.
package namedtargetport

import (
	"context"
	_ "embed"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy replaces the name by the number if all Pods have the same one.
var Remedy = &remedy.Remedy{
	Class:      "named-target-port",
	Doc:        doc,
	Texts:      []string{"Port must be between 1 and 65535", "Port value should be in [1, 65535]"},
	Reads:      slices.Concat([]grant.Grant{grant.DescribeClusterDetail, grant.ListEndpointSlices}, ccm.ControllerReads, ccm.BoundReads, ccm.NetworkReads),
	Steps:      []remedy.Step{step.TargetPorts{}},
	Backends:   true,
	Diagnose:   diagnose,
	StillFails: stillFails,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	mode, virtual, err := c.PodBackends(ctx, c.Family())
	without := ccm.Unallocated(c.Service)
	switch {
	case err != nil:
		return remedy.Plan{}, err
	case mode != ccm.PodMode && len(without) > 0:
		return allocate(c, without), nil
	case mode != ccm.PodMode && len(virtual) == 0:
		return another(c, say.F("The API refuses the port of a backend. Nodes are the backends, so a named targetPort does no harm.").
			And("Every port of the Service has a node port: %s.", ccm.DescribePorts(c.Service))), nil
	case len(ccm.NamedPorts(c.Service)) == 0:
		return another(c, say.F("The API refuses the port of a backend, but every targetPort of the Service is a number: %s.", ccm.DescribePorts(c.Service))), nil
	}
	named, err := c.ResolvePorts(ctx, c.Family())
	if err != nil {
		return remedy.Plan{}, err
	}
	ctl, err := c.Controller(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	return decide(c, named, virtual, ctl.Version), nil
}

// decide plans for Pods as backends. named are the ports with a named targetPort; v is the controller's release.
func decide(c *remedy.Case, named []ccm.NamedPort, virtual []ccm.Endpoint, v ccm.Version) remedy.Plan {
	backends := ccm.DescribePodBackends(virtual)
	var set step.TargetPorts
	var meanings, ask say.Text
	for _, p := range named {
		meanings = meanings.Then(p.Describe())
		if n := p.Number(); n != 0 {
			to := intstr.FromInt32(int32(n))
			set.Ports = append(set.Ports, step.TargetPort{Port: p.Port.Port, Protocol: p.Port.Protocol, To: to, Was: p.Port.TargetPort})
		} else {
			ask = ask.Then(p.Advice(c.Service))
		}
	}
	note := say.F("CCM %s and newer resolve such names.", ccm.FirstNamedPorts())
	switch {
	case v == ccm.Version{}:
		note = note.And("The version of this one could not be determined.")
	case v.Before(ccm.FirstNamedPorts()):
		note = note.And("This one is %s.", v)
	case ccm.SendsZero(named, virtual, v):
		return remedy.Plan{
			Finding: backends.And("The controller sends the number 0 for Pods without a port of the name.").Then(meanings), Ask: ask,
			Note: say.F("CCM %s and newer leave such Pods out. This one is %s.", ccm.FirstUnnamedLeftOut(), v)}
	default:
		return another(c, say.F("The API refuses the port of a backend.").Then(backends).
			And("CCM %s resolves the names of target ports, so they are not the cause.", v).Then(meanings))
	}
	plan := remedy.Plan{Finding: backends.And("The controller took the name of a targetPort for the number 0.").Then(meanings), Ask: ask, Note: note}
	if len(ask) == 0 {
		plan.Steps = []remedy.Step{set}
	}
	return plan
}

// allocate plans for nodes as backends and ports without a node port, which is the backend's port.
func allocate(c *remedy.Case, without []string) remedy.Plan {
	finding := say.F("Nodes are the backends, but these ports of the Service have no node port: %s. The controller sends 0 instead.", strings.Join(without, ", "))
	ask := say.F("Allocate node ports: %s.", ccm.PatchCommand(c.Service, `{"spec":{"allocateLoadBalancerNodePorts":true}}`)).
		And("Or, with Terway, make Pods the backends: %s.", ccm.SetCommand(c.Service, ccm.BackendType, "eni")).
		And("Traffic then goes to the Pods directly instead of through nodes.")
	return remedy.Plan{Finding: finding, Ask: ask}
}

// another asks for the port that the API rejects, because no name is the cause.
func another(c *remedy.Case, finding say.Text) remedy.Plan {
	ask := say.F("Check the controller's log for the port that it sent when it added backends to the group: %s.", c.LogQuery()).
		And("Correct that port in the Service.")
	return remedy.Plan{Finding: finding, Ask: ask}
}

// stillFails reports whether the controller would still read a name as 0. If that was not the cause, a person has to check.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	if !c.Written() {
		return remedy.Yes, nil
	}
	mode, virtual, err := c.PodBackends(ctx, c.Family())
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is((mode == ccm.PodMode || len(virtual) > 0) && len(ccm.NamedPorts(c.Service)) > 0), nil
}
