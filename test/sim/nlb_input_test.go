package sim_test

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/test/sim"
)

// nlbNeeds are the required parameters of NLB requests; the first part of each name is in the error.
var nlbNeeds = map[string][]string{
	"GetLoadBalancerAttribute":                       {"LoadBalancerId"},
	"CreateLoadBalancer":                             {"AddressType", "VpcId", "ZoneMappings.1.ZoneId"},
	"DeleteLoadBalancer":                             {"LoadBalancerId"},
	"UpdateLoadBalancerAttribute":                    {"LoadBalancerId"},
	"UpdateLoadBalancerZones":                        {"LoadBalancerId", "ZoneMappings.1.ZoneId"},
	"UpdateLoadBalancerAddressTypeConfig":            {"LoadBalancerId", "AddressType"},
	"UpdateLoadBalancerProtection":                   {"LoadBalancerId"},
	"EnableLoadBalancerIpv6Internet":                 {"LoadBalancerId"},
	"DisableLoadBalancerIpv6Internet":                {"LoadBalancerId"},
	"LoadBalancerJoinSecurityGroup":                  {"LoadBalancerId", "SecurityGroupIds.1"},
	"LoadBalancerLeaveSecurityGroup":                 {"LoadBalancerId", "SecurityGroupIds.1"},
	"AttachCommonBandwidthPackageToLoadBalancer":     {"LoadBalancerId", "BandwidthPackageId"},
	"DetachCommonBandwidthPackageFromLoadBalancer":   {"LoadBalancerId", "BandwidthPackageId"},
	"ListTagResources":                               {"ResourceType"},
	"TagResources":                                   {"ResourceType", "ResourceId.1", "Tag.1.Key"},
	"UntagResources":                                 {"ResourceType", "ResourceId.1"},
	"CreateServerGroup":                              {"ServerGroupName", "VpcId"},
	"UpdateServerGroupAttribute":                     {"ServerGroupId"},
	"DeleteServerGroup":                              {"ServerGroupId"},
	"AddServersToServerGroup":                        {"ServerGroupId", "Servers.1.ServerId"},
	"RemoveServersFromServerGroup":                   {"ServerGroupId", "Servers.1.ServerId"},
	"UpdateServerGroupServersAttribute":              {"ServerGroupId", "Servers.1.ServerId"},
	"GetListenerAttribute":                           {"ListenerId"},
	"CreateListener":                                 {"ListenerProtocol", "ListenerPort", "LoadBalancerId", "ServerGroupId"},
	"UpdateListenerAttribute":                        {"ListenerId"},
	"StartListener":                                  {"ListenerId"},
	"StopListener":                                   {"ListenerId"},
	"DeleteListener":                                 {"ListenerId"},
	"ListListenerCertificates":                       {"ListenerId"},
	"AssociateAdditionalCertificatesWithListener":    {"ListenerId", "AdditionalCertificateIds.1"},
	"DisassociateAdditionalCertificatesWithListener": {"ListenerId", "AdditionalCertificateIds.1"},
	"GetJobStatus":                                   {"JobId"},
	"ListAsynJobs":                                   {"JobIds.1"},
}

type nlbCaller struct {
	*testing.T
	cloud *sim.Cloud
	key   sim.Credentials
}

func newNLBCaller(t *testing.T, w *sim.World) nlbCaller {
	c := sim.New(t, w)
	return nlbCaller{t, c, c.Admin()}
}

func (c nlbCaller) call(action string, form url.Values) (int, map[string]any) {
	c.Helper()
	return acs3{cloud: c.cloud, key: c.key, action: action, version: "2022-04-30", form: form}.send(c.T)
}

func form(said ...string) url.Values {
	v := url.Values{}
	for i := 0; i < len(said); i += 2 {
		v.Set(said[i], said[i+1])
	}
	return v
}

func TestNLBMissing(t *testing.T) {
	c := newNLBCaller(t, everything())
	before := c.cloud.Snapshot()
	for _, action := range slices.Sorted(maps.Keys(nlbNeeds)) {
		for _, lacks := range nlbNeeds[action] {
			f := url.Values{}
			for _, n := range nlbNeeds[action] {
				if n != lacks {
					f.Set(n, "x")
				}
			}
			name, _, _ := strings.Cut(lacks, ".")
			status, out := c.call(action, f)
			if status != 400 || out["Code"] != "MissingParam."+name || out["Message"] != "The parameter of "+name+" is missing." {
				t.Errorf("%s without %s: got %d %v", action, lacks, status, out)
			}
		}
	}
	if diff := cmp.Diff(before, c.cloud.Snapshot()); diff != "" {
		t.Error("a request that was refused changed something", diff)
	}
}

func TestNLBWrong(t *testing.T) {
	w := everything()
	w.NLBs[0].SecurityGroups = []string{"sg-1", "sg-2", "sg-3", "sg-4"}
	for _, id := range w.NLBs[0].SecurityGroups {
		w.SecurityGroups = append(w.SecurityGroups, sim.SecurityGroup{ID: id})
	}
	w.Quotas = append(w.Quotas, sim.Quota{Product: "nlb", Name: "nlb_quota_loadbalancer_certificates_num", Total: 1})
	c := newNLBCaller(t, w)
	before := c.cloud.Snapshot()
	listener := func(said ...string) url.Values {
		f := form("LoadBalancerId", "nlb-a", "ListenerProtocol", "TCP", "ListenerPort", "81", "ServerGroupId", "sgp-b")
		maps.Copy(f, form(said...))
		return f
	}
	group := func(said ...string) url.Values {
		f := form("ServerGroupName", "g", "VpcId", "vpc-1")
		maps.Copy(f, form(said...))
		return f
	}
	server := func(said ...string) url.Values {
		f := form("ServerGroupId", "sgp-a", "Servers.1.ServerId", "i-a", "Servers.1.ServerType", "Ecs", "Servers.1.Port", "81")
		maps.Copy(f, form(said...))
		return f
	}
	for _, tt := range []struct {
		name, action string
		form         url.Values
		code         string
	}{
		{"port that is not a number", "CreateListener", listener("ListenerPort", "x"), "IllegalParam.Port"},
		{"range without an end", "CreateListener", listener("ListenerPort", "0", "StartPort", "1000"), "IllegalParam.Port"},
		{"range backwards", "CreateListener", listener("ListenerPort", "0", "StartPort", "2000", "EndPort", "1000"), "IllegalParam.Port"},
		{"range beyond all ports", "CreateListener", listener("ListenerPort", "0", "StartPort", "1000", "EndPort", "70000"), "IllegalParam.Port"},
		{"range over a port", "CreateListener", listener("ListenerPort", "0", "StartPort", "70", "EndPort", "90"), "Conflict.Port"},
		{"timeout that is not a number", "CreateListener", listener("IdleTimeout", "x"), "IllegalParam.IdleTimeout"},
		{"too many connections", "CreateListener", listener("Cps", "1000001"), "IllegalParam.Cps"},
		{"switch", "CreateListener", listener("ProxyProtocolEnabled", "on"), "IllegalParam.ProxyProtocolEnabled"},
		{"switch of the proxy protocol", "UpdateListenerAttribute", form("ListenerId", "lsn-a", "ProxyProtocolV2Config", "{"), "IllegalParam.ProxyProtocolV2Config"},
		{"ALPN without a policy", "UpdateListenerAttribute", form("ListenerId", "lsn-s", "AlpnEnabled", "true"), "IllegalParam.AlpnPolicy"},
		{"ALPN with an unknown policy", "UpdateListenerAttribute", form("ListenerId", "lsn-s", "AlpnEnabled", "true", "AlpnPolicy", "HTTP3"),
			"IllegalParam.AlpnPolicy"},
		{"too many certificates", "AssociateAdditionalCertificatesWithListener", form("ListenerId", "lsn-s", "AdditionalCertificateIds.1", "cert-b"),
			"QuotaExceeded.QuotaInsufficient"},
		{"drain that is not a number", "CreateServerGroup", group("ConnectionDrainTimeout", "x"), "IllegalParam.ConnectionDrainTimeout"},
		{"drain that is no switch", "CreateServerGroup", group("ConnectionDrainEnabled", "on"), "IllegalParam.ConnectionDrainEnabled"},
		{"threshold", "CreateServerGroup", group("HealthCheckConfig.HealthyThreshold", "1"), "IllegalParam.HealthCheckConfig.HealthyThreshold"},
		{"check", "CreateServerGroup", group("HealthCheckConfig.HealthCheckType", "ICMP"), "IllegalParam.HealthCheckConfig.HealthCheckType"},
		{"weight that is not a number", "AddServersToServerGroup", server("Servers.1.Weight", "x"), "IllegalParam.Weight"},
		{"address that is none", "AddServersToServerGroup", server("Servers.1.ServerIp", "x"), "IllegalParam.IP"},
		{"IPv6 address", "AddServersToServerGroup", server("Servers.1.ServerIp", "2001:db8::1"), "OperationDenied.ServerGroupNotSupportIpv6"},
		{"fifth security group", "LoadBalancerJoinSecurityGroup", form("LoadBalancerId", "nlb-a", "SecurityGroupIds.1", "sg-a"), "QuotaExceeded.QuotaInsufficient"},
		{"page that is not a number", "ListLoadBalancers", form("MaxResults", "x"), "IllegalParam.MaxResults"},
		{"page that is too big", "ListLoadBalancers", form("MaxResults", "101"), "IllegalParam.MaxResults"},
		{"unknown kind of tagged things", "ListTagResources", form("ResourceType", "instance"), "IllegalParam.ResourceType"},
		{"protection that is no switch", "UpdateLoadBalancerProtection", form("LoadBalancerId", "nlb-a", "DeletionProtectionEnabled", "on"),
			"IllegalParam.DeletionProtectionEnabled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, out := nlbCaller{t, c.cloud, c.key}.call(tt.action, tt.form)
			if status != 400 || out["Code"] != tt.code || out["Message"] == "" || out["RequestId"] == nil {
				t.Errorf("got %d %v", status, out)
			}
		})
	}
	if diff := cmp.Diff(before, c.cloud.Snapshot()); diff != "" {
		t.Error("a request that was refused changed something", diff)
	}
}

func TestNLBAnswers(t *testing.T) {
	w := everything()
	w.NLBs[0].Zones[0].EIP = "eip-a"
	w.EIPs = append(w.EIPs, sim.EIP{ID: "eip-c", IP: "198.51.100.202"})
	c := newNLBCaller(t, w)
	ask := func(action string, said ...string) map[string]any {
		t.Helper()
		status, out := c.call(action, form(said...))
		if status != 200 {
			t.Fatalf("%s: got %d %v", action, status, out)
		}
		return out
	}
	made := ask("CreateListener", "LoadBalancerId", "nlb-a", "ListenerProtocol", "TCP", "ListenerPort", "0", "StartPort", "1000", "EndPort", "2000",
		"ServerGroupId", "sgp-b",
		"ProxyProtocolEnabled", "true", "ProxyProtocolV2Config.Ppv2VpcIdEnabled", "true", "Tag.1.Key", "k", "Tag.1.Value", "v")
	ask("UpdateListenerAttribute", "ListenerId", made["ListenerId"].(string), "ProxyProtocolV2Config", `{"Ppv2PrivateLinkEpIdEnabled":true}`)
	l := ask("GetListenerAttribute", "ListenerId", made["ListenerId"].(string))
	got := map[string]any{}
	for _, k := range []string{"ListenerPort", "StartPort", "EndPort", "ProxyProtocolEnabled", "ProxyProtocolV2Config", "Tags"} {
		got[k] = l[k]
	}
	want := map[string]any{
		"ListenerPort": 0.0, "StartPort": "1000", "EndPort": "2000", "ProxyProtocolEnabled": true,
		"ProxyProtocolV2Config": map[string]any{"Ppv2VpcIdEnabled": true, "Ppv2PrivateLinkEpIdEnabled": true},
		"Tags":                  []any{map[string]any{"TagKey": "k", "TagValue": "v"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if one := ask("GetListenerAttribute", "ListenerId", "lsn-a"); one["StartPort"] != nil || one["EndPort"] != nil {
		t.Errorf("a listener of one port has the range %v to %v", one["StartPort"], one["EndPort"])
	}
	tags := ask("ListLoadBalancers", "LoadBalancerIds.1", "nlb-a")["LoadBalancers"].([]any)[0].(map[string]any)["Tags"]
	if diff := cmp.Diff([]any{map[string]any{"Key": "k", "Value": "v"}}, tags); diff != "" {
		t.Error("tags in a list", diff)
	}
	ask("UpdateLoadBalancerZones", "LoadBalancerId", "nlb-a", "ZoneMappings.1.ZoneId", "cn-hangzhou-h", "ZoneMappings.1.VSwitchId", "vsw-h",
		"ZoneMappings.1.AllocationId", "eip-c",
		"ZoneMappings.2.ZoneId", "cn-hangzhou-i", "ZoneMappings.2.VSwitchId", "vsw-i")
	held := map[string]string{}
	for _, e := range c.cloud.Snapshot().EIPs {
		if e.ID == "eip-a" || e.ID == "eip-c" {
			held[e.ID] = e.Instance
		}
	}
	if diff := cmp.Diff(map[string]string{"eip-a": "", "eip-c": "nlb-a"}, held); diff != "" {
		t.Error("EIPs", diff)
	}
}
