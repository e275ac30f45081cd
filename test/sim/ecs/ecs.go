// Package ecs simulates servers, network interfaces and security groups.
package ecs

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/lbremedy/lbremedy/test/sim/core"
	"github.com/lbremedy/lbremedy/test/sim/vpc"
)

// An ENI is a network interface.
type ENI struct {
	Name            string   `json:"name,omitempty"`
	Description     string   `json:"description,omitempty"`
	SecurityGroups  []string `json:"securityGroups,omitempty"`
	SourceDestCheck bool     `json:"sourceDestCheck,omitempty"`
	ID              string   `json:"id,omitempty"`
	IPs             []string `json:"ips,omitempty"` // the first is the primary address
	VPC             string   `json:"vpc,omitempty"`
	VSwitch         string   `json:"vswitch,omitempty"`
	Instance        string   `json:"instance,omitempty"`
	Status          string   `json:"status,omitempty"` // InUse if empty
	Type            string   `json:"type,omitempty"`   // Secondary if empty
}

// An Instance is an ECS server.
type Instance struct {
	ID      string `json:"id,omitempty"`
	Name    string `json:"name,omitempty"`
	IP      string `json:"ip,omitempty"`
	VPC     string `json:"vpc,omitempty"`
	VSwitch string `json:"vswitch,omitempty"`
	Zone    string `json:"zone,omitempty"`
	Status  string `json:"status,omitempty"` // Running if empty
}

// A State holds the servers of a region.
type State struct {
	*core.State
	Instances      map[string]*Instance
	ENIs           map[string]*ENI
	SecurityGroups map[string]*SecurityGroup

	InUse func(securityGroup string) bool // reports whether a security group contains a load balancer
	vpc   *vpc.State
}

// A Start is the initial state.
type Start struct {
	Instances      []Instance
	ENIs           []ENI
	SecurityGroups []SecurityGroup
}

// New returns the state, with defaults set.
func New(base *core.State, w Start) (*State, error) {
	net := core.Part[*vpc.State](base)
	s := &State{State: base, vpc: net}
	base.Add(s)
	at := func(vpc, vswitch string) string {
		if v := net.VSwitches[vswitch]; vpc == "" && v != nil {
			return v.VPC
		}
		return cmp.Or(vpc, s.Home)
	}
	var enis, instances, groups error
	s.ENIs, enis = core.Index("ENI", w.ENIs, func(e *ENI) string { return e.ID }, func(i int, e *ENI) {
		e.ID, e.VPC = cmp.Or(e.ID, fmt.Sprintf("eni-%d", i+1)), at(e.VPC, e.VSwitch)
		e.Status, e.Type = cmp.Or(e.Status, "InUse"), cmp.Or(e.Type, "Secondary")
	})
	s.Instances, instances = core.Index("instance", w.Instances, func(i *Instance) string { return i.ID }, func(n int, i *Instance) {
		i.ID, i.VPC, i.Status = cmp.Or(i.ID, fmt.Sprintf("i-%d", n+1)), at(i.VPC, i.VSwitch), cmp.Or(i.Status, "Running")
		if v := net.VSwitches[i.VSwitch]; v != nil {
			i.Zone = cmp.Or(i.Zone, v.Zone)
		}
		i.Zone = cmp.Or(i.Zone, s.Region+"-h")
	})
	s.SecurityGroups, groups = core.Index("security group", w.SecurityGroups, func(g *SecurityGroup) string { return g.ID }, func(i int, g *SecurityGroup) {
		g.ID = cmp.Or(g.ID, fmt.Sprintf("sg-%d", i+1))
		g.fill(s)
	})
	return s, errors.Join(enis, instances, groups)
}

// Settle updates the state after an edit.
func (s *State) Settle() {
	for id, g := range s.SecurityGroups {
		g.ID = id
		g.fill(s)
	}
}

// VPCOf returns the VPC of a server, by default the cluster's.
func (s *State) VPCOf(server string) string {
	if e := s.ENIs[server]; e != nil {
		return e.VPC
	}
	if i := s.Instances[server]; i != nil {
		return i.VPC
	}
	return s.Home
}

// ZoneOf returns the zone of a server, or "" if it is unknown.
func (s *State) ZoneOf(server string) string {
	if i := s.Instances[server]; i != nil {
		return i.Zone
	}
	if e := s.ENIs[server]; e != nil && s.vpc.VSwitches[e.VSwitch] != nil {
		return s.vpc.VSwitches[e.VSwitch].Zone
	}
	return ""
}

type request struct {
	*core.Request
	state *State
}

func on(do func(*request) (any, *core.Failure)) func(*core.Request) (any, *core.Failure) {
	return func(q *core.Request) (any, *core.Failure) { return do(&request{q, core.Part[*State](q.State)}) }
}

// Product is ECS: servers and their network interfaces
// (https://www.alibabacloud.com/help/en/ecs/developer-reference/api-ecs-2014-05-26-overview).
func Product() *core.Product {
	p := &core.Product{
		Name: "ecs", Version: "2014-05-26", Host: "ecs.aliyuncs.com", Regional: true, Refusal: core.NotAuthorized,
		Actions: map[string]*core.Action{
			"DescribeInstances":                 {Do: on(describeInstances), Resource: func(*core.Request) string { return "instance/*" }},
			"DescribeNetworkInterfaces":         {Do: on(describeENIs), Resource: eniResource},
			"DescribeNetworkInterfaceAttribute": {Do: on(describeENI), Need: []string{"NetworkInterfaceId"}, Resource: eniResource},
			"ModifyNetworkInterfaceAttribute":   {Do: on(modifyENI), Need: []string{"NetworkInterfaceId"}, Resource: eniResource},
		},
	}
	maps.Copy(p.Actions, securityGroupActions())
	return p
}

func describeInstances(q *request) (any, *core.Failure) {
	p := q.Params
	ids, bad := p.IDs("InstanceIds")
	if bad != nil {
		return nil, bad
	}
	ips, bad := p.IDs("PrivateIpAddresses")
	if bad != nil {
		return nil, bad
	}
	some := core.Picked(q.state.Instances, func(i *Instance) bool {
		return (ids == nil || slices.Contains(ids, i.ID)) && (ips == nil || slices.Contains(ips, i.IP)) &&
			core.Is(p["VpcId"], i.VPC) && core.Is(p["VSwitchId"], i.VSwitch) && core.Is(p["ZoneId"], i.Zone) &&
			core.Is(p["Status"], i.Status) && core.Is(p["InstanceName"], i.Name)
	})
	attached := map[string][]*ENI{}
	for _, e := range q.state.ENIs {
		if e.Instance != "" {
			attached[e.Instance] = append(attached[e.Instance], e)
		}
	}
	return pageOrChunk(q, some, 100, "Instances", "Instance", func(i *Instance) core.Reply { return i.show(q.state, attached[i.ID]) })
}

func (i *Instance) show(s *State, attached []*ENI) core.Reply {
	slices.SortFunc(attached, func(a, b *ENI) int { return strings.Compare(a.ID, b.ID) })
	enis := []core.Reply{}
	for _, e := range attached {
		enis = append(enis, core.Reply{"NetworkInterfaceId": e.ID, "PrimaryIpAddress": e.primary(), "Type": e.Type})
	}
	return core.Reply{
		"InstanceId": i.ID, "InstanceName": i.Name, "HostName": i.Name, "Status": i.Status, "ZoneId": i.Zone, "RegionId": s.Region,
		"InstanceNetworkType": "vpc", "NetworkInterfaces": core.Reply{"NetworkInterface": enis},
		"VpcAttributes": core.Reply{"VpcId": i.VPC, "VSwitchId": i.VSwitch, "PrivateIpAddress": core.Reply{"IpAddress": []string{i.IP}}},
	}
}

func eniResource(q *core.Request) string {
	return "eni/" + cmp.Or(q.Params["NetworkInterfaceId"], "*")
}

// pageOrChunk answers with the requested part of list: by page, or by token if MaxResults is given.
func pageOrChunk[T any](q *request, list []T, most int, outer, inner string, show func(T) core.Reply) (any, *core.Failure) {
	shown := func(part []T) core.Reply {
		all := make([]core.Reply, 0, len(part))
		for _, e := range part {
			all = append(all, show(e))
		}
		return core.Reply{inner: all}
	}
	if q.Params["MaxResults"] != "" || q.Params["NextToken"] != "" {
		part, next, bad := core.Chunk(q.Params, list, 50, 500)
		if bad != nil {
			return nil, bad
		}
		size, bad := q.Params.Number("MaxResults", 1, 500, 50)
		return core.Reply{outer: shown(part), "NextToken": next, "PageSize": size, "TotalCount": len(list)}, bad
	}
	part, n, size, bad := core.Page(q.Params, list, 10, most)
	if bad != nil {
		return nil, bad
	}
	return core.Reply{outer: shown(part), "PageNumber": n, "PageSize": size, "TotalCount": len(list), "NextToken": ""}, nil
}

func (e *ENI) primary() string {
	if len(e.IPs) == 0 {
		return ""
	}
	return e.IPs[0]
}

// isIPv6 tells the two families apart, which answers list separately.
func isIPv6(ip string) bool { return strings.Contains(ip, ":") }

func (e *ENI) show(s *State) core.Reply {
	sets, sets6 := []core.Reply{}, []core.Reply{}
	for _, ip := range e.IPs {
		if isIPv6(ip) {
			sets6 = append(sets6, core.Reply{"Ipv6Address": ip})
			continue
		}
		sets = append(sets, core.Reply{"PrivateIpAddress": ip, "Primary": ip == e.primary()})
	}
	zone := ""
	if v := s.vpc.VSwitches[e.VSwitch]; v != nil {
		zone = v.Zone
	}
	return core.Reply{
		"NetworkInterfaceId": e.ID, "NetworkInterfaceName": e.Name, "Description": e.Description, "VpcId": e.VPC, "VSwitchId": e.VSwitch, "InstanceId": e.Instance,
		"Status": e.Status, "Type": e.Type, "ZoneId": zone, "PrivateIpAddress": e.primary(), "PrivateIpSets": core.Reply{"PrivateIpSet": sets},
		"Ipv6Sets": core.Reply{"Ipv6Set": sets6}, "SourceDestCheck": e.SourceDestCheck,
		"SecurityGroupIds": core.Reply{"SecurityGroupId": slices.Concat([]string{}, e.SecurityGroups)},
	}
}

// describeENIs finds network interfaces. Private addresses repeat across VPCs, so several can have the same one.
func describeENIs(q *request) (any, *core.Failure) {
	p := q.Params
	ids, ips, ips6 := p.List("NetworkInterfaceId"), p.List("PrivateIpAddress"), p.List("Ipv6Address")
	if len(ids) > 100 {
		return nil, core.Invalid("NetworkInterfaceId")
	}
	if len(ips) > 100 {
		return nil, core.Invalid("PrivateIpAddress")
	}
	if len(ips6) > 100 {
		return nil, core.Invalid("Ipv6Address")
	}
	some := core.Picked(q.state.ENIs, func(e *ENI) bool {
		return (ids == nil || slices.Contains(ids, e.ID)) &&
			(ips == nil || slices.ContainsFunc(e.IPs, func(ip string) bool { return slices.Contains(ips, ip) })) &&
			(ips6 == nil || slices.ContainsFunc(e.IPs, func(ip string) bool { return slices.Contains(ips6, ip) })) &&
			core.Is(p["VpcId"], e.VPC) && core.Is(p["VSwitchId"], e.VSwitch) && core.Is(p["InstanceId"], e.Instance) && core.Is(p["Status"], e.Status) &&
			core.Is(p["Type"], e.Type) && core.Is(p["PrimaryIpAddress"], e.primary()) && core.Is(p["NetworkInterfaceName"], e.Name)
	})
	return pageOrChunk(q, some, 500, "NetworkInterfaceSets", "NetworkInterfaceSet", func(e *ENI) core.Reply { return e.show(q.state) })
}

func (q *request) eni() (*ENI, *core.Failure) {
	if e := q.state.ENIs[q.Params["NetworkInterfaceId"]]; e != nil {
		return e, nil
	}
	return nil, core.Fail(http.StatusNotFound, "InvalidEniId.NotFound", "The specified EniId %s is not found.", q.Params["NetworkInterfaceId"])
}

func describeENI(q *request) (any, *core.Failure) {
	e, bad := q.eni()
	if bad != nil {
		return nil, bad
	}
	return e.show(q.state), nil
}

func modifyENI(q *request) (any, *core.Failure) {
	p := q.Params
	e, bad := q.eni()
	if bad != nil {
		return nil, bad
	}
	groups := p.List("SecurityGroupId")
	for _, id := range groups {
		if q.state.SecurityGroups[id] == nil {
			return nil, core.Fail(http.StatusNotFound, "InvalidSecurityGroupId.NotFound", "The specified SecurityGroupId does not exist.")
		}
	}
	check := cmp.Or(p["SourceDestCheck"], strconv.FormatBool(e.SourceDestCheck))
	if !core.OneOf("true,false", check) {
		return nil, core.Invalid("SourceDestCheck")
	}
	e.Name, e.Description, e.SourceDestCheck = cmp.Or(p["NetworkInterfaceName"], e.Name), cmp.Or(p["Description"], e.Description), check == "true"
	if groups != nil {
		e.SecurityGroups = groups
	}
	return core.Reply{}, nil
}
