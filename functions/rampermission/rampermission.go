// Package rampermission remedies clusters whose RAM role lacks actions that the controller uses.
package rampermission

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy adds the missing actions to the policy of the masters' role.
var Remedy = &remedy.Remedy{
	Class: "ram-permission",
	Doc:   doc,
	Codes: []string{"Forbidden", "Forbidden.RAM", "NoPermission", "NotAuthorized", "Forbidden.NoPermission", "Forbbiden.SubUser"},
	Texts: []string{
		"User not authorized to operate on the specified resource",
		"User not authorized to operate on the specified resource, or this API doesn't support RAM",
		"You are not authorized to do this action. You should be authorized by RAM",
		"Authentication is failed for NoPermission",
	},
	Reads: append([]grant.Grant{
		grant.DescribeClusterDetail, grant.DescribeClusterResources, grant.ListServices,
		grant.ListPoliciesForRole, grant.GetPolicy, grant.ListPolicyVersions, grant.ListEntitiesForPolicy,
		grant.DescribeLoadBalancerAttribute, grant.ListSLBTags, grant.DescribeLoadBalancerListeners,
	}, remedy.ControllerReads...),
	Steps:    []remedy.Step{step.PolicyVersion{}, step.Touch{}},
	Scope:    remedy.Cluster,
	OptIn:    true,
	Deleting: true,
	Diagnose: diagnose,
	Holds:    holds,
}

// Limits of RAM.
const (
	maxDocument = 6144 // bytes of a custom policy's document
	maxVersions = 5
)

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	cluster, err := c.Cloud.CS.Cluster(ctx)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("describe the cluster: %w", err)
	}
	if cluster.Managed() {
		return remedy.Plan{
			Finding: fmt.Sprintf("The controller of the managed cluster %s lacks a RAM permission. It runs under service roles whose policies Alibaba Cloud keeps.", cluster.ID),
			Cause:   cluster.ID,
			Ask:     "Authorise the service roles of ACK again, on the authorisation page of the ACK console. Then the controller tries again by itself within 5 minutes.",
		}, nil
	}
	ctl, err := c.Controller(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if ctl.AccessKey {
		return remedy.Plan{
			Finding: "The controller signs with an access key of its own, so that the masters' RAM role does not count.",
			Cause:   cluster.ID,
			Ask:     fmt.Sprintf("Give the user of that access key the actions which CCM %s needs, or let the controller use the masters' RAM role.", ctl.Version),
		}, nil
	}
	if ctl.Version == (remedy.Version{}) {
		return remedy.Plan{
			Finding: "The version of the controller can't be told, neither from its DaemonSet nor from the list of add-ons, so that what it needs is not known.",
			Cause:   cluster.ID,
			Ask:     "Look up in the controller's log which API was refused, and add that action to the policy of the masters' RAM role.",
		}, nil
	}
	g, err := find(ctx, c, cluster, ctl)
	if err != nil {
		return remedy.Plan{}, err
	}
	if g.role == "" {
		return remedy.Plan{
			Finding: "The cluster names no RAM role of its masters.",
			Cause:   cluster.ID,
			Ask:     fmt.Sprintf("Find out under which RAM role CCM %s runs, and give it the actions that it lacks.", ctl.Version),
		}, nil
	}
	if len(g.missing) == 0 {
		return nothingMissing(ctx, c, g, ctl)
	}
	return extend(ctx, c, g, ctl)
}

// extend plans a new version of the masters' policy with exactly the missing
// actions, or asks where that would change what others may do.
func extend(ctx context.Context, c *remedy.Case, g gap, ctl remedy.Controller) (remedy.Plan, error) {
	lacks := fmt.Sprintf("CCM %s needs %s, and the RAM role %s does not allow it.", ctl.Version, strings.Join(g.missing, ", "), g.role)
	byHand := fmt.Sprintf("Add these actions to a policy of the role %s by hand: %s.", g.role, strings.Join(g.missing, ", "))
	ask := func(why string) (remedy.Plan, error) {
		return remedy.Plan{Finding: lacks + " " + why, Cause: g.role, Ask: byHand}, nil
	}
	switch {
	case len(g.denied) > 0:
		return ask(fmt.Sprintf("A Deny statement forbids %s; an Allow would not help.", strings.Join(g.denied, ", ")))
	case len(g.limited) > 0:
		return ask(fmt.Sprintf("The role allows %s under conditions or for some resources only; somebody meant that.", strings.Join(g.limited, ", ")))
	case g.policy == "":
		return ask("It has no policy named k8sMasterRolePolicy-* that could be extended.")
	}
	others, err := c.Cloud.RAM.PolicyRoles(ctx, g.policy, step.Custom)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("list who has the policy %s: %w", g.policy, err)
	}
	holders := slices.Concat(others.Roles, others.Users, others.Groups)
	holders = slices.DeleteFunc(holders, func(name string) bool { return name == g.role })
	if len(holders) > 0 {
		return ask(fmt.Sprintf("The policy %s is attached to %s as well, who would get the actions too.", g.policy, strings.Join(holders, ", ")))
	}
	document, err := allow(g.document, g.missing)
	if err != nil {
		return ask(fmt.Sprintf("The document of the policy %s can't be extended: %v.", g.policy, err))
	}
	if len(document) > maxDocument {
		return ask(fmt.Sprintf("The policy %s would have %d bytes, and RAM allows %d.", g.policy, len(document), maxDocument))
	}
	versions, err := c.Cloud.RAM.PolicyVersions(ctx, g.policy, step.Custom)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("list versions of the policy %s: %w", g.policy, err)
	}
	s := step.PolicyVersion{Policy: g.policy, Document: document, Adds: g.missing}
	for _, v := range versions {
		s.Versions = append(s.Versions, v.ID)
		if v.Default {
			s.Was = v.ID
		}
	}
	if s.Was == "" {
		return remedy.Plan{}, fmt.Errorf("the policy %s has no default version", g.policy)
	}
	s.Drop = oldest(versions)
	risk, note, err := drift(ctx, c)
	if err != nil {
		return remedy.Plan{}, err
	}
	return remedy.Plan{
		Finding: lacks,
		Cause:   g.role,
		Risk:    risk,
		Note:    note,
		Steps:   []remedy.Step{s, step.Touch{After: c.Policy.RAMSettle()}},
	}, nil
}

// nothingMissing answers when the role has all that the controller needs. If its
// policy was changed after the failure, the controller has not tried again yet.
func nothingMissing(ctx context.Context, c *remedy.Case, g gap, ctl remedy.Controller) (remedy.Plan, error) {
	settle := c.Policy.RAMSettle()
	settled := g.changed.Add(settle)
	if !g.changed.IsZero() && c.Event.Last.Before(settled) {
		risk, note, err := drift(ctx, c)
		if err != nil {
			return remedy.Plan{}, err
		}
		return remedy.Plan{
			Finding: fmt.Sprintf("The RAM role %s has all that CCM %s needs since %s; the controller has not tried again since.", g.role, ctl.Version, g.changed.UTC().Format(time.RFC3339)),
			Cause:   g.role,
			Risk:    risk,
			Note:    note,
			Steps:   []remedy.Step{step.Touch{After: min(settle, max(0, settled.Sub(c.Now))).Round(time.Second)}},
		}, nil
	}
	return remedy.Plan{
		Finding: fmt.Sprintf("The RAM role %s allows all %d actions that CCM %s is known to need here, and the API still refuses it.", g.role, g.needed, ctl.Version),
		Cause:   g.role,
		Ask:     "Look up in the controller's log which API was refused and for whom. A control policy of the resource directory, a permission boundary or another role are what remains.",
	}, nil
}

// drift returns what the touch of a Service that was synced before would change
// besides: then it is a risk of its own.
func drift(ctx context.Context, c *remedy.Case) (remedy.Risk, string, error) {
	id := c.Service.Labels[remedy.BalancerLabel]
	if !remedy.Synced(c.Service) || id == "" || remedy.NLB(c.Service) || c.Service.DeletionTimestamp != nil {
		return remedy.Low, "", nil
	}
	lb, err := c.Cloud.SLB.LoadBalancer(ctx, id)
	if errors.Is(err, cloud.ErrNotFound) {
		return remedy.Low, "", nil
	}
	if err != nil {
		return remedy.Low, "", fmt.Errorf("describe load balancer %s: %w", id, err)
	}
	if lb.Tags, err = c.Cloud.SLB.Tags(ctx, id); err != nil {
		return remedy.Low, "", fmt.Errorf("list tags of load balancer %s: %w", id, err)
	}
	differs, err := c.Drift(ctx, &lb)
	if err != nil {
		return remedy.Low, "", err
	}
	if len(differs) == 0 {
		return remedy.Low, "", nil
	}
	return remedy.High, fmt.Sprintf("The full sync that follows also changes what differs now on %s: %s.", id, strings.Join(differs, "; ")), nil
}

// holds reports whether the role still lacks something, or the controller has
// not shown yet that it lacks nothing.
func holds(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	cluster, err := c.Cloud.CS.Cluster(ctx)
	if err != nil {
		return remedy.Unknown, fmt.Errorf("describe the cluster: %w", err)
	}
	if cluster.Managed() || !c.Written() {
		return remedy.Yes, nil
	}
	ctl, err := c.Controller(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	g, err := find(ctx, c, cluster, ctl)
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(len(g.missing) > 0), nil
}

// named finds the action that a message names. Only ECS and VPC errors do: those
// of CLB and NLB reach the event without it.
var named = regexp.MustCompile(`AuthAction:([a-z]+:[A-Za-z]+)`)
