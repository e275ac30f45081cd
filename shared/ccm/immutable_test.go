package ccm_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/test/fixture"
	"github.com/lbremedy/lbremedy/test/sim"
)

func TestImmutablesNotSaid(t *testing.T) {
	t.Parallel()
	whole := cloud.LoadBalancer{ID: "lb-1", Address: "10.0.0.5", IPVersion: "ipv6", Zone: "z-a", Network: "vpc"}
	for name, take := range map[string]func(*cloud.LoadBalancer){
		"master-zoneid": func(lb *cloud.LoadBalancer) { lb.Zone = "" },
		"ip-version":    func(lb *cloud.LoadBalancer) { lb.IPVersion = "" },
		"network-type":  func(lb *cloud.LoadBalancer) { lb.Network = "" },
		"ip":            func(lb *cloud.LoadBalancer) { lb.Address = "" },
	} {
		lb := whole
		take(&lb)
		annotations := map[string]string{ccm.Prefix + "ip-version": "ipv6", ccm.Prefix + name: "ipv6"}
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}
		if list, err := ccm.Immutables(svc, &ccm.Instance{ID: lb.ID, CLB: &lb}); err == nil {
			t.Errorf("%s: got %+v, want an error", name, list)
		}
	}
}

func TestImmutablesNone(t *testing.T) {
	t.Parallel()
	lb := &cloud.LoadBalancer{ID: "lb-1", Address: "10.0.0.5", IPVersion: "ipv4", Zone: "z-a", Network: "vpc"}
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{ccm.Prefix + ccm.SlaveZone: "z-b"}}}
	list, err := ccm.Immutables(svc, &ccm.Instance{ID: lb.ID, CLB: lb})
	if err != nil || len(list) != 1 || list[0].Name != ccm.SlaveZone || list[0].Is != "" {
		t.Fatalf("got %+v, %v", list, err)
	}
	if got := list[0].Differs(lb.ID).String(); !strings.HasSuffix(got, `asks for "z-b", but the API reports no standby zone of lb-1.`) {
		t.Error(got)
	}
}

func TestRuledOut(t *testing.T) {
	t.Parallel()
	own := map[string]string{ccm.NameTag: fixture.BalancerName}
	zoned := sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Tags: own, MasterZone: "z-a", SlaveZone: "z-b"}}}
	lcu := sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Tags: own, ChargeType: ccm.PayByLCU}}}
	two := sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Tags: own}, {ID: "lb-2", Tags: own}}}
	master, both := fixture.Notes(ccm.MasterZone, "z-x"), fixture.Notes(ccm.MasterZone, "z-x", ccm.SlaveZone, "z-b")
	spec := fixture.Notes(ccm.ChargeSpec, ccm.SmallSpec)
	for _, tt := range []struct {
		name      string
		world     sim.World
		now, next func(*corev1.Service)
		want      string // what is ruled out, or why that is unknown
		calls     bool
	}{
		{name: "nothing is asked for", world: zoned, now: master},
		{name: "other settings", world: zoned, next: fixture.Notes("vswitch-id", "vsw-9")},
		{name: "no load balancer yet", next: both, calls: true},
		{name: "other zones", world: zoned, next: both, want: "master-zoneid: z-x is z-a", calls: true},
		{name: "another standby zone", world: zoned, next: fixture.Notes(ccm.MasterZone, "z-a", ccm.SlaveZone, "z-y"), want: "slave-zoneid: z-y is z-b", calls: true},
		{name: "its own zones", world: zoned, next: fixture.Notes(ccm.MasterZone, "z-a", ccm.SlaveZone, "z-b"), calls: true},
		{name: "what it asks for already", world: zoned, now: master, next: master},
		{name: "found by the annotation", world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", MasterZone: "z-a"}}}, now: fixture.Notes("id", "lb-1"),
			next: master, want: "master-zoneid: z-x is z-a", calls: true},
		{name: "not found by the annotation", now: fixture.Notes("id", "lb-1"), next: master, want: `none with the ID "lb-1"`, calls: true},
		{name: "not found by its address", now: fixture.Ingress("47.1.1.1"), next: master, want: "none with the address 47.1.1.1", calls: true},
		{name: "several", world: two, next: master, want: "2 load balancers", calls: true},
		{name: "billed by LCU", world: lcu, next: fixture.Notes(ccm.ChargeType, ccm.PayBySpec), want: "instance-charge-type: PayBySpec is PayByCLCU", calls: true},
		{name: "billed by LCU, and the spelling", world: lcu, next: fixture.Notes(ccm.ChargeType, "paybyspec"), want: "instance-charge-type: paybyspec is PayByCLCU",
			calls: true},
		{name: "a spec, billed by LCU", world: lcu, next: spec, want: "spec: slb.s1.small is ", calls: true},
		{name: "a spec, billed by spec", world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Tags: own, Spec: "slb.s2.small"}}}, next: spec, calls: true},
		{name: "an NLB", world: sim.World{NLBs: []sim.NLB{{ID: "nlb-1", Tags: own}}}, now: fixture.Network(""), next: both},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, s := fixture.Account(t, tt.world, tt.now)
			next := c.Service.DeepCopy()
			if tt.next == nil {
				next.Annotations = nil
			} else {
				tt.next(next)
			}
			lb, list, got, err := c.RuledOut(t.Context(), next)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range list {
				got += fmt.Sprintf("%s: %s is %s", a.Name, a.Want, a.Is)
			}
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) || len(list) > 0 && lb.ID != "lb-1" {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if calls := len(s.Calls()); calls > 0 != tt.calls {
				t.Errorf("it makes %d calls", calls)
			}
			fixture.Declared(t, s, []grant.Grant{grant.DescribeLoadBalancers})
			failing(t, s, func() error { _, _, _, err := c.RuledOut(t.Context(), next); return err })
		})
	}
}
