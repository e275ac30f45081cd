package ccm_test

import (
	"testing"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/test/fixture"
)

func TestOtherVPCs(t *testing.T) {
	in := func(name string, vpcs ...string) cloud.VServerGroup {
		g := cloud.VServerGroup{Name: name}
		for _, vpc := range vpcs {
			g.Backends = append(g.Backends, cloud.Backend{VPC: vpc})
		}
		return g
	}
	for want, lb := range map[string]*ccm.Instance{
		"vpc-2 (the default group, a, b); vpc-3 (a)": ccm.Classic(cloud.LoadBalancer{Backends: in("", "vpc-2", "").Backends}),
		"vpc-2 (a, b); vpc-3 (a)":                    ccm.Classic(cloud.LoadBalancer{}),
	} {
		got := ccm.OtherVPCs("vpc-1", lb, []cloud.VServerGroup{in("b", "vpc-2", "vpc-1"), in("a", "vpc-3", "vpc-2", "vpc-2"), in("c", "vpc-1", "")})
		fixture.Equal(t, say.Clauses(got, len(got)).String(), want)
	}
	if got := ccm.OtherVPCs("vpc-1", ccm.Network(cloud.NetworkLoadBalancer{}), nil); len(got) > 0 {
		t.Errorf("an NLB without groups has backends in %s", got)
	}
}
