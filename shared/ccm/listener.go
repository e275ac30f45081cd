package ccm

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A Listener is what listeners of CLBs and NLBs have in common.
type Listener struct {
	ID          string // of an NLB's; empty for a CLB's
	Protocol    string // as the API has it: "tcp" of a CLB, "TCP" of an NLB
	Port, Last  int    // equal, except for a range of ports
	Status      string // as the API has it: "running" of a CLB, "Running" of an NLB
	Description string // a trace, if the controller made it
	Group       string // ID of the group of servers that it sends to; empty if unknown or another kind
	Redirects   bool   // from HTTP to HTTPS: needs no group
}

// String returns protocol and port.
func (l Listener) String() string {
	if l.Last != l.Port {
		return fmt.Sprintf("%s:%d-%d", l.Protocol, l.Port, l.Last)
	}
	return fmt.Sprintf("%s:%d", l.Protocol, l.Port)
}

// Has reports whether the listener listens on this port.
func (l Listener) Has(port int) bool { return l.Port <= port && port <= l.Last }

// Takes reports whether the listener keeps a port of a Service from getting its own. Only UDP and another protocol can share a number.
func (l Listener) Takes(p corev1.ServicePort) bool {
	return l.Excludes(Listener{Protocol: string(p.Protocol), Port: int(p.Port), Last: int(p.Port)})
}

// Excludes reports whether a load balancer cannot have both listeners, since they share a port.
func (l Listener) Excludes(o Listener) bool {
	return l.Port <= o.Last && o.Port <= l.Last && strings.EqualFold(l.Protocol, "udp") == strings.EqualFold(o.Protocol, "udp")
}

// ListenerOf returns protocol and ports of the listener for a port of the Service; ports are 0 if their range cannot be read.
func ListenerOf(svc *corev1.Service, p corev1.ServicePort) Listener {
	key := ListenerKey(svc, p)
	if NLB(svc) {
		key = networkKey(svc, p)
	}
	protocol, span, _ := strings.Cut(key, ":")
	first, last := ends(span)
	return Listener{Protocol: protocol, Port: first, Last: last}
}

// ByHand reports whether a person made the listener according to its description.
func (l Listener) ByHand() bool {
	_, ok := ParseTrace(l.Description)
	return !ok
}

// ClassicListener returns the Listener of a CLB's listener.
func ClassicListener(l cloud.Listener) Listener {
	return Listener{Protocol: l.Protocol, Port: l.Port, Last: l.Port, Status: l.Status, Description: l.Description, Group: l.VServerGroup,
		Redirects: l.Config["ListenerForward"] == "on"}
}

// NetworkListener returns the Listener of an NLB's listener, or an error if its range of ports cannot be read.
func NetworkListener(l cloud.NetworkListener) (Listener, error) {
	out := Listener{ID: l.ID, Protocol: l.Protocol, Port: l.Port, Last: l.Port, Status: l.Status, Description: l.Description, Group: l.ServerGroup}
	if l.Port == 0 {
		if _, err := fmt.Sscanf(l.First+" "+l.Last, "%d %d", &out.Port, &out.Last); err != nil {
			return Listener{}, fmt.Errorf("read the port range %q to %q of listener %s: %w", l.First, l.Last, l.ID, err)
		}
	}
	return out, nil
}

// ListenerPorts returns the listeners of a load balancer that was described. A CLB's have no status; for an NLB it needs ListNLBListeners.
func (c *View) ListenerPorts(ctx context.Context, lb *Instance) ([]Listener, error) {
	if lb.NLB != nil {
		return c.Listeners(ctx, lb)
	}
	var out []Listener
	for _, p := range lb.CLB.Ports {
		out = append(out, Listener{Protocol: p.Protocol, Port: p.Port, Last: p.Port, Description: p.Description})
	}
	return out, nil
}

// MadeFor says for which Service the listener was made, according to its description.
func (c *View) MadeFor(l Listener) say.Text {
	l.Protocol = strings.ToLower(l.Protocol) // the spelling for people, for both kinds
	t, ok := ParseTrace(l.Description)
	switch {
	case !ok && l.Description == "":
		return say.F("%s was created by hand and has no description", l)
	case !ok:
		return say.F("%s was created by hand and has the description %s", l, Quote(l.Description))
	case t.Cluster != c.Cluster:
		return say.F("%s belongs to the Service %s of the cluster %s", l, t, t.Cluster)
	}
	return say.F("%s belongs to the Service %s of this cluster", l, t)
}

// MadeForOthers says, for each listener that was not made for the Service, for which it was made.
func (c *View) MadeForOthers(listeners []Listener) []say.Text {
	var out []say.Text
	for _, l := range listeners {
		if !c.OwnName(l.Description) {
			out = append(out, c.MadeFor(l))
		}
	}
	return out
}

// FreePorts returns up to n numbers above each of the taken ones that neither a listener nor a port of the Service uses.
func FreePorts(svc *corev1.Service, listeners []Listener, taken []int32, n int) []string {
	var out []string
	for _, p := range taken {
		for candidate, found := int(p)+1, 0; candidate <= 65535 && found < n; candidate++ {
			used := slices.ContainsFunc(listeners, func(l Listener) bool { return l.Has(candidate) }) ||
				slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return int(p.Port) == candidate })
			if text := fmt.Sprint(candidate); !used && !slices.Contains(out, text) {
				out = append(out, text)
				found++
			}
		}
	}
	return out
}

// Listeners returns the listeners of the load balancer. It needs DescribeLoadBalancerListeners, or ListNLBListeners for an NLB.
func (c *View) Listeners(ctx context.Context, lb *Instance) ([]Listener, error) {
	var out []Listener
	if lb.NLB == nil {
		list, err := c.Cloud.SLB.Listeners(ctx, lb.ID)
		if err != nil {
			return nil, fmt.Errorf("list listeners of %s: %w", lb.ID, err)
		}
		for _, l := range list {
			out = append(out, ClassicListener(l))
		}
		return out, nil
	}
	list, err := c.Cloud.NLB.Listeners(ctx, lb.ID)
	if err != nil {
		return nil, fmt.Errorf("list listeners of %s: %w", lb.ID, err)
	}
	for _, l := range list {
		one, err := NetworkListener(l)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}
