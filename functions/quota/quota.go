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
	plan := f.plan(c)
	if f.limit == nil || f.use.need <= f.limit.Total {
		return plan, nil
	}
	reason := fmt.Sprintf("A Kubernetes Service needs %s of %s, and %s is the limit.", number(f.use.need), f.limit.Name, number(f.limit.Total))
	return step.Raise(ctx, c, plan, *f.limit, f.use.need, reason)
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
	hint  ccm.Hint
	limit *cloud.Quota  // nil: it could not be determined
	use   use           // of the limit
	full  []cloud.Quota // if it could not be determined: the limits that are used up
	all   int           // how many limits there are
}

// find determines which limit the failure is about, and how much of it is used. The message only
// tells where to look.
func find(ctx context.Context, c *remedy.Case) (found, error) {
	f := found{hint: ccm.HintOf(c.Event.Message, ccm.NLB(c.Service))}
	if f.hint.Name != "" {
		limit, err := c.Cloud.Quotas.Named(ctx, f.hint.Product, f.hint.Name)
		switch {
		case err == nil:
			f.limit = &limit
		case !errors.Is(err, cloud.ErrNotFound):
			return f, fmt.Errorf("read the limit %s: %w", f.hint.Name, err)
		}
	}
	if f.limit == nil {
		list, err := c.Cloud.Quotas.List(ctx, f.hint.Product, cloud.CommonQuota, "")
		if err != nil {
			return f, fmt.Errorf("list the limits of %s: %w", f.hint.Product, err)
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
		if f.hint.Fits(*q) {
			f.limit = q
			return
		}
		if q.Total > 0 && q.Used >= q.Total {
			f.full = append(f.full, *q)
		}
	}
	if len(f.full) == 1 && f.hint.Name == "" {
		f.limit = &f.full[0]
	}
}

// count counts how much of a limit is used. It counts what can be listed: for a limit of each load
// balancer, the quota center shows nothing as used.
func count(ctx context.Context, c *remedy.Case, limit cloud.Quota) (use, error) {
	switch limit.Name {
	case ccm.LimitCLBs.Name, ccm.LimitNLBs.Name:
		n, err := c.Census(ctx, limit.Name == ccm.LimitNLBs.Name)
		return oneMore(c, n, limit), err
	case ccm.LimitListeners.Name, ccm.LimitNLBListeners.Name:
		lb, err := c.Bound(ctx)
		if err != nil || lb == nil {
			return listeners(c, nil, nil), err
		}
		all, err := c.Listeners(ctx, lb)
		return listeners(c, lb, all), err
	}
	return counted(limit), nil
}
