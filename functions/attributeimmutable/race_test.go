package attributeimmutable

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// The load balancer can come to light, or be put right, between the question whether
// the failure holds and the plan.
func TestPutRightMeanwhile(t *testing.T) {
	c := &remedy.Case{Service: &corev1.Service{}}
	for _, lb := range []*remedy.Instance{
		{ID: "lb-1", CLB: &cloud.LoadBalancer{ID: "lb-1", IPVersion: "ipv4"}},
		{ID: "nlb-1", IPVersion: "ipv4", NLB: &cloud.NetworkLoadBalancer{ID: "nlb-1"}},
	} {
		plan, err := putBack(t.Context(), c, lb)
		if err != nil || plan.Wait == 0 || len(plan.Steps) > 0 || plan.Ask != "" {
			t.Errorf("%s: got %+v, %v; want to wait", lb.ID, plan, err)
		}
	}
}
