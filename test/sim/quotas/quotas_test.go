package quotas_test

import (
	"testing"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/bssopenapi"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/quotas"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/slb"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/simtest"
)

func TestQuotasAndBalance(t *testing.T) {
	c := sim.New(t, &sim.World{Account: sim.Account{Balance: "1,234.56"}})
	client := simtest.Dial(t, c, c.Admin(), quotas.NewClientWithOptions)
	r := quotas.CreateListProductQuotasRequest()
	r.ProductCode, r.KeyWord = "slb", "slb_quota_backendservers_num"
	list, err := client.ListProductQuotas(r)
	simtest.Check(t, err)
	if len(list.Quotas) != 1 || list.Quotas[0].TotalQuota != 200 || !list.Quotas[0].Adjustable || list.Quotas[0].QuotaActionCode == "" {
		t.Fatalf("got %+v", list.Quotas)
	}
	a := quotas.CreateCreateQuotaApplicationRequest()
	a.ProductCode, a.QuotaActionCode, a.DesireValue, a.Reason = "slb", list.Quotas[0].QuotaActionCode, requests.NewFloat(300), "more backends"
	app, err := client.CreateQuotaApplication(a)
	simtest.Check(t, err)
	if app.Status != "Process" || app.DesireValue != 300 {
		t.Errorf("got %+v", app)
	}
	b, err := simtest.Dial(t, c, c.Client("money", "bss:DescribeAcccount"), bssopenapi.NewClientWithOptions).
		QueryAccountBalance(bssopenapi.CreateQueryAccountBalanceRequest())
	simtest.Check(t, err)
	if !b.Success || b.Data.AvailableAmount != "1,234.56" || b.Data.Currency != "CNY" {
		t.Errorf("got %+v", b)
	}
}

func TestQuotaApplications(t *testing.T) {
	c := sim.New(t, &sim.World{
		Quotas: []sim.Quota{
			{Name: "slb_quota_backendservers_num", Code: "q_b", Total: 200, Max: 400, Adjustable: true},
			{Name: "slb_quota_rules_num", Code: "q_r", Total: 40},
		},
		QuotaApplications: []sim.QuotaApplication{{ID: "app-old", Code: "q_b", Desired: 220, Status: "Disagree", Opinion: "too soon",
			At: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)}},
	})
	client := simtest.Dial(t, c, c.Admin(), quotas.NewClientWithOptions)
	get := func() quotas.Quota {
		t.Helper()
		r := quotas.CreateGetProductQuotaRequest()
		r.ProductCode, r.QuotaActionCode = "slb", "q_b"
		resp, err := client.GetProductQuota(r)
		simtest.Check(t, err)
		return resp.Quota
	}
	apply := func(code string, value float64) (*quotas.CreateQuotaApplicationResponse, error) {
		r := quotas.CreateCreateQuotaApplicationRequest()
		r.ProductCode, r.QuotaActionCode, r.DesireValue, r.Reason = "slb", code, requests.NewFloat(value), "more"
		return client.CreateQuotaApplication(r)
	}
	if q := get(); q.TotalQuota != 200 || !q.Adjustable || q.ApplicableRange[0] != 201 || q.ApplicableRange[1] != 400 {
		t.Errorf("got %+v", q)
	}
	_, err := apply("q_b", 401)
	simtest.Refused(t, err, "QUOTA.DESIREVALUE.ILLEGAL", 400)
	_, err = apply("q_r", 50)
	simtest.Refused(t, err, "QUOTA.NOT.ADJUSTABLE", 400)
	_, err = apply("q_x", 50)
	simtest.Refused(t, err, "QUOTA.NOT.FOUND", 400)
	app, err := apply("q_b", 240)
	simtest.Check(t, err)
	if app.Status != "Process" || app.DesireValue != 240 {
		t.Errorf("got %+v", app)
	}
	if q := get(); q.TotalQuota != 200 || q.Adjustable || q.UnadjustableDetail != "applicationProcess" {
		t.Errorf("while an application pends: got %+v", q)
	}
	_, err = apply("q_b", 260)
	simtest.Refused(t, err, "QUOTA.APPLICATION.PROCESS", 400)
	c.Edit(func(s *sim.State) { s.QuotaApplications[app.ApplicationId].Status = "Agree" })
	if q := get(); q.TotalQuota != 240 {
		t.Errorf("agreed to: got %+v", q)
	}
	l := quotas.CreateListQuotaApplicationsRequest()
	l.ProductCode = "slb"
	all, err := client.ListQuotaApplications(l)
	simtest.Check(t, err)
	if a := all.QuotaApplications; len(a) != 2 || a[0].Status != "Agree" || a[0].ApproveValue != 240 || a[1].Status != "Disagree" ||
		a[1].AuditReason != "too soon" {
		t.Errorf("got %+v", a)
	}
	l.Status = "Done"
	_, err = client.ListQuotaApplications(l)
	simtest.Refused(t, err, "InvalidStatus", 400)
}

func TestFlowControl(t *testing.T) {
	now := time.Now()
	c := sim.New(t, &sim.World{Quotas: []sim.Quota{{Category: "FlowControl", Name: "DescribeLoadBalancers", Total: 3, Period: sim.Duration(time.Minute)}}},
		sim.WithClock(func() time.Time { return now }))
	one, other := simtest.Dial(t, c, c.Client("one", "slb:*"), slb.NewClientWithOptions), simtest.Dial(t, c, c.Client("other", "slb:*"), slb.NewClientWithOptions)
	list := func(client *slb.Client) error {
		_, err := client.DescribeLoadBalancers(slb.CreateDescribeLoadBalancersRequest())
		return err
	}
	for _, client := range []*slb.Client{one, other, one} { // the account's calls count, not the caller's
		simtest.Check(t, list(client))
	}
	if e := simtest.Refused(t, list(other), "Throttling.User", 400); e.Message() != "Request was denied due to user flow control." {
		t.Errorf("got %q", e.Message())
	}
	_, err := one.DescribeTags(slb.CreateDescribeTagsRequest()) // has no limit
	simtest.Check(t, err)
	c.Edit(func(*sim.State) { now = now.Add(time.Minute) })
	simtest.Check(t, list(other))
	r := quotas.CreateListProductQuotasRequest()
	r.ProductCode, r.QuotaCategory = "slb", "FlowControl"
	got, err := simtest.Dial(t, c, c.Admin(), quotas.NewClientWithOptions).ListProductQuotas(r)
	simtest.Check(t, err)
	if q := got.Quotas; len(q) != 1 || q[0].TotalQuota != 3 || q[0].Period.PeriodUnit != "minute" || q[0].Period.PeriodValue != 1 {
		t.Errorf("got %+v", q)
	}
}
