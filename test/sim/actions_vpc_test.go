package sim_test

import "github.com/aliyun/alibaba-cloud-sdk-go/services/vpc"

// vpcCalls are the calls of the network.
func vpcCalls() []actionCall {
	return []actionCall{
		on("vpc:DescribeVSwitches", vpc.CreateDescribeVSwitchesRequest, vpc.CreateDescribeVSwitchesResponse, nil),
		on("vpc:DescribeVSwitchAttributes", vpc.CreateDescribeVSwitchAttributesRequest, vpc.CreateDescribeVSwitchAttributesResponse, func(r *vpc.DescribeVSwitchAttributesRequest) {
			r.VSwitchId = "vsw-h"
		}),
		on("vpc:DescribeVpcs", vpc.CreateDescribeVpcsRequest, vpc.CreateDescribeVpcsResponse, nil),
		on("vpc:DescribeVpcAttribute", vpc.CreateDescribeVpcAttributeRequest, vpc.CreateDescribeVpcAttributeResponse, func(r *vpc.DescribeVpcAttributeRequest) {
			r.VpcId = "vpc-1"
		}),
		on("vpc:DescribeEipAddresses", vpc.CreateDescribeEipAddressesRequest, vpc.CreateDescribeEipAddressesResponse, nil),
		on("vpc:CreateVSwitch", vpc.CreateCreateVSwitchRequest, vpc.CreateCreateVSwitchResponse, func(r *vpc.CreateVSwitchRequest) {
			r.VpcId, r.ZoneId, r.CidrBlock = "vpc-1", "cn-hangzhou-i", "10.99.0.0/24"
		}),
		on("vpc:DescribeRouteTableList", vpc.CreateDescribeRouteTableListRequest, vpc.CreateDescribeRouteTableListResponse, func(r *vpc.DescribeRouteTableListRequest) {
			r.VpcId = "vpc-1"
		}),
		on("vpc:DescribeRouteTables", vpc.CreateDescribeRouteTablesRequest, vpc.CreateDescribeRouteTablesResponse, func(r *vpc.DescribeRouteTablesRequest) {
			r.RouteTableId = "vtb-a"
		}),
		on("vpc:DescribeRouteEntryList", vpc.CreateDescribeRouteEntryListRequest, vpc.CreateDescribeRouteEntryListResponse, func(r *vpc.DescribeRouteEntryListRequest) {
			r.RouteTableId = "vtb-a"
		}),
		on("vpc:CreateRouteEntry", vpc.CreateCreateRouteEntryRequest, vpc.CreateCreateRouteEntryResponse, func(r *vpc.CreateRouteEntryRequest) {
			r.RouteTableId, r.DestinationCidrBlock, r.NextHopId = "vtb-a", "172.20.1.0/24", "i-a"
		}),
		on("vpc:DeleteRouteEntry", vpc.CreateDeleteRouteEntryRequest, vpc.CreateDeleteRouteEntryResponse, func(r *vpc.DeleteRouteEntryRequest) {
			r.RouteEntryId = "rte-a"
		}),
		on("vpc:CreateRouteEntries", vpc.CreateCreateRouteEntriesRequest, vpc.CreateCreateRouteEntriesResponse, func(r *vpc.CreateRouteEntriesRequest) {
			r.RouteEntries = &[]vpc.CreateRouteEntriesRouteEntries{{RouteTableId: "vtb-a", DstCidrBlock: "172.20.1.0/24", NextHop: "i-a"}}
		}),
		on("vpc:DeleteRouteEntries", vpc.CreateDeleteRouteEntriesRequest, vpc.CreateDeleteRouteEntriesResponse, func(r *vpc.DeleteRouteEntriesRequest) {
			r.RouteEntries = &[]vpc.DeleteRouteEntriesRouteEntries{{RouteTableId: "vtb-a", DstCidrBlock: "172.20.0.0/24", NextHop: "i-a"}}
		}),
	}
}
