package remedy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A step that writes to the Service triggers a full sync, perhaps the first in months. Compare determines what else that sync changes
// on the load balancer, its listeners, its groups and their servers. It lists too much rather than too little, including what a
// release older than v2.14.0 would not change.

// clusterReads come in addition to a snapshot's reads.
var clusterReads = []grant.Grant{grant.DescribeClusterDetail, grant.ListNodes, grant.ListEndpointSlices}

// Compares returns what the engine reads to predict a sync's changes; nil for a class without such plans. A class that reads no load
// balancers has plans only for Services without one, which is verified.
func (r *Remedy) Compares() []grant.Grant {
	classic, network := r.reads(grant.DescribeLoadBalancerAttribute), r.reads(grant.GetNLB)
	switch {
	case !slices.Contains(r.Fields(), MarkField):
		return nil
	case !classic && !network:
		return []grant.Grant{grant.DescribeLoadBalancers, grant.ListNLBs}
	}
	out := slices.Clone(clusterReads)
	if classic {
		out = append(append(out, snapshotReads...), grant.DescribeDomainExtensions)
	}
	if network {
		out = append(append(out, snapshotNetworkReads...), grant.ListServerGroups, grant.ListListenerCertificates)
	}
	return grant.Set(out)
}

// mostChanges limits a plan's changes, and mostTold those in its note.
const (
	mostChanges = 100
	mostListed  = 10
)

// Compare returns the plan with what the full sync after its steps changes besides. Changes that overwrite something are also in its
// note and make its risk high, and so does a part that could not be compared because a permission is missing, or because the API does
// not know the cluster. Any other failed read is an error: it may succeed later.
func (c *Case) Compare(ctx context.Context, p Plan) (Plan, error) {
	if !slices.ContainsFunc(p.Steps, Syncs) {
		return p, nil
	}
	after, err := c.after(p.Steps)
	if err != nil {
		return Plan{}, err
	}
	after.meant(p.Steps)
	var targets []string
	for _, step := range p.Steps {
		targets = append(targets, step.Target())
	}
	lb, list, err := after.Changes(ctx, targets)
	if err != nil {
		return Plan{}, err
	}
	on := ""
	if lb != nil {
		on = lb.ID
	}
	var listed []say.Text
	for _, d := range list {
		if d.Fails && d.What != "" {
			continue // the sync fails on it and leaves it as it is: a separate failure
		}
		if !d.Quiet {
			p.Risk = High
			listed = append(listed, d.Text)
		}
		if d.What != "" {
			p.Changes = append(p.Changes, event.Change{Balancer: on, What: d.What, How: d.Text, Down: d.Cuts, Sets: !d.Quiet && !d.Cuts &&
				!d.Unknown, Unknown: d.Unknown})
		}
	}
	rank := func(e event.Change) int {
		switch {
		case e.Down:
			return 0
		case e.Unknown:
			return 1
		}
		return 2
	}
	var ordered []event.Change // a sorter for their type takes 8 kB of each function program
	for at := range 3 {
		for _, e := range p.Changes {
			if rank(e) == at {
				ordered = append(ordered, e)
			}
		}
	}
	p.Changes = ordered
	if n := len(p.Changes); n > mostChanges {
		more := say.F("%d more changes, which are not listed", n-mostChanges+1)
		p.Changes = append(p.Changes[:mostChanges-1], event.Change{Balancer: on, What: "more", How: more, Unknown: true})
		p.Risk = High
	}
	switch {
	case len(listed) == 0:
	case lb == nil:
		p.Note = p.Note.And("The Service's load balancer %s.", say.Clauses(listed, mostListed))
	default:
		p.Note = p.Note.And("The full sync that follows also changes these differences on %s: %s.", lb.ID, say.Clauses(listed, mostListed))
	}
	return p, nil
}

// Syncs reports whether a step writes our mark to the Service, which triggers a full sync.
func Syncs(s Step) bool {
	c, ok := s.(Changer)
	return ok && slices.Contains(c.Fields(), MarkField)
}

// meant removes the charge type and spec that a step sets: it changes the load balancer on purpose, and says so.
func (c *Case) meant(steps []Step) {
	for _, s := range steps {
		k, ok := s.(Keyed)
		if !ok {
			continue
		}
		for _, key := range k.Keys() {
			for _, short := range []string{ccm.ChargeType, ccm.ChargeSpec} {
				if _, set := c.Service.Annotations[key]; set && strings.HasSuffix(key, "-loadbalancer-"+short) {
					delete(c.Service.Annotations, ccm.Prefix+short)
					delete(c.Service.Annotations, ccm.LegacyPrefix+short)
				}
			}
		}
	}
}

func (c *Case) after(steps []Step) (*Case, error) {
	out := *c
	out.Service = c.Service.DeepCopy()
	for _, s := range steps {
		if ch, ok := s.(Changer); ok && slices.Contains(ch.Fields(), StatusField) {
			out.Service.Status.LoadBalancer.Ingress = nil
		}
		k, ok := s.(Keyed)
		if !ok {
			continue
		}
		var patch struct {
			Metadata struct{ Annotations map[string]*string }
			Spec     struct{ Ports []corev1.ServicePort }
		}
		if err := json.Unmarshal(k.Patch(c), &patch); err != nil {
			return nil, fmt.Errorf("read the patch of step %s: %w", s.Kind(), err)
		}
		if len(patch.Spec.Ports) > 0 {
			out.Service.Spec.Ports = patch.Spec.Ports
		}
		for key, v := range patch.Metadata.Annotations {
			if v == nil {
				delete(out.Service.Annotations, key)
				continue
			}
			if out.Service.Annotations == nil {
				out.Service.Annotations = map[string]string{}
			}
			out.Service.Annotations[key] = *v
		}
	}
	return &out, nil
}

// Bars says why an undo cannot restore the Service: its load balancer can't become what the steps ask for, or is not found. It needs
// DescribeLoadBalancers.
func (c *Case) Bars(ctx context.Context, steps []Step) (string, error) {
	after, err := c.after(steps)
	if err != nil {
		return "", err
	}
	lb, list, lost, err := c.RuledOut(ctx, after.Service)
	switch {
	case err != nil:
		return "", err
	case lost != "":
		return "the load balancer of the Service, which may rule out what was asked for before, is not found: " + lost, nil
	case len(list) == 0:
		return "", nil
	}
	var never []string
	for _, a := range list {
		never = append(never, fmt.Sprintf("%s=%s, but its %s is %s", a.Name, ccm.Quote(a.Want), a.What, cmp.Or(a.Is, "empty")))
	}
	return fmt.Sprintf("the load balancer %s exists by now and can never be what was asked for before: %s", lb.ID, strings.Join(never, "; ")), nil
}

var (
	snapshotReads = []grant.Grant{
		grant.DescribeLoadBalancers, grant.DescribeLoadBalancerAttribute, grant.ListSLBTags,
		grant.DescribeLoadBalancerListeners, grant.DescribeVServerGroups, grant.DescribeVServerGroupAttribute,
	}
	snapshotNetworkReads = []grant.Grant{grant.ListNLBs, grant.GetNLB, grant.ListNLBTags, grant.ListNLBListeners, grant.ListServerGroupServers}
)

// Snapshots returns what the engine reads for a snapshot before a plan of medium or high risk; nil for a class without steps. Every
// plan can have that risk: by a step, by the sync's changes, or under a newer controller. A class that reads only one kind of load
// balancer handles no other.
func (r *Remedy) Snapshots() []grant.Grant {
	classic, network := r.reads(grant.DescribeLoadBalancerAttribute), r.reads(grant.GetNLB)
	switch {
	case len(r.Steps) == 0:
		return nil
	case classic && !network:
		return snapshotReads
	case network && !classic:
		return snapshotNetworkReads
	}
	return slices.Concat(snapshotReads, snapshotNetworkReads)
}

func (r *Remedy) reads(g grant.Grant) bool { return slices.Contains(r.Reads, g) }
