// Package badannotation remedies Services with an annotation that the controller can't read.
package badannotation

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy names the annotation and the values that it takes. It corrects the annotation
// only if it can mean nothing but what the load balancer already has.
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
	StillFails:  holds,
}

// Names of the annotations that can be corrected automatically.
const (
	bandwidth    = "bandwidth"
	zoneMaps     = "zone-maps"
	protocolPort = "protocol-port"
	forwardPort  = "forward-port"
)

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	all := faults(c)
	blamed := slices.DeleteFunc(slices.Clone(all), func(f fault) bool { return !f.named(c.Event.Message) })
	if len(blamed) == 0 {
		return remedy.Plan{
			Finding: "The controller can't read an annotation, and says: " + c.Said() + ". " + others(all, "None of those whose values are known here is meant"),
			Ask:     "Set the annotation that the message is about to a value that the controller takes. The full message is in its log: " + c.LogQuery() + ".",
		}, nil
	}
	f := blamed[0]
	note := others(slices.DeleteFunc(all, func(o fault) bool { return o.Name == f.Name }), "")
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	is, err := real(ctx, c, lb, f)
	if err != nil {
		return remedy.Plan{}, err
	}
	finding := f.String()
	if is != "" {
		finding += fmt.Sprintf(" The %s %s has %s.", lb.Kind(), lb.ID, is)
	}
	if fixed, ok := repair(f, is); ok {
		return remedy.Plan{
			Finding: finding + " Nothing else can be meant.",
			Note:    note,
			Steps:   []remedy.Step{step.With(c.Service, f.Name, fixed)},
		}, nil
	}
	ask := fmt.Sprintf("Set the annotation to what is meant: %s.", ccm.SetCommand(c.Service, f.Name, "VALUE"))
	switch {
	case is != "":
		ask += fmt.Sprintf(" To leave the load balancer as it is: %s.", ccm.SetCommand(c.Service, f.Name, is))
	case f.Name == zoneMaps:
		could, err := suggest(ctx, c)
		if err != nil {
			return remedy.Plan{}, err
		}
		ask += " " + could
	default:
		ask += fmt.Sprintf(" Or remove it: %s.", ccm.RemoveCommand(c.Service, f.Name))
	}
	return remedy.Plan{Finding: finding, Ask: ask, Note: note}, nil
}

// A fault is an annotation whose value the controller does not accept.
type fault struct {
	ccm.ValueRule
	value string
	there bool
}

// String says what is wrong, as a sentence.
func (f fault) String() string {
	if !f.there {
		return fmt.Sprintf("The annotation %s is missing. It takes %s.", f.Name, f.Allowed)
	}
	return fmt.Sprintf("The annotation %s is %s. It takes %s.", f.Name, ccm.Quote(f.value), f.Allowed)
}

// named reports whether a message of the controller is about the annotation.
func (f fault) named(message string) bool {
	folded := strings.ToLower(strings.Join(strings.Fields(message), " "))
	return slices.ContainsFunc(f.Calls, func(call string) bool { return strings.Contains(folded, call) })
}

// faults returns what is wrong with the annotations of the case's Service.
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

// others returns what else is wrong, as a sentence, or nothing if there is none.
func others(list []fault, nothing string) string {
	if len(list) == 0 {
		if nothing == "" {
			return ""
		}
		return nothing + "."
	}
	var parts []string
	for _, f := range list {
		parts = append(parts, fmt.Sprintf("%s is %s and takes %s", f.Name, ccm.Quote(f.value), f.Allowed))
	}
	return "Other annotations have values that the documentation does not list: " + strings.Join(parts, "; ") + "."
}

// holds reports whether the annotation that the failure names is still wrong. If the
// failure names none that is known here, only the controller can tell.
func holds(_ context.Context, c *remedy.Case) (remedy.Verdict, error) {
	known := false
	for _, r := range ccm.ValueRules() {
		known = known || r.Reads(ccm.NLB(c.Service)) && fault{ValueRule: r}.named(c.Event.Message)
	}
	wrong := slices.ContainsFunc(faults(c), func(f fault) bool { return f.named(c.Event.Message) })
	return remedy.Is(!known || wrong), nil
}
