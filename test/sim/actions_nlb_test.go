package sim_test

import (
	"testing"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk"
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/nlb"

	"github.com/lbremedy/lbremedy/test/sim"
)

// nlbCalls are the calls of NLB. Two of them are about a job that another call
// began.
func nlbCalls() []actionCall {
	job := func(id *string) func(testing.TB, *sim.Cloud) {
		return func(t testing.TB, c *sim.Cloud) {
			r := nlb.CreateUpdateLoadBalancerAttributeRequest()
			r.LoadBalancerId, r.LoadBalancerName = "nlb-a", "web"
			resp, err := dial(t, c, c.Admin(), nlb.NewClientWithOptions).UpdateLoadBalancerAttribute(r)
			check(t, err)
			*id = resp.JobId
		}
	}
	var one, other string
	stop := func(t testing.TB, c *sim.Cloud) {
		c.Edit(func(s *sim.State) { s.NLBs["nlb-a"].Listeners[0].Status = "Stopped" })
	}
	return []actionCall{
		on("nlb:ListLoadBalancers", nlb.CreateListLoadBalancersRequest, nlb.CreateListLoadBalancersResponse, nil),
		on("nlb:GetLoadBalancerAttribute", nlb.CreateGetLoadBalancerAttributeRequest, nlb.CreateGetLoadBalancerAttributeResponse, func(r *nlb.GetLoadBalancerAttributeRequest) {
			r.LoadBalancerId = "nlb-a"
		}),
		on("nlb:CreateLoadBalancer", nlb.CreateCreateLoadBalancerRequest, nlb.CreateCreateLoadBalancerResponse, func(r *nlb.CreateLoadBalancerRequest) {
			r.AddressType, r.VpcId, r.ZoneMappings = "Intranet", "vpc-1", &[]nlb.CreateLoadBalancerZoneMappings{{ZoneId: "cn-hangzhou-h", VSwitchId: "vsw-h"}, {ZoneId: "cn-hangzhou-i", VSwitchId: "vsw-i"}}
		}),
		on("nlb:DeleteLoadBalancer", nlb.CreateDeleteLoadBalancerRequest, nlb.CreateDeleteLoadBalancerResponse, func(r *nlb.DeleteLoadBalancerRequest) {
			r.LoadBalancerId = "nlb-a"
		}),
		on("nlb:UpdateLoadBalancerAttribute", nlb.CreateUpdateLoadBalancerAttributeRequest, nlb.CreateUpdateLoadBalancerAttributeResponse, func(r *nlb.UpdateLoadBalancerAttributeRequest) {
			r.LoadBalancerId = "nlb-a"
			r.LoadBalancerName = "web"
		}),
		on("nlb:UpdateLoadBalancerZones", nlb.CreateUpdateLoadBalancerZonesRequest, nlb.CreateUpdateLoadBalancerZonesResponse, func(r *nlb.UpdateLoadBalancerZonesRequest) {
			r.LoadBalancerId = "nlb-a"
			r.ZoneMappings = &[]nlb.UpdateLoadBalancerZonesZoneMappings{{ZoneId: "cn-hangzhou-h", VSwitchId: "vsw-h"}, {ZoneId: "cn-hangzhou-i", VSwitchId: "vsw-i"}}
		}),
		on("nlb:UpdateLoadBalancerAddressTypeConfig", nlb.CreateUpdateLoadBalancerAddressTypeConfigRequest, nlb.CreateUpdateLoadBalancerAddressTypeConfigResponse, func(r *nlb.UpdateLoadBalancerAddressTypeConfigRequest) {
			r.LoadBalancerId = "nlb-a"
			r.AddressType = "Intranet"
		}),
		on("nlb:UpdateLoadBalancerProtection", nlb.CreateUpdateLoadBalancerProtectionRequest, nlb.CreateUpdateLoadBalancerProtectionResponse, func(r *nlb.UpdateLoadBalancerProtectionRequest) {
			r.LoadBalancerId = "nlb-a"
			r.DeletionProtectionEnabled = requests.NewBoolean(true)
		}),
		on("nlb:EnableLoadBalancerIpv6Internet", nlb.CreateEnableLoadBalancerIpv6InternetRequest, nlb.CreateEnableLoadBalancerIpv6InternetResponse, func(r *nlb.EnableLoadBalancerIpv6InternetRequest) {
			r.LoadBalancerId = "nlb-6"
		}),
		on("nlb:DisableLoadBalancerIpv6Internet", nlb.CreateDisableLoadBalancerIpv6InternetRequest, nlb.CreateDisableLoadBalancerIpv6InternetResponse, func(r *nlb.DisableLoadBalancerIpv6InternetRequest) {
			r.LoadBalancerId = "nlb-6"
		}),
		on("nlb:LoadBalancerJoinSecurityGroup", nlb.CreateLoadBalancerJoinSecurityGroupRequest, nlb.CreateLoadBalancerJoinSecurityGroupResponse, func(r *nlb.LoadBalancerJoinSecurityGroupRequest) {
			r.LoadBalancerId = "nlb-a"
			r.SecurityGroupIds = &[]string{"sg-a"}
		}),
		on("nlb:LoadBalancerLeaveSecurityGroup", nlb.CreateLoadBalancerLeaveSecurityGroupRequest, nlb.CreateLoadBalancerLeaveSecurityGroupResponse, func(r *nlb.LoadBalancerLeaveSecurityGroupRequest) {
			r.LoadBalancerId = "nlb-a"
			r.SecurityGroupIds = &[]string{"sg-b"}
		}),
		on("nlb:AttachCommonBandwidthPackageToLoadBalancer", nlb.CreateAttachCommonBandwidthPackageToLoadBalancerRequest, nlb.CreateAttachCommonBandwidthPackageToLoadBalancerResponse, func(r *nlb.AttachCommonBandwidthPackageToLoadBalancerRequest) {
			r.LoadBalancerId, r.BandwidthPackageId = "nlb-b", "cbwp-b"
		}),
		on("nlb:DetachCommonBandwidthPackageFromLoadBalancer", nlb.CreateDetachCommonBandwidthPackageFromLoadBalancerRequest, nlb.CreateDetachCommonBandwidthPackageFromLoadBalancerResponse, func(r *nlb.DetachCommonBandwidthPackageFromLoadBalancerRequest) {
			r.LoadBalancerId = "nlb-a"
			r.BandwidthPackageId = "cbwp-a"
		}),
		on("nlb:ListListeners", nlb.CreateListListenersRequest, nlb.CreateListListenersResponse, nil),
		on("nlb:GetListenerAttribute", nlb.CreateGetListenerAttributeRequest, nlb.CreateGetListenerAttributeResponse, func(r *nlb.GetListenerAttributeRequest) {
			r.ListenerId = "lsn-a"
		}),
		on("nlb:CreateListener", nlb.CreateCreateListenerRequest, nlb.CreateCreateListenerResponse, func(r *nlb.CreateListenerRequest) {
			r.LoadBalancerId = "nlb-a"
			r.ListenerProtocol, r.ListenerPort, r.ServerGroupId = "TCP", requests.NewInteger(81), "sgp-b"
		}),
		on("nlb:UpdateListenerAttribute", nlb.CreateUpdateListenerAttributeRequest, nlb.CreateUpdateListenerAttributeResponse, func(r *nlb.UpdateListenerAttributeRequest) {
			r.ListenerId, r.ListenerDescription = "lsn-a", "d"
		}),
		on("nlb:StartListener", nlb.CreateStartListenerRequest, nlb.CreateStartListenerResponse, func(r *nlb.StartListenerRequest) { r.ListenerId = "lsn-a" }).after(stop),
		on("nlb:StopListener", nlb.CreateStopListenerRequest, nlb.CreateStopListenerResponse, func(r *nlb.StopListenerRequest) {
			r.ListenerId = "lsn-a"
		}),
		on("nlb:DeleteListener", nlb.CreateDeleteListenerRequest, nlb.CreateDeleteListenerResponse, func(r *nlb.DeleteListenerRequest) {
			r.ListenerId = "lsn-a"
		}),
		on("nlb:ListListenerCertificates", nlb.CreateListListenerCertificatesRequest, nlb.CreateListListenerCertificatesResponse, func(r *nlb.ListListenerCertificatesRequest) {
			r.ListenerId = "lsn-s"
		}),
		on("nlb:AssociateAdditionalCertificatesWithListener", nlb.CreateAssociateAdditionalCertificatesWithListenerRequest, nlb.CreateAssociateAdditionalCertificatesWithListenerResponse, func(r *nlb.AssociateAdditionalCertificatesWithListenerRequest) {
			r.ListenerId, r.AdditionalCertificateIds = "lsn-s", &[]string{"cert-b"}
		}),
		on("nlb:DisassociateAdditionalCertificatesWithListener", nlb.CreateDisassociateAdditionalCertificatesWithListenerRequest, nlb.CreateDisassociateAdditionalCertificatesWithListenerResponse, func(r *nlb.DisassociateAdditionalCertificatesWithListenerRequest) {
			r.ListenerId, r.AdditionalCertificateIds = "lsn-s", &[]string{"cert-c"}
		}),
		on("nlb:ListServerGroups", nlb.CreateListServerGroupsRequest, nlb.CreateListServerGroupsResponse, nil),
		on("nlb:ListServerGroupServers", nlb.CreateListServerGroupServersRequest, nlb.CreateListServerGroupServersResponse, func(r *nlb.ListServerGroupServersRequest) {
			r.ServerGroupId = "sgp-a"
		}),
		on("nlb:CreateServerGroup", nlb.CreateCreateServerGroupRequest, nlb.CreateCreateServerGroupResponse, func(r *nlb.CreateServerGroupRequest) {
			r.ServerGroupName, r.VpcId, r.Protocol = "g", "vpc-1", "TCP"
		}),
		on("nlb:UpdateServerGroupAttribute", nlb.CreateUpdateServerGroupAttributeRequest, nlb.CreateUpdateServerGroupAttributeResponse, func(r *nlb.UpdateServerGroupAttributeRequest) {
			r.ServerGroupId, r.ServerGroupName = "sgp-a", "g"
		}),
		on("nlb:DeleteServerGroup", nlb.CreateDeleteServerGroupRequest, nlb.CreateDeleteServerGroupResponse, func(r *nlb.DeleteServerGroupRequest) {
			r.ServerGroupId = "sgp-b"
		}),
		on("nlb:AddServersToServerGroup", nlb.CreateAddServersToServerGroupRequest, nlb.CreateAddServersToServerGroupResponse, func(r *nlb.AddServersToServerGroupRequest) {
			r.ServerGroupId, r.Servers = "sgp-a", &[]nlb.AddServersToServerGroupServers{{ServerId: "i-a", ServerType: "Ecs", Port: "81"}}
		}),
		on("nlb:RemoveServersFromServerGroup", nlb.CreateRemoveServersFromServerGroupRequest, nlb.CreateRemoveServersFromServerGroupResponse, func(r *nlb.RemoveServersFromServerGroupRequest) {
			r.ServerGroupId, r.Servers = "sgp-a", &[]nlb.RemoveServersFromServerGroupServers{{ServerId: "i-a", ServerType: "Ecs", Port: "80"}}
		}),
		on("nlb:UpdateServerGroupServersAttribute", nlb.CreateUpdateServerGroupServersAttributeRequest, nlb.CreateUpdateServerGroupServersAttributeResponse, func(r *nlb.UpdateServerGroupServersAttributeRequest) {
			r.ServerGroupId, r.Servers = "sgp-a", &[]nlb.UpdateServerGroupServersAttributeServers{{ServerId: "i-a", ServerType: "Ecs", Port: "80"}}
		}),
		on("nlb:TagResources", nlb.CreateTagResourcesRequest, nlb.CreateTagResourcesResponse, func(r *nlb.TagResourcesRequest) {
			r.ResourceType, r.ResourceId, r.Tag = "loadbalancer", &[]string{"nlb-a"}, &[]nlb.TagResourcesTag{{Key: "a", Value: "b"}}
		}),
		on("nlb:UntagResources", nlb.CreateUntagResourcesRequest, nlb.CreateUntagResourcesResponse, func(r *nlb.UntagResourcesRequest) {
			r.ResourceType, r.ResourceId, r.TagKey = "loadbalancer", &[]string{"nlb-a"}, &[]string{"k"}
		}),
		on("nlb:ListTagResources", nlb.CreateListTagResourcesRequest, nlb.CreateListTagResourcesResponse, func(r *nlb.ListTagResourcesRequest) {
			r.ResourceType, r.ResourceId = "loadbalancer", &[]string{"nlb-a"}
		}),
		on("nlb:GetJobStatus", nlb.CreateGetJobStatusRequest, nlb.CreateGetJobStatusResponse, func(r *nlb.GetJobStatusRequest) { r.JobId = one }).after(job(&one)),
		jobs(&other).after(job(&other)),
	}
}

// jobs asks for the jobs of these IDs, which the SDK has no request for.
func jobs(id *string) actionCall {
	a := actionCall{name: "nlb:ListAsynJobs"}
	a.send = func(c *sdk.Client) (string, error) {
		return plainly(a.name, "Nlb", "2022-04-30", "ListAsynJobs", "JobIds.1", *id).send(c)
	}
	return a
}
