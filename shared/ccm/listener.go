package ccm

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// A Listener is one of a load balancer of either kind, as far as the two are alike.
type Listener struct {
	ID          string // of an NLB's; those of a CLB have none
	Protocol    string // as the API has it: "tcp" of a CLB, "TCP" of an NLB
	Port, Last  int    // the same, except where it has a range of ports
	Description string // a trace, if the controller made it
}

// String returns protocol and port.
func (l Listener) String() string {
	if l.Last != l.Port {
		return fmt.Sprintf("%s:%d-%d", l.Protocol, l.Port, l.Last)
	}
	return fmt.Sprintf("%s:%d", l.Protocol, l.Port)
}

// Takes reports whether the listener keeps a port of a Service from getting one of its own. Only UDP
// and the other protocols can share a number.
func (l Listener) Takes(p corev1.ServicePort) bool {
	return l.Port <= int(p.Port) && int(p.Port) <= l.Last && strings.EqualFold(string(p.Protocol), "udp") == strings.EqualFold(l.Protocol, "udp")
}

// Listeners returns the listeners of the load balancer. It needs DescribeLoadBalancerListeners, or
// ListNLBListeners for an NLB.
func (c *View) Listeners(ctx context.Context, lb *Instance) ([]Listener, error) {
	var out []Listener
	if lb.NLB == nil {
		list, err := c.Cloud.SLB.Listeners(ctx, lb.ID)
		if err != nil {
			return nil, fmt.Errorf("list listeners of %s: %w", lb.ID, err)
		}
		for _, l := range list {
			out = append(out, Listener{Protocol: l.Protocol, Port: l.Port, Last: l.Port, Description: l.Description})
		}
		return out, nil
	}
	list, err := c.Cloud.NLB.Listeners(ctx, lb.ID)
	if err != nil {
		return nil, fmt.Errorf("list listeners of %s: %w", lb.ID, err)
	}
	for _, l := range list {
		first, last := l.Port, l.Port
		if l.Port == 0 {
			if _, err := fmt.Sscanf(l.First+" "+l.Last, "%d %d", &first, &last); err != nil {
				return nil, fmt.Errorf("read the port range %q to %q of listener %s: %w", l.First, l.Last, l.ID, err)
			}
		}
		out = append(out, Listener{ID: l.ID, Protocol: l.Protocol, Port: first, Last: last, Description: l.Description})
	}
	return out, nil
}
