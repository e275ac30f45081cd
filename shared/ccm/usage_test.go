package ccm_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
)

func TestTally(t *testing.T) {
	t.Parallel()
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	var got ccm.Tally
	for name, places := range map[string]int{
		"k8s/80/web/shop/c1": 1, "k8s/80/web/shop/c2": 2, "k8s.80.TCP.cart.shop.c1": 4, "by hand": 8, "k8s/81/none/shop/c1": 0,
	} {
		got.Add(name, places, svc, "c1")
	}
	want := ccm.Tally{Own: 1, Others: map[string]int{"shop/web": 2, "shop/cart": 4}, Manual: 8}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got.Total() != 15 {
		t.Errorf("total: %d", got.Total())
	}
	if diff := cmp.Diff(map[string]int{"shop/web": 3, "shop/cart": 4}, got.Services(svc)); diff != "" {
		t.Error(diff)
	}
}

// A range needs a listener on any of its ports, and UDP its own.
func TestUnlistened(t *testing.T) {
	t.Parallel()
	class := ccm.NLBClass
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{ccm.Prefix + "listener-port-range": "5000-6000:84"}},
		Spec: corev1.ServiceSpec{LoadBalancerClass: &class, Ports: []corev1.ServicePort{
			{Port: 80, Protocol: "TCP"}, {Port: 80, Protocol: "UDP"}, {Port: 1500, Protocol: "TCP"}, {Port: 84, Protocol: "TCP"}, {Port: 443, Protocol: "TCP"},
		}},
	}
	ports := func(listeners ...ccm.Listener) (out []int32) {
		for _, p := range ccm.Unlistened(svc, listeners) {
			out = append(out, p.Port)
		}
		return out
	}
	some := []ccm.Listener{{Protocol: "TCP", Port: 80, Last: 80}, {Protocol: "TCP", Port: 1000, Last: 2000}, {Protocol: "TCPSSL", Port: 443, Last: 443}}
	if diff := cmp.Diff([]int32{80, 84}, ports(some...)); diff != "" {
		t.Error(diff)
	}
	all := append(some, ccm.Listener{Protocol: "UDP", Port: 80, Last: 80}, ccm.Listener{Protocol: "TCP", Port: 5000, Last: 6000})
	if got := ports(all...); got != nil {
		t.Errorf("got %v", got)
	}
}
