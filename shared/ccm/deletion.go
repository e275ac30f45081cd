package ccm

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A Service that is being deleted, or has another type now, is released: the controller then wants an empty load balancer and reads only the
// annotations address-type, id, preserve-lb-on-delete, force-override-listeners and vgroup-port (v2.14.0: clbv1/model_builder.go,
// nlbv2/model_builder.go). An error stops the release before the finalizer is removed, and is retried for ever.

// BlocksRelease reports whether the IP version of its load balancer keeps a Service from being released. Since v2.12, a release that does
// not delete the load balancer still compares its attributes, and expects IPv4 (clbv1/model_applier.go, Apply; loadbalancer.go,
// equalsAddressIPVersion).
func BlocksRelease(svc *corev1.Service, lb *Instance) bool {
	id, _ := Annotation(svc, BalancerID)
	keep, _ := Annotation(svc, Preserve)
	return lb.CLB != nil && lb.CLB.IPVersion == "ipv6" && (id != "" || keep != "")
}

// Unnamed returns the load balancers that the controller would take for the Service's own, and delete, if the annotation id did not name
// another. seen reports whether an empty list proves anything: only if the API also lists the load balancer id. It needs
// DescribeLoadBalancers.
func (c *View) Unnamed(ctx context.Context, id string) (own []*Instance, seen bool, err error) {
	if own, err = c.marked(ctx); err != nil || len(own) > 0 {
		return own, true, err
	}
	lbs, err := c.Cloud.SLB.LoadBalancers(ctx, cloud.LBFilter{IDs: []string{id}})
	if err != nil {
		return nil, false, fmt.Errorf("list the load balancer %s: %w", id, err)
	}
	return nil, len(lbs) == 1 && lbs[0].ID == id, nil
}

// Fate says what happens to a released Service's load balancer; none is true if it surely has none. It needs what [View.Bound] and [View.None] do.
func (c *View) Fate(ctx context.Context) (text say.Text, none bool, err error) {
	lb, err := c.Bound(ctx)
	if err == nil {
		none, err = c.None(ctx)
	}
	if err != nil {
		return nil, false, err
	}
	id, _ := Annotation(c.Service, BalancerID)
	keep, _ := Annotation(c.Service, Preserve)
	switch {
	case lb == nil && none && c.Service.Labels[BalancerLabel] == "":
		return say.F("The Service has no load balancer."), true, nil
	case lb == nil:
		text = say.F("Its load balancer was not found, which does not prove that it is gone.")
	case id != "":
		text = say.F("It reuses %s (%s), which stays: the controller only removes what it made for the Service there.", lb.ID, lb.Address)
	case keep != "":
		text = say.F("Its load balancer %s (%s) stays, because of the annotation %s.", lb.ID, lb.Address, Preserve)
	default:
		text = say.F("Its load balancer %s (%s) is deleted with it.", lb.ID, lb.Address)
	}
	return text, false, nil
}

// DescribeLeftovers names the Service's listeners and vServer groups on a user's CLB that was described, with commands to delete them. It
// needs DescribeVServerGroups.
func (c *View) DescribeLeftovers(ctx context.Context, lb *Instance) (text say.Text, err error) {
	listeners, err := c.ListenerPorts(ctx, lb)
	if err != nil {
		return nil, err
	}
	groups, err := c.Cloud.SLB.VServerGroups(ctx, lb.ID)
	if err != nil {
		return nil, fmt.Errorf("list vServer groups of %s: %w", lb.ID, err)
	}
	var list []say.Text
	for _, l := range listeners {
		if c.OwnName(l.Description) {
			list = append(list, say.Literal(c.DeleteListenerCommand(lb, l)))
		}
	}
	if len(list) > 0 {
		text = text.And("The controller leaves the listeners of the Service on %s. Delete them afterwards, before their vServer groups: %s.",
			lb.ID, say.Clauses(list, 5))
	}
	if list = c.DeleteGroupCommands(groups); len(list) > 0 {
		text = text.And("The controller leaves the vServer groups of the Service on %s, with their backends. Delete them afterwards: %s.",
			lb.ID, say.Clauses(list, 5))
	}
	return text, nil
}

// GroupPairs is the short name of the annotation that names a user's groups and their ports.
const GroupPairs = "vgroup-port"

var group = regex.New(`^(?:rsp|vsp|sgp)-[a-z0-9-]+$`)

// Unpaired returns the parts of the annotation vgroup-port that name no port. On release the controller fails at such a part before it
// deletes anything (clbv1/vgroups.go, getVGroupIDs; since v2.12 also for its own load balancers).
func Unpaired(svc *corev1.Service) []string {
	value, _ := Annotation(svc, GroupPairs)
	var out []string
	for part := range strings.SplitSeq(value, ",") {
		if value != "" && !strings.Contains(part, ":") {
			out = append(out, part)
		}
	}
	return out
}

// Paired returns vgroup-port in a form that can be read on release, where any port will do; false without a part, or with one that is not an ID.
func Paired(svc *corev1.Service) (value string, ok bool) {
	now, _ := Annotation(svc, GroupPairs)
	var parts []string
	for part := range strings.SplitSeq(now, ",") {
		switch id := strings.TrimSpace(part); {
		case strings.Contains(part, ":"):
			parts = append(parts, part)
		case id == "":
		case group().MatchString(id) && len(svc.Spec.Ports) > 0:
			parts = append(parts, fmt.Sprintf("%s:%d", id, svc.Spec.Ports[0].Port))
		default:
			return "", false
		}
	}
	return strings.Join(parts, ","), len(parts) > 0
}
