package sim_test

import "github.com/aliyun/alibaba-cloud-sdk-go/services/ecs"

// ecsCalls are the calls of servers and what belongs to them.
func ecsCalls() []actionCall {
	return []actionCall{
		on("ecs:DescribeInstances", ecs.CreateDescribeInstancesRequest, ecs.CreateDescribeInstancesResponse, nil),
		on("ecs:DescribeNetworkInterfaces", ecs.CreateDescribeNetworkInterfacesRequest, ecs.CreateDescribeNetworkInterfacesResponse, nil),
		on("ecs:DescribeNetworkInterfaceAttribute", ecs.CreateDescribeNetworkInterfaceAttributeRequest, ecs.CreateDescribeNetworkInterfaceAttributeResponse, func(r *ecs.DescribeNetworkInterfaceAttributeRequest) {
			r.NetworkInterfaceId = "eni-a"
		}),
		on("ecs:ModifyNetworkInterfaceAttribute", ecs.CreateModifyNetworkInterfaceAttributeRequest, ecs.CreateModifyNetworkInterfaceAttributeResponse, func(r *ecs.ModifyNetworkInterfaceAttributeRequest) {
			r.NetworkInterfaceId, r.Description = "eni-a", "d"
		}),
		on("ecs:CreateSecurityGroup", ecs.CreateCreateSecurityGroupRequest, ecs.CreateCreateSecurityGroupResponse, func(r *ecs.CreateSecurityGroupRequest) {
			r.RegionId, r.VpcId = "cn-hangzhou", "vpc-1"
		}),
		on("ecs:DeleteSecurityGroup", ecs.CreateDeleteSecurityGroupRequest, ecs.CreateDeleteSecurityGroupResponse, func(r *ecs.DeleteSecurityGroupRequest) {
			r.SecurityGroupId = "sg-a"
		}),
		on("ecs:DescribeSecurityGroups", ecs.CreateDescribeSecurityGroupsRequest, ecs.CreateDescribeSecurityGroupsResponse, nil),
		on("ecs:DescribeSecurityGroupAttribute", ecs.CreateDescribeSecurityGroupAttributeRequest, ecs.CreateDescribeSecurityGroupAttributeResponse, func(r *ecs.DescribeSecurityGroupAttributeRequest) {
			r.SecurityGroupId = "sg-b"
		}),
		on("ecs:ModifySecurityGroupAttribute", ecs.CreateModifySecurityGroupAttributeRequest, ecs.CreateModifySecurityGroupAttributeResponse, func(r *ecs.ModifySecurityGroupAttributeRequest) {
			r.SecurityGroupId, r.Description = "sg-b", "d"
		}),
		on("ecs:ModifySecurityGroupRule", ecs.CreateModifySecurityGroupRuleRequest, ecs.CreateModifySecurityGroupRuleResponse, func(r *ecs.ModifySecurityGroupRuleRequest) {
			r.SecurityGroupId, r.SecurityGroupRuleId, r.Description = "sg-b", "sgr-a", "d"
		}),
		on("ecs:AuthorizeSecurityGroup", ecs.CreateAuthorizeSecurityGroupRequest, ecs.CreateAuthorizeSecurityGroupResponse, func(r *ecs.AuthorizeSecurityGroupRequest) {
			r.SecurityGroupId, r.Permissions = "sg-b", &[]ecs.AuthorizeSecurityGroupPermissions{{IpProtocol: "TCP", PortRange: "81/81", SourceCidrIp: "192.0.2.0/24"}}
		}),
		on("ecs:RevokeSecurityGroup", ecs.CreateRevokeSecurityGroupRequest, ecs.CreateRevokeSecurityGroupResponse, func(r *ecs.RevokeSecurityGroupRequest) {
			r.SecurityGroupId, r.Permissions = "sg-b", &[]ecs.RevokeSecurityGroupPermissions{{IpProtocol: "TCP", PortRange: "80/80", SourceCidrIp: "192.0.2.0/24"}}
		}),
	}
}
