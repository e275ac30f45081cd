package attributeimmutable

import (
	"context"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

// release plans for a Service that the controller cannot release because its load balancer is kept and has IPv6.
func release(ctx context.Context, c *remedy.Case, lb *ccm.Instance) (remedy.Plan, error) {
	p := remedy.Plan{
		Finding: ccm.WhyLeaving(c.Service).And("The controller does not delete %s and asks it for IPv4, but %s has ipv6.", lb.ID, lb.ID).
			And("Each try therefore fails before the Service is released."),
		Cause: lb.ID,
		Risk:  remedy.High,
	}
	id, _ := ccm.Annotation(c.Service, ccm.BalancerID)
	if id == "" {
		p.Finding = p.Finding.And("The controller created it, and the annotation %s keeps it.", ccm.Preserve)
		p.Ask = say.F("Choose one option. To have %s deleted: %s.", lb.ID, ccm.RemoveCommand(c.Service, ccm.Preserve)).
			And("To keep it, hide it from the controller: give it another name: %s, and then remove its tag: %s.",
				c.RenameCommand(lb.ID, "NAME"), c.UntagCommand(lb.ID, ccm.NameTag)).
			And("The controller then releases the Service within 5 minutes.")
		return p, nil
	}
	own, seen, err := c.Unnamed(ctx, id)
	if err != nil {
		return remedy.Plan{}, err
	}
	remove := ccm.RemoveCommand(c.Service, ccm.BalancerID)
	switch {
	case len(own) > 0:
		p.Finding = p.Finding.And("Without the annotation id, the controller would delete %s, which it created for the Service earlier.", own[0].ID)
		p.Ask = say.F("Find out whether %s is still needed.", own[0].ID).
			And("If it is, first hide it from the controller: give it another name: %s, and then remove its tag: %s.",
				c.RenameCommand(own[0].ID, "NAME"), c.UntagCommand(own[0].ID, ccm.NameTag)).
			And("Then remove the annotation: %s.", remove).
			And("The controller releases the Service, and deletes %s unless it is hidden. %s stays.", own[0].ID, lb.ID)
		return p, nil
	case !seen:
		p.Finding = p.Finding.And("The list of load balancers does not contain %s, so an empty list does not prove that the Service has no other one.", id)
		p.Ask = say.F("In the console, look for load balancers with the tag %[1]s=%[2]s or the name %[2]s.", ccm.NameTag, ccm.DefaultName(c.Service)).
			And("If there is none, remove the annotation: %s. Otherwise the controller would delete it.", remove)
		return p, nil
	}
	if p.Note, err = c.DescribeLeftovers(ctx, lb); err != nil {
		return remedy.Plan{}, err
	}
	p.Finding = p.Finding.And("No load balancer has the tag or the name that the controller gives to one of its own.").
		And("Without the annotation id, it therefore releases the Service and deletes nothing.")
	if c.Service.DeletionTimestamp == nil {
		p.Ask = say.F("If the Service is not to be of type LoadBalancer again, remove the annotation: %s.", remove)
		return p, nil
	}
	p.Steps = []remedy.Step{step.Without(c.Service, ccm.BalancerID)}
	return p, nil
}
