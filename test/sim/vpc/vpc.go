// Package vpc simulates the network: VPCs, vSwitches and their addresses, zones, route tables and elastic addresses.
package vpc

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	"github.com/lbremedy/lbremedy/test/sim/core"
	"github.com/lbremedy/lbremedy/test/sim/quotas"
)

// A VPC is a private network.
type VPC struct {
	ID             string   `json:"id,omitempty"`
	Name           string   `json:"name,omitempty"`
	CIDR           string   `json:"cidr,omitempty"`
	SecondaryCIDRs []string `json:"secondaryCidrs,omitempty"`
}

// A VSwitch is a subnet of a VPC in one zone.
type VSwitch struct {
	ID     string `json:"id,omitempty"`
	Name   string `json:"name,omitempty"`
	VPC    string `json:"vpc,omitempty"`  // the cluster's if empty
	Zone   string `json:"zone,omitempty"` // zone h of the region if empty
	CIDR   string `json:"cidr,omitempty"` // a /20 of its own if empty
	Free   *int   `json:"free,omitempty"` // default: the size of the CIDR block
	Status string `json:"status,omitempty"`
	IPv6   string `json:"ipv6,omitempty"` // IPv6 CIDR block; empty: none
}

// An EIP is an elastic public address.
type EIP struct {
	ID           string `json:"id,omitempty"`
	IP           string `json:"ip,omitempty"`
	Instance     string `json:"instance,omitempty"`
	InstanceType string `json:"instanceType,omitempty"` // such as SlbInstance
}

// A State is the network of a region.
type State struct {
	*core.State
	VPCs        map[string]*VPC
	VSwitches   map[string]*VSwitch // Free is never nil
	Zones       map[string]*Zone
	RouteTables map[string]*RouteTable
	EIPs        map[string]*EIP

	Balancers func(vswitch string) int // number of CLBs in a vSwitch
	Instance  func(id string) bool     // reports whether an instance exists that can be a next hop

	quotas    *quotas.State
	taken     map[spot]struct{}          // addresses of load balancers
	freeTrail map[string]core.Trail[int] // of vSwitches
}

// A Start is the initial state.
type Start struct {
	VPCs        []VPC
	VSwitches   []VSwitch
	Zones       []Zone
	RouteTables []RouteTable
	EIPs        []EIP
}

// New returns the state, with defaults set.
func New(base *core.State, w Start) (*State, error) {
	s := &State{State: base, quotas: core.Part[*quotas.State](base), taken: map[spot]struct{}{}, freeTrail: map[string]core.Trail[int]{}}
	base.Add(s)
	return s, errors.Join(s.fillVPCs(w.VPCs), s.fillVSwitches(w.VSwitches), s.fillEIPs(w.EIPs), s.fillZones(w.Zones), s.fillRoutes(w.RouteTables))
}

const quotaRoutes = "vpc_quota_route_entrys_num"

// Quotas returns an account's default limits.
func Quotas() []quotas.Quota {
	return []quotas.Quota{{Product: "vpc", Name: quotaRoutes, Total: 200, Max: 1000, Adjustable: true}}
}

// Adopt copies from the previous state what a World does not contain.
func (s *State) Adopt(was *State) { s.freeTrail = was.freeTrail }

// Settle updates the state after an edit. All addresses are free until their owners take them again.
func (s *State) Settle() {
	for id, v := range s.VSwitches {
		v.ID = id
		if v.Free == nil {
			v.Free = new(0)
		}
	}
	clear(s.taken)
	s.settleZones()
	s.addRouteTables()
}

func (s *State) fillVPCs(list []VPC) error {
	var err error
	s.VPCs, err = core.Index("VPC", list, func(v *VPC) string { return v.ID }, func(i int, v *VPC) {
		v.ID = cmp.Or(v.ID, fmt.Sprintf("vpc-%d", i+1))
		v.CIDR = cmp.Or(v.CIDR, "10.0.0.0/8")
	})
	errs := []error{err}
	for _, v := range s.VPCs {
		for _, c := range append([]string{v.CIDR}, v.SecondaryCIDRs...) {
			if _, err := netip.ParsePrefix(c); err != nil {
				errs = append(errs, fmt.Errorf("VPC %s: %w", v.ID, err))
			}
		}
	}
	return errors.Join(errs...)
}

func (s *State) fillVSwitches(list []VSwitch) error {
	var err error
	s.VSwitches, err = core.Index("vSwitch", list, func(v *VSwitch) string { return v.ID }, func(i int, v *VSwitch) {
		v.ID = cmp.Or(v.ID, fmt.Sprintf("vsw-%d", i+1))
		v.VPC = cmp.Or(v.VPC, s.Home)
		v.Zone = cmp.Or(v.Zone, s.Region+"-h")
		v.Status = cmp.Or(v.Status, "Available")
		if vpc := s.VPCs[v.VPC]; vpc != nil && v.CIDR == "" {
			v.CIDR = subnet(vpc.CIDR, i)
		}
	})
	errs := []error{err}
	for _, v := range s.VSwitches {
		p, err := netip.ParsePrefix(v.CIDR)
		switch {
		case s.VPCs[v.VPC] == nil:
			errs = append(errs, fmt.Errorf("vSwitch %s: there is no VPC %s", v.ID, v.VPC))
		case err != nil || !p.Addr().Is4():
			errs = append(errs, fmt.Errorf("vSwitch %s: bad CIDR block %q", v.ID, v.CIDR))
		case v.Free == nil:
			// The cloud reserves the first and the last three addresses of a block:
			// https://www.alibabacloud.com/help/en/vpc/user-guide/create-and-manage-vswitch
			v.Free = new(max(0, 1<<(32-p.Bits())-4))
		}
	}
	return errors.Join(errs...)
}

// subnet returns the n-th /20 of a block, or a smaller block itself.
func subnet(block string, n int) string {
	p, err := netip.ParsePrefix(block)
	if err != nil || !p.Addr().Is4() || p.Bits() >= 20 {
		return block
	}
	b := p.Masked().Addr().As4()
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+uint32(n)<<12)
	return netip.PrefixFrom(netip.AddrFrom4(b), 20).String()
}

func (s *State) fillEIPs(list []EIP) error {
	var err error
	s.EIPs, err = core.Index("EIP", list, func(e *EIP) string { return e.ID }, func(i int, e *EIP) {
		e.ID = cmp.Or(e.ID, fmt.Sprintf("eip-%d", i+1))
		if e.InstanceType == "" && e.Instance != "" {
			e.InstanceType = "SlbInstance"
		}
	})
	return err
}

type request struct {
	*core.Request
	state *State
}

func on(do func(*request) (any, *core.Failure)) func(*core.Request) (any, *core.Failure) {
	return func(q *core.Request) (any, *core.Failure) { return do(&request{q, core.Part[*State](q.State)}) }
}

// Product is VPC (https://www.alibabacloud.com/help/en/vpc/developer-reference/api-vpc-2016-04-28-overview).
func Product() *core.Product {
	named := func(kind, param string) func(*core.Request) string {
		return func(q *core.Request) string {
			if id := q.Params[param]; id != "" {
				return kind + "/" + id
			}
			return kind + "/*"
		}
	}
	p := &core.Product{
		Name: "vpc", Version: "2016-04-28", Host: "vpc.aliyuncs.com", Regional: true, Refusal: core.NotAuthorized,
		Actions: map[string]*core.Action{
			"DescribeVSwitches":         {Do: on(describeVSwitches), Resource: named("vswitch", "VSwitchId")},
			"DescribeVSwitchAttributes": {Do: on(describeVSwitch), Need: []string{"VSwitchId"}, Resource: named("vswitch", "VSwitchId")},
			"DescribeVpcs":              {Do: on(describeVPCs), Resource: named("vpc", "VpcId")},
			"DescribeVpcAttribute":      {Do: on(describeVPC), Need: []string{"VpcId"}, Resource: named("vpc", "VpcId")},
			"DescribeEipAddresses":      {Do: on(describeEIPs), Resource: named("eip", "AllocationId")},
			"CreateVSwitch":             {Do: core.Once(on(createVSwitch)), Need: []string{"VpcId", "ZoneId", "CidrBlock"}, Resource: named("vswitch", "VSwitchId")},
		},
	}
	for name, a := range routeActions() {
		a.Resource = named("routetable", "RouteTableId")
		p.Actions[name] = a
	}
	return p
}

func (v *VSwitch) show(s *State) core.Reply {
	return core.Reply{
		"VSwitchId": v.ID, "VSwitchName": v.Name, "VpcId": v.VPC, "ZoneId": v.Zone, "CidrBlock": v.CIDR, "Status": v.Status,
		"AvailableIpAddressCount": s.seenFree(v), "IsDefault": false, "ResourceGroupId": "", "Ipv6CidrBlock": v.IPv6,
		"EnabledIpv6": v.IPv6 != "", "OwnerId": s.Owner(), "CreationTime": s.Started.Format("2006-01-02T15:04:05Z"),
		"Tags": core.Reply{"Tag": []core.Reply{}},
	}
}

func describeVSwitches(q *request) (any, *core.Failure) {
	p := q.Params
	if id := p["VpcId"]; id != "" && q.state.VPCs[id] == nil {
		return nil, core.Fail(http.StatusNotFound, "InvalidVpcId.NotFound", "Specified VPC does not exist.")
	}
	vpc, ids, zone, name := p["VpcId"], p["VSwitchId"], p["ZoneId"], p["VSwitchName"]
	list := core.Picked(q.state.VSwitches, func(v *VSwitch) bool {
		return core.Is(vpc, v.VPC) && core.OneOf(ids, v.ID) && core.Is(zone, v.Zone) && core.Is(name, v.Name)
	})
	part, n, size, bad := core.Page(p, list, 10, 50)
	if bad != nil {
		return nil, bad
	}
	shown := make([]core.Reply, 0, len(part))
	for _, v := range part {
		shown = append(shown, v.show(q.state))
	}
	return core.Reply{"PageNumber": n, "PageSize": size, "TotalCount": len(list), "VSwitches": core.Reply{"VSwitch": shown}}, nil
}

func describeVSwitch(q *request) (any, *core.Failure) {
	v := q.state.VSwitches[q.Params["VSwitchId"]]
	if v == nil {
		return nil, core.Fail(http.StatusNotFound, "InvalidVswitchID.NotFound", "Specified virtual switch does not exist.")
	}
	out := v.show(q.state)
	out["CloudResources"] = core.Reply{"CloudResourceSetType": []core.Reply{{"ResourceType": "SLB", "ResourceCount": q.state.Balancers(v.ID)}}}
	return out, nil
}

func (v *VPC) show(s *State) core.Reply {
	ids := []string{}
	for _, w := range core.Sorted(s.VSwitches) {
		if w.VPC == v.ID {
			ids = append(ids, w.ID)
		}
	}
	return core.Reply{
		"VpcId": v.ID, "VpcName": v.Name, "CidrBlock": v.CIDR, "Status": "Available", "RegionId": s.Region, "IsDefault": false,
		"OwnerId": s.Owner(), "VRouterId": routerID(v.ID), "RouterTableIds": core.Reply{"RouterTableIds": s.tablesOf(v.ID)},
		"VSwitchIds":          core.Reply{"VSwitchId": ids},
		"SecondaryCidrBlocks": core.Reply{"SecondaryCidrBlock": slices.Concat([]string{}, v.SecondaryCIDRs)},
		"Ipv6CidrBlock":       s.ipv6Block(v.ID), "Ipv6CidrBlocks": core.Reply{"Ipv6CidrBlock": []core.Reply{}},
		"CreationTime": s.Started.Format("2006-01-02T15:04:05Z"),
	}
}

func (s *State) tablesOf(vpc string) []string {
	ids := []string{}
	for _, r := range core.Sorted(s.RouteTables) {
		if r.VPC == vpc {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

func describeVPCs(q *request) (any, *core.Failure) {
	var list []VPC
	for _, v := range core.Sorted(q.state.VPCs) {
		if core.Is(q.Params["RegionId"], q.state.Region) && core.OneOf(q.Params["VpcId"], v.ID) && core.Is(q.Params["VpcName"], v.Name) {
			list = append(list, v)
		}
	}
	part, n, size, bad := core.Page(q.Params, list, 10, 50)
	if bad != nil {
		return nil, bad
	}
	shown := make([]core.Reply, 0, len(part))
	for _, v := range part {
		shown = append(shown, v.show(q.state))
	}
	return core.Reply{"PageNumber": n, "PageSize": size, "TotalCount": len(list), "Vpcs": core.Reply{"Vpc": shown}}, nil
}

func describeVPC(q *request) (any, *core.Failure) {
	v := q.state.VPCs[q.Params["VpcId"]]
	if v == nil {
		return nil, core.Fail(http.StatusNotFound, "InvalidVpcId.NotFound", "Specified VPC does not exist.")
	}
	return v.show(q.state), nil
}

func describeEIPs(q *request) (any, *core.Failure) {
	p := q.Params
	var list []EIP
	for _, e := range core.Sorted(q.state.EIPs) {
		if core.OneOf(p["EipAddress"], e.IP) && core.OneOf(p["AllocationId"], e.ID) &&
			core.Is(p["AssociatedInstanceId"], e.Instance) && core.Is(p["AssociatedInstanceType"], e.InstanceType) {
			list = append(list, e)
		}
	}
	part, n, size, bad := core.Page(p, list, 10, 100)
	if bad != nil {
		return nil, bad
	}
	shown := make([]core.Reply, 0, len(part))
	for _, e := range part {
		status := "Available"
		if e.Instance != "" {
			status = "InUse"
		}
		shown = append(shown, core.Reply{
			"AllocationId": e.ID, "IpAddress": e.IP, "InstanceId": e.Instance, "InstanceType": e.InstanceType, "Status": status,
			"RegionId": q.state.Region, "BusinessStatus": "Normal",
		})
	}
	return core.Reply{"PageNumber": n, "PageSize": size, "TotalCount": len(list), "EipAddresses": core.Reply{"EipAddress": shown}}, nil
}
