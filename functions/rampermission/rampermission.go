// Package rampermission remedies clusters whose RAM role lacks actions that the controller needs.
package rampermission

import (
	"context"
	_ "embed"
	"errors"
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
	// The last two are for what the sync after a plan changes (Remedy.Compares).
	Reads: slices.Concat([]grant.Grant{
		grant.DescribeClusterDetail, grant.ListServices, grant.ListPolicyVersions, grant.ListEntitiesForPolicy,
	}, ccm.RoleReads, ccm.ControllerReads, ccm.BoundReads, ccm.NetworkReads),
	Steps:      []remedy.Step{step.PolicyVersion{}, step.Touch{}},
	Scope:      remedy.Cluster,
	OptIn:      true,
	Sections:   []remedy.Section{delay},
	Deleting:   true,
	Diagnose:   diagnose,
	StillFails: stillFails,
}

// delay is how long RAM takes to act on a new policy version.
var delay = &remedy.Setting[remedy.Duration]{
	Key:     "ramDelay",
	Doc:     "how long RAM takes to act on a new policy version; default 1m",
	Default: remedy.Duration(time.Minute),
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	f, err := read(ctx, c, ccm.Version{})
	if err != nil {
		return remedy.Plan{}, err
	}
	return decide(c, f)
}

// decide returns the plan for these facts.
func decide(c *remedy.Case, f facts) (remedy.Plan, error) {
	switch plan := f.incomparable(c); {
	case len(plan.Ask) > 0:
		return plan, nil
	case len(f.Missing) == 0:
		return nothingMissing(c, f), nil
	}
	plan, err := extend(f)
	if len(plan.Steps) > 0 {
		plan.Steps = append(plan.Steps, step.Touch{After: time.Duration(delay.Of(c.Policy))})
	}
	return plan, err
}

// For returns the class as a person runs it before an upgrade to a release of the controller. A zero
// release stands for the one that runs. It has the class's ID, journal and guards. Its cases are
// about the cluster: no sync of a Service has failed, and it triggers no resync.
func For(release ccm.Version) *remedy.Remedy {
	r := *Remedy
	r.Steps = []remedy.Step{step.PolicyVersion{}}
	r.Diagnose = func(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
		f, err := read(ctx, c, release)
		if err != nil {
			return remedy.Plan{}, err
		}
		switch plan := f.incomparable(c); {
		case len(plan.Ask) > 0:
			return plan, nil
		case len(f.Missing) == 0: // the gap closed between two reads of it
			return remedy.Plan{}, errors.New("the role now allows all that the controller needs")
		}
		return extend(f)
	}
	r.StillFails = func(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
		return lacks(ctx, c, release)
	}
	return &r
}

// stillFails reports whether the role still lacks something, or the controller has not yet shown that it
// lacks nothing.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	if !c.Written() {
		return remedy.Yes, nil
	}
	return lacks(ctx, c, ccm.Version{})
}

// lacks reports whether the role lacks something for the release, or the two cannot be compared.
func lacks(ctx context.Context, c *remedy.Case, release ccm.Version) (remedy.Verdict, error) {
	f, err := read(ctx, c, release)
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(len(f.incomparable(c).Ask) > 0 || len(f.Missing) > 0), nil
}

// extend plans a new version of the masters' policy with exactly the missing actions. It asks if
// that would change what others may do.
func extend(f facts) (remedy.Plan, error) {
	role, policy := f.role.Name, f.policy.Name
	plan := remedy.Plan{
		Finding: say.F("The RAM role %s lacks actions that CCM %s needs: %s.", role, f.version, strings.Join(f.Missing, ", ")),
		Cause:   role,
		Ask:     say.F("Give the role a policy with these actions: %s.", ccm.AllowCommand(role, f.Missing)).Then(ccm.ThenRetries()),
		Note:    f.hearsay(),
		Seen:    true,
	}
	document, unfit := ccm.WithActions(f.policy.Document, f.Missing)
	holders := slices.DeleteFunc(slices.Concat(f.holders.Roles, f.holders.Users, f.holders.Groups), func(name string) bool { return name == role })
	switch {
	case len(f.Denied) > 0:
		denied := strings.Join(f.Denied, ", ")
		plan.Finding = plan.Finding.And("A Deny statement forbids %s. An Allow would not help.", denied)
		plan.Ask = say.F("Find out who wrote the Deny statement. Remove %s from it, or exempt the role %s.", denied, role)
		if len(f.Denied) < len(f.Missing) {
			plan.Ask = plan.Ask.And("Allow the other actions in a policy of the role. lbremedy names them when the Deny is gone.")
		}
	case len(f.Limited) > 0:
		plan.Finding = plan.Finding.And("The role allows %s only under conditions or for some resources. This looks intentional.", strings.Join(f.Limited, ", "))
		plan.Ask = say.F("Find out what the limits are for. If the controller may act without them, do the following.").Then(plan.Ask)
	case policy == "":
		plan.Finding = plan.Finding.And("The role has no policy named k8sMasterRolePolicy-* that could be extended.")
	case len(holders) > 0:
		plan.Finding = plan.Finding.And("The policy %s is also attached to %s, which would get the actions, too.", policy, strings.Join(holders, ", "))
	case unfit != nil:
		plan.Finding = plan.Finding.And("The document of the policy %s cannot be extended: %v.", policy, unfit)
	case len(document) > step.MaxDocument:
		plan.Finding = plan.Finding.And("The policy %s would have %d bytes, but RAM allows only %d.", policy, len(document), step.MaxDocument)
	default:
		s, err := step.NewVersion(policy, document, f.Missing, f.versions)
		if err != nil {
			return remedy.Plan{}, err
		}
		plan.Ask, plan.Steps = nil, []remedy.Step{s}
	}
	return plan, nil
}

// nothingMissing returns the plan for a role that has all that the controller needs. If its policy
// was changed after the failure, the controller has not retried yet.
func nothingMissing(c *remedy.Case, f facts) remedy.Plan {
	plan := remedy.Plan{Cause: f.role.Name}
	changed, settle := f.changed(), time.Duration(delay.Of(c.Policy))
	settled := changed.Add(settle)
	if !changed.IsZero() && c.Event.Last.Before(settled) {
		plan.Finding = say.F("Since %s, the RAM role %s has allowed all that CCM %s needs.", changed.UTC().Format(time.RFC3339), f.role.Name, f.version).
			And("The controller has not retried since then.")
		plan.Steps = []remedy.Step{step.Touch{After: min(settle, max(0, settled.Sub(c.Now))).Round(time.Second)}}
		return plan
	}
	plan.Finding = say.F("The RAM role %s allows all %d actions that CCM %s is known to need here.", f.role.Name, f.needed, f.version)
	if f.told != "" {
		plan.Finding = plan.Finding.Then(f.hearsay())
		plan.Ask = say.F("Check the controller's log for a refusal of %s: %s.", f.told, c.LogQuery()).
			And("Allow it only if the log says so and the controller needs it here.")
		return plan
	}
	plan.Finding = plan.Finding.And("But the API still refuses a call.")
	plan.Ask = say.F("Check the controller's log for the API that was refused, and for whom: %s.", c.LogQuery()).
		And("The remaining causes are a control policy of the resource directory, a permission boundary or another role.")
	return plan
}
