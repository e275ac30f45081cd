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
	Reads:      slices.Concat([]grant.Grant{grant.DescribeClusterDetail, grant.ListEndpointSlices}, ccm.ControllerReads, ccm.BoundReads),
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
	backends, first := ccm.DescribePodBackends(virtual), ccm.FirstNamedPorts()
	var set step.TargetPorts
	var meanings, ask, numbers say.Text
	for _, p := range named {
		meanings = meanings.Then(p.Describe())
		if n := p.Number(); n != 0 {
			to := intstr.FromInt32(int32(n))
			set.Ports = append(set.Ports, step.TargetPort{Port: p.Port.Port, Protocol: p.Port.Protocol, To: to, Was: p.Port.TargetPort})
			numbers = numbers.And("Set the targetPort of port %d to %d: %s.", p.Port.Port, n,
				strings.Replace(ccm.TargetPortCommand(c.Service, p.Port), "NUMBER", to.String(), 1))
		} else {
			ask = ask.Then(p.Advice(c.Service))
		}
	}
	this, resolves := say.F("This one is %s.", v), say.F("CCM %s resolves the names of target ports, so they are not the cause.", v)
	if v == (ccm.Version{}) {
		this = say.F("The version of this one could not be determined.")
	}
	if ccm.NLB(c.Service) && v.Before(ccm.FirstNLB()) {
		v, resolves = ccm.FirstNLB(), say.F("Each release that manages NLBs resolves the names of target ports, so they are not the cause.")
	}
	switch {
	case v == ccm.Version{}:
		return remedy.Plan{
			Finding: backends.And("CCM %s and newer resolve the names of target ports. Older ones take them for the number 0.", first).Then(this).Then(meanings),
			Ask: say.F("Find out the version of the controller. If it is %s or newer, check its log for the port that it sent: %s.", first, c.LogQuery()).
				And("If it is older, replace the names.").Then(numbers).Then(ask),
		}
	case v.Before(first):
		plan := remedy.Plan{
			Finding: backends.And("The controller took the name of a targetPort for the number 0.").Then(meanings), Ask: ask,
			Note: say.F("CCM %s and newer resolve such names.", first).Then(this),
		}
		if len(ask) == 0 {
			plan.Steps = []remedy.Step{set}
		}
		return plan
	case ccm.SendsZero(named, virtual, v):
		return remedy.Plan{
			Finding: backends.And("The controller sends the number 0 for Pods without a port of the name.").Then(meanings), Ask: ask,
			Note: say.F("CCM %s and newer leave such Pods out.", ccm.FirstUnnamedLeftOut()).Then(this)}
	}
	return another(c, say.F("The API refuses the port of a backend.").Then(backends).Then(resolves).Then(meanings))
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
