package ccm_test

import (
	"testing"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
)

func TestShared(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name          string
		lb            *ccm.Instance
		shared, known bool
	}{
		{"a spec", ccm.Classic(cloud.LoadBalancer{Spec: ccm.SmallSpec, ChargeType: ccm.PayBySpec}), false, true},
		{"a spec, and no charge type", ccm.Classic(cloud.LoadBalancer{Spec: ccm.SmallSpec}), false, true},
		{"by LCU", ccm.Classic(cloud.LoadBalancer{ChargeType: ccm.PayByLCU}), false, true},
		{"by spec without one", ccm.Classic(cloud.LoadBalancer{ChargeType: ccm.PayBySpec}), true, true},
		{"nothing said", ccm.Classic(cloud.LoadBalancer{}), false, false},
		{"an NLB", ccm.Network(cloud.NetworkLoadBalancer{}), false, true},
	} {
		if shared, known := tt.lb.Shared(); shared != tt.shared || known != tt.known {
			t.Errorf("%s: got %v, %v", tt.name, shared, known)
		}
	}
}
