package engine_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/test/sim"
)

// Under a controller newer than every known release, the risk of a plan is one step higher, and the plan names the annotation that was not compared.
func TestNewerController(t *testing.T) {
	t.Parallel()
	r := build(t, func(svc *corev1.Service) { svc.Annotations[ccm.Prefix+"what-comes-next"] = "true" })
	r.setPolicy(remedy.Policy{Mode: remedy.Fix, Risk: remedy.Low, Budgets: plenty})
	plan := r.class.Diagnose
	for _, own := range []remedy.Risk{remedy.Low, remedy.Medium, remedy.High} {
		for runs, want := range map[string]remedy.Risk{
			"v2.12.1": own, ccm.Newest().String(): own, "v2.14.1": own.Raised(), "v2.15.0": own.Raised(), "v9.0.0": own.Raised(),
		} {
			r.cloud.Edit(func(s *sim.State) { s.Cluster.Addons[ccm.DaemonSet] = runs })
			r.class.Diagnose = func(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
				p, err := plan(ctx, c)
				p.Risk = own
				return p, err
			}
			rec, err := engine.Look(t.Context(), r.env, r.class, r.event)
			r.must(err)
			applied := map[bool]event.Result{true: event.Planned, false: event.Asked}[want == remedy.Low]
			if rec.Risk != want.String() || rec.Result != applied {
				t.Errorf("under %s a plan of %s risk has %s risk and ends as %s", runs, own, rec.Risk, rec.Result)
			}
			version, _ := ccm.ParseVersion(runs)
			unknown := slices.ContainsFunc(rec.Changes, func(c event.Change) bool { return c.Unknown && strings.Contains(c.How.String(), "what-comes-next") })
			note := rec.Note.String()
			if named := strings.Contains(note, runs) && strings.Contains(note, "what-comes-next"); named != version.TooNew() || unknown != named {
				t.Errorf("under %s the note says %q, and the changes are %v", runs, rec.Note, rec.Changes)
			}
		}
	}
}

func TestControllerUnread(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.cloud.Fault(sim.Fault{Product: "cs", Action: "DescribeClusterAddonsVersion", Status: 403, Code: "Forbidden", Message: "no"})
	if rec, err := engine.Look(t.Context(), r.env, r.class, r.event); err == nil || !strings.Contains(err.Error(), "DescribeClusterAddonsVersion") {
		t.Errorf("it ended as %s, %v", rec.Result, err)
	}
}
