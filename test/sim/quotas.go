package sim

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
)

// A Quota is a limit of the quota center. One of the category FlowControl says
// how often an action may be called in a Period; calls beyond it are throttled.
type Quota struct {
	Product    string   `json:"product,omitempty"`  // slb if empty
	Code       string   `json:"code,omitempty"`     // opaque, such as q_hvnoqv
	Name       string   `json:"name,omitempty"`     // such as slb_quota_backendservers_num, or an action
	Category   string   `json:"category,omitempty"` // CommonQuota if empty, or FlowControl
	Total      float64  `json:"total,omitempty"`
	Used       float64  `json:"used,omitempty"` // shown where the simulator does not count it
	Adjustable bool     `json:"adjustable,omitempty"`
	Max        float64  `json:"max,omitempty"`    // of the range that can be asked for
	Period     Duration `json:"period,omitempty"` // of FlowControl: a minute if 0
}

// A QuotaApplication asks for a higher quota. It pends until Lag.Quotas has
// passed or somebody sets Status.
type QuotaApplication struct {
	ID       string    `json:"id,omitempty"`
	Product  string    `json:"product,omitempty"` // slb if empty
	Code     string    `json:"code,omitempty"`    // of the quota
	Desired  float64   `json:"desired,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	Status   string    `json:"status,omitempty"` // Process if empty, Agree, Disagree or Cancel
	Opinion  string    `json:"opinion,omitempty"`
	Approved float64   `json:"approved,omitempty"` // Desired if it is 0 and agreed to
	At       time.Time `json:"at,omitzero"`
}

// The names of the quotas of CLB and of the routes of a VPC that are enforced:
// https://www.alibabacloud.com/help/en/slb/classic-load-balancer/user-guide/quotas
const (
	quotaCLBs         = "slb_quota_instances_num"
	quotaListeners    = "slb_quota_listeners_num"
	quotaBackends     = "slb_quota_backendservers_num"
	quotaAttached     = "slb_quota_backendserver_attached_num"
	quotaRules        = "slb_quota_rules_num"
	quotaDomains      = "slb_quota_domain_extensions_num"
	quotaCertificates = "slb_quota_certs_num"
	quotaACLs         = "slb_quota_acls_num"
	quotaACLEntries   = "slb_quota_acl_entries_num"
	quotaRoutes       = "vpc_quota_route_entrys_num"
)

// usualQuotas are the limits that an account starts with.
func usualQuotas() []Quota {
	return []Quota{
		{Name: quotaCLBs, Total: 60, Max: 500, Adjustable: true},
		{Name: quotaListeners, Total: 50, Max: 100, Adjustable: true},
		{Name: quotaBackends, Total: 200, Max: 400, Adjustable: true},
		{Name: quotaAttached, Total: 50, Max: 100, Adjustable: true},
		{Name: quotaRules, Total: 40},
		{Name: quotaDomains, Total: 3, Max: 10, Adjustable: true},
		{Name: quotaCertificates, Total: 100, Max: 500, Adjustable: true},
		{Name: quotaACLs, Total: 200, Max: 500, Adjustable: true},
		{Name: quotaACLEntries, Total: 300, Max: 1000, Adjustable: true},
		{Product: "nlb", Name: quotaNLBs, Total: 60, Max: 500, Adjustable: true},
		{Product: "nlb", Name: quotaServers, Total: 400, Max: 1000, Adjustable: true},
		{Product: "nlb", Name: quotaNLBListeners, Total: 50, Max: 100, Adjustable: true},
		{Product: "vpc", Name: quotaRoutes, Total: 200, Max: 1000, Adjustable: true},
	}
}

// fillQuotas fills in the quotas and what was applied for.
func fillQuotas(s *State, w *World) error {
	s.Quotas = w.Quotas
	if s.Quotas == nil {
		s.Quotas = usualQuotas()
	}
	for i := range s.Quotas {
		s.Quotas[i].fill()
	}
	var errs []error
	s.QuotaApplications, errs = index(errs, "quota application", w.QuotaApplications, func(a *QuotaApplication) string { return a.ID }, func(i int, a *QuotaApplication) {
		a.ID = cmp.Or(a.ID, fmt.Sprintf("app-%d", i+1))
		a.fill(s)
	})
	for _, a := range s.QuotaApplications {
		if s.quotaOf(a.Product, a.Code) == nil {
			errs = append(errs, fmt.Errorf("quota application %s: there is no quota %s of %s", a.ID, a.Code, a.Product))
		}
		if !oneOf("Process,Agree,Disagree,Cancel", a.Status) {
			errs = append(errs, fmt.Errorf("quota application %s: bad status %q", a.ID, a.Status))
		}
	}
	s.agree()
	return errors.Join(errs...)
}

func (u *Quota) fill() {
	u.Product, u.Category = cmp.Or(u.Product, "slb"), cmp.Or(u.Category, "CommonQuota")
	u.Code = cmp.Or(u.Code, "q_"+strings.ToLower(derive(u.Product+u.Name, 6)))
	if u.Category == "FlowControl" {
		u.Period = cmp.Or(u.Period, Duration(time.Minute))
	}
}

func (a *QuotaApplication) fill(s *State) {
	a.Product, a.Status = cmp.Or(a.Product, "slb"), cmp.Or(a.Status, "Process")
	if a.At.IsZero() {
		a.At = s.started
	}
}

// agree raises the quotas whose applications were agreed to just now.
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

// audit agrees to the applications that have waited long enough.
func (s *State) audit(now time.Time) {
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

// quotaOf returns the quota of a product with this code, or nil.
func (s *State) quotaOf(product, code string) *Quota {
	for i := range s.Quotas {
		if u := &s.Quotas[i]; u.Product == product && u.Code == code {
			return u
		}
	}
	return nil
}

// quota returns the limit of this name, or standard if the World has none.
func (s *State) quota(name string, standard int) int {
	for _, q := range s.Quotas {
		if q.Name == name {
			return int(q.Total)
		}
	}
	return standard
}

// usage returns how much of a quota is used. Of a limit that is for each load
// balancer or server, the quota center shows nothing as used.
func (s *State) usage(u *Quota) float64 {
	switch u.Name {
	case quotaCLBs:
		return float64(len(s.LoadBalancers))
	case quotaNLBs:
		return float64(len(s.NLBs))
	case quotaCertificates:
		return float64(len(s.Certificates))
	}
	return u.Used
}

// rate counts the calls of an action in the present period.
type rate struct {
	since time.Time
	calls float64
}

// throttle refuses a call beyond what a quota of the category FlowControl
// allows the account. A call that is refused does not count.
func (q *request) throttle() *failure {
	s := q.state
	for i := range s.Quotas {
		u := &s.Quotas[i]
		if u.Category != "FlowControl" || u.Product != q.product.name || u.Name != q.action.name {
			continue
		}
		r := s.rates[u.Code]
		if r == nil || q.now.Sub(r.since) >= time.Duration(u.Period) {
			r = &rate{since: q.now}
			s.rates[u.Code] = r
		}
		if r.calls >= u.Total {
			return documented("Throttling.User")
		}
		r.calls++
	}
	return nil
}

// quotas is the quota center:
// https://www.alibabacloud.com/help/en/quota-center/developer-reference/api-quotas-2020-05-10-overview
func quotas() *product {
	return &product{
		name: "quotas", version: "2020-05-10", host: "quotas.aliyuncs.com", refusal: notAuthorized,
		actions: map[string]*action{
			"ListProducts":               {do: listQuotaProducts},
			"ListProductQuotaDimensions": {do: listQuotaDimensions, need: []string{"ProductCode"}},
			"ListProductQuotas":          {do: listProductQuotas, need: []string{"ProductCode"}},
			"GetProductQuota":            {do: getProductQuota, need: []string{"ProductCode", "QuotaActionCode"}},
			"CreateQuotaApplication":     {do: createQuotaApplication, need: []string{"ProductCode", "QuotaActionCode", "DesireValue", "Reason"}},
			"GetQuotaApplication":        {do: getQuotaApplication, need: []string{"ApplicationId"}},
			"ListQuotaApplications":      {do: listQuotaApplications},
			"CreateQuotaAlarm":           {do: createQuotaAlarm, need: []string{"ProductCode", "QuotaActionCode", "AlarmName"}},
		},
	}
}

// pageOfQuotas answers with the part of a list that is asked for.
func pageOfQuotas[T any](q *request, list []T, name string) (any, *failure) {
	part, next, bad := chunk(q.params, list, 30, 200)
	if bad != nil {
		return nil, bad
	}
	return reply{"TotalCount": len(list), "MaxResults": len(part), "NextToken": next, name: part}, nil
}

func listQuotaProducts(q *request) (any, *failure) {
	names := map[string]string{}
	for _, u := range q.state.Quotas {
		names[u.Product] = strings.ToUpper(u.Product)
	}
	list := []reply{}
	for _, code := range slices.Sorted(maps.Keys(names)) {
		list = append(list, reply{
			"ProductCode": code, "ProductName": names[code], "ProductNameEn": names[code], "SecondCategoryId": 0, "CommonQuotaSupport": "support",
			"FlowControlSupport": "support", "Dynamic": true,
		})
	}
	return pageOfQuotas(q, list, "ProductInfo")
}

func listQuotaDimensions(q *request) (any, *failure) {
	region := q.state.Region
	return pageOfQuotas(q, []reply{{
		"DimensionKey": "regionId", "Name": "region", "Requisite": true, "DependentDimensions": []string{}, "DimensionValues": []string{region},
		"DimensionValueDetail": []reply{{"Name": region, "Value": region}},
	}}, "QuotaDimensions")
}

// show is what answers say of a quota.
func (u *Quota) show(s *State) reply {
	e := reply{
		"ProductCode": u.Product, "QuotaActionCode": u.Code, "QuotaName": u.Name, "QuotaDescription": u.Name, "QuotaCategory": u.Category,
		"QuotaType": "normal", "QuotaArn": s.quotaARN(u), "ApplicableType": "continuous", "Consumable": u.Category == "CommonQuota",
		"TotalQuota": u.Total, "TotalUsage": s.usage(u), "Adjustable": u.Adjustable, "ApplicableRange": []float64{}, "QuotaUnit": "Count",
		"GlobalQuota": false, "Dimensions": reply{"regionId": s.Region},
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

// period returns the period of a quota in its largest unit.
func (u *Quota) period() reply {
	for _, of := range []struct {
		name string
		unit time.Duration
	}{{"day", 24 * time.Hour}, {"hour", time.Hour}, {"minute", time.Minute}} {
		if d := time.Duration(u.Period); d >= of.unit && d%of.unit == 0 {
			return reply{"PeriodValue": int(d / of.unit), "PeriodUnit": of.name}
		}
	}
	return reply{"PeriodValue": int(time.Duration(u.Period) / time.Second), "PeriodUnit": "second"}
}

func (s *State) quotaARN(u *Quota) string {
	return "acs:quotas:" + s.Region + ":" + s.AccountID + ":quota/" + u.Product + "/" + u.Code
}

// pendingFor reports whether an application for a quota is not decided about.
func (s *State) pendingFor(u *Quota) bool {
	for _, a := range s.QuotaApplications {
		if a.Product == u.Product && a.Code == u.Code && a.Status == "Process" {
			return true
		}
	}
	return false
}

func listProductQuotas(q *request) (any, *failure) {
	p := q.params
	category := cmp.Or(p["QuotaCategory"], "CommonQuota")
	if !oneOf("CommonQuota,FlowControl,WhiteListLabel", category) {
		return nil, invalid("QuotaCategory")
	}
	list := []reply{}
	for i := range q.state.Quotas {
		u := &q.state.Quotas[i]
		if u.Product == p["ProductCode"] && is(p["QuotaActionCode"], u.Code) && strings.Contains(u.Name, p["KeyWord"]) && u.Category == category {
			list = append(list, u.show(q.state))
		}
	}
	return pageOfQuotas(q, list, "Quotas")
}

func noQuota() *failure {
	return fail(http.StatusBadRequest, "QUOTA.NOT.FOUND", "The quota does not exist.")
}

func getProductQuota(q *request) (any, *failure) {
	u := q.state.quotaOf(q.params["ProductCode"], q.params["QuotaActionCode"])
	if u == nil {
		return nil, noQuota()
	}
	return reply{"Quota": u.show(q.state)}, nil
}

// createQuotaApplication takes an application, which somebody will look at: the
// quota stays as it is until Lag.Quotas has passed or a test edits it.
func createQuotaApplication(q *request) (any, *failure) {
	p, s := q.params, q.state
	u := s.quotaOf(p["ProductCode"], p["QuotaActionCode"])
	want, err := strconv.ParseFloat(p["DesireValue"], 64)
	switch {
	case u == nil:
		return nil, noQuota()
	case !u.Adjustable:
		return nil, fail(http.StatusBadRequest, "QUOTA.NOT.ADJUSTABLE", "Quota is not adjustable")
	case p["NoticeType"] != "" && !oneOf("0,3", p["NoticeType"]):
		return nil, fail(http.StatusBadRequest, "InvalidNoticeType", "Invalid NoticeType")
	case err != nil:
		return nil, fail(http.StatusBadRequest, "InvalidDesireValue", "Invalid DesireValue")
	case s.pendingFor(u):
		return nil, fail(http.StatusBadRequest, "QUOTA.APPLICATION.PROCESS", "The quota adjustment application is being processed. Please try again later.")
	case want <= u.Total || want > max(u.Max, u.Total+1):
		return nil, fail(http.StatusBadRequest, "QUOTA.DESIREVALUE.ILLEGAL", "The applied quota value is invalid.")
	}
	a := &QuotaApplication{
		ID: strings.ToLower(requestID()), Product: u.Product, Code: u.Code, Desired: want, Reason: p["Reason"], At: q.now.UTC().Truncate(time.Second),
	}
	a.fill(s)
	s.QuotaApplications[a.ID] = a
	return a.show(s), nil
}

// show is what answers say of an application.
func (a *QuotaApplication) show(s *State) reply {
	e := reply{
		"ApplicationId": a.ID, "Status": a.Status, "ProductCode": a.Product, "QuotaActionCode": a.Code, "DesireValue": a.Desired, "ApproveValue": a.Approved,
		"Reason": a.Reason, "AuditReason": a.Opinion, "ApplyTime": a.At.Format(time.RFC3339), "QuotaUnit": "Count", "NoticeType": 0,
		"Dimension": reply{"regionId": s.Region},
	}
	if u := s.quotaOf(a.Product, a.Code); u != nil {
		e["QuotaName"], e["QuotaDescription"], e["QuotaArn"] = u.Name, u.Name, s.quotaARN(u)
	}
	return e
}

func getQuotaApplication(q *request) (any, *failure) {
	a := q.state.QuotaApplications[q.params["ApplicationId"]]
	if a == nil {
		return nil, fail(http.StatusBadRequest, "QUOTA.APPLICATION.NOT.FOUND", "Quota application does not exist")
	}
	return reply{"QuotaApplication": a.show(q.state)}, nil
}

func listQuotaApplications(q *request) (any, *failure) {
	p := q.params
	if p["Status"] != "" && !oneOf("Agree,Disagree,Process,Cancel", p["Status"]) {
		return nil, fail(http.StatusBadRequest, "InvalidStatus", "Invalid Status")
	}
	var some []*QuotaApplication
	for _, a := range q.state.QuotaApplications {
		u := q.state.quotaOf(a.Product, a.Code)
		if is(p["ProductCode"], a.Product) && is(p["QuotaActionCode"], a.Code) && is(p["Status"], a.Status) && (u == nil || is(p["QuotaCategory"], u.Category)) {
			some = append(some, a)
		}
	}
	slices.SortFunc(some, func(a, b *QuotaApplication) int { return cmp.Or(b.At.Compare(a.At), strings.Compare(a.ID, b.ID)) })
	list := []reply{}
	for _, a := range some {
		list = append(list, a.show(q.state))
	}
	return pageOfQuotas(q, list, "QuotaApplications")
}

func createQuotaAlarm(q *request) (any, *failure) {
	if q.state.quotaOf(q.params["ProductCode"], q.params["QuotaActionCode"]) == nil {
		return nil, noQuota()
	}
	return reply{"AlarmId": strings.ToLower(requestID())}, nil
}
