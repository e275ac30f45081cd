package remedy

import (
	"context"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/say"
)

// PlanCLB is the plan of a class about what a CLB has: WrongController with the text wrong where an NLB
// serves the Service, NoBalancer with the text what where Bound finds no CLB, else what decide says of the
// CLB. A class that calls it declares ccm.BoundReads.
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

// CLBFails answers whether the Service still fails for what its CLB has. Where an NLB serves it, or Bound
// finds no CLB, there is nothing to compare, and the answer is Yes: a person checks. A class that calls it
// declares ccm.BoundReads.
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
