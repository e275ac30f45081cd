package sim_test

import (
	"testing"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/ecs"

	"github.com/lbremedy/lbremedy/test/sim"
)

// TestSecurityGroups does what the controller does for an NLB whose Service
// names source ranges.
func TestSecurityGroups(t *testing.T) {
	c := sim.New(t, nil)
	client := dial(t, c, c.Admin(), ecs.NewClientWithOptions)
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
	check(t, err)
	if again, err := make(nil); err != nil || again.SecurityGroupId != made.SecurityGroupId {
		t.Errorf("a second try made %v, %v", again, err)
	}
	_, err = make(func(r *ecs.CreateSecurityGroupRequest) { r.ClientToken, r.VpcId = "", "vpc-x" })
	refused(t, err, "InvalidVpcId.NotFound", 404)
	_, err = make(func(r *ecs.CreateSecurityGroupRequest) { r.ClientToken, r.SecurityGroupType = "", "x" })
	refused(t, err, "InvalidParameter.SecurityGroupType", 400)
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
	check(t, authorize(allow("10.0.0.0/8", "TCP", "80/80"), allow("192.0.2.7", "ALL", "-1/-1"), ecs.AuthorizeSecurityGroupPermissions{
		Ipv6SourceCidrIp: "2001:db8::/32", IpProtocol: "ALL", PortRange: "-1/-1", Policy: "Drop", Priority: "100",
	}))
	check(t, authorize(allow("10.0.0.0/8", "tcp", "80/80"))) // there already
	for code, bad := range map[string]ecs.AuthorizeSecurityGroupPermissions{
		"InvalidSourceCidrIp.Malformed": allow("10.0.0.0/33", "TCP", "80/80"), "InvalidPortRange.Malformed": allow("10.0.0.0/8", "TCP", "80"),
		"OperationDenied": allow("10.0.0.0/8", "HTTP", "80/80"), "MissingParameter.Source": allow("", "TCP", "80/80"),
		"InvalidParameter.Priority": {IpProtocol: "TCP", Priority: "0"}, "InvalidPolicy.Malformed": {IpProtocol: "TCP", Policy: "maybe"},
	} {
		refused(t, authorize(bad), code, 400)
	}
	refused(t, authorize(), "MissingParameter.Permissions", 400)

	describe := func() []ecs.Permission {
		t.Helper()
		r := ecs.CreateDescribeSecurityGroupAttributeRequest()
		r.SecurityGroupId, r.Direction, r.MaxResults = id, "ingress", requests.NewInteger(1000)
		resp, err := client.DescribeSecurityGroupAttribute(r)
		check(t, err)
		return resp.Permissions.Permission
	}
	rules := describe()
	if len(rules) != 3 || rules[0].IpProtocol != "TCP" || rules[0].SourceCidrIp != "10.0.0.0/8" || rules[0].PortRange != "80/80" || rules[0].Direction != "ingress" ||
		rules[2].Policy != "Drop" || rules[2].Priority != "100" {
		t.Errorf("got %+v", rules)
	}
	m := ecs.CreateModifySecurityGroupRuleRequest()
	m.SecurityGroupId, m.SecurityGroupRuleId, m.PortRange = id, rules[0].SecurityGroupRuleId, "443/443"
	_, err = client.ModifySecurityGroupRule(m)
	check(t, err)
	if got := describe()[0]; got.PortRange != "443/443" || got.SourceCidrIp != "10.0.0.0/8" || got.SecurityGroupRuleId != rules[0].SecurityGroupRuleId {
		t.Errorf("got %+v", got)
	}
	m.PortRange = "x"
	_, err = client.ModifySecurityGroupRule(m)
	refused(t, err, "InvalidPortRange.Malformed", 400)
	m.SecurityGroupRuleId = "sgr-x"
	_, err = client.ModifySecurityGroupRule(m)
	refused(t, err, "InvalidSecurityGroupRuleId.NotFound", 404)

	r := ecs.CreateRevokeSecurityGroupRequest()
	r.SecurityGroupId, r.SecurityGroupRuleId = id, &[]string{rules[0].SecurityGroupRuleId}
	_, err = client.RevokeSecurityGroup(r)
	check(t, err)
	_, err = client.RevokeSecurityGroup(r)
	refused(t, err, "InvalidSecurityGroupRuleId.NotFound", 404)
	r = ecs.CreateRevokeSecurityGroupRequest()
	r.SecurityGroupId = id
	_, err = client.RevokeSecurityGroup(r)
	refused(t, err, "MissingParameter.Permissions", 400)
	r.IpProtocol, r.PortRange, r.SourceCidrIp = "ALL", "-1/-1", "192.0.2.7"
	_, err = client.RevokeSecurityGroup(r)
	check(t, err)
	if rules = describe(); len(rules) != 1 {
		t.Errorf("got %+v", rules)
	}

	a := ecs.CreateModifySecurityGroupAttributeRequest()
	a.SecurityGroupId, a.Description = id, "new"
	_, err = client.ModifySecurityGroupAttribute(a)
	check(t, err)
	l := ecs.CreateDescribeSecurityGroupsRequest()
	l.VpcId, l.SecurityGroupName, l.Tag = "vpc-1", "k8s-nlb-a1", &[]ecs.DescribeSecurityGroupsTag{{Key: "ack.aliyun.com", Value: "c1"}}
	list, err := client.DescribeSecurityGroups(l)
	check(t, err)
	if g := list.SecurityGroups.SecurityGroup; len(g) != 1 || g[0].SecurityGroupId != id || g[0].Description != "new" || g[0].Tags.Tag[0].TagValue != "c1" || g[0].RuleCount != 1 {
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
	refused(t, err, "DependencyViolation", 403)
	c.Edit(func(s *sim.State) { delete(s.NLBs, "nlb-1") })
	_, err = client.DeleteSecurityGroup(d)
	check(t, err)
	_, err = client.DeleteSecurityGroup(d)
	refused(t, err, "InvalidSecurityGroupId.NotFound", 404)
}
