package step

import (
	"context"
	"errors"
	"fmt"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// Unprotect turns off the deletion protection of a load balancer that is to be deleted, or that [Protect] protected.
type Unprotect struct {
	LB      string `json:"lb"`
	Network bool   `json:"network,omitempty"` // it is an NLB
}

// Says describes the step.
func (u Unprotect) Says() say.Text { return say.F("turn off the deletion protection of %s", u.LB) }

// Kind is "unprotect".
func (Unprotect) Kind() string { return "unprotect" }

// Target is the load balancer.
func (u Unprotect) Target() string { return target(u.LB, u.Network) }

// Risk is high: the controller deletes the load balancer on its next try.
func (Unprotect) Risk() remedy.Risk { return remedy.High }

// Grants are reading load balancers and setting their protection.
func (Unprotect) Grants() []grant.Grant {
	return []grant.Grant{grant.DescribeLoadBalancerAttribute, grant.ProtectSLB, grant.GetNLB, grant.ProtectNLB}
}

// Check reads the protection. A deleted load balancer counts as done.
func (u Unprotect) Check(ctx context.Context, c *remedy.Case) (remedy.State, error) {
	on, err := protected(ctx, c, u.LB, u.Network)
	switch {
	case errors.Is(err, cloud.ErrNotFound):
		return remedy.Done, nil
	case err != nil:
		return remedy.Todo, fmt.Errorf("read %s: %w", u.LB, err)
	case on:
		return remedy.Todo, nil
	}
	return remedy.Done, nil
}

func protected(ctx context.Context, c *remedy.Case, id string, network bool) (bool, error) {
	if network {
		n, err := c.Cloud.NLB.LoadBalancer(ctx, id)
		return n.DeleteProtection, err
	}
	lb, err := c.Cloud.SLB.LoadBalancer(ctx, id)
	return lb.DeleteProtection, err
}

// Apply turns the protection off, if it is on.
func (u Unprotect) Apply(ctx context.Context, c *remedy.Case, w *remedy.Writers) error {
	return once(ctx, c, u, func() error {
		if u.Network {
			return w.Cloud.NLB.Unprotect(ctx, u.LB)
		}
		return w.Cloud.SLB.Unprotect(ctx, u.LB)
	})
}

// Undo returns no step: the load balancer is then deleted.
func (Unprotect) Undo() (remedy.Step, bool) { return nil, false }

// Protect turns on the deletion protection of an NLB. The controller reads delete-protection only for CLBs; it leaves an NLB's
// protection as it is, and since v2.9.1 turns it off before it deletes or releases the NLB
// (pkg/controller/service/nlbv2/loadbalancer.go, v2.9.1 to v2.14.0).
type Protect struct {
	LB string `json:"lb"`
}

// Says describes the step.
func (p Protect) Says() say.Text { return say.F("turn on the deletion protection of %s", p.LB) }

// Kind is "protect".
func (Protect) Kind() string { return "protect" }

// Target is the NLB.
func (p Protect) Target() string { return target(p.LB, true) }

// Risk is low: only a deletion by hand is refused.
func (Protect) Risk() remedy.Risk { return remedy.Low }

// Grants are reading NLBs and setting their protection.
func (Protect) Grants() []grant.Grant { return []grant.Grant{grant.GetNLB, grant.ProtectNLB} }

// Check reads the protection. A deleted NLB is an error, because it cannot be protected.
func (p Protect) Check(ctx context.Context, c *remedy.Case) (remedy.State, error) {
	on, err := protected(ctx, c, p.LB, true)
	switch {
	case err != nil:
		return remedy.Todo, fmt.Errorf("read %s: %w", p.LB, err)
	case on:
		return remedy.Done, nil
	}
	return remedy.Todo, nil
}

// Apply turns the protection on, if it is off.
func (p Protect) Apply(ctx context.Context, c *remedy.Case, w *remedy.Writers) error {
	return once(ctx, c, p, func() error { return w.Cloud.NLB.Protect(ctx, p.LB) })
}

// Undo turns the protection off again.
func (p Protect) Undo() (remedy.Step, bool) { return Unprotect{LB: p.LB, Network: true}, true }
