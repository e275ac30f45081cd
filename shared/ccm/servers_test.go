package ccm_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/test/fixture"
)

func TestServers(t *testing.T) {
	t.Parallel()
	node := func(n int, labels map[string]string, ready corev1.ConditionStatus) corev1.Node {
		return corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n-%d", n), Labels: labels},
			Spec:       corev1.NodeSpec{ProviderID: fmt.Sprintf("cn-hangzhou.i-%d", n)},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
		}
	}
	nodes := []corev1.Node{
		node(1, nil, corev1.ConditionTrue), node(2, nil, corev1.ConditionTrue), node(3, nil, corev1.ConditionFalse),
		node(4, map[string]string{corev1.LabelNodeExcludeBalancers: ""}, corev1.ConditionTrue), node(5, map[string]string{"type": "virtual-kubelet"},
			corev1.ConditionTrue),
	}
	pod := func(ip string, n int) discoveryv1.Endpoint {
		name, ready := fmt.Sprintf("n-%d", n), true
		return discoveryv1.Endpoint{Addresses: []string{ip}, NodeName: &name, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}
	}
	ends := []discoveryv1.EndpointSlice{{AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{
		pod("10.0.0.1", 1), pod("10.0.0.2", 1), pod("10.0.0.3", 1), pod("10.0.0.4", 2), pod("10.0.0.5", 5),
	}}}
	port := corev1.ServicePort{Port: 80, NodePort: 30080, TargetPort: intstr.FromInt32(8080)}
	for _, tt := range []struct {
		name  string
		mode  ccm.BackendMode
		notes []string
		want  map[string]int
	}{
		{"nodes", ccm.ClusterMode, nil, map[string]int{"i-1:30080": 100, "i-2:30080": 100, "10.0.0.5:8080": 100}},
		{"nodes of Pods", ccm.LocalMode, nil, map[string]int{"i-1:30080": 3, "i-2:30080": 1, "10.0.0.5:8080": 1}},
		{"nodes of Pods, and another weight", ccm.LocalMode, []string{"default-weight", "7"}, map[string]int{"i-1:30080": 3, "i-2:30080": 1, "10.0.0.5:8080": 1}},
		{"Pods", ccm.PodMode, nil, map[string]int{"10.0.0.1:8080": 100, "10.0.0.2:8080": 100, "10.0.0.3:8080": 100, "10.0.0.4:8080": 100, "10.0.0.5:8080": 100}},
		{"another weight", ccm.ClusterMode, []string{"default-weight", "7"}, map[string]int{"i-1:30080": 7, "i-2:30080": 7, "10.0.0.5:8080": 7}},
		{"no such weight", ccm.ClusterMode, []string{"default-weight", "101"}, map[string]int{"i-1:30080": 100, "i-2:30080": 100, "10.0.0.5:8080": 100}},
		{"a weight together", ccm.LocalMode, []string{"id", "lb-1", "vgroup-port", "rsp-1:80", "weight", "50"}, map[string]int{"i-1:30080": 30, "i-2:30080": 10,
			"10.0.0.5:8080": 10}},
		{"no weight at all", ccm.LocalMode, []string{"id", "lb-1", "vgroup-port", "rsp-1:80", "weight", "0"}, map[string]int{"i-1:30080": 0, "i-2:30080": 0,
			"10.0.0.5:8080": 0}},
		{"labelled nodes", ccm.ClusterMode, []string{"backend-label", "a=b"}, map[string]int{}},
	} {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}}
		fixture.Notes(tt.notes...)(svc)
		t.Run(tt.name, func(t *testing.T) { fixture.Equal(t, ccm.Servers(svc, port, tt.mode, ends, nodes), tt.want) })
	}
}

// Groups of addresses hold nodes by their address, and groups behind a range of ports hold Pods without a port.
func TestNetworkServers(t *testing.T) {
	t.Parallel()
	nodes := []corev1.Node{
		{ObjectMeta: metav1.ObjectMeta{Name: "n-1"}, Spec: corev1.NodeSpec{ProviderID: "cn-hangzhou.i-1"}, Status: corev1.NodeStatus{
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "n-1"}, {Type: corev1.NodeInternalIP, Address: "192.168.0.1"}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		}},
	}
	ends := []discoveryv1.EndpointSlice{{AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{
		{Addresses: []string{"10.0.0.1"}, NodeName: new("n-1"), Conditions: discoveryv1.EndpointConditions{Ready: new(true)}},
	}}}
	port := corev1.ServicePort{Protocol: "TCP", Port: 80, NodePort: 30080, TargetPort: intstr.FromInt32(8080)}
	for _, tt := range []struct {
		name  string
		mode  ccm.BackendMode
		notes []string
		want  map[string]int
	}{
		{"nodes", ccm.ClusterMode, nil, map[string]int{"i-1:30080": 100}},
		{"addresses of nodes", ccm.ClusterMode, []string{"server-group-type", "Ip"}, map[string]int{"192.168.0.1:30080": 100}},
		{"addresses of nodes of Pods", ccm.LocalMode, []string{"server-group-type", "ip"}, map[string]int{"192.168.0.1:30080": 1}},
		{"addresses of Pods", ccm.PodMode, []string{"server-group-type", "ip"}, map[string]int{"10.0.0.1:8080": 100}},
		{"a range of ports", ccm.PodMode, []string{ccm.PortRange, "1000-2000:80"}, map[string]int{"10.0.0.1:0": 100}},
	} {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}}
		fixture.Edits(fixture.Network(""), fixture.Notes(tt.notes...))(svc)
		t.Run(tt.name, func(t *testing.T) { fixture.Equal(t, ccm.Servers(svc, port, tt.mode, ends, nodes), tt.want) })
	}
}
