package vpc_test

import (
	"fmt"
	"testing"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/vpc"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/simtest"
)

func TestVPC(t *testing.T) {
	w := &sim.World{EIPs: []sim.EIP{{IP: "198.51.100.7", Instance: "lb-1"}}}
	for i := range 60 {
		w.VSwitches = append(w.VSwitches, sim.VSwitch{ID: fmt.Sprintf("vsw-%02d", i), Free: new(i)})
	}
	c := sim.New(t, w)
	client := simtest.Dial(t, c, c.Admin(), vpc.NewClientWithOptions)
	seen := 0
	for page := 1; ; page++ {
		r := vpc.CreateDescribeVSwitchesRequest()
		r.VpcId, r.PageSize, r.PageNumber = "vpc-1", requests.NewInteger(50), requests.NewInteger(page)
		resp, err := client.DescribeVSwitches(r)
		simtest.Check(t, err)
		if len(resp.VSwitches.VSwitch) == 0 {
			break
		}
		for _, v := range resp.VSwitches.VSwitch {
			if v.AvailableIpAddressCount != int64(seen) || v.Status != "Available" || v.ZoneId != "cn-hangzhou-h" {
				t.Errorf("got %+v", v)
			}
			seen++
		}
	}
	if seen != 60 {
		t.Errorf("got %d vSwitches, want 60", seen)
	}
	r := vpc.CreateDescribeVSwitchesRequest()
	r.PageSize = requests.NewInteger(51)
	_, err := client.DescribeVSwitches(r)
	simtest.Refused(t, err, "InvalidParameter.PageSize", 400)

	a := vpc.CreateDescribeVSwitchAttributesRequest()
	a.VSwitchId = "vsw-07"
	one, err := client.DescribeVSwitchAttributes(a)
	simtest.Check(t, err)
	if one.AvailableIpAddressCount != 7 || one.VpcId != "vpc-1" {
		t.Errorf("got %+v", one)
	}
	a.VSwitchId = "vsw-x"
	_, err = client.DescribeVSwitchAttributes(a)
	simtest.Refused(t, err, "InvalidVswitchID.NotFound", 404)
	v := vpc.CreateDescribeVpcAttributeRequest()
	v.VpcId = "vpc-1"
	net, err := client.DescribeVpcAttribute(v)
	simtest.Check(t, err)
	if net.CidrBlock != "10.0.0.0/8" || len(net.VSwitchIds.VSwitchId) != 60 {
		t.Errorf("got %+v", net)
	}
	v.VpcId = "vpc-x"
	_, err = client.DescribeVpcAttribute(v)
	simtest.Refused(t, err, "InvalidVpcId.NotFound", 404)
	e := vpc.CreateDescribeEipAddressesRequest()
	e.AssociatedInstanceId, e.AssociatedInstanceType = "lb-1", "SlbInstance"
	eips, err := client.DescribeEipAddresses(e)
	simtest.Check(t, err)
	if l := eips.EipAddresses.EipAddress; len(l) != 1 || l[0].IpAddress != "198.51.100.7" || l[0].Status != "InUse" {
		t.Errorf("got %+v", l)
	}
}
