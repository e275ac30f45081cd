package ccm_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/test/fixture"
	"github.com/lbremedy/lbremedy/test/sim"
)

// An empty list proves that the Service has no other load balancer only if the API shows the one that it reuses.
func TestUnnamed(t *testing.T) {
	t.Parallel()
	reused := sim.LoadBalancer{ID: "lb-1"}
	for _, tt := range []struct {
		name  string
		lbs   []sim.LoadBalancer
		own   int
		proof bool
	}{
		{"none", []sim.LoadBalancer{reused}, 0, true},
		{"one by its tag", []sim.LoadBalancer{reused, {ID: "lb-2", Tags: map[string]string{ccm.NameTag: fixture.BalancerName}}}, 1, true},
		{"one by its name", []sim.LoadBalancer{reused, {ID: "lb-2", Name: fixture.BalancerName}}, 1, true},
		{"an empty list", nil, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, s := fixture.Account(t, sim.World{LoadBalancers: tt.lbs}, fixture.Notes("id", "lb-1"))
			own, seen, err := c.Unnamed(t.Context(), "lb-1")
			if err != nil || len(own) != tt.own || seen != tt.proof {
				t.Errorf("got %d, %v, %v; want %d, %v", len(own), seen, err, tt.own, tt.proof)
			}
			failing(t, s, func() error { _, _, err := c.Unnamed(t.Context(), "lb-1"); return err })
		})
	}
}

func TestPaired(t *testing.T) {
	for _, tt := range []struct {
		value    string
		unpaired []string
		paired   string
		ok       bool
	}{
		{"", nil, "", false},
		{"rsp-1:80", nil, "rsp-1:80", true},
		{"rsp-1", []string{"rsp-1"}, "rsp-1:443", true},
		{"sgp-abc-1,rsp-2:80", []string{"sgp-abc-1"}, "sgp-abc-1:443,rsp-2:80", true},
		{" rsp-1 ,", []string{" rsp-1 ", ""}, "rsp-1:443", true},
		{"rsp-1:80,", []string{""}, "rsp-1:80", true},
		{",", []string{"", ""}, "", false},
		{"rsp-1,443", []string{"rsp-1", "443"}, "", false},
	} {
		svc := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443}, {Port: 80}}}}
		svc.Annotations = map[string]string{ccm.LegacyPrefix + ccm.GroupPairs: tt.value}
		if got := ccm.Unpaired(svc); !slices.Equal(got, tt.unpaired) {
			t.Errorf("%q: unpaired are %q, want %q", tt.value, got, tt.unpaired)
		}
		if got, ok := ccm.Paired(svc); got != tt.paired || ok != tt.ok {
			t.Errorf("%q: paired it is %q, %v, want %q, %v", tt.value, got, ok, tt.paired, tt.ok)
		}
	}
}

func TestBlocksRelease(t *testing.T) {
	six, four := ccm.Classic(cloud.LoadBalancer{IPVersion: "ipv6"}), ccm.Classic(cloud.LoadBalancer{IPVersion: "ipv4"})
	for _, tt := range []struct {
		name string
		lb   *ccm.Instance
		want bool
	}{
		{ccm.BalancerID, six, true}, {ccm.Preserve, six, true}, {"ip-version", six, false}, {ccm.BalancerID, four, false},
		{ccm.BalancerID, ccm.Network(cloud.NetworkLoadBalancer{IPVersion: "DualStack"}), false},
	} {
		svc := &corev1.Service{}
		svc.Annotations = map[string]string{ccm.Prefix + tt.name: "lb-1"}
		if got := ccm.BlocksRelease(svc, tt.lb); got != tt.want {
			t.Errorf("with %s, %+v: got %v", tt.name, tt.lb, got)
		}
	}
}
