// Package reuseofccmlb remedies Services that name a load balancer that the controller created.
package reuseofccmlb

import (
	"context"
	_ "embed"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy removes the annotation, or sets it to the load balancer that the Service has.
var Remedy = &remedy.Remedy{
	Class:       "reuse-of-ccm-lb",
	Doc:         doc,
	Texts:       []string{"can not reuse loadbalancer created by kubernetes"},
	Reads:       slices.Concat(ccm.BalancerReads, ccm.NetworkReads, []grant.Grant{grant.ListServices}),
	Steps:       []remedy.Step{step.Annotate{}, step.RemoveAnnotation{}},
	Annotations: []string{ccm.BalancerID},
	Diagnose:    diagnose,
	StillFails:  stillFails,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	id, _ := ccm.Annotation(c.Service, ccm.BalancerID)
	named, err := c.Named(ctx, id)
	if err != nil {
		return remedy.Plan{}, err
	}
	plan := remedy.Plan{Finding: say.F("The annotation id names %s, but the API knows no such load balancer in %s.", ccm.Quote(id), c.Cloud.Region())}
	if named != nil {
		origin, err := c.Origin(ctx, named)
		var s ccm.Serving
		switch {
		case err != nil:
		case ccm.Synced(c.Service):
			s, err = c.Serving(ctx)
		default:
			s, err = tagged(ctx, c, named)
		}
		if err != nil {
			return remedy.Plan{}, err
		}
		plan = decide(c, named, origin, s)
	}
	if len(plan.Steps) == 0 && len(plan.Ask) == 0 {
		plan.Ask, err = c.OtherAdvice(ctx)
	}
	return plan, err
}

// decide returns the plan; s serves the Service. A plan without steps and question means that the Service needs another load balancer.
func decide(c *remedy.Case, named *ccm.Instance, origin say.Text, s ccm.Serving) remedy.Plan {
	id, address, own := named.ID, ccm.Address(c.Service), named.Tags[ccm.NameTag] == ccm.DefaultName(c.Service)
	finding := say.F("The annotation id names %s. The controller created this load balancer and therefore does not reuse it.", id).Then(origin)
	here := finding.And("The load balancer has the Service's address %s.", address)
	switch synced := ccm.Synced(c.Service); {
	case !synced && own:
		return pending(c, s, finding.And("The Service has no address yet."))
	case !synced:
		return remedy.Plan{Finding: finding.And("The Service has no address yet.")}
	case s.Instance == nil:
		return remedy.Plan{Finding: finding.And("The Service has the address %s, but no load balancer with this address was found in %s.", address, s.Where)}
	case s.ID == id && own && !made(c, s):
		return theirs(c, s, here)
	case s.ID == id && own && s.ByTag:
		finding = finding.And("The load balancer already has the Service's address %s, and the annotation is not needed.", address)
		return remedy.Plan{Finding: finding, Steps: []remedy.Step{step.Without(c.Service, ccm.BalancerID)}}
	case s.ID == id && own:
		return remedy.Plan{Finding: finding.And("Other load balancers carry the same tag."), Ask: onlyTagged(c.Service, id)}
	case s.ID == id && (s.Owner == ccm.APIServer || s.Owner == ccm.OtherService):
		return remedy.Plan{Finding: here.Then(s.Evidence)}
	case s.ID == id:
		return remedy.Plan{Finding: here, Ask: c.DisownAdvice(id)}
	case s.Owner != ccm.Own:
		plan := remedy.Plan{Finding: finding.And("The Service has the address %s, which belongs to %s.", address, s.ID).Then(s.Evidence)}
		if s.Owner == ccm.Users && !s.ByController() {
			plan.Steps = []remedy.Step{step.With(c.Service, ccm.BalancerID, s.ID)}
		}
		return plan
	}
	finding = finding.And("The Service has the address %s, which belongs to its own load balancer.", address).Then(s.Evidence)
	if s.ByTag {
		return remedy.Plan{Finding: finding, Steps: []remedy.Step{step.Without(c.Service, ccm.BalancerID)}}
	}
	finding = finding.And("The controller looks for the Service's tag, but %s lacks it or is not the only load balancer that has it.", s.ID)
	return remedy.Plan{Finding: finding, Ask: onlyTagged(c.Service, s.ID)}
}

func tagged(ctx context.Context, c *remedy.Case, named *ccm.Instance) (ccm.Serving, error) {
	all, err := c.Tagged(ctx)
	if err != nil {
		return ccm.Serving{}, err
	}
	s := ccm.Serving{Instance: named, ByTag: len(all) == 1 && all[0].ID == named.ID}
	s.Owner, s.Evidence, err = c.Owner(ctx, named)
	return s, err
}

// pending plans for a Service without an address whose annotation names a load balancer with its own name tag.
func pending(c *remedy.Case, s ccm.Serving, finding say.Text) remedy.Plan {
	switch {
	case !made(c, s):
		return theirs(c, s, finding)
	case s.ByTag:
		return remedy.Plan{
			Finding: finding.And("Without the annotation, the controller finds %s by this tag and continues with it.", s.ID),
			Steps:   []remedy.Step{step.Without(c.Service, ccm.BalancerID)},
		}
	}
	return remedy.Plan{Finding: finding.And("Other load balancers carry the same tag."), Ask: onlyTagged(c.Service, s.ID)}
}

// made reports whether the controller created a load balancer with the Service's name tag for it. Anybody can set that tag, and the
// controller deletes tagged load balancers with the Service: the proof also needs a mark of this cluster's controller, and no part of
// another Service or a person.
func made(c *remedy.Case, s ccm.Serving) bool {
	return s.Owner == ccm.Own || s.Owner == ccm.Unproven && s.Tags[ccm.ClusterTag] == c.Cluster
}

func theirs(c *remedy.Case, s ccm.Serving, finding say.Text) remedy.Plan {
	ask := c.DisownAdvice(s.ID)
	if s.Owner == ccm.Unproven {
		ask = say.F("If the controller created %s for this Service, remove the annotation: %s.", s.ID, ccm.RemoveCommand(c.Service, ccm.BalancerID)).
			And("The controller then continues with it, and deletes it with the Service.").Then(ask)
	}
	return remedy.Plan{Finding: finding.Then(s.Evidence), Ask: ask}
}

func onlyTagged(svc *corev1.Service, id string) say.Text {
	return say.F("Make sure that only %s has the tag %s=%s.", id, ccm.NameTag, ccm.DefaultName(svc)).
		And("Then remove the annotation: %s.", ccm.RemoveCommand(svc, ccm.BalancerID)).
		And("Do not delete any load balancer before that: when the Service is deleted, the controller deletes whatever carries the tag.")
}

func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	id, _ := ccm.Annotation(c.Service, ccm.BalancerID)
	if id == "" {
		return remedy.No, nil
	}
	named, err := c.Named(ctx, id)
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(named == nil || named.ByController()), nil
}
