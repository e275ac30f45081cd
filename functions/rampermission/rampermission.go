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
	StillFails: stillFails,
}

// Limits of RAM.
const (
	maxDocument = 6144 // bytes of the document of a custom policy
	maxVersions = 5
)

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	g, v, plan, err := compare(ctx, c, ccm.Version{})
	switch {
	case err != nil || len(plan.Ask) != 0:
		return plan, err
	case len(g.Missing) == 0:
		return nothingMissing(c, g, v), nil
	}
	plan, err = extend(ctx, c, g, v)
	if len(plan.Steps) > 0 {
		plan.Steps = append(plan.Steps, step.Touch{After: c.Policy.RAMSettle()})
	}
	return plan, err
}

// compare returns what the role lacks for a release of the controller: for the one that runs if
// none is named. If the two cannot be compared, the plan asks.
func compare(ctx context.Context, c *remedy.Case, v ccm.Version) (gap, ccm.Version, remedy.Plan, error) {
	cluster, err := c.Cloud.CS.Cluster(ctx)
	if err != nil {
		return gap{}, v, remedy.Plan{}, fmt.Errorf("describe the cluster: %w", err)
	}
	ask := func(finding, what say.Text) (gap, ccm.Version, remedy.Plan, error) {
		return gap{}, v, remedy.Plan{Finding: finding, Cause: cluster.ID, Ask: what}, nil
	}
	if cluster.Managed() {
		return ask(say.F("The controller of the managed cluster %s lacks a RAM permission.", cluster.ID).
			And("It runs under service roles whose policies Alibaba Cloud maintains."),
			say.F("Authorize the service roles of ACK again, on the authorization page of the ACK console.").Then(retries()))
	}
	ctl, err := c.Controller(ctx)
	if err != nil {
		return gap{}, v, remedy.Plan{}, err
	}
	check := say.F("Check the controller's log for the API that was refused: %s.", c.LogQuery())
	if ctl.AccessKey {
		return ask(say.F("The controller signs with its own access key, so the masters' RAM role does not apply."),
			check.And("Allow that action to the user of the access key. Or remove the access key, and let the controller use the masters' RAM role."))
	}
	if v == (ccm.Version{}) {
		v = ctl.Version
	}
	if v == (ccm.Version{}) {
		return ask(say.F("The version of the controller could not be determined, neither from its DaemonSet nor from the list of add-ons.").
			And("What it needs is therefore unknown."),
			check.And("Add that action to the policy of the masters' RAM role."))
	}
	g, err := find(ctx, c, cluster, v)
	if err != nil {
		return g, v, remedy.Plan{}, err
	}
	if g.role == "" {
		return ask(say.F("The cluster names no RAM role of its masters."),
			say.F("Find out under which RAM role CCM %s runs.", v).Then(check).And("Allow that action to the role."))
	}
	return g, v, remedy.Plan{}, nil
}

// extend plans a new version of the masters' policy with exactly the missing actions. It asks if
// that would change what others may do.
func extend(ctx context.Context, c *remedy.Case, g gap, v ccm.Version) (remedy.Plan, error) {
	plan := remedy.Plan{
		Finding: say.F("The RAM role %s lacks actions that CCM %s needs: %s.", g.role, v, strings.Join(g.Missing, ", ")),
		Cause:   g.role,
		Ask:     say.F("Give the role a policy with these actions: %s.", ccm.AllowCommand(g.role, g.Missing)).Then(retries()),
		Note:    g.hearsay(v),
		Seen:    true,
	}
	ask := func(why say.Text) (remedy.Plan, error) {
		plan.Finding = plan.Finding.Then(why)
		return plan, nil
	}
	policy := g.policy.Name
	switch {
	case len(g.Denied) > 0:
		denied := strings.Join(g.Denied, ", ")
		plan.Ask = say.F("Find out who wrote the Deny statement. Remove %s from it, or exempt the role %s.", denied, g.role)
		if len(g.Denied) < len(g.Missing) {
			plan.Ask = plan.Ask.And("Allow the other actions in a policy of the role. lbremedy names them when the Deny is gone.")
		}
		return ask(say.F("A Deny statement forbids %s. An Allow would not help.", denied))
	case len(g.Limited) > 0:
		plan.Ask = say.F("Find out what the limits are for. If the controller may act without them, do the following.").Then(plan.Ask)
		return ask(say.F("The role allows %s only under conditions or for some resources. This looks intentional.", strings.Join(g.Limited, ", ")))
	case policy == "":
		return ask(say.F("The role has no policy named k8sMasterRolePolicy-* that could be extended."))
	}
	others, err := c.Cloud.RAM.PolicyRoles(ctx, policy, step.Custom)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("list who has the policy %s: %w", policy, err)
	}
	holders := slices.Concat(others.Roles, others.Users, others.Groups)
	holders = slices.DeleteFunc(holders, func(name string) bool { return name == g.role })
	if len(holders) > 0 {
		return ask(say.F("The policy %s is also attached to %s, which would get the actions, too.", policy, strings.Join(holders, ", ")))
	}
	document, err := ccm.WithActions(g.policy.Document, g.Missing)
	if err != nil {
		return ask(say.F("The document of the policy %s cannot be extended: %v.", policy, err))
	}
	if len(document) > maxDocument {
		return ask(say.F("The policy %s would have %d bytes, but RAM allows only %d.", policy, len(document), maxDocument))
	}
	versions, err := c.Cloud.RAM.PolicyVersions(ctx, policy, step.Custom)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("list versions of the policy %s: %w", policy, err)
	}
	s := step.PolicyVersion{Policy: policy, Document: document, Adds: g.Missing, Drop: oldest(versions)}
	for _, had := range versions {
		s.Versions = append(s.Versions, had.ID)
		if had.Default {
			s.Was = had.ID
		}
	}
	if s.Was == "" {
		return remedy.Plan{}, fmt.Errorf("the policy %s has no default version", policy)
	}
	plan.Ask, plan.Steps = nil, []remedy.Step{s}
	return plan, nil
}

// nothingMissing returns the plan for a role that has all that the controller needs. If its policy
// was changed after the failure, the controller has not retried yet.
func nothingMissing(c *remedy.Case, g gap, v ccm.Version) remedy.Plan {
	settle := c.Policy.RAMSettle()
	settled := g.changed.Add(settle)
	if !g.changed.IsZero() && c.Event.Last.Before(settled) {
		return remedy.Plan{
			Finding: say.F("Since %s, the RAM role %s has allowed all that CCM %s needs.", g.changed.UTC().Format(time.RFC3339), g.role, v).
				And("The controller has not retried since then."),
			Cause: g.role,
			Steps: []remedy.Step{step.Touch{After: min(settle, max(0, settled.Sub(c.Now))).Round(time.Second)}},
		}
	}
	plan := remedy.Plan{
		Finding: say.F("The RAM role %s allows all %d actions that CCM %s is known to need here.", g.role, g.needed, v),
		Cause:   g.role,
	}
	if g.told != "" {
		plan.Finding = plan.Finding.Then(g.hearsay(v))
		plan.Ask = say.F("Check the controller's log for a refusal of %s: %s.", g.told, c.LogQuery()).
			And("Allow it only if the log says so and the controller needs it here.")
		return plan
	}
	plan.Finding = plan.Finding.And("But the API still refuses a call.")
	plan.Ask = say.F("Check the controller's log for the API that was refused, and for whom: %s.", c.LogQuery()).
		And("The remaining causes are a control policy of the resource directory, a permission boundary or another role.")
	return plan
}

// retries says what follows once the permission is there.
func retries() say.Text {
	return say.F("The controller then retries within %.0f minutes.", ccm.Retry.Minutes())
}

// hearsay says which action an Event alone names, if any. Anyone who may write an Event could have
// written that name.
func (g gap) hearsay(v ccm.Version) say.Text {
	if g.told == "" {
		return nil
	}
	return say.F("An Event alone names %s. The role does not allow it, and CCM %s is not known to need it here.", g.told, v)
}

// stillFails reports whether the role still lacks something, or the controller has not yet shown that it
// lacks nothing.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
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

// named finds the action that a message names. Only errors of ECS and VPC name it: those of CLB and
// NLB reach the Event without it.
var named = regexp.MustCompile(`AuthAction:([a-z]+:[A-Za-z]+)`)
