package remedy

import (
	"context"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/say"
)

// PlanCLB returns the plan of a class about a CLB's settings: WrongController(wrong) if an NLB serves the Service, NoBalancer(what) if
// Bound finds no CLB, or else decide's plan. A class that calls it declares ccm.BoundReads.
func (c *Case) PlanCLB(ctx context.Context, wrong, what say.Text, decide func(context.Context, *Case, *ccm.Instance) (Plan, error)) (Plan, error) {
	if ccm.NLB(c.Service) {
		return WrongController(wrong), nil
	}
	lb, err := c.Bound(ctx)
	if err != nil {
		return Plan{}, err
	}
	if lb == nil {
		return c.NoBalancer(what), nil
	}
	return decide(ctx, c, lb)
}

// CLBFails reports whether the Service still fails because of its CLB's settings. With an NLB, or if Bound finds no CLB, it answers
// Yes: a person must check. A class that calls it declares ccm.BoundReads.
func (c *Case) CLBFails(ctx context.Context, fails func(lb *ccm.Instance) Verdict) (Verdict, error) {
	if ccm.NLB(c.Service) {
		return Yes, nil
	}
	lb, err := c.Bound(ctx)
	if err != nil {
		return Unknown, err
	}
	if lb == nil {
		return Yes, nil
	}
	return fails(lb), nil
}
