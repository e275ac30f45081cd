package controller_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/test/sim"
)

func (r *rig) called(action string) []map[string]string {
	var all []map[string]string
	for _, c := range r.cloud.CallsOf("ccm") {
		if c.Action == action {
			all = append(all, c.Params)
		}
	}
	return all
}

func (r *rig) annotations(name string, values map[string]string) {
	r.Helper()
	var list []string
	for _, k := range slices.Sorted(maps.Keys(values)) {
		list = append(list, fmt.Sprintf("%q:%q", prefix+k, values[k]))
	}
	r.patch(name, `{"metadata":{"annotations":{`+strings.Join(list, ",")+`}}}`)
}

func ports(svc *corev1.Service) {
	svc.Spec.Ports = nil
	for i, protocol := range []string{"tcp", "udp", "http", "https"} {
		p := corev1.ServicePort{Name: protocol, Port: int32(80 + i), Protocol: corev1.ProtocolTCP}
		if protocol == "udp" {
			p.Protocol = corev1.ProtocolUDP
		}
		svc.Spec.Ports = append(svc.Spec.Ports, p)
	}
}

func TestListenerAnnotations(t *testing.T) {
	t.Parallel()
	all := []struct {
		annotation, first, then string // values at creation and after a change
		param                   string
		protocols               string
	}{
		{"scheduler", "wrr", "wlc", "Scheduler", "TCP UDP HTTP HTTPS"},
		{"persistence-timeout", "60", "0", "PersistenceTimeout", "TCP"},
		{"established-timeout", "500", "600", "EstablishedTimeout", "TCP"},
		{"cert-id", "cert-1", "cert-2", "ServerCertificateId", "HTTPS"},
		{"tls-cipher-policy", "tls_cipher_policy_1_1", "tls_cipher_policy_1_2", "TLSCipherPolicy", "HTTPS"},
		{"http2-enabled", "off", "on", "EnableHttp2", "HTTPS"},
		{"idle-timeout", "10", "20", "IdleTimeout", "HTTP HTTPS"},
		{"request-timeout", "30", "40", "RequestTimeout", "HTTP HTTPS"},
		{"acl-status", "on", "on", "AclStatus", "TCP UDP HTTP HTTPS"},
		{"acl-type", "white", "black", "AclType", "TCP UDP HTTP HTTPS"},
		{"acl-id", "acl-1", "acl-1,acl-2", "AclId", "TCP UDP HTTP HTTPS"},
		{"connection-drain", "on", "on", "ConnectionDrain", "TCP UDP"},
		{"connection-drain-timeout", "30", "60", "ConnectionDrainTimeout", "TCP UDP"},
		{"cookie", "a", "b", "Cookie", "HTTP HTTPS"},
		{"cookie-timeout", "100", "200", "CookieTimeout", "HTTP HTTPS"},
		{"sticky-session", "on", "on", "StickySession", "HTTP HTTPS"},
		{"sticky-session-type", "insert", "server", "StickySessionType", "HTTP HTTPS"},
		{"xforwardedfor-proto", "on", "off", "XForwardedFor_proto", "HTTP HTTPS"},
		{"xforwardedfor-slbport", "on", "off", "XForwardedFor_SLBPORT", "HTTP HTTPS"},
		{"xforwardedfor-clientsrcport", "on", "off", "XForwardedFor_ClientSrcPort", "HTTP HTTPS"},
		{"healthy-threshold", "3", "4", "HealthyThreshold", "TCP UDP HTTP HTTPS"},
		{"unhealthy-threshold", "4", "5", "UnhealthyThreshold", "TCP UDP HTTP HTTPS"},
		{"health-check-connect-timeout", "5", "6", "HealthCheckConnectTimeout", "TCP UDP"},
		{"health-check-connect-port", "8080", "8081", "HealthCheckConnectPort", "TCP UDP HTTP HTTPS"},
		{"health-check-interval", "2", "3", "HealthCheckInterval", "TCP UDP HTTP HTTPS"},
		{"health-check-domain", "a.example.com", "b.example.com", "HealthCheckDomain", "TCP HTTP HTTPS"},
		{"health-check-uri", "/a", "/b", "HealthCheckURI", "TCP HTTP HTTPS"},
		{"health-check-httpcode", "http_2xx", "http_3xx", "HealthCheckHttpCode", "TCP HTTP HTTPS"},
		{"health-check-type", "tcp", "http", "HealthCheckType", "TCP"},
		{"health-check-flag", "on", "on", "HealthCheck", "HTTP HTTPS"},
		{"health-check-timeout", "7", "8", "HealthCheckTimeout", "HTTP HTTPS"},
		{"health-check-method", "get", "head", "HealthCheckMethod", "HTTP HTTPS"},
		{"health-check-switch", "on", "off", "HealthCheckSwitch", "TCP UDP"},
		{"proxy-protocol", "on", "off", "ProxyProtocolV2Enabled", "TCP UDP"},
	}
	first, then := map[string]string{"protocol-port": "tcp:80,udp:81,http:82,https:83"}, map[string]string{}
	for _, a := range all {
		first[a.annotation], then[a.annotation] = a.first, a.then
	}
	r := newRig(t, &sim.World{Certificates: []sim.Certificate{{ID: "cert-1"}, {ID: "cert-2", Expires: time.Now().Add(time.Hour)}},
		ACLs: []sim.ACL{{ID: "acl-1"}, {ID: "acl-2"}}}, 1)
	r.service("web", first, ports)
	hash := r.synced("web", "").Labels[labelHash]

	shown := func(param, v string) string {
		if param == "ProxyProtocolV2Enabled" {
			return map[string]string{"on": "true", "off": "false"}[v]
		}
		return v
	}
	hold := func(action string, value func(first, then string) string) {
		t.Helper()
		for _, protocol := range []string{"TCP", "UDP", "HTTP", "HTTPS"} {
			calls := r.called(fmt.Sprintf(action, protocol))
			if len(calls) != 1 {
				t.Errorf("%d calls of %s", len(calls), fmt.Sprintf(action, protocol))
				continue
			}
			sent := calls[0]
			if every, ok := sent["healthCheckInterval"]; ok { // its name where TCP and UDP listeners are created
				sent["HealthCheckInterval"] = every
			}
			for _, a := range all {
				want := ""
				if slices.Contains(strings.Fields(a.protocols), protocol) {
					want = shown(a.param, value(a.first, a.then))
				}
				if got := sent[a.param]; got != want {
					t.Errorf("%s: %s leads to %s %q, want %q", fmt.Sprintf(action, protocol), a.annotation, a.param, got, want)
				}
			}
		}
	}
	hold("CreateLoadBalancer%sListener", func(first, _ string) string { return first })
	r.cloud.ResetCalls()
	then["protocol-port"] = first["protocol-port"]
	r.annotations("web", then)
	hash = r.synced("web", hash).Labels[labelHash]
	hold("SetLoadBalancer%sListenerAttribute", func(_, then string) string { return then })

	r.cloud.ResetCalls()
	r.touch("web", "1")
	r.synced("web", hash)
	for _, a := range r.actions() {
		if !strings.HasPrefix(a, "Describe") && !strings.HasPrefix(a, "List") {
			t.Errorf("a full sync without a difference called %s", a)
		}
	}
}

func TestListenerSwitches(t *testing.T) {
	t.Parallel()
	r := newRig(t, &sim.World{ACLs: []sim.ACL{{ID: "acl-1"}}}, 1)
	r.service("web", nil)
	hash := r.synced("web", "").Labels[labelHash]
	r.cloud.ResetCalls()
	r.annotations("web", map[string]string{"acl-id": "acl-1", "acl-type": "white", "connection-drain-timeout": "30", "healthy-threshold": "0",
		"proxy-protocol": "off"})
	hash = r.synced("web", hash).Labels[labelHash]
	calls := r.called("SetLoadBalancerTCPListenerAttribute")
	if len(calls) != 0 { // the cloud's defaults equal these annotations
		t.Errorf("calls %v", calls)
	}
	r.cloud.ResetCalls()
	r.annotations("web", map[string]string{"acl-status": "on", "connection-drain": "on"})
	r.synced("web", hash)
	calls = r.called("SetLoadBalancerTCPListenerAttribute")
	if len(calls) != 1 || calls[0]["AclId"] != "acl-1" || calls[0]["ConnectionDrainTimeout"] != "30" {
		t.Errorf("calls %v", calls)
	}
}

// TestDomainExtensions also checks that removing the annotation keeps the domains.
func TestDomainExtensions(t *testing.T) {
	world := sim.World{Certificates: []sim.Certificate{{ID: "cert-1"}, {ID: "cert-2"}}}
	show := func(r *rig) []string {
		var all []string
		for _, d := range r.byName(ownName(r.get("web"))).Listeners[0].Domains {
			all = append(all, d.Name+" "+d.Certificate)
		}
		slices.Sort(all)
		return all
	}
	first := map[string]string{"protocol-port": "https:80", "cert-id": "cert-1", "domain-extensions": "a.example.com:cert-1,b.example.com:cert-1"}
	t.Run("v2.14.0", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, &world, 1)
		r.service("web", first)
		hash := r.synced("web", "").Labels[labelHash]
		if diff := cmp.Diff([]string{"a.example.com cert-1", "b.example.com cert-1"}, show(r)); diff != "" {
			t.Error(diff)
		}
		r.annotate("web", "domain-extensions", "b.example.com:cert-1, c.example.com:cert-2")
		hash = r.synced("web", hash).Labels[labelHash]
		if diff := cmp.Diff([]string{"b.example.com cert-1", "c.example.com cert-2"}, show(r)); diff != "" {
			t.Error(diff)
		}
		r.patch("web", fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, prefix+"domain-extensions"))
		r.synced("web", hash)
		if diff := cmp.Diff([]string{"b.example.com cert-1", "c.example.com cert-2"}, show(r)); diff != "" {
			t.Error(diff)
		}
		r.annotate("web", "domain-extensions", "b.example.com:cert-2,d.example.com:cert-1")
		r.saw("web", failed+"Error syncing load balancer ["+r.get("web").Labels[labelID]+"]: "+
			`Message: The input parameter "DomainExtensionId" that is mandatory for processing this request is not supplied.`)
		if diff := cmp.Diff([]string{"b.example.com cert-1", "d.example.com cert-1"}, show(r)); diff != "" {
			t.Error(diff)
		}
		r.annotate("web", "domain-extensions", "c.example.com:cert-none")
		r.saw("web", failed+"Error syncing load balancer ["+r.get("web").Labels[labelID]+"]: Message: The specified CertificateId does not exist.")
		r.annotate("web", "domain-extensions", "b.example.com")
		r.saw("web", failed+"Error syncing load balancer []: build lb local model error: builid lb listener error: build listener from servicePort 80 error: "+
			"parse DomainExtensions error: invalid domain extension b.example.com")
	})
	t.Run("v2.12.4", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, &world, 1, plays("v2.12.4"))
		r.service("web", first)
		r.synced("web", "")
		if got := show(r); len(got) > 0 {
			t.Errorf("domains %v", got)
		}
	})
}

func TestBalancerAnnotations(t *testing.T) {
	for _, c := range []struct {
		name        string
		annotations map[string]string
		want        map[string]string
	}{
		{"none", nil, map[string]string{
			"AddressType": "internet", "InstanceChargeType": "PayByCLCU", "LoadBalancerSpec": "", "DeleteProtection": "on", "VpcId": "", "VSwitchId": "",
			"ModificationProtectionStatus": "ConsoleProtection", "ModificationProtectionReason": "managed.by.ack", "LoadBalancerName": "NAME",
		}},
		{"intranet", map[string]string{"address-type": "intranet"}, map[string]string{"AddressType": "intranet", "VpcId": "vpc-1", "VSwitchId": "vsw-1"}},
		{"all", map[string]string{
			"address-type": "intranet", "vswitch-id": "vsw-2", "ip": "10.0.16.9", "name": "shop", "resource-group-id": "rg-shop", "ip-version": "ipv4",
			"spec": "slb.s2.small", "instance-charge-type": "PayBySpec", "charge-type": "paybybandwidth", "bandwidth": "9", "delete-protection": "off",
			"modification-protection": "NonProtection", "master-zoneid": "cn-hangzhou-h", "slave-zoneid": "cn-hangzhou-i", "additional-resource-tags": "team=shop",
		}, map[string]string{
			"AddressType": "intranet", "VSwitchId": "vsw-2", "Address": "10.0.16.9", "LoadBalancerName": "shop", "ResourceGroupId": "rg-shop",
			"AddressIPVersion": "ipv4",
			"LoadBalancerSpec": "slb.s2.small", "InstanceChargeType": "PayBySpec", "InternetChargeType": "paybybandwidth", "Bandwidth": "9", "DeleteProtection": "off",
			"ModificationProtectionStatus": "NonProtection", "ModificationProtectionReason": "", "MasterZoneId": "cn-hangzhou-h", "SlaveZoneId": "cn-hangzhou-i",
			"Tag.1.Key": "ack.aliyun.com", "Tag.1.Value": clusterID, "Tag.2.Key": "kubernetes.do.not.delete", "Tag.2.Value": "NAME", "Tag.3.Key": "team",
			"Tag.3.Value": "shop",
		}},
		{"spec alone", map[string]string{"spec": "slb.s2.small"}, map[string]string{"LoadBalancerSpec": "slb.s2.small", "InstanceChargeType": "PayByCLCU"}},
		{"charge types in other letters", map[string]string{"instance-charge-type": "paybyclcu"}, map[string]string{"InstanceChargeType": "PayByCLCU"}},
		{"pay by spec alone", map[string]string{"instance-charge-type": "PayBySpec"}, map[string]string{"LoadBalancerSpec": "slb.s1.small",
			"InstanceChargeType": "PayBySpec"}},
		{"classic network", map[string]string{"address-type": "intranet", "network-type": "classic"}, map[string]string{"VpcId": "", "VSwitchId": ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, &sim.World{VSwitches: []sim.VSwitch{{ID: "vsw-1"}, {ID: "vsw-2"}}}, 1)
			svc := r.service("web", c.annotations)
			r.until("a sync", func() bool { return len(r.all) > 0 })
			got := r.called("CreateLoadBalancer")[0]
			for k, v := range c.want {
				if v = strings.Replace(v, "NAME", ownName(svc), 1); got[k] != v {
					t.Errorf("%s is %q, want %q", k, got[k], v)
				}
			}
		})
	}
}

// TestLegacyPrefix checks that the current prefix takes precedence over the legacy one.
func TestLegacyPrefix(t *testing.T) {
	t.Parallel()
	const legacy = "service.beta.kubernetes.io/alicloud-loadbalancer-"
	r := newRig(t, nil, 1)
	r.service("web", map[string]string{"bandwidth": "5", "charge-type": "paybybandwidth"}, func(s *corev1.Service) {
		s.Annotations[legacy+"name"], s.Annotations[legacy+"bandwidth"] = "shop", "9"
	})
	lb := r.lb(r.synced("web", "").Labels[labelID])
	if lb.Name != "shop" || lb.Bandwidth != 5 {
		t.Errorf("name %s, bandwidth %d", lb.Name, lb.Bandwidth)
	}
}

// TestImmutable checks that changing an annotation that applies only at creation is an error, and that errors are combined.
func TestImmutable(t *testing.T) {
	t.Parallel()
	texts := map[string]string{
		"master-zoneid":     "can not change LoadBalancer master zone id once created",
		"slave-zoneid":      "can not change LoadBalancer slave zone id once created",
		"address-type":      "can not change LoadBalancer AddressType once created. delete and retry",
		"ip-version":        "can not change LoadBalancer AddressIPVersion once created",
		"network-type":      "can not change LoadBalancer network type once created",
		"resource-group-id": "can not change ResourceGroupId once created",
		"ip":                "can not change LoadBalancer address once created",
	}
	values := map[string]string{
		"master-zoneid": "cn-hangzhou-z", "slave-zoneid": "cn-hangzhou-z", "address-type": "intranet", "ip-version": "ipv6", "network-type": "vpc",
		"resource-group-id": "rg-other", "ip": "10.9.9.9",
	}
	r := newRig(t, nil, 1)
	r.service("web", nil)
	svc := r.synced("web", "")
	begin := failed + "Error syncing load balancer [" + svc.Labels[labelID] + "]: apply model error: update lb attribute error: "
	for k, v := range values {
		r.annotate("web", k, v)
		r.saw("web", begin+"alicloud: "+texts[k])
		r.patch("web", fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, prefix+k))
	}
	r.annotations("web", map[string]string{"ip-version": "ipv6", "resource-group-id": "rg-other"})
	r.saw("web", begin+"[alicloud: "+texts["ip-version"]+", alicloud: "+texts["resource-group-id"]+"]")
	if now := r.get("web"); now.Labels[labelHash] == "" || len(now.Status.LoadBalancer.Ingress) == 0 {
		t.Error("a failed sync took the marks of the last one away")
	}
}

func TestCharge(t *testing.T) {
	for _, c := range []struct {
		name, version string
		first, then   map[string]string
		call          string            // expected call; empty: none
		params        map[string]string // of that call
		want          string            // message of the Event; empty: the sync succeeds
	}{
		{"spec on one that is paid by use", "v2.14.0", nil, map[string]string{"spec": "slb.s2.small"}, "", nil, ""},
		{"spec on one that is paid by use, v2.6.0", "v2.6.0", map[string]string{"instance-charge-type": "PayByCLCU"}, map[string]string{"spec": "slb.s2.small"},
			"ModifyLoadBalancerInstanceSpec", map[string]string{"LoadBalancerSpec": "slb.s2.small"},
			"Message: The operation is not allowed because the instanceChargeType of loadbalancer is PayByCLCU."},
		{"spec on one that began with another", "v2.14.0", map[string]string{"spec": "slb.s1.small"}, map[string]string{"spec": "slb.s2.small"}, "", nil, ""},
		{"spec on one that began with another, v2.12.0", "v2.12.0", map[string]string{"spec": "slb.s1.small"}, map[string]string{"spec": "slb.s2.small"},
			"ModifyLoadBalancerInstanceSpec", map[string]string{"LoadBalancerSpec": "slb.s2.small"}, ""},
		{"spec on one that is paid by spec", "v2.14.0", map[string]string{"instance-charge-type": "PayBySpec"}, map[string]string{"spec": "slb.s2.small"},
			"ModifyLoadBalancerInstanceSpec", map[string]string{"LoadBalancerSpec": "slb.s2.small"}, ""},
		{"to spec", "v2.14.0", nil, map[string]string{"instance-charge-type": "PayBySpec"},
			"ModifyLoadBalancerInstanceChargeType", map[string]string{"InstanceChargeType": "PayBySpec", "LoadBalancerSpec": "slb.s1.small"},
			"Message: User does not have permission modify InstanceChargeType to spec."},
		{"to use, which it is", "v2.14.0", map[string]string{"spec": "slb.s1.small"}, map[string]string{"instance-charge-type": "PayByCLCU"}, "", nil, ""},
		{"to use", "v2.14.0", map[string]string{"instance-charge-type": "PayBySpec"}, map[string]string{"instance-charge-type": "PayByCLCU"},
			"ModifyLoadBalancerInstanceChargeType", map[string]string{"InstanceChargeType": "PayByCLCU", "LoadBalancerSpec": ""}, ""},
		{"in other letters", "v2.14.0", nil, map[string]string{"instance-charge-type": "paybyclcu"},
			"ModifyLoadBalancerInstanceChargeType", map[string]string{"InstanceChargeType": "paybyclcu"}, "Message: The parameter InstanceChargeType is illegal."},
		{"charge type unknown before v2.4.0", "v2.3.0", nil, map[string]string{"instance-charge-type": "PayByCLCU"}, "", nil, ""},
		{"by bandwidth", "v2.14.0", nil, map[string]string{"charge-type": "paybybandwidth", "bandwidth": "7"},
			"ModifyLoadBalancerInternetSpec", map[string]string{"InternetChargeType": "paybybandwidth", "Bandwidth": "7"}, ""},
		{"bandwidth alone", "v2.14.0", nil, map[string]string{"bandwidth": "7"}, "", nil, ""},
		{"bandwidth of an intranet one", "v2.14.0", map[string]string{"address-type": "intranet"}, map[string]string{"charge-type": "paybybandwidth",
			"bandwidth": "7"}, "", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil, 1, plays(c.version))
			r.service("web", c.first)
			svc := r.synced("web", "")
			r.cloud.ResetCalls()
			r.annotations("web", c.then)
			if c.want == "" {
				r.synced("web", svc.Labels[labelHash])
			} else {
				r.saw("web", failed+"Error syncing load balancer ["+svc.Labels[labelID]+"]: "+c.want)
			}
			var got []string
			for _, a := range r.actions() {
				if strings.HasPrefix(a, "Modify") {
					got = append(got, a)
				}
			}
			if want := strings.Fields(c.call); !slices.Equal(got, want) {
				t.Fatalf("called %v, want %v", got, want)
			}
			for k, v := range c.params {
				if got := r.called(c.call)[0][k]; got != v {
					t.Errorf("%s is %q, want %q", k, got, v)
				}
			}
		})
	}
}

func TestProtocols(t *testing.T) {
	t.Run("TCP and UDP on one port", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, nil, 1)
		r.service("web", nil, func(s *corev1.Service) {
			s.Spec.Ports[0].Name = "tcp"
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "udp", Port: 80, Protocol: corev1.ProtocolUDP})
		})
		if n := len(r.lb(r.synced("web", "").Labels[labelID]).Listeners); n != 2 {
			t.Errorf("%d listeners", n)
		}
	})
	t.Run("SCTP", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, nil, 1)
		svc := r.service("web", nil, func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolSCTP })
		r.until("a failure", func() bool { return hasReason(r, "SyncLoadBalancerFailed") })
		r.saw("web", failed+"Error syncing load balancer ["+r.byName(ownName(svc)).ID+"]: apply model error: create listener error: sctp protocol is not supported")
	})
	t.Run("reused, IPv6, deleted", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, &sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", IPVersion: "ipv6"}}}, 1)
		r.service("web", map[string]string{"id": "lb-1", "ip-version": "ipv6"})
		r.synced("web", "")
		r.delete("web")
		r.until("a failure", func() bool { return hasReason(r, "CleanLoadBalancerFailed") })
		r.saw("web", "Warning CleanLoadBalancerFailed Error deleting load balancer [lb-1]: apply model error: update lb attribute error: "+
			"alicloud: can not change LoadBalancer AddressIPVersion once created")
		r.annotations("web", map[string]string{"id": ""})
		r.gone("web")
	})
	t.Run("own, a group without a port, deleted", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, nil, 1)
		svc := r.service("web", nil)
		r.synced("web", "")
		r.annotations("web", map[string]string{"vgroup-port": "rsp-1:80,"})
		r.delete("web")
		r.until("a failure", func() bool { return hasReason(r, "CleanLoadBalancerFailed") })
		r.saw("web", "Warning CleanLoadBalancerFailed Error deleting load balancer ["+r.byName(ownName(svc)).ID+"]: apply model error: "+
			"get lb backend from remote error: DescribeVServerGroups error: vgroupid and protocol format must be like 'vsp-xxx:443' with colon separated. got=[[]]")
		r.annotations("web", map[string]string{"vgroup-port": ""})
		r.gone("web")
	})
}
