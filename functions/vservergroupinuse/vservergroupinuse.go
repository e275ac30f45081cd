// Package vservergroupinuse remedies Services whose old vServer group cannot be deleted.
package vservergroupinuse

import (
	"context"
	_ "embed"
	"fmt"
	"slices"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy frees the group: it points the listener at the new group of the same port, or deletes a listener that is no longer needed.
var Remedy = &remedy.Remedy{
	Class: "vserver-group-in-use",
	Doc:   doc,
	Codes: []string{"RspoolVipExist", "RspoolRuleExist", "ResourceInUse.ServerGroup"},
	Texts: []string{
		"there are vips associating with this vServer group",
		"there are rules associating with this vServer group",
		"resource of ServerGroup is in use",
	},
	Reads: slices.Concat(ccm.BoundReads, ccm.NetworkReads, ccm.BuildingReads, []grant.Grant{
		grant.DescribeVServerGroupAttribute, grant.ListSLBTags, grant.ListServerGroups,
	}),
	Steps:      []remedy.Step{step.MoveListener{}, step.DeleteListener{}, step.Resync{}},
	Risks:      []remedy.Risk{remedy.High},
	Deleting:   true,
	Diagnose:   diagnose,
	StillFails: stillFails,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	lb, err := c.Bound(ctx)
	if err != nil || lb == nil {
		return c.NoBalancer(say.F("its vServer groups and the listeners that use them")), err
	}
	if lb.NLB != nil {
		own, err := c.NetworkGroups(ctx, lb)
		return network(lb, own), err
	}
	if id, _ := ccm.Annotation(c.Service, "id"); id == "" && len(ccm.Leaving(c.Service)) > 0 {
		return remedy.Plan{
			Finding: ccm.WhyLeaving(c.Service).And("The controller created %s for it and deletes that with everything on it: no vServer group blocks this.", lb.ID),
			Wait:    ccm.Retry,
		}, nil
	}
	s := &state{c: c, lb: lb}
	if s.own, err = c.Owned(ctx, lb.ID); err != nil {
		return remedy.Plan{}, err
	}
	b, unbuilt, err := c.Unbuilt(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if len(unbuilt) > 0 {
		return s.needed(b, unbuilt), nil
	}
	if len(s.own.Blocking) == 0 {
		return remedy.Plan{
			Finding: say.F("No listener or rule of %s uses an old vServer group of the Service any more. The controller retries automatically.", lb.ID),
			Wait:    ccm.Retry,
		}, nil
	}
	if s.listeners, err = c.Cloud.SLB.Listeners(ctx, lb.ID); err != nil {
		return remedy.Plan{}, fmt.Errorf("list listeners of %s: %w", lb.ID, err)
	}
	if s.backends, err = c.BackendsOf(ctx, slices.Concat(s.own.Groups, s.own.Adopted)); err != nil {
		return remedy.Plan{}, err
	}
	return s.plan(), nil
}

type state struct {
	c         *remedy.Case
	lb        *ccm.Instance
	own       ccm.Owned
	backends  map[string][]cloud.Backend // of these groups, by ID
	listeners []cloud.Listener
}

// stillFails reports whether a group that the controller wants to delete is in use, or whether a needed group, which it considers
// unneeded, can't be built.
func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	if ccm.NLB(c.Service) {
		return remedy.Yes, nil // the engine has already checked for a successful sync
	}
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	if lb == nil {
		return remedy.Yes, nil
	}
	own, err := c.Owned(ctx, lb.ID)
	if err != nil {
		return remedy.Unknown, err
	}
	if len(own.Blocking) > 0 {
		return remedy.Yes, nil
	}
	_, unbuilt, err := c.Unbuilt(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(len(unbuilt) > 0), nil
}
