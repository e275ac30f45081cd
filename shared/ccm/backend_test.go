package ccm_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/test/fixture"
	"github.com/lbremedy/lbremedy/test/sim"
)

func annotate(pairs ...string) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		for i := 0; i < len(pairs); i += 2 {
			svc.Annotations[pairs[i]] = pairs[i+1]
		}
	}
}

func local(svc *corev1.Service) {
	svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
}

func TestBackendMode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		network string
		edit    func(*corev1.Service)
		want    ccm.BackendMode
	}{
		{"flannel", nil, ccm.ClusterMode},
		{"flannel", local, ccm.LocalMode},
		{"flannel", annotate(ccm.BackendType, "eni"), ccm.PodMode},
		{"flannel", annotate(ccm.BackendType, "ENI"), ccm.ClusterMode}, // the controller compares case-sensitively
		{"terway-eniip", nil, ccm.PodMode},
		{"terway-eniip", local, ccm.PodMode},
		{"terway-eniip", fixture.Edits(local, annotate(ccm.BackendType, "ecs")), ccm.LocalMode},
		{"terway-eniip", annotate(ccm.BackendType, strings.Repeat("x", 1e5)), ccm.ClusterMode},
	} {
		c, s := fixture.Account(t, sim.World{Cluster: sim.Cluster{Network: tt.network}}, tt.edit)
		got, err := c.BackendMode(t.Context())
		if err != nil || got != tt.want {
			t.Errorf("%s: got %s, %v, want %s", tt.network, got, err, tt.want)
		}
		failing(t, s, func() error { _, err := c.BackendMode(t.Context()); return err })
	}
}

func slice(family discoveryv1.AddressType, ports map[string]int32, ends ...discoveryv1.Endpoint) discoveryv1.EndpointSlice {
	s := discoveryv1.EndpointSlice{AddressType: family, Endpoints: ends}
	for name, n := range ports {
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: new(name), Port: new(n)})
	}
	return s
}

func endpoint(ip, pod, node string, ready, ends *bool) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{Ready: ready, Terminating: ends}}
	if pod != "" {
		e.TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: pod}
	}
	if node != "" {
		e.NodeName = new(node)
	}
	return e
}

func TestReady(t *testing.T) {
	t.Parallel()
	const v4 = discoveryv1.AddressTypeIPv4
	yes, no := new(true), new(false)
	all := []discoveryv1.EndpointSlice{
		slice(v4, map[string]int32{"web": 8080},
			endpoint("10.0.0.2", "b", "node-2", yes, nil), endpoint("10.0.0.1", "a", "node-1", yes, no), endpoint("10.0.0.3", "c", "node-1", no, nil),
			endpoint("10.0.0.4", "d", "node-1", yes, yes), endpoint("10.0.0.5", "e", "node-1", nil, nil)),
		slice(v4, map[string]int32{"web": 9090, "": 7070}, endpoint("10.0.0.9", "", "", yes, nil), endpoint("10.0.0.1", "a", "node-1", yes, nil)),
		slice(discoveryv1.AddressTypeIPv6, map[string]int32{"web": 8080}, endpoint("fd00::1", "a", "node-1", yes, nil)),
		{AddressType: v4, Ports: []discoveryv1.EndpointPort{{}, {Name: new("web")}}, Endpoints: []discoveryv1.Endpoint{endpoint("10.0.0.8", "h", "", yes, nil)}},
	}
	for _, tt := range []struct {
		port corev1.ServicePort
		want string
	}{
		{corev1.ServicePort{Name: "web", TargetPort: intstr.FromInt32(8080)},
			"{10.0.0.9 8080  } {10.0.0.1 8080 a node-1} {10.0.0.2 8080 b node-2} {10.0.0.8 8080 h }"},
		{corev1.ServicePort{Name: "web", TargetPort: intstr.FromString("http")}, "{10.0.0.9 9090  } {10.0.0.1 8080 a node-1} {10.0.0.2 8080 b node-2}"},
		{corev1.ServicePort{TargetPort: intstr.FromString("http")}, "{10.0.0.9 7070  } {10.0.0.1 7070 a node-1}"},
		{corev1.ServicePort{Name: "other", TargetPort: intstr.FromString("http")}, ""},
		{corev1.ServicePort{Name: "web"}, ""},
	} {
		got := strings.Trim(fmt.Sprint(ccm.Ready(all, tt.port, v4)), "[]")
		if got != tt.want {
			t.Errorf("%s to %s: got %s, want %s", tt.port.Name, tt.port.TargetPort.String(), got, tt.want)
		}
	}
	for _, ref := range []corev1.ObjectReference{{Kind: "Pod", Name: "x; reboot"}, {Kind: "Pod", Name: "--all"}, {Kind: "VirtualMachine", Name: "vm"}} {
		e := endpoint("10.0.0.1", "", "", yes, nil)
		e.TargetRef = &ref
		if got := ccm.Ready([]discoveryv1.EndpointSlice{slice(v4, nil, e)}, corev1.ServicePort{TargetPort: intstr.FromInt32(80)}, v4); got[0].Pod != "" {
			t.Errorf("%s %q counts as a Pod", ref.Kind, ref.Name)
		}
	}
	if got := ccm.Ready(nil, corev1.ServicePort{}, v4); len(got) != 0 {
		t.Errorf("no slice has %v", got)
	}
}

func TestExcluded(t *testing.T) {
	t.Parallel()
	ready := []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	with := func(labels map[string]string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Status: corev1.NodeStatus{Conditions: ready}}
	}
	going := with(nil)
	going.Spec.Taints = []corev1.Taint{{Key: "x"}, {Key: "ToBeDeletedByClusterAutoscaler"}}
	cordoned := with(nil)
	cordoned.Spec.Unschedulable = true
	hybrid := with(nil)
	hybrid.Spec.ProviderID = "ack-hybrid://123456"
	down := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown,
		Reason: "NodeStatusUnknown"}}}}
	down2 := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}}}
	for _, tt := range []struct {
		name string
		node *corev1.Node
		edit func(*corev1.Service)
		want ccm.Exclusion
		text string
	}{
		{"serves", with(nil), nil, ccm.Serves, ""},
		{"the new label of masters alone", with(map[string]string{"node-role.kubernetes.io/control-plane": ""}), nil, ccm.Serves, ""},
		{"a master", with(map[string]string{ccm.MasterLabel: ""}), nil, ccm.Master, "has the label node-role.kubernetes.io/master"},
		{"excluded", with(map[string]string{corev1.LabelNodeExcludeBalancers: "false"}), nil, ccm.Excluded,
			"has the label node.kubernetes.io/exclude-from-external-load-balancers"},
		{"excluded of old", with(map[string]string{"alpha.service-controller.kubernetes.io/exclude-balancer": ""}), nil, ccm.Excluded,
			"has the label alpha.service-controller.kubernetes.io/exclude-balancer"},
		{"excluded by Alibaba", with(map[string]string{"service.alibabacloud.com/exclude-node": ""}), nil, ccm.Excluded,
			"has the label service.alibabacloud.com/exclude-node"},
		{"excluded by Alibaba of old", with(map[string]string{"service.beta.kubernetes.io/exclude-node": ""}), nil, ccm.Excluded,
			"has the label service.beta.kubernetes.io/exclude-node"},
		{"going", going, nil, ccm.Going, "has the taint ToBeDeletedByClusterAutoscaler"},
		{"cordoned", cordoned, nil, ccm.Serves, ""},
		{"cordoned, and those are removed", cordoned, fixture.Notes("remove-unscheduled-backend", "on"), ccm.Cordoned, "is cordoned"},
		{"cordoned, and nobody knows what that is", cordoned, fixture.Notes("remove-unscheduled-backend", "true"), ccm.Serves, ""},
		{"virtual", with(map[string]string{"type": "virtual-kubelet"}), nil, ccm.Virtual, "is a virtual node"},
		{"hybrid", hybrid, nil, ccm.Hybrid, "is a hybrid node"},
		{"hybrid without the label", hybrid, fixture.Notes("backend-label", "a=b"), ccm.Hybrid, "is a hybrid node"},
		{"unknown", down, nil, ccm.NotReady, "is not ready (NodeStatusUnknown)"},
		{"not ready", down2, nil, ccm.NotReady, "is not ready"},
		{"new", &corev1.Node{}, nil, ccm.NotReady, "has reported no condition yet"},
		{"labelled", with(map[string]string{"a": "b", "c": "d"}), fixture.Notes("backend-label", "a=b,c=d"), ccm.Serves, ""},
		{"another value", with(map[string]string{"a": "x"}), fixture.Notes("backend-label", "a=b"), ccm.Unlabel, "lacks the label a=b"},
		{"no label", with(nil), annotate(ccm.LegacyPrefix+"backend-label", "a=b,c"), ccm.Unlabel, "lacks the label a=b"},
		{"no pair", with(map[string]string{"a": ""}), fixture.Notes("backend-label", "a"), ccm.Unlabel, "lacks the label a"},
		{"huge", with(nil), fixture.Notes("backend-label", "a="+strings.Repeat("x", 1e5)), ccm.Unlabel, `lacks the label "a=` + strings.Repeat("x", 78) + `"…`},
	} {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}}
		if tt.edit != nil {
			tt.edit(svc)
		}
		if why, text := ccm.ExclusionOf(tt.node, svc); why != tt.want || text.String() != tt.text {
			t.Errorf("%s: got %d, %q; want %d, %q", tt.name, why, text, tt.want, tt.text)
		}
	}
}

func TestExclusionBy(t *testing.T) {
	t.Parallel()
	ready := []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	old, now := ccm.Version{Major: 2, Minor: 11, Patch: 2}, ccm.Version{Major: 2, Minor: 12, Patch: 1}
	for _, tt := range []struct {
		v      ccm.Version
		id     string
		labels map[string]string
		want   ccm.Exclusion
	}{
		{old, "ack-hybrid://123456", nil, ccm.Serves},
		{ccm.Version{}, "ack-hybrid://123456", nil, ccm.Serves},
		{now, "ack-hybrid://123456", nil, ccm.Hybrid},
		{old, "ack-hybrid://123456", map[string]string{"service.alibabacloud.com/exclude-node": ""}, ccm.Excluded},
		{old, "cn-hangzhou.i-1", nil, ccm.Serves},
		{now, "cn-hangzhou.i-1", nil, ccm.Serves},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: tt.labels}, Spec: corev1.NodeSpec{ProviderID: tt.id}, Status: corev1.NodeStatus{Conditions: ready}}
		if why, _ := ccm.ExclusionBy(tt.v, node, &corev1.Service{}); why != tt.want || node.Spec.ProviderID != tt.id {
			t.Errorf("%s with %s %v: got %d, want %d", tt.v, tt.id, tt.labels, why, tt.want)
		}
	}
}

func TestPodServes(t *testing.T) {
	t.Parallel()
	byAddress := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{ccm.Prefix + "server-group-type": "Ip"}}}
	byAddress.Spec.LoadBalancerClass = new(ccm.NLBClass)
	clb := byAddress.DeepCopy()
	clb.Spec.LoadBalancerClass = nil
	for _, tt := range []struct {
		id   string
		svc  *corev1.Service
		want bool
	}{
		{"ack-hybrid://123456", &corev1.Service{}, false},
		{"ack-hybrid://123456", clb, false},
		{"ack-hybrid://123456", byAddress, true},
		{"cn-hangzhou.i-1", &corev1.Service{}, true},
		{"", &corev1.Service{}, true},
	} {
		if got := ccm.PodServes(&corev1.Node{Spec: corev1.NodeSpec{ProviderID: tt.id}}, tt.svc); got != tt.want {
			t.Errorf("%q behind %v: %t", tt.id, tt.svc.Annotations, got)
		}
	}
	if !ccm.PodServes(nil, &corev1.Service{}) {
		t.Error("a node that is not known excludes its Pods")
	}
}

func TestGroups(t *testing.T) {
	t.Parallel()
	own := map[string]string{ccm.NameTag: fixture.BalancerName}
	world := sim.World{
		LoadBalancers: []sim.LoadBalancer{
			{ID: "lb-1", Tags: own, VGroups: []sim.VGroup{
				{ID: "rsp-1", Name: "k8s/30080/web/shop/c-1", Backends: []sim.Backend{{Server: "i-1", Port: 30080}, {Server: "i-2", Port: 30080}}},
				{ID: "rsp-2", Name: "k8s/http/web/shop/c-1", Backends: []sim.Backend{{Server: "eni-1", IP: "10.0.0.1", Type: "eni", Port: 8080}}},
				{ID: "rsp-3", Name: "k8s/30080/other/shop/c-1"}, {ID: "rsp-4", Name: "k8s/30080/web/shop/c-2"}, {ID: "rsp-5", Name: "mine"},
			}},
			{ID: "lb-2"},
		},
		ServerGroups: []sim.ServerGroup{
			{ID: "sgp-1", Name: "k8s.30080.TCP.web.shop.c-1", Tags: own, Servers: []sim.Server{{ID: "i-1", Port: 30080}}},
			{ID: "sgp-2", Name: "k8s.http.TCP.web.shop.c-1", Tags: own, Servers: []sim.Server{{ID: "eni-1", Type: "Eni", IP: "10.0.0.1", Port: 8080}}},
			{ID: "sgp-3", Name: "k8s.30080.TCP.web.shop.c-1"},
			{ID: "sgp-5", Name: "mine", Servers: []sim.Server{{ID: "i-5", Port: 80}}},
			{ID: "sgp-6", Name: "k8s.1000_2000.TCP.web.shop.c-1", Tags: own, Servers: []sim.Server{{ID: "eni-6", Type: "Eni", IP: "10.0.0.6"}}},
			{ID: "sgp-4", Name: "k8s.http.TCPSSL.web.shop.c-1", Tags: own, Servers: []sim.Server{{ID: "eni-2", Type: "Eni", IP: "10.0.0.2", Port: 8080}}},
		},
	}
	two := func(svc *corev1.Service) {
		svc.Spec.Ports = []corev1.ServicePort{
			{Port: 80, Protocol: "TCP", NodePort: 30080, TargetPort: intstr.FromString("http")}, {Port: 53, Protocol: "UDP", NodePort: 30053,
				TargetPort: intstr.FromInt32(53)},
		}
	}
	for _, tt := range []struct {
		name string
		edit func(*corev1.Service)
		mode ccm.BackendMode
		want string // load balancer, then each port's group and its number of backends
		ends string // the backends of the first group
	}{
		{"nodes", two, ccm.ClusterMode, "lb-1: rsp-1 2, none 0", "i-1  30080, i-2  30080"},
		{"Pods", two, ccm.PodMode, "lb-1: rsp-2 1, none 0", "eni-1 10.0.0.1 8080"},
		{"the user's group", fixture.Edits(two, fixture.Notes("id", "lb-1"), fixture.Notes("vgroup-port", "rsp-9:443, rsp-5:80")), ccm.LocalMode,
			"lb-1: rsp-5 0, none 0", ""},
		{"a user's group on the controller's own", fixture.Edits(two, fixture.Notes("vgroup-port", "rsp-5:80")), ccm.ClusterMode, "lb-1: rsp-1 2, none 0",
			"i-1  30080, i-2  30080"},
		{"a group that is not there", fixture.Edits(two, fixture.Notes("id", "lb-1"), fixture.Notes("vgroup-port", "rsp-9:80,nonsense")), ccm.LocalMode,
			"lb-1: none 0, none 0", ""},
		{"another load balancer", fixture.Edits(two, fixture.Notes("id", "lb-2")), ccm.ClusterMode, "lb-2: none 0, none 0", ""},
		{"no load balancer", fixture.Edits(two, fixture.Notes("id", "lb-3")), ccm.ClusterMode, ": none 0, none 0", ""},
		{"nodes of an NLB", fixture.Edits(two, fixture.Network("")), ccm.ClusterMode, ": sgp-1 1, none 0", "i-1  30080"},
		{"Pods of an NLB, with TLS", fixture.Edits(two, fixture.Network(""), fixture.Notes("protocol-port", "tcpssl:80")), ccm.PodMode, ": sgp-4 1, none 0",
			"eni-2 10.0.0.2 8080"},
		{"the user's group of an NLB", fixture.Edits(two, fixture.Network(""), fixture.Notes("id", "nlb-1"), fixture.Notes("vgroup-port", "sgp-5:80")),
			ccm.ClusterMode, ": sgp-5 1, none 0", "i-5  80"},
		{"a user's group that no NLB has", fixture.Edits(two, fixture.Network(""), fixture.Notes("id", "nlb-1"), fixture.Notes("vgroup-port", "sgp-9:80")),
			ccm.ClusterMode, ": none 0, none 0", ""},
		{"Pods of an NLB, with a range of ports", fixture.Edits(two, fixture.Network(""), fixture.Notes("listener-port-range", "1000-2000:80")),
			ccm.PodMode, ": sgp-6 1, none 0", "eni-6 10.0.0.6 0"},
		{"no ports", func(svc *corev1.Service) { svc.Spec.Ports = nil }, ccm.ClusterMode, "lb-1:", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, s := fixture.Account(t, world, tt.edit)
			ask := func() (string, string, error) {
				groups, lb, err := c.Groups(t.Context(), tt.mode)
				got := lb + ":"
				var ends []string
				for i, g := range groups {
					id := g.ID
					if id == "" {
						id = "none"
					}
					got += fmt.Sprintf(" %s %d,", id, g.Servers)
					all, failed := c.Backends(t.Context(), g)
					if failed != nil && err == nil {
						err = failed
					}
					for _, b := range all {
						if i == 0 {
							ends = append(ends, fmt.Sprintf("%s %s %d", b.ID, b.IP, b.Port))
						}
					}
				}
				return strings.TrimSuffix(got, ","), strings.Join(ends, ", "), err
			}
			got, ends, err := ask()
			if err != nil || got != tt.want || ends != tt.ends {
				t.Errorf("got %q with %q, %v; want %q with %q", got, ends, err, tt.want, tt.ends)
			}
			failing(t, s, func() error { _, _, err := ask(); return err })
		})
	}
}
