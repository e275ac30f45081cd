// Package tagmissing remedies Services whose load balancer the controller can't find.
package tagmissing

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy gives the load balancer its name tag back, or points the Service at it,
// or recovers from one that is gone.
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
	Reads:    slices.Concat(remedy.BalancerReads, remedy.DriftReads, remedy.NetworkReads),
	Steps:    []remedy.Step{step.TagLB{}, step.Touch{}, step.Annotate{}, step.ClearStatus{}},
	Diagnose: diagnose,
	Holds:    holds,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	s, err := c.Seek(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if id, ok := remedy.Annotation(c.Service, "id"); ok {
		return named(c, s, id), nil
	}
	if len(s.Tagged) > 1 {
		return remedy.Plan{
			Finding: fmt.Sprintf("%d load balancers carry the tag %s=%s: %s.", len(s.Tagged), remedy.NameTag, remedy.DefaultName(c.Service), strings.Join(s.Tagged, ", ")),
			Ask:     "Find out which one serves the Service, and take the tag off the others. Delete none before that: the controller deletes what carries the tag when the Service goes.",
		}, nil
	}
	if s.Instance == nil {
		return lost(c, s), nil
	}
	owner, evidence, err := c.OwnerOf(ctx, s.Instance)
	if err != nil {
		return remedy.Plan{}, err
	}
	found := fmt.Sprintf("The load balancer %s still exists, found by its %s.", s.ID, s.By)
	switch owner {
	case remedy.Own:
		return retag(ctx, c, s, found+" "+evidence)
	case remedy.Users:
		return rebind(c, s, found+" "+evidence), nil
	case remedy.APIServer:
		return remedy.Plan{
			Finding: evidence,
			Ask:     "Don't use this load balancer for the Service. If it has lost its tag, only a new cluster brings the API server's load balancer back; ask Alibaba Cloud first.",
		}, nil
	}
	return remedy.Plan{
		Finding: found + " " + evidence,
		Ask: fmt.Sprintf("Say whose %s is. If the controller made it for this Service: tag it with %s=%s and annotate the Service. If a person made it: set the annotation %sid to its ID.",
			s.ID, remedy.NameTag, remedy.DefaultName(c.Service), remedy.Prefix),
	}, nil
}

// named answers for a Service whose annotation names a load balancer that does not exist.
func named(c *remedy.Case, s remedy.Sought, id string) remedy.Plan {
	p := remedy.Plan{
		Finding: fmt.Sprintf("The annotation id names the load balancer %s, which does not exist in %s.", remedy.Quote(id), s.Where),
		Ask:     fmt.Sprintf("Set the annotation %sid to a load balancer that exists, or remove it and let the controller make one.", remedy.Prefix),
	}
	if s.Instance != nil && s.ID != id {
		p.Ask += fmt.Sprintf(" The address of the Service, %s, belongs to %s.", remedy.Address(c.Service), s.ID)
	}
	return p
}

// retag plans the name tag for a load balancer that is the Service's own.
func retag(ctx context.Context, c *remedy.Case, s remedy.Sought, finding string) (remedy.Plan, error) {
	name := remedy.DefaultName(c.Service)
	if value, ok := s.Tags[remedy.NameTag]; ok && value != name {
		return remedy.Plan{
			Finding: fmt.Sprintf("%s Its tag %s is %s, which is another Service's.", finding, remedy.NameTag, value),
			Ask:     fmt.Sprintf("Find out who changed the tag. If no other Service uses %s, set it to %s.", s.ID, name),
		}, nil
	}
	if remedy.TagsFull(s.Instance) {
		return remedy.Plan{
			Finding: fmt.Sprintf("%s It has lost the tag %s, and carries %d tags, which is the most it can.", finding, remedy.NameTag, len(s.Tags)),
			Ask:     fmt.Sprintf("Take a tag off %s that nobody needs, then tag it with %s=%s.", s.ID, remedy.NameTag, name),
		}, nil
	}
	return c.WithDrift(ctx, s.Instance, remedy.Plan{
		Finding: fmt.Sprintf("%s It has lost the tag %s, by which the controller finds it.", finding, remedy.NameTag),
		Note:    fmt.Sprintf("With this tag the controller deletes %s when the Service is deleted.", s.ID),
		Steps:   []remedy.Step{step.TagLB{LB: s.ID, Key: remedy.NameTag, Value: name, Network: s.NLB != nil}, step.Touch{}},
	})
}

// rebind points the Service at the person's load balancer that it was bound to.
func rebind(c *remedy.Case, s remedy.Sought, finding string) remedy.Plan {
	if !s.Bind() {
		return remedy.Plan{
			Finding: finding + " Nothing shows that the Service was bound to it.",
			Ask:     fmt.Sprintf("If the Service is to use it, set the annotation %sid to %s.", remedy.Prefix, s.ID),
		}
	}
	return remedy.Plan{
		Finding: finding + " The Service was bound to it, and no longer says so.",
		Steps:   []remedy.Step{step.With(c, "id", s.ID)},
	}
}

// lost answers when no load balancer was found.
func lost(c *remedy.Case, s remedy.Sought) remedy.Plan {
	if s.Gone == "" {
		return remedy.Plan{
			Finding: fmt.Sprintf("No load balancer of the Service was found in %s by label, address, tag or name. An empty list is no proof that it is gone: permissions limited by resource give empty lists.", s.Where),
			Ask:     "Find the load balancer in the console. If it exists, tell the controller by its tag or by the annotation id. If it is gone, clear status.loadBalancer through the status subresource and change an annotation, or recreate the Service.",
		}
	}
	p := remedy.Plan{
		Finding: fmt.Sprintf("The load balancer %s is gone: the API says not found, asked in %s.", s.Gone, s.Where),
		Risk:    remedy.High,
		Note: "The new load balancer has another address. A controller that still remembers the token of the old creation may need a restart. " +
			"The other way is to delete the Service and create it again.",
		Ask: fmt.Sprintf("Choose. Either recover: clear the status, then wake the controller; it makes a new load balancer with a new address: "+
			"kubectl -n %[1]s patch service %[2]s --subresource=status --type=merge -p '{\"status\":{\"loadBalancer\":{\"ingress\":null}}}', then kubectl -n %[1]s annotate service %[2]s %[3]s=by-hand --overwrite. "+
			"Or delete the Service and create it again.", c.Service.Namespace, c.Service.Name, remedy.Resync),
		Steps: []remedy.Step{step.Touch{}},
	}
	if remedy.Synced(c.Service) {
		p.Steps = []remedy.Step{step.ClearStatus{Was: c.Service.Status.LoadBalancer.Ingress}, step.Touch{}}
	}
	return p
}

// holds reports whether the controller still can't find the load balancer.
func holds(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	if id, ok := remedy.Annotation(c.Service, "id"); ok {
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
