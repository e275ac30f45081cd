package lbambiguous

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// A search is how the controller looks for the Service's load balancer.
type search struct {
	by  string // "the tag …" or "the name …"
	tag bool   // by tag
	nlb bool
}

// shown is how many load balancers are looked into.
const shown = 6

// find returns what the search finds; of the first few also what uses them.
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
			found[i].use(fmt.Sprintf("listener %s:%d", l.Protocol, l.Port), l.Description, c.Cluster)
		}
		groups, err := c.Cloud.SLB.VServerGroups(ctx, lb.ID)
		if err != nil {
			return nil, fmt.Errorf("list vServer groups of %s: %w", lb.ID, err)
		}
		for _, g := range groups {
			found[i].use("vServer group", g.Name, c.Cluster)
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
			found[i].use(fmt.Sprintf("listener %s:%d", l.Protocol, l.Port), l.Description, c.Cluster)
		}
	}
	return found, nil
}

// choose asks which of the matches belongs to the Service, and names the one that its
// own marks point to.
func (s search) choose(c *remedy.Case, found []match) remedy.Plan {
	list := make([]string, 0, shown)
	for _, m := range found[:min(shown, len(found))] {
		list = append(list, m.String())
	}
	finding := fmt.Sprintf("%d load balancers have %s: %s", len(found), s.by, strings.Join(list, ", "))
	if more := len(found) - len(list); more > 0 {
		finding += fmt.Sprintf(" and %d more", more)
	}
	keep, why := s.own(c, found)
	first := "LOAD-BALANCER-ID"
	ask := "Find out which one serves the Service."
	if keep != "" {
		ask = fmt.Sprintf("Keep %s if nothing speaks against it: %s.", keep, why)
		if first = found[0].id; first == keep {
			first = found[1].id
		}
	}
	ask += fmt.Sprintf(" Take the %s off the others, such as: %s. What is used by others stays as it is otherwise.", s.what(), s.command(first, c.Cloud.Region()))
	ask += " Delete none before that: the controller deletes what it takes for the Service's when the Service goes."
	if c.Service.DeletionTimestamp != nil {
		ask += " The Service is being deleted already, and what remains is deleted with it at once."
	}
	return remedy.Plan{Finding: finding + ".", Ask: ask}
}

// own returns the ID of the match that the Service's own marks point to, and why;
// empty if they point to none or to several.
func (s search) own(c *remedy.Case, found []match) (id, why string) {
	svc := c.Service.Namespace + "/" + c.Service.Name
	for _, mark := range []struct {
		why  string
		fits func(match) bool
	}{
		{"it has the address of the Service", func(m match) bool { return m.address != "" && m.address == ccm.Address(c.Service) }},
		{"the controller left its ID on the Service", func(m match) bool { return m.id == c.Service.Labels[ccm.BalancerLabel] }},
		{"only it has listeners or groups of the Service", func(m match) bool { return slices.Contains(m.users, svc) }},
	} {
		var fit []string
		for _, m := range found {
			if mark.fits(m) {
				fit = append(fit, m.id)
			}
		}
		if len(fit) == 1 {
			return fit[0], mark.why
		}
	}
	return "", ""
}

// what names the mark that the load balancers share.
func (s search) what() string {
	if s.tag {
		return "tag"
	}
	return "name"
}

// command returns a command that takes the tag or the name off a load balancer.
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
