package cloud

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/quotas"
)

// Quotas reads the limits of the account from the quota center.
type Quotas struct{ c *client }

const (
	CommonQuota = "CommonQuota" // the number of resources
	FlowControl = "FlowControl" // the rate of calls of an API
)

// A Quota is a limit of the account.
type Quota struct {
	Product     string // code of the product, such as "slb"
	Code        string // opaque; what an application names
	Name        string // such as "slb_quota_backendservers_num", or an API
	Description string // may be empty
	Total       float64
	Used        float64           // 0 also if the quota center does not count
	Adjustable  bool              // a higher limit can be applied for
	Least, Most float64           // that can be applied for; 0 if the answer lacks it
	Steps       []float64         // the only values to apply for; empty: all between Least and Most
	Why         string            // why it cannot be applied for; may be empty
	Period      time.Duration     // of FlowControl: Total calls in this period; 0 if the answer lacks it
	Dimensions  map[string]string // what it is limited to, such as regionId
}

type wireQuota struct {
	ProductCode        text
	QuotaActionCode    text
	QuotaName          text
	QuotaDescription   text
	TotalQuota         decimal
	TotalUsage         decimal
	Adjustable         *on
	ApplicableRange    []decimal
	ApplicableType     text // "continuous" or "discontinuous"
	UnadjustableDetail text
	Period             struct {
		PeriodValue decimal
		PeriodUnit  text
	}
	Dimensions map[string]text
}

var periods = map[text]time.Duration{
	"second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour, "week": 7 * 24 * time.Hour,
}

func (w wireQuota) value() Quota {
	q := Quota{
		Product: string(w.ProductCode), Code: string(w.QuotaActionCode), Name: string(w.QuotaName), Description: string(w.QuotaDescription),
		Total: w.TotalQuota.n, Used: w.TotalUsage.n, Adjustable: bool(*w.Adjustable), Why: string(w.UnadjustableDetail),
		Period: time.Duration(w.Period.PeriodValue.n) * periods[w.Period.PeriodUnit], Dimensions: map[string]string{},
	}
	for key, v := range w.Dimensions {
		q.Dimensions[key] = string(v)
	}
	for _, n := range w.ApplicableRange {
		q.Steps = append(q.Steps, n.n)
	}
	if len(q.Steps) > 0 {
		q.Least, q.Most = slices.Min(q.Steps), slices.Max(q.Steps)
	}
	if w.ApplicableType != "discontinuous" {
		q.Steps = nil
	}
	return q
}

// List returns the quotas of a category whose name or description has the keyword, by name and code. It needs grant.ListProductQuotas.
func (q Quotas) List(ctx context.Context, product, category, keyword string) ([]Quota, error) {
	type answer struct {
		TotalCount number
		NextToken  text
		Quotas     []wireQuota
	}
	list, err := chained("quotas", "ListProductQuotas", pages(ctx, q.c, listing[string, answer, wireQuota]{
		needs: needs{{"product", product}, {"category of the quotas", category}},
		request: func(token string) requests.AcsRequest {
			r := quotas.CreateListProductQuotasRequest()
			r.ProductCode, r.QuotaCategory, r.KeyWord = product, category, keyword
			r.MaxResults, r.NextToken = whole(100), token
			return r
		},
		page: func(a answer) (pageOf[wireQuota], error) {
			return linked(a.TotalCount, a.NextToken, a.Quotas)
		},
		check: func(w wireQuota) error {
			if w.QuotaActionCode == "" || w.QuotaName == "" || !w.TotalQuota.ok || w.Adjustable == nil {
				return lack("QuotaActionCode, QuotaName, TotalQuota and Adjustable of quota %q", w.QuotaName)
			}
			return nil
		},
	}))
	out := values(list, wireQuota.value)
	order(out, func(a, b Quota) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Code, b.Code)) })
	return out, err
}

type decimal struct {
	n  float64
	ok bool
}

// UnmarshalJSON reads a number, also in quotes. Null and the empty string count as absent.
func (d *decimal) UnmarshalJSON(b []byte) error {
	var t text
	if err := t.UnmarshalJSON(b); err != nil {
		return errors.New("is not a number")
	}
	if t == "" {
		return nil
	}
	n, err := strconv.ParseFloat(string(t), 64)
	if err != nil {
		return errors.New("is not a number")
	}
	*d = decimal{n, true}
	return nil
}
