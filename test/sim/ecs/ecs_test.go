package ecs_test

import (
	"fmt"
	"testing"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/ecs"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/simtest"
)

func TestENIs(t *testing.T) {
	w := &sim.World{
		VPCs: []sim.VPC{{ID: "vpc-1"}, {ID: "vpc-2"}}, VSwitches: []sim.VSwitch{{ID: "vsw-1", VPC: "vpc-1"}, {ID: "vsw-2", VPC: "vpc-2", CIDR: "10.0.0.0/20"}},
		ENIs: []sim.ENI{{ID: "eni-a", IPs: []string{"10.0.0.5"}, VSwitch: "vsw-1", Instance: "i-a", Type: "Primary"},
			{ID: "eni-b", IPs: []string{"10.0.0.5"}, VSwitch: "vsw-2"}},
		Instances:      []sim.Instance{{ID: "i-a"}},
		SecurityGroups: []sim.SecurityGroup{{ID: "sg-a"}},
	}
	for i := range 600 {
		w.ENIs = append(w.ENIs, sim.ENI{ID: fmt.Sprintf("eni-x%03d", i), IPs: []string{fmt.Sprintf("10.0.%d.%d", 1+i/200, i%200)}, VSwitch: "vsw-1"})
	}
	c := sim.New(t, w)
	client := simtest.Dial(t, c, c.Admin(), ecs.NewClientWithOptions)
	find := func(edit func(*ecs.DescribeNetworkInterfacesRequest)) *ecs.DescribeNetworkInterfacesResponse {
		t.Helper()
		r := ecs.CreateDescribeNetworkInterfacesRequest()
		edit(r)
		resp, err := client.DescribeNetworkInterfaces(r)
		simtest.Check(t, err)
		return resp
	}
	both := find(func(r *ecs.DescribeNetworkInterfacesRequest) { r.PrivateIpAddress = &[]string{"10.0.0.5"} })
	if l := both.NetworkInterfaceSets.NetworkInterfaceSet; len(l) != 2 || l[0].VpcId != "vpc-1" || l[1].VpcId != "vpc-2" {
		t.Errorf("got %+v", l)
	}
	first := find(func(r *ecs.DescribeNetworkInterfacesRequest) {
		r.VpcId, r.MaxResults = "vpc-1", requests.NewInteger(500)
	})
	second := find(func(r *ecs.DescribeNetworkInterfacesRequest) {
		r.VpcId, r.MaxResults, r.NextToken = "vpc-1", requests.NewInteger(500), first.NextToken
	})
	if a, b := len(first.NetworkInterfaceSets.NetworkInterfaceSet), len(second.NetworkInterfaceSets.NetworkInterfaceSet); a != 500 || b != 101 ||
		second.NextToken != "" {
		t.Errorf("got %d and %d", a, b)
	}
	set := ecs.CreateModifyNetworkInterfaceAttributeRequest()
	set.NetworkInterfaceId, set.Description, set.SecurityGroupId, set.SourceDestCheck = "eni-a", "of a node", &[]string{"sg-a"}, requests.NewBoolean(true)
	_, err := client.ModifyNetworkInterfaceAttribute(set)
	simtest.Check(t, err)
	get := ecs.CreateDescribeNetworkInterfaceAttributeRequest()
	get.NetworkInterfaceId = "eni-a"
	if e, err := client.DescribeNetworkInterfaceAttribute(get); err != nil || e.Description != "of a node" || !e.SourceDestCheck ||
		e.SecurityGroupIds.SecurityGroupId[0] != "sg-a" {
		t.Errorf("got %+v, %v", e, err)
	}
	set.SecurityGroupId = &[]string{"sg-x"}
	_, err = client.ModifyNetworkInterfaceAttribute(set)
	simtest.Refused(t, err, "InvalidSecurityGroupId.NotFound", 404)
	set.NetworkInterfaceId = "eni-y"
	_, err = client.ModifyNetworkInterfaceAttribute(set)
	simtest.Refused(t, err, "InvalidEniId.NotFound", 404)
	instances, err := client.DescribeInstances(ecs.CreateDescribeInstancesRequest())
	simtest.Check(t, err)
	if n := instances.Instances.Instance[0].NetworkInterfaces.NetworkInterface; len(n) != 1 || n[0].NetworkInterfaceId != "eni-a" || n[0].Type != "Primary" {
		t.Errorf("got %+v", n)
	}
}

// TestSecurityGroups makes the controller's calls for an NLB whose Service has source ranges.
func TestSecurityGroups(t *testing.T) {
	c := sim.New(t, nil)
	client := simtest.Dial(t, c, c.Admin(), ecs.NewClientWithOptions)
	make := func(edit func(*ecs.CreateSecurityGroupRequest)) (*ecs.CreateSecurityGroupResponse, error) {
		r := ecs.CreateCreateSecurityGroupRequest()
		r.SecurityGroupName, r.VpcId, r.ClientToken = "k8s-nlb-a1", "vpc-1", "t"
		r.Tag = &[]ecs.CreateSecurityGroupTag{{Key: "ack.aliyun.com", Value: "c1"}}
		if edit != nil {
			edit(r)
		}
		return client.CreateSecurityGroup(r)
	}
	made, err := make(nil)
	simtest.Check(t, err)
	if again, err := make(nil); err != nil || again.SecurityGroupId != made.SecurityGroupId {
		t.Errorf("a second try made %v, %v", again, err)
	}
	_, err = make(func(r *ecs.CreateSecurityGroupRequest) { r.ClientToken, r.VpcId = "", "vpc-x" })
	simtest.Refused(t, err, "InvalidVpcId.NotFound", 404)
	_, err = make(func(r *ecs.CreateSecurityGroupRequest) { r.ClientToken, r.SecurityGroupType = "", "x" })
	simtest.Refused(t, err, "InvalidParameter.SecurityGroupType", 400)
	id := made.SecurityGroupId

	authorize := func(list ...ecs.AuthorizeSecurityGroupPermissions) error {
		r := ecs.CreateAuthorizeSecurityGroupRequest()
		r.SecurityGroupId, r.Permissions = id, &list
		_, err := client.AuthorizeSecurityGroup(r)
		return err
	}
	allow := func(source, protocol, ports string) ecs.AuthorizeSecurityGroupPermissions {
		return ecs.AuthorizeSecurityGroupPermissions{SourceCidrIp: source, IpProtocol: protocol, PortRange: ports, Policy: "accept", Priority: "1", Description: "d"}
	}
	simtest.Check(t, authorize(allow("10.0.0.0/8", "TCP", "80/80"), allow("192.0.2.7", "ALL", "-1/-1"), ecs.AuthorizeSecurityGroupPermissions{
		Ipv6SourceCidrIp: "2001:db8::/32", IpProtocol: "ALL", PortRange: "-1/-1", Policy: "Drop", Priority: "100",
	}))
	simtest.Check(t, authorize(allow("10.0.0.0/8", "tcp", "80/80"))) // exists already
	for code, bad := range map[string]ecs.AuthorizeSecurityGroupPermissions{
		"InvalidSourceCidrIp.Malformed": allow("10.0.0.0/33", "TCP", "80/80"), "InvalidPortRange.Malformed": allow("10.0.0.0/8", "TCP", "80"),
		"OperationDenied": allow("10.0.0.0/8", "HTTP", "80/80"), "MissingParameter.Source": allow("", "TCP", "80/80"),
		"InvalidParameter.Priority": {IpProtocol: "TCP", Priority: "0"}, "InvalidPolicy.Malformed": {IpProtocol: "TCP", Policy: "maybe"},
	} {
		simtest.Refused(t, authorize(bad), code, 400)
	}
	simtest.Refused(t, authorize(), "MissingParameter.Permissions", 400)

	describe := func() []ecs.Permission {
		t.Helper()
		r := ecs.CreateDescribeSecurityGroupAttributeRequest()
		r.SecurityGroupId, r.Direction, r.MaxResults = id, "ingress", requests.NewInteger(1000)
		resp, err := client.DescribeSecurityGroupAttribute(r)
		simtest.Check(t, err)
		return resp.Permissions.Permission
	}
	rules := describe()
	if len(rules) != 3 || rules[0].IpProtocol != "TCP" || rules[0].SourceCidrIp != "10.0.0.0/8" || rules[0].PortRange != "80/80" ||
		rules[0].Direction != "ingress" ||
		rules[2].Policy != "Drop" || rules[2].Priority != "100" {
		t.Errorf("got %+v", rules)
	}
	m := ecs.CreateModifySecurityGroupRuleRequest()
	m.SecurityGroupId, m.SecurityGroupRuleId, m.PortRange = id, rules[0].SecurityGroupRuleId, "443/443"
	_, err = client.ModifySecurityGroupRule(m)
	simtest.Check(t, err)
	if got := describe()[0]; got.PortRange != "443/443" || got.SourceCidrIp != "10.0.0.0/8" || got.SecurityGroupRuleId != rules[0].SecurityGroupRuleId {
		t.Errorf("got %+v", got)
	}
	m.PortRange = "x"
	_, err = client.ModifySecurityGroupRule(m)
	simtest.Refused(t, err, "InvalidPortRange.Malformed", 400)
	m.SecurityGroupRuleId = "sgr-x"
	_, err = client.ModifySecurityGroupRule(m)
	simtest.Refused(t, err, "InvalidSecurityGroupRuleId.NotFound", 404)

	r := ecs.CreateRevokeSecurityGroupRequest()
	r.SecurityGroupId, r.SecurityGroupRuleId = id, &[]string{rules[0].SecurityGroupRuleId}
	_, err = client.RevokeSecurityGroup(r)
	simtest.Check(t, err)
	_, err = client.RevokeSecurityGroup(r)
	simtest.Refused(t, err, "InvalidSecurityGroupRuleId.NotFound", 404)
	r = ecs.CreateRevokeSecurityGroupRequest()
	r.SecurityGroupId = id
	_, err = client.RevokeSecurityGroup(r)
	simtest.Refused(t, err, "MissingParameter.Permissions", 400)
	r.IpProtocol, r.PortRange, r.SourceCidrIp = "ALL", "-1/-1", "192.0.2.7"
	_, err = client.RevokeSecurityGroup(r)
	simtest.Check(t, err)
	if rules = describe(); len(rules) != 1 {
		t.Errorf("got %+v", rules)
	}

	a := ecs.CreateModifySecurityGroupAttributeRequest()
	a.SecurityGroupId, a.Description = id, "new"
	_, err = client.ModifySecurityGroupAttribute(a)
	simtest.Check(t, err)
	l := ecs.CreateDescribeSecurityGroupsRequest()
	l.VpcId, l.SecurityGroupName, l.Tag = "vpc-1", "k8s-nlb-a1", &[]ecs.DescribeSecurityGroupsTag{{Key: "ack.aliyun.com", Value: "c1"}}
	list, err := client.DescribeSecurityGroups(l)
	simtest.Check(t, err)
	if g := list.SecurityGroups.SecurityGroup; len(g) != 1 || g[0].SecurityGroupId != id || g[0].Description != "new" || g[0].Tags.Tag[0].TagValue != "c1" ||
		g[0].RuleCount != 1 {
		t.Errorf("got %+v", g)
	}
	l.SecurityGroupIds = `["sg-x"]`
	if list, err = client.DescribeSecurityGroups(l); err != nil || len(list.SecurityGroups.SecurityGroup) != 0 {
		t.Errorf("got %+v, %v", list, err)
	}

	c.Edit(func(s *sim.State) { s.NLBs["nlb-1"] = &sim.NLB{SecurityGroups: []string{id}} })
	d := ecs.CreateDeleteSecurityGroupRequest()
	d.SecurityGroupId = id
	_, err = client.DeleteSecurityGroup(d)
	simtest.Refused(t, err, "DependencyViolation", 403)
	c.Edit(func(s *sim.State) { delete(s.NLBs, "nlb-1") })
	_, err = client.DeleteSecurityGroup(d)
	simtest.Check(t, err)
	_, err = client.DeleteSecurityGroup(d)
	simtest.Refused(t, err, "InvalidSecurityGroupId.NotFound", 404)
}

func TestECS(t *testing.T) {
	c := sim.New(t, &sim.World{
		ENIs: []sim.ENI{{ID: "eni-a", IPs: []string{"10.0.0.5", "10.0.0.6"}, VSwitch: "vsw-1", Instance: "i-a"}, {ID: "eni-b", IPs: []string{"10.0.0.7"},
			Status: "Available"}},
		Instances: []sim.Instance{{ID: "i-a", IP: "10.0.0.2", VSwitch: "vsw-1"}, {ID: "i-b"}},
	})
	client := simtest.Dial(t, c, c.Admin(), ecs.NewClientWithOptions)
	r := ecs.CreateDescribeNetworkInterfacesRequest()
	r.VpcId, r.PrivateIpAddress, r.Status = "vpc-1", &[]string{"10.0.0.6", "10.0.0.7"}, "InUse"
	enis, err := client.DescribeNetworkInterfaces(r)
	simtest.Check(t, err)
	if l := enis.NetworkInterfaceSets.NetworkInterfaceSet; len(l) != 1 || l[0].NetworkInterfaceId != "eni-a" || l[0].PrivateIpAddress != "10.0.0.5" ||
		len(l[0].PrivateIpSets.PrivateIpSet) != 2 {
		t.Errorf("got %+v", l)
	}
	i := ecs.CreateDescribeInstancesRequest()
	i.InstanceIds, i.MaxResults = `["i-a","i-x"]`, requests.NewInteger(10)
	instances, err := client.DescribeInstances(i)
	simtest.Check(t, err)
	if l := instances.Instances.Instance; len(l) != 1 || l[0].VpcAttributes.PrivateIpAddress.IpAddress[0] != "10.0.0.2" || l[0].ZoneId != "cn-hangzhou-h" {
		t.Errorf("got %+v", l)
	}
}
