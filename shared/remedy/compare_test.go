package remedy_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/fixture"
	"github.com/lbremedy/lbremedy/test/sim"
)

func account(t *testing.T, w sim.World, edit func(*corev1.Service)) (*remedy.Case, *sim.Cloud) {
	t.Helper()
	v, s := fixture.Account(t, w, edit)
	return &remedy.Case{View: *v}, s
}

type keyed struct {
	remedy.Step
	set map[string]*string
}

func (k keyed) Kind() string           { return "keyed" }
func (k keyed) Keys() []string         { return slices.Collect(maps.Keys(k.set)) }
func (k keyed) Target() string         { return "" }
func (k keyed) Fields() []remedy.Field { return []remedy.Field{remedy.MarkField} }
func (k keyed) Patch(*remedy.Case) []byte {
	data, _ := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": k.set}}) // strings only
	return data
}

// The plan's own writes are not compared, nor a difference on which the sync fails.
func TestCompare(t *testing.T) {
	t.Parallel()
	clb := func(edit func(*sim.LoadBalancer)) sim.World {
		lb := sim.LoadBalancer{ID: "lb-1", Address: "10.1.1.1", VSwitch: "vsw-1", Name: "a", DeleteProtection: true,
			Tags:                   map[string]string{ccm.NameTag: fixture.BalancerName},
			ModificationProtection: sim.Protection{Status: "ConsoleProtection"},
			VGroups:                []sim.VGroup{{ID: "rsp-1", Name: "k8s/0/web/shop/c-1"}},
			Listeners:              []sim.Listener{{Port: 80, Description: "k8s/80/web/shop/c-1", VGroup: "rsp-1"}}}
		edit(&lb)
		return sim.World{LoadBalancers: []sim.LoadBalancer{lb}}
	}
	nlb := func(edit func(*sim.NLB)) sim.World {
		lb := sim.NLB{ID: "nlb-1", Name: "a", Tags: map[string]string{ccm.NameTag: fixture.BalancerName}, Zones: []sim.NLBZone{{VSwitch: "vsw-1"}},
			Listeners: []sim.NLBListener{{Port: 80, ServerGroup: "sgp-1", Description: "k8s.80.TCP.web.shop.c-1"}}}
		edit(&lb)
		groups := []sim.ServerGroup{{ID: "sgp-1", Name: "k8s.0.TCP.web.shop.c-1", Tags: map[string]string{ccm.NameTag: fixture.BalancerName}},
			{ID: "sgp-9", Name: "mine"}}
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
	pods := func(svc *corev1.Service) { svc.Annotations[ccm.BackendType] = "eni" }
	synced, host := fixture.Ingress("10.1.1.1"), fixture.Network("nlb-1.cn-hangzhou.nlb.aliyuncs.com")
	for _, tt := range []struct {
		name  string
		world sim.World
		edit  func(*corev1.Service)
		set   map[string]string // by the step, by short name
		want  string            // empty: none
		down  bool
	}{
		{name: "nothing differs", world: clb(same), edit: synced},
		{name: "never synced", world: clb(func(lb *sim.LoadBalancer) { lb.DeleteProtection = false }), edit: fixture.Notes("delete-protection", "on")},
		{name: "deletion protection", world: clb(func(lb *sim.LoadBalancer) { lb.DeleteProtection = false }),
			edit: fixture.Edits(synced, fixture.Notes("delete-protection", "on")), want: "deletion protection is off"},
		{name: "what the step puts back", world: clb(same), edit: fixture.Edits(synced, fixture.Notes("name", "b")), set: map[string]string{"name": "a"}},
		{name: "what the step removes", world: clb(same), edit: fixture.Edits(synced, fixture.Notes("name", "b")), set: map[string]string{"name": ""}},
		{name: "what the step sets", world: clb(same), edit: synced, set: map[string]string{"name": "b"}, want: "the name is a and the annotations say b"},
		{name: "what the step means to change", world: clb(same), edit: synced, set: map[string]string{"instance-charge-type": "PayBySpec", "spec": "slb.s1.small"}},
		{name: "what the step means to change, in place of a legacy one", world: clb(same),
			edit: fixture.Edits(synced, func(svc *corev1.Service) { svc.Annotations[ccm.LegacyPrefix+"instance-charge-type"] = "PayBySpec" }),
			set:  map[string]string{"instance-charge-type": "PayByCLCU"}},
		{name: "what a sync fails on", world: clb(same), edit: fixture.Edits(synced, fixture.Notes("resource-group-id", "rg-x", "address-type", "internet"))},
		{name: "a reused one that is the controller's", world: clb(same), edit: fixture.Edits(synced, fixture.Notes("id", "lb-1")), want: "the reuse check fails"},
		{name: "a listener that sends elsewhere", world: clb(func(lb *sim.LoadBalancer) {
			lb.VGroups = append(lb.VGroups, sim.VGroup{ID: "rsp-2", Name: "mine"})
			lb.Listeners[0].VGroup = "rsp-2"
		}), edit: synced, want: "listener tcp:80 sends to rsp-2 and would send to rsp-1"},
		{name: "a listener whose group follows its port", world: clb(func(lb *sim.LoadBalancer) { lb.VGroups[0].Name = "k8s/30999/web/shop/c-1" }), edit: synced},
		{name: "a listener of another Service on its port", world: clb(func(lb *sim.LoadBalancer) { lb.Listeners[0].Description = "k8s/80/api/shop/c-1" }),
			edit: synced, want: "listener tcp:80 belongs to the Service shop/api of the cluster c-1 and would be taken over"},
		{name: "a reused one whose listeners it leaves alone", world: clb(func(lb *sim.LoadBalancer) { lb.Tags, lb.Listeners = nil, nil }),
			edit: fixture.Edits(synced, fixture.Notes("id", "lb-1"))},
		{name: "a reused one that was never synced", world: clb(func(lb *sim.LoadBalancer) { lb.Tags = nil }), edit: fixture.Notes("id", "lb-1", "name", "b"),
			want: "the name is a"},
		{name: "servers that went", world: clb(func(lb *sim.LoadBalancer) {
			lb.VGroups[0].Backends = []sim.Backend{{Server: "eni-9", IP: "10.1.1.9", Type: "eni", Port: 8080, Weight: new(100), Description: "k8s/0/web/shop/c-1"},
				{Server: "i-8", Port: 30080, Weight: new(100), Description: "mine"}}
		}), edit: fixture.Edits(synced, pods)},
		{name: "all servers, which a sync takes out", world: clb(func(lb *sim.LoadBalancer) {
			lb.VGroups[0].Backends = []sim.Backend{{Server: "eni-9", IP: "10.1.1.9", Type: "eni", Port: 8080, Weight: new(100), Description: "k8s/0/web/shop/c-1"}}
		}), edit: fixture.Edits(synced, pods), want: "the group k8s/0/web/shop/c-1 loses 10.1.1.9:8080", down: true},
		{name: "an NLB", world: nlb(asIs), edit: host},
		{name: "an NLB's zones", world: nlb(asIs), edit: fixture.Edits(host, fixture.Notes("zone-maps", "cn-hangzhou-i:vsw-2,cn-hangzhou-h:vsw-1")),
			want: "its zones are cn-hangzhou-h:vsw-1 and the annotations say cn-hangzhou-h:vsw-1,cn-hangzhou-i:vsw-2"},
		{name: "the same zones with an address", world: nlb(asIs), edit: fixture.Edits(host, fixture.Notes("zone-maps", "cn-hangzhou-h:vsw-1:10.0.0.1"))},
		{name: "an NLB's address type", world: nlb(asIs), edit: fixture.Edits(host, fixture.Notes("address-type", "intranet")),
			want: "the address type is Internet and the annotations say intranet"},
		{name: "the address type in other letters", world: nlb(asIs), edit: fixture.Edits(host, fixture.Notes("address-type", "internet"))},
		{name: "an NLB's name", world: nlb(asIs), edit: fixture.Edits(host, fixture.Notes("name", "b")), want: "the name is a"},
		{name: "an NLB's security groups", world: nlb(func(n *sim.NLB) { n.SecurityGroups = []string{"sg-1"} }),
			edit: fixture.Edits(host, fixture.Notes("security-group-ids", "")), want: "its security groups are sg-1 and the annotations say none"},
		{name: "an NLB's resource group", world: nlb(asIs), edit: fixture.Edits(host, fixture.Notes("resource-group-id", "rg-x", "ip-version", "DualStack"))},
		{name: "a listener too few", world: nlb(func(n *sim.NLB) { n.Listeners = nil }), edit: host, want: "there is no listener TCP:80"},
		{name: "a listener of another protocol", world: nlb(asIs), edit: fixture.Edits(host, fixture.Notes("protocol-port", "tcpssl:80")),
			want: "there is no listener TCPSSL:80; listener TCP:80 has no port of the Service and would be deleted", down: true},
		{name: "a listener that stands still", world: nlb(func(n *sim.NLB) { n.Listeners[0].Status = "Stopped" }), edit: host,
			want: "listener TCP:80 is Stopped and would be started"},
		{name: "a listener of a person", world: nlb(func(n *sim.NLB) { n.Listeners = append(n.Listeners, sim.NLBListener{Port: 81, Protocol: "TCP"}) }),
			edit: host, want: "listener TCP:81 has no port of the Service and would be deleted", down: true},
		{name: "a listener of a person on a reused NLB", world: nlb(func(n *sim.NLB) {
			n.Tags, n.Listeners = nil, append(n.Listeners, sim.NLBListener{Port: 81, Protocol: "TCP"})
		}), edit: fixture.Edits(host, fixture.Notes("id", "nlb-1", "force-override-listeners", "true"))},
		{name: "an NLB's listener that sends elsewhere", world: nlb(func(n *sim.NLB) { n.Listeners[0].ServerGroup = "sgp-9" }), edit: host,
			want: "listener TCP:80 sends to sgp-9 and would send to sgp-1"},
		{name: "what an NLB's listener has as it is asked for", world: nlb(func(n *sim.NLB) {
			n.Listeners[0].Config = map[string]string{"IdleTimeout": "30", "ProxyProtocolEnabled": "true", "ProxyProtocolV2Config.Ppv2VpcIdEnabled": "true"}
		}), edit: fixture.Edits(host, fixture.Notes("idle-timeout", "30", "cps", "", "proxy-protocol", "ON", "ppv2-pvl-vpc-id-enabled", "on", "cert-id", "c-1",
			"health-check-uri", "/x"))},
		{name: "an NLB's idle timeout", world: nlb(asIs), edit: fixture.Edits(host, fixture.Notes("idle-timeout", "30")),
			want: "IdleTimeout of listener TCP:80 is 900 and the annotations say 30"},
		{name: "an NLB's connections", world: nlb(func(n *sim.NLB) { n.Listeners[0].Config = map[string]string{"Cps": "5"} }),
			edit: fixture.Edits(host, fixture.Notes("cps", "0")), want: "Cps of listener TCP:80 is 5 and the annotations say 0"},
		{name: "an NLB's proxy protocol", world: nlb(asIs), edit: fixture.Edits(host, fixture.Notes("proxy-protocol", "on", "ppv2-pvl-ep-id-enabled", "on")),
			want: "ProxyProtocolEnabled of listener TCP:80 is false and the annotations say true; Ppv2PrivateLinkEpIdEnabled of listener TCP:80 is false and the " +
				"annotations say true"},
		{name: "what TLS has as it is asked for", world: tls, edit: fixture.Edits(host, fixture.Notes("protocol-port", "tcpssl:80", "cert-id", "c-1",
			"tls-cipher-policy", "tls_1", "additional-cert-ids", "c-3,c-2"))},
		{name: "another certificate", world: tls, edit: fixture.Edits(host, fixture.Notes("protocol-port", "tcpssl:80", "cert-id", "c-9")),
			want: "CertificateIds of listener TCPSSL:80 is c-1 and the annotations say c-9"},
		{name: "another security policy", world: tls, edit: fixture.Edits(host, fixture.Notes("protocol-port", "tcpssl:80", "tls-cipher-policy", "tls_2")),
			want: "SecurityPolicyId of listener TCPSSL:80 is tls_1"},
		{name: "certificates of authorities", world: tls, edit: fixture.Edits(host, fixture.Notes("protocol-port", "tcpssl:80", "cacert", "on", "cacert-id", "ca-1")),
			want: "CaCertificateIds of listener TCPSSL:80 is empty and the annotations say ca-1; CaEnabled of listener TCPSSL:80 is false and the annotations say true"},
		{name: "a protocol above TLS", world: tls, edit: fixture.Edits(host, fixture.Notes("protocol-port", "tcpssl:80", "alpn", "on", "alpn-policy", "HTTP2Only")),
			want: "AlpnEnabled of listener TCPSSL:80 is false and the annotations say true; AlpnPolicy of listener TCPSSL:80 is empty and the annotations " +
				"say HTTP2Only"},
		{name: "further certificates", world: tls, edit: fixture.Edits(host, fixture.Notes("protocol-port", "tcpssl:80", "additional-cert-ids", "c-2")),
			want: "the further certificates of listener TCPSSL:80 are c-2,c-3 and the annotations say c-2"},
		{name: "no further certificates", world: tls, edit: fixture.Edits(host, fixture.Notes("protocol-port", "tcpssl:80", "additional-cert-ids", "")),
			want: "the further certificates of listener TCPSSL:80 are c-2,c-3 and the annotations say none"},
		{name: "an NLB's group as it is asked for", world: nlb(asIs), edit: fixture.Edits(host, fixture.Notes("scheduler", "WRR", "connection-drain", "off",
			"preserve-client-ip", "on", "health-check-flag", "on", "health-check-type", "tcp", "server-group-type", "instance", "healthy-threshold", "2"))},
		{name: "an NLB's scheduler", world: nlb(asIs), edit: fixture.Edits(host, fixture.Notes("scheduler", "rr")),
			want: "Scheduler of the group k8s.0.TCP.web.shop.c-1 is Wrr and the annotations say rr"},
		{name: "an NLB's drain", world: nlb(asIs), edit: fixture.Edits(host, fixture.Notes("connection-drain", "on", "connection-drain-timeout", "30")),
			want: "ConnectionDrainEnabled of the group k8s.0.TCP.web.shop.c-1 is false and the annotations say true; ConnectionDrainTimeout of the group " +
				"k8s.0.TCP.web.shop.c-1 is 0 and the annotations say 30"},
		{name: "the client's address", world: nlb(asIs), edit: fixture.Edits(host, fixture.Notes("preserve-client-ip", "off")),
			want: "PreserveClientIpEnabled of the group k8s.0.TCP.web.shop.c-1 is true and the annotations say false"},
		{name: "an NLB's health check", world: nlb(asIs), edit: fixture.Edits(host, fixture.Notes("health-check-flag", "on", "health-check-type", "http",
			"health-check-httpcode", "http_3xx,http_2xx")),
			want: "HealthCheckType of the group k8s.0.TCP.web.shop.c-1 is TCP and the annotations say http; HealthCheckHttpCode of the group " +
				"k8s.0.TCP.web.shop.c-1 is empty and the annotations say http_3xx,http_2xx"},
		{name: "an NLB's health check that goes", world: nlb(asIs), edit: fixture.Edits(host, fixture.Notes("health-check-flag", "off", "health-check-type",
			"http")), want: "HealthCheckEnabled of the group k8s.0.TCP.web.shop.c-1 is true and the annotations say false"},
		{name: "a group of another type", world: nlb(asIs), edit: fixture.Edits(host, fixture.Notes("server-group-type", "Ip")),
			want: "the group k8s.0.TCP.web.shop.c-1 is of the type Instance and would be recreated, since the annotations say Ip; listener TCP:80 sends to sgp-1 " +
				"and would send to a group of the Service's own", down: true},
		{name: "an NLB's zones with another address", world: nlb(func(n *sim.NLB) { n.Zones[0].EIP = "eip-1" }),
			edit: fixture.Edits(host, fixture.Notes("zone-maps", "cn-hangzhou-h:vsw-1::eip-2")),
			want: "its zones are cn-hangzhou-h:vsw-1 with other addresses and the annotations say cn-hangzhou-h:vsw-1::eip-2"},
		{name: "cross-zone forwarding", world: nlb(asIs), edit: fixture.Edits(host, fixture.Notes("cross-zone-enabled", "off")),
			want: "cross-zone forwarding is on and the annotations say off"},
		{name: "a bandwidth package", world: nlb(func(n *sim.NLB) { n.BandwidthPackage = "cbwp-1" }),
			edit: fixture.Edits(host, fixture.Notes("bandwidth-package-id", "")), want: "the bandwidth package is cbwp-1 and the annotations say none"},
		{name: "an IPv6 address type", world: nlb(asIs), edit: fixture.Edits(host, fixture.Notes("ipv6-address-type", "internet")),
			want: "the IPv6 address type is Intranet and the annotations say internet"},
		{name: "source ranges", world: nlb(asIs), edit: fixture.Edits(host,
			func(svc *corev1.Service) { svc.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"} }),
			want: "what loadBalancerSourceRanges of the Service asks for was not compared"},
		{name: "source ranges that went", world: nlb(func(n *sim.NLB) { n.SecurityGroups = []string{"sg-1"} }), edit: fixture.Edits(host, func(svc *corev1.Service) {
			svc.Labels = map[string]string{"service.k8s.alibaba/security-group-id": "sg-1"}
		}), want: "it leaves the security group sg-1"},
		{name: "who may come in", world: clb(func(lb *sim.LoadBalancer) {
			lb.Listeners[0].Config = map[string]string{"AclStatus": "on", "AclType": "white", "AclId": "acl-1,acl-2"}
		}), edit: fixture.Edits(synced, fixture.Notes("acl-status", "on", "acl-type", "white", "acl-id", "acl-2,acl-1"))},
		{name: "others may come in", world: clb(same), edit: fixture.Edits(synced, fixture.Notes("acl-status", "on", "acl-type", "white", "acl-id", "acl-2")),
			want: "AclStatus of listener tcp:80 is off and the annotations say on; AclType of listener tcp:80 is empty and the annotations say white; AclId of " +
				"listener tcp:80 is empty and the annotations say acl-2"},
		{name: "a health check that an answer does not show", world: clb(same),
			edit: fixture.Edits(synced, fixture.Notes("health-check-uri", "/x", "health-check-connect-port", "8080")),
			want: "HealthCheckURI of listener tcp:80 is empty and the annotations say /x; HealthCheckConnectPort of listener tcp:80 is 0 and the annotations say 8080"},
		{name: "further domains", world: web, edit: fixture.Edits(synced, fixture.Notes("protocol-port", "https:80", "cert-id", "c-1", "domain-extensions",
			"b.example.com:c-3, a.example.com:c-2"))},
		{name: "other domains", world: web, edit: fixture.Edits(synced, fixture.Notes("protocol-port", "https:80", "cert-id", "c-1", "domain-extensions",
			"a.example.com:c-2,d.example.com:c-9")),
			want: "the further domains of listener https:80 are a.example.com:c-2,b.example.com:c-3 and the annotations say a.example.com:c-2,d.example.com:c-9"},
		{name: "another certificate of a domain, on which the sync fails", world: web, edit: fixture.Edits(synced, fixture.Notes("protocol-port", "https:80",
			"cert-id", "c-1", "domain-extensions", "a.example.com:c-9,b.example.com:c-3"))},
		{name: "another certificate, and a domain less", world: web, edit: fixture.Edits(synced, fixture.Notes("protocol-port", "https:80", "cert-id", "c-1",
			"domain-extensions", "a.example.com:c-9")),
			want: "the further domains of listener https:80 are a.example.com:c-2,b.example.com:c-3 and the annotations say a.example.com:c-9"},
		{name: "no word on domains", world: web, edit: fixture.Edits(synced, fixture.Notes("protocol-port", "https:80", "cert-id", "c-1", "domain-extensions", ""))},
		{name: "a reused NLB", world: nlb(func(n *sim.NLB) { n.Listeners, n.Tags = nil, nil }), edit: fixture.Edits(host, fixture.Notes("id", "nlb-1"))},
		{name: "a reused NLB that is the controller's", world: nlb(asIs), edit: fixture.Edits(host, fixture.Notes("id", "nlb-1")), want: "the reuse check fails"},
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
				step.set[ccm.Prefix+short] = &v
				if v == "" {
					step.set[ccm.Prefix+short] = nil
				}
			}
			before := c.Service.DeepCopy()
			ask := func(ctx context.Context) (remedy.Plan, error) {
				return c.Compare(ctx, remedy.Plan{Finding: say.F("f"), Note: say.F("Before."), Steps: []remedy.Step{step}})
			}
			p, err := ask(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := remedy.Plan{Finding: say.F("f"), Note: say.F("Before."), Steps: p.Steps}
			if tt.want != "" {
				want.Risk = remedy.High
				want.Note = want.Note.And("The full sync that follows also changes these differences on %s: %s", lb.ID, tt.want)
			}
			if p.Risk != want.Risk || !strings.HasPrefix(p.Note.String(), want.Note.String()) || tt.want == "" && p.Note.String() != want.Note.String() {
				t.Errorf("got %s, %q, want %s, %q", p.Risk, p.Note, want.Risk, want.Note)
			}
			if down := len(p.Changes) > 0 && p.Changes[0].Down; down != tt.down {
				t.Errorf("that it takes something down is %t: %v", down, p.Changes)
			}
			fixture.Equal(t, c.Service, before)
			all := remedy.Remedy{Steps: []remedy.Step{keyed{}}, Reads: slices.Concat(ccm.BoundReads, ccm.NetworkReads)}
			fixture.Declared(t, s, all.Compares())
			calls := s.Calls()
			for _, call := range calls {
				heal := s.Fault(sim.Fault{Product: call.Product, Action: call.Action, Status: 400, Code: "Odd"})
				if _, err := ask(t.Context()); err == nil {
					t.Errorf("%s fails, and it is no error", call.Action)
				}
				heal()
				heal = s.Fault(sim.Fault{Product: call.Product, Action: call.Action, Status: 403, Code: "NoPermission"})
				p, err := ask(t.Context())
				if unknown := slices.ContainsFunc(p.Changes, func(e event.Change) bool { return e.Unknown }); err != nil || !unknown || p.Risk != remedy.High ||
					!strings.Contains(p.Note.String(), call.Action) {
					t.Errorf("%s is not allowed: %v, %s, %q, %v", call.Action, err, p.Risk, p.Note, p.Changes)
				}
				heal()
			}
		})
	}
}

// The event's address decides the backends' family, else the annotations.
func TestFamily(t *testing.T) {
	t.Parallel()
	const v4, v6 = discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6
	for _, tt := range []struct {
		message string
		notes   []string
		nlb     bool
		ignores bool // the class ignores the Event
		want    discoveryv1.AddressType
	}{
		{want: v4},
		{message: "There are no available nodes for LoadBalancer", notes: []string{"ip-version", "ipv6", "backend-ip-version", "ipv6"}, want: v6},
		{notes: []string{"ip-version", "ipv6"}, want: v4},
		{notes: []string{"backend-ip-version", "ipv6"}, want: v4},
		{notes: []string{"ip-version", "DualStack", "backend-ip-version", "ipv6"}, want: v4},
		{notes: []string{"ip-version", "DualStack", "backend-ip-version", "ipv6"}, nlb: true, want: v6},
		{notes: []string{"ip-version", "ipv6", "backend-ip-version", "ipv6"}, nlb: true, want: v4},
		{message: "Error syncing load balancer [lb-1]: can not find eniid for ip 2408:4005:3cd::1 in vpc vpc-1", want: v6},
		{message: "Not sync pods [10.1.5.9] whose eni is invalid", notes: []string{"ip-version", "ipv6", "backend-ip-version", "ipv6"}, want: v4},
		{message: "at 12:34:56 k8s::", want: v4},
		{message: "can not find eniid for ip 2408:4005:3cd::1", ignores: true, want: v4},
		{message: "can not find eniid for ip 10.1.5.9", notes: []string{"ip-version", "ipv6", "backend-ip-version", "ipv6"}, ignores: true, want: v4},
	} {
		c, _ := account(t, sim.World{}, fixture.Notes(tt.notes...))
		c.Event.Message, c.Remedy = tt.message, &remedy.Remedy{IgnoresEvent: tt.ignores}
		if tt.nlb {
			fixture.Network("")(c.Service)
		}
		if got := c.Family(); got != tt.want {
			t.Errorf("%q, %v: got %s, want %s", tt.message, tt.notes, got, tt.want)
		}
	}
}
