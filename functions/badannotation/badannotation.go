// Package badannotation remedies Services with an annotation that the controller can't read.
package badannotation

import (
	"context"
	_ "embed"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/grant"
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
	Reads: slices.Concat(ccm.BoundReads, ccm.NetworkReads,
		[]grant.Grant{grant.DescribeClusterDetail, grant.DescribeVSwitches}),
	Steps:       []remedy.Step{step.Annotate{}},
	Annotations: mendable(),
	Diagnose:    diagnose,
	StillFails:  stillFails,
}

// Short names of the annotations that real and repair treat specially.
const (
	bandwidth    = "bandwidth"
	zoneMaps     = "zone-maps"
	protocolPort = "protocol-port"
	forwardPort  = "forward-port"
)

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	all := faults(c)
	i := slices.IndexFunc(all, func(f fault) bool { return f.named(c.Event.Message) })
	if i < 0 {
		finding := say.F("The controller cannot read an annotation. It says: %s.", c.Said())
		if len(all) == 0 {
			finding = finding.And("The annotations whose allowed values lbremedy knows are all valid.")
		}
		return remedy.Plan{
			Finding: finding.Then(others(all)),
			Ask: say.F("Set the annotation in the message to a value that the controller accepts.").
				And("Check the controller's log for the full message: %s.", c.LogQuery()),
		}, nil
	}
	f := all[i]
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	is, err := real(ctx, c, lb, f)
	if err != nil {
		return remedy.Plan{}, err
	}
	plan := remedy.Plan{
		Finding: f.text(),
		Note:    others(slices.DeleteFunc(all, func(o fault) bool { return o.Name == f.Name })),
	}
	if is != "" {
		plan.Finding = plan.Finding.And("The %s %s has %s.", lb.Kind(), lb.ID, is)
	}
	if fixed, ok := repair(f, is); ok {
		plan.Finding = plan.Finding.And("The annotation can mean nothing else.")
		plan.Steps = []remedy.Step{step.With(c.Service, f.Name, fixed)}
		return plan, nil
	}
	plan.Ask = say.F("Set the annotation to the intended value: %s.", ccm.SetCommand(c.Service, f.Name, "VALUE"))
	switch {
	case is != "":
		plan.Ask = plan.Ask.And("To keep the load balancer as it is: %s.", ccm.SetCommand(c.Service, f.Name, is))
	case f.Name == zoneMaps:
		zones, err := suggest(ctx, c)
		if err != nil {
			return remedy.Plan{}, err
		}
		plan.Ask = plan.Ask.Then(zones)
	default:
		plan.Ask = plan.Ask.And("Or remove it: %s.", ccm.RemoveCommand(c.Service, f.Name))
	}
	return plan, nil
}

// A fault is an annotation with a value that the controller does not accept.
type fault struct {
	ccm.ValueRule
	value string
	there bool
}

// text says what is wrong.
func (f fault) text() say.Text {
	if !f.there {
		return say.F("The annotation %s is missing. It takes %s.", f.Name, f.Allowed)
	}
	return say.F("The annotation %s is %s. It takes %s.", f.Name, ccm.Quote(f.value), f.Allowed)
}

// named reports whether a message of the controller is about the annotation.
func (f fault) named(message string) bool {
	folded := strings.ToLower(strings.Join(strings.Fields(message), " "))
	return slices.ContainsFunc(f.Calls, func(call string) bool { return strings.Contains(folded, call) })
}

// faults returns the faulty annotations of the case's Service.
func faults(c *remedy.Case) []fault {
	network := ccm.NLB(c.Service)
	id, _ := ccm.Annotation(c.Service, "id")
	var out []fault
	for _, r := range ccm.ValueRules() {
		if !r.Reads(network) {
			continue
		}
		v, ok := ccm.Annotation(c.Service, r.Name)
		if strings.Contains(r.Name, "/") {
			v, ok = c.Service.Annotations[r.Name], c.Service.Annotations[r.Name] != ""
		}
		if ok && v != "" && !r.Takes(v) || v == "" && r.Name == zoneMaps && id == "" {
			out = append(out, fault{r, v, ok})
		}
	}
	return out
}

// others names further annotations that the controller may not accept.
func others(list []fault) say.Text {
	if len(list) == 0 {
		return nil
	}
	var parts []say.Text
	for _, f := range list {
		parts = append(parts, say.F("%s is %s and takes %s", f.Name, ccm.Quote(f.value), f.Allowed))
	}
	return say.F("Other annotations have values that the documentation does not list: %s.", say.Clauses(parts, len(parts)))
}

// stillFails reports whether the annotation that the failure names is still wrong. If lbremedy
// does not know that annotation, only the controller can tell.
func stillFails(_ context.Context, c *remedy.Case) (remedy.Verdict, error) {
	known := false
	for _, r := range ccm.ValueRules() {
		known = known || r.Reads(ccm.NLB(c.Service)) && fault{ValueRule: r}.named(c.Event.Message)
	}
	wrong := slices.ContainsFunc(faults(c), func(f fault) bool { return f.named(c.Event.Message) })
	return remedy.Is(!known || wrong), nil
}
