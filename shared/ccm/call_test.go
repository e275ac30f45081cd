package ccm_test

import (
	"testing"

	"github.com/lbremedy/lbremedy/shared/ccm"
)

// Only messages of ECS and VPC name the API that was called, and the action that was refused.
func TestMessages(t *testing.T) {
	for _, tt := range []struct {
		message          string
		network          bool
		product, refused string
	}{
		{"Throttling.User: Request was denied due to user flow control", false, "slb", ""},
		{"Throttling.User: Request was denied due to user flow control", true, "nlb", ""},
		{"[Throttling] call DescribeNetworkInterfaces error", true, "ecs", ""},
		{"API: DescribeVSwitches, Request was denied", false, "vpc", ""},
		{`Forbidden.RAM: "AuthAction:vpc:CreateRouteEntries"`, false, "slb", "vpc:CreateRouteEntries"},
	} {
		if got := ccm.ProductOf(tt.message, tt.network); got != tt.product {
			t.Errorf("%s: product %s, want %s", tt.message, got, tt.product)
		}
		if got := ccm.Refused(tt.message); got != tt.refused {
			t.Errorf("%s: refused %q, want %q", tt.message, got, tt.refused)
		}
	}
}

// A provider ID is a region and an instance.
func TestSplitProviderID(t *testing.T) {
	for id, want := range map[string][2]string{
		"cn-hangzhou.i-1": {"cn-hangzhou", "i-1"}, "alicloud://cn-hangzhou.i-1": {"cn-hangzhou", "i-1"},
		"": {}, "cn-hangzhou.": {}, ".i-1": {}, "i-1": {}, "aws:///eu/i-1": {}, "cn-hangzhou.i 1": {},
	} {
		region, instance, ok := ccm.SplitProviderID(id)
		if ok != (want[0] != "") || ok && (region != want[0] || instance != want[1]) {
			t.Errorf("%q: %q %q %v", id, region, instance, ok)
		}
	}
}
