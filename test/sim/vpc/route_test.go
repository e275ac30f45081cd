package vpc_test

import (
	"testing"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/vpc"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/simtest"
)

func TestRoutes(t *testing.T) {
	now := time.Now()
	c := sim.New(t, &sim.World{
		Instances: []sim.Instance{{ID: "i-a"}}, Quotas: []sim.Quota{{Product: "vpc", Name: "vpc_quota_route_entrys_num", Total: 3}},
		Lag: sim.Lag{Routes: sim.Duration(time.Second)},
	}, sim.WithClock(func() time.Time { return now }))
	client := simtest.Dial(t, c, c.Admin(), vpc.NewClientWithOptions)
	tables := vpc.CreateDescribeRouteTableListRequest()
	tables.VpcId = "vpc-1"
	all, err := client.DescribeRouteTableList(tables)
	simtest.Check(t, err)
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
		simtest.Check(t, err)
		return resp.RouteEntrys.RouteEntry
	}
	one, err := make("172.20.0.0/24", "i-a")
	simtest.Check(t, err)
	_, err = make("172.20.1.0/24", "i-a")
	simtest.Refused(t, err, "IncorrectRouteEntryStatus", 400)
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
		simtest.Refused(t, err, tt.code, tt.status)
	}
	many := vpc.CreateCreateRouteEntriesRequest()
	many.RouteEntries = &[]vpc.CreateRouteEntriesRouteEntries{
		{RouteTableId: table, DstCidrBlock: "172.20.1.0/24", NextHop: "i-a", NextHopType: "Instance"},
		{RouteTableId: table, DstCidrBlock: "172.20.1.0/24", NextHop: "i-a", NextHopType: "Instance"},
		{RouteTableId: table, DstCidrBlock: "172.20.2.0/24", NextHop: "i-a", NextHopType: "Instance"},
		{RouteTableId: table, DstCidrBlock: "172.20.3.0/24", NextHop: "i-a", NextHopType: "Instance"},
	}
	made, err := client.CreateRouteEntries(many)
	simtest.Check(t, err)
	if f := made.FailedRouteEntries; made.SuccessCount != 2 || len(f) != 2 || f[0].FailedCode != "VPC_ROUTE_ENTRY_CIDR_BLOCK_DUPLICATE" ||
		f[1].FailedCode != "QuotaExceeded" || f[1].FailedMessage != "Route entry quota exceeded in this route table." {
		t.Errorf("got %+v", made)
	}
	gone := vpc.CreateDeleteRouteEntriesRequest()
	gone.RouteEntries = &[]vpc.DeleteRouteEntriesRouteEntries{{RouteTableId: table, DstCidrBlock: "172.20.1.0/24", NextHop: "i-a"},
		{RouteEntryId: "rte-x", RouteTableId: table}}
	dropped, err := client.DeleteRouteEntries(gone)
	simtest.Check(t, err)
	if dropped.SuccessCount != 1 || dropped.FailedCount != 1 || len(list("Custom")) != 2 {
		t.Errorf("got %+v", dropped)
	}
	del := vpc.CreateDeleteRouteEntryRequest()
	del.RouteEntryId = one.RouteEntryId
	_, err = client.DeleteRouteEntry(del)
	simtest.Check(t, err)
	_, err = client.DeleteRouteEntry(del)
	simtest.Refused(t, err, "InvalidRouteEntry.NotFound", 404)
	r := vpc.CreateDescribeVpcAttributeRequest()
	r.VpcId = "vpc-1"
	if v, err := client.DescribeVpcAttribute(r); err != nil || v.VRouterId != "vrt-vpc-1" {
		t.Errorf("got %+v, %v", v, err)
	}
}

func TestCreateVSwitch(t *testing.T) {
	c := sim.New(t, nil)
	client := simtest.Dial(t, c, c.Admin(), vpc.NewClientWithOptions)
	make := func(vpcID, zone, block string) (*vpc.CreateVSwitchResponse, error) {
		r := vpc.CreateCreateVSwitchRequest()
		r.VpcId, r.ZoneId, r.CidrBlock = vpcID, zone, block
		return client.CreateVSwitch(r)
	}
	made, err := make("vpc-1", "cn-hangzhou-i", "10.9.0.0/24")
	simtest.Check(t, err)
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
		simtest.Refused(t, err, tt.code, tt.status)
	}
}
