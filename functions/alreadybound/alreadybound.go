// Package alreadybound remedies Services that name a load balancer other than the one they have.
package alreadybound

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy sets the annotation back to the load balancer that the Service has, or
// removes it if the controller created that load balancer.
var Remedy = &remedy.Remedy{
	Class: "already-bound",
	Doc:   doc,
	Texts: []string{
		"service has been associated with ip [",
		"service has been associated with dnsname [",
	},
	Reads:       slices.Concat(ccm.BalancerReads, ccm.NetworkReads, []grant.Grant{grant.GetCallerIdentity}),
	Steps:       []remedy.Step{step.Annotate{}, step.RemoveAnnotation{}},
	Annotations: []string{balancerID, externalIP},
	Diagnose:    diagnose,
	StillFails:  holds,
}

// Short names of the annotations that bind a Service to a load balancer, and that
// make its address an EIP's.
const (
	balancerID = "id"
	externalIP = "external-ip-type"
)

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	id, _ := ccm.Annotation(c.Service, balancerID)
	address := ccm.Address(c.Service)
	named, err := c.Named(ctx, id)
	if err != nil {
		return remedy.Plan{}, err
	}
	to, note := "which does not exist", ""
	if named != nil {
		to = "whose address is " + named.Address
		note = fmt.Sprintf("To move the Service to %s, delete it and create it again with the annotation: its address is then %s.", named.ID, named.Address)
	}
	finding := fmt.Sprintf("The annotation id names %s, %s, and the Service has the address %s: a Service never moves from one load balancer to another.", ccm.Quote(id), to, address)
	s, err := c.Serving(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	ask := func(why, what string) (remedy.Plan, error) {
		return remedy.Plan{Finding: finding + " " + why, Ask: what, Note: note}, nil
	}
	remove := ccm.RemoveCommand(c.Service, balancerID)
	switch {
	case s.Instance == nil:
		return ask(fmt.Sprintf("No load balancer with that address was found in %s.", s.Where),
			fmt.Sprintf("Find the load balancer that has the address %s. If a person made it, name it: %s. If the controller made it, remove the annotation: %s.",
				address, ccm.SetCommand(c.Service, balancerID, "ITS-ID"), remove))
	case s.ID == id:
		// The two addresses differ only if there is an EIP in front of it.
		return remedy.Plan{
			Finding: fmt.Sprintf("The Service has the address %s, which is that of an EIP of its load balancer %s, and no longer says so: the annotation %s is missing.", address, s.ID, externalIP),
			Steps:   []remedy.Step{step.With(c.Service, externalIP, "eip")},
		}, nil
	case s.Owner == ccm.Users && s.ByController():
		return ask(s.Evidence+fmt.Sprintf(" It also carries a tag of the controller, %s or %s, and with such a tag the controller reuses none.", ccm.NameTag, ccm.ClusterTag),
			fmt.Sprintf("If no Service owns %s, take these tags off it, then name it: %s.", s.ID, ccm.SetCommand(c.Service, balancerID, s.ID)))
	case s.Owner == ccm.Users:
		return remedy.Plan{
			Finding: finding + " That is the address of " + s.ID + ". " + s.Evidence,
			Note:    note,
			Steps:   []remedy.Step{step.With(c.Service, balancerID, s.ID)},
		}, nil
	case s.Owner == ccm.Own && s.ByTag:
		return remedy.Plan{
			Finding: finding + " " + s.Evidence,
			Note:    strings.TrimSpace(note + fmt.Sprintf(" The controller deletes %s with the Service, unless the Service is annotated before: %s (CCM v2.10.0 or newer).", s.ID, ccm.SetCommand(c.Service, "preserve-lb-on-delete", "true"))),
			Steps:   []remedy.Step{step.Without(c.Service, balancerID)},
		}, nil
	case s.Owner == ccm.Own:
		return ask(fmt.Sprintf("%s It lacks the tag %s=%s, or is not the only one that has it, so that the controller would not find it without the annotation.", s.Evidence, ccm.NameTag, ccm.DefaultName(c.Service)),
			fmt.Sprintf("See to it that %s alone has this tag, then remove the annotation: %s.", s.ID, remove))
	}
	return ask(s.Evidence, fmt.Sprintf("Say whose %s is. If a person made it, name it: %s. If the controller made it for this Service, remove the annotation: %s.",
		s.ID, ccm.SetCommand(c.Service, balancerID, s.ID), remove))
}

// holds reports whether the Service names a load balancer that doesn't have its
// address. The controller checks this only if the Service has an address.
func holds(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	id, _ := ccm.Annotation(c.Service, balancerID)
	if id == "" || !ccm.Synced(c.Service) {
		return remedy.No, nil
	}
	if mode, _ := ccm.Annotation(c.Service, externalIP); mode == "eip" && !ccm.NLB(c.Service) {
		return remedy.No, nil
	}
	named, err := c.Named(ctx, id)
	if err != nil {
		return remedy.Unknown, err
	}
	bound := func(i corev1.LoadBalancerIngress) bool {
		if ccm.NLB(c.Service) {
			return i.Hostname == named.Address
		}
		return i.IP == named.Address || i.IP == "" && i.Hostname != ""
	}
	return remedy.Is(named == nil || !slices.ContainsFunc(c.Service.Status.LoadBalancer.Ingress, bound)), nil
}
