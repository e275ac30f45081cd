package doctor

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/lbremedy/lbremedy/shared/doctor"
)

func TestLBGonePlans(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]map[string][]string{
		"workload":          {"shop/web": {"clear-status", "resync"}, "shop/hostile": {"clear-status", "resync"}, "shop/old": nil},
		"ingress":           {"kube-system/nginx-ingress-lb": {"clear-status", "resync"}},
		"nlb_gone":          {"shop/net": {"clear-status", "resync"}},
		"cleared":           {"shop/web": {"resync"}},
		"named":             {"shop/web": nil, "shop/new": nil, "shop/net": nil},
		"lost":              {"shop/web": nil, "shop/old": nil, "shop/net": nil},
		"lost_own":          {"shop/web": {"tag-lb", "resync"}, "shop/net": {"tag-lb", "resync"}, "shop/api": nil},
		"address_of_others": {"shop/labelled": {"tag-lb", "resync"}, "shop/gone": {"clear-status", "resync"}},
	} {
		a, err := txtar.ParseFile(filepath.Join("testdata", "lb-gone", file+".txtar"))
		if err != nil {
			t.Fatal(err)
		}
		s := load(t, a)
		r := doctor.Examine(t.Context(), s, []*doctor.Check{lbGone})
		got := map[string][]string{}
		for _, f := range r.Findings {
			for _, svc := range s.OfType() {
				if about(svc) != f.About {
					continue
				}
				plan := fixLBGone(s, svc, []doctor.Finding{f})
				got[name(svc)] = nil
				for _, step := range plan.Steps {
					got[name(svc)] = append(got[name(svc)], step.Kind())
				}
				if (len(plan.Ask) == 0) != (len(plan.Steps) > 0) {
					t.Errorf("%s: the plan for %s asks and does: %+v", file, name(svc), plan)
				}
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", file, d)
		}
	}
}
