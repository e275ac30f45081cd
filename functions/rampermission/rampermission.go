// Package rampermission remedies clusters whose RAM role lacks actions that the controller needs.
package rampermission

import (
	"context"
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
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
	Reads: slices.Concat([]grant.Grant{
		grant.DescribeClusterDetail, grant.ListServices, grant.ListPolicyVersions, grant.ListEntitiesForPolicy,
	}, ccm.RoleReads, ccm.ControllerReads, ccm.BoundReads, ccm.NetworkReads),
	Steps:      []remedy.Step{step.PolicyVersion{}, step.Touch{}},
	Scope:      remedy.Cluster,
	OptIn:      true,
	Deleting:   true,
	Diagnose:   diagnose,
	StillFails: holds,
}

// Limits of RAM.
const (
	maxDocument = 6144 // bytes of a custom policy's document
	maxVersions = 5
)

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	g, v, plan, err := compare(ctx, c, ccm.Version{})
	switch {
	case err != nil || len(plan.Ask) != 0:
		return plan, err
	case len(g.Missing) == 0:
		return nothingMissing(ctx, c, g, v)
	}
	if plan, err = extend(ctx, c, g, v); err != nil || len(plan.Steps) == 0 {
		return plan, err
	}
	plan.Steps = append(plan.Steps, step.Touch{After: c.Policy.RAMSettle()})
	return withDrift(ctx, c, plan)
}

// compare returns what the role lacks for a release of the controller, which is the
// one that runs if none is named. Where the two can't be compared the plan asks.
func compare(ctx context.Context, c *remedy.Case, v ccm.Version) (gap, ccm.Version, remedy.Plan, error) {
	cluster, err := c.Cloud.CS.Cluster(ctx)
	if err != nil {
		return gap{}, v, remedy.Plan{}, fmt.Errorf("describe the cluster: %w", err)
	}
	ask := func(finding, what string) (gap, ccm.Version, remedy.Plan, error) {
		return gap{}, v, remedy.Plan{Finding: say.Literal(finding), Cause: cluster.ID, Ask: say.Literal(what)}, nil
	}
	if cluster.Managed() {
		return ask(fmt.Sprintf("The controller of the managed cluster %s lacks a RAM permission. It runs under service roles whose policies Alibaba Cloud keeps.", cluster.ID),
			"Authorise the service roles of ACK again, on the authorisation page of the ACK console. Then the controller tries again by itself within 5 minutes.")
	}
	ctl, err := c.Controller(ctx)
	if err != nil {
		return gap{}, v, remedy.Plan{}, err
	}
	if ctl.AccessKey {
		return ask("The controller signs with an access key of its own, so that the masters' RAM role does not count.",
			fmt.Sprintf("Look up in the controller's log which API was refused, %s, and allow that action to the user of the access key. Or take the access key away, and let the controller use the masters' RAM role.", c.LogQuery()))
	}
	if v == (ccm.Version{}) {
		v = ctl.Version
	}
	if v == (ccm.Version{}) {
		return ask("The version of the controller can't be told, neither from its DaemonSet nor from the list of add-ons, so that what it needs is not known.",
			fmt.Sprintf("Look up in the controller's log which API was refused, %s, and add that action to the policy of the masters' RAM role.", c.LogQuery()))
	}
	g, err := find(ctx, c, cluster, v)
	if err != nil {
		return g, v, remedy.Plan{}, err
	}
	if g.role == "" {
		return ask("The cluster names no RAM role of its masters.",
			fmt.Sprintf("Find out under which RAM role CCM %s runs, look up in its log which API was refused, %s, and allow that action to the role.", v, c.LogQuery()))
	}
	return g, v, remedy.Plan{}, nil
}

// extend plans a new version of the masters' policy with exactly the missing
// actions, or asks where that would change what others may do.
func extend(ctx context.Context, c *remedy.Case, g gap, v ccm.Version) (remedy.Plan, error) {
	lacks := fmt.Sprintf("CCM %s needs %s, and the RAM role %s does not allow it.", v, strings.Join(g.Missing, ", "), g.role)
	byHand := fmt.Sprintf("Give the role a policy with these actions: %s. The controller then tries again by itself within 5 minutes.", ccm.AllowCommand(g.role, g.Missing))
	ask := func(why string) (remedy.Plan, error) {
		return remedy.Plan{Finding: say.F("%s %s", lacks, why), Cause: g.role, Ask: say.Literal(byHand), Note: say.Literal(g.says(v)), Seen: true}, nil
	}
	switch {
	case len(g.Denied) > 0:
		byHand = fmt.Sprintf("Find out who wrote the Deny statement, and take %s out of it, or the role %s.", strings.Join(g.Denied, ", "), g.role)
		if len(g.Denied) < len(g.Missing) {
			byHand += " Allow the other actions in a policy of the role; lbremedy names them when the Deny is gone."
		}
		return ask(fmt.Sprintf("A Deny statement forbids %s; an Allow would not help.", strings.Join(g.Denied, ", ")))
	case len(g.Limited) > 0:
		byHand = "Find out what the limits are for. If the controller may do without them, this is how. " + byHand
		return ask(fmt.Sprintf("The role allows %s under conditions or for some resources only; somebody meant that.", strings.Join(g.Limited, ", ")))
	case g.policy.Name == "":
		return ask("It has no policy named k8sMasterRolePolicy-* that could be extended.")
	}
	others, err := c.Cloud.RAM.PolicyRoles(ctx, g.policy.Name, step.Custom)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("list who has the policy %s: %w", g.policy.Name, err)
	}
	holders := slices.Concat(others.Roles, others.Users, others.Groups)
	holders = slices.DeleteFunc(holders, func(name string) bool { return name == g.role })
	if len(holders) > 0 {
		return ask(fmt.Sprintf("The policy %s is attached to %s as well, who would get the actions too.", g.policy.Name, strings.Join(holders, ", ")))
	}
	document, err := ccm.WithActions(g.policy.Document, g.Missing)
	if err != nil {
		return ask(fmt.Sprintf("The document of the policy %s can't be extended: %v.", g.policy.Name, err))
	}
	if len(document) > maxDocument {
		return ask(fmt.Sprintf("The policy %s would have %d bytes, and RAM allows %d.", g.policy.Name, len(document), maxDocument))
	}
	versions, err := c.Cloud.RAM.PolicyVersions(ctx, g.policy.Name, step.Custom)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("list versions of the policy %s: %w", g.policy.Name, err)
	}
	s := step.PolicyVersion{Policy: g.policy.Name, Document: document, Adds: g.Missing}
	for _, had := range versions {
		s.Versions = append(s.Versions, had.ID)
		if had.Default {
			s.Was = had.ID
		}
	}
	if s.Was == "" {
		return remedy.Plan{}, fmt.Errorf("the policy %s has no default version", g.policy.Name)
	}
	s.Drop = oldest(versions)
	return remedy.Plan{Finding: say.Literal(lacks), Cause: g.role, Note: say.Literal(g.says(v)), Steps: []remedy.Step{s}, Seen: true}, nil
}

// nothingMissing answers if the role has all that the controller needs. If its policy
// was changed after the failure, the controller has not retried yet.
func nothingMissing(ctx context.Context, c *remedy.Case, g gap, v ccm.Version) (remedy.Plan, error) {
	settle := c.Policy.RAMSettle()
	settled := g.changed.Add(settle)
	if !g.changed.IsZero() && c.Event.Last.Before(settled) {
		return withDrift(ctx, c, remedy.Plan{
			Finding: say.F("The RAM role %s has all that CCM %s needs since %s; the controller has not tried again since.", g.role, v, g.changed.UTC().Format(time.RFC3339)),
			Cause:   g.role,
			Steps:   []remedy.Step{step.Touch{After: min(settle, max(0, settled.Sub(c.Now))).Round(time.Second)}},
		})
	}
	if g.told != "" {
		return remedy.Plan{
			Finding: say.F("The RAM role %s allows all %d actions that CCM %s is known to need here. %s", g.role, g.needed, v, g.says(v)),
			Cause:   g.role,
			Ask:     say.F("Look up in the controller's log whether it was refused %s: %s. Allow it only if the log says so, and if the controller needs it here.", g.told, c.LogQuery()),
		}, nil
	}
	return remedy.Plan{
		Finding: say.F("The RAM role %s allows all %d actions that CCM %s is known to need here, and the API still refuses it.", g.role, g.needed, v),
		Cause:   g.role,
		Ask:     say.F("Look up in the controller's log which API was refused and for whom: %s. A control policy of the resource directory, a permission boundary or another role are what remains.", c.LogQuery()),
	}, nil
}

// says names an action that only an Event names. Anyone who may write an Event could
// have written it.
func (g gap) says(v ccm.Version) string {
	if g.told == "" {
		return ""
	}
	return fmt.Sprintf("An Event alone names %s, which the role does not allow and which CCM %s is not known to need here.", g.told, v)
}

// withDrift returns the plan with what the touch of a Service that was synced
// before would change besides: then it is a risk of its own.
func withDrift(ctx context.Context, c *remedy.Case, p remedy.Plan) (remedy.Plan, error) {
	if c.Service.DeletionTimestamp != nil || c.Service.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return p, nil // nothing of it is synced in full
	}
	return p, nil
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
	g, err := find(ctx, c, cluster, ctl.Version)
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(len(g.Missing) > 0), nil
}

// named finds the action that a message names. Only ECS and VPC errors do: those
// of CLB and NLB reach the event without it.
var named = regexp.MustCompile(`AuthAction:([a-z]+:[A-Za-z]+)`)
