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
	VPC    string // ID
	Zone   string
	CIDR   string // of IPv4
	Status string // "Available", or "Pending" while it is being made
	Name   string
	Free   int64 // addresses of IPv4 that nobody uses
	IPv6   bool  // it has a CIDR block of IPv6
}

// An EIP is an elastic IP address.
type EIP struct {
	ID           string
	Address      string // IP address
	Name         string
	Status       string // "InUse", "Available" and the steps between
	InstanceID   string // what it is bound to; empty: nothing
	InstanceType string // such as "SlbInstance", "NetworkInterface"
	VPC          string // ID; empty if it is bound to nothing in a VPC
}

// VSwitches returns the vSwitches of the VPC with this ID. The error is
// ErrNotFound if the API says that there is no such VPC.
//
// It needs grant.DescribeVSwitches.
func (v VPC) VSwitches(ctx context.Context, vpcID string) ([]VSwitch, error) {
	if vpcID == "" {
		return nil, absent("vpc", "DescribeVSwitches", "VPC ID")
	}
	return v.vswitches(ctx, vpcID, "")
}

// VSwitch returns the vSwitch with this ID. The error is ErrNotFound if the
// region has none.
//
// It needs grant.DescribeVSwitches.
func (v VPC) VSwitch(ctx context.Context, id string) (VSwitch, error) {
	const action = "DescribeVSwitches"
	if id == "" {
		return VSwitch{}, absent("vpc", action, "vSwitch ID")
	}
	list, err := v.vswitches(ctx, "", id)
	switch {
	case err != nil:
		return VSwitch{}, err
	case len(list) == 0:
		return VSwitch{}, &Error{
			Product: "vpc", Action: action, Code: "InvalidVSwitchId.NotFound", Message: "there is no vSwitch " + id, Status: 200, kind: ErrNotFound,
		}
	case len(list) > 1 || list[0].ID != id:
		return VSwitch{}, &Error{
			Product: "vpc", Action: action, Code: codeBadAnswer, Message: "the answer is not about vSwitch " + id + " alone", Status: 200, kind: ErrUnavailable,
		}
	}
	return list[0], nil
}

type wireVSwitch struct {
	VSwitchID               text `json:"VSwitchId"`
	VpcID                   text `json:"VpcId"`
	ZoneID                  text `json:"ZoneId"`
	CidrBlock               text
	Ipv6CidrBlock           text
	Status                  text
	VSwitchName             text
	AvailableIPAddressCount number `json:"AvailableIpAddressCount"`
}

func (v VPC) vswitches(ctx context.Context, vpcID, id string) ([]VSwitch, error) {
	type answer struct {
		TotalCount number
		VSwitches  struct{ VSwitch []wireVSwitch }
	}
	of := func(w wireVSwitch) string { return string(w.VSwitchID) }
	list, err := numbered("vpc", "DescribeVSwitches", of, pages(ctx, v.c, listing[int, answer, wireVSwitch]{
		request: func(page int) requests.AcsRequest {
			r := vpc.CreateDescribeVSwitchesRequest()
			r.VpcId, r.VSwitchId = vpcID, id
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
			case vpcID != "" && string(w.VpcID) != vpcID:
				return lack("vSwitches of %s alone: %s is one of %s", vpcID, w.VSwitchID, w.VpcID)
			}
			return nil
		},
		gone:  []string{"InvalidVpcId.NotFound", "InvalidVSwitchId.NotFound"},
		crowd: id == "",
	}))
	if err != nil {
		return nil, err
	}
	var out []VSwitch
	for _, w := range list {
		out = append(out, VSwitch{
			ID: string(w.VSwitchID), VPC: string(w.VpcID), Zone: string(w.ZoneID), CIDR: string(w.CidrBlock),
			Status: string(w.Status), Name: string(w.VSwitchName), Free: w.AvailableIPAddressCount.n, IPv6: w.Ipv6CidrBlock != "",
		})
	}
	return out, nil
}

// EIPs returns the elastic IP addresses of the region that have this IP address:
// one or none.
//
// It needs grant.DescribeEipAddresses.
func (v VPC) EIPs(ctx context.Context, ip string) ([]EIP, error) {
	if ip == "" {
		return nil, absent("vpc", "DescribeEipAddresses", "IP address")
	}
	type wireEIP struct {
		AllocationID text `json:"AllocationId"`
		IPAddress    text `json:"IpAddress"`
		Name         text
		Status       text
		InstanceID   text `json:"InstanceId"`
		InstanceType text
		VpcID        text `json:"VpcId"`
	}
	type answer struct {
		TotalCount   number
		EipAddresses struct{ EipAddress []wireEIP }
	}
	id := func(w wireEIP) string { return string(w.AllocationID) }
	list, err := numbered("vpc", "DescribeEipAddresses", id, pages(ctx, v.c, listing[int, answer, wireEIP]{
		request: func(page int) requests.AcsRequest {
			r := vpc.CreateDescribeEipAddressesRequest()
			r.EipAddress = ip
			r.PageNumber, r.PageSize = whole(page), whole(50)
			return r
		},
		page: func(a answer) (pageOf[wireEIP], error) { return counted(a.TotalCount, a.EipAddresses.EipAddress) },
		check: func(w wireEIP) error {
			if w.AllocationID == "" || string(w.IPAddress) != ip || w.Status == "" {
				return lack("ID, address and status of the elastic IP address %s", ip)
			}
			return nil
		},
	}))
	if err != nil {
		return nil, err
	}
	var out []EIP
	for _, w := range list {
		out = append(out, EIP{
			ID: string(w.AllocationID), Address: string(w.IPAddress), Name: string(w.Name), Status: string(w.Status),
			InstanceID: string(w.InstanceID), InstanceType: string(w.InstanceType), VPC: string(w.VpcID),
		})
	}
	return out, nil
}
