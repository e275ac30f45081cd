// Package attributeimmutable remedies Services that request a change of an attribute that is fixed at a load balancer's creation.
package attributeimmutable

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

// Remedy sets the annotations to the load balancer's attributes, and the Service syncs again.
var Remedy = &remedy.Remedy{
	Class: "attribute-immutable",
	Doc:   doc,
	Texts: []string{
		"can not change LoadBalancer * once created",
		"AddressIpVersion cannot be changed",
	},
	Reads:       slices.Concat(ccm.BoundReads, ccm.NetworkReads, []grant.Grant{grant.DescribeVServerGroups}),
	Steps:       []remedy.Step{step.Annotate{}, step.RemoveAnnotation{}},
	Annotations: []string{"master-zoneid", "slave-zoneid", "ip-version", "network-type", "ip", ccm.BalancerID},
	Deleting:    true,
	Diagnose:    diagnose,
	StillFails:  stillFails,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	leaves := len(ccm.Leaving(c.Service)) > 0
	switch {
	case lb == nil:
		p := c.NoBalancer(say.F("its zones, IP version, network type and address"))
		if leaves {
			p.Wait = ccm.Retry // the controller may just have deleted it
		}
		return p, nil
	case leaves:
		return release(ctx, c, lb)
	}
	return putBack(c, lb)
}

func putBack(c *remedy.Case, lb *ccm.Instance) (remedy.Plan, error) {
	list, err := ccm.Immutables(c.Service, lb)
	if err != nil {
		return remedy.Plan{}, err
	}
	vswitch, isClaimed := claimed(c, lb)
	switch {
	case len(list) == 0 && isClaimed:
		return remedy.Plan{
			Finding: vswitch.Differs(lb.ID).And("No known release of the controller compares the two. An Event alone says that this one does."),
			Ask: say.F("Check the controller's log: %s.", c.LogQuery()).
				And("If it says so, too, set the annotation to what the %s has, or remove it: %s.", lb.Kind(), ccm.RemoveCommand(c.Service, vswitch.Name)),
		}, nil
	case len(list) == 0: // found or fixed since stillFails read it
		return remedy.Plan{
			Finding: say.F("The load balancer %s now has everything that the annotations ask for. The controller retries.", lb.ID),
			Wait:    c.PollInterval(),
		}, nil
	}
	var finding say.Text
	var edits []step.Edit
	for _, a := range list {
		finding = finding.Then(a.Differs(lb.ID))
		if a.Is == "" {
			edits = append(edits, step.Without(c.Service, a.Name))
		} else {
			edits = append(edits, step.With(c.Service, a.Name, a.Is))
		}
	}
	note := say.F("To change it, delete and recreate the Service. It gets a new load balancer and a new address.")
	if id, _ := ccm.Annotation(c.Service, ccm.BalancerID); id != "" {
		note = say.F("To change it, delete the Service and recreate it with another load balancer in the annotation id, or without that annotation.").
			And("Its address changes.")
	}
	return remedy.Plan{
		Finding: finding.And("This is chosen when the %s is created and never changes.", lb.Kind()),
		Note:    note,
		Steps:   []remedy.Step{step.Together(edits...)},
	}, nil
}

// claimed returns the CLB's vSwitch, and whether an Event claims that the controller compares it with another one. No known release does.
func claimed(c *remedy.Case, lb *ccm.Instance) (ccm.Immutable, bool) {
	if lb.NLB != nil || c.Written() || !strings.Contains(strings.ToLower(c.Event.Message), "vswitch") {
		return ccm.Immutable{}, false
	}
	want, _ := ccm.Annotation(c.Service, ccm.VSwitchID)
	vswitch := ccm.Immutable{Name: ccm.VSwitchID, What: say.F("vSwitch"), Want: want, Is: lb.CLB.VSwitch}
	return vswitch, want != "" && want != vswitch.Is
}

// stillFails compares only the IP version for a Service that the controller releases, as the controller does.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	switch {
	case lb == nil:
		return remedy.Yes, nil
	case len(ccm.Leaving(c.Service)) > 0:
		return remedy.Is(ccm.BlocksRelease(c.Service, lb)), nil
	}
	list, err := ccm.Immutables(c.Service, lb)
	if err != nil {
		return remedy.Unknown, err
	}
	_, isClaimed := claimed(c, lb)
	return remedy.Is(len(list) > 0 || isClaimed), nil
}
