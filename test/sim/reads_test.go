package sim_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/responses"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/ecs"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/slb"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/vpc"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/simtest"
)

// Fields that the controller reads (pkg/provider/alibaba/{slb,vpc,ecs} of its public source) and the cloud always sets.
const (
	balancerFields = `LoadBalancerId LoadBalancerName Address AddressType AddressIPVersion NetworkType VpcId VSwitchId Bandwidth MasterZoneId SlaveZoneId
		DeleteProtection LoadBalancerSpec ModificationProtectionStatus ResourceGroupId InstanceChargeType InternetChargeType Tags.Tag[].TagKey Tags.Tag[].TagValue`
	listenerFields = `Description ListenerPort ListenerProtocol Status Bandwidth Scheduler VServerGroupId AclId AclStatus AclType`
	checkFields    = `HealthyThreshold UnhealthyThreshold HealthCheckConnectTimeout HealthCheckInterval HealthCheckSwitch ConnectionDrain ProxyProtocolV2Enabled`
	webFields      = `StickySession HealthCheck RequestTimeout IdleTimeout XForwardedFor_proto XForwardedFor_SLBPORT XForwardedFor_ClientSrcPort HealthyThreshold
		UnhealthyThreshold HealthCheckTimeout HealthCheckInterval HealthCheckHttpCode HealthCheckMethod`
)

func below(path, fields string) string {
	var all []string
	for f := range strings.FieldsSeq(fields) {
		all = append(all, path+"."+f)
	}
	return strings.Join(all, " ")
}

func absent(v any, path string) bool {
	for i, part := range strings.Split(path, ".") {
		name, list := strings.CutSuffix(part, "[]")
		m, ok := v.(map[string]any)
		if !ok {
			return true
		}
		if v, ok = m[name]; !ok {
			return true
		}
		if !list {
			continue
		}
		elements, ok := v.([]any)
		rest := strings.Join(strings.Split(path, ".")[i+1:], ".")
		for _, e := range elements {
			if rest != "" && absent(e, rest) {
				return true
			}
		}
		return !ok || len(elements) == 0
	}
	return false
}

func TestAnswersWhatTheControllerReads(t *testing.T) {
	web := map[string]string{"HealthCheck": "off", "StickySession": "off", "ServerCertificateId": "cert-a"}
	c := sim.New(t, &sim.World{
		VPCs:         []sim.VPC{{ID: "vpc-1", CIDR: "10.0.0.0/8", SecondaryCIDRs: []string{"192.168.0.0/16"}}},
		VSwitches:    []sim.VSwitch{{ID: "vsw-1", IPv6: "2001:db8:1::/64"}},
		Certificates: []sim.Certificate{{ID: "cert-a", Domain: "a.example", Expires: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}},
		LoadBalancers: []sim.LoadBalancer{
			{ID: "lb-a", VSwitch: "vsw-1", Tags: map[string]string{"k": "v"},
				VGroups: []sim.VGroup{{ID: "rsp-a", Name: "g", Backends: []sim.Backend{{Server: "i-a", Port: 80}}}},
				Listeners: []sim.Listener{
					{Port: 1, Protocol: "tcp", VGroup: "rsp-a"}, {Port: 2, Protocol: "udp"}, {Port: 3, Protocol: "http", Config: web},
					{Port: 4, Protocol: "https", Config: web, Domains: []sim.Domain{{ID: "de-a", Name: "b.example", Certificate: "cert-a"}}},
				}},
			{ID: "lb-b", Tags: map[string]string{"k": ""}},
		},
		ENIs:      []sim.ENI{{ID: "eni-a", IPs: []string{"10.0.0.7", "2001:db8:1::7"}, VPC: "vpc-1"}},
		EIPs:      []sim.EIP{{ID: "eip-a", IP: "203.0.113.9", Instance: "lb-a", InstanceType: "SlbInstance"}},
		Instances: []sim.Instance{{ID: "i-a", IP: "10.0.0.2"}},
		SecurityGroups: []sim.SecurityGroup{{ID: "sg-a", Name: "g", VPC: "vpc-1", Tags: map[string]string{"k": "v"},
			Rules: []sim.SecurityRule{{Source: "10.0.0.0/8"}}}},
	})
	b, n, e := simtest.Dial(t, c, c.Admin(), slb.NewClientWithOptions), simtest.Dial(t, c, c.Admin(), vpc.NewClientWithOptions), simtest.Dial(t, c, c.Admin(),
		ecs.NewClientWithOptions)
	type doer interface {
		DoAction(requests.AcsRequest, responses.AcsResponse) error
	}
	for _, tt := range []struct {
		client doer
		req    requests.AcsRequest
		params string
		reads  string
	}{
		{b, slb.CreateDescribeLoadBalancersRequest(), "", below("LoadBalancers.LoadBalancer[]", balancerFields+" InternetChargeTypeAlias")},
		{b, slb.CreateDescribeLoadBalancerAttributeRequest(), "LoadBalancerId=lb-a", balancerFields},
		{b, slb.CreateDescribeLoadBalancerAttributeRequest(), "LoadBalancerId=lb-b", balancerFields},
		{b, slb.CreateCreateLoadBalancerRequest(), "", "LoadBalancerId Address"},
		{b, slb.CreateListTagResourcesRequest(), "ResourceType=instance ResourceId.1=lb-a", "TagResources.TagResource[].TagKey TagResources.TagResource[].TagValue"},
		{b, slb.CreateDescribeLoadBalancerListenersRequest(), "LoadBalancerId.1=lb-a MaxResults=50", "NextToken " + below("Listeners[]", listenerFields)},
		{b, slb.CreateDescribeLoadBalancerListenersRequest(), "LoadBalancerId.1=lb-a ListenerProtocol=tcp",
			below("Listeners[].TCPListenerConfig", checkFields+" PersistenceTimeout EstablishedTimeout HealthCheckType")},
		{b, slb.CreateDescribeLoadBalancerListenersRequest(), "LoadBalancerId.1=lb-a ListenerProtocol=udp", below("Listeners[].UDPListenerConfig", checkFields)},
		{b, slb.CreateDescribeLoadBalancerListenersRequest(), "LoadBalancerId.1=lb-a ListenerProtocol=http",
			below("Listeners[].HTTPListenerConfig", webFields+" ListenerForward")},
		{b, slb.CreateDescribeLoadBalancerListenersRequest(), "LoadBalancerId.1=lb-a ListenerProtocol=https",
			below("Listeners[].HTTPSListenerConfig", webFields+" ServerCertificateId EnableHttp2 TLSCipherPolicy")},
		{b, slb.CreateDescribeVServerGroupsRequest(), "LoadBalancerId=lb-a",
			"VServerGroups.VServerGroup[].VServerGroupId VServerGroups.VServerGroup[].VServerGroupName"},
		{b, slb.CreateDescribeVServerGroupAttributeRequest(), "VServerGroupId=rsp-a",
			"VServerGroupId VServerGroupName " + below("BackendServers.BackendServer[]", "Description ServerId ServerIp Weight Port Type")},
		{b, slb.CreateCreateVServerGroupRequest(), "LoadBalancerId=lb-a VServerGroupName=h", "VServerGroupId"},
		{b, slb.CreateDescribeServerCertificatesRequest(), "ServerCertificateId=cert-a",
			below("ServerCertificates.ServerCertificate[]", "CreateTimeStamp ExpireTimeStamp ServerCertificateId CommonName")},
		{b, slb.CreateDescribeDomainExtensionsRequest(), "LoadBalancerId=lb-a ListenerPort=4",
			below("DomainExtensions.DomainExtension[]", "DomainExtensionId Domain ServerCertificateId")},
		{n, vpc.CreateDescribeVpcAttributeRequest(), "VpcId=vpc-1", "CidrBlock SecondaryCidrBlocks.SecondaryCidrBlock[] Ipv6CidrBlock Ipv6CidrBlocks.Ipv6CidrBlock"},
		{n, vpc.CreateDescribeVSwitchesRequest(), "VSwitchId=vsw-1", below("VSwitches.VSwitch[]", "VSwitchId VpcId ZoneId CidrBlock AvailableIpAddressCount Status")},
		{n, vpc.CreateDescribeEipAddressesRequest(), "AssociatedInstanceType=SlbInstance AssociatedInstanceId=lb-a PageSize=10 PageNumber=1",
			"PageNumber PageSize TotalCount EipAddresses.EipAddress[].IpAddress"},
		{e, ecs.CreateDescribeNetworkInterfacesRequest(), "VpcId=vpc-1 Status=InUse PrivateIpAddress.1=10.0.0.7 MaxResults=100",
			"NextToken PageSize " + below("NetworkInterfaceSets.NetworkInterfaceSet[]",
				"NetworkInterfaceId Status PrivateIpAddress SourceDestCheck PrivateIpSets.PrivateIpSet[].PrivateIpAddress Ipv6Sets.Ipv6Set[].Ipv6Address")},
		{e, ecs.CreateDescribeSecurityGroupsRequest(), "Tag.1.Key=k Tag.1.Value=v",
			"NextToken " + below("SecurityGroups.SecurityGroup[]", "SecurityGroupId SecurityGroupName SecurityGroupType Tags.Tag[].TagKey Tags.Tag[].TagValue")},
		{e, ecs.CreateDescribeSecurityGroupAttributeRequest(), "SecurityGroupId=sg-a",
			"SecurityGroupName SecurityGroupId InnerAccessPolicy Description " + below("Permissions.Permission[]",
				"Policy Description Direction SourceCidrIp Ipv6SourceCidrIp Priority NicType PortRange IpProtocol SecurityGroupRuleId CreateTime")},
		{e, ecs.CreateCreateSecurityGroupRequest(), "VpcId=vpc-1 SecurityGroupName=h", "SecurityGroupId"},
	} {
		for p := range strings.FieldsSeq(tt.params) {
			name, value, _ := strings.Cut(p, "=")
			tt.req.GetQueryParams()[name] = value
		}
		resp := responses.NewCommonResponse()
		if err := tt.client.DoAction(tt.req, resp); err != nil {
			t.Errorf("%s: %v", tt.req.GetActionName(), err)
			continue
		}
		var got any
		simtest.Check(t, json.Unmarshal(resp.GetHttpContentBytes(), &got))
		var lacks []string
		for path := range strings.FieldsSeq(tt.reads + " RequestId") {
			if absent(got, path) {
				lacks = append(lacks, path)
			}
		}
		if len(lacks) > 0 {
			t.Errorf("%s %s lacks %s: %s", tt.req.GetActionName(), tt.params, strings.Join(lacks, ", "), fmt.Sprint(got))
		}
	}
}
