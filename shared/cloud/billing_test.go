package cloud

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAmounts(t *testing.T) {
	for in, want := range map[string]string{
		`"1,234.56"`: "1234.56", `"1,234,567.8"`: "1234567.80", `"-1,234.56"`: "-1234.56", `"0.00"`: "0.00", `"-0.10"`: "-0.10", `12.5`: "12.50", `"100"`: "100.00",
		`"1234.56"`: "1234.56", `"99.999"`: "99.99", `"-0.001"`: "-0.01", `" 7.00 "`: "7.00", `-3`: "-3.00",
	} {
		var a Amount
		if err := json.Unmarshal([]byte(in), &a); err != nil || a.String() != want {
			t.Errorf("%s: got %s and %v, want %s", in, a, err, want)
		}
	}
	for _, in := range []string{`""`, `"-"`, `"1,23.00"`, `",123"`, `"1234,567.00"`, `"1.2.3"`, `"1e9"`, `"--1"`, `"CNY 5"`, `"1.-5"`, `true`, `{}`, `[1]`,
		`"92233720368547758070"`} {
		var a Amount
		if err := json.Unmarshal([]byte(in), &a); err == nil {
			t.Errorf("%s became %s", in, a)
		}
	}
}

func TestShortfall(t *testing.T) {
	for _, tt := range []struct {
		balance Balance
		text    string
		lacks   Amount
		known   bool
	}{
		{Balance{-50_00, "CNY"}, "CNY -50.00", 150_00, true},
		{Balance{99_99, "CNY"}, "CNY 99.99", 1, true},
		{Balance{100_00, "CNY"}, "CNY 100.00", 0, true},
		{Balance{0, "USD"}, "USD 0.00", 100_00, false},
	} {
		lacks, known := tt.balance.Shortfall()
		if got := tt.balance.String(); got != tt.text || lacks != tt.lacks || known != tt.known {
			t.Errorf("%s lacks %s, known: %t; want %s, %s, %t", got, lacks, known, tt.text, tt.lacks, tt.known)
		}
	}
}

func TestBalanceThatIsRefused(t *testing.T) {
	_, err := wire(t, says(200, `{"RequestId":"R","Success":false,"Code":"NotAuthorized","Message":"You have no permission."}`)).Billing.Balance(t.Context())
	if e, ok := errors.AsType[*Error](err); !ok || e.Product != "bssopenapi" || e.Message != "You have no permission." || !errors.Is(err, ErrDenied) {
		t.Errorf("got %v, want ErrDenied", err)
	}
}

// Numbers come with or without quotes, and in several pages.
func TestQuotas(t *testing.T) {
	page := map[string]string{
		"": `{"RequestId":"R","TotalCount":2,"NextToken":"1","Quotas":[{"ProductCode":"slb","QuotaActionCode":"q_2","QuotaName":"DescribeLoadBalancers",
			"QuotaDescription":"calls",
			"TotalQuota":"300","TotalUsage":null,"Adjustable":false,"UnadjustableDetail":"limitReached",
			"ApplicableRange":[],"Period":{"PeriodValue":1,"PeriodUnit":"minute"},
			"Dimensions":{"regionId":"cn-hangzhou"}}]}`,
		"1": `{"RequestId":"R","TotalCount":2,"NextToken":"","Quotas":[{"ProductCode":"slb","QuotaActionCode":"q_1","QuotaName":"AddTags",
			"TotalQuota":10,"TotalUsage":2.5,
			"Adjustable":true,"ApplicableRange":[30,20],"ApplicableType":"discontinuous","Period":{}}]}`,
	}
	c := wire(t, func(w http.ResponseWriter, r *http.Request) { says(200, page[r.FormValue("NextToken")])(w, r) })
	got, err := c.Quotas.List(t.Context(), "slb", FlowControl, "")
	want := []Quota{
		{Product: "slb", Code: "q_1", Name: "AddTags", Total: 10, Used: 2.5, Adjustable: true, Least: 20, Most: 30, Steps: []float64{30, 20},
			Dimensions: map[string]string{}},
		{Product: "slb", Code: "q_2", Name: "DescribeLoadBalancers", Description: "calls", Total: 300, Why: "limitReached", Period: time.Minute,
			Dimensions: map[string]string{"regionId": "cn-hangzhou"}},
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	for _, n := range []string{`true`, `"many"`, `{}`} {
		body := fmt.Sprintf(`{"RequestId":"R","TotalCount":1,"Quotas":[{"QuotaActionCode":"q","QuotaName":"n","TotalQuota":%s,"Adjustable":true}]}`, n)
		if _, err := wire(t, says(200, body)).Quotas.List(t.Context(), "slb", FlowControl, ""); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: got %v, want an answer that can't be used", n, err)
		}
	}
}

// A pair of zones counts only for the kind that was asked for.
func TestAvailable(t *testing.T) {
	const pair = `{"MasterZoneId":%q,"SlaveZoneId":%q,"SupportResources":{"SupportResource":[{"AddressType":%q,"AddressIPVersion":"ipv4"}]}}`
	body := fmt.Sprintf(`{"RequestId":"R","AvailableResources":{"AvailableResource":[`+pair+`,`+pair+`,`+pair+`]}}`,
		"z-b", "z-a", "classic_internet", "z-a", "z-b", "classic_internet", "z-c", "z-d", "vpc")
	got, err := wire(t, says(200, body)).SLB.Available(t.Context(), "internet", "ipv4")
	if d := cmp.Diff([]ZonePair{{"z-a", "z-b"}, {"z-b", "z-a"}}, got); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
}
