package ccm_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
)

// A listener keeps a port of a Service if it has its number, unless only one of the two is UDP.
func TestTakes(t *testing.T) {
	for _, tt := range []struct {
		l     ccm.Listener
		p     corev1.ServicePort
		takes bool
		text  string
	}{
		{ccm.Listener{Protocol: "http", Port: 80, Last: 80}, corev1.ServicePort{Protocol: "TCP", Port: 80}, true, "http:80"},
		{ccm.Listener{Protocol: "tcp", Port: 80, Last: 80}, corev1.ServicePort{Protocol: "TCP", Port: 81}, false, "tcp:80"},
		{ccm.Listener{Protocol: "UDP", Port: 80, Last: 80}, corev1.ServicePort{Protocol: "TCP", Port: 80}, false, "UDP:80"},
		{ccm.Listener{Protocol: "udp", Port: 53, Last: 53}, corev1.ServicePort{Protocol: "UDP", Port: 53}, true, "udp:53"},
		{ccm.Listener{Protocol: "TCP", Port: 80, Last: 90}, corev1.ServicePort{Protocol: "TCP", Port: 90}, true, "TCP:80-90"},
		{ccm.Listener{Protocol: "TCP", Port: 80, Last: 90}, corev1.ServicePort{Protocol: "TCP", Port: 91}, false, "TCP:80-90"},
	} {
		if got := tt.l.Takes(tt.p); got != tt.takes {
			t.Errorf("%s takes %s:%d: %v", tt.l, tt.p.Protocol, tt.p.Port, got)
		}
		if got := tt.l.String(); got != tt.text {
			t.Errorf("got %s, want %s", got, tt.text)
		}
	}
}
