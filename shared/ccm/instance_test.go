package ccm_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/test/fixture"
	"github.com/lbremedy/lbremedy/test/sim"
)

// failing reports each call whose refusal by the cloud does not become an error.
func failing(t *testing.T, s *sim.Cloud, ask func() error) {
	t.Helper()
	calls := s.Calls()
	s.ResetCalls()
	for i, call := range calls {
		heal := s.Fault(sim.Fault{Product: call.Product, Action: call.Action, Status: 403, Code: "NoPermission"})
		if err := ask(); err == nil {
			t.Errorf("call %d, %s, fails, and it is no error", i, call.Action)
		}
		heal()
	}
}

// The controller uses the annotation, then the tag, then the name, never its own label or the address.
func TestBound(t *testing.T) {
	t.Parallel()
	own := map[string]string{ccm.NameTag: fixture.BalancerName}
	two := sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Tags: own}, {ID: "lb-2", Address: "47.1.1.1", AddressType: "internet"}}}
	nlbs := sim.World{NLBs: []sim.NLB{{ID: "nlb-1", Tags: own, AddressType: "Intranet"}, {ID: "nlb-2", Name: "x"}}}
	for _, tt := range []struct {
		name  string
		world sim.World
		edit  func(*corev1.Service)
		want  string // ID, kind, address type
	}{
		{name: "by its tag", world: two, edit: fixture.Edits(fixture.Labels(map[string]string{ccm.BalancerLabel: "lb-2"}), fixture.Ingress("47.1.1.1")),
			want: "lb-1 CLB internet"},
		{name: "by the annotation", world: two, edit: fixture.Notes("id", "lb-2"), want: "lb-2 CLB internet"},
		{name: "an empty annotation", world: two, edit: fixture.Notes("id", ""), want: "lb-1 CLB internet"},
		{name: "one that does not exist", world: two, edit: fixture.Notes("id", "lb-3")},
		{name: "no ID at all", world: two, edit: fixture.Notes("id", strings.Repeat("lb ", 1e5))},
		{name: "by its name", world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Name: fixture.BalancerName}}}, want: "lb-1 CLB internet"},
		{name: "several tagged", world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Tags: own}, {ID: "lb-2", Tags: own}}}},
		{name: "several named", world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Name: fixture.BalancerName},
			{ID: "lb-2", Name: fixture.BalancerName}}}},
		{name: "none"},
		{name: "an NLB by its tag", world: nlbs, edit: fixture.Network(""), want: "nlb-1 NLB intranet"},
		{name: "an NLB by the annotation", world: nlbs, edit: fixture.Edits(fixture.Network(""), fixture.Notes("id", "nlb-2")), want: "nlb-2 NLB internet"},
		{name: "an NLB by its name", world: sim.World{NLBs: []sim.NLB{{ID: "nlb-1", Name: fixture.BalancerName}}}, edit: fixture.Network(""),
			want: "nlb-1 NLB internet"},
		{name: "an NLB that does not exist", world: nlbs, edit: fixture.Edits(fixture.Network(""), fixture.Notes("id", "nlb-3"))},
		{name: "no NLB", edit: fixture.Network("")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, s := fixture.Account(t, tt.world, tt.edit)
			lb, err := c.Bound(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if lb != nil {
				got = lb.ID + " " + lb.Kind() + " " + lb.AddressType
			}
			fixture.Equal(t, got, tt.want)
			fixture.Declared(t, s, ccm.BoundReads, ccm.NetworkReads)
			failing(t, s, func() error { _, err := c.Bound(t.Context()); return err })
		})
	}
}

func TestMade(t *testing.T) {
	t.Parallel()
	own := map[string]string{ccm.NameTag: fixture.BalancerName}
	for _, tt := range []struct {
		name  string
		world sim.World
		edit  func(*corev1.Service)
		want  string
	}{
		{name: "named", edit: fixture.Notes("id", "lb-1"), want: "lb-1"},
		{name: "synced", edit: fixture.Ingress("10.1.1.1"), want: "10.1.1.1"},
		{name: "tagged", world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Tags: own}, {ID: "lb-2", Tags: own}}}, want: "lb-1"},
		{name: "of its name", world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Name: fixture.BalancerName},
			{ID: "lb-2", Name: fixture.BalancerName + "-x"}}}, want: "lb-1"},
		{name: "none"},
		{name: "an NLB, tagged", world: sim.World{NLBs: []sim.NLB{{ID: "nlb-1", Tags: own}}}, edit: fixture.Network(""), want: "nlb-1"},
		{name: "an NLB of its name", world: sim.World{NLBs: []sim.NLB{{ID: "nlb-1", Name: fixture.BalancerName}}}, edit: fixture.Network(""), want: "nlb-1"},
		{name: "no NLB", edit: fixture.Network("")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, s := fixture.Account(t, tt.world, tt.edit)
			got, err := c.Made(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			fixture.Equal(t, got, tt.want)
			fixture.Declared(t, s, ccm.BoundReads, ccm.NetworkReads)
			failing(t, s, func() error { _, err := c.Made(t.Context()); return err })
			if none, err := c.None(t.Context()); err != nil || none != (tt.want == "") {
				t.Errorf("there is none: %t, %v", none, err)
			}
		})
	}
}

var servingReads = [][]grant.Grant{ccm.BalancerReads, ccm.NetworkReads}

// labelled makes it the controller that has written the labels: it does so with the status.
func labelled(svc *corev1.Service) {
	var fields metav1.FieldsV1
	fields.SetRawBytes([]byte(`{"f:metadata":{"f:labels":{"f:` + ccm.BalancerLabel + `":{}}}}`))
	svc.ManagedFields = []metav1.ManagedFieldsEntry{{Subresource: "status", Time: &metav1.Time{Time: time.Unix(1, 0)}, FieldsV1: &fields}}
}

func TestServing(t *testing.T) {
	t.Parallel()
	tags := map[string]string{ccm.NameTag: fixture.BalancerName, ccm.ClusterTag: "c-1"}
	group := []sim.VGroup{{Name: "k8s/80/web/shop/c-1"}}
	clbs := sim.World{LoadBalancers: []sim.LoadBalancer{
		{ID: "lb-1", Address: "10.1.1.1", VSwitch: "vsw-1", Tags: tags, VGroups: group},
		{ID: "lb-2", Address: "10.1.1.2", VSwitch: "vsw-1"},
		{ID: "lb-3", Address: "10.1.1.2", VSwitch: "vsw-2"},
	}}
	host := "nlb-1.cn-hangzhou.nlb.aliyuncs.com"
	listeners := []sim.NLBListener{{Port: 80, Description: "k8s.80.TCP.web.shop.c-1"}}
	nlbs := sim.World{NLBs: []sim.NLB{{ID: "nlb-1", Tags: tags, Listeners: listeners}, {ID: "nlb-2"}}}
	for _, tt := range []struct {
		name  string
		world sim.World
		edit  func(*corev1.Service)
		want  string
		owner ccm.Owner
	}{
		{"its own", clbs, fixture.Ingress("10.1.1.1"), "lb-1", ccm.Own},
		{"a person's, in the cluster's VPC", clbs, fixture.Ingress("10.1.1.2"), "lb-2", ccm.Users},
		{"the label says another one", clbs, fixture.Edits(fixture.Ingress("10.1.1.2"), fixture.Labels(map[string]string{ccm.BalancerLabel: "lb-1"})),
			"lb-2", ccm.Users},
		{"the label says the same", clbs, fixture.Edits(fixture.Ingress("10.1.1.1"), fixture.Labels(map[string]string{ccm.BalancerLabel: "lb-1"})), "lb-1", ccm.Own},
		{"the label says one, and the address is nobody's", clbs, fixture.Edits(fixture.Ingress("10.9.9.9"),
			fixture.Labels(map[string]string{ccm.BalancerLabel: "lb-1"})), "", 0},
		{"the address is a host name of the annotation", clbs, fixture.Edits(fixture.Network("web.example.com"),
			func(svc *corev1.Service) { svc.Spec.LoadBalancerClass = nil },
			fixture.Notes("hostname", "web.example.com"), fixture.Labels(map[string]string{ccm.BalancerLabel: "lb-1"}), labelled), "lb-1", ccm.Own},
		{"a person wrote the label beside such a host name", clbs, fixture.Edits(fixture.Network("web.example.com"),
			func(svc *corev1.Service) { svc.Spec.LoadBalancerClass = nil },
			fixture.Notes("hostname", "web.example.com"), fixture.Labels(map[string]string{ccm.BalancerLabel: "lb-1"})), "", 0},
		{"one with its tag and another address", clbs, fixture.Ingress("10.9.9.9"), "", 0},
		{"none", sim.World{}, fixture.Ingress("10.1.1.1"), "", 0},
		{"an NLB by its label", nlbs, fixture.Edits(fixture.Network(host), fixture.Labels(map[string]string{ccm.BalancerLabel: "nlb-1"})), "nlb-1", ccm.Own},
		{"an NLB by its DNS name", nlbs, fixture.Edits(fixture.Network("nlb-2.cn-hangzhou.nlb.aliyuncs.com"),
			fixture.Labels(map[string]string{ccm.BalancerLabel: "nlb-1"})), "nlb-2", ccm.Users},
		{"an NLB of another name", nlbs, fixture.Network("nlb-3.cn-hangzhou.nlb.aliyuncs.com"), "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, s := fixture.Account(t, tt.world, tt.edit)
			got, err := c.Serving(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			id := ""
			if got.Instance != nil {
				id = got.ID
			}
			if got.ByTag != (id != "" && got.Tags[ccm.NameTag] != "") {
				t.Errorf("%s is found by its tag: %t", id, got.ByTag)
			}
			if id != tt.want || got.Owner != tt.owner || (len(got.Evidence) == 0) != (tt.want == "") || !strings.Contains(got.Where.String(), "region") {
				t.Errorf("got %q, %d, %q, %q", id, got.Owner, got.Evidence, got.Where)
			}
			fixture.Declared(t, s, servingReads...)
			failing(t, s, func() error { _, err := c.Serving(t.Context()); return err })
		})
	}
}

func TestNetworkOwner(t *testing.T) {
	t.Parallel()
	listener := func(descriptions ...string) (out []sim.NLBListener) {
		for i, d := range descriptions {
			out = append(out, sim.NLBListener{Port: 80 + i, Description: d})
		}
		return out
	}
	protected := sim.Protection{Status: "ConsoleProtection", Reason: ccm.ManagedByACK}
	for _, tt := range []struct {
		name string
		lb   sim.NLB
		want ccm.Owner
		says string
	}{
		{"own by its tag", sim.NLB{Tags: map[string]string{ccm.ClusterTag: "c-1"}, Listeners: listener("k8s.80.TCP.web.shop.c-1")}, ccm.Own,
			"listener k8s.80.TCP.web.shop.c-1"},
		{"own by its protection", sim.NLB{ModificationProtection: protected, Listeners: listener("k8s.80.TCP.web.shop.c-1")}, ccm.Own, "managed.by.ack"},
		{"another Service's too", sim.NLB{ModificationProtection: protected, Listeners: listener("k8s.80.TCP.web.shop.c-1", "k8s.81.TCP.api.shop.c-1")},
			ccm.OtherService, "shop/api"},
		{"another cluster's", sim.NLB{ModificationProtection: protected, Listeners: listener("k8s.80.TCP.web.shop.c-2", "by hand")}, ccm.OtherService,
			"shop/web (c-2)"},
		{"another cluster's too", sim.NLB{ModificationProtection: protected, Listeners: listener("k8s.80.TCP.web.shop.c-1", "k8s.81.TCP.web.shop.c-2")},
			ccm.OtherService, "other Services: shop/web (c-2)"},
		{"with a listener by hand", sim.NLB{ModificationProtection: protected, Listeners: listener("by hand")}, ccm.Unproven, "0 listeners of this Service"},
		{"reused", sim.NLB{Tags: map[string]string{ccm.ReusedTag: "true"}}, ccm.Users, "reused"},
		{"made by hand", sim.NLB{}, ccm.Users, "a person created it"},
		{"a listener of the Service, and no mark at all, as v2.8.0 leaves it without its tags", sim.NLB{Listeners: listener("k8s.80.TCP.web.shop.c-1")},
			ccm.Unproven, "no mark of the controller, and 1 listener"},
		{"the default name, and no mark at all", sim.NLB{Name: fixture.BalancerName}, ccm.Unproven, "no mark"},
		{"the API server's", sim.NLB{Tags: map[string]string{ccm.ClusterTag: "c-1"}, Listeners: []sim.NLBListener{{Port: 6443}}}, ccm.APIServer, "API server"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.lb.ID = "nlb-1"
			c, _ := fixture.Account(t, sim.World{NLBs: []sim.NLB{tt.lb}}, fixture.Network(""))
			lb, err := c.Named(t.Context(), "nlb-1")
			if err != nil {
				t.Fatal(err)
			}
			got, evidence, err := c.Owner(t.Context(), lb)
			if err != nil || got != tt.want || !strings.Contains(evidence.String(), tt.says) {
				t.Errorf("got %d, %q, %v", got, evidence, err)
			}
		})
	}
}

func TestReusable(t *testing.T) {
	t.Parallel()
	world := sim.World{
		LoadBalancers: []sim.LoadBalancer{
			{ID: "lb-a"}, {ID: "lb-b", Listeners: []sim.Listener{{Port: 80}}}, {ID: "lb-c", Tags: map[string]string{ccm.NameTag: "x"}}, {ID: "lb-d",
				Tags: map[string]string{ccm.ClusterTag: ""}},
			{ID: "lb-e", VSwitch: "vsw-1"}, {ID: "lb-f", VSwitch: "vsw-2"}, {ID: "lb-g", Status: "inactive"}, {ID: "lb-h", Listeners: []sim.Listener{{Port: 81}}},
			{ID: "lb-i", Tags: map[string]string{ccm.ReusedTag: "true"}},
		},
		NLBs: []sim.NLB{
			{ID: "nlb-a"}, {ID: "nlb-b", Listeners: []sim.NLBListener{{Port: 80}}}, {ID: "nlb-c", VPC: "vpc-2"}, {ID: "nlb-d", AddressType: "Intranet"},
			{ID: "nlb-e", Tags: map[string]string{ccm.ClusterTag: "c"}}, {ID: "nlb-f", Status: "Provisioning"},
		},
	}
	for want, edit := range map[string]func(*corev1.Service){
		"lb-a lb-h": nil,
		"lb-e":      fixture.Notes("address-type", "intranet"),
		"nlb-a":     fixture.Network(""),
		"nlb-d":     fixture.Edits(fixture.Network(""), fixture.Notes("address-type", "Intranet")),
	} {
		c, s := fixture.Account(t, world, edit)
		lbs, err := c.Reusable(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, lb := range lbs {
			ids = append(ids, lb.ID)
		}
		fixture.Equal(t, strings.Join(ids, " "), want)
		fixture.Declared(t, s, ccm.ReusableReads, ccm.NetworkReads)
		failing(t, s, func() error { _, err := c.Reusable(t.Context()); return err })
	}

	var many []sim.LoadBalancer
	for i := range 500 {
		lb := sim.LoadBalancer{ID: fmt.Sprintf("lb-%03d", i)}
		if i < 6 {
			lb.Listeners = []sim.Listener{{Port: 80}}
		}
		many = append(many, lb)
	}
	c, s := fixture.Account(t, sim.World{LoadBalancers: many}, nil)
	lbs, err := c.Reusable(t.Context())
	if err != nil || len(lbs) != 4 || lbs[0].ID != "lb-006" || len(s.Calls()) > 20 {
		t.Errorf("got %d of 500 with %d calls, %v", len(lbs), len(s.Calls()), err)
	}
}
