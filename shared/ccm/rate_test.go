package ccm_test

import (
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
)

func TestDescribeRates(t *testing.T) {
	for _, tt := range []struct {
		limit cloud.Quota
		want  string
	}{
		{cloud.Quota{Total: 50.5}, "api: 50.5 calls"},
		{cloud.Quota{Total: 10, Period: time.Second}, "api: 10 calls per second"},
		{cloud.Quota{Total: 10, Period: time.Minute, Most: 20}, "api: 10 calls per minute"},
		{cloud.Quota{Total: 10, Period: time.Hour, Adjustable: true}, "api: 10 calls per hour"},
		{cloud.Quota{Total: 10, Period: 24 * time.Hour, Adjustable: true, Most: 20}, "api: 10 calls per day (can be raised to 20)"},
		{cloud.Quota{Total: 10, Period: 10 * time.Second}, "api: 10 calls in 10s"},
	} {
		tt.limit.Name = "api"
		if got := ccm.DescribeRates([]cloud.Quota{tt.limit}).String(); got != tt.want {
			t.Errorf("%+v: got %q, want %q", tt.limit, got, tt.want)
		}
	}
}
