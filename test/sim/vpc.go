package sim

import (
	"net/http"
	"slices"
	"strconv"
)

// notAuthorized is how most products refuse what RAM does not allow.
var notAuthorized = failure{
	Status: http.StatusForbidden, Code: "NoPermission",
	Message: "You are not authorized to do this action. You should be authorized by RAM.",
}

// vpc is the network:
// https://www.alibabacloud.com/help/en/vpc/developer-reference/api-vpc-2016-04-28-overview
func vpc() *product {
	named := func(kind, param string) func(*request) string {
		return func(q *request) string {
			if id := q.params[param]; id != "" {
				return kind + "/" + id
			}
			return kind + "/*"
		}
	}
	p := &product{
		name: "vpc", version: "2016-04-28", host: "vpc.aliyuncs.com", regional: true, refusal: notAuthorized,
		actions: map[string]*action{
			"DescribeVSwitches":         {do: describeVSwitches, resource: named("vswitch", "VSwitchId")},
			"DescribeVSwitchAttributes": {do: describeVSwitch, need: []string{"VSwitchId"}, resource: named("vswitch", "VSwitchId")},
			"DescribeVpcs":              {do: describeVPCs, resource: named("vpc", "VpcId")},
			"DescribeVpcAttribute":      {do: describeVPC, need: []string{"VpcId"}, resource: named("vpc", "VpcId")},
			"DescribeEipAddresses":      {do: describeEIPs, resource: named("eip", "AllocationId")},
			"CreateVSwitch":             {do: once(createVSwitch), need: []string{"VpcId", "ZoneId", "CidrBlock"}, resource: named("vswitch", "VSwitchId")},
		},
	}
	for name, a := range routeActions() {
		a.resource = named("routetable", "RouteTableId")
		p.actions[name] = a
	}
	return p
}

func (v *VSwitch) show(s *State) reply {
	return reply{
		"VSwitchId": v.ID, "VSwitchName": v.Name, "VpcId": v.VPC, "ZoneId": v.Zone, "CidrBlock": v.CIDR, "Status": v.Status,
		"AvailableIpAddressCount": s.seenFree(v), "IsDefault": false, "ResourceGroupId": "", "Ipv6CidrBlock": v.IPv6,
		"EnabledIpv6": v.IPv6 != "", "OwnerId": s.owner(), "CreationTime": s.started.Format("2006-01-02T15:04:05Z"),
		"Tags": reply{"Tag": []reply{}},
	}
}

// owner returns the account's number as a number.
func (s *State) owner() int64 {
	n, _ := strconv.ParseInt(s.AccountID, 10, 64) // an account that is not one has no number
	return n
}

func describeVSwitches(q *request) (any, *failure) {
	p := q.params
	if id := p["VpcId"]; id != "" && q.state.VPCs[id] == nil {
		return nil, fail(http.StatusNotFound, "InvalidVpcId.NotFound", "Specified VPC does not exist.")
	}
	vpc, ids, zone, name := p["VpcId"], p["VSwitchId"], p["ZoneId"], p["VSwitchName"]
	list := picked(q.state.VSwitches, func(v *VSwitch) bool {
		return is(vpc, v.VPC) && oneOf(ids, v.ID) && is(zone, v.Zone) && is(name, v.Name)
	})
	part, n, size, bad := page(p, list, 10, 50)
	if bad != nil {
		return nil, bad
	}
	shown := make([]reply, 0, len(part))
	for _, v := range part {
		shown = append(shown, v.show(q.state))
	}
	return reply{"PageNumber": n, "PageSize": size, "TotalCount": len(list), "VSwitches": reply{"VSwitch": shown}}, nil
}

func describeVSwitch(q *request) (any, *failure) {
	v := q.state.VSwitches[q.params["VSwitchId"]]
	if v == nil {
		return nil, fail(http.StatusNotFound, "InvalidVswitchID.NotFound", "Specified virtual switch does not exist.")
	}
	out := v.show(q.state)
	count := 0
	for _, lb := range q.state.LoadBalancers {
		if lb.VSwitch == v.ID {
			count++
		}
	}
	out["CloudResources"] = reply{"CloudResourceSetType": []reply{{"ResourceType": "SLB", "ResourceCount": count}}}
	return out, nil
}

func (v *VPC) show(s *State) reply {
	ids := []string{}
	for _, w := range sorted(s.VSwitches) {
		if w.VPC == v.ID {
			ids = append(ids, w.ID)
		}
	}
	return reply{
		"VpcId": v.ID, "VpcName": v.Name, "CidrBlock": v.CIDR, "Status": "Available", "RegionId": s.Region, "IsDefault": false,
		"OwnerId": s.owner(), "VRouterId": routerID(v.ID), "RouterTableIds": reply{"RouterTableIds": s.tablesOf(v.ID)}, "VSwitchIds": reply{"VSwitchId": ids},
		"SecondaryCidrBlocks": reply{"SecondaryCidrBlock": slices.Concat([]string{}, v.SecondaryCIDRs)},
		"Ipv6CidrBlock":       s.ipv6Block(v.ID), "Ipv6CidrBlocks": reply{"Ipv6CidrBlock": []reply{}},
		"CreationTime": s.started.Format("2006-01-02T15:04:05Z"),
	}
}

// tablesOf returns the IDs of the route tables of a VPC.
func (s *State) tablesOf(vpc string) []string {
	ids := []string{}
	for _, r := range sorted(s.RouteTables) {
		if r.VPC == vpc {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

func describeVPCs(q *request) (any, *failure) {
	var list []VPC
	for _, v := range sorted(q.state.VPCs) {
		if is(q.params["RegionId"], q.state.Region) && oneOf(q.params["VpcId"], v.ID) && is(q.params["VpcName"], v.Name) {
			list = append(list, v)
		}
	}
	part, n, size, bad := page(q.params, list, 10, 50)
	if bad != nil {
		return nil, bad
	}
	shown := make([]reply, 0, len(part))
	for _, v := range part {
		shown = append(shown, v.show(q.state))
	}
	return reply{"PageNumber": n, "PageSize": size, "TotalCount": len(list), "Vpcs": reply{"Vpc": shown}}, nil
}

func describeVPC(q *request) (any, *failure) {
	v := q.state.VPCs[q.params["VpcId"]]
	if v == nil {
		return nil, fail(http.StatusNotFound, "InvalidVpcId.NotFound", "Specified VPC does not exist.")
	}
	return v.show(q.state), nil
}

func describeEIPs(q *request) (any, *failure) {
	p := q.params
	var list []EIP
	for _, e := range sorted(q.state.EIPs) {
		if oneOf(p["EipAddress"], e.IP) && oneOf(p["AllocationId"], e.ID) && is(p["AssociatedInstanceId"], e.Instance) && is(p["AssociatedInstanceType"], e.InstanceType) {
			list = append(list, e)
		}
	}
	part, n, size, bad := page(p, list, 10, 100)
	if bad != nil {
		return nil, bad
	}
	shown := make([]reply, 0, len(part))
	for _, e := range part {
		status := "Available"
		if e.Instance != "" {
			status = "InUse"
		}
		shown = append(shown, reply{
			"AllocationId": e.ID, "IpAddress": e.IP, "InstanceId": e.Instance, "InstanceType": e.InstanceType, "Status": status,
			"RegionId": q.state.Region, "BusinessStatus": "Normal",
		})
	}
	return reply{"PageNumber": n, "PageSize": size, "TotalCount": len(list), "EipAddresses": reply{"EipAddress": shown}}, nil
}
