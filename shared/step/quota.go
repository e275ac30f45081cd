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

// ApplyQuota applies for a higher limit of the account, once: an application that
// is open is not made again. Alibaba Cloud decides about it within two days.
type ApplyQuota struct {
	Product    string            `json:"product"`
	Name       string            `json:"name"`
	Code       string            `json:"code"` // opaque: applications name this
	Dimensions map[string]string `json:"dimensions,omitempty"`
	To         float64           `json:"to"`
	Was        float64           `json:"was"`
	Reason     string            `json:"reason"`          // for who decides
	Known      []string          `json:"known,omitempty"` // applications that were there before, all decided
}

// Says is what the step does.
func (a ApplyQuota) Says() say.Text {
	return say.F("apply for %s in place of %s as the limit %s", say.Figure(a.To), say.Figure(a.Was), a.Name)
}

// Kind is "apply-quota".
func (ApplyQuota) Kind() string { return "apply-quota" }

// Target is the quota.
func (a ApplyQuota) Target() string { return "quota/" + a.Name }

// Risk is medium: it changes a setting of the account.
func (ApplyQuota) Risk() remedy.Risk { return remedy.Medium }

// Grants are reading quotas and their applications, and making one.
func (ApplyQuota) Grants() []grant.Grant {
	return []grant.Grant{grant.ListProductQuotas, grant.ListQuotaApplications, grant.CreateQuotaApplication}
}

// Check reads the limit and the applications for it. Done is a limit as high, or
// an application that the plan didn't know and nobody has refused.
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

// Apply makes the application. The API has no condition for it beyond refusing a
// second one while one is open: all is read again right before.
func (a ApplyQuota) Apply(ctx context.Context, c *remedy.Case, w *remedy.Writers) error {
	return once(ctx, c, a, func() error { return w.Cloud.Quotas.Apply(ctx, a.Product, a.Code, a.Dimensions, a.To, a.Reason) })
}

// Undo is nothing: a limit that is higher than need be harms nobody, and the
// console can withdraw an application that is open.
func (ApplyQuota) Undo() (remedy.Step, bool) { return nil, false }

// ApplyCommand returns the command by which a person applies for twice a limit, or for the nearest
// value that can be applied for.
func ApplyCommand(category string, q cloud.Quota, reason string) string {
	dimensions := "" // tell apart several limits with the same code
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
