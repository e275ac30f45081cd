package slb_test

import (
	"testing"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/slb"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/simtest"
)

func TestDomainExtensions(t *testing.T) {
	c := sim.New(t, &sim.World{
		Certificates: []sim.Certificate{{ID: "cert-a", Domain: "a.example", Expires: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}, {ID: "cert-b"}},
		LoadBalancers: []sim.LoadBalancer{{ID: "lb-a", Listeners: []sim.Listener{{Port: 443, Protocol: "https",
			Config: map[string]string{"ServerCertificateId": "cert-a"}}}}},
	})
	client := simtest.Dial(t, c, c.Admin(), slb.NewClientWithOptions)
	make := func(domain string) (*slb.CreateDomainExtensionResponse, error) {
		r := slb.CreateCreateDomainExtensionRequest()
		r.LoadBalancerId, r.ListenerPort, r.Domain, r.ServerCertificateId = "lb-a", requests.NewInteger(443), domain, "cert-a"
		return client.CreateDomainExtension(r)
	}
	made, err := make("b.example")
	simtest.Check(t, err)
	_, err = make("b.example")
	simtest.Refused(t, err, "DomainExtensionAlreadyExist", 400)
	set := slb.CreateSetDomainExtensionAttributeRequest()
	set.DomainExtensionId, set.ServerCertificateId = made.DomainExtensionId, "cert-b"
	_, err = client.SetDomainExtensionAttribute(set)
	simtest.Check(t, err)
	list := slb.CreateDescribeDomainExtensionsRequest()
	list.LoadBalancerId, list.ListenerPort = "lb-a", requests.NewInteger(443)
	all, err := client.DescribeDomainExtensions(list)
	simtest.Check(t, err)
	if d := all.DomainExtensions.DomainExtension; len(d) != 1 || d[0].Domain != "b.example" || d[0].ServerCertificateId != "cert-b" {
		t.Errorf("got %+v", d)
	}
	del := slb.CreateDeleteDomainExtensionRequest()
	del.DomainExtensionId = made.DomainExtensionId
	_, err = client.DeleteDomainExtension(del)
	simtest.Check(t, err)
	_, err = client.DeleteDomainExtension(del)
	simtest.Refused(t, err, "InvalidDomainExtensionId.NotFound", 400)
	certificates := slb.CreateDescribeServerCertificatesRequest()
	certificates.ServerCertificateId = "cert-a"
	got, err := client.DescribeServerCertificates(certificates)
	simtest.Check(t, err)
	if l := got.ServerCertificates.ServerCertificate; len(l) != 1 || l[0].CommonName != "a.example" || l[0].ExpireTimeStamp != 1893456000000 {
		t.Errorf("got %+v", l)
	}
}

func TestListenerKinds(t *testing.T) {
	c := sim.New(t, &sim.World{LoadBalancers: []sim.LoadBalancer{{
		ID: "lb-a", VGroups: []sim.VGroup{{ID: "rsp-a", Backends: []sim.Backend{{Server: "i-a", Port: 80}}}},
		Listeners: []sim.Listener{
			{Port: 80, Protocol: "http", VGroup: "rsp-a", Rules: []sim.Rule{{Name: "r", Domain: "a.example", VGroup: "rsp-a"}}},
			{Port: 53, Protocol: "udp"}, {Port: 53, Protocol: "tcp"}, {Port: 443, Protocol: "https", Config: map[string]string{"ServerCertificateId": "cert-a"}},
		},
	}}})
	client := simtest.Dial(t, c, c.Admin(), slb.NewClientWithOptions)
	port := requests.NewInteger

	tcp := slb.CreateSetLoadBalancerTCPListenerAttributeRequest()
	tcp.LoadBalancerId, tcp.ListenerPort, tcp.Scheduler, tcp.EstablishedTimeout = "lb-a", port(53), "rr", requests.NewInteger(100)
	_, err := client.SetLoadBalancerTCPListenerAttribute(tcp)
	simtest.Check(t, err)
	d := slb.CreateDescribeLoadBalancerTCPListenerAttributeRequest()
	d.LoadBalancerId, d.ListenerPort = "lb-a", port(53)
	if got, err := client.DescribeLoadBalancerTCPListenerAttribute(d); err != nil || got.Scheduler != "rr" || got.EstablishedTimeout != 100 {
		t.Errorf("got %+v, %v", got, err)
	}
	udp := slb.CreateSetLoadBalancerUDPListenerAttributeRequest()
	udp.LoadBalancerId, udp.ListenerPort, udp.Description = "lb-a", port(53), "dns"
	_, err = client.SetLoadBalancerUDPListenerAttribute(udp)
	simtest.Check(t, err)
	u := slb.CreateDescribeLoadBalancerUDPListenerAttributeRequest()
	u.LoadBalancerId, u.ListenerPort = "lb-a", port(53)
	if got, err := client.DescribeLoadBalancerUDPListenerAttribute(u); err != nil || got.Description != "dns" {
		t.Errorf("got %+v, %v", got, err)
	}
	http := slb.CreateSetLoadBalancerHTTPListenerAttributeRequest()
	http.LoadBalancerId, http.ListenerPort, http.IdleTimeout = "lb-a", port(80), requests.NewInteger(30)
	_, err = client.SetLoadBalancerHTTPListenerAttribute(http)
	simtest.Check(t, err)
	https := slb.CreateSetLoadBalancerHTTPSListenerAttributeRequest()
	https.LoadBalancerId, https.ListenerPort, https.VServerGroupId = "lb-a", port(443), "rsp-x"
	_, err = client.SetLoadBalancerHTTPSListenerAttribute(https)
	simtest.Refused(t, err, "InvalidParameter", 400)
	http.ListenerPort = port(81)
	_, err = client.SetLoadBalancerHTTPListenerAttribute(http)
	simtest.Refused(t, err, "InvalidParameter", 400)

	// Two listeners share the port, so the protocol is required.
	stop := slb.CreateStopLoadBalancerListenerRequest()
	stop.LoadBalancerId, stop.ListenerPort = "lb-a", port(53)
	_, err = client.StopLoadBalancerListener(stop)
	simtest.Refused(t, err, "MissingParameter.ListenerProtocol", 400)
	stop.ListenerProtocol = "udp"
	_, err = client.StopLoadBalancerListener(stop)
	simtest.Check(t, err)
	if got, err := client.DescribeLoadBalancerUDPListenerAttribute(u); err != nil || got.Status != "stopped" {
		t.Errorf("got %+v, %v", got, err)
	}
	rules := slb.CreateDescribeRulesRequest()
	rules.LoadBalancerId, rules.ListenerPort = "lb-a", port(80)
	if got, err := client.DescribeRules(rules); err != nil || len(got.Rules.Rule) != 1 || got.Rules.Rule[0].VServerGroupId != "rsp-a" {
		t.Errorf("got %+v, %v", got, err)
	}
	l := slb.CreateDescribeLoadBalancersRequest()
	l.ServerId = "i-a"
	if got, err := client.DescribeLoadBalancers(l); err != nil || got.TotalCount != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	l.ServerId = "i-b"
	if got, err := client.DescribeLoadBalancers(l); err != nil || got.TotalCount != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
	status := slb.CreateSetLoadBalancerStatusRequest()
	status.LoadBalancerId, status.LoadBalancerStatus = "lb-a", "inactive"
	_, err = client.SetLoadBalancerStatus(status)
	simtest.Check(t, err)
	if got, err := simtest.Attribute(client, "lb-a"); err != nil || got.LoadBalancerStatus != "inactive" {
		t.Errorf("got %+v, %v", got, err)
	}
	tags := slb.CreateAddTagsRequest()
	tags.LoadBalancerId, tags.Tags = "lb-a", `[{"TagKey":"a","TagValue":"1"},{"TagKey":"b","TagValue":"2"},{"TagKey":"c","TagValue":"3"},{"TagKey":"d",`+
		`"TagValue":"4"},{"TagKey":"e","TagValue":"5"},{"TagKey":"f","TagValue":"6"}]`
	_, err = client.AddTags(tags)
	simtest.Refused(t, err, "QuotaExceeded.Tag", 400)
	tags.Tags = `[{"TagKey":"aliyun","TagValue":"1"}]`
	_, err = client.AddTags(tags)
	simtest.Refused(t, err, "InvalidParameter.TagKey", 400)
}
