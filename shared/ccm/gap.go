package ccm

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/say"
)

// RightsReads is what Rights reads. A class that calls it declares it.
var RightsReads = slices.Concat([]grant.Grant{grant.DescribeClusterDetail, grant.ListServices, grant.ListNodes}, ControllerReads, RoleReads)

// Rights are the actions that a release of the controller needs in a cluster, and what its RAM role allows.
type Rights struct {
	Cluster   cloud.Cluster
	AccessKey bool     // the controller signs with one
	Version   Version  // the release; zero: unknown
	Role      Role     // under which the controller runs
	Doubt     say.Text // why it is not known whether the release runs under it; empty: it is
	Needs     []string // the actions that the release calls here
	Gap                // what the role lacks of them
}

// Rights compares what a release of the controller needs in the cluster with what its role allows: the release that runs if none is
// named. It stops reading at what makes the two incomparable; see Comparable.
func (c *View) Rights(ctx context.Context, release Version) (Rights, error) {
	r := Rights{Version: release}
	var err error
	if r.Cluster, err = c.Cloud.CS.Cluster(ctx); err != nil {
		return r, fmt.Errorf("describe the cluster: %w", err)
	}
	if r.Cluster.Managed() {
		return r, nil
	}
	ctl, err := c.Controller(ctx)
	if err != nil {
		return r, err
	}
	r.AccessKey = ctl.AccessKey
	if r.Version == (Version{}) {
		r.Version = ctl.Version
	}
	if r.AccessKey || r.Version == (Version{}) {
		return r, nil
	}
	if r.Role, err = c.ControllerRole(ctx); err != nil {
		return r, err
	}
	if r.Doubt = r.Role.Doubt(r.Version); len(r.Doubt) > 0 || r.Role.Name == "" {
		return r, nil
	}
	services, err := c.Kube.Services(ctx)
	if err != nil {
		return r, fmt.Errorf("list Services: %w", err)
	}
	nodes, err := c.Kube.Nodes(ctx)
	if err != nil {
		return r, fmt.Errorf("list nodes: %w", err)
	}
	use := InUse(r.Cluster, services, nodes)
	r.Needs = Needs(r.Version, use)
	if release != (Version{}) { // the release that runs needs its actions until the upgrade
		r.Needs = slices.Compact(slices.Sorted(slices.Values(slices.Concat(r.Needs, Needs(ctl.Version, use), Asked(release, use)))))
	}
	r.Gap = r.Role.Lacks(r.Needs)
	return r, nil
}

// Comparable reports whether the controller runs under a role that is known, and what it needs is known. In a managed cluster it runs
// under service roles of ACK, and with an access key as its user.
func (r Rights) Comparable() bool {
	return !r.Cluster.Managed() && !r.AccessKey && r.Version != (Version{}) && len(r.Doubt) == 0 && r.Role.Name != ""
}

// Suffice reports whether the role allows all that the release needs; false where that cannot be told.
func (r Rights) Suffice() bool { return r.Comparable() && len(r.Missing) == 0 }

// LacksOfNodes reports whether the role lacks an action that the release needs for Nodes and their routes.
func (r Rights) LacksOfNodes() bool {
	return slices.ContainsFunc(r.Missing, func(action string) bool {
		return strings.HasPrefix(action, "vpc:") || strings.HasPrefix(action, "ecs:")
	})
}

// OtherHolders returns who has a custom policy of the role, too: other roles, users and groups. It needs ListEntitiesForPolicy.
func (c *View) OtherHolders(ctx context.Context, role, policy string) ([]string, error) {
	all, err := c.Cloud.RAM.PolicyRoles(ctx, policy, cloud.CustomPolicy)
	if err != nil {
		return nil, fmt.Errorf("list who has the policy %s: %w", policy, err)
	}
	return slices.DeleteFunc(slices.Concat(all.Roles, all.Users, all.Groups), func(name string) bool { return name == role }), nil
}

// ChangedAt returns when the policy with these versions was last changed; zero if that is unknown.
func ChangedAt(versions []cloud.PolicyVersion) (at time.Time) {
	for _, v := range versions {
		if v.Default {
			at = v.Created
		}
	}
	return at
}
