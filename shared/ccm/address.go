package ccm

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
)

// AddressReads is what Addresses reads; a class that calls it declares it.
var AddressReads = []grant.Grant{grant.DescribeVpcAttribute, grant.DescribeNetworkInterfaces}

// Addresses sorts Pod endpoints by what a VPC knows of their addresses. Pods as backends need a network interface for each.
type Addresses struct {
	Blocks  []netip.Prefix // of the VPC
	Outside []Endpoint     // in no block of the VPC
	Missing []Endpoint     // no network interface has the address
	Pending []Endpoint     // an interface has it, but is not in use
	Found   []Endpoint     // an interface in use has it
	States  []string       // interfaces that are not in use, with their states
}

// Addresses looks up the addresses of Pods in a VPC.
func (c *View) Addresses(ctx context.Context, vpc string, pods []Endpoint) (Addresses, error) {
	blocks, err := c.Cloud.VPC.Blocks(ctx, vpc)
	if err != nil {
		return Addresses{}, fmt.Errorf("describe the VPC %s: %w", vpc, err)
	}
	var ips []string
	for _, p := range pods {
		ips = append(ips, p.IP)
	}
	var interfaces []cloud.Interface
	if len(ips) > 0 {
		interfaces, err = c.Cloud.ECS.Interfaces(ctx, vpc, ips)
		if err != nil {
			return Addresses{}, fmt.Errorf("look up the network interfaces of the Pods: %w", err)
		}
	}
	return addressesOf(pods, blocks, interfaces), nil
}

func addressesOf(pods []Endpoint, blocks []netip.Prefix, interfaces []cloud.Interface) Addresses {
	a := Addresses{Blocks: blocks}
	for _, p := range pods {
		ip, err := netip.ParseAddr(p.IP)
		inside := err == nil && slices.ContainsFunc(blocks, func(b netip.Prefix) bool { return b.Contains(ip) })
		i := slices.IndexFunc(interfaces, func(i cloud.Interface) bool { return i.IP == p.IP || slices.Contains(i.IPs, p.IP) })
		switch {
		case !inside:
			a.Outside = append(a.Outside, p)
		case i < 0:
			a.Missing = append(a.Missing, p)
		case interfaces[i].Status != "InUse":
			a.Pending = append(a.Pending, p)
			a.States = append(a.States, fmt.Sprintf("%s (%s)", interfaces[i].ID, interfaces[i].Status))
		default:
			a.Found = append(a.Found, p)
		}
	}
	return a
}
