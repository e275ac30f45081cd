// Package tagmissing remedies Services whose load balancer the controller can't find.
package tagmissing

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/cloud"
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
	Reads:    append(remedy.BalancerReads, remedy.DriftReads...),
	Steps:    []remedy.Step{step.TagLB{}, step.Touch{}, step.Annotate{}, step.ClearStatus{}},
	Diagnose: diagnose,
	Holds:    holds,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	if remedy.NLB(c.Service) {
		return nlb(c), nil
	}
	b, err := c.Balancer(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if id, ok := remedy.Annotation(c.Service, "id"); ok {
		return named(c, b, id), nil
	}
	if len(b.Tagged) > 1 {
		return remedy.Plan{
			Finding: fmt.Sprintf("%d load balancers carry the tag %s=%s: %s.", len(b.Tagged), remedy.NameTag, remedy.DefaultName(c.Service), ids(b.Tagged)),
			Ask:     "Find out which one serves the Service, and take the tag off the others. Delete none before that: the controller deletes what carries the tag when the Service goes.",
		}, nil
	}
	if b.LB == nil {
		return lost(c, b), nil
	}
	owner, evidence, err := c.Owner(ctx, b.LB)
	if err != nil {
		return remedy.Plan{}, err
	}
	found := fmt.Sprintf("The load balancer %s still exists, found by its %s.", b.LB.ID, b.By)
	switch owner {
	case remedy.Own:
		return retag(ctx, c, b, found+" "+evidence)
	case remedy.Users:
		return rebind(c, b, found+" "+evidence), nil
	case remedy.APIServer:
		return remedy.Plan{
			Finding: evidence,
			Ask:     "Don't use this load balancer for the Service. If it has lost its tag, only a new cluster brings the API server's load balancer back; ask Alibaba Cloud first.",
		}, nil
	}
	return remedy.Plan{
		Finding: found + " " + evidence,
		Ask: fmt.Sprintf("Say whose %s is. If the controller made it for this Service: tag it with %s=%s and annotate the Service. If a person made it: set the annotation %sid to its ID.",
			b.LB.ID, remedy.NameTag, remedy.DefaultName(c.Service), remedy.Prefix),
	}, nil
}

// named answers for a Service whose annotation names a load balancer that does not exist.
func named(c *remedy.Case, b remedy.Balancer, id string) remedy.Plan {
	p := remedy.Plan{
		Finding: fmt.Sprintf("The annotation id names the load balancer %s, which does not exist in %s.", id, b.Where),
		Ask:     fmt.Sprintf("Set the annotation %sid to a load balancer that exists, or remove it and let the controller make one.", remedy.Prefix),
	}
	if b.LB != nil && b.LB.ID != id {
		p.Ask += fmt.Sprintf(" The address of the Service, %s, belongs to %s.", remedy.Address(c.Service), b.LB.ID)
	}
	return p
}

// retag plans the name tag for a load balancer that is the Service's own.
func retag(ctx context.Context, c *remedy.Case, b remedy.Balancer, finding string) (remedy.Plan, error) {
	name := remedy.DefaultName(c.Service)
	if value, ok := b.LB.Tags[remedy.NameTag]; ok && value != name {
		return remedy.Plan{
			Finding: fmt.Sprintf("%s Its tag %s is %s, which is another Service's.", finding, remedy.NameTag, value),
			Ask:     fmt.Sprintf("Find out who changed the tag. If no other Service uses %s, set it to %s.", b.LB.ID, name),
		}, nil
	}
	if remedy.TagsFull(b.LB) {
		return remedy.Plan{
			Finding: fmt.Sprintf("%s It has lost the tag %s, and carries %d tags, which is the most it can.", finding, remedy.NameTag, len(b.LB.Tags)),
			Ask:     fmt.Sprintf("Take a tag off %s that nobody needs, then tag it with %s=%s.", b.LB.ID, remedy.NameTag, name),
		}, nil
	}
	drift, err := c.Drift(ctx, b.LB)
	if err != nil {
		return remedy.Plan{}, err
	}
	note := fmt.Sprintf("With this tag the controller deletes %s when the Service is deleted.", b.LB.ID)
	if len(drift) > 0 {
		note += fmt.Sprintf(" The full sync that follows also changes what differs now: %s.", strings.Join(drift, "; "))
	}
	return remedy.Plan{
		Finding: fmt.Sprintf("%s It has lost the tag %s, by which the controller finds it.", finding, remedy.NameTag),
		Note:    note,
		Steps:   []remedy.Step{step.TagLB{LB: b.LB.ID, Key: remedy.NameTag, Value: name}, step.Touch{}},
	}, nil
}

// rebind points the Service at the person's load balancer that it was bound to.
func rebind(c *remedy.Case, b remedy.Balancer, finding string) remedy.Plan {
	if b.By != "label" && b.By != "address" && b.By != "EIP" {
		return remedy.Plan{
			Finding: finding + " Nothing shows that the Service was bound to it.",
			Ask:     fmt.Sprintf("If the Service is to use it, set the annotation %sid to %s.", remedy.Prefix, b.LB.ID),
		}
	}
	return remedy.Plan{
		Finding: finding + " The Service was bound to it, and no longer says so.",
		Steps:   []remedy.Step{step.With(c, "id", b.LB.ID)},
	}
}

// lost answers when no load balancer was found.
func lost(c *remedy.Case, b remedy.Balancer) remedy.Plan {
	if b.Gone == "" {
		return remedy.Plan{
			Finding: fmt.Sprintf("No load balancer of the Service was found in %s by label, address, tag or name. An empty list is no proof that it is gone: permissions limited by resource give empty lists.", b.Where),
			Ask:     "Find the load balancer in the console. If it exists, tell the controller by its tag or by the annotation id. If it is gone, clear status.loadBalancer through the status subresource and change an annotation, or recreate the Service.",
		}
	}
	p := remedy.Plan{
		Finding: fmt.Sprintf("The load balancer %s is gone: the API says not found, asked in %s.", b.Gone, b.Where),
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

// nlb answers for Network Load Balancers. The controller finds them the same way,
// and lbremedy has no proof of ownership for them that is good enough to write.
func nlb(c *remedy.Case) remedy.Plan {
	what := "The Service has never had an address."
	if host := remedy.Address(c.Service); host != "" {
		what = "The Service's address is " + host + "."
	}
	return remedy.Plan{
		Finding: fmt.Sprintf("The controller can't find the NLB of the Service, whose ID was %q. %s", c.Service.Labels[remedy.BalancerLabel], what),
		Ask: fmt.Sprintf("Look the NLB up in the console by that name or ID. If it exists and the controller made it, tag it with %s=%s and change an annotation of the Service. If it is gone, clear status.loadBalancer through the status subresource and change an annotation, or recreate the Service.",
			remedy.NameTag, remedy.DefaultName(c.Service)),
	}
}

// holds reports whether the controller still can't find the load balancer.
func holds(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	if remedy.NLB(c.Service) {
		return remedy.Yes, nil // the engine has looked for a sync that succeeded
	}
	if id, ok := remedy.Annotation(c.Service, "id"); ok {
		_, err := c.Cloud.SLB.LoadBalancer(ctx, id)
		if err != nil && !errors.Is(err, cloud.ErrNotFound) {
			return remedy.Unknown, fmt.Errorf("describe load balancer %s: %w", id, err)
		}
		return remedy.Is(err != nil), nil
	}
	name := remedy.DefaultName(c.Service)
	tagged, err := c.Cloud.SLB.LoadBalancers(ctx, cloud.LBFilter{TagKey: remedy.NameTag, TagValue: name})
	if err != nil {
		return remedy.Unknown, fmt.Errorf("list load balancers with the tag %s=%s: %w", remedy.NameTag, name, err)
	}
	if len(tagged) > 0 {
		return remedy.Is(len(tagged) > 1), nil
	}
	// Without the tag the controller still finds it by the default name. The API may match names loosely.
	byName, err := c.Cloud.SLB.LoadBalancers(ctx, cloud.LBFilter{Name: name})
	if err != nil {
		return remedy.Unknown, fmt.Errorf("list load balancers named %s: %w", name, err)
	}
	return remedy.Is(!slices.ContainsFunc(byName, func(lb cloud.LoadBalancer) bool { return lb.Name == name })), nil
}

func ids(lbs []cloud.LoadBalancer) string {
	out := make([]string, len(lbs))
	for i, lb := range lbs {
		out[i] = lb.ID
	}
	return strings.Join(out, ", ")
}
