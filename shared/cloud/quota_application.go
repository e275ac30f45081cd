package cloud

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/quotas"
)

// Named returns the account's limit with this name, for the region if limits differ by region, or ErrNotFound. It needs grant.ListProductQuotas.
func (q Quotas) Named(ctx context.Context, product, name string) (Quota, error) {
	if name == "" {
		return Quota{}, absent("quotas", "ListProductQuotas", "name of the quota")
	}
	list, err := q.List(ctx, product, CommonQuota, name)
	if err != nil {
		return Quota{}, err
	}
	for _, found := range list {
		if region, ok := found.Dimensions["regionId"]; found.Name == name && (!ok || region == q.c.Region) {
			return found, nil
		}
	}
	return Quota{}, &Error{
		Product: "quotas", Action: "ListProductQuotas", Code: "QUOTA.NOT.FOUND", Status: 200, kind: ErrNotFound,
		Message: "the quota center has no limit " + name + " of " + product + " in " + q.c.Region,
	}
}

// QuotaWriter applies for higher limits.
type QuotaWriter struct{ c *client }

// A QuotaApplication asks Alibaba Cloud for a higher limit of the account.
type QuotaApplication struct {
	ID      string
	Desired float64
	Status  string            // "Process", "Agree", "Disagree" or "Cancel"
	Opinion string            // why it was refused; may be empty
	At      time.Time         // when it was made; zero if the answer lacks it
	For     map[string]string // dimensions, such as regionId
}

// Open reports whether the application is not decided yet.
func (a QuotaApplication) Open() bool { return a.Status == "Process" }

// Refused reports whether the application was refused or withdrawn.
func (a QuotaApplication) Refused() bool { return a.Status == "Disagree" || a.Status == "Cancel" }

type wireApplication struct {
	ApplicationID   text `json:"ApplicationId"`
	QuotaActionCode text
	Status          text
	DesireValue     decimal
	AuditReason     text
	ApplyTime       text
	Dimension       map[string]text
}

func (w wireApplication) check() error {
	if w.ApplicationID == "" || w.Status == "" {
		return lack("ApplicationId and Status of a quota application")
	}
	return nil
}

func (w wireApplication) value() QuotaApplication {
	a := QuotaApplication{
		ID: string(w.ApplicationID), Desired: w.DesireValue.n, Status: string(w.Status), Opinion: string(w.AuditReason), At: when(w.ApplyTime),
		For: map[string]string{},
	}
	for key, v := range w.Dimension {
		a.For[key] = string(v)
	}
	return a
}

// Applications returns all applications for the product's quota with this code, the newest first. It needs grant.ListQuotaApplications.
func (q Quotas) Applications(ctx context.Context, product, code string) ([]QuotaApplication, error) {
	type answer struct {
		TotalCount        number
		NextToken         text
		QuotaApplications []wireApplication
	}
	list, err := chained("quotas", "ListQuotaApplications", pages(ctx, q.c, listing[string, answer, wireApplication]{
		needs: needs{{"product", product}, {"code of the quota", code}},
		request: func(token string) requests.AcsRequest {
			r := quotas.CreateListQuotaApplicationsRequest()
			r.ProductCode, r.QuotaActionCode = product, code
			r.MaxResults, r.NextToken = whole(100), token
			return r
		},
		page: func(a answer) (pageOf[wireApplication], error) {
			return linked(a.TotalCount, a.NextToken, a.QuotaApplications)
		},
		check: func(w wireApplication) error {
			if w.QuotaActionCode != "" && string(w.QuotaActionCode) != code {
				return lack("applications for quota %s alone: one is for %s", code, w.QuotaActionCode)
			}
			return w.check()
		},
	}))
	out := values(list, wireApplication.value)
	slices.SortStableFunc(out, func(a, b QuotaApplication) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.ID, b.ID)) })
	return out, err
}

// Apply applies for the limit desired of a quota, in its dimensions, which is decided within two days. It fails while another application is
// open; see Applications. It needs grant.CreateQuotaApplication.
func (w QuotaWriter) Apply(ctx context.Context, product, code string, dimensions map[string]string, desired float64, reason string) error {
	_, err := write(ctx, w.c, call[wireApplication]{
		needs: needs{{"product", product}, {"code of the quota", code}, {"reason", reason}},
		request: func() requests.AcsRequest {
			r := quotas.CreateCreateQuotaApplicationRequest()
			r.ProductCode, r.QuotaActionCode, r.Reason = product, code, reason
			r.DesireValue = requests.Float(strconv.FormatFloat(desired, 'f', -1, 64))
			// No mail is needed: lbremedy checks the application.
			r.NoticeType, r.AuditMode = whole(0), "Async"
			if len(dimensions) > 0 {
				var list []quotas.CreateQuotaApplicationDimensions
				for key, v := range dimensions {
					list = append(list, quotas.CreateQuotaApplicationDimensions{Key: key, Value: v})
				}
				r.Dimensions = &list
			}
			return r
		},
		check: wireApplication.check,
		gone:  []string{"QUOTA.NOT.FOUND"},
		about: product + "/" + code,
	})
	return err
}
