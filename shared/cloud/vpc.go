package cloud

import (
	"context"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/vpc"
)

// VPC reads vSwitches and elastic IP addresses.
type VPC struct{ c *client }

// A VSwitch is a subnet of a VPC in one zone.
type VSwitch struct {
	ID     string
	Zone   string
	CIDR   string // of IPv4
	Status string // "Available", or "Pending" while it is being created
	Free   int64  // unused IPv4 addresses
	IPv6   bool   // it has an IPv6 block
}

// VSwitches returns the vSwitches of a VPC, or ErrNotFound. It needs grant.DescribeVSwitches.
func (v VPC) VSwitches(ctx context.Context, vpcID string) ([]VSwitch, error) {
	type wireVSwitch struct {
		VSwitchID               text `json:"VSwitchId"`
		VpcID                   text `json:"VpcId"`
		ZoneID                  text `json:"ZoneId"`
		CidrBlock               text
		Ipv6CidrBlock           text
		Status                  text
		AvailableIPAddressCount number `json:"AvailableIpAddressCount"`
	}
	type answer struct {
		TotalCount number
		VSwitches  struct{ VSwitch []wireVSwitch }
	}
	of := func(w wireVSwitch) string { return string(w.VSwitchID) }
	list, err := numbered("vpc", "DescribeVSwitches", of, pages(ctx, v.c, listing[int, answer, wireVSwitch]{
		needs: needs{{"VPC ID", vpcID}},
		request: func(page int) requests.AcsRequest {
			r := vpc.CreateDescribeVSwitchesRequest()
			r.VpcId = vpcID
			r.PageNumber, r.PageSize = whole(page), whole(50)
			return r
		},
		page: func(a answer) (pageOf[wireVSwitch], error) { return counted(a.TotalCount, a.VSwitches.VSwitch) },
		check: func(w wireVSwitch) error {
			switch {
			case w.VSwitchID == "" || w.VpcID == "" || w.ZoneID == "" || w.Status == "":
				return lack("ID, VPC, zone and status of vSwitch %q", w.VSwitchID)
			case !w.AvailableIPAddressCount.ok:
				return lack("AvailableIpAddressCount of vSwitch %s", w.VSwitchID)
			case string(w.VpcID) != vpcID:
				return lack("vSwitches of %s alone: %s is one of %s", vpcID, w.VSwitchID, w.VpcID)
			}
			return nil
		},
		gone:      []string{"InvalidVpcId.NotFound"},
		shareable: true,
	}))
	return values(list, func(w wireVSwitch) VSwitch {
		return VSwitch{
			ID: string(w.VSwitchID), Zone: string(w.ZoneID), CIDR: string(w.CidrBlock), Status: string(w.Status),
			Free: w.AvailableIPAddressCount.n, IPv6: w.Ipv6CidrBlock != "",
		}
	}), err
}

// EIPs returns the ID of the resource to which the region's elastic IP address with this IP is bound, if any. It needs grant.DescribeEipAddresses.
func (v VPC) EIPs(ctx context.Context, ip string) ([]string, error) {
	type wireEIP struct {
		AllocationID text `json:"AllocationId"`
		IPAddress    text `json:"IpAddress"`
		InstanceID   text `json:"InstanceId"`
	}
	type answer struct {
		TotalCount   number
		EipAddresses struct{ EipAddress []wireEIP }
	}
	id := func(w wireEIP) string { return string(w.AllocationID) }
	list, err := numbered("vpc", "DescribeEipAddresses", id, pages(ctx, v.c, listing[int, answer, wireEIP]{
		needs: needs{{"IP address", ip}},
		request: func(page int) requests.AcsRequest {
			r := vpc.CreateDescribeEipAddressesRequest()
			r.EipAddress = ip
			r.PageNumber, r.PageSize = whole(page), whole(50)
			return r
		},
		page: func(a answer) (pageOf[wireEIP], error) { return counted(a.TotalCount, a.EipAddresses.EipAddress) },
		check: func(w wireEIP) error {
			if w.AllocationID == "" || string(w.IPAddress) != ip {
				return lack("ID and address of the elastic IP address %s", ip)
			}
			return nil
		},
	}))
	return strs(values(list, func(w wireEIP) text { return w.InstanceID })), err
}
