package ccm_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
)

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

func TestFreePorts(t *testing.T) {
	svc := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}, {Port: 83}}}}
	listeners := []ccm.Listener{{Protocol: "tcp", Port: 80, Last: 80}, {Protocol: "TCP", Port: 85, Last: 90}}
	for _, tt := range []struct {
		taken []int32
		want  []string
	}{
		{nil, nil},
		{[]int32{80}, []string{"81", "82", "84"}},
		{[]int32{80, 81}, []string{"81", "82", "84", "91", "92", "93"}}, // each once
		{[]int32{84}, []string{"91", "92", "93"}},
		{[]int32{65534}, []string{"65535"}},
		{[]int32{65535}, nil},
	} {
		if got := ccm.FreePorts(svc, listeners, tt.taken, 3); !slices.Equal(got, tt.want) {
			t.Errorf("above %d: got %q, want %q", tt.taken, got, tt.want)
		}
	}
}
