package sim

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A SecurityGroup says who may reach what is in it. The controller makes one
// for an NLB whose Service names source ranges.
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

// A SecurityRule lets some traffic in, or keeps it out.
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

func securityGroupActions() map[string]*action {
	one := []string{"SecurityGroupId"}
	m := map[string]*action{
		"CreateSecurityGroup":            {do: once(createSecurityGroup), need: []string{"RegionId"}},
		"DeleteSecurityGroup":            {do: deleteSecurityGroup, need: one},
		"DescribeSecurityGroups":         {do: describeSecurityGroups},
		"DescribeSecurityGroupAttribute": {do: describeSecurityGroup, need: one},
		"ModifySecurityGroupAttribute":   {do: modifySecurityGroup, need: one},
		"ModifySecurityGroupRule":        {do: modifyRule, need: append(one, "SecurityGroupRuleId")},
		"AuthorizeSecurityGroup":         {do: once(authorizeRules), need: one},
		"RevokeSecurityGroup":            {do: once(revokeRules), need: one},
	}
	for _, a := range m {
		a.resource = func(q *request) string { return "securitygroup/" + cmp.Or(q.params["SecurityGroupId"], "*") }
	}
	return m
}

func fillSecurityGroups(s *State, w *World) error {
	var errs []error
	s.SecurityGroups, errs = index(errs, "security group", w.SecurityGroups, func(g *SecurityGroup) string { return g.ID }, func(i int, g *SecurityGroup) {
		g.ID = cmp.Or(g.ID, fmt.Sprintf("sg-%d", i+1))
		g.fill(s)
	})
	return errors.Join(errs...)
}

func (g *SecurityGroup) fill(s *State) {
	g.VPC, g.Type = cmp.Or(g.VPC, s.Cluster.VPC), cmp.Or(g.Type, "normal")
	if g.Created.IsZero() {
		g.Created = s.started
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

// same reports whether two rules say the same; descriptions do not count.
func (r SecurityRule) same(o SecurityRule) bool {
	r.ID, r.Description, o.ID, o.Description = "", "", "", ""
	r.Policy, o.Policy = strings.ToLower(r.Policy), strings.ToLower(o.Policy)
	return r == o
}

func (q *request) securityGroup() (*SecurityGroup, *failure) {
	if g := q.state.SecurityGroups[q.params["SecurityGroupId"]]; g != nil {
		return g, nil
	}
	return nil, fail(http.StatusNotFound, "InvalidSecurityGroupId.NotFound", "The specified SecurityGroupId does not exist.")
}

func createSecurityGroup(q *request) (any, *failure) {
	p, s := q.params, q.state
	g := &SecurityGroup{
		Name: p["SecurityGroupName"], Description: p["Description"], VPC: p["VpcId"], Type: p["SecurityGroupType"],
		Created: q.now.UTC().Truncate(time.Second),
	}
	switch {
	case g.VPC != "" && s.VPCs[g.VPC] == nil:
		return nil, fail(http.StatusNotFound, "InvalidVpcId.NotFound", "The specified VpcId does not exist.")
	case !oneOf("normal,enterprise", cmp.Or(g.Type, "normal")):
		return nil, invalid("SecurityGroupType")
	case len(g.Name) > 128:
		return nil, fail(http.StatusBadRequest, "InvalidSecurityGroupName.Malformed", "The specified security group name is wrongly formed.")
	}
	var bad *failure
	if g.Tags, bad = p.tags(); bad != nil {
		return nil, bad
	}
	g.ID = s.id("sg-", func(id string) bool { return s.SecurityGroups[id] != nil })
	g.fill(s)
	s.SecurityGroups[g.ID] = g
	return reply{"SecurityGroupId": g.ID}, nil
}

func deleteSecurityGroup(q *request) (any, *failure) {
	g, bad := q.securityGroup()
	if bad != nil {
		return nil, bad
	}
	for _, n := range q.state.NLBs {
		if slices.Contains(n.SecurityGroups, g.ID) {
			return nil, fail(http.StatusForbidden, "DependencyViolation", "There is still instance(s) in the specified security group.")
		}
	}
	delete(q.state.SecurityGroups, g.ID)
	return reply{}, nil
}

func describeSecurityGroups(q *request) (any, *failure) {
	p := q.params
	ids, bad := p.ids("SecurityGroupIds")
	if bad != nil {
		return nil, bad
	}
	tags, bad := p.tags()
	if bad != nil {
		return nil, bad
	}
	list := []reply{}
	for _, id := range slices.Sorted(maps.Keys(q.state.SecurityGroups)) {
		g := q.state.SecurityGroups[id]
		if ids != nil && !slices.Contains(ids, id) || !is(p["SecurityGroupId"], id) || !is(p["VpcId"], g.VPC) ||
			!is(p["SecurityGroupName"], g.Name) || !is(p["SecurityGroupType"], g.Type) || !carries(g.Tags, tags) {
			continue
		}
		pairs := []reply{}
		for _, k := range slices.Sorted(maps.Keys(g.Tags)) {
			pairs = append(pairs, reply{"TagKey": k, "TagValue": g.Tags[k]})
		}
		list = append(list, reply{
			"SecurityGroupId": id, "SecurityGroupName": g.Name, "Description": g.Description, "VpcId": g.VPC, "SecurityGroupType": g.Type,
			"RuleCount": len(g.Rules), "CreationTime": g.Created.Format("2006-01-02T15:04:05Z"), "Tags": reply{"Tag": pairs},
		})
	}
	return pageOrChunk(q, list, 100, "SecurityGroups", "SecurityGroup", func(e reply) reply { return e })
}

func describeSecurityGroup(q *request) (any, *failure) {
	g, bad := q.securityGroup()
	if bad != nil {
		return nil, bad
	}
	if !oneOf("ingress,egress,all", cmp.Or(q.params["Direction"], "all")) {
		return nil, invalid("Direction")
	}
	list := []reply{}
	for _, r := range g.Rules {
		if q.params["Direction"] == "egress" {
			break // all rules are for what comes in
		}
		list = append(list, reply{
			"SecurityGroupRuleId": r.ID, "Direction": "ingress", "IpProtocol": r.Protocol, "PortRange": r.Ports, "SourceCidrIp": r.Source,
			"Ipv6SourceCidrIp": r.Source6, "Policy": r.Policy, "Priority": strconv.Itoa(r.Priority), "NicType": "intranet", "Description": r.Description,
			"CreateTime": g.Created.Format("2006-01-02T15:04:05Z"),
		})
	}
	part, next, bad := chunk(q.params, list, 1000, 1000)
	if bad != nil {
		return nil, bad
	}
	return reply{
		"SecurityGroupId": g.ID, "SecurityGroupName": g.Name, "Description": g.Description, "VpcId": g.VPC, "RegionId": q.state.Region,
		"InnerAccessPolicy": "Accept", "Permissions": reply{"Permission": part}, "NextToken": next,
	}, nil
}

func modifySecurityGroup(q *request) (any, *failure) {
	g, bad := q.securityGroup()
	if bad != nil {
		return nil, bad
	}
	g.Name, g.Description = cmp.Or(q.params["SecurityGroupName"], g.Name), cmp.Or(q.params["Description"], g.Description)
	return reply{}, nil
}

// rule reads one rule.
func (p params) rule() (SecurityRule, *failure) {
	r := SecurityRule{
		Protocol: p["IpProtocol"], Ports: p["PortRange"], Source: p["SourceCidrIp"], Source6: p["Ipv6SourceCidrIp"], Policy: p["Policy"],
		Description: p["Description"],
	}
	var bad *failure
	if r.Priority, bad = p.number("Priority", 1, 100, 1); bad != nil {
		return r, bad
	}
	r.fill("")
	if !oneOf("TCP,UDP,ICMP,ICMPV6,GRE,ALL", r.Protocol) {
		return r, fail(http.StatusBadRequest, "OperationDenied", "The specified IpProtocol does not exist or IpProtocol and PortRange do not match.")
	}
	if !oneOf("accept,drop", strings.ToLower(r.Policy)) {
		return r, fail(http.StatusBadRequest, "InvalidPolicy.Malformed", "The specified parameter Policy is not valid.")
	}
	from, to, ok := strings.Cut(r.Ports, "/")
	a, err := strconv.Atoi(from)
	b, err2 := strconv.Atoi(to)
	if !ok || err != nil || err2 != nil || a > b || b > 65535 || (r.Protocol == "TCP" || r.Protocol == "UDP") && a < 1 {
		return r, fail(http.StatusBadRequest, "InvalidPortRange.Malformed", "The specified parameter PortRange is not valid.")
	}
	for name, block := range map[string]string{"SourceCidrIp": r.Source, "Ipv6SourceCidrIp": r.Source6} {
		_, err := netip.ParsePrefix(block)
		_, alone := netip.ParseAddr(block)
		if block != "" && err != nil && alone != nil {
			return r, fail(http.StatusBadRequest, "Invalid"+name+".Malformed", "The specified parameter %s is not valid.", name)
		}
	}
	if r.Source == "" && r.Source6 == "" {
		return r, fail(http.StatusBadRequest, "MissingParameter.Source", "One of the parameters SourceCidrIp, Ipv6SourceCidrIp, SourceGroupId or SourcePrefixListId in %s must be specified.", "Permissions")
	}
	return r, nil
}

// rules reads the rules of a request: a list, or one that is written flat.
func (q *request) rules() ([]SecurityRule, *failure) {
	said := q.params.structs("Permissions")
	if said == nil && q.params["IpProtocol"] != "" {
		said = []params{q.params}
	}
	var list []SecurityRule
	for _, p := range said {
		r, bad := p.rule()
		if bad != nil {
			return nil, bad
		}
		list = append(list, r)
	}
	return list, nil
}

func authorizeRules(q *request) (any, *failure) {
	g, bad := q.securityGroup()
	if bad != nil {
		return nil, bad
	}
	list, bad := q.rules()
	switch {
	case bad != nil:
		return nil, bad
	case list == nil:
		return nil, missing("Permissions")
	case len(g.Rules)+len(list) > 200:
		return nil, fail(http.StatusForbidden, "AuthorizationLimitExceed", "The limit of authorization records in the security group reaches.")
	}
	for _, r := range list { // one that is there already stays as it is
		if slices.ContainsFunc(g.Rules, r.same) {
			continue
		}
		r.ID = q.state.id("sgr-", func(id string) bool {
			return slices.ContainsFunc(g.Rules, func(o SecurityRule) bool { return o.ID == id })
		})
		g.Rules = append(g.Rules, r)
	}
	return reply{}, nil
}

func revokeRules(q *request) (any, *failure) {
	g, bad := q.securityGroup()
	if bad != nil {
		return nil, bad
	}
	ids := q.params.list("SecurityGroupRuleId")
	list, bad := q.rules()
	switch {
	case bad != nil:
		return nil, bad
	case list == nil && ids == nil:
		return nil, missing("Permissions")
	}
	for _, id := range ids {
		if !slices.ContainsFunc(g.Rules, func(r SecurityRule) bool { return r.ID == id }) {
			return nil, noRule()
		}
	}
	g.Rules = slices.DeleteFunc(g.Rules, func(r SecurityRule) bool { return slices.Contains(ids, r.ID) || slices.ContainsFunc(list, r.same) })
	return reply{}, nil
}

func noRule() *failure {
	return fail(http.StatusNotFound, "InvalidSecurityGroupRuleId.NotFound", "The specified SecurityGroupRuleId does not exist.")
}

func modifyRule(q *request) (any, *failure) {
	g, bad := q.securityGroup()
	if bad != nil {
		return nil, bad
	}
	i := slices.IndexFunc(g.Rules, func(r SecurityRule) bool { return r.ID == q.params["SecurityGroupRuleId"] })
	if i < 0 {
		return nil, noRule()
	}
	r, said := g.Rules[i], maps.Clone(q.params)
	for k, v := range map[string]string{
		"IpProtocol": r.Protocol, "PortRange": r.Ports, "SourceCidrIp": r.Source, "Ipv6SourceCidrIp": r.Source6, "Policy": r.Policy,
		"Priority": strconv.Itoa(r.Priority), "Description": r.Description,
	} {
		said[k] = cmp.Or(said[k], v)
	}
	changed, bad := said.rule()
	if bad != nil {
		return nil, bad
	}
	changed.ID = r.ID
	g.Rules[i] = changed
	return reply{}, nil
}
