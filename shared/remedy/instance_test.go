package remedy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/sim"
)

// edits returns the edit of a Service that makes all of them.
func edits(list ...func(*corev1.Service)) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		for _, edit := range list {
			edit(svc)
		}
	}
}

// notes sets annotations by their short names.
func notes(pairs ...string) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		for i := 0; i < len(pairs); i += 2 {
			svc.Annotations[remedy.Prefix+pairs[i]] = pairs[i+1]
		}
	}
}

// network makes it a Service of an NLB, with this host name as its address.
func network(host string) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		class := remedy.NLBClass
		svc.Spec.LoadBalancerClass = &class
		if host != "" {
			svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: host}}
		}
	}
}

// failing reports each of the calls that is no error when the cloud refuses it.
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

// The controller goes by the annotation, then by tag, then by name, and never by
// its own label or the address.
func TestBound(t *testing.T) {
	t.Parallel()
	own := map[string]string{remedy.NameTag: lbName}
	two := sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Tags: own}, {ID: "lb-2", Address: "47.1.1.1", AddressType: "internet"}}}
	nlbs := sim.World{NLBs: []sim.NLB{{ID: "nlb-1", Tags: own, AddressType: "Intranet"}, {ID: "nlb-2", Name: "x"}}}
	for _, tt := range []struct {
		name  string
		world sim.World
		edit  func(*corev1.Service)
		want  string // ID, kind, address type
	}{
		{name: "by its tag", world: two, edit: edits(labels(map[string]string{remedy.BalancerLabel: "lb-2"}), ingress("47.1.1.1")), want: "lb-1 CLB internet"},
		{name: "by the annotation", world: two, edit: notes("id", "lb-2"), want: "lb-2 CLB internet"},
		{name: "an empty annotation", world: two, edit: notes("id", ""), want: "lb-1 CLB internet"},
		{name: "one that does not exist", world: two, edit: notes("id", "lb-3")},
		{name: "no ID at all", world: two, edit: notes("id", strings.Repeat("lb ", 1e5))},
		{name: "by its name", world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Name: lbName}}}, want: "lb-1 CLB internet"},
		{name: "several tagged", world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Tags: own}, {ID: "lb-2", Tags: own}}}},
		{name: "several named", world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Name: lbName}, {ID: "lb-2", Name: lbName}}}},
		{name: "none"},
		{name: "an NLB by its tag", world: nlbs, edit: network(""), want: "nlb-1 NLB intranet"},
		{name: "an NLB by the annotation", world: nlbs, edit: edits(network(""), notes("id", "nlb-2")), want: "nlb-2 NLB internet"},
		{name: "an NLB by its name", world: sim.World{NLBs: []sim.NLB{{ID: "nlb-1", Name: lbName}}}, edit: network(""), want: "nlb-1 NLB internet"},
		{name: "an NLB that does not exist", world: nlbs, edit: edits(network(""), notes("id", "nlb-3"))},
		{name: "no NLB", edit: network("")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, s := account(t, tt.world, tt.edit)
			lb, err := c.Bound(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if lb != nil {
				got = lb.ID + " " + lb.Kind() + " " + lb.AddressType
			}
			equal(t, got, tt.want)
			declared(t, s, remedy.BoundReads, remedy.NetworkReads)
			failing(t, s, func() error { _, err := c.Bound(t.Context()); return err })
		})
	}
}

// What decides whether a load balancer is still to be made: any that is known.
func TestMade(t *testing.T) {
	t.Parallel()
	own := map[string]string{remedy.NameTag: lbName}
	for _, tt := range []struct {
		name  string
		world sim.World
		edit  func(*corev1.Service)
		want  string
	}{
		{name: "named", edit: notes("id", "lb-1"), want: "lb-1"},
		{name: "synced", edit: ingress("10.1.1.1"), want: "10.1.1.1"},
		{name: "tagged", world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Tags: own}, {ID: "lb-2", Tags: own}}}, want: "lb-1"},
		{name: "of its name", world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Name: lbName}, {ID: "lb-2", Name: lbName + "-x"}}}, want: "lb-1"},
		{name: "none"},
		{name: "an NLB, tagged", world: sim.World{NLBs: []sim.NLB{{ID: "nlb-1", Tags: own}}}, edit: network(""), want: "nlb-1"},
		{name: "an NLB of its name", world: sim.World{NLBs: []sim.NLB{{ID: "nlb-1", Name: lbName}}}, edit: network(""), want: "nlb-1"},
		{name: "no NLB", edit: network("")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, s := account(t, tt.world, tt.edit)
			got, err := c.Made(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			equal(t, got, tt.want)
			declared(t, s, remedy.BoundReads, remedy.NetworkReads)
			failing(t, s, func() error { _, err := c.Made(t.Context()); return err })
			if none, err := c.None(t.Context()); err != nil || none != (tt.want == "") {
				t.Errorf("there is none: %t, %v", none, err)
			}
		})
	}
}

// declared checks that the calls are among the grants.
func declared(t *testing.T, s *sim.Cloud, lists ...[]grant.Grant) {
	t.Helper()
	allowed := strings.Join(grant.Actions(grant.Set(lists...)), " ") + " "
	for _, call := range s.Calls() {
		if !strings.Contains(allowed, call.Product+":"+call.Action+" ") {
			t.Errorf("the call %s:%s is not declared", call.Product, call.Action)
		}
	}
}

var servingReads = [][]grant.Grant{remedy.BalancerReads, remedy.NetworkReads}

// The load balancer that has the Service's address, and whose it is.
func TestServing(t *testing.T) {
	t.Parallel()
	tags := map[string]string{remedy.NameTag: lbName, remedy.ClusterTag: "c-1"}
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
		owner remedy.Owner
	}{
		{"its own", clbs, ingress("10.1.1.1"), "lb-1", remedy.Own},
		{"a person's, in the cluster's VPC", clbs, ingress("10.1.1.2"), "lb-2", remedy.Users},
		{"the label says another one", clbs, edits(ingress("10.1.1.2"), labels(map[string]string{remedy.BalancerLabel: "lb-1"})), "lb-2", remedy.Users},
		{"the label says the same", clbs, edits(ingress("10.1.1.1"), labels(map[string]string{remedy.BalancerLabel: "lb-1"})), "lb-1", remedy.Own},
		{"the label says one, and the address is nobody's", clbs, edits(ingress("10.9.9.9"), labels(map[string]string{remedy.BalancerLabel: "lb-1"})), "", 0},
		{"the address is a host name of the annotation", clbs, edits(network("web.example.com"), func(svc *corev1.Service) { svc.Spec.LoadBalancerClass = nil },
			notes("hostname", "web.example.com"), labels(map[string]string{remedy.BalancerLabel: "lb-1"})), "lb-1", remedy.Own},
		{"one with its tag and another address", clbs, ingress("10.9.9.9"), "", 0},
		{"none", sim.World{}, ingress("10.1.1.1"), "", 0},
		{"an NLB by its label", nlbs, edits(network(host), labels(map[string]string{remedy.BalancerLabel: "nlb-1"})), "nlb-1", remedy.Own},
		{"an NLB by its DNS name", nlbs, edits(network("nlb-2.cn-hangzhou.nlb.aliyuncs.com"), labels(map[string]string{remedy.BalancerLabel: "nlb-1"})), "nlb-2", remedy.Users},
		{"an NLB of another name", nlbs, network("nlb-3.cn-hangzhou.nlb.aliyuncs.com"), "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, s := account(t, tt.world, tt.edit)
			got, err := c.Serving(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			id := ""
			if got.Instance != nil {
				id = got.ID
			}
			if got.ByTag != (id != "" && got.Tags[remedy.NameTag] != "") {
				t.Errorf("%s is found by its tag: %t", id, got.ByTag)
			}
			if id != tt.want || got.Owner != tt.owner || (got.Evidence == "") != (tt.want == "") || !strings.Contains(got.Where, "region") {
				t.Errorf("got %q, %d, %q, %q", id, got.Owner, got.Evidence, got.Where)
			}
			declared(t, s, servingReads...)
			failing(t, s, func() error { _, err := c.Serving(t.Context()); return err })
		})
	}
}

// The proof that a CLB's vServer groups are, listeners are for an NLB.
func TestNetworkOwner(t *testing.T) {
	t.Parallel()
	listener := func(descriptions ...string) (out []sim.NLBListener) {
		for i, d := range descriptions {
			out = append(out, sim.NLBListener{Port: 80 + i, Description: d})
		}
		return out
	}
	protected := sim.Protection{Status: "ConsoleProtection", Reason: remedy.ManagedByACK}
	for _, tt := range []struct {
		name string
		lb   sim.NLB
		want remedy.Owner
		says string
	}{
		{"own by its tag", sim.NLB{Tags: map[string]string{remedy.ClusterTag: "c-1"}, Listeners: listener("k8s.80.TCP.web.shop.c-1")}, remedy.Own, "listener k8s.80.TCP.web.shop.c-1"},
		{"own by its protection", sim.NLB{ModificationProtection: protected, Listeners: listener("k8s.80.TCP.web.shop.c-1")}, remedy.Own, "managed.by.ack"},
		{"another Service's too", sim.NLB{ModificationProtection: protected, Listeners: listener("k8s.80.TCP.web.shop.c-1", "k8s.81.TCP.api.shop.c-1")}, remedy.OtherService, "shop/api"},
		{"of another cluster", sim.NLB{ModificationProtection: protected, Listeners: listener("k8s.80.TCP.web.shop.c-2", "by hand")}, remedy.Unproven, "no listener of this Service"},
		{"reused", sim.NLB{Tags: map[string]string{remedy.ReusedTag: "true"}}, remedy.Users, "reused"},
		{"made by hand", sim.NLB{}, remedy.Users, "a person made it"},
		{"the API server's", sim.NLB{Tags: map[string]string{remedy.ClusterTag: "c-1"}, Listeners: []sim.NLBListener{{Port: 6443}}}, remedy.APIServer, "API server"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.lb.ID = "nlb-1"
			c, _ := account(t, sim.World{NLBs: []sim.NLB{tt.lb}}, network(""))
			lb, err := c.Named(t.Context(), "nlb-1")
			if err != nil {
				t.Fatal(err)
			}
			got, evidence, err := c.Owner(t.Context(), lb)
			if err != nil || got != tt.want || !strings.Contains(evidence, tt.says) {
				t.Errorf("got %d, %q, %v", got, evidence, err)
			}
		})
	}
}

// What could be reused: nobody's, of the kind of address that is asked for, in
// reach, and with the ports free.
func TestReusable(t *testing.T) {
	t.Parallel()
	world := sim.World{
		LoadBalancers: []sim.LoadBalancer{
			{ID: "lb-a"}, {ID: "lb-b", Listeners: []sim.Listener{{Port: 80}}}, {ID: "lb-c", Tags: map[string]string{remedy.NameTag: "x"}}, {ID: "lb-d", Tags: map[string]string{remedy.ClusterTag: ""}},
			{ID: "lb-e", VSwitch: "vsw-1"}, {ID: "lb-f", VSwitch: "vsw-2"}, {ID: "lb-g", Status: "inactive"}, {ID: "lb-h", Listeners: []sim.Listener{{Port: 81}}},
			{ID: "lb-i", Tags: map[string]string{remedy.ReusedTag: "true"}},
		},
		NLBs: []sim.NLB{
			{ID: "nlb-a"}, {ID: "nlb-b", Listeners: []sim.NLBListener{{Port: 80}}}, {ID: "nlb-c", VPC: "vpc-2"}, {ID: "nlb-d", AddressType: "Intranet"},
			{ID: "nlb-e", Tags: map[string]string{remedy.ClusterTag: "c"}}, {ID: "nlb-f", Status: "Provisioning"},
		},
	}
	for want, edit := range map[string]func(*corev1.Service){
		"lb-a lb-h": nil,
		"lb-e":      notes("address-type", "intranet"),
		"nlb-a":     network(""),
		"nlb-d":     edits(network(""), notes("address-type", "Intranet")),
	} {
		c, s := account(t, world, edit)
		lbs, err := c.Reusable(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, lb := range lbs {
			ids = append(ids, lb.ID)
		}
		equal(t, strings.Join(ids, " "), want)
		declared(t, s, remedy.ReusableReads, remedy.NetworkReads)
		failing(t, s, func() error { _, err := c.Reusable(t.Context()); return err })
	}

	// However many there are, few are looked at and fewer are named.
	var many []sim.LoadBalancer
	for i := range 500 {
		lb := sim.LoadBalancer{ID: fmt.Sprintf("lb-%03d", i)}
		if i < 6 {
			lb.Listeners = []sim.Listener{{Port: 80}}
		}
		many = append(many, lb)
	}
	c, s := account(t, sim.World{LoadBalancers: many}, nil)
	lbs, err := c.Reusable(t.Context())
	if err != nil || len(lbs) != 4 || lbs[0].ID != "lb-006" || len(s.Calls()) > 20 {
		t.Errorf("got %d of 500 with %d calls, %v", len(lbs), len(s.Calls()), err)
	}
}

// A keyed step that does what its patch says.
type keyed struct {
	remedy.Step
	set map[string]*string
}

func (k keyed) Kind() string           { return "keyed" }
func (k keyed) Keys() []string         { return nil }
func (k keyed) Target() string         { return "" }
func (k keyed) Fields() []remedy.Field { return []remedy.Field{remedy.MarkField} }
func (k keyed) Patch(*remedy.Case) []byte {
	data, _ := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": k.set}}) // strings only
	return data
}

// What the plan itself writes is not compared, and neither is what a sync fails on.
func TestCompare(t *testing.T) {
	t.Parallel()
	clb := func(edit func(*sim.LoadBalancer)) sim.World {
		lb := sim.LoadBalancer{ID: "lb-1", Address: "10.1.1.1", VSwitch: "vsw-1", Name: "a", DeleteProtection: true, Tags: map[string]string{remedy.NameTag: lbName},
			ModificationProtection: sim.Protection{Status: "ConsoleProtection"},
			VGroups:                []sim.VGroup{{ID: "rsp-1", Name: "k8s/0/web/shop/c-1"}},
			Listeners:              []sim.Listener{{Port: 80, Description: "k8s/80/web/shop/c-1", VGroup: "rsp-1"}}}
		edit(&lb)
		return sim.World{LoadBalancers: []sim.LoadBalancer{lb}}
	}
	nlb := func(edit func(*sim.NLB)) sim.World {
		lb := sim.NLB{ID: "nlb-1", Name: "a", Tags: map[string]string{remedy.NameTag: lbName}, Zones: []sim.NLBZone{{VSwitch: "vsw-1"}},
			Listeners: []sim.NLBListener{{Port: 80, ServerGroup: "sgp-1", Description: "k8s.80.TCP.web.shop.c-1"}}}
		edit(&lb)
		groups := []sim.ServerGroup{{ID: "sgp-1", Name: "k8s.0.TCP.web.shop.c-1", Tags: map[string]string{remedy.NameTag: lbName}}, {ID: "sgp-9", Name: "mine"}}
		return sim.World{NLBs: []sim.NLB{lb}, ServerGroups: groups, SecurityGroups: []sim.SecurityGroup{{ID: "sg-1"}}}
	}
	tls := nlb(func(n *sim.NLB) {
		l := &n.Listeners[0]
		l.Protocol, l.Description, l.Certificates, l.Further = "TCPSSL", "k8s.80.TCPSSL.web.shop.c-1", []string{"c-1"}, []string{"c-2", "c-3"}
		l.Config = map[string]string{"SecurityPolicyId": "tls_1"}
	})
	web := clb(func(lb *sim.LoadBalancer) {
		l := &lb.Listeners[0]
		l.Protocol, l.Config = "https", map[string]string{"ServerCertificateId": "c-1"}
		l.Domains = []sim.Domain{{ID: "de-1", Name: "b.example.com", Certificate: "c-3"}, {ID: "de-2", Name: "a.example.com", Certificate: "c-2"}}
	})
	same := func(*sim.LoadBalancer) {}
	asIs := func(*sim.NLB) {}
	empty, err := kube.New(cluster.Join(t).Config)
	if err != nil {
		t.Fatal(err)
	}
	pods := func(svc *corev1.Service) { svc.Annotations[remedy.BackendType] = "eni" }
	synced, host := ingress("10.1.1.1"), network("nlb-1.cn-hangzhou.nlb.aliyuncs.com")
	for _, tt := range []struct {
		name  string
		world sim.World
		edit  func(*corev1.Service)
		set   map[string]string // by the step, by short name
		want  string            // empty: none
		down  bool
	}{
		{name: "nothing differs", world: clb(same), edit: synced},
		{name: "never synced", world: clb(func(lb *sim.LoadBalancer) { lb.DeleteProtection = false }), edit: notes("delete-protection", "on")},
		{name: "deletion protection", world: clb(func(lb *sim.LoadBalancer) { lb.DeleteProtection = false }), edit: edits(synced, notes("delete-protection", "on")), want: "deletion protection is off"},
		{name: "what the step puts back", world: clb(same), edit: edits(synced, notes("name", "b")), set: map[string]string{"name": "a"}},
		{name: "what the step removes", world: clb(same), edit: edits(synced, notes("name", "b")), set: map[string]string{"name": ""}},
		{name: "what the step sets", world: clb(same), edit: synced, set: map[string]string{"name": "b"}, want: "the name is a and the annotations say b"},
		{name: "what the step means to change", world: clb(same), edit: synced, set: map[string]string{"instance-charge-type": "PayBySpec", "spec": "slb.s1.small"}},
		{name: "what the step means to change, in place of a legacy one", world: clb(same), edit: edits(synced, func(svc *corev1.Service) { svc.Annotations[remedy.LegacyPrefix+"instance-charge-type"] = "PayBySpec" }),
			set: map[string]string{"instance-charge-type": "PayByCLCU"}},
		{name: "what a sync fails on", world: clb(same), edit: edits(synced, notes("resource-group-id", "rg-x", "address-type", "internet"))},
		{name: "a reused one that is the controller's", world: clb(same), edit: edits(synced, notes("id", "lb-1")), want: "the reuse check fails"},
		{name: "a listener that sends elsewhere", world: clb(func(lb *sim.LoadBalancer) {
			lb.VGroups = append(lb.VGroups, sim.VGroup{ID: "rsp-2", Name: "mine"})
			lb.Listeners[0].VGroup = "rsp-2"
		}), edit: synced, want: "listener tcp:80 sends to rsp-2 and would send to rsp-1"},
		{name: "a listener whose group follows its port", world: clb(func(lb *sim.LoadBalancer) { lb.VGroups[0].Name = "k8s/30999/web/shop/c-1" }), edit: synced},
		{name: "a listener of another Service on its port", world: clb(func(lb *sim.LoadBalancer) { lb.Listeners[0].Description = "k8s/80/api/shop/c-1" }), edit: synced, want: "listener tcp:80 is that of the Service shop/api of the cluster c-1 and would be taken over"},
		{name: "a reused one whose listeners it leaves alone", world: clb(func(lb *sim.LoadBalancer) { lb.Tags, lb.Listeners = nil, nil }), edit: edits(synced, notes("id", "lb-1"))},
		{name: "a reused one that was never synced", world: clb(func(lb *sim.LoadBalancer) { lb.Tags = nil }), edit: notes("id", "lb-1", "name", "b"), want: "the name is a"},
		{name: "servers that went", world: clb(func(lb *sim.LoadBalancer) {
			lb.VGroups[0].Backends = []sim.Backend{{Server: "eni-9", IP: "10.1.1.9", Type: "eni", Port: 8080, Weight: new(100), Description: "k8s/0/web/shop/c-1"}, {Server: "i-8", Port: 30080, Weight: new(100), Description: "mine"}}
		}), edit: edits(synced, pods)},
		{name: "all servers, which a sync takes out", world: clb(func(lb *sim.LoadBalancer) {
			lb.VGroups[0].Backends = []sim.Backend{{Server: "eni-9", IP: "10.1.1.9", Type: "eni", Port: 8080, Weight: new(100), Description: "k8s/0/web/shop/c-1"}}
		}), edit: edits(synced, pods), want: "the group k8s/0/web/shop/c-1 loses 10.1.1.9:8080", down: true},
		{name: "an NLB", world: nlb(asIs), edit: host},
		{name: "an NLB's zones", world: nlb(asIs), edit: edits(host, notes("zone-maps", "cn-hangzhou-i:vsw-2,cn-hangzhou-h:vsw-1")), want: "its zones are cn-hangzhou-h:vsw-1 and the annotations say cn-hangzhou-h:vsw-1,cn-hangzhou-i:vsw-2"},
		{name: "the same zones with an address", world: nlb(asIs), edit: edits(host, notes("zone-maps", "cn-hangzhou-h:vsw-1:10.0.0.1"))},
		{name: "an NLB's address type", world: nlb(asIs), edit: edits(host, notes("address-type", "intranet")), want: "the address type is Internet and the annotations say intranet"},
		{name: "the address type in other letters", world: nlb(asIs), edit: edits(host, notes("address-type", "internet"))},
		{name: "an NLB's name", world: nlb(asIs), edit: edits(host, notes("name", "b")), want: "the name is a"},
		{name: "an NLB's security groups", world: nlb(func(n *sim.NLB) { n.SecurityGroups = []string{"sg-1"} }), edit: edits(host, notes("security-group-ids", "")), want: "its security groups are sg-1 and the annotations say none"},
		{name: "an NLB's resource group", world: nlb(asIs), edit: edits(host, notes("resource-group-id", "rg-x", "ip-version", "DualStack"))},
		{name: "a listener too few", world: nlb(func(n *sim.NLB) { n.Listeners = nil }), edit: host, want: "there is no listener TCP:80"},
		{name: "a listener of another protocol", world: nlb(asIs), edit: edits(host, notes("protocol-port", "tcpssl:80")), want: "there is no listener TCPSSL:80; listener TCP:80 has no port of the Service and would be deleted", down: true},
		{name: "a listener that stands still", world: nlb(func(n *sim.NLB) { n.Listeners[0].Status = "Stopped" }), edit: host, want: "listener TCP:80 is Stopped and would be started"},
		{name: "a listener of a person", world: nlb(func(n *sim.NLB) { n.Listeners = append(n.Listeners, sim.NLBListener{Port: 81, Protocol: "TCP"}) }), edit: host, want: "listener TCP:81 has no port of the Service and would be deleted", down: true},
		{name: "a listener of a person on a reused NLB", world: nlb(func(n *sim.NLB) {
			n.Tags, n.Listeners = nil, append(n.Listeners, sim.NLBListener{Port: 81, Protocol: "TCP"})
		}), edit: edits(host, notes("id", "nlb-1", "force-override-listeners", "true"))},
		{name: "an NLB's listener that sends elsewhere", world: nlb(func(n *sim.NLB) { n.Listeners[0].ServerGroup = "sgp-9" }), edit: host, want: "listener TCP:80 sends to sgp-9 and would send to sgp-1"},
		{name: "what an NLB's listener has as it is asked for", world: nlb(func(n *sim.NLB) {
			n.Listeners[0].Config = map[string]string{"IdleTimeout": "30", "ProxyProtocolEnabled": "true", "ProxyProtocolV2Config.Ppv2VpcIdEnabled": "true"}
		}), edit: edits(host, notes("idle-timeout", "30", "cps", "", "proxy-protocol", "ON", "ppv2-pvl-vpc-id-enabled", "on", "cert-id", "c-1", "health-check-uri", "/x"))},
		{name: "an NLB's idle timeout", world: nlb(asIs), edit: edits(host, notes("idle-timeout", "30")), want: "IdleTimeout of listener TCP:80 is 900 and the annotations say 30"},
		{name: "an NLB's connections", world: nlb(func(n *sim.NLB) { n.Listeners[0].Config = map[string]string{"Cps": "5"} }), edit: edits(host, notes("cps", "0")), want: "Cps of listener TCP:80 is 5 and the annotations say 0"},
		{name: "an NLB's proxy protocol", world: nlb(asIs), edit: edits(host, notes("proxy-protocol", "on", "ppv2-pvl-ep-id-enabled", "on")),
			want: "ProxyProtocolEnabled of listener TCP:80 is false and the annotations say true; Ppv2PrivateLinkEpIdEnabled of listener TCP:80 is false and the annotations say true"},
		{name: "what TLS has as it is asked for", world: tls, edit: edits(host, notes("protocol-port", "tcpssl:80", "cert-id", "c-1", "tls-cipher-policy", "tls_1", "additional-cert-ids", "c-3,c-2"))},
		{name: "another certificate", world: tls, edit: edits(host, notes("protocol-port", "tcpssl:80", "cert-id", "c-9")), want: "CertificateIds of listener TCPSSL:80 is c-1 and the annotations say c-9"},
		{name: "another security policy", world: tls, edit: edits(host, notes("protocol-port", "tcpssl:80", "tls-cipher-policy", "tls_2")), want: "SecurityPolicyId of listener TCPSSL:80 is tls_1"},
		{name: "certificates of authorities", world: tls, edit: edits(host, notes("protocol-port", "tcpssl:80", "cacert", "on", "cacert-id", "ca-1")),
			want: "CaCertificateIds of listener TCPSSL:80 is empty and the annotations say ca-1; CaEnabled of listener TCPSSL:80 is false and the annotations say true"},
		{name: "a protocol above TLS", world: tls, edit: edits(host, notes("protocol-port", "tcpssl:80", "alpn", "on", "alpn-policy", "HTTP2Only")),
			want: "AlpnEnabled of listener TCPSSL:80 is false and the annotations say true; AlpnPolicy of listener TCPSSL:80 is empty and the annotations say HTTP2Only"},
		{name: "further certificates", world: tls, edit: edits(host, notes("protocol-port", "tcpssl:80", "additional-cert-ids", "c-2")), want: "the further certificates of listener TCPSSL:80 are c-2,c-3 and the annotations say c-2"},
		{name: "no further certificates", world: tls, edit: edits(host, notes("protocol-port", "tcpssl:80", "additional-cert-ids", "")), want: "the further certificates of listener TCPSSL:80 are c-2,c-3 and the annotations say none"},
		{name: "an NLB's group as it is asked for", world: nlb(asIs), edit: edits(host, notes("scheduler", "WRR", "connection-drain", "off", "preserve-client-ip", "on", "health-check-flag", "on", "health-check-type", "tcp", "server-group-type", "instance", "healthy-threshold", "2"))},
		{name: "an NLB's scheduler", world: nlb(asIs), edit: edits(host, notes("scheduler", "rr")), want: "Scheduler of the group k8s.0.TCP.web.shop.c-1 is Wrr and the annotations say rr"},
		{name: "an NLB's drain", world: nlb(asIs), edit: edits(host, notes("connection-drain", "on", "connection-drain-timeout", "30")),
			want: "ConnectionDrainEnabled of the group k8s.0.TCP.web.shop.c-1 is false and the annotations say true; ConnectionDrainTimeout of the group k8s.0.TCP.web.shop.c-1 is 0 and the annotations say 30"},
		{name: "the client's address", world: nlb(asIs), edit: edits(host, notes("preserve-client-ip", "off")), want: "PreserveClientIpEnabled of the group k8s.0.TCP.web.shop.c-1 is true and the annotations say false"},
		{name: "an NLB's health check", world: nlb(asIs), edit: edits(host, notes("health-check-flag", "on", "health-check-type", "http", "health-check-httpcode", "http_3xx,http_2xx")),
			want: "HealthCheckType of the group k8s.0.TCP.web.shop.c-1 is TCP and the annotations say http; HealthCheckHttpCode of the group k8s.0.TCP.web.shop.c-1 is empty and the annotations say http_3xx,http_2xx"},
		{name: "an NLB's health check that goes", world: nlb(asIs), edit: edits(host, notes("health-check-flag", "off", "health-check-type", "http")), want: "HealthCheckEnabled of the group k8s.0.TCP.web.shop.c-1 is true and the annotations say false"},
		{name: "a group of another type", world: nlb(asIs), edit: edits(host, notes("server-group-type", "Ip")), want: "the group k8s.0.TCP.web.shop.c-1 is of the type Instance and would be made anew, since the annotations say Ip; listener TCP:80 sends to sgp-1 and would send to a group of the Service's own", down: true},
		{name: "an NLB's zones with another address", world: nlb(func(n *sim.NLB) { n.Zones[0].EIP = "eip-1" }), edit: edits(host, notes("zone-maps", "cn-hangzhou-h:vsw-1::eip-2")), want: "its zones are cn-hangzhou-h:vsw-1 with other addresses and the annotations say cn-hangzhou-h:vsw-1::eip-2"},
		{name: "cross-zone forwarding", world: nlb(asIs), edit: edits(host, notes("cross-zone-enabled", "off")), want: "cross-zone forwarding is on and the annotations say off"},
		{name: "a bandwidth package", world: nlb(func(n *sim.NLB) { n.BandwidthPackage = "cbwp-1" }), edit: edits(host, notes("bandwidth-package-id", "")), want: "the bandwidth package is cbwp-1 and the annotations say none"},
		{name: "an IPv6 address type", world: nlb(asIs), edit: edits(host, notes("ipv6-address-type", "internet")), want: "the IPv6 address type is Intranet and the annotations say internet"},
		{name: "source ranges", world: nlb(asIs), edit: edits(host, func(svc *corev1.Service) { svc.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"} }), want: "what loadBalancerSourceRanges of the Service asks for was not compared"},
		{name: "source ranges that went", world: nlb(func(n *sim.NLB) { n.SecurityGroups = []string{"sg-1"} }), edit: edits(host, func(svc *corev1.Service) {
			svc.Labels = map[string]string{"service.k8s.alibaba/security-group-id": "sg-1"}
		}), want: "it leaves the security group sg-1"},
		{name: "who may come in", world: clb(func(lb *sim.LoadBalancer) {
			lb.Listeners[0].Config = map[string]string{"AclStatus": "on", "AclType": "white", "AclId": "acl-1,acl-2"}
		}), edit: edits(synced, notes("acl-status", "on", "acl-type", "white", "acl-id", "acl-2,acl-1"))},
		{name: "others may come in", world: clb(same), edit: edits(synced, notes("acl-status", "on", "acl-type", "white", "acl-id", "acl-2")),
			want: "AclStatus of listener tcp:80 is off and the annotations say on; AclType of listener tcp:80 is empty and the annotations say white; AclId of listener tcp:80 is empty and the annotations say acl-2"},
		{name: "a health check that an answer does not show", world: clb(same), edit: edits(synced, notes("health-check-uri", "/x", "health-check-connect-port", "8080")),
			want: "HealthCheckURI of listener tcp:80 is empty and the annotations say /x; HealthCheckConnectPort of listener tcp:80 is 0 and the annotations say 8080"},
		{name: "further domains", world: web, edit: edits(synced, notes("protocol-port", "https:80", "cert-id", "c-1", "domain-extensions", "b.example.com:c-3, a.example.com:c-2"))},
		{name: "other domains", world: web, edit: edits(synced, notes("protocol-port", "https:80", "cert-id", "c-1", "domain-extensions", "a.example.com:c-9")),
			want: "the further domains of listener https:80 are a.example.com:c-2,b.example.com:c-3 and the annotations say a.example.com:c-9"},
		{name: "no word on domains", world: web, edit: edits(synced, notes("protocol-port", "https:80", "cert-id", "c-1", "domain-extensions", ""))},
		{name: "a reused NLB", world: nlb(func(n *sim.NLB) { n.Listeners, n.Tags = nil, nil }), edit: edits(host, notes("id", "nlb-1"))},
		{name: "a reused NLB that is the controller's", world: nlb(asIs), edit: edits(host, notes("id", "nlb-1")), want: "the reuse check fails"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, s := account(t, tt.world, tt.edit)
			c.Kube = empty
			lb, err := c.Bound(t.Context())
			if err != nil || lb == nil {
				t.Fatal(lb, err)
			}
			s.ResetCalls()
			step := keyed{set: map[string]*string{}}
			for short, v := range tt.set {
				step.set[remedy.Prefix+short] = &v
				if v == "" {
					step.set[remedy.Prefix+short] = nil
				}
			}
			before := c.Service.DeepCopy()
			ask := func(ctx context.Context) (remedy.Plan, error) {
				return c.Compare(ctx, remedy.Plan{Finding: "f", Note: "Before.", Steps: []remedy.Step{step}})
			}
			p, err := ask(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := remedy.Plan{Finding: "f", Note: "Before.", Steps: p.Steps}
			if tt.want != "" {
				want.Risk = remedy.High
				want.Note += " The full sync that follows also changes what differs now on " + lb.ID + ": " + tt.want
			}
			if p.Risk != want.Risk || !strings.HasPrefix(p.Note, want.Note) || tt.want == "" && p.Note != want.Note {
				t.Errorf("got %s, %q, want %s, %q", p.Risk, p.Note, want.Risk, want.Note)
			}
			if down := len(p.Changes) > 0 && p.Changes[0].Down; down != tt.down {
				t.Errorf("that it takes something down is %t: %v", down, p.Changes)
			}
			equal(t, c.Service, before)
			all := remedy.Remedy{Steps: []remedy.Step{keyed{}}, Reads: slices.Concat(remedy.BoundReads, remedy.NetworkReads)}
			declared(t, s, all.Compares())
			calls := s.Calls()
			for _, call := range calls {
				heal := s.Fault(sim.Fault{Product: call.Product, Action: call.Action, Status: 400, Code: "Odd"})
				if _, err := ask(t.Context()); err == nil {
					t.Errorf("%s fails, and it is no error", call.Action)
				}
				heal()
				heal = s.Fault(sim.Fault{Product: call.Product, Action: call.Action, Status: 403, Code: "NoPermission"})
				p, err := ask(t.Context())
				if unknown := slices.ContainsFunc(p.Changes, func(e event.Change) bool { return e.Unknown }); err != nil || !unknown || p.Risk != remedy.High || !strings.Contains(p.Note, call.Action) {
					t.Errorf("%s is not allowed: %v, %s, %q, %v", call.Action, err, p.Risk, p.Note, p.Changes)
				}
				heal()
			}
		})
	}
}
