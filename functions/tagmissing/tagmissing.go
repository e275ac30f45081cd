// Package tagmissing remedies Services whose load balancer the controller cannot find.
package tagmissing

import (
	"context"
	_ "embed"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy restores the load balancer's name tag, points the Service at it, or recovers from its deletion.
var Remedy = &remedy.Remedy{
	Class: "tag-missing",
	Doc:   doc,
	Codes: []string{"InvalidLoadBalancerId.NotFound", "ResourceNotFound.loadBalancer"},
	Texts: []string{
		"can not find loadbalancer, but it's defined in service",
		"can not find loadbalancer by tag [",
		"not able to find loadbalancer named [",
		"not able to find loadbalancer, but it's defined in service",
		"The specified LoadBalancerId does not exist",
		"user specified loadbalancer[",
		"The specified resource of loadbalancer is not found",
	},
	Reads:        slices.Concat(ccm.BalancerReads, ccm.NetworkReads),
	Steps:        []remedy.Step{step.TagLB{}, step.Resync{}, step.Annotate{}, step.RemoveAnnotation{}, step.ClearStatus{}},
	Annotations:  []string{"id"},
	IgnoresEvent: true,
	Diagnose:     diagnose,
	StillFails:   stillFails,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	s, err := c.Find(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	id, _ := ccm.Annotation(c.Service, "id")
	switch {
	case id != "":
		return named(ctx, c, s, id)
	case len(s.Tagged) > 1:
		return remedy.Plan{
			Finding: say.F("%d load balancers carry the tag %s=%s: %s.", len(s.Tagged), ccm.NameTag, ccm.DefaultName(c.Service), strings.Join(s.Tagged, ", ")),
			Ask: say.F("Find out which one serves the Service and remove the tag from the others: %s.", c.UntagCommand("ID", ccm.NameTag)).
				And("Do not delete any before that: when the Service is deleted, the controller deletes whatever carries the tag."),
		}, nil
	case s.Instance == nil:
		return lost(c, s), nil
	}
	owner, evidence, err := c.Owner(ctx, s.Instance)
	if err != nil {
		return remedy.Plan{}, err
	}
	return found(c, s, owner, evidence), nil
}

func found(c *remedy.Case, s ccm.Found, owner ccm.Owner, evidence say.Text) remedy.Plan {
	plan := remedy.Plan{Finding: still(s, evidence)}
	tag, address, name := s.Tags[ccm.NameTag], ccm.Address(c.Service), ccm.SetCommand(c.Service, "id", s.ID)
	// Only the label identifies the load balancer, and no annotation explains the Service's other address.
	elsewhere := s.By == "label" && s.CLB != nil && ccm.Synced(c.Service) && ccm.OwnAddress(c.Service) && s.Address != address
	switch {
	case owner == ccm.APIServer:
		plan.Ask = say.F("Do not use this load balancer for the Service.").
			And("If it has lost its tag, only a new cluster restores the API server's load balancer; contact Alibaba Cloud first.")
	case elsewhere:
		plan.Finding = plan.Finding.And("Its address is %s, but the Service has the address %s.", s.Address, address)
		plan.Ask = say.F("Find the load balancer that has the address %s.", address).
			And("The label %s names %s, but a person can write this label: it may have been copied from another Service.", ccm.BalancerLabel, s.ID)
	case owner == ccm.Own:
		return retag(c, s, plan.Finding)
	case owner == ccm.Users:
		return rebind(c, s, plan.Finding)
	case owner == ccm.OtherService || tag != "" && tag != ccm.DefaultName(c.Service):
		plan.Ask = say.F("Do not tag %s for this Service: the other Service would lose it, and the controller would delete it with this Service.", s.ID).
			And("If a person created it, name it: %s.", name).
			And("If the controller created it for another Service, this Service needs one of its own.").
			And("In that case delete this Service and create it again; its address changes.")
	default:
		plan.Ask = say.F("Find out who created %s.", s.ID).
			And("If the controller created it for this Service, tag it: %s, then trigger a resync: %s.", tagCommand(c, s.ID), ccm.ResyncCommand(c.Service)).
			And("The controller then deletes it with the Service.").
			And("If a person created it, name it: %s.", name)
	}
	return plan
}

func still(s ccm.Found, evidence say.Text) say.Text {
	return say.F("The load balancer %s still exists and was found by its %s.", s.ID, s.By.Text()).Then(evidence)
}

func tagCommand(c *remedy.Case, id string) string {
	return c.TagCommand(id, ccm.NameTag, ccm.DefaultName(c.Service))
}

func retag(c *remedy.Case, s ccm.Found, finding say.Text) remedy.Plan {
	tag, resync := tagCommand(c, s.ID), ccm.ResyncCommand(c.Service)
	value, ok := s.Tags[ccm.NameTag]
	switch {
	case ok && value != ccm.DefaultName(c.Service):
		return remedy.Plan{
			Finding: finding.And("Its tag %s is %s, which belongs to another Service.", ccm.NameTag, value),
			Ask: say.F("Find out who changed the tag.").
				And("If no other Service uses %s, set the tag: %s, then trigger a resync: %s.", s.ID, tag, resync),
		}
	case ccm.TagsFull(s.Instance):
		return remedy.Plan{
			Finding: finding.And("It has lost the tag %s and carries %d tags, the maximum.", ccm.NameTag, len(s.Tags)),
			Ask: say.F("Remove a tag that nobody needs: %s.", c.UntagCommand(s.ID, "KEY")).
				And("Then add the name tag: %s, and trigger a resync: %s.", tag, resync),
		}
	}
	plan := step.Retag(c.Service, s.Instance)
	plan.Finding = finding.And("It has lost the tag %s, by which the controller finds it.", ccm.NameTag)
	return plan
}

func rebind(c *remedy.Case, s ccm.Found, finding say.Text) remedy.Plan {
	set := ccm.SetCommand(c.Service, "id", s.ID)
	switch {
	case s.ByController():
		return remedy.Plan{
			Finding: finding.And("It also carries a tag of the controller, %s or %s. The controller does not reuse a load balancer with such a tag.",
				ccm.NameTag, ccm.ClusterTag),
			Ask: say.F("If no Service owns %s, remove these tags: %s.", s.ID, c.UntagCommand(s.ID, ccm.NameTag, ccm.ClusterTag)).
				And("Then, if the Service should use it, name it: %s.", set),
		}
	case !s.Bind():
		return remedy.Plan{
			Finding: finding.And("Nothing shows that the Service was bound to it."),
			Ask:     say.F("If the Service should use it, name it: %s.", set),
		}
	}
	return remedy.Plan{
		Finding: finding.And("The Service was bound to it but no longer names it."),
		Steps:   []remedy.Step{step.With(c.Service, "id", s.ID)},
	}
}

func lost(c *remedy.Case, s ccm.Found) remedy.Plan {
	if s.Gone == "" || s.Copied {
		return remedy.Plan{
			Finding: say.F("No load balancer of the Service was found in %s by label, address, tag or name.", s.Where).
				And("An empty list does not prove that it is gone: with permissions limited by resource, lists are empty."),
			Ask: say.F("Find the load balancer in the console.").
				And("If the controller created it, tag it: %s, then trigger a resync: %s.", tagCommand(c, "LOAD-BALANCER-ID"), ccm.ResyncCommand(c.Service)).
				And("If a person created it, name it: %s.", ccm.SetCommand(c.Service, "id", "LOAD-BALANCER-ID")).
				And("If it is gone and the controller should create a new one, with a new address, %s. Or delete the Service and create it again.",
					step.RecreateByHand(c.Service)).
				Then(step.Allowlisted(c.Service)).Then(step.NoLongerNeeded(c.Service)),
		}
	}
	plan := step.Recreate(c.Service)
	plan.Finding = say.F("The load balancer %s is gone: according to the API, it does not exist in %s.", s.Gone, s.Where)
	return plan
}

// stillFails searches by the annotation id, or by the tag or the default name.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(lb == nil), nil
}
