package cloud

import (
	"context"
	"slices"
	"strings"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/ecs"
)

// ECS reads network interfaces.
type ECS struct{ c *client }

// An Interface is an elastic network interface (ENI).
type Interface struct {
	ID     string
	Status string   // "InUse", "Available" and the steps between
	IP     string   // the primary private IP address
	IPs    []string // all private IPv4 and IPv6 addresses, sorted
}

// ipsAtOnce is how many addresses DescribeNetworkInterfaces accepts:
// https://www.alibabacloud.com/help/en/ecs/developer-reference/api-ecs-2014-05-26-describenetworkinterfaces
const ipsAtOnce = 100

// Interfaces returns the network interfaces of a VPC with one of these private IPv4 or IPv6 addresses, if any. It needs grant.DescribeNetworkInterfaces.
func (e ECS) Interfaces(ctx context.Context, vpcID string, ips []string) ([]Interface, error) {
	const action = "DescribeNetworkInterfaces"
	switch {
	case vpcID == "":
		return nil, absent("ecs", action, "VPC ID")
	case len(ips) == 0 || slices.Contains(ips, ""):
		return nil, absent("ecs", action, "list of addresses, or one of them,")
	}
	type set struct {
		NetworkInterfaceID text `json:"NetworkInterfaceId"`
		Status             text
		PrivateIPAddress   text `json:"PrivateIpAddress"`
		PrivateIPSets      struct {
			PrivateIPSet []struct {
				PrivateIPAddress text `json:"PrivateIpAddress"`
			} `json:"PrivateIpSet"`
		} `json:"PrivateIpSets"`
		Ipv6Sets struct {
			Ipv6Set []struct{ Ipv6Address text }
		}
	}
	type answer struct {
		NextToken            text
		NetworkInterfaceSets *struct{ NetworkInterfaceSet []set }
	}
	// One call takes addresses of one family: with two it returns interfaces that have some of each.
	v6 := func(ip string) bool { return strings.Contains(ip, ":") }
	parts := slices.AppendSeq(
		slices.Collect(slices.Chunk(slices.DeleteFunc(slices.Clone(ips), v6), ipsAtOnce)),
		slices.Chunk(slices.DeleteFunc(slices.Clone(ips), func(ip string) bool { return !v6(ip) }), ipsAtOnce))
	var list []Interface
	for _, part := range parts {
		sets, err := chained("ecs", action, pages(ctx, e.c, listing[string, answer, set]{
			request: func(token string) requests.AcsRequest {
				r := ecs.CreateDescribeNetworkInterfacesRequest()
				r.VpcId = vpcID
				if v6(part[0]) {
					r.Ipv6Address = new(slices.Clone(part))
				} else {
					r.PrivateIpAddress = new(slices.Clone(part))
				}
				r.NextToken, r.MaxResults = token, whole(100)
				return r
			},
			page: func(a answer) (p pageOf[set], err error) {
				if a.NetworkInterfaceSets == nil {
					return p, lack("NetworkInterfaceSets")
				}
				return pageOf[set]{items: a.NetworkInterfaceSets.NetworkInterfaceSet, next: string(a.NextToken)}, nil
			},
			check: func(s set) error {
				if s.NetworkInterfaceID == "" || s.Status == "" {
					return lack("ID and status of network interface %q", s.NetworkInterfaceID)
				}
				return nil
			},
		}))
		if err != nil {
			return nil, err
		}
		for _, s := range sets {
			i := Interface{ID: string(s.NetworkInterfaceID), Status: string(s.Status), IP: string(s.PrivateIPAddress)}
			for _, p := range s.PrivateIPSets.PrivateIPSet {
				i.IPs = append(i.IPs, string(p.PrivateIPAddress))
			}
			for _, p := range s.Ipv6Sets.Ipv6Set {
				i.IPs = append(i.IPs, string(p.Ipv6Address))
			}
			slices.Sort(i.IPs)
			list = append(list, i)
		}
	}
	return sorted(list, func(i Interface) string { return i.ID }), nil
}
