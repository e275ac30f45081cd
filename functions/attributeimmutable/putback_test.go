package attributeimmutable

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// TestPutRightMeanwhile checks that the class waits if the load balancer was fixed after stillFails read it.
func TestPutRightMeanwhile(t *testing.T) {
	c := &remedy.Case{View: ccm.View{Service: &corev1.Service{}}}
	for _, lb := range []*ccm.Instance{
		{ID: "lb-1", CLB: &cloud.LoadBalancer{ID: "lb-1", IPVersion: "ipv4"}},
		{ID: "nlb-1", IPVersion: "ipv4", NLB: &cloud.NetworkLoadBalancer{ID: "nlb-1"}},
	} {
		plan, err := putBack(c, lb)
		if err != nil || plan.Wait == 0 || len(plan.Steps) > 0 || len(plan.Ask) != 0 {
			t.Errorf("%s: got %+v, %v; want to wait", lb.ID, plan, err)
		}
	}
}
