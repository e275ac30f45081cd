package ccm

import (
	"context"
	"fmt"
	"regexp"

	"github.com/lbremedy/lbremedy/shared/say"
)

// bracket is where the controller names the load balancer in its message.
var bracket = regexp.MustCompile(`load balancer \[((?:lb|nlb)-[0-9A-Za-z]{1,64})\]`)

// BalancerOf returns the ID of the load balancer that a message of the controller names; empty if it names
// none. Messages can be forged: what is found by this ID need not be the Service's.
func BalancerOf(message string) string {
	if m := bracket.FindStringSubmatch(message); m != nil {
		return m[1]
	}
	return ""
}

// State says which status the load balancer has, and which of its listeners are not running. It needs
// DescribeLoadBalancerListeners, or ListNLBListeners for an NLB.
func (c *View) State(ctx context.Context, lb *Instance) (say.Text, error) {
	s := state{id: lb.ID}
	if lb.NLB != nil {
		listeners, err := c.Cloud.NLB.Listeners(ctx, lb.ID)
		if err != nil {
			return nil, fmt.Errorf("list listeners of %s: %w", lb.ID, err)
		}
		for _, l := range listeners {
			s.add(l.Protocol, l.Port, l.Status, "Running")
		}
		return s.describe(lb.NLB.Status), nil
	}
	listeners, err := c.Cloud.SLB.Listeners(ctx, lb.ID)
	if err != nil {
		return nil, fmt.Errorf("list listeners of %s: %w", lb.ID, err)
	}
	for _, l := range listeners {
		s.add(l.Protocol, l.Port, l.Status, "running")
	}
	text := s.describe(lb.CLB.Status)
	if lb.CLB.Status == "locked" {
		text = text.And("Alibaba Cloud has locked it, usually because of an overdue payment.")
	}
	return text, nil
}

// A state is that of a load balancer of either kind while its listeners are looked at.
type state struct {
	id        string
	listeners int
	idle      []say.Text // those of them that are not running
}

// add counts a listener. running is the status of one that runs, as the API of its kind has it.
func (s *state) add(protocol string, port int, status, running string) {
	s.listeners++
	if status != running {
		s.idle = append(s.idle, say.F("%s:%d is %q", protocol, port, status))
	}
}

// describe puts it into words.
func (s *state) describe(status string) say.Text {
	switch {
	case s.listeners == 0:
		return say.F("The load balancer %s is %q and has no listeners.", s.id, status)
	case len(s.idle) == 0:
		return say.F("The load balancer %s is %q, and all its listeners are running.", s.id, status)
	}
	return say.F("The load balancer %s is %q. Listeners that are not running: %s.", s.id, status, say.Clauses(s.idle, 5))
}
