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

// RightsReads is what Rights reads; a class that calls it declares it.
var RightsReads = slices.Concat([]grant.Grant{grant.DescribeClusterDetail, grant.ListServices, grant.ListNodes}, ControllerReads, RoleReads)

// Rights are the actions that a release of the controller needs in a cluster, and what its RAM role allows.
type Rights struct {
	Cluster   cloud.Cluster
	AccessKey bool     // the controller signs with one
	Version   Version  // the release; zero if unknown
	Role      Role     // of the controller
	Doubt     say.Text // why the release may not run under this role; empty if it does
	Needs     []string // the actions that the release calls here
	Gap                // the needed actions that the role lacks
}

// Rights compares what a release needs with what its role allows; a zero release is the running one. It stops when they are not Comparable.
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
	if release != (Version{}) { // the running release needs its actions until the upgrade
		r.Needs = slices.Compact(slices.Sorted(slices.Values(slices.Concat(r.Needs, Needs(ctl.Version, use), Asked(release, use)))))
	}
	r.Gap = r.Role.Lacks(r.Needs)
	return r, nil
}

// Comparable reports whether the controller's role and needs are known. A managed cluster has ACK's service roles, an access key its user's rights.
func (r Rights) Comparable() bool {
	return !r.Cluster.Managed() && !r.AccessKey && r.Version != (Version{}) && len(r.Doubt) == 0 && r.Role.Name != ""
}

// Suffice reports whether the role is known to allow all that the release needs.
func (r Rights) Suffice() bool { return r.Comparable() && len(r.Missing) == 0 }

// LacksOfNodes reports whether the role lacks an action that the release needs for Nodes and their routes.
func (r Rights) LacksOfNodes() bool {
	return slices.ContainsFunc(r.Missing, func(action string) bool {
		return strings.HasPrefix(action, "vpc:") || strings.HasPrefix(action, "ecs:")
	})
}

// OtherHolders returns the other roles, users and groups that have a custom policy of the role. It needs ListEntitiesForPolicy.
func (c *View) OtherHolders(ctx context.Context, role, policy string) ([]string, error) {
	all, err := c.Cloud.RAM.PolicyRoles(ctx, policy, cloud.CustomPolicy)
	if err != nil {
		return nil, fmt.Errorf("list who has the policy %s: %w", policy, err)
	}
	return slices.DeleteFunc(slices.Concat(all.Roles, all.Users, all.Groups), func(name string) bool { return name == role }), nil
}

// ChangedAt returns when the policy with these versions was last changed; zero if unknown.
func ChangedAt(versions []cloud.PolicyVersion) (at time.Time) {
	for _, v := range versions {
		if v.Default {
			at = v.Created
		}
	}
	return at
}
