package sim_test

import (
	"testing"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/nlb"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/simtest"
)

// nlbCalls are the calls of NLB. Two of them need the job of another call.
func nlbCalls() []actionCall {
	job := func(id *string) func(testing.TB, *sim.Cloud) {
		return func(t testing.TB, c *sim.Cloud) {
			r := nlb.CreateUpdateLoadBalancerAttributeRequest()
			r.LoadBalancerId, r.LoadBalancerName = "nlb-a", "web"
			resp, err := simtest.Dial(t, c, c.Admin(), nlb.NewClientWithOptions).UpdateLoadBalancerAttribute(r)
			simtest.Check(t, err)
			*id = resp.JobId
		}
	}
	var one, other string
	stop := func(t testing.TB, c *sim.Cloud) {
		c.Edit(func(s *sim.State) { s.NLBs["nlb-a"].Listeners[0].Status = "Stopped" })
	}
	return []actionCall{
		on("nlb:ListLoadBalancers", nlb.CreateListLoadBalancersRequest, nlb.CreateListLoadBalancersResponse),
		on("nlb:GetLoadBalancerAttribute", nlb.CreateGetLoadBalancerAttributeRequest, nlb.CreateGetLoadBalancerAttributeResponse, "LoadBalancerId", "nlb-a"),
		on("nlb:CreateLoadBalancer", nlb.CreateCreateLoadBalancerRequest, nlb.CreateCreateLoadBalancerResponse, "AddressType", "Intranet", "VpcId", "vpc-1",
			"ZoneMappings", &[]nlb.CreateLoadBalancerZoneMappings{{ZoneId: "cn-hangzhou-h", VSwitchId: "vsw-h"}, {ZoneId: "cn-hangzhou-i", VSwitchId: "vsw-i"}}),
		on("nlb:DeleteLoadBalancer", nlb.CreateDeleteLoadBalancerRequest, nlb.CreateDeleteLoadBalancerResponse, "LoadBalancerId", "nlb-a"),
		on("nlb:UpdateLoadBalancerAttribute", nlb.CreateUpdateLoadBalancerAttributeRequest, nlb.CreateUpdateLoadBalancerAttributeResponse, "LoadBalancerId",
			"nlb-a", "LoadBalancerName", "web"),
		on("nlb:UpdateLoadBalancerZones", nlb.CreateUpdateLoadBalancerZonesRequest, nlb.CreateUpdateLoadBalancerZonesResponse, "LoadBalancerId", "nlb-a",
			"ZoneMappings", &[]nlb.UpdateLoadBalancerZonesZoneMappings{{ZoneId: "cn-hangzhou-h", VSwitchId: "vsw-h"}, {ZoneId: "cn-hangzhou-i", VSwitchId: "vsw-i"}}),
		on("nlb:UpdateLoadBalancerAddressTypeConfig", nlb.CreateUpdateLoadBalancerAddressTypeConfigRequest, nlb.CreateUpdateLoadBalancerAddressTypeConfigResponse,
			"LoadBalancerId", "nlb-a", "AddressType", "Intranet"),
		on("nlb:UpdateLoadBalancerProtection", nlb.CreateUpdateLoadBalancerProtectionRequest, nlb.CreateUpdateLoadBalancerProtectionResponse, "LoadBalancerId",
			"nlb-a", "DeletionProtectionEnabled", "true"),
		on("nlb:EnableLoadBalancerIpv6Internet", nlb.CreateEnableLoadBalancerIpv6InternetRequest, nlb.CreateEnableLoadBalancerIpv6InternetResponse,
			"LoadBalancerId", "nlb-6"),
		on("nlb:DisableLoadBalancerIpv6Internet", nlb.CreateDisableLoadBalancerIpv6InternetRequest, nlb.CreateDisableLoadBalancerIpv6InternetResponse,
			"LoadBalancerId", "nlb-6"),
		on("nlb:LoadBalancerJoinSecurityGroup", nlb.CreateLoadBalancerJoinSecurityGroupRequest, nlb.CreateLoadBalancerJoinSecurityGroupResponse, "LoadBalancerId",
			"nlb-a", "SecurityGroupIds", &[]string{"sg-a"}),
		on("nlb:LoadBalancerLeaveSecurityGroup", nlb.CreateLoadBalancerLeaveSecurityGroupRequest, nlb.CreateLoadBalancerLeaveSecurityGroupResponse,
			"LoadBalancerId", "nlb-a", "SecurityGroupIds", &[]string{"sg-b"}),
		on("nlb:AttachCommonBandwidthPackageToLoadBalancer", nlb.CreateAttachCommonBandwidthPackageToLoadBalancerRequest,
			nlb.CreateAttachCommonBandwidthPackageToLoadBalancerResponse, "LoadBalancerId", "nlb-b", "BandwidthPackageId", "cbwp-b"),
		on("nlb:DetachCommonBandwidthPackageFromLoadBalancer", nlb.CreateDetachCommonBandwidthPackageFromLoadBalancerRequest,
			nlb.CreateDetachCommonBandwidthPackageFromLoadBalancerResponse, "LoadBalancerId", "nlb-a", "BandwidthPackageId", "cbwp-a"),
		on("nlb:ListListeners", nlb.CreateListListenersRequest, nlb.CreateListListenersResponse),
		on("nlb:GetListenerAttribute", nlb.CreateGetListenerAttributeRequest, nlb.CreateGetListenerAttributeResponse, "ListenerId", "lsn-a"),
		on("nlb:CreateListener", nlb.CreateCreateListenerRequest, nlb.CreateCreateListenerResponse, "LoadBalancerId", "nlb-a", "ListenerProtocol", "TCP",
			"ListenerPort", "81", "ServerGroupId", "sgp-b"),
		on("nlb:UpdateListenerAttribute", nlb.CreateUpdateListenerAttributeRequest, nlb.CreateUpdateListenerAttributeResponse, "ListenerId", "lsn-a",
			"ListenerDescription", "d"),
		on("nlb:StartListener", nlb.CreateStartListenerRequest, nlb.CreateStartListenerResponse, "ListenerId", "lsn-a").after(stop),
		on("nlb:StopListener", nlb.CreateStopListenerRequest, nlb.CreateStopListenerResponse, "ListenerId", "lsn-a"),
		on("nlb:DeleteListener", nlb.CreateDeleteListenerRequest, nlb.CreateDeleteListenerResponse, "ListenerId", "lsn-a"),
		on("nlb:ListListenerCertificates", nlb.CreateListListenerCertificatesRequest, nlb.CreateListListenerCertificatesResponse, "ListenerId", "lsn-s"),
		on("nlb:AssociateAdditionalCertificatesWithListener", nlb.CreateAssociateAdditionalCertificatesWithListenerRequest,
			nlb.CreateAssociateAdditionalCertificatesWithListenerResponse, "ListenerId", "lsn-s", "AdditionalCertificateIds", &[]string{"cert-b"}),
		on("nlb:DisassociateAdditionalCertificatesWithListener", nlb.CreateDisassociateAdditionalCertificatesWithListenerRequest,
			nlb.CreateDisassociateAdditionalCertificatesWithListenerResponse, "ListenerId", "lsn-s", "AdditionalCertificateIds", &[]string{"cert-c"}),
		on("nlb:ListServerGroups", nlb.CreateListServerGroupsRequest, nlb.CreateListServerGroupsResponse),
		on("nlb:ListServerGroupServers", nlb.CreateListServerGroupServersRequest, nlb.CreateListServerGroupServersResponse, "ServerGroupId", "sgp-a"),
		on("nlb:CreateServerGroup", nlb.CreateCreateServerGroupRequest, nlb.CreateCreateServerGroupResponse, "ServerGroupName", "g", "VpcId", "vpc-1",
			"Protocol", "TCP"),
		on("nlb:UpdateServerGroupAttribute", nlb.CreateUpdateServerGroupAttributeRequest, nlb.CreateUpdateServerGroupAttributeResponse, "ServerGroupId", "sgp-a",
			"ServerGroupName", "g"),
		on("nlb:DeleteServerGroup", nlb.CreateDeleteServerGroupRequest, nlb.CreateDeleteServerGroupResponse, "ServerGroupId", "sgp-b"),
		on("nlb:AddServersToServerGroup", nlb.CreateAddServersToServerGroupRequest, nlb.CreateAddServersToServerGroupResponse, "ServerGroupId", "sgp-a",
			"Servers", &[]nlb.AddServersToServerGroupServers{{ServerId: "i-a", ServerType: "Ecs", Port: "81"}}),
		on("nlb:RemoveServersFromServerGroup", nlb.CreateRemoveServersFromServerGroupRequest, nlb.CreateRemoveServersFromServerGroupResponse, "ServerGroupId",
			"sgp-a", "Servers", &[]nlb.RemoveServersFromServerGroupServers{{ServerId: "i-a", ServerType: "Ecs", Port: "80"}}),
		on("nlb:UpdateServerGroupServersAttribute", nlb.CreateUpdateServerGroupServersAttributeRequest, nlb.CreateUpdateServerGroupServersAttributeResponse,
			"ServerGroupId", "sgp-a", "Servers", &[]nlb.UpdateServerGroupServersAttributeServers{{ServerId: "i-a", ServerType: "Ecs", Port: "80"}}),
		on("nlb:TagResources", nlb.CreateTagResourcesRequest, nlb.CreateTagResourcesResponse, "ResourceType", "loadbalancer", "ResourceId", &[]string{"nlb-a"},
			"Tag", &[]nlb.TagResourcesTag{{Key: "a", Value: "b"}}),
		on("nlb:UntagResources", nlb.CreateUntagResourcesRequest, nlb.CreateUntagResourcesResponse, "ResourceType", "loadbalancer", "ResourceId",
			&[]string{"nlb-a"}, "TagKey", &[]string{"k"}),
		on("nlb:ListTagResources", nlb.CreateListTagResourcesRequest, nlb.CreateListTagResourcesResponse, "ResourceType", "loadbalancer", "ResourceId",
			&[]string{"nlb-a"}),
		on("nlb:GetJobStatus", nlb.CreateGetJobStatusRequest, nlb.CreateGetJobStatusResponse, "JobId", &one).after(job(&one)),
		jobs(&other).after(job(&other)),
	}
}

// jobs lists jobs by ID, for which the SDK has no request type.
func jobs(id *string) actionCall {
	a := actionCall{name: "nlb:ListAsynJobs"}
	a.send = func(c *sdk.Client) (string, error) {
		return plainly(a.name, "Nlb", "2022-04-30", "ListAsynJobs", "JobIds.1", *id).send(c)
	}
	return a
}
