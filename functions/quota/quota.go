// Package quota remedies Services whose sync exceeds a limit of the account, except the limit on backends.
package quota

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy applies for a higher limit if one is proven to be exhausted, and asks otherwise.
var Remedy = &remedy.Remedy{
	Class: "quota",
	Doc:   doc,
	Codes: []string{"OverQuota", "ORDER.QUANTITY_INVALID", "ListenerNumberOverLimit", "QuotaLimitExceeds.*", "QuotaExceeded.*"},
	Texts: []string{
		"Instance num exceeded Quota",
		"Total is over the quota",
		"order quota exceeded",
		"maximum number of listeners is exceeded",
		"maximum number of SLB instances is exceeded",
		"The quota of * is exceeded",
	},
	Reads: slices.Concat(
		[]grant.Grant{grant.ListProductQuotas, grant.DescribeLoadBalancerListeners}, step.RaiseReads, ccm.BoundReads, ccm.NetworkReads),
	Steps:      []remedy.Step{step.ApplyQuota{}},
	Scope:      remedy.Account,
	Diagnose:   diagnose,
	StillFails: stillFails,
}

// calm is how long after a failure the controller has certainly retried.
const calm = ccm.Retry + time.Minute

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	f, err := c.Shortage(ctx, c.Event.Message)
	if err != nil {
		return remedy.Plan{}, err
	}
	plan := decide(c, f)
	if !f.Exceeded() || !ccm.Meets(c.Service, f.Limit.Name) {
		return plan, nil
	}
	reason := fmt.Sprintf("A Kubernetes Service needs %s of %s, and %s is the limit.", say.Figure(f.Use.Need), f.Limit.Name, say.Figure(f.Limit.Total))
	return step.Raise(ctx, c, plan, *f.Limit, f.Use.Need, reason)
}

// stillFails treats room in the limit as proof only once the controller has retried successfully.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	f, err := c.Shortage(ctx, c.Event.Message)
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(f.Limit == nil || f.Exceeded() || c.Now.Sub(c.Event.Last) <= calm), nil
}

func decide(c *remedy.Case, f ccm.Shortage) remedy.Plan {
	if f.Limit == nil {
		return unknown(c, f)
	}
	plan := remedy.Plan{
		Finding: say.F("The limit %s is %s.", f.Limit.Name, say.Figure(f.Limit.Total)).Then(f.Use.Text),
		Cause:   f.Limit.Name,
		Ask:     f.Use.Ways,
	}
	if f.Hint.Name == "" {
		plan.Finding = plan.Finding.And("The message names no limit, and this is the only one of the product %s that is used up.", f.Hint.Product)
	}
	switch {
	case f.Exceeded() && ccm.Meets(c.Service, f.Limit.Name):
		return plan
	case f.Exceeded():
		plan.Finding = plan.Finding.And("Nothing shows that the Service needs more of it.")
		plan.Ask = say.F("Check the controller's log for the API that was refused: %s.", c.LogQuery()).
			And("If it is about this limit, apply for more in the quota center, https://quotas.console.alibabacloud.com, or do the following.").Then(plan.Ask)
		return plan
	}
	plan.Finding = plan.Finding.And("According to these figures, which may lag behind, the limit is not reached.")
	plan.Wait = c.PollInterval()
	plan.Ask = say.F("Compare the figures with the quota center, and check the controller's log for the API that was refused: %s.", c.LogQuery()).Then(plan.Ask)
	return plan
}

func unknown(c *remedy.Case, f ccm.Shortage) remedy.Plan {
	finding := say.F("The message names no limit: %s.", c.Said())
	if f.Hint.Name != "" {
		finding = say.F("The message is about the limit %s, which the quota center does not have in this region.", f.Hint.Name)
	}
	if len(f.Full) > 0 {
		var names []string
		for _, q := range f.Full {
			names = append(names, fmt.Sprintf("%s (%s/%s)", q.Name, say.Figure(q.Used), say.Figure(q.Total)))
		}
		finding = finding.And("According to the quota center, these limits of the product %s are used up: %s.", f.Hint.Product, say.List(names, 5))
	} else {
		finding = finding.And("The quota center has %s of the product %s. None is used up.", say.Count(f.All, "limit"), f.Hint.Product)
	}
	return remedy.Plan{
		Finding: finding,
		Cause:   f.Hint.Name,
		Ask: say.F("Check the controller's log for the API that was refused: %s.", c.LogQuery()).
			And("Then apply for more in the quota center, https://quotas.console.alibabacloud.com, or delete what nobody uses."),
	}
}
