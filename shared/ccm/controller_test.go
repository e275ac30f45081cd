package ccm_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
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

// The actions of a release depend on the features that the cluster uses.
func TestNeeds(t *testing.T) {
	t.Parallel()
	v := func(major, minor, patch int) ccm.Version { return ccm.Version{major, minor, patch, 0} }
	clb, net := func(*corev1.Service) {}, fixture.Network("")
	with := func(edits ...func(*corev1.Service)) ccm.Features { return use("", nil, fixture.Edits(edits...)) }
	ranges := func(svc *corev1.Service) { svc.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"} }
	inside := func(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceTypeClusterIP }
	labelled := func(svc *corev1.Service) {
		svc.Labels = map[string]string{"service.k8s.alibaba/security-group-id": "sg-1"}
	}
	eni := func(svc *corev1.Service) { svc.Annotations[ccm.BackendType] = "eni" }
	terway, flannel := use("terway-eniip", nil), use("flannel", nil, clb, net)
	first, virtual := v(1, 9, 3), use("", map[string]string{"type": "virtual-kubelet"})
	lingJun := use("", map[string]string{"alibabacloud.com/lingjun-worker": "true"})
	elsewhere := use("", map[string]string{"alibabacloud.com/lingjun-worker": "true", "alibabacloud.com/lingjun-tianwen-environment": ""})
	for _, tt := range []struct {
		actions string
		from    ccm.Version  // the first version that calls them
		use     ccm.Features // the features that need them
		without ccm.Features // features with which they are never called; zero: not tested
	}{
		{"slb:CreateLoadBalancer slb:StartLoadBalancerListener ecs:DescribeInstances", first, with(clb), ccm.Features{}},
		{"slb:TagResources slb:ListTagResources", v(2, 5, 0), with(clb), ccm.Features{}},
		{"slb:UntagResources", v(2, 10, 0), with(clb), ccm.Features{}},
		{"slb:ModifyLoadBalancerInstanceChargeType", v(2, 4, 0), with(fixture.Notes("instance-charge-type", "PayByCLCU")), flannel},
		{"slb:DescribeServerCertificates", v(2, 6, 0), with(fixture.Notes("cert-id", "c")), with(fixture.Notes("cert-id", "c"), net)},
		{"slb:CreateDomainExtension slb:SetDomainExtensionAttribute slb:DeleteDomainExtension slb:DescribeDomainExtensions", v(2, 13, 0),
			with(fixture.Notes("domain-extensions", "a:b")), flannel},
		{"ecs:ModifyNetworkInterfaceAttribute", v(2, 11, 2), with(clb), ccm.Features{}},
		{"ecs:DescribeNetworkInterfaces", v(2, 11, 2), flannel, ccm.Features{}},
		{"ecs:DescribeNetworkInterfaces", first, terway, ccm.Features{}},
		{"ecs:DescribeNetworkInterfaces", first, with(eni), ccm.Features{}},
		{"ecs:DescribeNetworkInterfaces", first, virtual, ccm.Features{}},
		{"eflo:DescribeNode", v(2, 12, 4), lingJun, elsewhere},
		{"vpc:DescribeVSwitches", v(2, 13, 0), with(fixture.Notes("address-type", "intranet")),
			with(fixture.Notes("address-type", "intranet", "vswitch-id", "vsw-1"))},
		{"vpc:DescribeVpcAttribute", v(2, 8, 0), terway, flannel},
		{"vpc:DescribeEipAddresses", first, with(fixture.Notes("external-ip-type", "eip")), with(fixture.Notes("external-ip-type", "lb"))},
		{"vpc:DescribeRouteTableList vpc:DescribeRouteEntryList vpc:CreateRouteEntry vpc:DeleteRouteEntry", first, flannel, terway},
		{"vpc:CreateRouteEntries vpc:DeleteRouteEntries", v(2, 11, 2), flannel, terway},
		{"nlb:CreateLoadBalancer nlb:TagResources nlb:GetJobStatus", v(2, 5, 0), with(net), with(clb)},
		{"nlb:UpdateLoadBalancerProtection", v(2, 9, 1), with(net), with(clb)},
		{"nlb:UntagResources", v(2, 10, 0), with(net), with(clb)},
		{"nlb:ListAsynJobs", v(2, 12, 1), with(net), with(clb)},
		{"nlb:LoadBalancerJoinSecurityGroup nlb:LoadBalancerLeaveSecurityGroup", v(2, 6, 0), with(net, fixture.Notes("security-group-ids", "")), with(net)},
		{"nlb:AttachCommonBandwidthPackageToLoadBalancer nlb:DetachCommonBandwidthPackageFromLoadBalancer", v(2, 9, 1),
			with(net, fixture.Notes("bandwidth-package-id", "")), with(net)},
		{"nlb:EnableLoadBalancerIpv6Internet nlb:DisableLoadBalancerIpv6Internet", v(2, 9, 1), with(net, fixture.Notes("ipv6-address-type", "internet")), with(net)},
		{"nlb:ListListenerCertificates nlb:AssociateAdditionalCertificatesWithListener nlb:DisassociateAdditionalCertificatesWithListener", v(2, 13, 0),
			with(net, fixture.Notes("additional-cert-ids", "c")), with(net)},
		{"ecs:DescribeSecurityGroups", v(2, 14, 0), with(net, fixture.Notes("security-group-ids", "sg-1")),
			with(net, fixture.Notes("security-group-ids", "sg-1", "id", "nlb-1"))},
		{"ecs:DescribeSecurityGroups ecs:DescribeSecurityGroupAttribute ecs:DeleteSecurityGroup nlb:LoadBalancerLeaveSecurityGroup", v(2, 14, 0),
			with(net, labelled), with(net)},
		{"ecs:CreateSecurityGroup ecs:AuthorizeSecurityGroup ecs:RevokeSecurityGroup ecs:ModifySecurityGroupRule ecs:ModifySecurityGroupAttribute", v(2, 14, 0),
			with(net, ranges), with(net, labelled)},
		{"ecs:CreateSecurityGroup nlb:LoadBalancerJoinSecurityGroup ecs:DeleteSecurityGroup", v(2, 14, 0), with(net, ranges),
			with(net, ranges, fixture.Notes("id", "nlb-1"))},
		{"ecs:CreateSecurityGroup", v(2, 14, 0), with(net, ranges), with(ranges)},
		{"ecs:CreateSecurityGroup", v(2, 14, 0), with(net, ranges), with(net, ranges, inside)},
	} {
		for action := range strings.FieldsSeq(tt.actions) {
			called := func(v ccm.Version, use ccm.Features) bool { return slices.Contains(ccm.Needs(v, use), action) }
			before := tt.from
			if before.Patch--; before.Patch < 0 {
				before.Minor, before.Patch = before.Minor-1, 99
			}
			if newest := v(99, 0, 0); !called(tt.from, tt.use) || !called(newest, tt.use) || tt.from.Major > 1 && called(before, tt.use) {
				t.Errorf("%s is not called from %s on", action, tt.from)
			} else if !reflect.DeepEqual(tt.without, ccm.Features{}) && called(newest, tt.without) {
				t.Errorf("%s is called without the feature", action)
			}
		}
	}
	old := with(fixture.Notes("cert-id", "c"))
	for _, tt := range []struct {
		action string
		v      ccm.Version
		want   bool
	}{
		{"slb:StopLoadBalancerListener", first, true},
		{"slb:DescribeLoadBalancerTCPListenerAttribute", v(2, 0, 0), true},
		{"slb:DescribeLoadBalancerTCPListenerAttribute", v(2, 0, 1), false},
		{"slb:DescribeLoadBalancerListeners", v(2, 0, 1), true},
		{"slb:AddTags", v(2, 4, 4), true},
		{"slb:AddTags", v(2, 5, 0), false},
		{"slb:DescribeTags", v(2, 5, 0), false},
		{"slb:DescribeServerCertificates", v(2, 4, 3), false},
		{"slb:DescribeServerCertificates", v(2, 4, 4), true},
		{"slb:DescribeServerCertificates", v(2, 5, 1), false},
	} {
		if slices.Contains(ccm.Needs(tt.v, old), tt.action) != tt.want {
			t.Errorf("that %s calls %s is not %t", tt.v, tt.action, tt.want)
		}
	}
	// No release of the second generation calls these, though its provider has them.
	for _, action := range []string{"slb:StopLoadBalancerListener", "slb:ModifyVServerGroupBackendServers", "slb:RemoveTags"} {
		for _, v := range []ccm.Version{v(2, 0, 1), v(2, 4, 0), v(2, 9, 1), ccm.Newest()} {
			if slices.Contains(ccm.Needs(v, use("flannel", nil, clb, net)), action) {
				t.Errorf("%s is said to call %s", v, action)
			}
		}
	}
}

func use(network string, labels map[string]string, edits ...func(*corev1.Service)) ccm.Features {
	var all []corev1.Service
	for _, edit := range edits {
		svc := corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
		edit(&svc)
		all = append(all, svc)
	}
	return ccm.InUse(cloud.Cluster{Network: network}, all, []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Labels: labels}}})
}

func TestGains(t *testing.T) {
	t.Parallel()
	use := use("flannel", nil, fixture.Network(""), fixture.Notes("domain-extensions", "a:b"))
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
