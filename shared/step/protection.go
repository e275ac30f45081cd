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

// Unprotect turns off the deletion protection of a load balancer that is to be deleted.
type Unprotect struct {
	LB      string `json:"lb"`
	Network bool   `json:"network,omitempty"` // it is an NLB
}

// Says is what the step does.
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

// Check reads the protection. Of a load balancer that is gone there is nothing to turn off.
func (u Unprotect) Check(ctx context.Context, c *remedy.Case) (remedy.State, error) {
	on, err := u.on(ctx, c)
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

func (u Unprotect) on(ctx context.Context, c *remedy.Case) (bool, error) {
	if u.Network {
		n, err := c.Cloud.NLB.LoadBalancer(ctx, u.LB)
		return n.DeleteProtection, err
	}
	lb, err := c.Cloud.SLB.LoadBalancer(ctx, u.LB)
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

// Undo returns no step: what was protected is deleted.
func (Unprotect) Undo() (remedy.Step, bool) { return nil, false }
