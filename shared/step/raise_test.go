package step_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/test/sim"
)

func TestRaise(t *testing.T) {
	t.Parallel()
	recent, old := time.Now().Add(-24*time.Hour), time.Now().Add(-60*24*time.Hour)
	for _, tt := range []struct {
		name  string
		made  []sim.QuotaApplication
		quota func(*cloud.Quota)
		need  float64
		ask   string // of the plan before
		to    float64
		says  string // the finding after
		asks  string
		waits bool
	}{
		{name: "a fifth more, up to the next ten", need: 210, ask: "Do less.", to: 260, says: "It is full."},
		{name: "no more than can be had", need: 350, to: 400, says: "It is full."},
		{name: "one more at least", need: 100, quota: func(q *cloud.Quota) { q.Total = 99.5 }, to: 201, says: "It is full."},
		{name: "a step", need: 210, quota: func(q *cloud.Quota) { q.Steps = []float64{300, 220, 260} }, to: 260, says: "It is full."},
		{name: "the last step", need: 290, quota: func(q *cloud.Quota) { q.Steps = []float64{300, 220} }, to: 300, says: "It is full."},
		{name: "no step is enough", need: 310, ask: "Do less.", quota: func(q *cloud.Quota) { q.Steps = []float64{300, 220} },
			says: "Applications can ask for at most 400.", asks: "Do less."},
		{name: "more than can be had", need: 401, says: "Applications can ask for at most 400.", asks: "Ask Alibaba Cloud support"},
		{name: "no limit is known", need: 401, quota: func(q *cloud.Quota) { q.Least, q.Most = 0, 0 }, to: 490, says: "It is full."},
		{name: "not adjustable", need: 210, quota: func(q *cloud.Quota) { q.Adjustable, q.Why = false, "limitReached" },
			says: "cannot be raised by application. Reason: limitReached.", asks: "Ask Alibaba Cloud support"},
		{name: "not adjustable, and there are other ways", need: 210, ask: "Do less.", quota: func(q *cloud.Quota) { q.Adjustable, q.Why = false, "" },
			says: "cannot be raised by application.", asks: "Do less."},
		{name: "high enough by now", need: 200, says: "now allows it", asks: "Check the controller's log", waits: true},
		{name: "under way", made: []sim.QuotaApplication{{ID: "app-1", Desired: 300, At: recent}}, need: 210, ask: "Do less.",
			says: "An application for 300 is pending since ", asks: "Alternatively: Do less.", waits: true},
		{name: "refused", made: []sim.QuotaApplication{{ID: "app-1", Desired: 300, Status: "Disagree", Opinion: "Too many.", At: recent}}, need: 210,
			ask: "Do less.", says: "rejected, made at ", asks: "Alternatively: Do less."},
		{name: "withdrawn", made: []sim.QuotaApplication{{ID: "app-1", Desired: 300, Status: "Cancel", At: recent}}, need: 210, says: "was rejected",
			asks: "Apply again in the quota center"},
		{name: "refused long ago", made: []sim.QuotaApplication{{ID: "app-1", Desired: 300, Status: "Disagree", At: old}}, need: 210, to: 260, says: "It is full."},
		{name: "refused, and agreed to since", made: []sim.QuotaApplication{{ID: "app-1", Desired: 300, Status: "Disagree", At: old},
			{ID: "app-2", Desired: 200, Approved: 200, Status: "Agree", At: recent}}, need: 210, to: 260, says: "It is full."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := build(t, quotas(tt.made...), nil)
			r.c.Now = time.Now()
			r.c.Service = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
			q := cloud.Quota{Product: "slb", Code: "q_1", Name: backends, Total: 200, Adjustable: true, Least: 201, Most: 400,
				Dimensions: map[string]string{"regionId": "cn-hangzhou"}}
			if tt.quota != nil {
				tt.quota(&q)
			}
			raise := func() (remedy.Plan, error) {
				return step.Raise(t.Context(), r.c, remedy.Plan{Finding: say.F("It is full."), Ask: say.Literal(tt.ask)}, q, tt.need, "they are needed")
			}
			plan, err := raise()
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(plan.Finding.String(), "It is full.") || !strings.Contains(plan.Finding.String(), tt.says) {
				t.Errorf("the finding is %q", plan.Finding)
			}
			if (plan.Wait > 0) != tt.waits || tt.to > 0 && len(plan.Steps) != 1 || tt.to == 0 && len(plan.Steps) != 0 {
				t.Fatalf("the plan is %+v", plan)
			}
			if tt.to > 0 {
				apply := plan.Steps[0].(step.ApplyQuota)
				if apply.To != tt.to || apply.Was != q.Total || len(apply.Known) != len(tt.made) || len(plan.Ask) != 0 || !strings.Contains(plan.Note.String(), tt.ask) {
					t.Errorf("it is %+v in %+v", apply, plan)
				}
			} else if !strings.Contains(plan.Ask.String(), tt.asks) {
				t.Errorf("it asks %q", plan.Ask)
			}
			heal := r.cloud.Fault(sim.Fault{Product: "quotas", Action: "ListQuotaApplications", Status: 403, Code: "NoPermission"})
			defer heal()
			if _, err := raise(); err == nil {
				t.Error("the applications can't be read, and it is no error")
			}
		})
	}
}
