package sim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/ecs"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/vpc"

	"github.com/lbremedy/lbremedy/test/sim"
)

func TestRoutes(t *testing.T) {
	now := time.Now()
	c := sim.New(t, &sim.World{
		Instances: []sim.Instance{{ID: "i-a"}}, Quotas: []sim.Quota{{Product: "vpc", Name: "vpc_quota_route_entrys_num", Total: 3}},
		Lag: sim.Lag{Routes: sim.Duration(time.Second)},
	}, sim.WithClock(func() time.Time { return now }))
	client := dial(t, c, c.Admin(), vpc.NewClientWithOptions)
	tables := vpc.CreateDescribeRouteTableListRequest()
	tables.VpcId = "vpc-1"
	all, err := client.DescribeRouteTableList(tables)
	check(t, err)
	if l := all.RouterTableList.RouterTableListType; len(l) != 1 || l[0].RouteTableType != "System" || l[0].VSwitchIds.VSwitchId[0] != "vsw-1" {
		t.Fatalf("got %+v", l)
	}
	table := all.RouterTableList.RouterTableListType[0].RouteTableId
	make := func(block, hop string) (*vpc.CreateRouteEntryResponse, error) {
		r := vpc.CreateCreateRouteEntryRequest()
		r.RouteTableId, r.DestinationCidrBlock, r.NextHopId = table, block, hop
		return client.CreateRouteEntry(r)
	}
	list := func(kind string) []vpc.RouteEntry {
		t.Helper()
		r := vpc.CreateDescribeRouteEntryListRequest()
		r.RouteTableId, r.RouteEntryType, r.MaxResult = table, kind, requests.NewInteger(100)
		resp, err := client.DescribeRouteEntryList(r)
		check(t, err)
		return resp.RouteEntrys.RouteEntry
	}
	one, err := make("172.20.0.0/24", "i-a")
	check(t, err)
	_, err = make("172.20.1.0/24", "i-a")
	refused(t, err, "IncorrectRouteEntryStatus", 400)
	c.Edit(func(*sim.State) { now = now.Add(time.Second) })
	if l := list("Custom"); len(l) != 1 || l[0].RouteEntryId != one.RouteEntryId || l[0].Status != "Available" || l[0].NextHops.NextHop[0].NextHopId != "i-a" {
		t.Errorf("got %+v", l)
	}
	if l := list("System"); len(l) != 1 {
		t.Errorf("got %+v", l)
	}
	for _, tt := range []struct {
		block, hop, code string
		status           int
	}{
		{"172.20.0.0/24", "i-a", "InvalidCIDRBlock.Duplicate", 400}, {"172.20.1.0/24", "i-x", "InvalidNextHopId.NotFound", 404},
		{"100.64.1.0/24", "i-a", "InvalidCidrBlock", 400}, {"10.0.0.0/24", "i-a", "InvalidCidrBlock", 400}, {"here", "i-a", "InvalidCidrBlock.Malformed", 400},
	} {
		_, err := make(tt.block, tt.hop)
		refused(t, err, tt.code, tt.status)
	}
	many := vpc.CreateCreateRouteEntriesRequest()
	many.RouteEntries = &[]vpc.CreateRouteEntriesRouteEntries{
		{RouteTableId: table, DstCidrBlock: "172.20.1.0/24", NextHop: "i-a", NextHopType: "Instance"},
		{RouteTableId: table, DstCidrBlock: "172.20.1.0/24", NextHop: "i-a", NextHopType: "Instance"},
		{RouteTableId: table, DstCidrBlock: "172.20.2.0/24", NextHop: "i-a", NextHopType: "Instance"},
		{RouteTableId: table, DstCidrBlock: "172.20.3.0/24", NextHop: "i-a", NextHopType: "Instance"},
	}
	made, err := client.CreateRouteEntries(many)
	check(t, err)
	if f := made.FailedRouteEntries; made.SuccessCount != 2 || len(f) != 2 || f[0].FailedCode != "VPC_ROUTE_ENTRY_CIDR_BLOCK_DUPLICATE" ||
		f[1].FailedCode != "QuotaExceeded" || f[1].FailedMessage != "Route entry quota exceeded in this route table." {
		t.Errorf("got %+v", made)
	}
	gone := vpc.CreateDeleteRouteEntriesRequest()
	gone.RouteEntries = &[]vpc.DeleteRouteEntriesRouteEntries{{RouteTableId: table, DstCidrBlock: "172.20.1.0/24", NextHop: "i-a"}, {RouteEntryId: "rte-x", RouteTableId: table}}
	dropped, err := client.DeleteRouteEntries(gone)
	check(t, err)
	if dropped.SuccessCount != 1 || dropped.FailedCount != 1 || len(list("Custom")) != 2 {
		t.Errorf("got %+v", dropped)
	}
	del := vpc.CreateDeleteRouteEntryRequest()
	del.RouteEntryId = one.RouteEntryId
	_, err = client.DeleteRouteEntry(del)
	check(t, err)
	_, err = client.DeleteRouteEntry(del)
	refused(t, err, "InvalidRouteEntry.NotFound", 404)
	r := vpc.CreateDescribeVpcAttributeRequest()
	r.VpcId = "vpc-1"
	if v, err := client.DescribeVpcAttribute(r); err != nil || v.VRouterId != "vrt-vpc-1" {
		t.Errorf("got %+v, %v", v, err)
	}
}

func TestCreateVSwitch(t *testing.T) {
	c := sim.New(t, nil)
	client := dial(t, c, c.Admin(), vpc.NewClientWithOptions)
	make := func(vpcID, zone, block string) (*vpc.CreateVSwitchResponse, error) {
		r := vpc.CreateCreateVSwitchRequest()
		r.VpcId, r.ZoneId, r.CidrBlock = vpcID, zone, block
		return client.CreateVSwitch(r)
	}
	made, err := make("vpc-1", "cn-hangzhou-i", "10.9.0.0/24")
	check(t, err)
	if v := c.Snapshot().VSwitches[1]; v.ID != made.VSwitchId || *v.Free != 252 || v.Zone != "cn-hangzhou-i" {
		t.Errorf("got %+v", v)
	}
	for _, tt := range []struct {
		vpc, zone, block, code string
		status                 int
	}{
		{"vpc-x", "cn-hangzhou-i", "10.8.0.0/24", "InvalidVpcId.NotFound", 404}, {"vpc-1", "cn-hangzhou-x", "10.8.0.0/24", "InvalidZoneId.NotFound", 404},
		{"vpc-1", "cn-hangzhou-i", "10.8.0.0/30", "InvalidCidrBlock.Malformed", 400}, {"vpc-1", "cn-hangzhou-i", "192.168.0.0/24", "InvalidCidrBlock.Mismatch", 400},
		{"vpc-1", "cn-hangzhou-i", "10.9.0.128/25", "InvalidCidrBlock.Overlapped", 400},
	} {
		_, err := make(tt.vpc, tt.zone, tt.block)
		refused(t, err, tt.code, tt.status)
	}
}

// TestENIs finds one private address in two VPCs, and changes an interface.
func TestENIs(t *testing.T) {
	w := &sim.World{
		VPCs: []sim.VPC{{ID: "vpc-1"}, {ID: "vpc-2"}}, VSwitches: []sim.VSwitch{{ID: "vsw-1", VPC: "vpc-1"}, {ID: "vsw-2", VPC: "vpc-2", CIDR: "10.0.0.0/20"}},
		ENIs:           []sim.ENI{{ID: "eni-a", IPs: []string{"10.0.0.5"}, VSwitch: "vsw-1", Instance: "i-a", Type: "Primary"}, {ID: "eni-b", IPs: []string{"10.0.0.5"}, VSwitch: "vsw-2"}},
		Instances:      []sim.Instance{{ID: "i-a"}},
		SecurityGroups: []sim.SecurityGroup{{ID: "sg-a"}},
	}
	for i := range 600 {
		w.ENIs = append(w.ENIs, sim.ENI{ID: fmt.Sprintf("eni-x%03d", i), IPs: []string{fmt.Sprintf("10.0.%d.%d", 1+i/200, i%200)}, VSwitch: "vsw-1"})
	}
	c := sim.New(t, w)
	client := dial(t, c, c.Admin(), ecs.NewClientWithOptions)
	find := func(edit func(*ecs.DescribeNetworkInterfacesRequest)) *ecs.DescribeNetworkInterfacesResponse {
		t.Helper()
		r := ecs.CreateDescribeNetworkInterfacesRequest()
		edit(r)
		resp, err := client.DescribeNetworkInterfaces(r)
		check(t, err)
		return resp
	}
	both := find(func(r *ecs.DescribeNetworkInterfacesRequest) { r.PrivateIpAddress = &[]string{"10.0.0.5"} })
	if l := both.NetworkInterfaceSets.NetworkInterfaceSet; len(l) != 2 || l[0].VpcId != "vpc-1" || l[1].VpcId != "vpc-2" {
		t.Errorf("got %+v", l)
	}
	first := find(func(r *ecs.DescribeNetworkInterfacesRequest) {
		r.VpcId, r.MaxResults = "vpc-1", requests.NewInteger(500)
	})
	second := find(func(r *ecs.DescribeNetworkInterfacesRequest) {
		r.VpcId, r.MaxResults, r.NextToken = "vpc-1", requests.NewInteger(500), first.NextToken
	})
	if a, b := len(first.NetworkInterfaceSets.NetworkInterfaceSet), len(second.NetworkInterfaceSets.NetworkInterfaceSet); a != 500 || b != 101 || second.NextToken != "" {
		t.Errorf("got %d and %d", a, b)
	}
	set := ecs.CreateModifyNetworkInterfaceAttributeRequest()
	set.NetworkInterfaceId, set.Description, set.SecurityGroupId, set.SourceDestCheck = "eni-a", "of a node", &[]string{"sg-a"}, requests.NewBoolean(true)
	_, err := client.ModifyNetworkInterfaceAttribute(set)
	check(t, err)
	get := ecs.CreateDescribeNetworkInterfaceAttributeRequest()
	get.NetworkInterfaceId = "eni-a"
	if e, err := client.DescribeNetworkInterfaceAttribute(get); err != nil || e.Description != "of a node" || !e.SourceDestCheck || e.SecurityGroupIds.SecurityGroupId[0] != "sg-a" {
		t.Errorf("got %+v, %v", e, err)
	}
	set.SecurityGroupId = &[]string{"sg-x"}
	_, err = client.ModifyNetworkInterfaceAttribute(set)
	refused(t, err, "InvalidSecurityGroupId.NotFound", 404)
	set.NetworkInterfaceId = "eni-y"
	_, err = client.ModifyNetworkInterfaceAttribute(set)
	refused(t, err, "InvalidEniId.NotFound", 404)
	instances, err := client.DescribeInstances(ecs.CreateDescribeInstancesRequest())
	check(t, err)
	if n := instances.Instances.Instance[0].NetworkInterfaces.NetworkInterface; len(n) != 1 || n[0].NetworkInterfaceId != "eni-a" || n[0].Type != "Primary" {
		t.Errorf("got %+v", n)
	}
}
