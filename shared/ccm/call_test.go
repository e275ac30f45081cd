package ccm_test

import (
	"testing"

	"github.com/lbremedy/lbremedy/shared/ccm"
)

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

func TestEndpointOf(t *testing.T) {
	for message, want := range map[string]string{
		"dial tcp: lookup SLB.aliyuncs.com on 10.0.0.1:53: no such host":          "slb.aliyuncs.com",
		`Post "https://slb.aliyuncs.com/": dial tcp 100.100.0.1:443: i/o timeout`: "slb.aliyuncs.com",
		"dial tcp [2401:b180::1]:443: connect: no route to host":                  "[2401:b180::1]:443",
		"dial tcp 100.100.0.1:443: connect: connection refused":                   "100.100.0.1:443",
		"The system is busy.": "",
		"Error syncing load balancer [lb-1]: dial tcp: something that names no host": "",
	} {
		if got := ccm.EndpointOf(message); got != want {
			t.Errorf("%s: got %q, want %q", message, got, want)
		}
	}
}

func TestBalancerOf(t *testing.T) {
	for message, want := range map[string]string{
		"Error syncing load balancer [lb-1]: Message: The system is busy.": "lb-1",
		"Error syncing load balancer [nlb-9]: busy":                        "nlb-9",
		"Error syncing load balancer []: busy":                             "",
		"Error syncing load balancer [../lb-1?x=]: busy":                   "",
	} {
		if got := ccm.BalancerOf(message); got != want {
			t.Errorf("%s: got %q, want %q", message, got, want)
		}
	}
}
