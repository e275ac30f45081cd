package ccm_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/test/fixture"
	"github.com/lbremedy/lbremedy/test/sim"
)

func TestParseVersion(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]ccm.Version{
		"v2.12.1": {2, 12, 1, 0}, "v2.12.1-aliyun.1": {2, 12, 1, 0}, "v1.9.3.380-gd6d0962-aliyun": {1, 9, 3, 380}, "v2.4.0+dirty": {2, 4, 0, 0},
		"v1.9.3": {1, 9, 3, 0}, "v1.9.3.": {1, 9, 3, 0}, "v1.9.3.x": {1, 9, 3, 0}, "v1.9.3.10-g1.2": {1, 9, 3, 10},
		"": {}, "2.12.1": {}, "v2": {}, "v2.4": {}, "v2.4.": {}, "v2.x.1": {}, "latest": {}, "v99999999999999999999.1.1": {},
	} {
		got, ok := ccm.ParseVersion(text)
		if got != want || ok != (want != ccm.Version{}) {
			t.Errorf("%q is %s, %t", text, got, ok)
		}
	}
	if v := (ccm.Version{2, 9, 1, 0}); !v.Before(ccm.Version{2, 10, 0, 0}) || v.Before(v) || v.String() != "v2.9.1" {
		t.Errorf("%s is not what it is", v)
	}
}

// What a version calls depends on what the cluster uses of it.
func TestNeeds(t *testing.T) {
	t.Parallel()
	nlb := ccm.NLBClass
	use := func(net string, edits ...func(*corev1.Service)) ccm.Features {
		var all []corev1.Service
		for _, edit := range edits {
			svc := corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
			edit(&svc)
			all = append(all, svc)
		}
		return ccm.InUse(cloud.Cluster{Network: net}, all)
	}
	ranges := func(svc *corev1.Service) {
		svc.Spec.LoadBalancerClass, svc.Spec.LoadBalancerSourceRanges = &nlb, []string{"10.0.0.0/8"}
	}
	for _, tt := range []struct {
		action   string
		from, to ccm.Version // the first version that calls it, and the first that doesn't any more
		use      ccm.Features
		without  ccm.Features // features with which it is never called
	}{
		{"slb:CreateLoadBalancer", ccm.Version{1, 9, 3, 0}, ccm.Version{}, use(""), nil},
		{"slb:AddTags", ccm.Version{1, 9, 3, 0}, ccm.Version{2, 5, 0, 0}, use(""), nil},
		{"slb:ModifyLoadBalancerInstanceChargeType", ccm.Version{2, 4, 0, 0}, ccm.Version{}, use(""), nil},
		{"nlb:ListAsynJobs", ccm.Version{2, 12, 1, 0}, ccm.Version{}, use(""), nil},
		{"vpc:CreateRouteEntries", ccm.Version{2, 11, 2, 0}, ccm.Version{}, use("flannel"), use("terway-eniip")},
		{"ecs:DescribeNetworkInterfaces", ccm.Version{1, 9, 3, 0}, ccm.Version{}, use("terway-eniip"), use("flannel")},
		{"ecs:DescribeNetworkInterfaces", ccm.Version{1, 9, 3, 0}, ccm.Version{}, use("flannel", func(svc *corev1.Service) {
			svc.Annotations["service.beta.kubernetes.io/backend-type"] = "eni"
		}), nil},
		{"vpc:DescribeEipAddresses", ccm.Version{1, 9, 3, 0}, ccm.Version{}, use("", fixture.Notes("external-ip-type", "eip")),
			use("", fixture.Notes("external-ip-type", "lb"))},
		{"nlb:CreateLoadBalancer", ccm.Version{2, 5, 0, 0}, ccm.Version{}, use("", fixture.Network("")), use("")},
		{"ecs:CreateSecurityGroup", ccm.Version{2, 14, 0, 0}, ccm.Version{}, use("", ranges), use("", fixture.Network(""), func(svc *corev1.Service) {
			ranges(svc)
			svc.Spec.Type = corev1.ServiceTypeClusterIP
		})},
	} {
		called := func(v ccm.Version, use ccm.Features) bool {
			return slices.Contains(ccm.Needs(v, use), tt.action)
		}
		before := tt.from
		before.Patch--
		newest := ccm.Version{99, 0, 0, 0}
		if !called(tt.from, tt.use) || called(newest, tt.use) != (tt.to == ccm.Version{}) ||
			tt.from.Major > 1 && called(before, tt.use) || tt.to != (ccm.Version{}) && called(tt.to, tt.use) {
			t.Errorf("%s is not called from %s up to %s", tt.action, tt.from, tt.to)
		}
		if tt.without != nil && called(newest, tt.without) {
			t.Errorf("%s is called without the feature", tt.action)
		}
	}
}

func TestGains(t *testing.T) {
	t.Parallel()
	use := ccm.InUse(cloud.Cluster{Network: "flannel"}, nil)
	got := ccm.Gains(ccm.Version{2, 11, 0, 0}, ccm.Newest(), use)
	for _, want := range []string{"nlb:ListAsynJobs", "vpc:CreateRouteEntries", "slb:CreateDomainExtension"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not among %v", want, got)
		}
	}
	if slices.Contains(got, "slb:CreateLoadBalancer") || !slices.IsSorted(got) {
		t.Errorf("got %v", got)
	}
	if got := ccm.Gains(ccm.Newest(), ccm.Newest(), use); len(got) > 0 {
		t.Errorf("it gains %v over itself", got)
	}
	if !ccm.Rehashed().Before(ccm.Newest()) {
		t.Error("the newest release has the old hash")
	}
}

// Only what has no load balancer by any sign is to get one.
func TestNone(t *testing.T) {
	t.Parallel()
	own := map[string]string{ccm.NameTag: fixture.BalancerName}
	for _, tt := range []struct {
		name  string
		world sim.World
		edit  func(*corev1.Service)
		want  bool
	}{
		{name: "none", world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Name: fixture.BalancerName + "-x"}}}, want: true},
		{name: "by its tag", world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Tags: own}}}},
		{name: "several tagged", world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Tags: own}, {ID: "lb-2", Tags: own}}}},
		{name: "by its name", world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Name: fixture.BalancerName}}}},
		{name: "one is named", edit: fixture.Notes("id", "lb-1")},
		{name: "it has an address", edit: fixture.Ingress("47.1.1.1")},
		{name: "no NLB", world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Tags: own}}}, edit: fixture.Network(""), want: true},
		{name: "an NLB", world: sim.World{NLBs: []sim.NLB{{ID: "nlb-1", Tags: own}}}, edit: fixture.Network("")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, s := fixture.Account(t, tt.world, tt.edit)
			got, err := c.None(t.Context())
			if got != tt.want || err != nil {
				t.Errorf("got %t, %v", got, err)
			}
			fixture.Declared(t, s, ccm.BoundReads, ccm.NetworkReads)
			failing(t, s, func() error { _, err := c.None(t.Context()); return err })
		})
	}
}

// What a full sync of all Services would change, of no more than can be read.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	var world sim.World
	var services []corev1.Service
	add := func(name string, lb sim.LoadBalancer, edit func(*corev1.Service)) {
		svc := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("0-" + name), Annotations: map[string]string{}}}
		svc.Spec.Type, svc.Spec.Ports = corev1.ServiceTypeLoadBalancer, []corev1.ServicePort{{Port: 80, Protocol: "TCP"}}
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "47.1.1.1"}}
		if edit != nil {
			edit(&svc)
		}
		services = append(services, svc)
		lb.ID, lb.Tags = "lb-"+name, map[string]string{ccm.NameTag: ccm.DefaultName(&svc)}
		lb.DeleteProtection, lb.ModificationProtection.Status = true, "ConsoleProtection"
		lb.Listeners = []sim.Listener{{Port: 80}}
		world.LoadBalancers = append(world.LoadBalancers, lb)
	}
	add("b", sim.LoadBalancer{Name: "x"}, fixture.Notes("name", "y"))
	add("a", sim.LoadBalancer{}, fixture.Notes("resource-group-id", "rg-x"))
	add("new", sim.LoadBalancer{Name: "x"}, fixture.Edits(fixture.Notes("name", "y"), func(svc *corev1.Service) { svc.Status = corev1.ServiceStatus{} }))
	add("nlb", sim.LoadBalancer{Name: "x"}, fixture.Edits(fixture.Notes("name", "y"), fixture.Network("h")))
	add("inside", sim.LoadBalancer{Name: "x"}, fixture.Edits(fixture.Notes("name", "y"),
		func(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceTypeClusterIP }))
	add("lost", sim.LoadBalancer{}, fixture.Notes("id", "lb-gone"))
	c, s := fixture.Account(t, world, nil)
	ask := func() error { _, err := c.Elsewhere(t.Context(), services); return err }
	before := services[1].DeepCopy()
	e, err := c.Elsewhere(t.Context(), services)
	if err != nil {
		t.Fatal(err)
	}
	fixture.Equal(t, e.Text().String(), "Of 3 Services with a CLB, 2 were compared. It would change: shop/b on lb-b: the name is x and the annotations say y.")
	fixture.Equal(t, &services[1], before)
	fixture.Declared(t, s, ccm.BoundReads, ccm.DriftReads)
	failing(t, s, ask)

	for i := range 30 {
		add(fmt.Sprintf("z%02d", i), sim.LoadBalancer{}, nil)
	}
	c, _ = fixture.Account(t, world, nil)
	if e, err := c.Elsewhere(t.Context(), services[6:]); err != nil || e.Text().String() != "Of 30 Services with a CLB, 20 were compared. Nothing differs." {
		t.Errorf("%s, %v", e.Text(), err)
	}
	fixture.Equal(t, ccm.Elsewhere{}.Text().String(), "No other Service has a CLB that it would change.")
}
