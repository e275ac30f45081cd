// Package vservergroupinuse remedies Services whose old vServer group can't be deleted.
package vservergroupinuse

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy frees the group: it points the listener at the new group of the same port, or
// deletes a listener that nobody should use any more.
var Remedy = &remedy.Remedy{
	Class: "vserver-group-in-use",
	Doc:   doc,
	Codes: []string{"RspoolVipExist", "RspoolRuleExist", "ResourceInUse.ServerGroup"},
	Texts: []string{
		"there are vips associating with this vServer group",
		"there are rules associating with this vServer group",
		"resource of ServerGroup is in use",
	},
	Reads: slices.Concat(ccm.BoundReads, ccm.NetworkReads, []grant.Grant{
		grant.DescribeVServerGroups, grant.DescribeVServerGroupAttribute, grant.ListSLBTags, grant.ListServerGroups, grant.DescribeClusterDetail,
	}),
	Steps:      []remedy.Step{step.MoveListener{}, step.DeleteListener{}, step.Touch{}},
	Deleting:   true,
	Diagnose:   diagnose,
	StillFails: stillFails,
}

// soon is the longest time until the controller retries.
const soon = 5 * time.Minute

// override is the short name of the annotation that lets the controller manage the listeners of a
// reused load balancer.
const override = "force-override-listeners"

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if lb == nil {
		return c.NoBalancer(say.F("its vServer groups and the listeners that use them")), nil
	}
	if lb.NLB != nil {
		return network(ctx, c, lb)
	}
	if id, _ := ccm.Annotation(c.Service, "id"); id == "" && len(leaving(c.Service)) > 0 {
		return remedy.Plan{
			Finding: leaving(c.Service).And("The controller created %s for it and deletes that with everything on it: no vServer group blocks this.", lb.ID),
			Wait:    soon,
		}, nil
	}
	s, err := read(ctx, c, lb.ID)
	if err != nil {
		return remedy.Plan{}, err
	}
	if len(s.blocking()) == 0 {
		return remedy.Plan{
			Finding: say.F("No listener or rule of %s uses an old vServer group of the Service any more. The controller retries automatically.", lb.ID),
			Wait:    soon,
		}, nil
	}
	if err := s.details(ctx); err != nil {
		return remedy.Plan{}, err
	}
	return s.plan(), nil
}

// A state is what was read about the vServer groups of the Service on a CLB.
type state struct {
	c         *remedy.Case
	lb        string                     // ID
	mode      ccm.BackendMode            // decides how the controller names the groups
	groups    []cloud.VServerGroup       // created for the Service
	backends  map[string][]cloud.Backend // of these groups, by ID
	listeners []cloud.Listener
}

// read reads the groups. The backends and the listeners are left to details.
func read(ctx context.Context, c *remedy.Case, lb string) (*state, error) {
	mode, err := c.BackendMode(ctx)
	if err != nil {
		return nil, err
	}
	all, err := c.Cloud.SLB.VServerGroups(ctx, lb)
	if err != nil {
		return nil, fmt.Errorf("list vServer groups of %s: %w", lb, err)
	}
	own := slices.DeleteFunc(all, func(g cloud.VServerGroup) bool { return !made(c, g.Name) })
	return &state{c: c, lb: lb, mode: mode, groups: own}, nil
}

func (s *state) details(ctx context.Context) (err error) {
	if s.listeners, err = s.c.Cloud.SLB.Listeners(ctx, s.lb); err != nil {
		return fmt.Errorf("list listeners of %s: %w", s.lb, err)
	}
	s.backends = map[string][]cloud.Backend{}
	for _, g := range s.groups {
		whole, err := s.c.Cloud.SLB.VServerGroup(ctx, g.ID)
		if err != nil {
			return fmt.Errorf("describe vServer group %s: %w", g.ID, err)
		}
		s.backends[g.ID] = whole.Backends
	}
	return nil
}

// made reports whether the controller gave this name to something that it created for the Service.
func made(c *remedy.Case, name string) bool {
	t, ok := ccm.ParseTrace(name)
	return ok && t.Of(c.Service, c.Cluster)
}

// blocking returns the groups that are in use and that the controller wants to delete: all groups of
// a Service that it stops serving, otherwise those of ports that the Service no longer has.
func (s *state) blocking() []cloud.VServerGroup {
	var out []cloud.VServerGroup
	for _, g := range s.groups {
		if len(g.Listeners)+len(g.Rules) > 0 && (len(leaving(s.c.Service)) > 0 || s.portOf(g) < 0) {
			out = append(out, g)
		}
	}
	return out
}

// portOf returns the index of the Service's port that the group serves now; -1 if there is none. The
// name of a group contains the node port, or the target port where Pods are the backends. A group
// that is named after the other one was created before that setting changed. It still counts until
// its port has a group with the right name, because the controller configures the backends.
func (s *state) portOf(group cloud.VServerGroup) int {
	number := func(g cloud.VServerGroup) string {
		t, _ := ccm.ParseTrace(g.Name)
		return t.Port
	}
	former := -1
	for i, p := range s.c.Service.Spec.Ports {
		now, before := strconv.Itoa(int(p.NodePort)), p.TargetPort.String()
		if s.mode == ccm.PodMode {
			now, before = before, now
		}
		if number(group) == now {
			return i
		}
		renamed := slices.ContainsFunc(s.groups, func(o cloud.VServerGroup) bool { return number(o) == now })
		if former < 0 && number(group) == before && !renamed {
			former = i
		}
	}
	return former
}

// network plans for a Service of an NLB, whose server groups any other NLB may use, too.
func network(ctx context.Context, c *remedy.Case, lb *ccm.Instance) (remedy.Plan, error) {
	listeners, err := c.Cloud.NLB.Listeners(ctx, lb.ID)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("list listeners of %s: %w", lb.ID, err)
	}
	name := ccm.DefaultName(c.Service)
	own, err := c.Cloud.NLB.ServerGroups(ctx, ccm.NameTag, name)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("list server groups with the tag %s=%s: %w", ccm.NameTag, name, err)
	}
	var used []say.Text
	var idle []string
	for _, g := range own {
		before := len(used)
		for _, l := range listeners {
			if l.ServerGroup == g.ID {
				used = append(used, say.F("the listener %s:%d uses %s (%s)", strings.ToLower(l.Protocol), l.Port, g.Name, g.ID))
			}
		}
		if len(used) == before {
			idle = append(idle, fmt.Sprintf("%s (%s)", g.Name, g.ID))
		}
	}
	finding := say.F("The controller cannot delete a server group of the Service on %s.", lb.ID)
	if len(used) > 0 {
		finding = finding.And("In use there: %s.", say.Clauses(used, len(used)))
	}
	if len(idle) > 0 {
		finding = finding.And("No listener of %s uses these groups: %s.", lb.ID, strings.Join(idle, ", "))
	}
	return remedy.Plan{
		Finding: finding,
		Cause:   lb.ID,
		Ask: say.F("Check the NLB console for all listeners, also of other NLBs, that use the group that the Service no longer needs.").
			And("Point each of them at the new group of the same port, or delete it if nobody uses it.").
			And("lbremedy does not change listeners of NLBs."),
	}, nil
}

// stillFails reports whether a group that the controller wants to delete is still in use.
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
	s, err := read(ctx, c, lb.ID)
	if err != nil {
		return remedy.Unknown, err
	}
	return remedy.Is(len(s.blocking()) > 0), nil
}
