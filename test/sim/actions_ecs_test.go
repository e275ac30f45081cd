package sim_test

import "github.com/aliyun/alibaba-cloud-sdk-go/services/ecs"

func ecsCalls() []actionCall {
	return []actionCall{
		on("ecs:DescribeInstances", ecs.CreateDescribeInstancesRequest, ecs.CreateDescribeInstancesResponse),
		on("ecs:DescribeNetworkInterfaces", ecs.CreateDescribeNetworkInterfacesRequest, ecs.CreateDescribeNetworkInterfacesResponse),
		on("ecs:DescribeNetworkInterfaceAttribute", ecs.CreateDescribeNetworkInterfaceAttributeRequest, ecs.CreateDescribeNetworkInterfaceAttributeResponse,
			"NetworkInterfaceId", "eni-a"),
		on("ecs:ModifyNetworkInterfaceAttribute", ecs.CreateModifyNetworkInterfaceAttributeRequest, ecs.CreateModifyNetworkInterfaceAttributeResponse,
			"NetworkInterfaceId", "eni-a", "Description", "d"),
		on("ecs:CreateSecurityGroup", ecs.CreateCreateSecurityGroupRequest, ecs.CreateCreateSecurityGroupResponse, "RegionId", "cn-hangzhou", "VpcId", "vpc-1"),
		on("ecs:DeleteSecurityGroup", ecs.CreateDeleteSecurityGroupRequest, ecs.CreateDeleteSecurityGroupResponse, "SecurityGroupId", "sg-a"),
		on("ecs:DescribeSecurityGroups", ecs.CreateDescribeSecurityGroupsRequest, ecs.CreateDescribeSecurityGroupsResponse),
		on("ecs:DescribeSecurityGroupAttribute", ecs.CreateDescribeSecurityGroupAttributeRequest, ecs.CreateDescribeSecurityGroupAttributeResponse,
			"SecurityGroupId", "sg-b"),
		on("ecs:ModifySecurityGroupAttribute", ecs.CreateModifySecurityGroupAttributeRequest, ecs.CreateModifySecurityGroupAttributeResponse, "SecurityGroupId",
			"sg-b", "Description", "d"),
		on("ecs:ModifySecurityGroupRule", ecs.CreateModifySecurityGroupRuleRequest, ecs.CreateModifySecurityGroupRuleResponse, "SecurityGroupId", "sg-b",
			"SecurityGroupRuleId", "sgr-a", "Description", "d"),
		on("ecs:AuthorizeSecurityGroup", ecs.CreateAuthorizeSecurityGroupRequest, ecs.CreateAuthorizeSecurityGroupResponse, "SecurityGroupId", "sg-b",
			"Permissions", &[]ecs.AuthorizeSecurityGroupPermissions{{IpProtocol: "TCP", PortRange: "81/81", SourceCidrIp: "192.0.2.0/24"}}),
		on("ecs:RevokeSecurityGroup", ecs.CreateRevokeSecurityGroupRequest, ecs.CreateRevokeSecurityGroupResponse, "SecurityGroupId", "sg-b", "Permissions",
			&[]ecs.RevokeSecurityGroupPermissions{{IpProtocol: "TCP", PortRange: "80/80", SourceCidrIp: "192.0.2.0/24"}}),
	}
}
