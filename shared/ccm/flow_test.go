package ccm_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/test/fixture"
	"github.com/lbremedy/lbremedy/test/sim"
)

func TestFlow(t *testing.T) {
	t.Parallel()
	bound := fixture.Labels(map[string]string{ccm.BalancerLabel: "lb-1"})
	network := fixture.Edits(fixture.Network(""), fixture.Labels(map[string]string{ccm.BalancerLabel: "nlb-1"}))
	clb := func(listeners ...sim.Listener) sim.World {
		return sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Listeners: listeners}}}
	}
	nlb := func(listeners ...sim.NLBListener) sim.World {
		return sim.World{NLBs: []sim.NLB{{ID: "nlb-1", Listeners: listeners}}}
	}
	ports := func(svc *corev1.Service) {
		svc.Spec.Ports = []corev1.ServicePort{{Name: "a", Port: 80, Protocol: corev1.ProtocolTCP}, {Name: "b", Port: 53, Protocol: corev1.ProtocolUDP}}
	}
	reused := fixture.Notes("id", "lb-1")
	for _, tt := range []struct {
		name  string
		world sim.World
		edit  func(*corev1.Service)
		want  string
		soon  bool
		ports ccm.Share
	}{
		{name: "all run", ports: ccm.AllPorts,
			world: clb(sim.Listener{Port: 80, Protocol: "tcp", Status: "running"}, sim.Listener{Port: 53, Protocol: "udp", Status: "running"}),
			edit:  fixture.Edits(bound, ports)},
		{name: "one is missing", ports: ccm.SomePorts,
			world: clb(sim.Listener{Port: 80, Protocol: "tcp", Status: "running"}), edit: fixture.Edits(bound, ports),
			want: "Not every port of the Service takes traffic on lb-1: there is no listener udp:53."},
		{name: "one of another protocol", ports: ccm.NoPorts,
			world: clb(sim.Listener{Port: 80, Protocol: "http", Status: "running"}), edit: bound,
			want: "Not every port of the Service takes traffic on lb-1: there is no listener tcp:80."},
		{name: "one is stopped", ports: ccm.NoPorts,
			world: clb(sim.Listener{Port: 80, Protocol: "tcp", Status: "stopped"}), edit: bound,
			want: "Not every port of the Service takes traffic on lb-1: listener tcp:80 is stopped."},
		{name: "one starts", ports: ccm.NoPorts,
			world: clb(sim.Listener{Port: 80, Protocol: "tcp", Status: "starting"}), edit: bound,
			want: "Not every port of the Service takes traffic on lb-1: listener tcp:80 is starting.", soon: true},
		{name: "an NLB", ports: ccm.AllPorts,
			world: nlb(sim.NLBListener{Port: 80, Protocol: "TCP", Status: "Running"}), edit: network},
		{name: "an NLB without", ports: ccm.NoPorts,
			world: nlb(), edit: network, want: "Not every port of the Service takes traffic on nlb-1: there is no listener TCP:80."},
		{name: "a reused one", world: clb(sim.Listener{Port: 80, Protocol: "http", Status: "running"}), edit: reused,
			want: `The Service reuses lb-1 without force-override-listeners: "true". Whether its listeners lead to the Service was not checked.`},
		{name: "a reused one without", ports: ccm.NoPorts,
			world: clb(), edit: reused,
			want: "Not every port of the Service takes traffic on lb-1: there is no listener tcp:80. The Service reuses lb-1 without force-override-listeners"},
		{name: "a reused one that the controller sets", ports: ccm.AllPorts,
			world: clb(sim.Listener{Port: 80, Protocol: "tcp", Status: "running"}),
			edit:  fixture.Edits(reused, fixture.Notes(ccm.ForceOverride, "true"))},
		{name: "none is known", world: clb(), edit: func(*corev1.Service) {}, want: "It is not known which load balancer the Service has"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, _ := fixture.Account(t, tt.world, tt.edit)
			got, err := c.Flow(t.Context())
			if err != nil || got.Soon != tt.soon || got.Ports != tt.ports || (tt.want == "") != (len(got.Why) == 0) || !strings.HasPrefix(got.Why.String(), tt.want) {
				t.Errorf("got %q (soon: %t, ports: %s), %v, want %q", got.Why, got.Soon, got.Ports, err, tt.want)
			}
		})
	}
	c, _ := fixture.Account(t, sim.World{}, bound)
	if got, err := c.Flow(t.Context()); err == nil {
		t.Errorf("there is no load balancer, and it is %+v", got)
	}
}

func TestUnbacked(t *testing.T) {
	t.Parallel()
	port := corev1.ServicePort{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("http")}
	group := ccm.Group{Port: port, ID: "rsp-1", Name: "k8s/30080/web/shop/c-1", Servers: 1}
	none, empty := group, group
	none.ID, none.Servers, empty.Servers = "", 0, 0
	pod := slice(discoveryv1.AddressTypeIPv4, map[string]int32{"http": 8080}, endpoint("10.0.0.1", "web-0", "node-1", new(true), nil))
	away := slice(discoveryv1.AddressTypeIPv4, map[string]int32{"http": 8080}, endpoint("10.0.0.1", "web-0", "node-1", new(false), nil))
	for _, tt := range []struct {
		name   string
		groups []ccm.Group
		ends   []discoveryv1.EndpointSlice
		family discoveryv1.AddressType
		want   string // clauses
	}{
		{"a backend", []ccm.Group{group}, []discoveryv1.EndpointSlice{pod}, discoveryv1.AddressTypeIPv4, ""},
		{"no port", nil, nil, discoveryv1.AddressTypeIPv4, ""},
		{"no group", []ccm.Group{group, none}, []discoveryv1.EndpointSlice{pod}, discoveryv1.AddressTypeIPv4, "there is no group k8s/30080/web/shop/c-1"},
		{"an empty group", []ccm.Group{empty}, []discoveryv1.EndpointSlice{pod}, discoveryv1.AddressTypeIPv4, "group rsp-1 of port 80 is empty"},
		{"no Pod", []ccm.Group{group}, nil, discoveryv1.AddressTypeIPv4, "no Pod is ready for port 80"},
		{"no ready Pod", []ccm.Group{group}, []discoveryv1.EndpointSlice{away}, discoveryv1.AddressTypeIPv4, "no Pod is ready for port 80"},
		{"no Pod of the family", []ccm.Group{group}, []discoveryv1.EndpointSlice{pod}, discoveryv1.AddressTypeIPv6, "no Pod is ready for port 80"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			want := ""
			if tt.want != "" {
				want = "Not every port of the Service has a backend: " + tt.want + "."
			}
			if got := ccm.Unbacked(tt.groups, tt.ends, tt.family).Why.String(); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
