package ccm_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/test/fixture"
	"github.com/lbremedy/lbremedy/test/sim"
)

func TestFind(t *testing.T) {
	t.Parallel()
	own := map[string]string{ccm.NameTag: fixture.BalancerName}
	host := "nlb-1.cn-hangzhou.nlb.aliyuncs.com"
	nlb := sim.World{NLBs: []sim.NLB{{ID: "nlb-1"}}}
	for _, tt := range []struct {
		name   string
		world  sim.World
		edit   func(*corev1.Service)
		lb, by string
		gone   string
		tagged int
	}{
		{name: "by its label", world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Tags: map[string]string{"a": "b"},
			Listeners: []sim.Listener{{Port: 80}}}}},
			edit: fixture.Labels(map[string]string{ccm.BalancerLabel: "lb-1"}), lb: "lb-1", by: "label"},
		{name: "gone by its label, there by its address", world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Address: "10.1.1.1", VSwitch: "vsw-1"}}},
			edit: func(svc *corev1.Service) {
				fixture.Labels(map[string]string{ccm.BalancerLabel: "lb-0"})(svc)
				fixture.Ingress("10.1.1.1")(svc)
			}, lb: "lb-1", by: "address", gone: "lb-0"},
		{name: "gone", edit: fixture.Labels(map[string]string{ccm.BalancerLabel: "lb-0"}), gone: "lb-0"},
		{name: "the address in another VPC", world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Address: "10.1.1.1", VSwitch: "vsw-2"}}},
			edit: fixture.Ingress("10.1.1.1")},
		{name: "an address of the internet", world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Address: "47.1.1.1", AddressType: "internet"}}},
			edit: fixture.Ingress("47.1.1.1"), lb: "lb-1", by: "address"},
		{name: "behind an EIP", world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", VSwitch: "vsw-1"}}, EIPs: []sim.EIP{
			{ID: "eip-1", IP: "47.1.1.1", Instance: "lb-1", InstanceType: "SlbInstance"}}}, edit: fixture.Ingress("47.1.1.1"), lb: "lb-1", by: "EIP"},
		{name: "an EIP of a server", world: sim.World{Instances: []sim.Instance{{ID: "i-1"}},
			EIPs: []sim.EIP{{ID: "eip-1", IP: "47.1.1.1", Instance: "i-1", InstanceType: "EcsInstance"}}}, edit: fixture.Ingress("47.1.1.1")},
		{name: "by its tag", world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Tags: own}}}, lb: "lb-1", by: "tag", tagged: 1},
		{name: "several tagged", world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Tags: own}, {ID: "lb-2", Tags: own}}}, tagged: 2},
		{name: "by its name", world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Name: fixture.BalancerName},
			{ID: "lb-2", Name: fixture.BalancerName + "-x"}}}, lb: "lb-1", by: "name"},
		{name: "several of its name", world: sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Name: fixture.BalancerName},
			{ID: "lb-2", Name: fixture.BalancerName}}}},
		{name: "none"},
		{name: "an NLB by its label", world: nlb, edit: fixture.Edits(fixture.Network(host), fixture.Labels(map[string]string{ccm.BalancerLabel: "nlb-1"})),
			lb: "nlb-1", by: "label"},
		{name: "an NLB by its label before it was synced", world: nlb, edit: fixture.Edits(fixture.Network(""),
			fixture.Labels(map[string]string{ccm.BalancerLabel: "nlb-1"})), lb: "nlb-1", by: "label"},
		{name: "an NLB gone by its label, there by its DNS name", world: nlb, edit: fixture.Edits(fixture.Network(host),
			fixture.Labels(map[string]string{ccm.BalancerLabel: "nlb-0"})), lb: "nlb-1", by: "DNS name", gone: "nlb-0"},
		{name: "an NLB that is gone", edit: fixture.Edits(fixture.Network(host), fixture.Labels(map[string]string{ccm.BalancerLabel: "nlb-0"})), gone: "nlb-0"},
		{name: "an NLB by its tag", world: sim.World{NLBs: []sim.NLB{{ID: "nlb-1", Tags: own}}}, edit: fixture.Network(""), lb: "nlb-1", by: "tag", tagged: 1},
		{name: "several NLBs tagged", world: sim.World{NLBs: []sim.NLB{{ID: "nlb-1", Tags: own}, {ID: "nlb-2", Tags: own}}}, edit: fixture.Network(""), tagged: 2},
		{name: "an NLB by its name", world: sim.World{NLBs: []sim.NLB{{ID: "nlb-1", Name: fixture.BalancerName},
			{ID: "nlb-2", Name: fixture.BalancerName + "-x"}}}, edit: fixture.Network(""), lb: "nlb-1", by: "name"},
		{name: "no NLB", edit: fixture.Network("")},
		{name: "an NLB of a Service that has another type by now", world: sim.World{NLBs: []sim.NLB{{ID: "nlb-1", Tags: own}}},
			edit: func(svc *corev1.Service) {
				svc.Spec.Type, svc.Finalizers = corev1.ServiceTypeClusterIP, []string{ccm.NLBFinalizer}
			}, lb: "nlb-1", by: "tag", tagged: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, s := fixture.Account(t, tt.world, tt.edit)
			got, err := c.Find(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			id := ""
			if got.Instance != nil {
				id = got.ID
			}
			if id != tt.lb || string(got.By) != tt.by || got.Gone != tt.gone || len(got.Tagged) != tt.tagged ||
				!strings.Contains(got.Where.String(), "region cn-hangzhou") {
				t.Errorf("found %q by %q, gone %q, %d tagged, asked %q", id, got.By, got.Gone, len(got.Tagged), got.Where)
			}
			if tt.name == "by its label" && (got.Tags["a"] != "b" || len(got.CLB.Ports) != 1) {
				t.Errorf("it is not whole: %+v", got.CLB)
			}
			fixture.Declared(t, s, servingReads...)
			failing(t, s, func() error { _, err := c.Find(t.Context()); return err })
		})
	}
}

// Only proof in the cloud makes a load balancer the Service's own.
func TestOwner(t *testing.T) {
	t.Parallel()
	vgroup := func(name string) []sim.VGroup { return []sim.VGroup{{Name: name}} }
	for _, tt := range []struct {
		name string
		lb   sim.LoadBalancer
		want ccm.Owner
		says string
	}{
		{"own by its tag", sim.LoadBalancer{Tags: map[string]string{ccm.ClusterTag: "c-1"}, VGroups: vgroup("k8s/80/web/shop/c-1")}, ccm.Own,
			"tag ack.aliyun.com=c-1"},
		{"own by its protection", sim.LoadBalancer{ModificationProtection: sim.Protection{Status: "ConsoleProtection", Reason: ccm.ManagedByACK},
			VGroups: vgroup("k8s/80/web/shop/c-1")}, ccm.Own, "managed.by.ack"},
		{"another Service's too", sim.LoadBalancer{Tags: map[string]string{ccm.ClusterTag: "c-1"}, VGroups: append(vgroup("k8s/80/web/shop/c-1"),
			vgroup("k8s/80/api/shop/c-1")...)}, ccm.OtherService, "shop/api"},
		{"a group of another cluster", sim.LoadBalancer{Tags: map[string]string{ccm.ClusterTag: "c-1"}, VGroups: vgroup("k8s/80/web/shop/c-2")}, ccm.OtherService,
			"shop/web (c-2)"},
		{"a group of another cluster too", sim.LoadBalancer{Tags: map[string]string{ccm.ClusterTag: "c-1"}, VGroups: append(vgroup("k8s/80/web/shop/c-1"),
			vgroup("k8s/80/web/shop/c-2")...)}, ccm.OtherService, "other Services: shop/web (c-2)"},
		{"a group by hand", sim.LoadBalancer{Tags: map[string]string{ccm.ClusterTag: "c-1"}, VGroups: vgroup("mine")}, ccm.Unproven,
			"0 vServer groups of this Service"},
		{"the tag of another cluster", sim.LoadBalancer{Tags: map[string]string{ccm.ClusterTag: "c-2"}, VGroups: vgroup("k8s/80/web/shop/c-1")}, ccm.Unproven,
			"of another cluster"},
		{"reused", sim.LoadBalancer{Tags: map[string]string{ccm.ReusedTag: "true"}}, ccm.Users, "reused"},
		{"made by hand", sim.LoadBalancer{}, ccm.Users, "a person created it"},
		{"a name tag and nothing more", sim.LoadBalancer{Tags: map[string]string{ccm.NameTag: fixture.BalancerName}}, ccm.Unproven, "no mark"},
		{"a group of the Service, and no mark at all, as v1.9.3.101 leaves it without its name tag", sim.LoadBalancer{VGroups: vgroup("k8s/80/web/shop/c-1")},
			ccm.Unproven, "no mark of the controller, and 1 vServer group"},
		{"a listener of the Service, and no mark at all", sim.LoadBalancer{Listeners: []sim.Listener{{Port: 80, Description: "k8s/80/web/shop/c-1"}}},
			ccm.Unproven, "no mark"},
		{"the default name, and no mark at all", sim.LoadBalancer{Name: fixture.BalancerName}, ccm.Unproven, "no mark"},
		{"reused, with a group of the Service", sim.LoadBalancer{Tags: map[string]string{ccm.ReusedTag: "true"}, VGroups: vgroup("k8s/80/web/shop/c-1")},
			ccm.Users, "reused"},
		{"a group of another cluster, and no mark at all", sim.LoadBalancer{VGroups: vgroup("k8s/80/web/shop/c-2")}, ccm.OtherService, "shop/web (c-2)"},
		{"the API server's", sim.LoadBalancer{Tags: map[string]string{ccm.ClusterTag: "c-1"}, Listeners: []sim.Listener{{Port: 6443}}}, ccm.APIServer, "API server"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.lb.ID = "lb-1"
			c, s := fixture.Account(t, sim.World{LoadBalancers: []sim.LoadBalancer{tt.lb}}, nil)
			lb, err := c.Named(t.Context(), "lb-1")
			if err != nil {
				t.Fatal(err)
			}
			got, evidence, err := c.Owner(t.Context(), lb)
			if err != nil || got != tt.want || !strings.Contains(evidence.String(), tt.says) {
				t.Errorf("got %d, %q, %v", got, evidence, err)
			}
			if ccm.TagsFull(lb) {
				t.Error("it has no room for a tag")
			}
			s.Fault(sim.Fault{Product: "slb", Action: "DescribeVServerGroups", Status: 403, Code: "NoPermission"})
			if _, _, err := c.Owner(t.Context(), lb); err == nil && tt.want != ccm.Users && tt.want != ccm.APIServer {
				t.Error("its groups can't be read, and it is no error")
			}
		})
	}
	full := cloud.LoadBalancer{Tags: map[string]string{}}
	for i := range 20 {
		full.Tags[fmt.Sprint(i)] = ""
	}
	if !ccm.TagsFull(&ccm.Instance{Tags: full.Tags}) {
		t.Error("20 tags leave room for another")
	}
}

func TestDrift(t *testing.T) {
	t.Parallel()
	synced := func() sim.LoadBalancer {
		return sim.LoadBalancer{ID: "lb-1", AddressType: "internet", DeleteProtection: true, ModificationProtection: sim.Protection{Status: "ConsoleProtection",
			Reason: ccm.ManagedByACK},
			Listeners: []sim.Listener{{Port: 80, Protocol: "tcp", Description: "k8s/80/web/shop/c-1"}}}
	}
	for _, tt := range []struct {
		name  string
		lb    func(*sim.LoadBalancer)
		notes map[string]string // annotations by short name
		want  string            // empty: none
	}{
		{name: "none"},
		{name: "the address type", notes: map[string]string{"address-type": "intranet"}, want: "the address type is internet and the annotations say intranet"},
		{name: "the spec", lb: func(lb *sim.LoadBalancer) { lb.Spec, lb.ChargeType = "slb.s2.small", "PayBySpec" },
			notes: map[string]string{"spec": "slb.s1.small"}, want: "the spec is slb.s2.small"},
		{name: "the spec, which PayByCLCU has none of", notes: map[string]string{"spec": "slb.s1.small"}},
		{name: "the charge type", notes: map[string]string{"instance-charge-type": "PayBySpec"}, want: "the charge type is PayByCLCU"},
		{name: "the name", notes: map[string]string{"name": "shop"}, want: "the annotations say shop"},
		{name: "deletion protection", lb: func(lb *sim.LoadBalancer) { lb.DeleteProtection = false }, notes: map[string]string{"delete-protection": "on"},
			want: "deletion protection is off and the annotations say on"},
		{name: "deletion protection, of which no annotation speaks", lb: func(lb *sim.LoadBalancer) { lb.DeleteProtection = false }},
		{name: "modification protection", lb: func(lb *sim.LoadBalancer) { lb.ModificationProtection = sim.Protection{} },
			notes: map[string]string{"modification-protection": "ConsoleProtection"},
			want:  "modification protection is NonProtection and the annotations say ConsoleProtection"},
		{name: "modification protection, of which no annotation speaks", lb: func(lb *sim.LoadBalancer) { lb.ModificationProtection = sim.Protection{} }},
		{name: "the charge for traffic", notes: map[string]string{"charge-type": "paybybandwidth"},
			want: "the charge for traffic is paybytraffic and the annotations say paybybandwidth"},
		{name: "the bandwidth", lb: func(lb *sim.LoadBalancer) { lb.InternetChargeType, lb.Bandwidth = "paybybandwidth", 5 },
			notes: map[string]string{"charge-type": "paybybandwidth", "bandwidth": "10"}, want: "the bandwidth is 5 and the annotations say 10"},
		{name: "the bandwidth of one that pays by traffic", notes: map[string]string{"charge-type": "paybytraffic", "bandwidth": "10"}},
		{name: "the bandwidth of one within the VPC", lb: func(lb *sim.LoadBalancer) { lb.AddressType, lb.VSwitch = "intranet", "vsw-1" },
			notes: map[string]string{"charge-type": "paybybandwidth", "bandwidth": "10"}},
		{name: "a tag", lb: func(lb *sim.LoadBalancer) { lb.Tags = map[string]string{"a": "b", "c": "d", ccm.NameTag: "x"} },
			notes: map[string]string{"additional-resource-tags": "a=b, e=f"}, want: "the tag c=d is not in the annotation"},
		{name: "a listener of the console", lb: func(lb *sim.LoadBalancer) {
			lb.Listeners = append(lb.Listeners, sim.Listener{Port: 81, Protocol: "tcp"})
		}},
		{name: "a listener too many", lb: func(lb *sim.LoadBalancer) {
			lb.Listeners = append(lb.Listeners, sim.Listener{Port: 81, Protocol: "tcp", Description: "k8s/81/web/shop/c-1"})
		}, want: "listener tcp:81 has no port of the Service and would be deleted"},
		{name: "a listener of another Service", lb: func(lb *sim.LoadBalancer) {
			lb.Listeners = append(lb.Listeners, sim.Listener{Port: 81, Protocol: "tcp", Description: "k8s/81/api/shop/c-1"})
		}},
		{name: "a listener too few", lb: func(lb *sim.LoadBalancer) { lb.Listeners = nil }, want: "there is no listener tcp:80"},
		{name: "another protocol", notes: map[string]string{"protocol-port": "http:80"},
			want: "there is no listener http:80; listener tcp:80 has no port of the Service and would be deleted"},
		{name: "stopped", lb: func(lb *sim.LoadBalancer) { lb.Listeners[0].Status = "stopped" }, want: "listener tcp:80 is stopped and would be started"},
		{name: "the scheduler", lb: func(lb *sim.LoadBalancer) { lb.Listeners[0].Scheduler = "wrr" }, notes: map[string]string{"scheduler": "rr"},
			want: "Scheduler of listener tcp:80 is wrr"},
		{name: "a setting of a listener", lb: func(lb *sim.LoadBalancer) {
			lb.Listeners[0].Config = map[string]string{"HealthCheckInterval": "2", "HealthyThreshold": "3", "AclStatus": "off", "PersistenceTimeout": "0"}
		}, notes: map[string]string{"health-check-interval": "5", "healthy-threshold": "03", "acl-id": "acl-1", "unhealthy-threshold": "0"},
			want: "HealthCheckInterval of listener tcp:80 is 2 and the annotations say 5"},
		{name: "a setting that is switched off", lb: func(lb *sim.LoadBalancer) { lb.Listeners[0].Config = map[string]string{"PersistenceTimeout": "10"} },
			notes: map[string]string{"persistence-timeout": "0"}, want: "PersistenceTimeout of listener tcp:80 is 10 and the annotations say 0"},
		{name: "a setting that is not a number", lb: func(lb *sim.LoadBalancer) { lb.Listeners[0].Config = map[string]string{"HealthCheckInterval": "2"} },
			notes: map[string]string{"health-check-interval": "5s"}},
		{name: "a setting of other protocols", notes: map[string]string{"health-check-flag": "off", "sticky-session": "on", "cert-id": "cert-1"}},
		{name: "an access list", lb: func(lb *sim.LoadBalancer) {
			lb.Listeners[0].Config = map[string]string{"AclStatus": "off", "AclId": ""}
		}, notes: map[string]string{"acl-status": "on", "acl-id": "acl-1"},
			want: "AclStatus of listener tcp:80 is off and the annotations say on; AclId of listener tcp:80 is empty and the annotations say acl-1"},
		{name: "a redirection that no annotation asks for", lb: func(lb *sim.LoadBalancer) {
			lb.Listeners[0].Protocol, lb.Listeners[0].Config = "http", map[string]string{"ListenerForward": "on", "ForwardPort": "443", "IdleTimeout": "5"}
		}, notes: map[string]string{"protocol-port": "http:80", "idle-timeout": "9"},
			want: "listener http:80 redirects to port 443 without an annotation and would be deleted and recreated"},
		{name: "a redirection that is missing", lb: func(lb *sim.LoadBalancer) { lb.Listeners[0].Protocol = "http" },
			notes: map[string]string{"protocol-port": "http:80", "forward-port": "80:443"},
			want:  "listener http:80 does not redirect although the annotations say to port 443 and would be deleted and recreated"},
		{name: "a redirection to elsewhere", lb: func(lb *sim.LoadBalancer) {
			lb.Listeners[0].Protocol, lb.Listeners[0].Config = "http", map[string]string{"ListenerForward": "on", "ForwardPort": "444"}
		}, notes: map[string]string{"protocol-port": "http:80", "forward-port": "80:443"},
			want: "listener http:80 redirects to port 444 although the annotations say to port 443"},
		{name: "a redirection as it should be, which is left alone", lb: func(lb *sim.LoadBalancer) {
			lb.Listeners[0].Protocol, lb.Listeners[0].Config = "http", map[string]string{"ListenerForward": "on", "ForwardPort": "443", "IdleTimeout": "5"}
		}, notes: map[string]string{"protocol-port": "http:80", "forward-port": "80:443", "idle-timeout": "9"}},
		{name: "the proxy protocol", lb: func(lb *sim.LoadBalancer) {
			lb.Listeners[0].Config = map[string]string{"ProxyProtocolV2Enabled": "false"}
		}, notes: map[string]string{"proxy-protocol": "on"}, want: "ProxyProtocolV2Enabled of listener tcp:80 is false and the annotations say true"},
		{name: "reused", lb: func(lb *sim.LoadBalancer) { lb.Listeners, lb.DeleteProtection = nil, false }, notes: map[string]string{"id": "lb-1"}},
		{name: "reused, and to be protected", lb: func(lb *sim.LoadBalancer) { lb.DeleteProtection = false },
			notes: map[string]string{"id": "lb-1", "delete-protection": "on"}, want: "deletion protection is off"},
		{name: "reused, and the controller's", lb: func(lb *sim.LoadBalancer) { lb.Tags = map[string]string{ccm.NameTag: "x"} },
			notes: map[string]string{"id": "lb-1"}, want: "the reuse check fails"},
		{name: "reused, listeners overridden", lb: func(lb *sim.LoadBalancer) { lb.Listeners = nil },
			notes: map[string]string{"id": "lb-1", "force-override-listeners": "true"}, want: "there is no listener tcp:80"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			lb := synced()
			if tt.lb != nil {
				tt.lb(&lb)
			}
			c, _ := fixture.Account(t, sim.World{LoadBalancers: []sim.LoadBalancer{lb}}, func(svc *corev1.Service) {
				for short, v := range tt.notes {
					svc.Annotations[ccm.Prefix+short] = v
				}
			})
			found, err := c.Named(t.Context(), "lb-1")
			if err != nil {
				t.Fatal(err)
			}
			list := ccm.Differences(c.Service, found)
			if ccm.OwnsListeners(c.Service) {
				listeners, err := c.Cloud.SLB.Listeners(t.Context(), "lb-1")
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, ccm.ListenerDifferences(c.Service, listeners, "c-1")...)
			}
			var drift []string
			for _, d := range list {
				drift = append(drift, d.Text.String())
			}
			if got := strings.Join(drift, "; "); tt.want == "" && got != "" || !strings.Contains(got, tt.want) || tt.want != "" &&
				len(drift) != 1+strings.Count(tt.want, ";") {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAnnotation(t *testing.T) {
	t.Parallel()
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{UID: fixture.UID, Annotations: map[string]string{ccm.LegacyPrefix + "id": "a",
		ccm.LegacyPrefix + "spec": "b", ccm.Prefix + "spec": "c"}}}
	for short, want := range map[string]string{"id": "a", "spec": "c", "none": ""} {
		got, ok := ccm.Annotation(svc, short)
		if got != want || ok != (want != "") {
			t.Errorf("%s is %q, %t", short, got, ok)
		}
	}
	fixture.Equal(t, []string{ccm.AnnotationKey(svc, "id"), ccm.AnnotationKey(svc, "spec"), ccm.AnnotationKey(svc, "none")},
		[]string{ccm.LegacyPrefix + "id", ccm.Prefix + "spec", ccm.Prefix + "none"})
	svc.Namespace, svc.Name = "shop", "web"
	fixture.Equal(t, ccm.SetCommand(svc, "id", "lb-1"), "kubectl -n shop annotate service web "+ccm.Prefix+"id=lb-1 --overwrite")
	fixture.Equal(t, ccm.SetCommand(svc, "zone-maps", "a;rm -rf 'x'"),
		"kubectl -n shop annotate service web '"+ccm.Prefix+`zone-maps=a;rm -rf '"'"'x'"'"'' --overwrite`)
	fixture.Equal(t, ccm.SetCommand(svc, "zone-maps", "a:b,c$(d)"), "kubectl -n shop annotate service web '"+ccm.Prefix+"zone-maps=a:b,c$(d)' --overwrite")
	fixture.Equal(t, ccm.RemoveCommand(svc, "spec"), "kubectl -n shop annotate service web "+ccm.Prefix+"spec- "+ccm.LegacyPrefix+"spec-")
	fixture.Equal(t, ccm.Quote("a"), `"a"`)
	fixture.Equal(t, ccm.Quote(strings.Repeat("ä", 41)), `"`+strings.Repeat("ä", 40)+`"…`)
	fixture.Equal(t, ccm.DefaultName(svc), fixture.BalancerName)
	fixture.Equal(t, ccm.DefaultName(&corev1.Service{}), "a")
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "h"}}
	fixture.Equal(t, ccm.Address(svc), "h")
}
