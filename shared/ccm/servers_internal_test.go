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
