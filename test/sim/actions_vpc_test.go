package sim_test

import "github.com/aliyun/alibaba-cloud-sdk-go/services/vpc"

func vpcCalls() []actionCall {
	return []actionCall{
		on("vpc:DescribeVSwitches", vpc.CreateDescribeVSwitchesRequest, vpc.CreateDescribeVSwitchesResponse),
		on("vpc:DescribeVSwitchAttributes", vpc.CreateDescribeVSwitchAttributesRequest, vpc.CreateDescribeVSwitchAttributesResponse, "VSwitchId", "vsw-h"),
		on("vpc:DescribeVpcs", vpc.CreateDescribeVpcsRequest, vpc.CreateDescribeVpcsResponse),
		on("vpc:DescribeVpcAttribute", vpc.CreateDescribeVpcAttributeRequest, vpc.CreateDescribeVpcAttributeResponse, "VpcId", "vpc-1"),
		on("vpc:DescribeEipAddresses", vpc.CreateDescribeEipAddressesRequest, vpc.CreateDescribeEipAddressesResponse),
		on("vpc:CreateVSwitch", vpc.CreateCreateVSwitchRequest, vpc.CreateCreateVSwitchResponse, "VpcId", "vpc-1", "ZoneId", "cn-hangzhou-i", "CidrBlock",
			"10.99.0.0/24"),
		on("vpc:DescribeRouteTableList", vpc.CreateDescribeRouteTableListRequest, vpc.CreateDescribeRouteTableListResponse, "VpcId", "vpc-1"),
		on("vpc:DescribeRouteTables", vpc.CreateDescribeRouteTablesRequest, vpc.CreateDescribeRouteTablesResponse, "RouteTableId", "vtb-a"),
		on("vpc:DescribeRouteEntryList", vpc.CreateDescribeRouteEntryListRequest, vpc.CreateDescribeRouteEntryListResponse, "RouteTableId", "vtb-a"),
		on("vpc:CreateRouteEntry", vpc.CreateCreateRouteEntryRequest, vpc.CreateCreateRouteEntryResponse, "RouteTableId", "vtb-a", "DestinationCidrBlock",
			"172.20.1.0/24", "NextHopId", "i-a"),
		on("vpc:DeleteRouteEntry", vpc.CreateDeleteRouteEntryRequest, vpc.CreateDeleteRouteEntryResponse, "RouteEntryId", "rte-a"),
		on("vpc:CreateRouteEntries", vpc.CreateCreateRouteEntriesRequest, vpc.CreateCreateRouteEntriesResponse, "RouteEntries",
			&[]vpc.CreateRouteEntriesRouteEntries{{RouteTableId: "vtb-a", DstCidrBlock: "172.20.1.0/24", NextHop: "i-a"}}),
		on("vpc:DeleteRouteEntries", vpc.CreateDeleteRouteEntriesRequest, vpc.CreateDeleteRouteEntriesResponse, "RouteEntries",
			&[]vpc.DeleteRouteEntriesRouteEntries{{RouteTableId: "vtb-a", DstCidrBlock: "172.20.0.0/24", NextHop: "i-a"}}),
	}
}
