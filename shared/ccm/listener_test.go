package ccm_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/test/fixture"
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

// If protocol-port names a port twice, the first entry counts.
func TestListenerKey(t *testing.T) {
	t.Parallel()
	port := corev1.ServicePort{Protocol: corev1.ProtocolTCP, Port: 80}
	for _, tt := range []struct {
		value    string
		clb, nlb string
	}{
		{"", "tcp:80", "TCP:80"},
		{"https:443", "tcp:80", "TCP:80"},
		{"https:443,http:80", "http:80", "HTTP:80"},
		{"udp:80,http:80,tcp:443", "udp:80", "UDP:80"},
	} {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{ccm.Prefix + "protocol-port": tt.value}}}
		fixture.Equal(t, ccm.ListenerKey(svc, port), tt.clb)
		svc.Spec.LoadBalancerClass = new(ccm.NLBClass)
		fixture.Equal(t, ccm.ListenerKey(svc, port), tt.nlb)
	}
}
