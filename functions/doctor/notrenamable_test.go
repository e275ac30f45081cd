package doctor

import (
	"path/filepath"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

func TestNotRenamablePlans(t *testing.T) {
	t.Parallel()
	for file, steps := range map[string]map[string]int{
		"untagged": {"shop/web": 1},
		"nlb":      {"shop/net": 1},
		"shared":   {"shop/web": 0, "shop/api": 0, "shop/bare": 0, "shop/other": 0},
		"unread":   {"shop/web": 0},
	} {
		a, err := txtar.ParseFile(filepath.Join("testdata", "not-renamable", file+".txtar"))
		if err != nil {
			t.Fatal(err)
		}
		s := load(t, a)
		r := doctor.Examine(t.Context(), s, []*doctor.Check{notRenamable})
		if len(r.Findings) != len(steps) {
			t.Errorf("%s: %d findings, want %d", file, len(r.Findings), len(steps))
		}
		for _, f := range r.Findings {
			svc := s.OfType()[0]
			for _, of := range s.OfType() {
				if about(of) == f.About {
					svc = of
				}
			}
			plan := fixNotRenamable(s, svc, []doctor.Finding{f})
			if len(plan.Steps) != steps[name(svc)] || len(plan.Steps) == 0 && len(plan.Ask) == 0 {
				t.Errorf("%s: the plan for %s is %+v", file, name(svc), plan)
			}
			for _, step := range plan.Steps {
				if step.Risk() != remedy.High {
					t.Errorf("%s: the risk of %s is %s", file, step.Says(), step.Risk())
				}
			}
		}
	}
}
