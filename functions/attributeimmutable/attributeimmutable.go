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
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy sets the annotations to what the load balancer has. The Service then syncs again.
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
	StillFails:  stillFails,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if lb == nil {
		return c.NoBalancer(say.F("its zones, IP version, network type and address")), nil
	}
	return putBack(c, lb)
}

// putBack sets the annotations to what the load balancer has.
func putBack(c *remedy.Case, lb *ccm.Instance) (remedy.Plan, error) {
	list := differing(c, lb)
	if err := known(lb, list); err != nil {
		return remedy.Plan{}, err
	}
	if len(list) == 0 { // found or fixed since stillFails read it
		return remedy.Plan{
			Finding: say.F("The load balancer %s now has everything that the annotations ask for. The controller retries.", lb.ID),
			Wait:    c.PollInterval(),
		}, nil
	}
	var finding say.Text
	var edits []step.Edit
	for _, a := range list {
		finding = finding.Then(a.differs(lb.ID))
		if a.real == "" {
			edits = append(edits, step.Without(c.Service, a.name))
		} else {
			edits = append(edits, step.With(c.Service, a.name, a.real))
		}
	}
	if list[0].claimed {
		return remedy.Plan{
			Finding: finding.And("No known release of the controller compares the two. An Event alone says that this one does."),
			Ask: say.F("Check the controller's log: %s.", c.LogQuery()).
				And("If it says so, too, set the annotation to what the %s has, or remove it: %s.", lb.Kind(), ccm.RemoveCommand(c.Service, list[0].name)),
		}, nil
	}
	return remedy.Plan{
		Finding: finding.And("This is chosen when the %s is created and never changes.", lb.Kind()),
		Note:    say.F("To change it, delete and recreate the Service. It gets a new load balancer and a new address."),
		Steps:   []remedy.Step{step.Together(edits...)},
	}, nil
}

// An attribute is a value that an annotation asks for, beside that of the load balancer.
type attribute struct {
	name    string   // short, of the annotation
	what    say.Text // for people
	want    string   // empty: the annotation is missing
	unset   string   // what the controller wants if the annotation is missing; empty: anything
	real    string   // empty: the API reports none for the load balancer
	maybe   bool     // a load balancer can have none
	claimed bool     // an Event alone says that the controller compares it
}

// differs says what the annotation asks for and what the load balancer has instead.
func (a attribute) differs(id string) say.Text {
	switch {
	case a.real == "":
		return say.F("The annotation %s asks for %s, but the API reports no %s of %s.", a.name, ccm.Quote(a.want), a.what, id)
	case a.want == "":
		return say.F("Without the annotation %s the controller asks for %s, but the %s of %s is %s.", a.name, a.unset, a.what, id, a.real)
	}
	return say.F("The annotation %s asks for %s, but the %s of %s is %s.", a.name, ccm.Quote(a.want), a.what, id, a.real)
}

// known returns an error if the answer of the API lacks an attribute that every load balancer
// has: no annotation is set to an unknown value.
func known(lb *ccm.Instance, list []attribute) error {
	for _, a := range list {
		if a.real == "" && !a.maybe {
			return fmt.Errorf("read load balancer %s: the answer has no %s", lb.ID, a.what)
		}
	}
	return nil
}

// differing returns the attributes that make a sync of the Service fail.
func differing(c *remedy.Case, lb *ccm.Instance) []attribute {
	if lb.NLB != nil {
		return slices.DeleteFunc(all(c, []attribute{
			{name: "ip-version", what: say.F("IP version"), real: annotated(lb.IPVersion)},
		}), func(a attribute) bool { return a.want == "" || strings.EqualFold(a.want, a.real) })
	}
	network := say.F("network type")
	list := slices.DeleteFunc(all(c, []attribute{
		{name: "master-zoneid", what: say.F("primary zone"), real: lb.CLB.Zone},
		{name: "slave-zoneid", what: say.F("standby zone"), real: lb.CLB.SlaveZone, maybe: true},
		{name: "ip-version", what: say.F("IP version"), unset: "ipv4", real: lb.CLB.IPVersion},
		{name: "network-type", what: network, real: lb.CLB.Network},
		{name: "slb-network-type", what: network, real: lb.CLB.Network}, // its name before CCM v2.12
		{name: "ip", what: say.F("address"), real: lb.CLB.Address},
	}), func(a attribute) bool {
		return a.want == a.real || a.want == "" && (a.unset == "" || a.unset == a.real)
	})
	// No known release compares the vSwitch; an Event alone says that this one does.
	if len(list) == 0 && !c.Written() && strings.Contains(strings.ToLower(c.Event.Message), "vswitch") {
		if want, _ := ccm.Annotation(c.Service, "vswitch-id"); want != "" && want != lb.CLB.VSwitch {
			list = append(list, attribute{name: "vswitch-id", what: say.F("vSwitch"), want: want, real: lb.CLB.VSwitch, maybe: true, claimed: true})
		}
	}
	return list
}

// all adds what the annotations ask for.
func all(c *remedy.Case, list []attribute) []attribute {
	for i := range list {
		list[i].want, _ = ccm.Annotation(c.Service, list[i].name)
	}
	return list
}

// annotated returns an NLB's IP version in the spelling of its annotation.
func annotated(version string) string {
	if strings.EqualFold(version, "DualStack") {
		return "DualStack"
	}
	return strings.ToLower(version)
}

// stillFails reports whether the annotations still ask for something that the load balancer lacks.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
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
