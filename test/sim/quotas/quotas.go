// Package quotas simulates the quota center: limits, applications for higher ones, and rate limits.
package quotas

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

// A Quota is a limit. One of the category FlowControl limits the calls of an action in a Period, and further calls are throttled.
type Quota struct {
	Product    string        `json:"product,omitempty"`  // slb if empty
	Code       string        `json:"code,omitempty"`     // opaque, such as q_hvnoqv
	Name       string        `json:"name,omitempty"`     // such as slb_quota_backendservers_num, or an action
	Category   string        `json:"category,omitempty"` // CommonQuota if empty, or FlowControl
	Total      float64       `json:"total,omitempty"`
	Used       float64       `json:"used,omitempty"` // for quotas that the simulator does not count
	Adjustable bool          `json:"adjustable,omitempty"`
	Max        float64       `json:"max,omitempty"`    // of the range for applications
	Period     core.Duration `json:"period,omitempty"` // of FlowControl; default a minute
}

// A QuotaApplication requests a higher quota. It is pending until Lag.Quotas has passed or Status is edited.
type QuotaApplication struct {
	ID       string    `json:"id,omitempty"`
	Product  string    `json:"product,omitempty"` // slb if empty
	Code     string    `json:"code,omitempty"`    // of the quota
	Desired  float64   `json:"desired,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	Status   string    `json:"status,omitempty"` // Process if empty, Agree, Disagree or Cancel
	Opinion  string    `json:"opinion,omitempty"`
	Approved float64   `json:"approved,omitempty"` // Desired if 0 and approved
	At       time.Time `json:"at,omitzero"`
}

// A State holds the quotas of an account in a region.
type State struct {
	*core.State
	Quotas            []Quota
	QuotaApplications map[string]*QuotaApplication

	Used  func(name string) (int, bool) // usage of a quota, if it is counted
	rates map[string]*rate              // of calls, by the quota's code
}

// New returns the state, with defaults set.
func New(base *core.State, quotas []Quota, applications []QuotaApplication) (*State, error) {
	s := &State{State: base, Quotas: quotas, rates: map[string]*rate{}}
	base.Add(s)
	for i := range s.Quotas {
		s.Quotas[i].fill()
	}
	var err error
	s.QuotaApplications, err = core.Index("quota application", applications, func(a *QuotaApplication) string { return a.ID }, func(i int, a *QuotaApplication) {
		a.ID = cmp.Or(a.ID, fmt.Sprintf("app-%d", i+1))
		a.fill(s)
	})
	errs := []error{err}
	for _, a := range s.QuotaApplications {
		if s.quotaOf(a.Product, a.Code) == nil {
			errs = append(errs, fmt.Errorf("quota application %s: there is no quota %s of %s", a.ID, a.Code, a.Product))
		}
		if !core.OneOf("Process,Agree,Disagree,Cancel", a.Status) {
			errs = append(errs, fmt.Errorf("quota application %s: bad status %q", a.ID, a.Status))
		}
	}
	s.agree()
	return s, errors.Join(errs...)
}

// Adopt copies from the previous state what a World does not contain.
func (s *State) Adopt(was *State) { s.rates = was.rates }

// Settle updates the state after an edit.
func (s *State) Settle() {
	for i := range s.Quotas {
		s.Quotas[i].fill()
	}
	for id, a := range s.QuotaApplications {
		a.ID = id
		a.fill(s)
	}
	s.agree()
}

func (u *Quota) fill() {
	u.Product, u.Category = cmp.Or(u.Product, "slb"), cmp.Or(u.Category, "CommonQuota")
	u.Code = cmp.Or(u.Code, "q_"+strings.ToLower(core.Derive(u.Product+u.Name, 6)))
	if u.Category == "FlowControl" {
		u.Period = cmp.Or(u.Period, core.Duration(time.Minute))
	}
}

func (a *QuotaApplication) fill(s *State) {
	a.Product, a.Status = cmp.Or(a.Product, "slb"), cmp.Or(a.Status, "Process")
	if a.At.IsZero() {
		a.At = s.Started
	}
}

func (s *State) agree() {
	for _, a := range s.QuotaApplications {
		u := s.quotaOf(a.Product, a.Code)
		if a.Status != "Agree" || a.Approved > 0 || u == nil {
			continue
		}
		a.Approved = a.Desired
		u.Total = a.Approved
	}
}

// Audit approves applications that have waited long enough.
func (s *State) Audit(now time.Time) {
	if s.Lag.Quotas <= 0 || len(s.QuotaApplications) == 0 {
		return
	}
	for _, a := range s.QuotaApplications {
		if a.Status == "Process" && !now.Before(a.At.Add(time.Duration(s.Lag.Quotas))) {
			a.Status = "Agree"
		}
	}
	s.agree()
}

func (s *State) quotaOf(product, code string) *Quota {
	for i := range s.Quotas {
		if u := &s.Quotas[i]; u.Product == product && u.Code == code {
			return u
		}
	}
	return nil
}

// Limit returns the limit with this name, or standard if the World has none.
func (s *State) Limit(name string, standard int) int {
	for _, q := range s.Quotas {
		if q.Name == name {
			return int(q.Total)
		}
	}
	return standard
}

// usage returns a quota's usage. The quota center shows 0 for limits of each load balancer or server.
func (s *State) usage(u *Quota) float64 {
	if n, ok := s.Used(u.Name); ok {
		return float64(n)
	}
	return u.Used
}

type rate struct {
	since time.Time
	calls float64
}

// Throttle rejects a call that exceeds a FlowControl quota of the account. Rejected calls do not count.
func (s *State) Throttle(q *core.Request) *core.Failure {
	for i := range s.Quotas {
		u := &s.Quotas[i]
		if u.Category != "FlowControl" || u.Product != q.Product.Name || u.Name != q.Action.Name {
			continue
		}
		r := s.rates[u.Code]
		if r == nil || q.Now.Sub(r.since) >= time.Duration(u.Period) {
			r = &rate{since: q.Now}
			s.rates[u.Code] = r
		}
		if r.calls >= u.Total {
			return core.Documented("Throttling.User")
		}
		r.calls++
	}
	return nil
}

// Product is the quota center (https://www.alibabacloud.com/help/en/quota-center/developer-reference/api-quotas-2020-05-10-overview).
func Product() *core.Product {
	return &core.Product{
		Name: "quotas", Version: "2020-05-10", Host: "quotas.aliyuncs.com", Refusal: core.NotAuthorized,
		Actions: map[string]*core.Action{
			"ListProducts":               {Do: on(listQuotaProducts)},
			"ListProductQuotaDimensions": {Do: on(listQuotaDimensions), Need: []string{"ProductCode"}},
			"ListProductQuotas":          {Do: on(listProductQuotas), Need: []string{"ProductCode"}},
			"GetProductQuota":            {Do: on(getProductQuota), Need: []string{"ProductCode", "QuotaActionCode"}},
			"CreateQuotaApplication":     {Do: on(createQuotaApplication), Need: []string{"ProductCode", "QuotaActionCode", "DesireValue", "Reason"}},
			"GetQuotaApplication":        {Do: on(getQuotaApplication), Need: []string{"ApplicationId"}},
			"ListQuotaApplications":      {Do: on(listQuotaApplications)},
			"CreateQuotaAlarm":           {Do: on(createQuotaAlarm), Need: []string{"ProductCode", "QuotaActionCode", "AlarmName"}},
		},
	}
}

type request struct {
	*core.Request
	state *State
}

func on(do func(*request) (any, *core.Failure)) func(*core.Request) (any, *core.Failure) {
	return func(q *core.Request) (any, *core.Failure) { return do(&request{q, core.Part[*State](q.State)}) }
}

func pageOfQuotas[T any](q *request, list []T, name string) (any, *core.Failure) {
	part, next, bad := core.Chunk(q.Params, list, 30, 200)
	if bad != nil {
		return nil, bad
	}
	return core.Reply{"TotalCount": len(list), "MaxResults": len(part), "NextToken": next, name: part}, nil
}

func listQuotaProducts(q *request) (any, *core.Failure) {
	names := map[string]string{}
	for _, u := range q.state.Quotas {
		names[u.Product] = strings.ToUpper(u.Product)
	}
	list := []core.Reply{}
	for _, code := range slices.Sorted(maps.Keys(names)) {
		list = append(list, core.Reply{
			"ProductCode": code, "ProductName": names[code], "ProductNameEn": names[code], "SecondCategoryId": 0, "CommonQuotaSupport": "support",
			"FlowControlSupport": "support", "Dynamic": true,
		})
	}
	return pageOfQuotas(q, list, "ProductInfo")
}

func listQuotaDimensions(q *request) (any, *core.Failure) {
	region := q.state.Region
	return pageOfQuotas(q, []core.Reply{{
		"DimensionKey": "regionId", "Name": "region", "Requisite": true, "DependentDimensions": []string{}, "DimensionValues": []string{region},
		"DimensionValueDetail": []core.Reply{{"Name": region, "Value": region}},
	}}, "QuotaDimensions")
}

func (u *Quota) show(s *State) core.Reply {
	e := core.Reply{
		"ProductCode": u.Product, "QuotaActionCode": u.Code, "QuotaName": u.Name, "QuotaDescription": u.Name, "QuotaCategory": u.Category,
		"QuotaType": "normal", "QuotaArn": s.quotaARN(u), "ApplicableType": "continuous", "Consumable": u.Category == "CommonQuota",
		"TotalQuota": u.Total, "TotalUsage": s.usage(u), "Adjustable": u.Adjustable, "ApplicableRange": []float64{}, "QuotaUnit": "Count",
		"GlobalQuota": false, "Dimensions": core.Reply{"regionId": s.Region},
	}
	switch {
	case !u.Adjustable:
		e["UnadjustableDetail"] = "limitReached"
	case s.pendingFor(u):
		e["Adjustable"], e["UnadjustableDetail"] = false, "applicationProcess"
	default:
		e["ApplicableRange"] = []float64{u.Total + 1, max(u.Max, u.Total+1)}
	}
	if u.Category == "FlowControl" {
		e["Period"] = u.period()
	}
	return e
}

// period returns a quota's period in its largest unit.
func (u *Quota) period() core.Reply {
	for _, of := range []struct {
		name string
		unit time.Duration
	}{{"day", 24 * time.Hour}, {"hour", time.Hour}, {"minute", time.Minute}} {
		if d := time.Duration(u.Period); d >= of.unit && d%of.unit == 0 {
			return core.Reply{"PeriodValue": int(d / of.unit), "PeriodUnit": of.name}
		}
	}
	return core.Reply{"PeriodValue": int(time.Duration(u.Period) / time.Second), "PeriodUnit": "second"}
}

func (s *State) quotaARN(u *Quota) string {
	return "acs:quotas:" + s.Region + ":" + s.AccountID + ":quota/" + u.Product + "/" + u.Code
}

func (s *State) pendingFor(u *Quota) bool {
	for _, a := range s.QuotaApplications {
		if a.Product == u.Product && a.Code == u.Code && a.Status == "Process" {
			return true
		}
	}
	return false
}

func listProductQuotas(q *request) (any, *core.Failure) {
	p := q.Params
	category := cmp.Or(p["QuotaCategory"], "CommonQuota")
	if !core.OneOf("CommonQuota,FlowControl,WhiteListLabel", category) {
		return nil, core.Invalid("QuotaCategory")
	}
	list := []core.Reply{}
	for i := range q.state.Quotas {
		u := &q.state.Quotas[i]
		if u.Product == p["ProductCode"] && core.Is(p["QuotaActionCode"], u.Code) && strings.Contains(u.Name, p["KeyWord"]) && u.Category == category {
			list = append(list, u.show(q.state))
		}
	}
	return pageOfQuotas(q, list, "Quotas")
}

func noQuota() *core.Failure {
	return core.Fail(http.StatusBadRequest, "QUOTA.NOT.FOUND", "The quota does not exist.")
}

func getProductQuota(q *request) (any, *core.Failure) {
	u := q.state.quotaOf(q.Params["ProductCode"], q.Params["QuotaActionCode"])
	if u == nil {
		return nil, noQuota()
	}
	return core.Reply{"Quota": u.show(q.state)}, nil
}

// createQuotaApplication stores an application. The quota is unchanged until Lag.Quotas has passed or a test edits it.
func createQuotaApplication(q *request) (any, *core.Failure) {
	p, s := q.Params, q.state
	u := s.quotaOf(p["ProductCode"], p["QuotaActionCode"])
	want, err := strconv.ParseFloat(p["DesireValue"], 64)
	switch {
	case u == nil:
		return nil, noQuota()
	case !u.Adjustable:
		return nil, core.Fail(http.StatusBadRequest, "QUOTA.NOT.ADJUSTABLE", "Quota is not adjustable")
	case p["NoticeType"] != "" && !core.OneOf("0,3", p["NoticeType"]):
		return nil, core.Fail(http.StatusBadRequest, "InvalidNoticeType", "Invalid NoticeType")
	case err != nil:
		return nil, core.Fail(http.StatusBadRequest, "InvalidDesireValue", "Invalid DesireValue")
	case s.pendingFor(u):
		return nil, core.Fail(http.StatusBadRequest, "QUOTA.APPLICATION.PROCESS", "The quota adjustment application is being processed. Please try again later.")
	case want <= u.Total || want > max(u.Max, u.Total+1):
		return nil, core.Fail(http.StatusBadRequest, "QUOTA.DESIREVALUE.ILLEGAL", "The applied quota value is invalid.")
	}
	a := &QuotaApplication{
		ID: strings.ToLower(core.RequestID()), Product: u.Product, Code: u.Code, Desired: want, Reason: p["Reason"], At: q.Now.UTC().Truncate(time.Second),
	}
	a.fill(s)
	s.QuotaApplications[a.ID] = a
	return a.show(s), nil
}

func (a *QuotaApplication) show(s *State) core.Reply {
	e := core.Reply{
		"ApplicationId": a.ID, "Status": a.Status, "ProductCode": a.Product, "QuotaActionCode": a.Code, "DesireValue": a.Desired, "ApproveValue": a.Approved,
		"Reason": a.Reason, "AuditReason": a.Opinion, "ApplyTime": a.At.Format(time.RFC3339), "QuotaUnit": "Count", "NoticeType": 0,
		"Dimension": core.Reply{"regionId": s.Region},
	}
	if u := s.quotaOf(a.Product, a.Code); u != nil {
		e["QuotaName"], e["QuotaDescription"], e["QuotaArn"] = u.Name, u.Name, s.quotaARN(u)
	}
	return e
}

func getQuotaApplication(q *request) (any, *core.Failure) {
	a := q.state.QuotaApplications[q.Params["ApplicationId"]]
	if a == nil {
		return nil, core.Fail(http.StatusBadRequest, "QUOTA.APPLICATION.NOT.FOUND", "Quota application does not exist")
	}
	return core.Reply{"QuotaApplication": a.show(q.state)}, nil
}

func listQuotaApplications(q *request) (any, *core.Failure) {
	p := q.Params
	if p["Status"] != "" && !core.OneOf("Agree,Disagree,Process,Cancel", p["Status"]) {
		return nil, core.Fail(http.StatusBadRequest, "InvalidStatus", "Invalid Status")
	}
	var some []*QuotaApplication
	for _, a := range q.state.QuotaApplications {
		u := q.state.quotaOf(a.Product, a.Code)
		if core.Is(p["ProductCode"], a.Product) && core.Is(p["QuotaActionCode"], a.Code) &&
			core.Is(p["Status"], a.Status) && (u == nil || core.Is(p["QuotaCategory"], u.Category)) {
			some = append(some, a)
		}
	}
	slices.SortFunc(some, func(a, b *QuotaApplication) int { return cmp.Or(b.At.Compare(a.At), strings.Compare(a.ID, b.ID)) })
	list := []core.Reply{}
	for _, a := range some {
		list = append(list, a.show(q.state))
	}
	return pageOfQuotas(q, list, "QuotaApplications")
}

func createQuotaAlarm(q *request) (any, *core.Failure) {
	if q.state.quotaOf(q.Params["ProductCode"], q.Params["QuotaActionCode"]) == nil {
		return nil, noQuota()
	}
	return core.Reply{"AlarmId": strings.ToLower(core.RequestID())}, nil
}
