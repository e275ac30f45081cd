// Package rampermission remedies clusters whose controller's RAM role lacks actions that it needs.
package rampermission

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy adds the missing actions to the policy of the controller's role.
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
	Reads: slices.Concat([]grant.Grant{grant.ListPolicyVersions, grant.ListEntitiesForPolicy}, ccm.RightsReads, ccm.RoutingReads,
		ccm.BoundReads, ccm.NetworkReads),
	Steps:      []remedy.Step{step.PolicyVersion{}, step.Resync{}},
	Kinds:      []string{remedy.KindService, remedy.KindNode, remedy.KindCluster},
	Scope:      remedy.Cluster,
	OptIn:      true,
	Deleting:   true,
	Diagnose:   diagnose,
	StillFails: stillFails,
}

// facts are the needs of a release of the controller, the rights of its role, and whether the role's policy can be extended.
type facts struct {
	ccm.Rights
	named    string       // an action that only an Event names and the role lacks; empty: none
	policy   cloud.Policy // to extend; without a name: none
	versions []cloud.PolicyVersion
	holders  []string // other holders of a policy that can be extended
}

func read(ctx context.Context, c *remedy.Case, release ccm.Version) (f facts, err error) {
	if f.Rights, err = c.Rights(ctx, release); err != nil || !f.Comparable() {
		return f, err
	}
	if action := ccm.Refused(c.Event.Message); action != "" && !slices.Contains(f.Needs, action) && ccm.Says(f.Role.Rules, action) != ccm.Allowed {
		f.named = action
	}
	f.policy = f.Role.Extendable()
	if f.policy.Name == "" || len(f.Denied)+len(f.Limited) > 0 {
		return f, nil
	}
	if f.versions, err = c.Cloud.RAM.PolicyVersions(ctx, f.policy.Name, step.Custom); err != nil {
		return f, fmt.Errorf("list versions of the policy %s: %w", f.policy.Name, err)
	}
	if len(f.Missing) > 0 {
		f.holders, err = c.OtherHolders(ctx, f.Role.Name, f.policy.Name)
	}
	return f, err
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	f, err := read(ctx, c, ccm.Version{})
	if err != nil {
		return remedy.Plan{}, err
	}
	var plan remedy.Plan
	if f.Suffice() {
		plan = nothingMissing(c, f)
	} else if plan, err = f.plan(c); err != nil {
		return remedy.Plan{}, err
	}
	if c.Event.Service.Kind != "" {
		return ofNodes(ctx, c, f, plan)
	}
	if len(plan.Steps) > 0 && !f.Suffice() {
		plan.Steps = append(plan.Steps, step.Resync{After: c.Policy.Delay()})
	}
	return plan, nil
}

// For returns the class for a check before an upgrade to a release; zero means the running one. It has the class's ID, journal and
// guards. Its cases are about the cluster: no sync has failed, and it triggers no resync.
func For(release ccm.Version) *remedy.Remedy {
	r := *Remedy
	r.Steps = []remedy.Step{step.PolicyVersion{}}
	r.Diagnose = func(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
		f, err := read(ctx, c, release)
		switch {
		case err != nil:
			return remedy.Plan{}, err
		case f.Suffice(): // the gap was closed between two reads
			return remedy.Plan{}, errors.New("the role now allows all that the controller needs")
		}
		return f.plan(c)
	}
	r.StillFails = func(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
		return lacks(ctx, c, release)
	}
	return &r
}

func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	if c.Event.Service.Kind != "" {
		s, err := c.Stranded(ctx, node(c))
		if err != nil || s.Any() || c.Event.Reason == createRoute {
			return remedy.Is(s.Any()), err
		}
		r, err := c.Rights(ctx, ccm.Version{}) // a node shows nothing about the other Events' calls, and only a comparison can refute them
		unrefuted := !r.Comparable() && c.Now.Sub(c.Event.Last) <= calm
		return remedy.Is(unrefuted || r.LacksOfNodes()), err
	}
	if !c.Written() {
		return remedy.Yes, nil
	}
	return lacks(ctx, c, ccm.Version{})
}

// calm is how long after a failure the controller has certainly retried.
const calm = ccm.Retry + time.Minute

// createRoute is the reason of Events about a node without a route. If the node has one, the failure is over.
const createRoute = "CreateRouteFailed"

func lacks(ctx context.Context, c *remedy.Case, release ccm.Version) (remedy.Verdict, error) {
	f, err := read(ctx, c, release)
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(!f.Suffice()), nil
}
