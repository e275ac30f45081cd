package step

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// MoveListener moves a listener of a classic load balancer to another vServer group.
type MoveListener struct {
	LB       string `json:"lb"`
	Port     int    `json:"port"`
	Protocol string `json:"protocol"` // "tcp", "udp", "http" or "https"
	Group    string `json:"group"`    // ID of the new group
	Was      string `json:"was"`      // ID of the present group
}

// Says describes the step.
func (m MoveListener) Says() say.Text {
	return say.F("point the listener %s:%d of %s at the vServer group %s instead of %s", m.Protocol, m.Port, m.LB, m.Group, m.Was)
}

// Kind is "move-listener".
func (MoveListener) Kind() string { return "move-listener" }

// Target is the load balancer.
func (m MoveListener) Target() string { return "slb/" + m.LB }

// Risk is high: the traffic of the listener goes to other backends immediately.
func (MoveListener) Risk() remedy.Risk { return remedy.High }

// Grants are reading listeners and setting those of any protocol.
func (MoveListener) Grants() []grant.Grant {
	return []grant.Grant{grant.DescribeLoadBalancerListeners, grant.SetTCPListener, grant.SetUDPListener, grant.SetHTTPListener, grant.SetHTTPSListener}
}

// Check reads which group the listener uses.
func (m MoveListener) Check(ctx context.Context, c *remedy.Case) (remedy.State, error) {
	l, err := listener(ctx, c, m.LB, m.Port, m.Protocol)
	switch {
	case err != nil:
		return remedy.Todo, err
	case l == nil:
		return remedy.Conflict, nil
	case l.VServerGroup == m.Group:
		return remedy.Done, nil
	case l.VServerGroup == m.Was:
		return remedy.Todo, nil
	}
	return remedy.Conflict, nil
}

// Apply sets the group, if the listener still uses the old one. It reads again just before: the API has no conditional write.
func (m MoveListener) Apply(ctx context.Context, c *remedy.Case, w *remedy.Writers) error {
	return once(ctx, c, m, func() error {
		return w.Cloud.SLB.SetListenerGroup(ctx, m.LB, cloud.ListenerPort{Port: m.Port, Protocol: m.Protocol}, m.Group)
	})
}

// Undo moves it back to the old group.
func (m MoveListener) Undo() (remedy.Step, bool) {
	m.Group, m.Was = m.Was, m.Group
	return m, true
}

// DeleteListener deletes a listener of a classic load balancer. It holds what Undo needs.
type DeleteListener struct {
	LB       string         `json:"lb"`
	Listener cloud.Listener `json:"listener"`
}

// Says describes the step.
func (d DeleteListener) Says() say.Text {
	return say.F("delete the listener %s:%d of %s", d.Listener.Protocol, d.Listener.Port, d.LB)
}

// Kind is "delete-listener".
func (DeleteListener) Kind() string { return "delete-listener" }

// Target is the load balancer.
func (d DeleteListener) Target() string { return "slb/" + d.LB }

// Risk is high: the traffic of the listener ends immediately.
func (DeleteListener) Risk() remedy.Risk { return remedy.High }

// Grants are reading and deleting listeners.
func (DeleteListener) Grants() []grant.Grant {
	return []grant.Grant{grant.DescribeLoadBalancerListeners, grant.DeleteListener}
}

// Restorable reports whether a listener can be created again as it is. The additional domains and rules of HTTP and HTTPS cannot.
func Restorable(l cloud.Listener) bool {
	return (l.Protocol == "tcp" || l.Protocol == "udp") && (l.Status == "running" || l.Status == "stopped") && !l.Partial
}

// Check reads the listener: other settings than in the plan are a conflict.
func (d DeleteListener) Check(ctx context.Context, c *remedy.Case) (remedy.State, error) {
	l, err := listener(ctx, c, d.LB, d.Listener.Port, d.Listener.Protocol)
	switch {
	case err != nil:
		return remedy.Todo, err
	case l == nil:
		return remedy.Done, nil
	case same(*l, d.Listener) && l.Status == d.Listener.Status:
		return remedy.Todo, nil
	}
	return remedy.Conflict, nil
}

// Apply deletes the listener, if it is still as in the plan.
func (d DeleteListener) Apply(ctx context.Context, c *remedy.Case, w *remedy.Writers) error {
	return once(ctx, c, d, func() error {
		return w.Cloud.SLB.DeleteListener(ctx, d.LB, cloud.ListenerPort{Port: d.Listener.Port, Protocol: d.Listener.Protocol})
	})
}

// Undo creates the listener again, which fails if its vServer group is gone.
func (d DeleteListener) Undo() (remedy.Step, bool) { return CreateListener(d), true }

// CreateListener creates a listener of a classic load balancer as it was.
type CreateListener struct {
	LB       string         `json:"lb"`
	Listener cloud.Listener `json:"listener"`
}

// Says describes the step.
func (n CreateListener) Says() say.Text {
	return say.F("make the listener %s:%d of %s again", n.Listener.Protocol, n.Listener.Port, n.LB)
}

// Kind is "create-listener".
func (CreateListener) Kind() string { return "create-listener" }

// Target is the load balancer.
func (n CreateListener) Target() string { return "slb/" + n.LB }

// Risk is high: the listener takes traffic immediately.
func (CreateListener) Risk() remedy.Risk { return remedy.High }

// Grants are reading, creating and starting listeners of any protocol.
func (CreateListener) Grants() []grant.Grant {
	return []grant.Grant{
		grant.DescribeLoadBalancerListeners, grant.CreateTCPListener, grant.CreateUDPListener, grant.CreateHTTPListener, grant.CreateHTTPSListener,
		grant.StartListener,
	}
}

// Check reads the port: another listener on it is a conflict. One that was created and not started must still be started.
func (n CreateListener) Check(ctx context.Context, c *remedy.Case) (remedy.State, error) {
	list, err := c.Cloud.SLB.Listeners(ctx, n.LB)
	if err != nil {
		return remedy.Todo, fmt.Errorf("list listeners of %s: %w", n.LB, err)
	}
	state := remedy.Todo
	for _, l := range list {
		switch {
		case l.Port != n.Listener.Port || (l.Protocol == "udp") != (n.Listener.Protocol == "udp"): // only UDP shares a port with the others
		case same(l, n.Listener) && l.Protocol == n.Listener.Protocol && l.Status == "stopped" && n.runs():
		case same(l, n.Listener) && l.Protocol == n.Listener.Protocol:
			state = remedy.Done
		default:
			return remedy.Conflict, nil
		}
	}
	return state, nil
}

// Apply creates the listener, if the port is free, and starts it if it was running.
func (n CreateListener) Apply(ctx context.Context, c *remedy.Case, w *remedy.Writers) error {
	return once(ctx, c, n, func() error {
		l, err := listener(ctx, c, n.LB, n.Listener.Port, n.Listener.Protocol)
		if err == nil && l == nil {
			err = w.Cloud.SLB.CreateListener(ctx, n.LB, n.Listener)
		}
		if err != nil || !n.runs() {
			return err
		}
		return w.Cloud.SLB.StartListener(ctx, n.LB, cloud.ListenerPort{Port: n.Listener.Port, Protocol: n.Listener.Protocol})
	})
}

func (n CreateListener) runs() bool { return n.Listener.Status == "running" }

// Undo deletes it again.
func (n CreateListener) Undo() (remedy.Step, bool) { return DeleteListener(n), true }

func once(ctx context.Context, c *remedy.Case, s remedy.Step, write func() error) error {
	state, err := s.Check(ctx, c)
	if err != nil || state == remedy.Done {
		return err
	}
	if state == remedy.Conflict {
		return fmt.Errorf("%s: %w", s.Says(), remedy.ErrMoved)
	}
	if err := write(); err != nil {
		return fmt.Errorf("%s: %w", s.Says(), err)
	}
	return nil
}

func listener(ctx context.Context, c *remedy.Case, lb string, port int, protocol string) (*cloud.Listener, error) {
	list, err := c.Cloud.SLB.Listeners(ctx, lb)
	if err != nil {
		return nil, fmt.Errorf("list listeners of %s: %w", lb, err)
	}
	i := slices.IndexFunc(list, func(l cloud.Listener) bool { return l.Port == port && l.Protocol == protocol })
	if i < 0 {
		return nil, nil
	}
	return &list[i], nil
}

// same ignores the status.
func same(a, b cloud.Listener) bool {
	return a.VServerGroup == b.VServerGroup && a.Description == b.Description && a.Scheduler == b.Scheduler &&
		a.Bandwidth == b.Bandwidth && a.BackendPort == b.BackendPort && a.Partial == b.Partial && maps.Equal(a.Config, b.Config)
}
