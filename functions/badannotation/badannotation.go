// Package badannotation remedies Services with an annotation that the controller can't read.
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

// Remedy names the annotation and the values that it takes. It corrects the value only if that
// can mean nothing but what the load balancer has.
var Remedy = &remedy.Remedy{
	Class: "bad-annotation",
	Doc:   doc,
	Texts: []string{
		"must be integer, but got [",
		"bandwidth must be integer, got [",
		"zone mappings are required",
		"ZoneMapping format error",
		"port and protocol format must be like",
		"forward port format error",
		"forward port is not an integer",
		"port protocol format must be either",
		"listener from servicePort * protocol is not supported",
		"vgroupid and protocol format must be like",
		"weight must be integer in range",
	},
	Reads:       slices.Concat(ccm.BoundReads, ccm.NetworkReads, ccm.SuggestReads),
	Steps:       []remedy.Step{step.Annotate{}},
	Annotations: ccm.ShownValues(),
	Diagnose:    diagnose,
	StillFails:  stillFails,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
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

// unnamed is the plan if the message names none of the faulty annotations.
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

// decide corrects the faulty annotation, or asks. Is is the load balancer's setting; zones are a proposal
// where a zone map is missing.
func decide(c *remedy.Case, lb *ccm.Instance, f *ccm.Fault, is string, zones say.Text) remedy.Plan {
	finding := say.F("The annotation %s is %s. It takes %s.", f.Name, ccm.Quote(f.Value), f.Allowed)
	if !f.There {
		finding = say.F("The annotation %s is missing. It takes %s.", f.Name, f.Allowed)
	}
	if is != "" {
		finding = finding.And("The %s %s has %s.", lb.Kind(), lb.ID, is)
	}
	if f.Means(is) {
		return remedy.Plan{
			Finding: finding.And("The annotation can mean nothing else."),
			Steps:   []remedy.Step{step.With(c.Service, f.Name, is)},
		}
	}
	ask := say.F("Set the annotation to the intended value: %s.", ccm.SetCommand(c.Service, f.Name, "VALUE"))
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

// others names further annotations that the controller may not accept.
func others(list []ccm.Fault) say.Text {
	if len(list) == 0 {
		return nil
	}
	return say.F("Other annotations have values that the documentation does not list: %s.", ccm.DescribeFaults(list))
}

// stillFails reports whether the annotation that the failure names is still wrong. If lbremedy
// does not know that annotation, only the controller can tell.
func stillFails(_ context.Context, c *remedy.Case) (remedy.Verdict, error) {
	wrong, _ := ccm.NamedFault(c.Service, c.Event.Message)
	return remedy.Is(wrong != nil || !ccm.NamesValue(c.Service, c.Event.Message)), nil
}
