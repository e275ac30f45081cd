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
}

// shown is how many load balancers are described.
const shown = 6

// find returns what the search finds, and reads the listeners and groups of the first few.
func (s search) find(ctx context.Context, c *remedy.Case, name string) ([]match, error) {
	var key, value string
	if s.tag {
		key, value, name = ccm.NameTag, name, ""
	}
	var found []match
	if ccm.NLB(c.Service) {
		lbs, err := c.Cloud.NLB.Find(ctx, cloud.NLBFilter{Name: name, TagKey: key, TagValue: value})
		if err != nil {
			return nil, fmt.Errorf("list NLBs by %s: %w", s.by, err)
		}
		for _, lb := range lbs {
			found = append(found, match{id: lb.ID, name: lb.Name, address: lb.DNSName, tags: lb.Tags})
		}
	} else {
		lbs, err := c.Cloud.SLB.LoadBalancers(ctx, cloud.LBFilter{Name: name, TagKey: key, TagValue: value})
		if err != nil {
			return nil, fmt.Errorf("list load balancers by %s: %w", s.by, err)
		}
		for _, lb := range lbs {
			found = append(found, match{id: lb.ID, name: lb.Name, address: lb.Address, tags: lb.Tags})
		}
	}
	for i := range found[:min(shown, len(found))] {
		if err := found[i].read(ctx, c); err != nil {
			return nil, err
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
	if s.tag {
		ask = ask.And("Remove the tag from the others, for example: %s.", c.UntagCommand(other, ccm.NameTag))
	} else {
		ask = ask.And("Rename the others, for example: %s.", rename(c, other))
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

// rename returns a command that renames a load balancer.
func rename(c *remedy.Case, id string) string {
	call := "slb SetLoadBalancerName"
	if ccm.NLB(c.Service) {
		call = "nlb UpdateLoadBalancerAttribute"
	}
	return fmt.Sprintf("aliyun %s --RegionId %s --LoadBalancerId %[3]s --LoadBalancerName not-%[3]s", call, c.Cloud.Region(), id)
}
