package tagmissing

import (
	"context"
	"slices"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

func named(ctx context.Context, c *remedy.Case, s ccm.Found, id string) (remedy.Plan, error) {
	plan := remedy.Plan{Finding: say.F("The annotation id names the load balancer %s, which does not exist in %s.", ccm.Quote(id), s.Where)}
	set, remove := ccm.SetCommand(c.Service, "id", "LOAD-BALANCER-ID"), ccm.RemoveCommand(c.Service, "id")
	address := ccm.Address(c.Service)
	switch {
	case s.Instance == nil && address == "":
		plan.Ask = say.F("Name an existing load balancer: %s. Or remove the annotation, and the controller creates one: %s.", set, remove)
	case s.Instance == nil:
		plan.Finding = plan.Finding.And("The Service has the address %s, but no load balancer with this address was found.", address)
		plan.Ask = say.F("Name the load balancer that has the address: %s.", set).
			And("If none has it any more, delete the Service and create it again, with or without the annotation of an existing one: its address changes.").
			And("It is not enough to remove the annotation: while the Service has an address, the controller creates no load balancer.")
	case address == "":
		plan.Finding = plan.Finding.And("The Service has no address yet, and %s was found by its %s.", s.ID, s.By.Text())
		plan.Ask = say.F("Name an existing load balancer: %s. Or remove the annotation: %s.", set, remove).
			And("Without it, the controller uses the load balancer that has the Service's name tag or default name, or creates one.")
	default:
		owner, evidence, err := c.Owner(ctx, s.Instance)
		if err != nil {
			return remedy.Plan{}, err
		}
		p := serving(c, s, owner, evidence)
		p.Finding = plan.Finding.And("The Service has the address %s.", address).Then(p.Finding)
		return p, nil
	}
	return plan, nil
}

// serving plans for a Service that names another load balancer: the controller reuses a person's by its ID, but finds its own only by the name tag.
func serving(c *remedy.Case, s ccm.Found, owner ccm.Owner, evidence say.Text) remedy.Plan {
	plan, drop := found(c, s, owner, evidence), step.Without(c.Service, "id")
	remove := ccm.RemoveCommand(c.Service, "id")
	has := s.By == ccm.ByEIP || s.Bind() && s.Address == ccm.Address(c.Service)
	alone := !slices.ContainsFunc(s.Tagged, func(id string) bool { return id != s.ID })
	finding := still(s, evidence)
	switch {
	case len(plan.Steps) == 0 && (owner != ccm.Own || !slices.Contains(s.Tagged, s.ID)):
		plan.Ask = plan.Ask.And("The annotation id must name an existing load balancer, or be removed: %s.", remove)
		return plan
	case !has || !alone:
		return remedy.Plan{
			Finding: finding.And("Its address is %s. These carry the Service's tag: %s.", s.Address, say.List(s.Tagged, 5)),
			Ask: say.F("Find out which load balancer serves the Service. If a person created it, name it: %s.", ccm.SetCommand(c.Service, "id", "LOAD-BALANCER-ID")).
				And("If the controller created it, leave the tag %s=%s on that one only, then remove the annotation: %s.",
					ccm.NameTag, ccm.DefaultName(c.Service), remove).
				And("Do not delete any before that: when the Service is deleted, the controller deletes whatever carries the tag."),
		}
	case owner == ccm.Own && slices.Contains(s.Tagged, s.ID):
		return remedy.Plan{
			Finding: finding.And("It has the tag %s, by which the controller finds it without the annotation.", ccm.NameTag),
			Steps:   []remedy.Step{drop},
		}
	case owner == ccm.Own:
		plan.Steps[len(plan.Steps)-1] = drop
	}
	return plan
}
