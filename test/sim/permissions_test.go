package sim_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/test/sim"
)

func TestPermissions(t *testing.T) {
	for call, want := range map[[2]string][]string{
		{"slb", "TagResources"}:           {"slb:TagResources"},
		{"bss", "QueryAccountBalance"}:    {"bss:DescribeAcccount", "bssapi:QueryAccountBalance", "bss:QueryAccountBalance"},
		{"slb", "QueryAccountBalance"}:    nil,
		{"nowhere", "DescribeEverything"}: nil,
		{"cs", "DescribeClusterDetail"}:   {"cs:DescribeClusterDetail", "cs:GetClusterById"},
		{"quotas", "ListProductQuotas"}:   {"quotas:ListProductQuotas"},
		{"nlb", "ListLoadBalancers"}:      {"nlb:ListLoadBalancers"},
		{"ram", "ListPoliciesForRole"}:    {"ram:ListPoliciesForRole"},
		{"vpc", "DescribeVSwitches"}:      {"vpc:DescribeVSwitches"},
		{"workorder", "CreateTicket"}:     {"workorder:CreateTicket"},
		{"sts", "GetCallerIdentity"}:      {"sts:GetCallerIdentity"},
		{"ecs", "DescribeSecurityGroups"}: {"ecs:DescribeSecurityGroups"},
		{"slb", "DescribeLoadBalancers"}:  {"slb:DescribeLoadBalancers"},
		{"slb", "describeloadbalancers"}:  nil,
	} {
		if diff := cmp.Diff(want, sim.Permissions(call[0], call[1])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", call, diff)
		}
	}
}
