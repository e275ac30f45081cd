package nlb_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	openapi "github.com/alibabacloud-go/darabonba-openapi/v2/client"
	nlb "github.com/alibabacloud-go/nlb-20220430/v4/client"
	"github.com/alibabacloud-go/tea/tea"
	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/simtest"
)

// nlbNeeded are the NLB actions that a real controller v2.14.0 calls.
var nlbNeeded = strings.Fields(`
	AddServersToServerGroup AssociateAdditionalCertificatesWithListener AttachCommonBandwidthPackageToLoadBalancer
	CreateListener CreateLoadBalancer CreateServerGroup DeleteListener DeleteLoadBalancer DeleteServerGroup
	DetachCommonBandwidthPackageFromLoadBalancer DisableLoadBalancerIpv6Internet DisassociateAdditionalCertificatesWithListener
	EnableLoadBalancerIpv6Internet GetJobStatus GetLoadBalancerAttribute ListAsynJobs ListListenerCertificates ListListeners
	ListLoadBalancers ListServerGroupServers ListServerGroups ListTagResources LoadBalancerJoinSecurityGroup
	LoadBalancerLeaveSecurityGroup RemoveServersFromServerGroup StartListener TagResources UntagResources UpdateListenerAttribute
	UpdateLoadBalancerAddressTypeConfig UpdateLoadBalancerAttribute UpdateLoadBalancerProtection UpdateLoadBalancerZones
	UpdateServerGroupAttribute UpdateServerGroupServersAttribute`)

// controllersNLB returns the real controller's NLB client, configured for the simulated cloud as its environment does.
func controllersNLB(t testing.TB, c *sim.Cloud, k sim.Credentials) *nlb.Client {
	t.Helper()
	config := &openapi.Config{
		AccessKeyId: &k.AccessKeyID, AccessKeySecret: &k.Secret, RegionId: new("cn-hangzhou"), Endpoint: new(c.Addr()), Protocol: new("HTTP"),
	}
	if k.Token != "" {
		config.SecurityToken = &k.Token
	}
	client, err := nlb.NewClient(config)
	simtest.Check(t, err)
	return client
}

type body[T any] interface{ GetBody() *T }

func ask[Q any, B any, A body[B]](t *testing.T, do func(Q) (A, error), q Q) *B {
	t.Helper()
	a, err := do(q)
	simtest.Check(t, err)
	return a.GetBody()
}

func pointers[T any](all ...T) []*T {
	var list []*T
	for _, v := range all {
		list = append(list, &v)
	}
	return list
}

func TestControllersNLBClient(t *testing.T) {
	w := simtest.NLBWorld()
	w.SecurityGroups = append(w.SecurityGroups, sim.SecurityGroup{ID: "sg-b"})
	w.VSwitches[0].IPv6, w.VSwitches[1].IPv6 = "2001:db8:a::/64", "2001:db8:b::/64"
	c := sim.New(t, w)
	client := controllersNLB(t, c, c.Client("ccm", "*"))

	id := ask(t, client.CreateLoadBalancer, &nlb.CreateLoadBalancerRequest{
		LoadBalancerName: new("web"), AddressType: new("internet"), AddressIpVersion: new("DualStack"), VpcId: new("vpc-1"), ClientToken: new("once"),
		ZoneMappings: []*nlb.CreateLoadBalancerRequestZoneMappings{
			{ZoneId: new("cn-hangzhou-h"), VSwitchId: new("vsw-h"), AllocationId: new("eip-a")}, {ZoneId: new("cn-hangzhou-i"), VSwitchId: new("vsw-i")},
		},
		Tag: []*nlb.CreateLoadBalancerRequestTag{
			{Key: new("kubernetes.do.not.delete"), Value: new("a1")}, {Key: new("ack.aliyun.com"), Value: new("c1")},
		},
		DeletionProtectionConfig:     &nlb.CreateLoadBalancerRequestDeletionProtectionConfig{Enabled: new(true)},
		ModificationProtectionConfig: &nlb.CreateLoadBalancerRequestModificationProtectionConfig{Status: new("ConsoleProtection"), Reason: new("managed.by.ack")},
	}).LoadbalancerId
	found := ask(t, client.ListLoadBalancers, &nlb.ListLoadBalancersRequest{Tag: []*nlb.ListLoadBalancersRequestTag{{Key: new("kubernetes.do.not.delete"),
		Value: new("a1")}}})
	if len(found.LoadBalancers) != 1 || *found.LoadBalancers[0].LoadBalancerId != *id || *found.LoadBalancers[0].Tags[0].Key != "ack.aliyun.com" {
		t.Errorf("found %v", found)
	}
	if named := ask(t, client.ListLoadBalancers, &nlb.ListLoadBalancersRequest{LoadBalancerNames: pointers("web")}); len(named.LoadBalancers) != 1 {
		t.Errorf("named %v", named)
	}
	got := ask(t, client.GetLoadBalancerAttribute, &nlb.GetLoadBalancerAttributeRequest{LoadBalancerId: id})
	zone := got.ZoneMappings[0].LoadBalancerAddresses[0]
	saw := []any{*got.LoadBalancerStatus, *got.AddressType, *got.AddressIpVersion, *got.Ipv6AddressType, *got.DNSName, *zone.AllocationId,
		*zone.PublicIPv4Address, *got.Tags[1].TagKey, *got.Tags[1].TagValue, *got.CrossZoneEnabled}
	want := []any{"Active", "Internet", "DualStack", "Intranet", *id + ".cn-hangzhou.nlb.aliyuncs.com", "eip-a", "198.51.100.200",
		"kubernetes.do.not.delete", "a1", true}
	if diff := cmp.Diff(want, saw); diff != "" {
		t.Error(diff)
	}

	ask(t, client.TagResources, &nlb.TagResourcesRequest{ResourceType: new("loadbalancer"), ResourceId: pointers(*id),
		Tag: []*nlb.TagResourcesRequestTag{{Key: new("team"), Value: new("shop")}}})
	ask(t, client.UntagResources, &nlb.UntagResourcesRequest{ResourceType: new("loadbalancer"), ResourceId: pointers(*id), TagKey: pointers("ack.aliyun.com")})
	tags := map[string]string{}
	for _, r := range ask(t, client.ListTagResources, &nlb.ListTagResourcesRequest{ResourceType: new("loadbalancer"), ResourceId: pointers(*id)}).TagResources {
		tags[*r.TagKey] = *r.TagValue
	}
	if diff := cmp.Diff(map[string]string{"kubernetes.do.not.delete": "a1", "team": "shop"}, tags); diff != "" {
		t.Error(diff)
	}

	ask(t, client.LoadBalancerJoinSecurityGroup, &nlb.LoadBalancerJoinSecurityGroupRequest{LoadBalancerId: id, SecurityGroupIds: pointers("sg-a", "sg-b")})
	ask(t, client.LoadBalancerLeaveSecurityGroup, &nlb.LoadBalancerLeaveSecurityGroupRequest{LoadBalancerId: id, SecurityGroupIds: pointers("sg-a")})
	ask(t, client.EnableLoadBalancerIpv6Internet, &nlb.EnableLoadBalancerIpv6InternetRequest{LoadBalancerId: id})
	ask(t, client.DisableLoadBalancerIpv6Internet, &nlb.DisableLoadBalancerIpv6InternetRequest{LoadBalancerId: id})
	ask(t, client.EnableLoadBalancerIpv6Internet, &nlb.EnableLoadBalancerIpv6InternetRequest{LoadBalancerId: id})
	ask(t, client.AttachCommonBandwidthPackageToLoadBalancer, &nlb.AttachCommonBandwidthPackageToLoadBalancerRequest{LoadBalancerId: id,
		BandwidthPackageId: new("cbwp-1")})
	ask(t, client.DetachCommonBandwidthPackageFromLoadBalancer, &nlb.DetachCommonBandwidthPackageFromLoadBalancerRequest{LoadBalancerId: id,
		BandwidthPackageId: new("cbwp-1")})
	ask(t, client.UpdateLoadBalancerAttribute, &nlb.UpdateLoadBalancerAttributeRequest{LoadBalancerId: id, LoadBalancerName: new("shop"),
		CrossZoneEnabled: new(false)})
	ask(t, client.UpdateLoadBalancerAddressTypeConfig, &nlb.UpdateLoadBalancerAddressTypeConfigRequest{LoadBalancerId: id, AddressType: new("Intranet")})
	ask(t, client.UpdateLoadBalancerZones, &nlb.UpdateLoadBalancerZonesRequest{LoadBalancerId: id,
		ZoneMappings: []*nlb.UpdateLoadBalancerZonesRequestZoneMappings{{ZoneId: new("cn-hangzhou-h"), VSwitchId: new("vsw-h")}}})
	ask(t, client.UpdateLoadBalancerProtection, &nlb.UpdateLoadBalancerProtectionRequest{LoadBalancerId: id, DeletionProtectionEnabled: new(false)})
	n := c.Snapshot().NLBs[0]
	saw = []any{n.Name, n.NoCrossZone, n.AddressType, n.IPv6AddressType, n.SecurityGroups, n.BandwidthPackage, len(n.Zones), n.DeletionProtection,
		n.ModificationProtection.Status}
	if diff := cmp.Diff([]any{"shop", true, "Intranet", "Internet", []string{"sg-b"}, "", 1, false, "ConsoleProtection"}, saw); diff != "" {
		t.Error(diff)
	}

	group := ask(t, client.CreateServerGroup, &nlb.CreateServerGroupRequest{
		ServerGroupName: new("k8s.80.TCP.web.shop.c1"), VpcId: new("vpc-1"), Protocol: new("TCP"), Scheduler: new("Wrr"), AnyPortEnabled: new(true),
		ConnectionDrainEnabled: new(true), ConnectionDrainTimeout: new(int32(30)), PreserveClientIpEnabled: new(false),
		Tag: []*nlb.CreateServerGroupRequestTag{{Key: new("kubernetes.do.not.delete"), Value: new("a1")}},
		HealthCheckConfig: &nlb.CreateServerGroupRequestHealthCheckConfig{
			HealthCheckEnabled: new(true), HealthCheckType: new("HTTP"), HealthCheckConnectPort: new(int32(8081)), HealthCheckHttpCode: pointers("http_2xx", "http_3xx"),
		},
	}).ServerGroupId
	ask(t, client.UpdateServerGroupAttribute, &nlb.UpdateServerGroupAttributeRequest{
		ServerGroupId: group, Scheduler: new("Rr"), HealthCheckConfig: &nlb.UpdateServerGroupAttributeRequestHealthCheckConfig{HealthyThreshold: new(int32(4))},
	})
	ask(t, client.AddServersToServerGroup, &nlb.AddServersToServerGroupRequest{ServerGroupId: group, Servers: []*nlb.AddServersToServerGroupRequestServers{
		{ServerId: new("i-a"), ServerType: new("Ecs"), Port: new(int32(0)), Weight: new(int32(100)), Description: new("k8s.80.TCP.web.shop.c1")},
		{ServerId: new("i-b"), ServerType: new("Ecs"), Port: new(int32(30080)), Weight: new(int32(100))},
	}})
	ask(t, client.UpdateServerGroupServersAttribute, &nlb.UpdateServerGroupServersAttributeRequest{ServerGroupId: group,
		Servers: []*nlb.UpdateServerGroupServersAttributeRequestServers{
			{ServerId: new("i-a"), ServerType: new("Ecs"), Port: new(int32(0)), Weight: new(int32(7))},
		}})
	ask(t, client.RemoveServersFromServerGroup, &nlb.RemoveServersFromServerGroupRequest{ServerGroupId: group,
		Servers: []*nlb.RemoveServersFromServerGroupRequestServers{
			{ServerId: new("i-b"), ServerType: new("Ecs"), Port: new(int32(30080))},
		}})
	groups := ask(t, client.ListServerGroups, &nlb.ListServerGroupsRequest{Tag: []*nlb.ListServerGroupsRequestTag{{Key: new("kubernetes.do.not.delete"),
		Value: new("a1")}}, MaxResults: new(int32(100)), NextToken: new("")}).ServerGroups
	servers := ask(t, client.ListServerGroupServers, &nlb.ListServerGroupServersRequest{ServerGroupId: group}).Servers
	g, health := groups[0], groups[0].HealthCheck
	saw = []any{*g.Scheduler, *g.AnyPortEnabled, *g.ConnectionDrainEnabled, *g.ConnectionDrainTimeout, *g.PreserveClientIpEnabled, *health.HealthCheckType,
		*health.HealthCheckConnectPort, *health.HealthyThreshold, len(health.HealthCheckHttpCode), len(servers), *servers[0].ServerId, *servers[0].Weight,
		*servers[0].Description}
	if diff := cmp.Diff([]any{"Rr", true, true, int32(30), false, "HTTP", int32(8081), int32(4), 2, 1, "i-a", int32(7), "k8s.80.TCP.web.shop.c1"},
		saw); diff != "" {
		t.Error(diff)
	}

	listen := ask(t, client.CreateListener, &nlb.CreateListenerRequest{
		LoadBalancerId: id, ServerGroupId: group, ListenerProtocol: new("TCPSSL"), ListenerPort: new(int32(443)),
		ListenerDescription: new("k8s.443.TCPSSL.web.shop.c1"),
		CertificateIds:      pointers("cert-1"), CaCertificateIds: pointers("ca-1"), CaEnabled: new(true), AlpnEnabled: new(true), AlpnPolicy: new("HTTP2Optional"),
		SecurityPolicyId: new("tls_cipher_policy_1_2"), IdleTimeout: new(int32(60)), Cps: new(int32(100)), ProxyProtocolEnabled: new(true),
		ProxyProtocolV2Config: &nlb.CreateListenerRequestProxyProtocolV2Config{Ppv2VpcIdEnabled: new(true)},
	})
	ranged := ask(t, client.CreateListener, &nlb.CreateListenerRequest{
		LoadBalancerId: id, ServerGroupId: group, ListenerProtocol: new("TCP"), ListenerPort: new(int32(0)), StartPort: new(int32(1000)), EndPort: new(int32(2000)),
	})
	ask(t, client.UpdateListenerAttribute, &nlb.UpdateListenerAttributeRequest{
		ListenerId: listen.ListenerId, ProxyProtocolV2Config: &nlb.UpdateListenerAttributeRequestProxyProtocolV2Config{Ppv2PrivateLinkEpIdEnabled: new(true)},
		IdleTimeout: new(int32(30)),
	})
	ask(t, client.AssociateAdditionalCertificatesWithListener, &nlb.AssociateAdditionalCertificatesWithListenerRequest{ListenerId: listen.ListenerId,
		AdditionalCertificateIds: pointers("cert-2", "cert-3")})
	ask(t, client.DisassociateAdditionalCertificatesWithListener, &nlb.DisassociateAdditionalCertificatesWithListenerRequest{ListenerId: listen.ListenerId,
		AdditionalCertificateIds: pointers("cert-2")})
	var certificates []string
	for _, e := range ask(t, client.ListListenerCertificates, &nlb.ListListenerCertificatesRequest{ListenerId: listen.ListenerId, MaxResults: new(int32(50)),
		NextToken: new("")}).Certificates {
		if !*e.IsDefault {
			certificates = append(certificates, *e.CertificateId)
		}
	}
	listeners := ask(t, client.ListListeners, &nlb.ListListenersRequest{LoadBalancerIds: pointers(*id), MaxResults: new(int32(100)), NextToken: new("")}).Listeners
	l, r := listeners[0], listeners[1]
	saw = []any{*l.ListenerPort, l.StartPort == nil, *l.CertificateIds[0], *l.CaCertificateIds[0], *l.CaEnabled, *l.AlpnEnabled, *l.AlpnPolicy,
		*l.SecurityPolicyId, *l.IdleTimeout, *l.Cps,
		*l.ProxyProtocolEnabled, *l.ProxyProtocolV2Config.Ppv2VpcIdEnabled, *l.ProxyProtocolV2Config.Ppv2PrivateLinkEpIdEnabled, certificates, *r.ListenerPort,
		*r.StartPort, *r.EndPort}
	if diff := cmp.Diff([]any{int32(443), true, "cert-1", "ca-1", true, true, "HTTP2Optional", "tls_cipher_policy_1_2", int32(30), int32(100), true, true,
		true, []string{"cert-3"}, int32(0), "1000", "2000"}, saw); diff != "" {
		t.Error(diff)
	}
	c.Edit(func(s *sim.State) { s.NLBs[*id].Listeners[1].Status = "Stopped" })
	ask(t, client.StartListener, &nlb.StartListenerRequest{ListenerId: ranged.ListenerId})
	jobs := ask(t, client.ListAsynJobs, &nlb.ListAsynJobsRequest{JobIds: pointers(*listen.JobId, *ranged.JobId)}).Jobs
	if len(jobs) != 2 || *jobs[0].Status != "Succeeded" || *jobs[0].Id == "" {
		t.Errorf("jobs %v", jobs)
	}
	if s := ask(t, client.GetJobStatus, &nlb.GetJobStatusRequest{JobId: listen.JobId}); *s.Status != "Succeeded" {
		t.Errorf("job %v", s)
	}

	for _, lsn := range listeners {
		ask(t, client.DeleteListener, &nlb.DeleteListenerRequest{ListenerId: lsn.ListenerId})
	}
	ask(t, client.DeleteServerGroup, &nlb.DeleteServerGroupRequest{ServerGroupId: group})
	ask(t, client.DeleteLoadBalancer, &nlb.DeleteLoadBalancerRequest{LoadBalancerId: id})
	if s := c.Snapshot(); len(s.NLBs)+len(s.ServerGroups) > 0 {
		t.Errorf("left %s", simtest.Text(t, s))
	}
	var called []string
	for _, made := range c.CallsOf("ccm") {
		called = append(called, made.Action)
	}
	slices.Sort(called)
	if diff := cmp.Diff(nlbNeeded, slices.Compact(called)); diff != "" {
		t.Errorf("not each action of the controller was called (-), or another one (+):\n%s", diff)
	}
}

func TestControllersNLBRefused(t *testing.T) {
	for _, tt := range []struct {
		name    string
		arrange func(*sim.Cloud, *sim.Credentials)
		call    func(*nlb.Client) error
		status  int
		code    string
		text    string // in the message, before "request id"
		denied  bool   // names the missing permission
	}{
		{name: "not there", status: 404, code: "ResourceNotFound.loadBalancer", text: "code: 404, The specified resource of loadbalancer is not found. ",
			call: func(c *nlb.Client) error {
				_, err := c.GetLoadBalancerAttribute(&nlb.GetLoadBalancerAttributeRequest{LoadBalancerId: new("nlb-nope")})
				return err
			}},
		{name: "nothing said", status: 400, code: "MissingParam.LoadBalancerId", text: "code: 400, The parameter of LoadBalancerId is missing. ",
			call: func(c *nlb.Client) error {
				_, err := c.GetLoadBalancerAttribute(&nlb.GetLoadBalancerAttributeRequest{})
				return err
			}},
		{name: "wrong secret", status: 400, code: "SignatureDoesNotMatch", arrange: func(_ *sim.Cloud, k *sim.Credentials) { k.Secret = "wrong" }},
		{name: "unknown key", status: 404, code: "InvalidAccessKeyId.NotFound", arrange: func(_ *sim.Cloud, k *sim.Credentials) { k.AccessKeyID = "LTAInobody" }},
		{name: "not allowed", status: 403, code: "Forbidden.NoPermission", text: "code: 403, Authentication is failed for NoPermission. ", denied: true,
			arrange: func(c *sim.Cloud, k *sim.Credentials) { *k = c.Client("nobody") }},
		{name: "throttled", status: 400, code: "Throttling.User", text: "code: 400, Request was denied due to api flow control. ",
			arrange: func(c *sim.Cloud, _ *sim.Credentials) {
				c.Fault(sim.Fault{Action: "ListLoadBalancers", Code: "Throttling.User"})
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := sim.New(t, simtest.NLBWorld())
			k := c.Client("ccm", "*")
			if tt.arrange != nil {
				tt.arrange(c, &k)
			}
			if tt.call == nil {
				tt.call = func(c *nlb.Client) error {
					_, err := c.ListLoadBalancers(&nlb.ListLoadBalancersRequest{})
					return err
				}
			}
			var refused *tea.SDKError
			if err := tt.call(controllersNLB(t, c, k)); !errors.As(err, &refused) {
				t.Fatalf("got %v", err)
			}
			said, id, _ := strings.Cut(*refused.Message, "request id:")
			if *refused.StatusCode != tt.status || *refused.Code != tt.code || tt.text != "" && said != tt.text || len(strings.TrimSpace(id)) < 36 ||
				(len(refused.AccessDeniedDetail) > 0) != tt.denied {
				t.Errorf("got %v", refused)
			}
		})
	}
}
