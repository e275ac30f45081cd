package rampermission

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

// facts are what a release of the controller needs, and what its role allows.
type facts struct {
	cluster   cloud.Cluster
	accessKey bool        // the controller signs with one
	version   ccm.Version // the release; zero: unknown
	role      ccm.Role
	needed    int // how many actions the controller needs here
	ccm.Gap
	told     string       // an action that an Event alone names and the role lacks; empty: none
	policy   cloud.Policy // the policy to extend; without a name there is none
	versions []cloud.PolicyVersion
	holders  cloud.Entities // who has the policy; of one that can be extended
}

// read compares the role's policies with what a release of the controller needs: the one that runs
// if none is named. It stops where incomparable asks.
func read(ctx context.Context, c *remedy.Case, release ccm.Version) (facts, error) {
	f := facts{version: release}
	var err error
	if f.cluster, err = c.Cloud.CS.Cluster(ctx); err != nil {
		return f, fmt.Errorf("describe the cluster: %w", err)
	}
	if f.cluster.Managed() {
		return f, nil
	}
	ctl, err := c.Controller(ctx)
	if err != nil {
		return f, err
	}
	f.accessKey = ctl.AccessKey
	if f.version == (ccm.Version{}) {
		f.version = ctl.Version
	}
	if f.accessKey || f.version == (ccm.Version{}) {
		return f, nil
	}
	if f.role, err = c.MasterRole(ctx); err != nil || f.role.Name == "" {
		return f, err
	}
	services, err := c.Kube.Services(ctx)
	if err != nil {
		return f, fmt.Errorf("list Services: %w", err)
	}
	needs := ccm.Needs(f.version, ccm.InUse(f.cluster, services))
	if action := ccm.Refused(c.Event.Message); action != "" && !slices.Contains(needs, action) && ccm.Says(f.role.Rules, action) != ccm.Allowed {
		f.told = action
	}
	f.needed, f.Gap, f.policy = len(needs), f.role.Lacks(needs), f.role.Extendable()
	if f.policy.Name == "" || len(f.Denied)+len(f.Limited) > 0 {
		return f, nil
	}
	if f.versions, err = c.Cloud.RAM.PolicyVersions(ctx, f.policy.Name, step.Custom); err != nil {
		return f, fmt.Errorf("list versions of the policy %s: %w", f.policy.Name, err)
	}
	if len(f.Missing) == 0 {
		return f, nil
	}
	if f.holders, err = c.Cloud.RAM.PolicyRoles(ctx, f.policy.Name, step.Custom); err != nil {
		return f, fmt.Errorf("list who has the policy %s: %w", f.policy.Name, err)
	}
	return f, nil
}

// incomparable returns the plan that asks if what the controller needs and what it has cannot be
// compared; empty if they can.
func (f facts) incomparable(c *remedy.Case) remedy.Plan {
	plan := remedy.Plan{Cause: f.cluster.ID}
	check := say.F("Check the controller's log for the API that was refused: %s.", c.LogQuery())
	switch {
	case f.cluster.Managed():
		plan.Finding = say.F("The controller of the managed cluster %s lacks a RAM permission.", f.cluster.ID).
			And("It runs under service roles whose policies Alibaba Cloud maintains.")
		plan.Ask = say.F("Authorize the service roles of ACK again, on the authorization page of the ACK console.").Then(ccm.ThenRetries())
	case f.accessKey:
		plan.Finding = say.F("The controller signs with its own access key, so the masters' RAM role does not apply.")
		plan.Ask = check.And("Allow that action to the user of the access key. Or remove the access key, and let the controller use the masters' RAM role.")
	case f.version == ccm.Version{}:
		plan.Finding = say.F("The version of the controller could not be determined, neither from its DaemonSet nor from the list of add-ons.").
			And("What it needs is therefore unknown.")
		plan.Ask = check.And("Add that action to the policy of the masters' RAM role.")
	case f.role.Name == "":
		plan.Finding = say.F("The cluster names no RAM role of its masters.")
		plan.Ask = say.F("Find out under which RAM role CCM %s runs.", f.version).Then(check).And("Allow that action to the role.")
	default:
		return remedy.Plan{}
	}
	return plan
}

// changed returns when the policy was last changed; zero if that is unknown.
func (f facts) changed() (at time.Time) {
	for _, v := range f.versions {
		if v.Default {
			at = v.Created
		}
	}
	return at
}

// hearsay says which action an Event alone names, if any. Anyone who may write an Event could have
// written that name.
func (f facts) hearsay() say.Text {
	if f.told == "" {
		return nil
	}
	return say.F("An Event alone names %s. The role does not allow it, and CCM %s is not known to need it here.", f.told, f.version)
}
