// Package lbambiguous asks which of several load balancers belongs to the Service.
package lbambiguous

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

//go:embed doc.md
var doc string

// Remedy asks: the controller deletes whatever it takes for its own.
var Remedy = &remedy.Remedy{
	Class: "lb-ambiguous",
	Doc:   doc,
	Texts: []string{byTag, byName, otherID},
	Reads: []grant.Grant{
		grant.DescribeLoadBalancers, grant.DescribeLoadBalancerListeners, grant.DescribeVServerGroups, grant.ListNLBs, grant.ListNLBListeners,
	},
	Deleting: true,
	Diagnose: diagnose,
}

// What the controller says
// (github.com/kubernetes/cloud-provider-alibaba-cloud, pkg/provider/alibaba/slb/loadbalancer.go).
const (
	byTag   = "find multiple loadbalances by tag"
	byName  = "find multiple loadbalances by name"
	otherID = "loadbalancer id from API not match"
)

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	message := strings.ToLower(c.Event.Message)
	if strings.Contains(message, strings.ToLower(otherID)) {
		return mismatch(ctx, c)
	}
	name := ccm.DefaultName(c.Service)
	s := search{by: fmt.Sprintf("the tag %s=%s", ccm.NameTag, name), tag: true, nlb: ccm.NLB(c.Service)}
	if strings.Contains(message, byName) {
		s.by, s.tag = "the name "+name, false
	}
	found, err := s.find(ctx, c, name)
	if err != nil {
		return remedy.Plan{}, err
	}
	if len(found) > 1 {
		plan := s.choose(c, found)
		plan.Seen = true
		return plan, nil
	}
	plan := remedy.Plan{Finding: fmt.Sprintf("The controller finds several load balancers by %s, and now there is %s.", s.by, one(found))}
	if !c.Lasts() {
		plan.Finding += fmt.Sprintf(" It tries again by itself within %.0f minutes.", ccm.Retry.Minutes())
		plan.Wait = c.PollInterval()
		return plan, nil
	}
	plan.Ask = fmt.Sprintf("Look in the console for the load balancers with %s, with the rights of the account's owner: permissions that are limited by resource hide some of them from lbremedy. "+
		"Take the tag or the name off those that are not the Service's, and delete none before that.", s.by)
	return plan, nil
}

// mismatch answers if the API returns an ID other than the one that the Service asks
// for: the API is more lenient about the spelling of an ID than the controller.
func mismatch(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	value, ok := ccm.Annotation(c.Service, "id")
	id := strings.ToLower(strings.TrimSpace(value))
	p := remedy.Plan{
		Finding: fmt.Sprintf("The annotation id is %s, and the API answers with a load balancer of another ID: the message is %s.", ccm.Quote(value), c.Said()),
		Ask:     "Write the ID of the load balancer in the annotation id exactly as the console shows it.",
	}
	switch {
	case !ok:
		p.Finding = "The API has answered with a load balancer of another ID than the controller asked for, and the Service has no annotation id now."
		p.Ask = "If the next sync does not succeed, open a ticket with Alibaba Cloud with the request ID from the controller's log: " + c.LogQuery() + "."
	case ccm.NLB(c.Service) || !plain(id):
	default:
		lbs, err := c.Cloud.SLB.LoadBalancers(ctx, cloud.LBFilter{IDs: []string{id}})
		if err != nil {
			return remedy.Plan{}, fmt.Errorf("list the load balancer %s: %w", id, err)
		}
		switch {
		case len(lbs) == 1 && lbs[0].ID != value:
			p.Finding += fmt.Sprintf(" The region has %s, at %s.", lbs[0].ID, lbs[0].Address)
			p.Ask += " If that is the one: " + ccm.SetCommand(c.Service, "id", lbs[0].ID) + "."
		case len(lbs) == 1:
			p.Finding += fmt.Sprintf(" To lbremedy it answers with %s, as it should.", lbs[0].ID)
			p.Ask = "If the next sync does not succeed, open a ticket with Alibaba Cloud with the request ID from the controller's log: " + c.LogQuery() + "."
		default:
			p.Finding += fmt.Sprintf(" The region %s has no load balancer %s that may be seen.", c.Cloud.Region(), id)
		}
	}
	return p, nil
}

// plain reports whether a text can be an ID.
func plain(id string) bool {
	return id != "" && len(id) <= 64 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

func one(found []match) string {
	if len(found) == 1 {
		return "one, " + found[0].String()
	}
	return "none"
}
