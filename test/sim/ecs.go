package sim

import (
	"encoding/json"
	"maps"
	"slices"
)

// ecs is the servers and their network interfaces:
// https://www.alibabacloud.com/help/en/ecs/developer-reference/api-ecs-2014-05-26-overview
func ecs() *product {
	p := &product{
		name: "ecs", version: "2014-05-26", host: "ecs.aliyuncs.com", regional: true, refusal: notAuthorized,
		actions: map[string]*action{
			"DescribeInstances":         {do: describeInstances, resource: func(*request) string { return "instance/*" }},
			"DescribeNetworkInterfaces": {do: describeENIs, resource: func(*request) string { return "eni/*" }},
		},
	}
	maps.Copy(p.actions, securityGroupActions())
	return p
}

// ids reads a parameter that is a JSON list of IDs.
func (p params) ids(name string) ([]string, *failure) {
	if p[name] == "" {
		return nil, nil
	}
	var ids []string
	if err := json.Unmarshal([]byte(p[name]), &ids); err != nil || len(ids) > 100 {
		return nil, invalid(name)
	}
	return ids, nil
}

func describeInstances(q *request) (any, *failure) {
	p := q.params
	ids, bad := p.ids("InstanceIds")
	if bad != nil {
		return nil, bad
	}
	ips, bad := p.ids("PrivateIpAddresses")
	if bad != nil {
		return nil, bad
	}
	all := []reply{}
	for _, i := range sorted(q.state.Instances) {
		if ids != nil && !slices.Contains(ids, i.ID) || ips != nil && !slices.Contains(ips, i.IP) ||
			!is(p["VpcId"], i.VPC) || !is(p["VSwitchId"], i.VSwitch) || !is(p["ZoneId"], i.Zone) || !is(p["Status"], i.Status) || !is(p["InstanceName"], i.Name) {
			continue
		}
		all = append(all, reply{
			"InstanceId": i.ID, "InstanceName": i.Name, "HostName": i.Name, "Status": i.Status, "ZoneId": i.Zone, "RegionId": q.state.Region,
			"InstanceNetworkType": "vpc",
			"VpcAttributes":       reply{"VpcId": i.VPC, "VSwitchId": i.VSwitch, "PrivateIpAddress": reply{"IpAddress": []string{i.IP}}},
		})
	}
	return q.pageOrChunk(all, "Instances", "Instance")
}

// pageOrChunk answers with the part of list that is asked for, in either of the
// two ways of ECS: by page, or by token where MaxResults is given.
func (q *request) pageOrChunk(list []reply, outer, inner string) (any, *failure) {
	if q.params["MaxResults"] != "" || q.params["NextToken"] != "" {
		part, next, bad := chunk(q.params, list, 50, 500)
		if bad != nil {
			return nil, bad
		}
		return reply{outer: reply{inner: part}, "NextToken": next, "TotalCount": len(list)}, nil
	}
	part, n, size, bad := page(q.params, list, 10, 100)
	if bad != nil {
		return nil, bad
	}
	return reply{outer: reply{inner: part}, "PageNumber": n, "PageSize": size, "TotalCount": len(list)}, nil
}

func describeENIs(q *request) (any, *failure) {
	p := q.params
	ids, ips := p.list("NetworkInterfaceId"), p.list("PrivateIpAddress")
	if len(ids) > 100 {
		return nil, invalid("NetworkInterfaceId")
	}
	if len(ips) > 100 {
		return nil, invalid("PrivateIpAddress")
	}
	all := []reply{}
	for _, e := range sorted(q.state.ENIs) {
		primary := ""
		if len(e.IPs) > 0 {
			primary = e.IPs[0]
		}
		if ids != nil && !slices.Contains(ids, e.ID) ||
			ips != nil && !slices.ContainsFunc(ips, func(ip string) bool { return slices.Contains(e.IPs, ip) }) ||
			!is(p["VpcId"], e.VPC) || !is(p["VSwitchId"], e.VSwitch) || !is(p["InstanceId"], e.Instance) || !is(p["Status"], e.Status) ||
			!is(p["Type"], e.Type) || !is(p["PrimaryIpAddress"], primary) {
			continue
		}
		sets := []reply{}
		for _, ip := range e.IPs {
			sets = append(sets, reply{"PrivateIpAddress": ip, "Primary": ip == primary})
		}
		zone := ""
		if v := q.state.VSwitches[e.VSwitch]; v != nil {
			zone = v.Zone
		}
		all = append(all, reply{
			"NetworkInterfaceId": e.ID, "VpcId": e.VPC, "VSwitchId": e.VSwitch, "InstanceId": e.Instance, "Status": e.Status,
			"Type": e.Type, "ZoneId": zone, "PrivateIpAddress": primary, "PrivateIpSets": reply{"PrivateIpSet": sets},
		})
	}
	return q.pageOrChunk(all, "NetworkInterfaceSets", "NetworkInterfaceSet")
}
