// Package quota remedies Services whose sync exceeds a limit of the account other than that on backends.
package quota

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy applies for a higher limit if one is proven to be used up, and asks otherwise.
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

// calm is how long after a failure its absence means something: the controller has retried by then.
const calm = ccm.Retry + time.Minute

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	f, err := find(ctx, c)
	if err != nil {
		return remedy.Plan{}, err
	}
	if f.limit == nil {
		return f.unknown(c), nil
	}
	name, limit, need := f.limit.Name, number(f.limit.Total), number(f.use.need)
	plan := remedy.Plan{
		Finding: say.F("The limit %s is %s.", name, limit).Then(f.use.says),
		Cause:   name,
		Ask:     f.use.ways,
	}
	if f.hint.name == "" {
		plan.Finding = plan.Finding.And("The message names no limit, and this is the only one of the product %s that is used up.", f.hint.product)
	}
	if f.use.need > f.limit.Total {
		return step.Raise(ctx, c, plan, *f.limit, f.use.need, fmt.Sprintf("A Kubernetes Service needs %s of %s, and %s is the limit.", need, name, limit))
	}
	plan.Finding = plan.Finding.And("According to these figures, which may lag behind, the limit is not reached.")
	plan.Wait = c.PollInterval()
	plan.Ask = say.F("Compare the figures with the quota center, and check the controller's log for the API that was refused: %s.", c.LogQuery()).Then(plan.Ask)
	return plan, nil
}

// stillFails reports whether the limit is used up. If it is not, that means something only once the
// controller has retried without a failure.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	f, err := find(ctx, c)
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(f.limit == nil || f.use.need > f.limit.Total || c.Now.Sub(c.Event.Last) <= calm), nil
}

// A found is the limit that a failure is about.
type found struct {
	hint  hint
	limit *cloud.Quota  // nil: it could not be determined
	use   use           // of the limit
	full  []cloud.Quota // if it could not be determined: the limits that are used up
	all   int           // how many limits there are
}

// find determines which limit the failure is about, and how much of it is used. The message only
// tells where to look.
func find(ctx context.Context, c *remedy.Case) (found, error) {
	f := found{hint: read(c.Event.Message, ccm.NLB(c.Service))}
	if f.hint.name != "" {
		limit, err := c.Cloud.Quotas.Named(ctx, f.hint.product, f.hint.name)
		switch {
		case err == nil:
			f.limit = &limit
		case !errors.Is(err, cloud.ErrNotFound):
			return f, fmt.Errorf("read the limit %s: %w", f.hint.name, err)
		}
	}
	if f.limit == nil {
		list, err := c.Cloud.Quotas.List(ctx, f.hint.product, cloud.CommonQuota, "")
		if err != nil {
			return f, fmt.Errorf("list the limits of %s: %w", f.hint.product, err)
		}
		f.choose(list, c.Cloud.Region())
	}
	if f.limit == nil {
		return f, nil
	}
	var err error
	f.use, err = count(ctx, c, *f.limit)
	return f, err
}

// choose takes the limit that the message names in another form. If the message names none, it
// takes the only one that is used up.
func (f *found) choose(list []cloud.Quota, region string) {
	for i := range list {
		q := &list[i]
		if of, ok := q.Dimensions["regionId"]; ok && of != region {
			continue
		}
		f.all++
		if f.hint.fits(*q) {
			f.limit = q
			return
		}
		if q.Total > 0 && q.Used >= q.Total {
			f.full = append(f.full, *q)
		}
	}
	if len(f.full) == 1 && f.hint.name == "" {
		f.limit = &f.full[0]
	}
}

// unknown returns the plan for a limit that could not be determined.
func (f found) unknown(c *remedy.Case) remedy.Plan {
	finding := say.F("The message names no limit: %s.", c.Said())
	if f.hint.name != "" {
		finding = say.F("The message is about the limit %s, which the quota center does not have in this region.", f.hint.name)
	}
	if len(f.full) > 0 {
		var names []string
		for _, q := range f.full {
			names = append(names, fmt.Sprintf("%s (%s/%s)", q.Name, number(q.Used), number(q.Total)))
		}
		finding = finding.And("According to the quota center, these limits of the product %s are used up: %s.", f.hint.product, say.List(names, 5))
	} else {
		finding = finding.And("The quota center has %s of the product %s. None is used up.", say.Count(f.all, "limit"), f.hint.product)
	}
	return remedy.Plan{
		Finding: finding,
		Cause:   f.hint.name,
		Ask: say.F("Check the controller's log for the API that was refused: %s.", c.LogQuery()).
			And("Then apply for more in the quota center, https://quotas.console.alibabacloud.com, or delete what nobody uses."),
	}
}
