package ecs

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

// A SecurityGroup controls access to its members. The controller creates one for an NLB whose Service has source ranges.
type SecurityGroup struct {
	ID          string            `json:"id,omitempty"`
	Name        string            `json:"name,omitempty"`
	Description string            `json:"description,omitempty"`
	VPC         string            `json:"vpc,omitempty"`  // the cluster's if empty
	Type        string            `json:"type,omitempty"` // normal if empty, or enterprise
	Tags        map[string]string `json:"tags,omitempty"`
	Rules       []SecurityRule    `json:"rules,omitempty"`
	Created     time.Time         `json:"created,omitzero"`
}

// A SecurityRule admits or drops traffic.
type SecurityRule struct {
	ID          string `json:"id,omitempty"`
	Protocol    string `json:"protocol,omitempty"` // ALL if empty
	Ports       string `json:"ports,omitempty"`    // such as 80/80; -1/-1 if empty
	Source      string `json:"source,omitempty"`   // IPv4 block
	Source6     string `json:"source6,omitempty"`  // IPv6 block
	Policy      string `json:"policy,omitempty"`   // Accept if empty, or Drop
	Priority    int    `json:"priority,omitempty"` // 1 if 0
	Description string `json:"description,omitempty"`
}

func securityGroupActions() map[string]*core.Action {
	one := []string{"SecurityGroupId"}
	m := map[string]*core.Action{
		"CreateSecurityGroup":            {Do: core.Once(on(createSecurityGroup)), Need: []string{"RegionId"}},
		"DeleteSecurityGroup":            {Do: on(deleteSecurityGroup), Need: one},
		"DescribeSecurityGroups":         {Do: on(describeSecurityGroups)},
		"DescribeSecurityGroupAttribute": {Do: on(describeSecurityGroup), Need: one},
		"ModifySecurityGroupAttribute":   {Do: on(modifySecurityGroup), Need: one},
		"ModifySecurityGroupRule":        {Do: on(modifyRule), Need: append(one, "SecurityGroupRuleId")},
		"AuthorizeSecurityGroup":         {Do: core.Once(on(authorizeRules)), Need: one},
		"RevokeSecurityGroup":            {Do: core.Once(on(revokeRules)), Need: one},
	}
	for _, a := range m {
		a.Resource = func(q *core.Request) string { return "securitygroup/" + cmp.Or(q.Params["SecurityGroupId"], "*") }
	}
	return m
}

func (g *SecurityGroup) fill(s *State) {
	g.VPC, g.Type = cmp.Or(g.VPC, s.Home), cmp.Or(g.Type, "normal")
	if g.Created.IsZero() {
		g.Created = s.Started
	}
	if g.Tags == nil {
		g.Tags = map[string]string{}
	}
	for i := range g.Rules {
		g.Rules[i].fill(fmt.Sprintf("sgr-%s-%d", g.ID, i+1))
	}
}

func (r *SecurityRule) fill(id string) {
	r.ID, r.Protocol, r.Ports = cmp.Or(r.ID, id), cmp.Or(strings.ToUpper(r.Protocol), "ALL"), cmp.Or(r.Ports, "-1/-1")
	r.Policy, r.Priority = cmp.Or(r.Policy, "Accept"), cmp.Or(r.Priority, 1)
}

func (r SecurityRule) same(o SecurityRule) bool {
	r.ID, r.Description, o.ID, o.Description = "", "", "", ""
	r.Policy, o.Policy = strings.ToLower(r.Policy), strings.ToLower(o.Policy)
	return r == o
}

func (q *request) securityGroup() (*SecurityGroup, *core.Failure) {
	if g := q.state.SecurityGroups[q.Params["SecurityGroupId"]]; g != nil {
		return g, nil
	}
	return nil, core.Fail(http.StatusNotFound, "InvalidSecurityGroupId.NotFound", "The specified SecurityGroupId does not exist.")
}

func createSecurityGroup(q *request) (any, *core.Failure) {
	p, s := q.Params, q.state
	g := &SecurityGroup{
		Name: p["SecurityGroupName"], Description: p["Description"], VPC: p["VpcId"], Type: p["SecurityGroupType"],
		Created: q.Now.UTC().Truncate(time.Second),
	}
	switch {
	case g.VPC != "" && s.vpc.VPCs[g.VPC] == nil:
		return nil, core.Fail(http.StatusNotFound, "InvalidVpcId.NotFound", "The specified VpcId does not exist.")
	case !core.OneOf("normal,enterprise", cmp.Or(g.Type, "normal")):
		return nil, core.Invalid("SecurityGroupType")
	case len(g.Name) > 128:
		return nil, core.Fail(http.StatusBadRequest, "InvalidSecurityGroupName.Malformed", "The specified security group name is wrongly formed.")
	}
	var bad *core.Failure
	if g.Tags, bad = p.Tags(); bad != nil {
		return nil, bad
	}
	g.ID = s.ID("sg-", func(id string) bool { return s.SecurityGroups[id] != nil })
	g.fill(s)
	s.SecurityGroups[g.ID] = g
	return core.Reply{"SecurityGroupId": g.ID}, nil
}

func deleteSecurityGroup(q *request) (any, *core.Failure) {
	g, bad := q.securityGroup()
	if bad != nil {
		return nil, bad
	}
	if q.state.InUse(g.ID) {
		return nil, core.Fail(http.StatusForbidden, "DependencyViolation", "There is still instance(s) in the specified security group.")
	}
	delete(q.state.SecurityGroups, g.ID)
	return core.Reply{}, nil
}

func describeSecurityGroups(q *request) (any, *core.Failure) {
	p := q.Params
	ids, bad := p.IDs("SecurityGroupIds")
	if bad != nil {
		return nil, bad
	}
	tags, bad := p.Tags()
	if bad != nil {
		return nil, bad
	}
	list := []core.Reply{}
	for _, id := range slices.Sorted(maps.Keys(q.state.SecurityGroups)) {
		g := q.state.SecurityGroups[id]
		if ids != nil && !slices.Contains(ids, id) || !core.Is(p["SecurityGroupId"], id) || !core.Is(p["VpcId"], g.VPC) ||
			!core.Is(p["SecurityGroupName"], g.Name) || !core.Is(p["SecurityGroupType"], g.Type) || !core.Carries(g.Tags, tags) {
			continue
		}
		list = append(list, core.Reply{
			"SecurityGroupId": id, "SecurityGroupName": g.Name, "Description": g.Description, "VpcId": g.VPC, "SecurityGroupType": g.Type,
			"RuleCount": len(g.Rules), "CreationTime": g.Created.Format("2006-01-02T15:04:05Z"), "Tags": core.Reply{"Tag": core.ShowTags(g.Tags)},
		})
	}
	return pageOrChunk(q, list, 100, "SecurityGroups", "SecurityGroup", func(e core.Reply) core.Reply { return e })
}

func describeSecurityGroup(q *request) (any, *core.Failure) {
	g, bad := q.securityGroup()
	if bad != nil {
		return nil, bad
	}
	if !core.OneOf("ingress,egress,all", cmp.Or(q.Params["Direction"], "all")) {
		return nil, core.Invalid("Direction")
	}
	list := []core.Reply{}
	for _, r := range g.Rules {
		if q.Params["Direction"] == "egress" {
			break // all rules are for ingress
		}
		list = append(list, core.Reply{
			"SecurityGroupRuleId": r.ID, "Direction": "ingress", "IpProtocol": r.Protocol, "PortRange": r.Ports, "SourceCidrIp": r.Source,
			"Ipv6SourceCidrIp": r.Source6, "Policy": r.Policy, "Priority": strconv.Itoa(r.Priority), "NicType": "intranet", "Description": r.Description,
			"CreateTime": g.Created.Format("2006-01-02T15:04:05Z"),
		})
	}
	part, next, bad := core.Chunk(q.Params, list, 1000, 1000)
	if bad != nil {
		return nil, bad
	}
	return core.Reply{
		"SecurityGroupId": g.ID, "SecurityGroupName": g.Name, "Description": g.Description, "VpcId": g.VPC, "RegionId": q.state.Region,
		"InnerAccessPolicy": "Accept", "Permissions": core.Reply{"Permission": part}, "NextToken": next,
	}, nil
}

func modifySecurityGroup(q *request) (any, *core.Failure) {
	g, bad := q.securityGroup()
	if bad != nil {
		return nil, bad
	}
	g.Name, g.Description = cmp.Or(q.Params["SecurityGroupName"], g.Name), cmp.Or(q.Params["Description"], g.Description)
	return core.Reply{}, nil
}

func rule(p core.Params) (SecurityRule, *core.Failure) {
	r := SecurityRule{
		Protocol: p["IpProtocol"], Ports: p["PortRange"], Source: p["SourceCidrIp"], Source6: p["Ipv6SourceCidrIp"], Policy: p["Policy"],
		Description: p["Description"],
	}
	var bad *core.Failure
	if r.Priority, bad = p.Number("Priority", 1, 100, 1); bad != nil {
		return r, bad
	}
	r.fill("")
	if !core.OneOf("TCP,UDP,ICMP,ICMPV6,GRE,ALL", r.Protocol) {
		return r, core.Fail(http.StatusBadRequest, "OperationDenied", "The specified IpProtocol does not exist or IpProtocol and PortRange do not match.")
	}
	if !core.OneOf("accept,drop", strings.ToLower(r.Policy)) {
		return r, core.Fail(http.StatusBadRequest, "InvalidPolicy.Malformed", "The specified parameter Policy is not valid.")
	}
	from, to, ok := strings.Cut(r.Ports, "/")
	a, err := strconv.Atoi(from)
	b, err2 := strconv.Atoi(to)
	if !ok || err != nil || err2 != nil || a > b || b > 65535 || (r.Protocol == "TCP" || r.Protocol == "UDP") && a < 1 {
		return r, core.Fail(http.StatusBadRequest, "InvalidPortRange.Malformed", "The specified parameter PortRange is not valid.")
	}
	for name, block := range map[string]string{"SourceCidrIp": r.Source, "Ipv6SourceCidrIp": r.Source6} {
		_, err := netip.ParsePrefix(block)
		_, alone := netip.ParseAddr(block)
		if block != "" && err != nil && alone != nil {
			return r, core.Fail(http.StatusBadRequest, "Invalid"+name+".Malformed", "The specified parameter %s is not valid.", name)
		}
	}
	if r.Source == "" && r.Source6 == "" {
		return r, core.Fail(http.StatusBadRequest, "MissingParameter.Source",
			"One of the parameters SourceCidrIp, Ipv6SourceCidrIp, SourceGroupId or SourcePrefixListId in %s must be specified.", "Permissions")
	}
	return r, nil
}

// rules parses a request's rules: a list, or a single one without a prefix.
func (q *request) rules() ([]SecurityRule, *core.Failure) {
	said := q.Params.Structs("Permissions")
	if said == nil && q.Params["IpProtocol"] != "" {
		said = []core.Params{q.Params}
	}
	var list []SecurityRule
	for _, p := range said {
		r, bad := rule(p)
		if bad != nil {
			return nil, bad
		}
		list = append(list, r)
	}
	return list, nil
}

func authorizeRules(q *request) (any, *core.Failure) {
	g, bad := q.securityGroup()
	if bad != nil {
		return nil, bad
	}
	list, bad := q.rules()
	switch {
	case bad != nil:
		return nil, bad
	case list == nil:
		return nil, core.Missing("Permissions")
	case len(g.Rules)+len(list) > 200:
		return nil, core.Fail(http.StatusForbidden, "AuthorizationLimitExceed", "The limit of authorization records in the security group reaches.")
	}
	for _, r := range list { // existing rules are kept
		if slices.ContainsFunc(g.Rules, r.same) {
			continue
		}
		r.ID = q.state.ID("sgr-", func(id string) bool {
			return slices.ContainsFunc(g.Rules, func(o SecurityRule) bool { return o.ID == id })
		})
		g.Rules = append(g.Rules, r)
	}
	return core.Reply{}, nil
}

func revokeRules(q *request) (any, *core.Failure) {
	g, bad := q.securityGroup()
	if bad != nil {
		return nil, bad
	}
	ids := q.Params.List("SecurityGroupRuleId")
	list, bad := q.rules()
	switch {
	case bad != nil:
		return nil, bad
	case list == nil && ids == nil:
		return nil, core.Missing("Permissions")
	}
	for _, id := range ids {
		if !slices.ContainsFunc(g.Rules, func(r SecurityRule) bool { return r.ID == id }) {
			return nil, noRule()
		}
	}
	g.Rules = slices.DeleteFunc(g.Rules, func(r SecurityRule) bool { return slices.Contains(ids, r.ID) || slices.ContainsFunc(list, r.same) })
	return core.Reply{}, nil
}

func noRule() *core.Failure {
	return core.Fail(http.StatusNotFound, "InvalidSecurityGroupRuleId.NotFound", "The specified SecurityGroupRuleId does not exist.")
}

func modifyRule(q *request) (any, *core.Failure) {
	g, bad := q.securityGroup()
	if bad != nil {
		return nil, bad
	}
	i := slices.IndexFunc(g.Rules, func(r SecurityRule) bool { return r.ID == q.Params["SecurityGroupRuleId"] })
	if i < 0 {
		return nil, noRule()
	}
	r, said := g.Rules[i], maps.Clone(q.Params)
	for k, v := range map[string]string{
		"IpProtocol": r.Protocol, "PortRange": r.Ports, "SourceCidrIp": r.Source, "Ipv6SourceCidrIp": r.Source6, "Policy": r.Policy,
		"Priority": strconv.Itoa(r.Priority), "Description": r.Description,
	} {
		said[k] = cmp.Or(said[k], v)
	}
	changed, bad := rule(said)
	if bad != nil {
		return nil, bad
	}
	changed.ID = r.ID
	g.Rules[i] = changed
	return core.Reply{}, nil
}
