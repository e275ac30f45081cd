// Package tagmissing remedies Services whose load balancer the controller can't find.
package tagmissing

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy restores the name tag of the load balancer, points the Service at it, or
// replaces one that is gone.
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
	Reads:       slices.Concat(ccm.BalancerReads, ccm.NetworkReads),
	Steps:       []remedy.Step{step.TagLB{}, step.Touch{}, step.Annotate{}, step.ClearStatus{}},
	Annotations: []string{"id"},
	Sees:        true,
	Diagnose:    diagnose,
	StillFails:  holds,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	s, err := c.Find(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if id, _ := ccm.Annotation(c.Service, "id"); id != "" {
		return named(c, s, id), nil
	}
	if len(s.Tagged) > 1 {
		return remedy.Plan{
			Finding: fmt.Sprintf("%d load balancers carry the tag %s=%s: %s.", len(s.Tagged), ccm.NameTag, ccm.DefaultName(c.Service), strings.Join(s.Tagged, ", ")),
			Ask: fmt.Sprintf("Find out which one serves the Service, and take the tag off the others: %s. Delete none before that: the controller deletes what carries the tag when the Service goes.",
				c.UntagCommand("ID", ccm.NameTag)),
		}, nil
	}
	if s.Instance == nil {
		return lost(c, s), nil
	}
	owner, evidence, err := c.Owner(ctx, s.Instance)
	if err != nil {
		return remedy.Plan{}, err
	}
	found := fmt.Sprintf("The load balancer %s still exists, found by its %s.", s.ID, s.By)
	finding := found + " " + evidence
	own, other := s.Tags[ccm.NameTag] == ccm.DefaultName(c.Service), s.Tags[ccm.NameTag]
	switch {
	case owner == ccm.APIServer:
		return remedy.Plan{
			Finding: evidence,
			Ask:     "Don't use this load balancer for the Service. If it has lost its tag, only a new cluster brings the API server's load balancer back; ask Alibaba Cloud first.",
		}, nil
	case elsewhere(c, s):
		return remedy.Plan{
			Finding: fmt.Sprintf("%s Its address is %s, and the Service has another one, %s.", finding, s.Address, ccm.Address(c.Service)),
			Ask: fmt.Sprintf("Find the load balancer that has the address %s. The label %s, which a person can write, names %s; it may have come with a copy of another Service.",
				ccm.Address(c.Service), ccm.BalancerLabel, s.ID),
		}, nil
	case owner == ccm.Own:
		return retag(ctx, c, s, finding)
	case owner == ccm.Users:
		return rebind(ctx, c, s, finding)
	case owner == ccm.OtherService || other != "" && !own:
		return remedy.Plan{
			Finding: finding,
			Ask: fmt.Sprintf("Don't tag %[1]s for this Service: the other one would lose it, and it would be deleted with this one. If a person made it, name it: %[2]s. If the controller made it for another Service, this one needs one of its own: delete it and create it again; its address changes.",
				s.ID, ccm.SetCommand(c.Service, "id", s.ID)),
		}, nil
	}
	return remedy.Plan{
		Finding: finding,
		Ask: fmt.Sprintf("Say whose %s is. If the controller made it for this Service: %s, which has the controller delete it with the Service. If a person made it: %s.",
			s.ID, byTag(c, s), ccm.SetCommand(c.Service, "id", s.ID)),
	}, nil
}

// byTag returns the commands with which a person restores the name tag of the load
// balancer and triggers a resync.
func byTag(c *remedy.Case, s ccm.Found) string {
	return c.TagCommand(s.ID, ccm.NameTag, ccm.DefaultName(c.Service)) + ", then " + ccm.WakeCommand(c.Service)
}

// elsewhere reports whether the load balancer was found by the label alone: the
// Service has another address, and says of none that it is not the load balancer's own.
func elsewhere(c *remedy.Case, s ccm.Found) bool {
	mode, _ := ccm.Annotation(c.Service, "external-ip-type")
	host, _ := ccm.Annotation(c.Service, "hostname")
	return s.By == "label" && s.CLB != nil && ccm.Synced(c.Service) && mode != "eip" && host == "" && s.Address != ccm.Address(c.Service)
}

// named answers if the annotation names a load balancer that does not exist.
func named(c *remedy.Case, s ccm.Found, id string) remedy.Plan {
	finding := fmt.Sprintf("The annotation id names the load balancer %s, which does not exist in %s.", ccm.Quote(id), s.Where)
	set, remove := ccm.SetCommand(c.Service, "id", "LOAD-BALANCER-ID"), ccm.RemoveCommand(c.Service, "id")
	address := ccm.Address(c.Service)
	switch {
	case s.Instance == nil && address == "":
		return remedy.Plan{
			Finding: finding,
			Ask:     fmt.Sprintf("Name a load balancer that exists: %s. Or remove the annotation, and the controller makes one: %s.", set, remove),
		}
	case s.Instance == nil:
		return remedy.Plan{
			Finding: finding + fmt.Sprintf(" The Service has the address %s, which no load balancer was found to have.", address),
			Ask: fmt.Sprintf("Name the load balancer that has the address: %s. Where none has it any more, delete the Service and create it again, with the annotation of one that exists or without it: its address changes. To remove the annotation alone is not enough: while the Service has an address, the controller makes no load balancer.",
				set),
		}
	case address == "":
		return remedy.Plan{
			Finding: finding + fmt.Sprintf(" The Service has no address yet, and %s was found by its %s.", s.ID, s.By),
			Ask:     fmt.Sprintf("Name a load balancer that exists: %s. Or remove the annotation: %s; the controller then goes on with what has the Service's name tag or default name, or makes one.", set, remove),
		}
	}
	return remedy.Plan{
		Finding: finding + fmt.Sprintf(" The Service has the address %s, and %s was found by its %s.", address, s.ID, s.By),
		Ask: fmt.Sprintf("If a person made %s, name it: %s. If the controller made it for this Service and for no other, give it its name tag: %s, then remove the annotation: %s.",
			s.ID, ccm.SetCommand(c.Service, "id", s.ID), c.TagCommand(s.ID, ccm.NameTag, ccm.DefaultName(c.Service)), remove),
	}
}

// retag plans the name tag for a load balancer that is the Service's own.
func retag(ctx context.Context, c *remedy.Case, s ccm.Found, finding string) (remedy.Plan, error) {
	name := ccm.DefaultName(c.Service)
	if value, ok := s.Tags[ccm.NameTag]; ok && value != name {
		return remedy.Plan{
			Finding: fmt.Sprintf("%s Its tag %s is %s, which is another Service's.", finding, ccm.NameTag, value),
			Ask:     fmt.Sprintf("Find out who changed the tag. If no other Service uses %s, set it: %s.", s.ID, byTag(c, s)),
		}, nil
	}
	if ccm.TagsFull(s.Instance) {
		return remedy.Plan{
			Finding: fmt.Sprintf("%s It has lost the tag %s, and carries %d tags, which is the most it can.", finding, ccm.NameTag, len(s.Tags)),
			Ask:     fmt.Sprintf("Take a tag off that nobody needs: %s. Then: %s.", c.UntagCommand(s.ID, "KEY"), byTag(c, s)),
		}, nil
	}
	return remedy.Plan{
		Finding: fmt.Sprintf("%s It has lost the tag %s, by which the controller finds it.", finding, ccm.NameTag),
		Note:    fmt.Sprintf("With this tag the controller deletes %s when the Service is deleted.", s.ID),
		Steps:   []remedy.Step{step.TagLB{LB: s.ID, Key: ccm.NameTag, Value: name, Network: s.NLB != nil}, step.Touch{}},
	}, nil
}

// rebind points the Service at the person's load balancer that it was bound to.
func rebind(ctx context.Context, c *remedy.Case, s ccm.Found, finding string) (remedy.Plan, error) {
	name := ccm.SetCommand(c.Service, "id", s.ID)
	switch {
	case s.ByController():
		return remedy.Plan{
			Finding: finding + fmt.Sprintf(" It also carries a tag of the controller, %s or %s, and with such a tag the controller reuses none.", ccm.NameTag, ccm.ClusterTag),
			Ask:     fmt.Sprintf("If no Service owns %s, take these tags off: %s. Then, if the Service is to use it: %s.", s.ID, c.UntagCommand(s.ID, ccm.NameTag, ccm.ClusterTag), name),
		}, nil
	case !s.Bind():
		return remedy.Plan{
			Finding: finding + " Nothing shows that the Service was bound to it.",
			Ask:     fmt.Sprintf("If the Service is to use it: %s.", name),
		}, nil
	}
	return remedy.Plan{
		Finding: finding + " The Service was bound to it, and no longer says so.",
		Steps:   []remedy.Step{step.With(c.Service, "id", s.ID)},
	}, nil
}

// lost answers if no load balancer was found.
func lost(c *remedy.Case, s ccm.Found) remedy.Plan {
	again := ccm.WakeCommand(c.Service)
	if ccm.Synced(c.Service) {
		again = ccm.ClearCommand(c.Service) + ", then " + again
	}
	if s.Gone == "" {
		return remedy.Plan{
			Finding: fmt.Sprintf("No load balancer of the Service was found in %s by label, address, tag or name. An empty list is no proof that it is gone: permissions limited by resource give empty lists.", s.Where),
			Ask: fmt.Sprintf("Find the load balancer in the console. If the controller made it: %s. If a person made it: %s. If it is gone, have the controller make a new one, with a new address: %s; or delete the Service and create it again.",
				c.TagCommand("LOAD-BALANCER-ID", ccm.NameTag, ccm.DefaultName(c.Service))+", then "+ccm.WakeCommand(c.Service), ccm.SetCommand(c.Service, "id", "LOAD-BALANCER-ID"), again),
		}
	}
	p := remedy.Plan{
		Finding: fmt.Sprintf("The load balancer %s is gone: the API says not found, asked in %s.", s.Gone, s.Where),
		Risk:    remedy.High,
		Note: fmt.Sprintf("The new load balancer has another address. A controller that still remembers the token of the old creation may need a restart. "+
			"By hand that is: %s. The other way is to delete the Service and create it again.", again),
		Steps: []remedy.Step{step.Touch{}},
	}
	if ccm.Synced(c.Service) {
		p.Steps = []remedy.Step{step.ClearStatus{Was: c.Service.Status.LoadBalancer.Ingress}, step.Touch{}}
	}
	return p
}

// holds reports whether the controller still can't find the load balancer.
func holds(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	if id, _ := ccm.Annotation(c.Service, "id"); id != "" {
		lb, err := c.Named(ctx, id)
		if err != nil {
			return remedy.Unknown, err
		}
		return remedy.Is(lb == nil), nil
	}
	// Without the tag the controller still finds it by the default name.
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(lb == nil), nil
}
