package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aliyun/alibaba-cloud-sdk-go/services/ecs"
)

const labelSecurityGroup = "service.k8s.alibaba/security-group-id"

// A sourceGroup is the security group that admits only the Service's loadBalancerSourceRanges to its NLB, since v2.14.0.
type sourceGroup struct {
	groupID, name, description string
	rules                      []ecs.Permission
}

func (g *sourceGroup) id() string {
	if g == nil {
		return ""
	}
	return g.groupID
}

// updateSecurityGroups makes the NLB join and leave security groups: the listed ones and that of the source ranges. Without
// either, it removes the groups that others added only if there was one for source ranges. Before v2.14.0 it left groups first,
// and stopped at the first error (pkg/provider/alibaba/nlb/loadbalancer.go).
func (p networkPass) updateSecurityGroups(ctx context.Context, want, lb *networkBalancer) error {
	wanted := slices.Clone(want.securityGroups)
	if want.sourceGroup != "" {
		wanted = append(wanted, want.sourceGroup)
	}
	if want.securityGroups == nil && lb.source == nil && len(wanted) == 0 || !differ(wanted, lb.securityGroups) {
		return nil
	}
	change := func(action string, ids []string) error {
		if len(ids) == 0 {
			return nil
		}
		return p.work(ctx, action, sayList(map[string]string{"LoadBalancerId": lb.id}, "SecurityGroupIds", ids))
	}
	gone := without(lb.securityGroups, wanted)
	leave := func() error { return change("LoadBalancerLeaveSecurityGroup", gone) }
	join := func() error { return change("LoadBalancerJoinSecurityGroup", without(wanted, lb.securityGroups)) }
	if !p.version.since("v2.14.0") {
		if err := leave(); err != nil {
			return err
		}
		return join()
	}
	var errs []error
	err := p.again(ctx, "Conflict", join)
	full := err != nil && strings.Contains(err.Error(), "QuotaInsufficient")
	if !full {
		errs = append(errs, err)
	}
	errs = append(errs, leave())
	if full { // leaving may have made room
		errs = append(errs, p.again(ctx, "Conflict", join))
	}
	return aggregate(errs)
}

// looksForSources reports whether the Service may have a security group of source ranges. On a user's NLB it belongs to the user.
func (p networkPass) looksForSources(want, lb *networkBalancer) bool {
	return p.version.since("v2.14.0") && !want.reused &&
		(len(want.sources) > 0 || len(lb.securityGroups) > 0 || p.svc.Labels[labelSecurityGroup] != "")
}

// findSources finds or creates that group, and reports whether its rules need an update. The controller only logs errors here.
func (p networkPass) findSources(ctx context.Context, want, lb *networkBalancer) bool {
	if p.cloud.dry != nil {
		return false // a dry run ignores security groups
	}
	err := func() (err error) {
		if lb.source, err = p.readSources(ctx); err != nil || lb.source != nil || len(want.sources) == 0 {
			return err
		}
		if err := p.createSources(ctx, want); err != nil {
			return fmt.Errorf("error to create security group for nlb, svc [%s], err: %w", p.service(), err)
		}
		lb.source, err = p.readSources(ctx)
		return err
	}()
	if err != nil {
		p.Log.Error("prepare source ranges", "service", p.service(), "error", err)
		return false
	}
	if lb.source == nil || len(want.sources) == 0 {
		return false
	}
	want.sourceGroup = lb.source.groupID
	return true
}

func (p networkPass) readSources(ctx context.Context) (*sourceGroup, error) {
	list, found := ecs.CreateDescribeSecurityGroupsRequest(), ecs.CreateDescribeSecurityGroupsResponse()
	list.Tag = &[]ecs.DescribeSecurityGroupsTag{{Key: tagOwn, Value: p.name}}
	if err := p.cloud.raw(ctx, list, found); err != nil {
		return nil, err
	}
	switch groups := found.SecurityGroups.SecurityGroup; len(groups) {
	case 0:
		return nil, nil
	case 1:
		req, resp := ecs.CreateDescribeSecurityGroupAttributeRequest(), ecs.CreateDescribeSecurityGroupAttributeResponse()
		req.SecurityGroupId = groups[0].SecurityGroupId
		if err := p.cloud.raw(ctx, req, resp); err != nil {
			return nil, err
		}
		return &sourceGroup{resp.SecurityGroupId, resp.SecurityGroupName, resp.Description, resp.Permissions.Permission}, nil
	default:
		return nil, fmt.Errorf("find associated security group error: expect 1, got %d", len(groups))
	}
}

func (p networkPass) sourceName() string { return "k8s-nlb-" + p.name }

func (p networkPass) sourceText() string {
	return strings.Join([]string{"k8s", p.svc.Namespace, p.svc.Name, p.ClusterID}, ".")
}

func (p networkPass) createSources(ctx context.Context, want *networkBalancer) error {
	req := ecs.CreateCreateSecurityGroupRequest()
	req.SecurityGroupName, req.Description, req.SecurityGroupType = p.sourceName(), p.sourceText(), "enterprise"
	req.VpcId, req.ResourceGroupId = p.VPC, want.resourceGroup
	req.Tag = &[]ecs.CreateSecurityGroupTag{{Key: tagOwn, Value: p.name}, {Key: tagCluster, Value: p.ClusterID}}
	return p.cloud.raw(ctx, req, ecs.CreateCreateSecurityGroupResponse())
}

func (p networkPass) sourceRules(sources []string) []ecs.AuthorizeSecurityGroupPermissions {
	rule := func(policy, source, priority string) ecs.AuthorizeSecurityGroupPermissions {
		return ecs.AuthorizeSecurityGroupPermissions{
			Policy: policy, SourceCidrIp: source, Priority: priority, IpProtocol: "ALL", PortRange: "-1/-1", Description: p.sourceText(),
		}
	}
	var rules []ecs.AuthorizeSecurityGroupPermissions
	for _, s := range sources {
		rules = append(rules, rule("Accept", s, "1"))
	}
	return append(rules, rule("Drop", "0.0.0.0/0", "100"))
}

// updateSources makes the group match the source ranges. It keeps rules of others.
func (p networkPass) updateSources(ctx context.Context, want *networkBalancer, have *sourceGroup) error {
	var errs []error
	if have.name != p.sourceName() || have.description != p.sourceText() {
		req := ecs.CreateModifySecurityGroupAttributeRequest()
		req.SecurityGroupId, req.SecurityGroupName, req.Description = have.groupID, p.sourceName(), p.sourceText()
		errs = append(errs, p.cloud.raw(ctx, req, ecs.CreateModifySecurityGroupAttributeResponse()))
	}
	rules := p.sourceRules(want.sources)
	alike := func(w ecs.AuthorizeSecurityGroupPermissions, h ecs.Permission) bool {
		return w.SourceCidrIp == h.SourceCidrIp && strings.EqualFold(w.Policy, h.Policy)
	}
	var add []ecs.AuthorizeSecurityGroupPermissions
	var amend []*ecs.ModifySecurityGroupRuleRequest
	var drop []string
	for _, w := range rules {
		i := slices.IndexFunc(have.rules, func(h ecs.Permission) bool { return alike(w, h) })
		if i < 0 {
			add = append(add, w)
			continue
		}
		h := have.rules[i]
		if w.Description != h.Description || w.Priority != h.Priority || !strings.EqualFold(w.IpProtocol, h.IpProtocol) || w.PortRange != h.PortRange {
			req := ecs.CreateModifySecurityGroupRuleRequest()
			req.SecurityGroupId, req.SecurityGroupRuleId, req.Policy, req.SourceCidrIp = have.groupID, h.SecurityGroupRuleId, w.Policy, w.SourceCidrIp
			req.Priority, req.IpProtocol, req.PortRange, req.Description = w.Priority, w.IpProtocol, w.PortRange, w.Description
			amend = append(amend, req)
		}
	}
	for _, h := range have.rules {
		if h.Description == p.sourceText() && !slices.ContainsFunc(rules, func(w ecs.AuthorizeSecurityGroupPermissions) bool { return alike(w, h) }) {
			drop = append(drop, h.SecurityGroupRuleId)
		}
	}
	authorize := func() error {
		req := ecs.CreateAuthorizeSecurityGroupRequest()
		req.SecurityGroupId, req.Permissions = have.groupID, &add
		return p.cloud.raw(ctx, req, ecs.CreateAuthorizeSecurityGroupResponse())
	}
	full := false
	if len(add) > 0 {
		err := authorize()
		if full = err != nil && strings.Contains(err.Error(), "AuthorizationLimitExceed"); !full {
			errs = append(errs, err)
		}
	}
	for _, req := range amend {
		errs = append(errs, p.cloud.raw(ctx, req, ecs.CreateModifySecurityGroupRuleResponse()))
	}
	if len(drop) > 0 {
		req := ecs.CreateRevokeSecurityGroupRequest()
		req.SecurityGroupId, req.SecurityGroupRuleId = have.groupID, &drop
		errs = append(errs, p.cloud.raw(ctx, req, ecs.CreateRevokeSecurityGroupResponse()))
	}
	if full { // removing rules may have made room
		errs = append(errs, authorize())
	}
	return aggregate(errs)
}

// cleanSources deletes the group if the Service has no source ranges, unless the NLB outlives the Service.
func (p networkPass) cleanSources(ctx context.Context, want, lb *networkBalancer) error {
	if len(want.sources) > 0 || lb.source == nil || want.preserve && deleting(p.svc) {
		return nil
	}
	req := ecs.CreateDeleteSecurityGroupRequest()
	req.SecurityGroupId = lb.source.groupID
	if err := p.cloud.raw(ctx, req, ecs.CreateDeleteSecurityGroupResponse()); err != nil {
		return fmt.Errorf("error to delete associated security group, sgId: %s, svc: %s, err: %w", lb.source.groupID, p.service(), err)
	}
	lb.source = nil
	return nil
}
