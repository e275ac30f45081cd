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
	if named == nil {
		return chooseOther(ctx, c, say.F("The annotation id names %s, but the API knows no such load balancer in %s.", ccm.Quote(id), c.Cloud.Region()))
	}
	origin, err := originOf(ctx, c, named)
	if err != nil {
		return remedy.Plan{}, err
	}
	finding := say.F("The annotation id names %s. The controller created this load balancer and therefore does not reuse it.", named.ID).Then(origin)
	own := named.Tags[ccm.NameTag] == ccm.DefaultName(c.Service)
	if !ccm.Synced(c.Service) {
		finding = finding.And("The Service has no address yet.")
		if !own {
			return chooseOther(ctx, c, finding)
		}
		return remedy.Plan{
			Finding: finding,
			Ask: say.F("Remove the annotation: %s.", ccm.RemoveCommand(c.Service, balancerID)).
				And("The controller then continues with %s, which it finds by this tag.", named.ID),
		}, nil
	}
	s, err := c.Serving(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	address := ccm.Address(c.Service)
	switch {
	case s.Instance == nil:
		return chooseOther(ctx, c, finding.And("The Service has the address %s, but no load balancer with this address was found in %s.", address, s.Where))
	case s.ID == id && own && s.ByTag:
		return remedy.Plan{
			Finding: finding.And("The load balancer already has the Service's address %s, and the annotation is not needed.", address),
			Steps:   []remedy.Step{step.Without(c.Service, balancerID)},
		}, nil
	case s.ID == id && own:
		return remedy.Plan{Finding: finding.And("Other load balancers carry the same tag."), Ask: onlyTagged(c, id)}, nil
	case s.ID == id && (s.Owner == ccm.APIServer || s.Owner == ccm.OtherService):
		return chooseOther(ctx, c, finding.And("The load balancer has the Service's address %s.", address).Then(s.Evidence))
	case s.ID == id:
		return remedy.Plan{
			Finding: finding.And("The load balancer has the Service's address %s.", address),
			Ask: say.F("Check whether another Service still uses %s.", id).
				And("If none does, remove its tags %s and %s: %s.", ccm.NameTag, ccm.ClusterTag, c.UntagCommand(id, ccm.NameTag, ccm.ClusterTag)).
				And("The controller then reuses it like one that a person created, and no longer deletes it with any Service.").
				And("If another Service uses it, name another load balancer and recreate this Service: its address changes."),
		}, nil
	case s.Owner == ccm.Own:
		finding = finding.And("The Service has the address %s, which belongs to its own load balancer.", address).Then(s.Evidence)
		if !s.ByTag {
			return remedy.Plan{
				Finding: finding.And("The controller looks for the Service's tag, but %s lacks it or is not the only load balancer that has it.", s.ID),
				Ask:     onlyTagged(c, s.ID),
			}, nil
		}
		return remedy.Plan{Finding: finding, Steps: []remedy.Step{step.Without(c.Service, balancerID)}}, nil
	}
	finding = finding.And("The Service has the address %s, which belongs to %s.", address, s.ID).Then(s.Evidence)
	if s.Owner == ccm.Users && !s.ByController() {
		return remedy.Plan{Finding: finding, Steps: []remedy.Step{step.With(c.Service, balancerID, s.ID)}}, nil
	}
	return chooseOther(ctx, c, finding)
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
