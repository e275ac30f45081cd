package ccm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/say"
)

// NamedGroupReads is what NamedGroups reads; a class that calls it declares it.
var NamedGroupReads = []grant.Grant{grant.ListServerGroups, grant.ListServerGroupServers, grant.DescribeVServerGroups}

// A NamedGroup is a user's group that the annotation vgroup-port names, or should name.
type NamedGroup struct {
	ID   string // as written, spaces included
	Gone bool   // it does not exist according to the API; a vServer group: not on the load balancer
	Name string // empty if the API only says that the group exists
	Type string // of an NLB's: "Instance" or "Ip"
}

// Fault says, as a clause, what keeps the controller from using the group, if anything. A group with a name that a controller gives is not a
// user's (pkg/provider/alibaba/nlb/servergroup.go, clbv1/vgroups.go).
func (g NamedGroup) Fault(svc *corev1.Service) say.Text {
	of, made := ParseTrace(g.Name)
	want, _ := Annotation(svc, "server-group-type")
	switch lb, _ := Annotation(svc, BalancerID); {
	case g.Gone && NLB(svc):
		return say.F("the server group %s does not exist", Quote(g.ID))
	case g.Gone:
		return say.F("the load balancer %s has no vServer group %s", lb, Quote(g.ID))
	case made:
		return say.F("a controller made the group %s for the Service %s", g.ID, of)
	case g.Mistyped(svc):
		return say.F("the server group %s has the type %s, and the annotation %s asks for %s", g.ID, g.Type, "server-group-type", Quote(want))
	}
	return nil
}

// Mistyped reports whether the group's type differs from the one that the annotation server-group-type asks for.
func (g NamedGroup) Mistyped(svc *corev1.Service) bool {
	want, _ := Annotation(svc, "server-group-type")
	return want != "" && g.Type != "" && !strings.EqualFold(want, g.Type)
}

// groupIDs returns the IDs in the annotation vgroup-port, with their spaces, as the controller reads them.
func groupIDs(svc *corev1.Service) []string {
	value, _ := Annotation(svc, GroupPairs)
	var ids []string
	for part := range strings.SplitSeq(value, ",") {
		if id, _, ok := strings.Cut(part, ":"); ok && id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// NamedGroups reads the groups that vgroup-port names: server groups of NLBs, or vServer groups of the CLB that the Service reuses.
func (c *View) NamedGroups(ctx context.Context) ([]NamedGroup, error) {
	ids := groupIDs(c.Service)
	switch id, _ := Annotation(c.Service, BalancerID); {
	case len(ids) == 0:
		return nil, nil
	case NLB(c.Service):
		return c.namedServerGroups(ctx, ids)
	case id == "":
		return nil, nil // the controller uses no user's group on its own load balancer
	default:
		return c.namedVServerGroups(ctx, id, ids)
	}
}

// GoneGroups returns the missing server groups in vgroup-port, which block the Service's release. A CLB's may be missing (clbv1/vgroups.go).
func (c *View) GoneGroups(ctx context.Context) ([]NamedGroup, error) {
	if !NLB(c.Service) {
		return nil, nil
	}
	named, err := c.NamedGroups(ctx)
	return slices.DeleteFunc(named, func(g NamedGroup) bool { return !g.Gone }), err
}

func (c *View) namedServerGroups(ctx context.Context, ids []string) ([]NamedGroup, error) {
	have, err := c.Cloud.NLB.ServerGroupsOf(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("list server groups %s: %w", strings.Join(ids, ", "), err)
	}
	out := make([]NamedGroup, len(ids))
	for i, id := range ids {
		out[i].ID = id
		if at := slices.IndexFunc(have, func(g cloud.ServerGroup) bool { return g.ID == id }); at >= 0 {
			out[i].Name, out[i].Type = have[at].Name, have[at].Config["ServerGroupType"]
			continue
		}
		switch _, err := c.Cloud.NLB.Servers(ctx, id); {
		case errors.Is(err, cloud.ErrNotFound):
			out[i].Gone = true
		case err != nil:
			return nil, fmt.Errorf("list servers of group %s: %w", id, err)
		}
	}
	return out, nil
}

func (c *View) namedVServerGroups(ctx context.Context, lb string, ids []string) ([]NamedGroup, error) {
	have, err := c.Cloud.SLB.VServerGroups(ctx, lb)
	if err != nil && !errors.Is(err, cloud.ErrNotFound) {
		return nil, fmt.Errorf("list vServer groups of %s: %w", lb, err)
	}
	out := make([]NamedGroup, len(ids))
	for i, id := range ids {
		at := slices.IndexFunc(have, func(g cloud.VServerGroup) bool { return g.ID == id })
		out[i].ID, out[i].Gone = id, at < 0
		if at >= 0 {
			out[i].Name = have[at].Name
		}
	}
	return out, nil
}

// Keeping returns the annotation vgroup-port without the pairs of these groups; empty if none is left.
func Keeping(svc *corev1.Service, without []NamedGroup) string {
	value, _ := Annotation(svc, GroupPairs)
	return strings.Join(slices.DeleteFunc(strings.Split(value, ","), func(part string) bool {
		id, _, _ := strings.Cut(part, ":")
		return slices.ContainsFunc(without, func(g NamedGroup) bool { return g.ID == id })
	}), ",")
}
