package ccm

import (
	"cmp"
	"context"
	"strings"

	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/say"
)

var bracket = regex.New(`load balancer \[((?:lb|nlb)-[0-9A-Za-z]{1,64})\]`)

// BalancerOf returns the load balancer ID in a message of the controller, or "". Messages can be forged, so it may not be the Service's.
func BalancerOf(message string) string {
	if m := bracket().FindStringSubmatch(message); m != nil {
		return m[1]
	}
	return ""
}

// StateOf returns [View.State] of the load balancer that Bound, the label or the message names. It needs BoundReads and what [View.State] needs.
func (c *View) StateOf(ctx context.Context, message string) (say.Text, error) {
	lb, err := c.Bound(ctx)
	id := cmp.Or(c.Service.Labels[BalancerLabel], BalancerOf(message))
	if err == nil && lb == nil && id != "" {
		lb, err = c.Named(ctx, id)
	}
	switch {
	case err != nil:
		return nil, err
	case lb == nil && id != "":
		return say.F("The API finds no load balancer %s.", Quote(id)), nil
	case lb == nil:
		return say.F("Neither the tag %[1]s=%[2]s nor the name %[2]s finds exactly one load balancer of the Service.", NameTag, DefaultName(c.Service)), nil
	}
	return c.State(ctx, lb)
}

// State says which status the load balancer has, and which listeners are not running. It needs DescribeLoadBalancerListeners, or ListNLBListeners.
func (c *View) State(ctx context.Context, lb *Instance) (say.Text, error) {
	listeners, err := c.Listeners(ctx, lb)
	if err != nil {
		return nil, err
	}
	var status string
	if lb.NLB != nil {
		status = lb.NLB.Status
	} else {
		status = lb.CLB.Status
	}
	text := describe(lb.ID, status, listeners)
	if lb.CLB != nil && status == "locked" {
		text = text.And("Alibaba Cloud has locked it, usually because of an overdue payment.")
	}
	return text, nil
}

func describe(id, status string, listeners []Listener) say.Text {
	var idle []say.Text
	for _, l := range listeners {
		if !strings.EqualFold(l.Status, "running") {
			idle = append(idle, say.F("%s is %q", l, l.Status))
		}
	}
	switch {
	case len(listeners) == 0:
		return say.F("The load balancer %s is %q and has no listeners.", id, status)
	case len(idle) == 0:
		return say.F("The load balancer %s is %q, and all its listeners are running.", id, status)
	}
	return say.F("The load balancer %s is %q. Listeners that are not running: %s.", id, status, say.Clauses(idle, 5))
}
