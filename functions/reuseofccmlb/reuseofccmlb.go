// Package reuseofccmlb remedies Services that name a load balancer that the controller created.
package reuseofccmlb

import (
	"context"
	_ "embed"
	"fmt"
	"slices"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
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
	StillFails:  holds,
}

// balancerID is the short name of the annotation that binds a Service to a load balancer.
const balancerID = "id"

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	id, _ := ccm.Annotation(c.Service, balancerID)
	named, err := c.Named(ctx, id)
	if err != nil {
		return remedy.Plan{}, err
	}
	address := ccm.Address(c.Service)
	recreate := ""
	if address != "" {
		recreate = fmt.Sprintf(" Then delete the Service and create it again: it leaves the address %s.", address)
	}
	if named == nil {
		return choose(ctx, c, fmt.Sprintf("The annotation id names %s, and the API knows no such load balancer in %s.", ccm.Quote(id), c.Cloud.Region()), recreate)
	}
	whose, err := maker(ctx, c, named)
	if err != nil {
		return remedy.Plan{}, err
	}
	own := named.Tags[ccm.NameTag] == ccm.DefaultName(c.Service)
	finding := fmt.Sprintf("The annotation id names %s, which the controller does not reuse, because it made it: %s.", named.ID, whose)
	remove := ccm.RemoveCommand(c.Service, balancerID)
	if !ccm.Synced(c.Service) && own {
		return remedy.Plan{
			Finding: finding + " The Service has no address yet.",
			Ask:     fmt.Sprintf("Remove the annotation; the controller then goes on with %s, which it finds by this tag: %s.", named.ID, remove),
		}, nil
	}
	if !ccm.Synced(c.Service) {
		return choose(ctx, c, finding+" The Service has no address yet.", "")
	}
	s, err := c.Serving(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if s.Instance == nil {
		return choose(ctx, c, finding+fmt.Sprintf(" The Service has the address %s, which no load balancer in %s was found to have.", address, s.Where), recreate)
	}
	onlyTag := func(id string) string {
		return fmt.Sprintf("See to it that %s alone has the tag %s=%s, then remove the annotation: %s. Delete no load balancer before that: the controller deletes what carries the tag when the Service goes.",
			id, ccm.NameTag, ccm.DefaultName(c.Service), remove)
	}
	switch {
	case s.ID == id && own && s.ByTag:
		return remedy.Plan{
			Finding: finding + fmt.Sprintf(" It has the Service's address %s already, and needs no annotation.", address),
			Steps:   []remedy.Step{step.Without(c.Service, balancerID)},
		}, nil
	case s.ID == id && own:
		return remedy.Plan{
			Finding: finding + " Other load balancers carry that tag as well.",
			Ask:     onlyTag(id),
		}, nil
	case s.ID == id && (s.Owner == ccm.APIServer || s.Owner == ccm.OtherService):
		return choose(ctx, c, finding+fmt.Sprintf(" The Service has its address %s. %s", address, s.Evidence), recreate)
	case s.ID == id:
		return remedy.Plan{
			Finding: finding + fmt.Sprintf(" The Service has its address %s.", address),
			Ask: fmt.Sprintf("Find out whether another Service still uses %[1]s. If none does, hand it over: with its tags %[2]s and %[3]s taken off, the controller reuses it as a person's, and no longer deletes it with any Service: %[4]s. Else name another load balancer and recreate the Service: its address changes.",
				id, ccm.NameTag, ccm.ClusterTag, untag(c, named)),
		}, nil
	case s.Owner == ccm.Users && !s.ByController():
		return remedy.Plan{
			Finding: finding + fmt.Sprintf(" The Service has the address %s, which is that of %s. %s", address, s.ID, s.Evidence),
			Steps:   []remedy.Step{step.With(c.Service, balancerID, s.ID)},
		}, nil
	case s.Owner == ccm.Own && s.ByTag:
		return remedy.Plan{
			Finding: finding + fmt.Sprintf(" The Service has the address %s, which is that of its own load balancer. %s", address, s.Evidence),
			Steps:   []remedy.Step{step.Without(c.Service, balancerID)},
		}, nil
	case s.Owner == ccm.Own:
		return remedy.Plan{
			Finding: finding + fmt.Sprintf(" The Service has the address %s, which is that of its own load balancer. %s It is not the one load balancer with the Service's tag, by which the controller would find it.", address, s.Evidence),
			Ask:     onlyTag(s.ID),
		}, nil
	}
	return choose(ctx, c, finding+fmt.Sprintf(" The Service has the address %s, which is that of %s. %s", address, s.ID, s.Evidence), recreate)
}

// holds reports whether the named load balancer still carries a tag of the controller.
func holds(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
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
