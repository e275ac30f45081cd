package sim

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// ecs is the servers and their network interfaces:
// https://www.alibabacloud.com/help/en/ecs/developer-reference/api-ecs-2014-05-26-overview
func ecs() *product {
	p := &product{
		name: "ecs", version: "2014-05-26", host: "ecs.aliyuncs.com", regional: true, refusal: notAuthorized,
		actions: map[string]*action{
			"DescribeInstances":                 {do: describeInstances, resource: func(*request) string { return "instance/*" }},
			"DescribeNetworkInterfaces":         {do: describeENIs, resource: eniResource},
			"DescribeNetworkInterfaceAttribute": {do: describeENI, need: []string{"NetworkInterfaceId"}, resource: eniResource},
			"ModifyNetworkInterfaceAttribute":   {do: modifyENI, need: []string{"NetworkInterfaceId"}, resource: eniResource},
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
	some := picked(q.state.Instances, func(i *Instance) bool {
		return (ids == nil || slices.Contains(ids, i.ID)) && (ips == nil || slices.Contains(ips, i.IP)) &&
			is(p["VpcId"], i.VPC) && is(p["VSwitchId"], i.VSwitch) && is(p["ZoneId"], i.Zone) && is(p["Status"], i.Status) && is(p["InstanceName"], i.Name)
	})
	attached := map[string][]*ENI{}
	for _, e := range q.state.ENIs {
		if e.Instance != "" {
			attached[e.Instance] = append(attached[e.Instance], e)
		}
	}
	return pageOrChunk(q, some, 100, "Instances", "Instance", func(i *Instance) reply { return i.show(q.state, attached[i.ID]) })
}

// show is what answers say of an instance and of the network interfaces that
// are attached to it.
func (i *Instance) show(s *State, attached []*ENI) reply {
	slices.SortFunc(attached, func(a, b *ENI) int { return strings.Compare(a.ID, b.ID) })
	enis := []reply{}
	for _, e := range attached {
		enis = append(enis, reply{"NetworkInterfaceId": e.ID, "PrimaryIpAddress": e.primary(), "Type": e.Type})
	}
	return reply{
		"InstanceId": i.ID, "InstanceName": i.Name, "HostName": i.Name, "Status": i.Status, "ZoneId": i.Zone, "RegionId": s.Region,
		"InstanceNetworkType": "vpc", "NetworkInterfaces": reply{"NetworkInterface": enis},
		"VpcAttributes": reply{"VpcId": i.VPC, "VSwitchId": i.VSwitch, "PrivateIpAddress": reply{"IpAddress": []string{i.IP}}},
	}
}

func eniResource(q *request) string {
	return "eni/" + cmp.Or(q.params["NetworkInterfaceId"], "*")
}

// pageOrChunk answers with the part of list that is asked for, in either of the
// two ways of ECS: by page, or by token where MaxResults is given.
func pageOrChunk[T any](q *request, list []T, most int, outer, inner string, show func(T) reply) (any, *failure) {
	shown := func(part []T) reply {
		all := make([]reply, 0, len(part))
		for _, e := range part {
			all = append(all, show(e))
		}
		return reply{inner: all}
	}
	if q.params["MaxResults"] != "" || q.params["NextToken"] != "" {
		part, next, bad := chunk(q.params, list, 50, 500)
		if bad != nil {
			return nil, bad
		}
		size, bad := q.params.number("MaxResults", 1, 500, 50)
		return reply{outer: shown(part), "NextToken": next, "PageSize": size, "TotalCount": len(list)}, bad
	}
	part, n, size, bad := page(q.params, list, 10, most)
	if bad != nil {
		return nil, bad
	}
	return reply{outer: shown(part), "PageNumber": n, "PageSize": size, "TotalCount": len(list), "NextToken": ""}, nil
}

// primary returns the primary address of a network interface.
func (e *ENI) primary() string {
	if len(e.IPs) == 0 {
		return ""
	}
	return e.IPs[0]
}

// show is what answers say of a network interface.
func (e *ENI) show(s *State) reply {
	sets, sets6 := []reply{}, []reply{}
	for _, ip := range e.IPs {
		if isIPv6(ip) {
			sets6 = append(sets6, reply{"Ipv6Address": ip})
			continue
		}
		sets = append(sets, reply{"PrivateIpAddress": ip, "Primary": ip == e.primary()})
	}
	zone := ""
	if v := s.VSwitches[e.VSwitch]; v != nil {
		zone = v.Zone
	}
	return reply{
		"NetworkInterfaceId": e.ID, "NetworkInterfaceName": e.Name, "Description": e.Description, "VpcId": e.VPC, "VSwitchId": e.VSwitch, "InstanceId": e.Instance,
		"Status": e.Status, "Type": e.Type, "ZoneId": zone, "PrivateIpAddress": e.primary(), "PrivateIpSets": reply{"PrivateIpSet": sets},
		"Ipv6Sets": reply{"Ipv6Set": sets6}, "SourceDestCheck": e.SourceDestCheck, "SecurityGroupIds": reply{"SecurityGroupId": slices.Concat([]string{}, e.SecurityGroups)},
	}
}

// describeENIs finds network interfaces. Private addresses repeat across VPCs,
// so that one address may have several.
func describeENIs(q *request) (any, *failure) {
	p := q.params
	ids, ips, ips6 := p.list("NetworkInterfaceId"), p.list("PrivateIpAddress"), p.list("Ipv6Address")
	if len(ids) > 100 {
		return nil, invalid("NetworkInterfaceId")
	}
	if len(ips) > 100 {
		return nil, invalid("PrivateIpAddress")
	}
	if len(ips6) > 100 {
		return nil, invalid("Ipv6Address")
	}
	some := picked(q.state.ENIs, func(e *ENI) bool {
		return (ids == nil || slices.Contains(ids, e.ID)) &&
			(ips == nil || slices.ContainsFunc(e.IPs, func(ip string) bool { return slices.Contains(ips, ip) })) &&
			(ips6 == nil || slices.ContainsFunc(e.IPs, func(ip string) bool { return slices.Contains(ips6, ip) })) &&
			is(p["VpcId"], e.VPC) && is(p["VSwitchId"], e.VSwitch) && is(p["InstanceId"], e.Instance) && is(p["Status"], e.Status) &&
			is(p["Type"], e.Type) && is(p["PrimaryIpAddress"], e.primary()) && is(p["NetworkInterfaceName"], e.Name)
	})
	return pageOrChunk(q, some, 500, "NetworkInterfaceSets", "NetworkInterfaceSet", func(e *ENI) reply { return e.show(q.state) })
}

func (q *request) eni() (*ENI, *failure) {
	if e := q.state.ENIs[q.params["NetworkInterfaceId"]]; e != nil {
		return e, nil
	}
	return nil, fail(http.StatusNotFound, "InvalidEniId.NotFound", "The specified EniId %s is not found.", q.params["NetworkInterfaceId"])
}

func describeENI(q *request) (any, *failure) {
	e, bad := q.eni()
	if bad != nil {
		return nil, bad
	}
	return e.show(q.state), nil
}

func modifyENI(q *request) (any, *failure) {
	p := q.params
	e, bad := q.eni()
	if bad != nil {
		return nil, bad
	}
	groups := p.list("SecurityGroupId")
	for _, id := range groups {
		if q.state.SecurityGroups[id] == nil {
			return nil, fail(http.StatusNotFound, "InvalidSecurityGroupId.NotFound", "The specified SecurityGroupId does not exist.")
		}
	}
	check := cmp.Or(p["SourceDestCheck"], strconv.FormatBool(e.SourceDestCheck))
	if !oneOf("true,false", check) {
		return nil, invalid("SourceDestCheck")
	}
	e.Name, e.Description, e.SourceDestCheck = cmp.Or(p["NetworkInterfaceName"], e.Name), cmp.Or(p["Description"], e.Description), check == "true"
	if groups != nil {
		e.SecurityGroups = groups
	}
	return reply{}, nil
}
