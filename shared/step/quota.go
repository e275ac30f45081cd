package step

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// ApplyQuota applies for a higher limit of the account, unless an application is open. Alibaba Cloud decides within two days.
type ApplyQuota struct {
	Product    string            `json:"product"`
	Name       string            `json:"name"`
	Code       string            `json:"code"` // opaque: applications name this
	Dimensions map[string]string `json:"dimensions,omitempty"`
	To         float64           `json:"to"`
	Was        float64           `json:"was"`
	Reason     string            `json:"reason"`          // for the person who decides
	Known      []string          `json:"known,omitempty"` // earlier applications, all decided
}

// Says describes the step.
func (a ApplyQuota) Says() say.Text {
	return say.F("apply for %s in place of %s as the limit %s", say.Figure(a.To), say.Figure(a.Was), a.Name)
}

// Kind is "apply-quota".
func (ApplyQuota) Kind() string { return "apply-quota" }

// Target is the quota.
func (a ApplyQuota) Target() string { return "quota/" + a.Name }

// Risk is medium: it changes a setting of the account.
func (ApplyQuota) Risk() remedy.Risk { return remedy.Medium }

// Grants are reading quotas and their applications, and creating one.
func (ApplyQuota) Grants() []grant.Grant {
	return []grant.Grant{grant.ListProductQuotas, grant.ListQuotaApplications, grant.CreateQuotaApplication}
}

// Check reads the limit and the applications for it. Done means that the limit is high enough, or that a new application exists and was not refused.
func (a ApplyQuota) Check(ctx context.Context, c *remedy.Case) (remedy.State, error) {
	quotas, err := c.Cloud.Quotas.List(ctx, a.Product, cloud.CommonQuota, a.Name)
	if err != nil {
		return remedy.Todo, fmt.Errorf("list quotas of %s: %w", a.Product, err)
	}
	i := slices.IndexFunc(quotas, func(q cloud.Quota) bool { return q.Code == a.Code && maps.Equal(q.Dimensions, a.Dimensions) })
	if i < 0 {
		return remedy.Conflict, nil
	}
	applications, err := c.Cloud.Quotas.Applications(ctx, a.Product, a.Code)
	if err != nil {
		return remedy.Todo, fmt.Errorf("list applications for %s: %w", a.Name, err)
	}
	refused := false
	for _, made := range applications {
		if !about(made, a.Dimensions) {
			continue
		}
		switch {
		case made.Open():
			return remedy.Done, nil
		case slices.Contains(a.Known, made.ID):
		case made.Refused():
			refused = true
		default:
			return remedy.Done, nil
		}
	}
	switch {
	case quotas[i].Total >= a.To:
		return remedy.Done, nil
	case refused || quotas[i].Total != a.Was:
		return remedy.Conflict, nil
	}
	return remedy.Todo, nil
}

// Apply creates the application. It reads all again just before: the API only refuses a second one while one is open.
func (a ApplyQuota) Apply(ctx context.Context, c *remedy.Case, w *remedy.Writers) error {
	return once(ctx, c, a, func() error { return w.Cloud.Quotas.Apply(ctx, a.Product, a.Code, a.Dimensions, a.To, a.Reason) })
}

// Undo returns no step: a limit that is too high does no harm, and the console can withdraw an open application.
func (ApplyQuota) Undo() (remedy.Step, bool) { return nil, false }

// ApplyCommand returns the command that applies for twice a limit, or the nearest possible value.
func ApplyCommand(category string, q cloud.Quota, reason string) string {
	dimensions := "" // distinguish limits with the same code
	for i, key := range slices.Sorted(maps.Keys(q.Dimensions)) {
		dimensions += fmt.Sprintf(" --Dimensions.%[1]d.Key %[2]s --Dimensions.%[1]d.Value %[3]s", i+1, key, q.Dimensions[key])
	}
	want := max(2*q.Total, q.Least)
	if q.Most > 0 {
		want = min(want, q.Most)
	}
	steps := slices.Sorted(slices.Values(q.Steps))
	if i := slices.IndexFunc(steps, func(n float64) bool { return n >= want }); i >= 0 {
		want = steps[i]
	}
	return fmt.Sprintf("aliyun quotas CreateQuotaApplication --ProductCode %s --QuotaCategory %s --QuotaActionCode %s%s --DesireValue %s --Reason '%s'",
		q.Product, category, q.Code, dimensions, say.Figure(want), reason)
}
