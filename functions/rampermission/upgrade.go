package rampermission

import (
	"context"
	"errors"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
)

// For returns the class as a person runs it before an upgrade to a release of the controller. A zero
// release stands for the one that runs. It has the class's ID, journal and guards. Its cases are
// about the cluster: no sync of a Service has failed, and it triggers no resync.
func For(release ccm.Version) *remedy.Remedy {
	r := *Remedy
	r.Steps = []remedy.Step{step.PolicyVersion{}}
	r.Diagnose = func(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
		g, v, plan, err := compare(ctx, c, release)
		switch {
		case err != nil || len(plan.Ask) != 0:
			return plan, err
		case len(g.Missing) == 0:
			return remedy.Plan{}, errNothing
		}
		return extend(ctx, c, g, v)
	}
	r.StillFails = func(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
		g, _, plan, err := compare(ctx, c, release)
		if err != nil {
			return remedy.Unknown, err
		}
		return remedy.Is(len(plan.Ask) != 0 || len(g.Missing) > 0), nil
	}
	return &r
}

// errNothing says that the gap closed between two reads of it.
var errNothing = errors.New("the role now allows all that the controller needs")
