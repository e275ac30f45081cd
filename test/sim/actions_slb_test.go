package sim_test

import (
	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/slb"
)

// slbCalls are the calls of CLB.
func slbCalls() []actionCall {
	return []actionCall{
		on("slb:CreateLoadBalancer", slb.CreateCreateLoadBalancerRequest, slb.CreateCreateLoadBalancerResponse, func(r *slb.CreateLoadBalancerRequest) {
			r.LoadBalancerName = "web"
		}),
		on("slb:DeleteLoadBalancer", slb.CreateDeleteLoadBalancerRequest, slb.CreateDeleteLoadBalancerResponse, func(r *slb.DeleteLoadBalancerRequest) {
			r.LoadBalancerId = "lb-a"
		}),
		on("slb:DescribeLoadBalancers", slb.CreateDescribeLoadBalancersRequest, slb.CreateDescribeLoadBalancersResponse, nil),
		on("slb:DescribeLoadBalancerAttribute", slb.CreateDescribeLoadBalancerAttributeRequest, slb.CreateDescribeLoadBalancerAttributeResponse, func(r *slb.DescribeLoadBalancerAttributeRequest) {
			r.LoadBalancerId = "lb-a"
		}),
		on("slb:DescribeAvailableResource", slb.CreateDescribeAvailableResourceRequest, slb.CreateDescribeAvailableResourceResponse, nil),
		on("slb:DescribeZones", slb.CreateDescribeZonesRequest, slb.CreateDescribeZonesResponse, nil),
		on("slb:DescribeRegions", slb.CreateDescribeRegionsRequest, slb.CreateDescribeRegionsResponse, nil),
		on("slb:SetLoadBalancerName", slb.CreateSetLoadBalancerNameRequest, slb.CreateSetLoadBalancerNameResponse, func(r *slb.SetLoadBalancerNameRequest) {
			r.LoadBalancerId = "lb-a"
			r.LoadBalancerName = "web"
		}),
		on("slb:SetLoadBalancerStatus", slb.CreateSetLoadBalancerStatusRequest, slb.CreateSetLoadBalancerStatusResponse, func(r *slb.SetLoadBalancerStatusRequest) {
			r.LoadBalancerId = "lb-a"
			r.LoadBalancerStatus = "inactive"
		}),
		on("slb:SetLoadBalancerDeleteProtection", slb.CreateSetLoadBalancerDeleteProtectionRequest, slb.CreateSetLoadBalancerDeleteProtectionResponse, func(r *slb.SetLoadBalancerDeleteProtectionRequest) {
			r.LoadBalancerId = "lb-a"
			r.DeleteProtection = "on"
		}),
		on("slb:SetLoadBalancerModificationProtection", slb.CreateSetLoadBalancerModificationProtectionRequest, slb.CreateSetLoadBalancerModificationProtectionResponse, func(r *slb.SetLoadBalancerModificationProtectionRequest) {
			r.LoadBalancerId = "lb-a"
			r.ModificationProtectionStatus = "ConsoleProtection"
		}),
		on("slb:ModifyLoadBalancerInstanceSpec", slb.CreateModifyLoadBalancerInstanceSpecRequest, slb.CreateModifyLoadBalancerInstanceSpecResponse, func(r *slb.ModifyLoadBalancerInstanceSpecRequest) {
			r.LoadBalancerId, r.LoadBalancerSpec = "lb-spec", "slb.s2.small"
		}),
		on("slb:ModifyLoadBalancerInstanceChargeType", slb.CreateModifyLoadBalancerInstanceChargeTypeRequest, slb.CreateModifyLoadBalancerInstanceChargeTypeResponse, func(r *slb.ModifyLoadBalancerInstanceChargeTypeRequest) {
			r.LoadBalancerId, r.InstanceChargeType = "lb-spec", "PayByCLCU"
		}),
		on("slb:ModifyLoadBalancerInternetSpec", slb.CreateModifyLoadBalancerInternetSpecRequest, slb.CreateModifyLoadBalancerInternetSpecResponse, func(r *slb.ModifyLoadBalancerInternetSpecRequest) {
			r.LoadBalancerId = "lb-a"
			r.Bandwidth = requests.NewInteger(5)
		}),
		on("slb:ModifyLoadBalancerPayType", slb.CreateModifyLoadBalancerPayTypeRequest, slb.CreateModifyLoadBalancerPayTypeResponse, func(r *slb.ModifyLoadBalancerPayTypeRequest) {
			r.LoadBalancerId = "lb-a"
			r.PayType = "PrePay"
		}),
		on("slb:DescribeServerCertificates", slb.CreateDescribeServerCertificatesRequest, slb.CreateDescribeServerCertificatesResponse, nil),
		on("slb:DescribeLoadBalancerListeners", slb.CreateDescribeLoadBalancerListenersRequest, slb.CreateDescribeLoadBalancerListenersResponse, func(r *slb.DescribeLoadBalancerListenersRequest) {
			r.LoadBalancerId = &[]string{"lb-a"}
		}),
		on("slb:StartLoadBalancerListener", slb.CreateStartLoadBalancerListenerRequest, slb.CreateStartLoadBalancerListenerResponse, func(r *slb.StartLoadBalancerListenerRequest) {
			r.LoadBalancerId = "lb-a"
			r.ListenerPort = requests.NewInteger(80)
		}),
		on("slb:StopLoadBalancerListener", slb.CreateStopLoadBalancerListenerRequest, slb.CreateStopLoadBalancerListenerResponse, func(r *slb.StopLoadBalancerListenerRequest) {
			r.LoadBalancerId = "lb-a"
			r.ListenerPort = requests.NewInteger(80)
		}),
		on("slb:DeleteLoadBalancerListener", slb.CreateDeleteLoadBalancerListenerRequest, slb.CreateDeleteLoadBalancerListenerResponse, func(r *slb.DeleteLoadBalancerListenerRequest) {
			r.LoadBalancerId = "lb-a"
			r.ListenerPort = requests.NewInteger(80)
		}),
		on("slb:CreateLoadBalancerTCPListener", slb.CreateCreateLoadBalancerTCPListenerRequest, slb.CreateCreateLoadBalancerTCPListenerResponse, func(r *slb.CreateLoadBalancerTCPListenerRequest) {
			r.LoadBalancerId = "lb-a"
			r.ListenerPort, r.Bandwidth = requests.NewInteger(9000), requests.NewInteger(-1)
		}),
		on("slb:SetLoadBalancerTCPListenerAttribute", slb.CreateSetLoadBalancerTCPListenerAttributeRequest, slb.CreateSetLoadBalancerTCPListenerAttributeResponse, func(r *slb.SetLoadBalancerTCPListenerAttributeRequest) {
			r.LoadBalancerId = "lb-a"
			r.ListenerPort = requests.NewInteger(81)
			r.Description = "d"
		}),
		on("slb:DescribeLoadBalancerTCPListenerAttribute", slb.CreateDescribeLoadBalancerTCPListenerAttributeRequest, slb.CreateDescribeLoadBalancerTCPListenerAttributeResponse, func(r *slb.DescribeLoadBalancerTCPListenerAttributeRequest) {
			r.LoadBalancerId = "lb-a"
			r.ListenerPort = requests.NewInteger(81)
		}),
		on("slb:CreateLoadBalancerUDPListener", slb.CreateCreateLoadBalancerUDPListenerRequest, slb.CreateCreateLoadBalancerUDPListenerResponse, func(r *slb.CreateLoadBalancerUDPListenerRequest) {
			r.LoadBalancerId = "lb-a"
			r.ListenerPort, r.Bandwidth = requests.NewInteger(9000), requests.NewInteger(-1)
		}),
		on("slb:SetLoadBalancerUDPListenerAttribute", slb.CreateSetLoadBalancerUDPListenerAttributeRequest, slb.CreateSetLoadBalancerUDPListenerAttributeResponse, func(r *slb.SetLoadBalancerUDPListenerAttributeRequest) {
			r.LoadBalancerId = "lb-a"
			r.ListenerPort = requests.NewInteger(82)
			r.Description = "d"
		}),
		on("slb:DescribeLoadBalancerUDPListenerAttribute", slb.CreateDescribeLoadBalancerUDPListenerAttributeRequest, slb.CreateDescribeLoadBalancerUDPListenerAttributeResponse, func(r *slb.DescribeLoadBalancerUDPListenerAttributeRequest) {
			r.LoadBalancerId = "lb-a"
			r.ListenerPort = requests.NewInteger(82)
		}),
		on("slb:CreateLoadBalancerHTTPListener", slb.CreateCreateLoadBalancerHTTPListenerRequest, slb.CreateCreateLoadBalancerHTTPListenerResponse, func(r *slb.CreateLoadBalancerHTTPListenerRequest) {
			r.LoadBalancerId = "lb-a"
			r.ListenerPort, r.Bandwidth = requests.NewInteger(9000), requests.NewInteger(-1)
		}),
		on("slb:SetLoadBalancerHTTPListenerAttribute", slb.CreateSetLoadBalancerHTTPListenerAttributeRequest, slb.CreateSetLoadBalancerHTTPListenerAttributeResponse, func(r *slb.SetLoadBalancerHTTPListenerAttributeRequest) {
			r.LoadBalancerId = "lb-a"
			r.ListenerPort = requests.NewInteger(80)
			r.Description = "d"
		}),
		on("slb:DescribeLoadBalancerHTTPListenerAttribute", slb.CreateDescribeLoadBalancerHTTPListenerAttributeRequest, slb.CreateDescribeLoadBalancerHTTPListenerAttributeResponse, func(r *slb.DescribeLoadBalancerHTTPListenerAttributeRequest) {
			r.LoadBalancerId = "lb-a"
			r.ListenerPort = requests.NewInteger(80)
		}),
		on("slb:CreateLoadBalancerHTTPSListener", slb.CreateCreateLoadBalancerHTTPSListenerRequest, slb.CreateCreateLoadBalancerHTTPSListenerResponse, func(r *slb.CreateLoadBalancerHTTPSListenerRequest) {
			r.LoadBalancerId = "lb-a"
			r.ListenerPort, r.Bandwidth = requests.NewInteger(9000), requests.NewInteger(-1)
			r.ServerCertificateId = "cert-a"
		}),
		on("slb:SetLoadBalancerHTTPSListenerAttribute", slb.CreateSetLoadBalancerHTTPSListenerAttributeRequest, slb.CreateSetLoadBalancerHTTPSListenerAttributeResponse, func(r *slb.SetLoadBalancerHTTPSListenerAttributeRequest) {
			r.LoadBalancerId = "lb-a"
			r.ListenerPort = requests.NewInteger(443)
			r.Description = "d"
		}),
		on("slb:DescribeLoadBalancerHTTPSListenerAttribute", slb.CreateDescribeLoadBalancerHTTPSListenerAttributeRequest, slb.CreateDescribeLoadBalancerHTTPSListenerAttributeResponse, func(r *slb.DescribeLoadBalancerHTTPSListenerAttributeRequest) {
			r.LoadBalancerId = "lb-a"
			r.ListenerPort = requests.NewInteger(443)
		}),
		on("slb:CreateRules", slb.CreateCreateRulesRequest, slb.CreateCreateRulesResponse, func(r *slb.CreateRulesRequest) {
			r.LoadBalancerId = "lb-a"
			r.ListenerPort = requests.NewInteger(80)
			r.RuleList = `[{"RuleName":"n","Url":"/n","VServerGroupId":"rsp-a"}]`
		}),
		on("slb:DescribeRules", slb.CreateDescribeRulesRequest, slb.CreateDescribeRulesResponse, func(r *slb.DescribeRulesRequest) {
			r.LoadBalancerId = "lb-a"
			r.ListenerPort = requests.NewInteger(80)
		}),
		on("slb:DescribeRuleAttribute", slb.CreateDescribeRuleAttributeRequest, slb.CreateDescribeRuleAttributeResponse, func(r *slb.DescribeRuleAttributeRequest) {
			r.RuleId = "rule-a"
		}),
		on("slb:SetRule", slb.CreateSetRuleRequest, slb.CreateSetRuleResponse, func(r *slb.SetRuleRequest) {
			r.RuleId, r.VServerGroupId = "rule-a", "rsp-b"
		}),
		on("slb:DeleteRules", slb.CreateDeleteRulesRequest, slb.CreateDeleteRulesResponse, func(r *slb.DeleteRulesRequest) {
			r.RuleIds = `["rule-a"]`
		}),
		on("slb:CreateDomainExtension", slb.CreateCreateDomainExtensionRequest, slb.CreateCreateDomainExtensionResponse, func(r *slb.CreateDomainExtensionRequest) {
			r.LoadBalancerId = "lb-a"
			r.ListenerPort = requests.NewInteger(443)
			r.Domain, r.ServerCertificateId = "b.example", "cert-b"
		}),
		on("slb:DescribeDomainExtensions", slb.CreateDescribeDomainExtensionsRequest, slb.CreateDescribeDomainExtensionsResponse, func(r *slb.DescribeDomainExtensionsRequest) {
			r.LoadBalancerId = "lb-a"
			r.ListenerPort = requests.NewInteger(443)
		}),
		on("slb:SetDomainExtensionAttribute", slb.CreateSetDomainExtensionAttributeRequest, slb.CreateSetDomainExtensionAttributeResponse, func(r *slb.SetDomainExtensionAttributeRequest) {
			r.DomainExtensionId, r.ServerCertificateId = "de-a", "cert-b"
		}),
		on("slb:DeleteDomainExtension", slb.CreateDeleteDomainExtensionRequest, slb.CreateDeleteDomainExtensionResponse, func(r *slb.DeleteDomainExtensionRequest) {
			r.DomainExtensionId = "de-a"
		}),
		on("slb:CreateAccessControlList", slb.CreateCreateAccessControlListRequest, slb.CreateCreateAccessControlListResponse, func(r *slb.CreateAccessControlListRequest) {
			r.AclName = "a"
		}),
		on("slb:DeleteAccessControlList", slb.CreateDeleteAccessControlListRequest, slb.CreateDeleteAccessControlListResponse, func(r *slb.DeleteAccessControlListRequest) {
			r.AclId = "acl-a"
		}),
		on("slb:SetAccessControlListAttribute", slb.CreateSetAccessControlListAttributeRequest, slb.CreateSetAccessControlListAttributeResponse, func(r *slb.SetAccessControlListAttributeRequest) {
			r.AclId, r.AclName = "acl-a", "b"
		}),
		on("slb:AddAccessControlListEntry", slb.CreateAddAccessControlListEntryRequest, slb.CreateAddAccessControlListEntryResponse, func(r *slb.AddAccessControlListEntryRequest) {
			r.AclId, r.AclEntrys = "acl-a", `[{"entry":"198.51.100.0/24"}]`
		}),
		on("slb:RemoveAccessControlListEntry", slb.CreateRemoveAccessControlListEntryRequest, slb.CreateRemoveAccessControlListEntryResponse, func(r *slb.RemoveAccessControlListEntryRequest) {
			r.AclId, r.AclEntrys = "acl-a", `[{"entry":"192.0.2.0/24"}]`
		}),
		on("slb:DescribeAccessControlLists", slb.CreateDescribeAccessControlListsRequest, slb.CreateDescribeAccessControlListsResponse, nil),
		on("slb:DescribeAccessControlListAttribute", slb.CreateDescribeAccessControlListAttributeRequest, slb.CreateDescribeAccessControlListAttributeResponse, func(r *slb.DescribeAccessControlListAttributeRequest) {
			r.AclId = "acl-a"
		}),
		on("slb:CreateVServerGroup", slb.CreateCreateVServerGroupRequest, slb.CreateCreateVServerGroupResponse, func(r *slb.CreateVServerGroupRequest) {
			r.LoadBalancerId = "lb-a"
			r.VServerGroupName = "g"
		}),
		on("slb:DeleteVServerGroup", slb.CreateDeleteVServerGroupRequest, slb.CreateDeleteVServerGroupResponse, func(r *slb.DeleteVServerGroupRequest) {
			r.VServerGroupId = "rsp-spare"
		}),
		on("slb:DescribeVServerGroups", slb.CreateDescribeVServerGroupsRequest, slb.CreateDescribeVServerGroupsResponse, func(r *slb.DescribeVServerGroupsRequest) {
			r.LoadBalancerId = "lb-a"
		}),
		on("slb:DescribeVServerGroupAttribute", slb.CreateDescribeVServerGroupAttributeRequest, slb.CreateDescribeVServerGroupAttributeResponse, func(r *slb.DescribeVServerGroupAttributeRequest) {
			r.VServerGroupId = "rsp-a"
		}),
		on("slb:SetVServerGroupAttribute", slb.CreateSetVServerGroupAttributeRequest, slb.CreateSetVServerGroupAttributeResponse, func(r *slb.SetVServerGroupAttributeRequest) {
			r.VServerGroupId, r.VServerGroupName = "rsp-a", "g"
		}),
		on("slb:AddVServerGroupBackendServers", slb.CreateAddVServerGroupBackendServersRequest, slb.CreateAddVServerGroupBackendServersResponse, func(r *slb.AddVServerGroupBackendServersRequest) {
			r.VServerGroupId, r.BackendServers = "rsp-b", `[{"serverId":"i-a","port":81,"weight":"50","type":"ecs"}]`
		}),
		on("slb:RemoveVServerGroupBackendServers", slb.CreateRemoveVServerGroupBackendServersRequest, slb.CreateRemoveVServerGroupBackendServersResponse, func(r *slb.RemoveVServerGroupBackendServersRequest) {
			r.VServerGroupId, r.BackendServers = "rsp-a", `[{"serverId":"i-a","port":80}]`
		}),
		on("slb:ModifyVServerGroupBackendServers", slb.CreateModifyVServerGroupBackendServersRequest, slb.CreateModifyVServerGroupBackendServersResponse, func(r *slb.ModifyVServerGroupBackendServersRequest) {
			r.VServerGroupId, r.OldBackendServers, r.NewBackendServers = "rsp-a", `[{"ServerId":"i-a","Port":80}]`, `[{"ServerId":"i-a","Port":81}]`
		}),
		on("slb:TagResources", slb.CreateTagResourcesRequest, slb.CreateTagResourcesResponse, func(r *slb.TagResourcesRequest) {
			r.ResourceType, r.ResourceId, r.Tag = "instance", &[]string{"lb-a"}, &[]slb.TagResourcesTag{{Key: "a", Value: "b"}}
		}),
		on("slb:UntagResources", slb.CreateUntagResourcesRequest, slb.CreateUntagResourcesResponse, func(r *slb.UntagResourcesRequest) {
			r.ResourceType, r.ResourceId, r.TagKey = "instance", &[]string{"lb-a"}, &[]string{"k"}
		}),
		on("slb:ListTagResources", slb.CreateListTagResourcesRequest, slb.CreateListTagResourcesResponse, func(r *slb.ListTagResourcesRequest) {
			r.ResourceType, r.ResourceId = "instance", &[]string{"lb-a"}
		}),
		on("slb:AddTags", slb.CreateAddTagsRequest, slb.CreateAddTagsResponse, func(r *slb.AddTagsRequest) {
			r.LoadBalancerId = "lb-a"
			r.Tags = `[{"TagKey":"a","TagValue":"b"}]`
		}),
		on("slb:RemoveTags", slb.CreateRemoveTagsRequest, slb.CreateRemoveTagsResponse, func(r *slb.RemoveTagsRequest) {
			r.LoadBalancerId = "lb-a"
			r.Tags = `[{"TagKey":"k"}]`
		}),
		on("slb:DescribeTags", slb.CreateDescribeTagsRequest, slb.CreateDescribeTagsResponse, func(r *slb.DescribeTagsRequest) {
			r.LoadBalancerId = "lb-a"
		}),
	}
}
