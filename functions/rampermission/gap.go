package rampermission

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
)

// A gap is what a role lacks of what the controller needs.
type gap struct {
	ccm.Gap
	role    string
	needed  int          // how many actions the controller needs here
	told    string       // an action that an Event alone names and the role lacks; empty: none
	policy  cloud.Policy // the policy to extend; without a name there is none
	changed time.Time    // when the policy was last changed; zero: unknown
}

// find compares the role's policies with what this release of the controller needs.
func find(ctx context.Context, c *remedy.Case, cluster cloud.Cluster, v ccm.Version) (gap, error) {
	var g gap
	role, err := c.MasterRole(ctx)
	if err != nil || role.Name == "" {
		return g, err
	}
	g.role = role.Name
	services, err := c.Kube.Services(ctx)
	if err != nil {
		return g, fmt.Errorf("list Services: %w", err)
	}
	needs := ccm.Needs(v, ccm.InUse(cluster, services))
	if m := named.FindStringSubmatch(c.Event.Message); m != nil && !slices.Contains(needs, m[1]) && ccm.Says(role.Rules, m[1]) != ccm.Allowed {
		g.told = m[1]
	}
	g.needed = len(needs)
	g.Gap, g.policy = role.Lacks(needs), role.Extendable()
	if g.policy.Name == "" || len(g.Missing) > 0 {
		return g, nil
	}
	versions, err := c.Cloud.RAM.PolicyVersions(ctx, g.policy.Name, step.Custom)
	if err != nil {
		return g, fmt.Errorf("list versions of the policy %s: %w", g.policy.Name, err)
	}
	for _, v := range versions {
		if v.Default {
			g.changed = v.Created
		}
	}
	return g, nil
}

// oldest returns the version to delete for a new one: the oldest, but not the default, which undo
// needs. It is empty if there is room.
func oldest(versions []cloud.PolicyVersion) string {
	if len(versions) < maxVersions {
		return ""
	}
	var out cloud.PolicyVersion
	for _, v := range versions {
		if !v.Default && (out.ID == "" || v.Created.Before(out.Created)) {
			out = v
		}
	}
	return out.ID
}
