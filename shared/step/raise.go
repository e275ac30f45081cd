package step

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// RaiseReads is what Raise reads besides the quota; a class that calls it declares it.
var RaiseReads = []grant.Grant{grant.ListQuotaApplications}

const (
	decided  = 48 * time.Hour      // time in which Alibaba Cloud decides about an application
	refusal  = 30 * 24 * time.Hour // how long a refusal is an answer
	nextLook = 10 * time.Minute    // between two looks at an application
)

const quotaCenter = "https://quotas.console.alibabacloud.com"

// Raise completes a plan for a limit that is too low, which has its finding and an Ask with the other ways; need is the least that is
// needed. The result has the application for a fifth more than needed, or the wait for an open one, or the original question with the
// reason why applying is impossible.
func Raise(ctx context.Context, c *remedy.Case, plan remedy.Plan, q cloud.Quota, need float64, reason string) (remedy.Plan, error) {
	all, err := c.Cloud.Quotas.Applications(ctx, q.Product, q.Code)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("list applications for %s: %w", q.Name, err)
	}
	all = slices.DeleteFunc(all, func(a cloud.QuotaApplication) bool { return !about(a, q.Dimensions) })
	i := slices.IndexFunc(all, cloud.QuotaApplication.Open)
	to := next(q, need)
	var others say.Text
	if len(plan.Ask) > 0 {
		others = say.F("Alternatively: %s", plan.Ask)
	}
	switch {
	case i >= 0:
		plan.Finding = plan.Finding.And("An application for %s is pending%s. Alibaba Cloud decides within 48 hours.", say.Figure(all[i].Desired), since(all[i].At))
		plan.Wait, plan.Patience = nextLook, decided
		plan.Ask = say.F("Follow up on application %s in the quota center: %s.", all[i].ID, quotaCenter).Then(others)
		return plan, nil
	case q.Total >= need:
		plan.Finding = plan.Finding.And("The limit now allows it. The controller retries within 5 minutes.")
		plan.Wait = c.PollInterval()
		plan.Ask = say.F("Check the controller's log for what is still missing: %s.", c.LogQuery())
		return plan, nil
	case len(all) > 0 && all[0].Refused() && (all[0].At.IsZero() || c.Now.Sub(all[0].At) < refusal):
		plan.Finding = plan.Finding.And("An application for %s was rejected%s.", say.Figure(all[0].Desired), on(all[0].At))
		if all[0].Opinion != "" {
			plan.Finding = plan.Finding.And("Reason: %s.", strings.TrimRight(all[0].Opinion, ". "))
		}
		plan.Ask = say.F("Apply again in the quota center, with more detailed reasons: %s.", quotaCenter).Then(others)
		return plan, nil
	case !q.Adjustable:
		plan.Finding = plan.Finding.And("The limit cannot be raised by application.")
		if q.Why != "" {
			plan.Finding = plan.Finding.And("Reason: %s.", strings.TrimRight(q.Why, ". "))
		}
		if len(plan.Ask) == 0 {
			plan.Ask = say.F("Ask Alibaba Cloud support to raise the limit.")
		}
		return plan, nil
	case to == 0:
		plan.Finding = plan.Finding.And("Applications can ask for at most %s.", say.Figure(q.Most))
		if len(plan.Ask) == 0 {
			plan.Ask = say.F("Ask Alibaba Cloud support to raise the limit.")
		}
		return plan, nil
	}
	apply := ApplyQuota{Product: q.Product, Name: q.Name, Code: q.Code, Dimensions: q.Dimensions, To: to, Was: q.Total, Reason: reason}
	for _, a := range all {
		apply.Known = append(apply.Known, a.ID)
	}
	plan.Steps = []remedy.Step{apply}
	plan.Ask = nil
	plan.Note = say.F("The limit applies to the whole account. Alibaba Cloud decides on the application within 48 hours.").Then(others)
	return plan, nil
}

func about(a cloud.QuotaApplication, dimensions map[string]string) bool {
	return len(a.For) == 0 || maps.Equal(a.For, dimensions)
}

// next returns the limit to apply for: a fifth more than needed, rounded up to the next ten or possible value. It is lower only if no
// more is possible, and 0 if even the need is not.
func next(q cloud.Quota, need float64) float64 {
	want := math.Ceil(need * 1.2)
	if len(q.Steps) > 0 {
		steps := slices.Clone(q.Steps)
		slices.Sort(steps)
		for _, s := range steps {
			if s >= want && s > q.Total {
				return s
			}
		}
		if last := steps[len(steps)-1]; last >= need && last > q.Total {
			return last
		}
		return 0
	}
	to := max(math.Ceil(want/10)*10, q.Least, q.Total+1)
	if q.Most > 0 && to > q.Most {
		to = q.Most
	}
	if to < need || to <= q.Total {
		return 0
	}
	return to
}

func since(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return " since " + at.UTC().Format(time.RFC3339)
}

func on(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return ", made at " + at.UTC().Format(time.RFC3339)
}
