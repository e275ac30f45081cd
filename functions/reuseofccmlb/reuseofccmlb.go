// Package reuseofccmlb remedies Services that name a load balancer that the controller created.
package reuseofccmlb

import (
	"context"
	_ "embed"
	"slices"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy removes the annotation, or sets it back to the load balancer that the Service has.
var Remedy = &remedy.Remedy{
	Class:       "reuse-of-ccm-lb",
	Doc:         doc,
	Texts:       []string{"can not reuse loadbalancer created by kubernetes"},
	Reads:       slices.Concat(ccm.BalancerReads, ccm.NetworkReads, []grant.Grant{grant.ListServices}),
	Steps:       []remedy.Step{step.Annotate{}, step.RemoveAnnotation{}},
	Annotations: []string{balancerID},
	Diagnose:    diagnose,
	StillFails:  stillFails,
}

// balancerID is the short name of the annotation that binds a Service to a load balancer.
const balancerID = "id"

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	id, _ := ccm.Annotation(c.Service, balancerID)
	named, err := c.Named(ctx, id)
	if err != nil {
		return remedy.Plan{}, err
	}
	var origin say.Text
	var serving ccm.Serving
	if named != nil {
		if origin, err = originOf(ctx, c, named); err != nil {
			return remedy.Plan{}, err
		}
		if ccm.Synced(c.Service) {
			if serving, err = c.Serving(ctx); err != nil {
				return remedy.Plan{}, err
			}
		}
	}
	plan := decide(c, id, named, origin, serving)
	if len(plan.Steps) > 0 || len(plan.Ask) > 0 {
		return plan, nil
	}
	reusable, err := c.Reusable(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	plan.Ask = chooseOther(c.Service, reusable)
	return plan, nil
}

// decide returns the plan for a Service whose annotation names a load balancer, which is nil if it
// does not exist; s is the one that serves the Service. A plan without steps and question is one
// for which the Service needs another load balancer.
func decide(c *remedy.Case, id string, named *ccm.Instance, origin say.Text, s ccm.Serving) remedy.Plan {
	if named == nil {
		return remedy.Plan{Finding: say.F("The annotation id names %s, but the API knows no such load balancer in %s.", ccm.Quote(id), c.Cloud.Region())}
	}
	plan := remedy.Plan{
		Finding: say.F("The annotation id names %s. The controller created this load balancer and therefore does not reuse it.", named.ID).Then(origin),
	}
	own := named.Tags[ccm.NameTag] == ccm.DefaultName(c.Service)
	if !ccm.Synced(c.Service) {
		plan.Finding = plan.Finding.And("The Service has no address yet.")
		if own {
			plan.Ask = say.F("Remove the annotation: %s.", ccm.RemoveCommand(c.Service, balancerID)).
				And("The controller then continues with %s, which it finds by this tag.", named.ID)
		}
		return plan
	}
	address := ccm.Address(c.Service)
	without := []remedy.Step{step.Without(c.Service, balancerID)}
	switch {
	case s.Instance == nil:
		plan.Finding = plan.Finding.And("The Service has the address %s, but no load balancer with this address was found in %s.", address, s.Where)
	case s.ID == id && own && s.ByTag:
		plan.Finding = plan.Finding.And("The load balancer already has the Service's address %s, and the annotation is not needed.", address)
		plan.Steps = without
	case s.ID == id && own:
		plan.Finding = plan.Finding.And("Other load balancers carry the same tag.")
		plan.Ask = onlyTagged(c.Service, id)
	case s.ID == id && (s.Owner == ccm.APIServer || s.Owner == ccm.OtherService):
		plan.Finding = plan.Finding.And("The load balancer has the Service's address %s.", address).Then(s.Evidence)
	case s.ID == id:
		plan.Finding = plan.Finding.And("The load balancer has the Service's address %s.", address)
		plan.Ask = say.F("Check whether another Service still uses %s.", id).
			And("If none does, remove its tags %s and %s: %s.", ccm.NameTag, ccm.ClusterTag, c.UntagCommand(id, ccm.NameTag, ccm.ClusterTag)).
			And("The controller then reuses it like one that a person created, and no longer deletes it with any Service.").
			And("If another Service uses it, name another load balancer and recreate this Service: its address changes.")
	case s.Owner == ccm.Own && s.ByTag:
		plan.Finding = plan.Finding.And("The Service has the address %s, which belongs to its own load balancer.", address).Then(s.Evidence)
		plan.Steps = without
	case s.Owner == ccm.Own:
		plan.Finding = plan.Finding.And("The Service has the address %s, which belongs to its own load balancer.", address).Then(s.Evidence).
			And("The controller looks for the Service's tag, but %s lacks it or is not the only load balancer that has it.", s.ID)
		plan.Ask = onlyTagged(c.Service, s.ID)
	default:
		plan.Finding = plan.Finding.And("The Service has the address %s, which belongs to %s.", address, s.ID).Then(s.Evidence)
		if s.Owner == ccm.Users && !s.ByController() {
			plan.Steps = []remedy.Step{step.With(c.Service, balancerID, s.ID)}
		}
	}
	return plan
}

// stillFails reports whether the annotation still names a load balancer with a tag of the controller, or one that
// does not exist.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	id, _ := ccm.Annotation(c.Service, balancerID)
	if id == "" {
		return remedy.No, nil
	}
	named, err := c.Named(ctx, id)
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(named == nil || named.ByController()), nil
}
