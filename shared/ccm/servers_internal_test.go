package ccm

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
)

// Quotes keep the words of a value apart from those of its sentence.
func TestClipped(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{"h:vsw-a": "h:vsw-a", "x: kubectl delete ns a": `"x: kubectl delete ns a"`, "x\nkubectl a": `"x\nkubectl a"`} {
		if got := clipped(value); got != want {
			t.Errorf("%q: got %s, want %s", value, got, want)
		}
	}
}

// With graceful-shutdown, a terminating Pod stays a server with the weight 0, so this is not drift.
func TestDrains(t *testing.T) {
	t.Parallel()
	going := discoveryv1.EndpointConditions{Terminating: new(true)}
	ends := []discoveryv1.EndpointSlice{{Endpoints: []discoveryv1.Endpoint{
		{Addresses: []string{"10.0.0.1"}, Conditions: going}, {Addresses: []string{"10.0.0.2"}},
	}}}
	for _, tt := range []struct {
		name  string
		notes map[string]string
		ip    string
		kind  string
		want  bool
	}{
		{"a Pod that terminates", map[string]string{Prefix + gracefulShutdown: "on"}, "10.0.0.1", "eni", true},
		{"a Pod that stays", map[string]string{Prefix + gracefulShutdown: "on"}, "10.0.0.2", "eni", false},
		{"a Pod that is gone", map[string]string{Prefix + gracefulShutdown: "on"}, "10.0.0.3", "eni", false},
		{"a node", map[string]string{Prefix + gracefulShutdown: "on"}, "10.0.0.1", "ecs", false},
		{"switched off", map[string]string{Prefix + gracefulShutdown: "off"}, "10.0.0.1", "eni", false},
		{"weights left to a person", map[string]string{Prefix + gracefulShutdown: "on", Prefix + "ignore-weight-update": "on"}, "10.0.0.1", "eni", false},
		{"not asked for", nil, "10.0.0.1", "eni", false},
	} {
		b := &backing{c: &View{Service: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: tt.notes}}}, ends: ends}
		if got := b.drains(cloud.Backend{IP: tt.ip, Type: tt.kind}); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}

// A Pod that is no longer ready takes no traffic in any kind of group. A ready node takes traffic.
func TestServes(t *testing.T) {
	t.Parallel()
	node := corev1.Node{Spec: corev1.NodeSpec{ProviderID: "cn-hangzhou.i-1"}, Status: corev1.NodeStatus{
		Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.168.0.1"}},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
	addresses := map[string]string{Prefix + "server-group-type": "ip"}
	for _, tt := range []struct {
		name   string
		notes  map[string]string
		mode   BackendMode
		server cloud.Backend
		want   bool
		key    string
	}{
		{"a Pod", nil, PodMode, cloud.Backend{ID: "eni-1", IP: "10.0.0.1", Type: "eni"}, false, "10.0.0.1:0"},
		{"the address of a Pod", addresses, PodMode, cloud.Backend{ID: "10.0.0.1", IP: "10.0.0.1", Type: "ip"}, false, "10.0.0.1:0"},
		{"the address of a Pod on a virtual node", addresses, ClusterMode, cloud.Backend{ID: "10.0.0.1", IP: "10.0.0.1", Type: "ip"}, false, "10.0.0.1:0"},
		{"a node, which are not read for Pods", nil, PodMode, cloud.Backend{ID: "i-1", Type: "ecs"}, true, "i-1:0"},
		{"a node", nil, ClusterMode, cloud.Backend{ID: "i-1", Type: "ecs"}, true, "i-1:0"},
		{"the address of a node", addresses, ClusterMode, cloud.Backend{ID: "192.168.0.1", IP: "192.168.0.1", Type: "ip"}, true, "192.168.0.1:0"},
		{"a node that is gone", nil, ClusterMode, cloud.Backend{ID: "i-2", Type: "ecs"}, false, "i-2:0"},
	} {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: tt.notes}, Spec: corev1.ServiceSpec{LoadBalancerClass: new(NLBClass)}}
		b := &backing{c: &View{Service: svc}, mode: tt.mode}
		if tt.mode != PodMode {
			b.nodes = []corev1.Node{node}
		}
		if got := b.serves(tt.server); got != tt.want || serverKey(tt.server) != tt.key {
			t.Errorf("%s: got %t, %s", tt.name, got, serverKey(tt.server))
		}
	}
}
