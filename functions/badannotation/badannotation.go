// Package badannotation remedies Services with an annotation that the controller cannot read, or a spec that their load balancer cannot have.
package badannotation

import (
	"context"
	_ "embed"
	"slices"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy names the annotation and its valid values. It corrects the value only if the load balancer's setting is the only possible meaning.
var Remedy = &remedy.Remedy{
	Class: "bad-annotation",
	Doc:   doc,
	Codes: append([]string{
		"AuthorizationLimitExceed", "InvalidSourceCidrIp.Malformed", "ResourceNotAvailible.HttpListener", "ResourceNotAvailible.HttpsListener",
		"LbNotSupportTcpssl", "OperationDenied.IntranetLoadBalancer", "ResourceAlreadyAssociated.loadbalancer", "InvalidParameterBandwidth",
	}, refusedCodes...),
	Texts: slices.Concat([]string{
		"must be integer, but got [", "bandwidth must be integer, got [", "weight must be integer in range", "default weight parse error",
		"zone mappings are required", "ZoneMapping format error", "cross zone enabled flag error", "invalid ipv6 address type",
		"port and protocol format must be like", "forward port format error", "forward port is not an integer",
		"port protocol format must be either", "listener from servicePort * protocol is not supported",
		"vgroupid and protocol format must be like", "server group id and protocol format must be like", "unsupport server ServerGroupType",
		"parse backend label", "parse DomainExtensions error", "parse IdleTimeout error", "parse Mss error",
		"ConnectionDrainTimeout parse error", "HealthCheckConnectPort parse error", "HealthCheckConnectTimeout parse error",
		"HealthCheckInterval parse error", "HealthyThreshold parse error", "UnhealthyThreshold parse error",
		"listener port range must be like", "listener port range can only be used for eni", "failed to convert port range",
		"for port range [", "port range [*] is invalid", "port of listener [*] overlaps with listener",
		"sctp protocol is not supported",
		"specified Zone did not have enough resource", "cannot create a TCP SSL type listener",
		"not allowed because of IntranetLoadBalancer", "specified resource of loadbalancer is already associated",
	}, groupTexts, refusedTexts),
	Reads:       slices.Concat(ccm.BoundReads, ccm.NetworkReads, ccm.SuggestReads, ccm.NamedGroupReads),
	Steps:       []remedy.Step{step.Annotate{}, step.RemoveAnnotation{}},
	Annotations: append(ccm.ShownValues(), ccm.GroupPairs),
	Deleting:    true,
	Diagnose:    diagnose,
	StillFails:  stillFails,
}

var refusedCodes, refusedTexts = ccm.Refusals("IdleTimeout", "RequestTimeout", "CookieTimeout", "HealthCheckInterval", "Bandwidth")

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	switch leaves := len(ccm.Leaving(c.Service)) > 0; {
	case leaves && len(ccm.Unpaired(c.Service)) == 0:
		return releaseGone(ctx, c)
	case leaves:
		return release(c), nil
	case ofGroups(c.Event.Message):
		return groups(ctx, c)
	}
	if m, _ := ccm.MisfitOf(c.Service, c.Event.Message); m != nil {
		return remedy.Plan{Finding: m.Finding, Ask: m.Ask}, nil
	}
	f, rest := ccm.NamedFault(c.Service, c.Event.Message)
	if f == nil {
		return unnamed(c, rest), nil
	}
	lb, is, err := c.ValueOf(ctx, f.ValueRule)
	if err != nil {
		return remedy.Plan{}, err
	}
	var zones say.Text
	if is == "" && f.Name == ccm.ZoneMap {
		if zones, err = c.SuggestZones(ctx); err != nil {
			return remedy.Plan{}, err
		}
	}
	p := decide(c, lb, f, is, zones)
	p.Note = others(rest)
	return p, nil
}

func unnamed(c *remedy.Case, all []ccm.Fault) remedy.Plan {
	finding := say.F("The controller cannot read an annotation. It says: %s.", c.Said())
	if len(all) == 0 {
		finding = finding.And("The annotations whose allowed values lbremedy knows are all valid.")
	}
	return remedy.Plan{
		Finding: finding.Then(others(all)),
		Ask: say.F("Set the annotation in the message to a value that the controller accepts.").
			And("Check the controller's log for the full message: %s.", c.LogQuery()),
	}
}

// decide returns the plan. is has the load balancer's setting, zones a proposal for a missing zone map.
func decide(c *remedy.Case, lb *ccm.Instance, f *ccm.Fault, is string, zones say.Text) remedy.Plan {
	finding := say.F("The annotation %s is %s. It takes %s.", f.Name, ccm.Quote(f.Value), f.Allowed)
	switch {
	case !f.There:
		finding = say.F("The annotation %s is missing. It takes %s.", f.Name, f.Allowed)
	case f.Takes(f.Value):
		finding = say.F("Alibaba Cloud refuses the annotation %s of this Service, which is %s. It takes %s, and the load balancer may allow less.",
			f.Name, ccm.Quote(f.Value), f.Allowed)
	}
	if is != "" {
		finding = finding.And("The %s %s has %s.", lb.Kind(), lb.ID, is)
	}
	if !f.Takes(f.Value) && f.Means(is) {
		return remedy.Plan{
			Finding: finding.And("The annotation can mean nothing else."),
			Steps:   []remedy.Step{step.With(c.Service, f.Name, is)},
		}
	}
	ask := f.Advice(c.Service)
	switch {
	case is != "":
		ask = ask.And("To keep the load balancer as it is: %s.", ccm.SetCommand(c.Service, f.Name, is))
	case len(zones) > 0:
		ask = ask.Then(zones)
	default:
		ask = ask.And("Or remove it: %s.", ccm.RemoveCommand(c.Service, f.Name))
	}
	return remedy.Plan{Finding: finding, Ask: ask}
}

func others(list []ccm.Fault) say.Text {
	if len(list) == 0 {
		return nil
	}
	return say.F("Other annotations have values that the documentation does not list: %s.", ccm.DescribeFaults(list))
}

// stillFails checks only vgroup-port for a Service that the controller releases, which then reads no other of these annotations.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	switch leaves := len(ccm.Leaving(c.Service)) > 0; {
	case leaves && len(ccm.Unpaired(c.Service)) == 0:
		gone, err := c.GoneGroups(ctx)
		return remedy.Is(len(gone) > 0), err
	case leaves || ofGroups(c.Event.Message): // only the next sync shows whether existing groups can be used
		return remedy.Yes, nil
	}
	return remedy.Is(ccm.ValueFails(c.Service, c.Event.Message)), nil
}
