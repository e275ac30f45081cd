package lbambiguous

import (
	"context"
	"fmt"
	"slices"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A search is how the controller looks for the Service's load balancer.
type search struct {
	by  say.Text // "the tag …" or "the name …"
	tag bool     // by tag
	nlb bool
}

// shown is how many load balancers are described.
const shown = 6

// find returns what the search finds, and reads the listeners and groups of the first few.
func (s search) find(ctx context.Context, c *remedy.Case, name string) ([]match, error) {
	if s.nlb {
		return s.networks(ctx, c, name)
	}
	filter := cloud.LBFilter{Name: name}
	if s.tag {
		filter = cloud.LBFilter{TagKey: ccm.NameTag, TagValue: name}
	}
	lbs, err := c.Cloud.SLB.LoadBalancers(ctx, filter)
	if err != nil {
		return nil, fmt.Errorf("list load balancers by %s: %w", s.by, err)
	}
	found := make([]match, len(lbs))
	for i, lb := range lbs {
		found[i] = match{id: lb.ID, name: lb.Name, address: lb.Address, tags: lb.Tags}
		if i >= shown {
			continue
		}
		listeners, err := c.Cloud.SLB.Listeners(ctx, lb.ID)
		if err != nil {
			return nil, fmt.Errorf("list listeners of %s: %w", lb.ID, err)
		}
		for _, l := range listeners {
			found[i].listener(l.Protocol, l.Port, l.Description, c.Cluster)
		}
		groups, err := c.Cloud.SLB.VServerGroups(ctx, lb.ID)
		if err != nil {
			return nil, fmt.Errorf("list vServer groups of %s: %w", lb.ID, err)
		}
		for _, g := range groups {
			found[i].groups = append(found[i].groups, ccm.Quote(g.Name))
			found[i].use(g.Name, c.Cluster)
		}
	}
	return found, nil
}

func (s search) networks(ctx context.Context, c *remedy.Case, name string) ([]match, error) {
	filter := cloud.NLBFilter{Name: name}
	if s.tag {
		filter = cloud.NLBFilter{TagKey: ccm.NameTag, TagValue: name}
	}
	lbs, err := c.Cloud.NLB.Find(ctx, filter)
	if err != nil {
		return nil, fmt.Errorf("list NLBs by %s: %w", s.by, err)
	}
	found := make([]match, len(lbs))
	for i, lb := range lbs {
		found[i] = match{id: lb.ID, name: lb.Name, address: lb.DNSName, tags: lb.Tags}
		if i >= shown {
			continue
		}
		listeners, err := c.Cloud.NLB.Listeners(ctx, lb.ID)
		if err != nil {
			return nil, fmt.Errorf("list listeners of %s: %w", lb.ID, err)
		}
		for _, l := range listeners {
			found[i].listener(l.Protocol, l.Port, l.Description, c.Cluster)
		}
	}
	return found, nil
}

// choose asks which of the matches is the Service's, and suggests the one that the Service's own
// marks point to.
func (s search) choose(c *remedy.Case, found []match) remedy.Plan {
	var texts []say.Text
	for _, m := range found {
		texts = append(texts, m.text())
	}
	keep, ask := own(c, found)
	other := "LOAD-BALANCER-ID"
	if keep != "" {
		if other = found[0].id; other == keep {
			other = found[1].id
		}
	}
	command := s.command(other, c.Cloud.Region())
	if s.tag {
		ask = ask.And("Remove the tag from the others, for example: %s.", command)
	} else {
		ask = ask.And("Rename the others, for example: %s.", command)
	}
	ask = ask.And("Change nothing else on load balancers that others use.").
		And("Delete nothing before that: together with the Service, the controller deletes what it takes for the Service's load balancer.")
	if c.Service.DeletionTimestamp != nil {
		ask = ask.And("The Service is already being deleted. The load balancer that remains is deleted with it at once.")
	}
	return remedy.Plan{Finding: say.F("%d load balancers have %s: %s.", len(found), s.by, say.Clauses(texts, shown)), Ask: ask, Seen: true}
}

// own returns the ID of the match that the Service's own marks point to, and asks to keep it. The
// ID is empty if they point to none or to several.
func own(c *remedy.Case, found []match) (string, say.Text) {
	svc := c.Service.Namespace + "/" + c.Service.Name
	for _, mark := range []struct {
		why  say.Text
		fits func(match) bool
	}{
		{say.F("It has the address of the Service."), func(m match) bool { return m.address != "" && m.address == ccm.Address(c.Service) }},
		{say.F("The controller left its ID on the Service."), func(m match) bool { return m.id == c.Service.Labels[ccm.BalancerLabel] }},
		{say.F("Only it has listeners or vServer groups of the Service."), func(m match) bool { return slices.Contains(m.here, svc) }},
	} {
		var fit []string
		for _, m := range found {
			if mark.fits(m) {
				fit = append(fit, m.id)
			}
		}
		if len(fit) == 1 {
			return fit[0], say.F("Keep %s unless something speaks against it.", fit[0]).Then(mark.why)
		}
	}
	return "", say.F("Find out which one serves the Service.")
}

// command returns a command that removes the tag from a load balancer, or renames it.
func (s search) command(id, region string) string {
	switch {
	case s.tag && s.nlb:
		return fmt.Sprintf("aliyun nlb UntagResources --RegionId %s --ResourceType loadbalancer --ResourceId.1 %s --TagKey.1 %s", region, id, ccm.NameTag)
	case s.tag:
		return fmt.Sprintf("aliyun slb UntagResources --RegionId %s --ResourceType instance --ResourceId.1 %s --TagKey.1 %s", region, id, ccm.NameTag)
	case s.nlb:
		return fmt.Sprintf("aliyun nlb UpdateLoadBalancerAttribute --RegionId %s --LoadBalancerId %s --LoadBalancerName not-%s", region, id, id)
	}
	return fmt.Sprintf("aliyun slb SetLoadBalancerName --RegionId %s --LoadBalancerId %s --LoadBalancerName not-%s", region, id, id)
}
