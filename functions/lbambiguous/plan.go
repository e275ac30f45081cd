package lbambiguous

import (
	"context"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

// untag removes the Service's tag from all but one of the load balancers, if these have no listener, group or backend and the last one
// serves only the Service. It asks for a Service in deletion, whose last load balancer is deleted at once.
func untag(ctx context.Context, c *remedy.Case, found []match, plan remedy.Plan) (remedy.Plan, error) {
	keep, _ := own(c, found)
	if keep == "" || len(found) > shown || len(ccm.Leaving(c.Service)) > 0 {
		return plan, nil
	}
	svc := c.Service.Namespace + "/" + c.Service.Name
	var idle []string
	var steps []remedy.Step
	for _, m := range found {
		if m.ID == keep {
			if !slices.Equal(m.Here, []string{svc}) || len(m.Elsewhere) > 0 {
				return plan, nil
			}
			continue
		}
		if bare, err := c.Bare(ctx, m.ID, m.Uses); err != nil || !bare {
			return plan, err
		}
		idle = append(idle, m.ID)
		steps = append(steps, step.UntagLB{LB: m.ID, Key: ccm.NameTag, Value: ccm.DefaultName(c.Service), Network: m.NLB != nil})
	}
	plan.Finding = plan.Finding.And("%s is in use for the Service, and nothing uses the others: %s.", keep, strings.Join(idle, ", "))
	plan.Ask, plan.Risk = nil, remedy.High
	plan.Note = say.F("The controller then syncs the Service with %s, and deletes it with the Service.", keep).
		And("The others stay, with their cost: find out whose they are, and delete them if nobody needs them.")
	plan.Steps = append(steps, step.Resync{})
	return plan, nil
}

// stillFails reports whether the controller finds several load balancers. Permissions limited by resource can hide some, so only a sync
// proves the end.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	if !strings.Contains(strings.ToLower(c.Event.Message), byTag) || !c.Written() && !ccm.InForce(c.Service) {
		return remedy.Yes, nil
	}
	lbs, err := c.Tagged(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(len(lbs) > 1), nil
}
