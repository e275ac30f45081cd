package ccm_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
)

// It is an error if the answer of the API lacks an attribute that every load balancer has.
func TestImmutablesNotSaid(t *testing.T) {
	t.Parallel()
	whole := cloud.LoadBalancer{ID: "lb-1", Address: "10.0.0.5", IPVersion: "ipv6", Zone: "z-a", Network: "vpc"}
	for name, take := range map[string]func(*cloud.LoadBalancer){
		"master-zoneid":    func(lb *cloud.LoadBalancer) { lb.Zone = "" },
		"ip-version":       func(lb *cloud.LoadBalancer) { lb.IPVersion = "" },
		"network-type":     func(lb *cloud.LoadBalancer) { lb.Network = "" },
		"slb-network-type": func(lb *cloud.LoadBalancer) { lb.Network = "" },
		"ip":               func(lb *cloud.LoadBalancer) { lb.Address = "" },
	} {
		lb := whole
		take(&lb)
		annotations := map[string]string{ccm.Prefix + "ip-version": "ipv6", ccm.Prefix + name: "ipv6"}
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}
		if list, err := ccm.Immutables(svc, &ccm.Instance{ID: lb.ID, CLB: &lb}); err == nil {
			t.Errorf("%s: got %+v, want an error", name, list)
		}
	}
}

// A load balancer can do without a standby zone, and an annotation that asks for one is one to remove.
func TestImmutablesNone(t *testing.T) {
	t.Parallel()
	lb := &cloud.LoadBalancer{ID: "lb-1", Address: "10.0.0.5", IPVersion: "ipv4", Zone: "z-a", Network: "vpc"}
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{ccm.Prefix + ccm.SlaveZone: "z-b"}}}
	list, err := ccm.Immutables(svc, &ccm.Instance{ID: lb.ID, CLB: lb})
	if err != nil || len(list) != 1 || list[0].Name != ccm.SlaveZone || list[0].Is != "" {
		t.Fatalf("got %+v, %v", list, err)
	}
	if got := list[0].Differs(lb.ID).String(); !strings.HasSuffix(got, `asks for "z-b", but the API reports no standby zone of lb-1.`) {
		t.Error(got)
	}
}
