package listenerconflict

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

// leftover deletes the conflicting listeners, if each is a leftover without backends of a deleted Service of this cluster.
func leftover(ctx context.Context, c *remedy.Case, lb *ccm.Instance, plan remedy.Plan) (remedy.Plan, error) {
	listeners, err := c.Cloud.SLB.Listeners(ctx, lb.ID)
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("list listeners of %s: %w", lb.ID, err)
	}
	groups, err := c.WholeGroups(ctx, lb)
	if err != nil {
		return remedy.Plan{}, err
	}
	var names []string
	var steps []remedy.Step
	for _, l := range listeners {
		at := ccm.ClassicListener(l)
		if len(others(c, []ccm.Listener{at})) == 0 {
			continue
		}
		of, ours := ccm.ParseTrace(l.Description)
		if !ours || of.Cluster != c.Cluster || !step.Restorable(l) || !idle(l, of, groups) {
			return plan, nil
		}
		if gone, err := c.Gone(ctx, of); err != nil || !gone {
			return plan, err
		}
		names = append(names, of.String())
		steps = append(steps, step.DeleteListener{LB: lb.ID, Listener: l})
	}
	if len(steps) == 0 {
		return plan, nil // deleted meanwhile
	}
	slices.Sort(names)
	plan.Finding = plan.Finding.And("This cluster has no such Service any more (%s), and the vServer groups of these listeners are empty.",
		strings.Join(slices.Compact(names), ", "))
	plan.Ask, plan.Risk = nil, remedy.High
	plan.Note = say.F("The journal keeps the whole configuration of a deleted listener. It can be created again as long as its vServer group exists.")
	plan.Steps = append(steps, step.Resync{})
	return plan, nil
}

// idle reports whether a listener's group was created for the same Service and has no backends.
func idle(l cloud.Listener, of ccm.Trace, groups []cloud.VServerGroup) bool {
	i := slices.IndexFunc(groups, func(g cloud.VServerGroup) bool { return l.VServerGroup != "" && g.ID == l.VServerGroup })
	if i < 0 || groups[i].Servers > 0 || len(groups[i].Backends) > 0 {
		return false
	}
	name, ok := ccm.ParseTrace(groups[i].Name)
	return ok && name.Cluster == of.Cluster && name.String() == of.String()
}
