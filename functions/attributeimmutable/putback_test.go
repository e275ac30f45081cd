package attributeimmutable

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// TestNotSaid changes no annotation where the answer of the API lacks an attribute.
func TestNotSaid(t *testing.T) {
	whole := cloud.LoadBalancer{ID: "lb-1", Address: "10.0.0.5", IPVersion: "ipv6", Zone: "z-a", Network: "vpc"}
	for name, take := range map[string]func(*cloud.LoadBalancer){
		"master-zoneid":    func(lb *cloud.LoadBalancer) { lb.Zone = "" },
		"ip-version":       func(lb *cloud.LoadBalancer) { lb.IPVersion = "" },
		"network-type":     func(lb *cloud.LoadBalancer) { lb.Network = "" },
		"slb-network-type": func(lb *cloud.LoadBalancer) { lb.Network = "" },
	} {
		lb := whole
		take(&lb)
		annotations := map[string]string{ccm.Prefix + "ip-version": "ipv6", ccm.Prefix + name: "ipv6"}
		c := &remedy.Case{View: ccm.View{Service: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}}}
		if plan, err := putBack(c, &ccm.Instance{ID: lb.ID, CLB: &lb}); err == nil {
			t.Errorf("%s: got %+v, want an error", name, plan)
		}
	}
}

// TestPutRightMeanwhile waits if the load balancer was found or fixed after stillFails read it.
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
