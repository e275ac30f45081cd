// Package attributeimmutable remedies Services that ask to change what is set when a load balancer is created.
package attributeimmutable

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy sets the annotations back to what the load balancer has, so that the Service syncs again.
var Remedy = &remedy.Remedy{
	Class: "attribute-immutable",
	Doc:   doc,
	Texts: []string{
		"can not change LoadBalancer * once created",
		"AddressIpVersion cannot be changed",
	},
	Reads:       slices.Concat(ccm.BoundReads, ccm.NetworkReads),
	Steps:       []remedy.Step{step.Annotate{}, step.RemoveAnnotation{}},
	Annotations: []string{"master-zoneid", "slave-zoneid", "ip-version", "network-type", "slb-network-type", "ip"},
	Diagnose:    diagnose,
	StillFails:  holds,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if lb == nil {
		return c.NoBalancer("its zones, IP version, network type and address"), nil
	}
	return putBack(ctx, c, lb)
}

// putBack plans to set the annotations back to what the load balancer has.
func putBack(ctx context.Context, c *remedy.Case, lb *ccm.Instance) (remedy.Plan, error) {
	var edits []step.Edit
	var parts []string
	list := differing(c, lb)
	if err := known(lb, list); err != nil {
		return remedy.Plan{}, err
	}
	for _, a := range list {
		asks := fmt.Sprintf("the annotation %s asks for %s", a.name, ccm.Quote(a.want))
		if a.want == "" {
			asks = fmt.Sprintf("the annotation %s is missing, which asks for %s", a.name, a.unset)
		}
		if a.real == "" {
			edits = append(edits, step.Without(c.Service, a.name))
			parts = append(parts, fmt.Sprintf("%s, and the API names no %s of %s", asks, a.what, lb.ID))
			continue
		}
		edits = append(edits, step.With(c.Service, a.name, a.real))
		parts = append(parts, fmt.Sprintf("%s, and the %s of %s is %s", asks, a.what, lb.ID, a.real))
	}
	if len(parts) == 0 { // it was found, or put right, since holds has looked
		return remedy.Plan{
			Finding: fmt.Sprintf("The annotations ask %s for nothing that it does not have now; the controller tries again by itself.", lb.ID),
			Wait:    c.PollInterval(),
		}, nil
	}
	finding := strings.Join(parts, "; ")
	if list[0].told {
		return remedy.Plan{
			Finding: fmt.Sprintf("%s%s. No known release of the controller compares the two; an Event alone says that this one does.", strings.ToUpper(finding[:1]), finding[1:]),
			Ask:     fmt.Sprintf("If the controller's log says so too, %s, put the annotation back to what the %s has, or take it away: %s.", c.LogQuery(), lb.Kind(), ccm.RemoveCommand(c.Service, list[0].name)),
		}, nil
	}
	return remedy.Plan{
		Finding: fmt.Sprintf("%s%s. That is chosen when the %s is made, and never changes.", strings.ToUpper(finding[:1]), finding[1:], lb.Kind()),
		Note:    "To have it otherwise, delete the Service and create it again: it then has a new load balancer and a new address.",
		Steps:   []remedy.Step{step.Together(edits...)},
	}, nil
}

// An attribute is a value that an annotation asks for, beside that of the load balancer.
type attribute struct {
	name  string // short, of the annotation
	what  string // for people
	want  string // empty: the annotation is not there
	unset string // what the controller wants then; empty: anything
	real  string // empty: the load balancer has none, as far as the API says
	maybe bool   // a load balancer can have none
	told  bool   // that the controller compares it, an Event alone says
}

// known returns an error if the API omits what every load balancer has: an annotation
// can't be set back to an unknown value.
func known(lb *ccm.Instance, list []attribute) error {
	for _, a := range list {
		if a.real == "" && !a.maybe {
			return fmt.Errorf("read load balancer %s: the answer has no %s", lb.ID, a.what)
		}
	}
	return nil
}

// differing returns the attributes on which a sync of the Service fails.
func differing(c *remedy.Case, lb *ccm.Instance) []attribute {
	if lb.NLB != nil {
		return slices.DeleteFunc(all(c, []attribute{
			{name: "ip-version", what: "IP version", real: annotated(lb.IPVersion)},
		}), func(a attribute) bool { return a.want == "" || strings.EqualFold(a.want, a.real) })
	}
	list := []attribute{
		{name: "master-zoneid", what: "primary zone", real: lb.CLB.Zone},
		{name: "slave-zoneid", what: "standby zone", real: lb.CLB.SlaveZone, maybe: true},
		{name: "ip-version", what: "IP version", unset: "ipv4", real: lb.CLB.IPVersion},
		{name: "network-type", what: "network type", real: lb.CLB.Network},
		{name: "slb-network-type", what: "network type", real: lb.CLB.Network}, // so called before CCM v2.12
		{name: "ip", what: "address", real: lb.CLB.Address},
	}
	list = slices.DeleteFunc(all(c, list), func(a attribute) bool {
		return a.want == a.real || a.want == "" && (a.unset == "" || a.unset == a.real)
	})
	// No known release compares the vSwitch: only an Event says that this one does.
	if len(list) == 0 && !c.Written() && strings.Contains(strings.ToLower(c.Event.Message), "vswitch") {
		if want, _ := ccm.Annotation(c.Service, "vswitch-id"); want != "" && want != lb.CLB.VSwitch {
			list = append(list, attribute{name: "vswitch-id", what: "vSwitch", want: want, real: lb.CLB.VSwitch, maybe: true, told: true})
		}
	}
	return list
}

// all fills in what the annotations ask for.
func all(c *remedy.Case, list []attribute) []attribute {
	for i := range list {
		list[i].want, _ = ccm.Annotation(c.Service, list[i].name)
	}
	return list
}

// annotated returns an NLB's IP version as the annotation spells it.
func annotated(version string) string {
	if strings.EqualFold(version, "DualStack") {
		return "DualStack"
	}
	return strings.ToLower(version)
}

// holds reports whether the annotations still differ from the load balancer.
func holds(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	if lb == nil {
		return remedy.Yes, nil
	}
	list := differing(c, lb)
	return remedy.Is(len(list) > 0), known(lb, list)
}
