// Package lbambiguous remedies Services for which the controller finds several load balancers.
package lbambiguous

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy removes the Service's tag from unused load balancers. Otherwise it asks: the controller deletes those that it considers its own.
var Remedy = &remedy.Remedy{
	Class:      "lb-ambiguous",
	Doc:        doc,
	Texts:      []string{byTag, byName, otherID},
	Reads:      slices.Concat(ccm.BoundReads, ccm.NetworkReads, []grant.Grant{grant.DescribeLoadBalancerListeners, grant.DescribeVServerGroups}),
	Steps:      []remedy.Step{step.UntagLB{}, step.Resync{}},
	Risks:      []remedy.Risk{remedy.High},
	Deleting:   true,
	Diagnose:   diagnose,
	StillFails: stillFails,
}

// The controller's messages (github.com/kubernetes/cloud-provider-alibaba-cloud, pkg/provider/alibaba/slb/loadbalancer.go).
const (
	byTag   = "find multiple loadbalances by tag"
	byName  = "find multiple loadbalances by name"
	otherID = "loadbalancer id from API not match"
)

// A search is the controller's search for the Service's load balancer.
type search struct {
	by  say.Text // "the tag …" or "the name …"
	tag bool     // by tag
}

// A match is a load balancer that the search finds. The parts of the first few are known.
type match struct {
	*ccm.Instance
	ccm.Uses
}

// shown is the maximum number of described load balancers.
const shown = 6

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	message := strings.ToLower(c.Event.Message)
	if strings.Contains(message, strings.ToLower(otherID)) {
		return mismatch(ctx, c)
	}
	s, find := search{by: say.F("the tag %s=%s", ccm.NameTag, ccm.DefaultName(c.Service)), tag: true}, c.Tagged
	if strings.Contains(message, byName) {
		s, find = search{by: say.F("the name %s", ccm.DefaultName(c.Service))}, c.ByDefaultName
	}
	lbs, err := find(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	found := make([]match, len(lbs))
	for i, lb := range lbs {
		found[i].Instance = lb
		if i >= shown {
			continue
		}
		if found[i].Uses, err = c.Uses(ctx, lb); err != nil {
			return remedy.Plan{}, err
		}
	}
	plan := decide(c, s, found)
	if s.tag && len(found) > 1 {
		return untag(ctx, c, found, plan)
	}
	return plan, nil
}

func decide(c *remedy.Case, s search, found []match) remedy.Plan {
	if len(found) > 1 {
		return choose(c, s, found)
	}
	plan := remedy.Plan{Finding: say.F("The controller found several load balancers by %s, but now there is none.", s.by)}
	if len(found) == 1 {
		plan.Finding = say.F("The controller found several load balancers by %s, but now there is only one: %s.", s.by, found[0].text())
	}
	if !c.Lasts() {
		plan.Finding = plan.Finding.Then(ccm.Retries())
		plan.Wait = c.PollInterval()
		return plan
	}
	plan.Ask = say.F("In the console, look for the load balancers with %s, with the permissions of the account's owner.", s.by).
		And("Permissions that are limited to some resources hide the others from lbremedy.").
		And("Remove the tag or the name from those that are not the Service's. Delete none before that.")
	return plan
}

// mismatch plans for an API that returns another ID than requested: it is more lenient than the controller about an ID's form.
func mismatch(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	ticket := say.F("If the next sync fails too, open a ticket with Alibaba Cloud. Include the request ID from the controller's log: %s.", c.LogQuery())
	value, ok := ccm.Annotation(c.Service, "id")
	if !ok {
		return remedy.Plan{
			Finding: say.F("The API returned a load balancer with another ID than the controller asked for, but the Service now has no annotation id."),
			Ask:     ticket,
		}, nil
	}
	p := remedy.Plan{
		Finding: say.F("The annotation id is %s, but the API returned a load balancer with another ID. The message is %s.", ccm.Quote(value), c.Said()),
		Ask:     say.F("Write the ID of the load balancer in the annotation id exactly as the console shows it."),
	}
	id := strings.ToLower(strings.TrimSpace(value))
	if ccm.NLB(c.Service) || !ccm.Identifier(id) {
		return p, nil
	}
	lbs, err := c.Cloud.SLB.LoadBalancers(ctx, cloud.LBFilter{IDs: []string{id}})
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("list the load balancer %s: %w", id, err)
	}
	switch {
	case len(lbs) != 1:
		p.Finding = p.Finding.And("In the region %s, lbremedy sees no load balancer %s.", c.Cloud.Region(), id)
	case lbs[0].ID == value:
		p.Finding = p.Finding.And("To lbremedy, the API returns %s, as it should.", value)
		p.Ask = ticket
	default:
		p.Finding = p.Finding.And("The region has %s, at %s.", lbs[0].ID, lbs[0].Address)
		p.Ask = p.Ask.And("If that is the one, run: %s.", ccm.SetCommand(c.Service, "id", lbs[0].ID))
	}
	return p, nil
}
