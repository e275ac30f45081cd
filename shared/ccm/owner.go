package ccm

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/say"
)

// An Owner says who made a load balancer.
type Owner int

// The owners. Only proof in the cloud makes a load balancer the Service's own; Unproven becomes a question.
const (
	Unproven     Owner = iota
	Own                // made by the controller for this Service
	OtherService       // made by the controller for another Service, or shared with one
	Users              // made by a person, or reused at a person's wish
	APIServer          // serves the cluster's own API server
)

// Owner returns the owner of the load balancer, and the evidence: the Services that the controller names in a CLB's vServer groups and in
// the descriptions of an NLB's listeners. It needs BalancerReads, or NetworkReads for an NLB.
func (c *View) Owner(ctx context.Context, lb *Instance) (Owner, say.Text, error) {
	m := traces{id: lb.ID, tags: lb.Tags, reason: lb.ProtectionReason(), cluster: c.Cluster, unmarked: lb.Name == DefaultName(c.Service)}
	listeners, err := c.ListenerPorts(ctx, lb)
	if err != nil {
		return Unproven, nil, err
	}
	if lb.NLB != nil {
		m.what = say.F("listener")
		m.count = func(n int) say.Text { return say.Count(n, "listener") }
	} else {
		m.what = say.F("vServer group")
		m.count = func(n int) say.Text { return say.Count(n, "vServer group") }
	}
	for _, l := range listeners {
		if lb.NLB != nil {
			m.add(c, l.Description)
		} else {
			m.unmarked = m.unmarked || c.OwnName(l.Description)
		}
	}
	switch {
	case lb.Tags[ClusterTag] != "" && slices.ContainsFunc(listeners, func(l Listener) bool { return l.Has(apiServerPort) }):
		return APIServer, say.F("%s has the tag %s and a listener on port %d, so it belongs to the API server.", lb.ID, ClusterTag, apiServerPort), nil
	case lb.Tags[ReusedTag] != "":
		return Users, say.F("%s has the tag %s, so a person created it and the Service reused it.", lb.ID, ReusedTag), nil
	}
	if lb.CLB != nil {
		groups, err := c.Cloud.SLB.VServerGroups(ctx, lb.ID)
		if err != nil {
			return Unproven, nil, fmt.Errorf("list vServer groups of %s: %w", lb.ID, err)
		}
		for _, g := range groups {
			m.add(c, g.Name)
		}
	}
	m.unmarked = m.unmarked || len(m.ours) > 0
	owner, evidence := m.owner()
	return owner, evidence, nil
}

type traces struct {
	id           string
	tags         map[string]string
	reason       string // of its modification protection
	cluster      string
	what         say.Text // where the Services are named: vServer group or listener
	count        func(int) say.Text
	ours, others []string // names for this Service; the other Services that are named, of any cluster
	// unmarked reports that the controller made something on the load balancer for this Service, or gave it the Service's name. Marks of one
	// that the controller made can be missing: v1.9.3.101 and v1.9.3.239 set only the name tag on a CLB, and v2.5.1 to v2.8.0 do not protect
	// an NLB, from which tags can get lost. It sets ReusedTag on a reused CLB, but not on an NLB.
	unmarked bool
}

func (m *traces) add(c *View, name string) {
	switch t, ok := ParseTrace(name); {
	case !ok:
	case t.Of(c.Service, c.Cluster):
		m.ours = append(m.ours, name)
	default:
		m.others = append(m.others, t.seenFrom(c.Cluster))
	}
}

func (m *traces) owner() (Owner, say.Text) {
	byController := m.reason == ManagedByACK || m.tags[ClusterTag] == m.cluster
	switch {
	case len(m.others) > 0:
		slices.Sort(m.others)
		return OtherService, say.F("%s also serves other Services: %s.", m.id, strings.Join(slices.Compact(m.others), ", "))
	case byController && len(m.ours) > 0:
		return Own, say.F("The controller created %s (%s), and it has the %s %s of this Service.", m.id, m.proof(), m.what, m.ours[0])
	case !byController && !m.unmarked && m.tags[ClusterTag] == "" && m.tags[NameTag] == "":
		return Users, say.F("%s has neither a tag nor a protection by the controller, so a person created it.", m.id)
	}
	return Unproven, say.F("It is not proven whether %s belongs to this Service or to a person: it has %s, and %s of this Service.", m.id, m.proof(),
		m.count(len(m.ours)))
}

func (m *traces) proof() say.Text {
	switch {
	case m.tags[ClusterTag] == m.cluster:
		return say.F("the tag %s=%s", ClusterTag, m.cluster)
	case m.reason == ManagedByACK:
		return say.F("the protection reason %s", ManagedByACK)
	case m.tags[ClusterTag] != "":
		return say.F("the tag %s=%s of another cluster", ClusterTag, m.tags[ClusterTag])
	}
	return say.F("no mark of the controller")
}

// TagsFull reports whether the load balancer cannot take another tag. CLBs and NLBs take 20 each.
func TagsFull(lb *Instance) bool { return len(lb.Tags) >= maxBalancerTag }
