// Package alreadybound remedies Services that name a load balancer other than the one they have.
package alreadybound

import (
	"context"
	_ "embed"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy sets the annotation to the load balancer that the Service has, or removes it if the controller created that load balancer.
var Remedy = &remedy.Remedy{
	Class: "already-bound",
	Doc:   doc,
	Texts: []string{
		"service has been associated with ip [",
		"service has been associated with dnsname [",
	},
	Reads:       slices.Concat(ccm.BalancerReads, ccm.NetworkReads),
	Steps:       []remedy.Step{step.Annotate{}, step.RemoveAnnotation{}},
	Annotations: []string{ccm.BalancerID, ccm.ExternalIP},
	Diagnose:    diagnose,
	StillFails:  stillFails,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	id, _ := ccm.Annotation(c.Service, ccm.BalancerID)
	named, err := c.Named(ctx, id)
	if err != nil {
		return remedy.Plan{}, err
	}
	s, err := c.Serving(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	return decide(c.Service, id, named, s), nil
}

// decide returns the plan. named is the load balancer with the annotation's ID, or nil; s serves the Service.
func decide(svc *corev1.Service, id string, named *ccm.Instance, s ccm.Serving) remedy.Plan {
	address := ccm.Address(svc)
	plan := remedy.Plan{Finding: say.F("The annotation id names %s, which does not exist, but the Service has the address %s.", ccm.Quote(id), address)}
	if named != nil {
		plan.Finding = say.F("The annotation id names %s, whose address is %s, but the Service has the address %s.", ccm.Quote(id), named.Address, address)
		plan.Note = say.F("To move the Service to %s, delete it and recreate it with the annotation. Its address is then %s.", named.ID, named.Address)
	}
	plan.Finding = plan.Finding.And("A Service never moves from one load balancer to another.")
	remove := ccm.RemoveCommand(svc, ccm.BalancerID)
	if s.Instance == nil {
		plan.Finding = plan.Finding.And("No load balancer with that address was found in %s.", s.Where)
		plan.Ask = say.F("Find the load balancer with the address %s.", address).
			And("If a person created it, name it: %s.", ccm.SetCommand(svc, ccm.BalancerID, "ITS-ID")).
			And("If the controller created it, remove the annotation: %s.", remove)
		return plan
	}
	name := ccm.SetCommand(svc, ccm.BalancerID, s.ID)
	switch {
	case s.ID == id: // the addresses can differ only because of an EIP
		lacks := say.F("The annotation %s, which would say so, is missing.", ccm.ExternalIP)
		if value, ok := ccm.Annotation(svc, ccm.ExternalIP); ok {
			lacks = say.F("The annotation %s is %s. Only the value eip would say so.", ccm.ExternalIP, ccm.Quote(value))
		}
		return remedy.Plan{
			Finding: say.F("The Service's address %s is that of an EIP of its load balancer %s.", address, s.ID).Then(lacks),
			Steps:   []remedy.Step{step.With(svc, ccm.ExternalIP, "eip")},
		}
	case s.Owner == ccm.Users && s.ByController():
		plan.Finding = plan.Finding.Then(s.Evidence).
			And("It also has a tag of the controller, %s or %s. The controller reuses no load balancer with such a tag.", ccm.NameTag, ccm.ClusterTag)
		plan.Ask = say.F("If no Service owns %s, remove these tags from it, then name it: %s.", s.ID, name)
	case s.Owner == ccm.Users:
		plan.Finding = plan.Finding.And("That is the address of %s.", s.ID).Then(s.Evidence)
		plan.Steps = []remedy.Step{step.With(svc, ccm.BalancerID, s.ID)}
	case s.Owner == ccm.Own && s.ByTag:
		plan.Finding = plan.Finding.Then(s.Evidence)
		plan.Note = plan.Note.And("The controller deletes %s together with the Service. To keep it, annotate the Service first (CCM v2.10.0 or later): %s.",
			s.ID, ccm.PreserveCommand(svc))
		plan.Steps = []remedy.Step{step.Without(svc, ccm.BalancerID)}
	case s.Owner == ccm.Own:
		plan.Finding = plan.Finding.Then(s.Evidence).
			And("It lacks the tag %s=%s, or another load balancer has that tag, too.", ccm.NameTag, ccm.DefaultName(svc)).
			And("Without the annotation, the controller would not find it.")
		plan.Ask = say.F("Make sure that %s has this tag and no other load balancer does. Then remove the annotation: %s.", s.ID, remove)
	default:
		plan.Finding = plan.Finding.Then(s.Evidence)
		plan.Ask = say.F("Find out who owns %s. If a person created it, name it: %s.", s.ID, name).
			And("If the controller created it for this Service, remove the annotation: %s.", remove)
	}
	return plan
}

// stillFails compares addresses only if the Service has one, as the controller does.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	id, _ := ccm.Annotation(c.Service, ccm.BalancerID)
	if id == "" || !ccm.Synced(c.Service) {
		return remedy.No, nil
	}
	if mode, _ := ccm.Annotation(c.Service, ccm.ExternalIP); mode == "eip" && !ccm.NLB(c.Service) {
		return remedy.No, nil
	}
	named, err := c.Named(ctx, id)
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(named == nil || !ccm.HasAddress(c.Service, named)), nil
}
