package vpc_test

import (
	"testing"

	"github.com/aliyun/alibaba-cloud-sdk-go/services/ecs"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/vpc"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/simtest"
)

func TestIPv6(t *testing.T) {
	c := sim.New(t, &sim.World{
		VPCs:      []sim.VPC{{ID: "vpc-1"}, {ID: "vpc-2"}},
		VSwitches: []sim.VSwitch{{ID: "vsw-1", VPC: "vpc-1", IPv6: "2001:db8:1:a01::/64"}, {ID: "vsw-2", VPC: "vpc-2"}},
		ENIs:      []sim.ENI{{ID: "eni-1", IPs: []string{"10.0.0.8", "2001:db8:1:a01::8"}}, {ID: "eni-2", IPs: []string{"10.0.0.9"}}},
	})
	r := ecs.CreateDescribeNetworkInterfacesRequest()
	r.Ipv6Address = &[]string{"2001:db8:1:a01::8"}
	enis, err := simtest.Dial(t, c, c.Admin(), ecs.NewClientWithOptions).DescribeNetworkInterfaces(r)
	simtest.Check(t, err)
	if len(enis.NetworkInterfaceSets.NetworkInterfaceSet) != 1 {
		t.Fatalf("found %+v", enis.NetworkInterfaceSets)
	}
	eni := enis.NetworkInterfaceSets.NetworkInterfaceSet[0]
	if eni.NetworkInterfaceId != "eni-1" || len(eni.PrivateIpSets.PrivateIpSet) != 1 || len(eni.Ipv6Sets.Ipv6Set) != 1 ||
		eni.Ipv6Sets.Ipv6Set[0].Ipv6Address != "2001:db8:1:a01::8" {
		t.Errorf("got %+v", eni)
	}
	for id, want := range map[string]string{"vpc-1": "2001:db8:1:a00::/56", "vpc-2": ""} {
		r := vpc.CreateDescribeVpcAttributeRequest()
		r.VpcId = id
		got, err := simtest.Dial(t, c, c.Admin(), vpc.NewClientWithOptions).DescribeVpcAttribute(r)
		simtest.Check(t, err)
		if got.Ipv6CidrBlock != want {
			t.Errorf("%s has the block %q, want %q", id, got.Ipv6CidrBlock, want)
		}
	}
}
