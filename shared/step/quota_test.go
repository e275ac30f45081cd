package step_test

import (
	"errors"
	"testing"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/test/sim"
)

const backends = "slb_quota_backendservers_num"

func quotas(made ...sim.QuotaApplication) *sim.World {
	for i := range made {
		made[i].Code = "q_1"
	}
	return &sim.World{Quotas: []sim.Quota{{Code: "q_1", Name: backends, Total: 200, Max: 400, Adjustable: true}}, QuotaApplications: made}
}

func TestApplyQuota(t *testing.T) {
	t.Parallel()
	apply := step.ApplyQuota{
		Product: "slb", Name: backends, Code: "q_1", Dimensions: map[string]string{"regionId": "cn-hangzhou"}, To: 250, Was: 200, Reason: "240 backends",
		Known: []string{"app-1"},
	}
	r := build(t, quotas(sim.QuotaApplication{ID: "app-1", Desired: 300, Status: "Disagree"}), nil)
	open := func() (n int) {
		for _, a := range r.cloud.Snapshot().QuotaApplications {
			if a.Status == "Process" {
				n++
			}
		}
		return n
	}
	r.is(apply, remedy.Todo)
	r.does(apply)
	r.does(apply) // already done: no second one
	r.is(apply, remedy.Done)
	if open() != 1 {
		t.Errorf("%d applications are open, want 1", open())
	}
	decide := func(status string) {
		r.cloud.Edit(func(s *sim.State) {
			for _, a := range s.QuotaApplications {
				if a.Status == "Process" {
					a.Status = status
				}
			}
		})
	}
	decide("Disagree")
	r.is(apply, remedy.Conflict)
	if err := apply.Apply(t.Context(), r.c, r.w); !errors.Is(err, remedy.ErrMoved) {
		t.Errorf("after a refusal: %v", err)
	}

	for _, tt := range []struct {
		name string
		w    *sim.World
		edit func(*step.ApplyQuota)
		want remedy.State
	}{
		{"somebody else's is open", quotas(sim.QuotaApplication{ID: "app-1", Desired: 300}), nil, remedy.Done},
		{"somebody else's was agreed to", quotas(sim.QuotaApplication{ID: "app-2", Desired: 220, Approved: 220, Status: "Agree"}), nil, remedy.Done},
		{"one of before was agreed to", quotas(sim.QuotaApplication{ID: "app-1", Desired: 200, Approved: 200, Status: "Agree"}), nil, remedy.Todo},
		{"it is high enough", quotas(), func(a *step.ApplyQuota) { a.To, a.Was = 200, 100 }, remedy.Done},
		{"it was changed", quotas(), func(a *step.ApplyQuota) { a.Was = 100 }, remedy.Conflict},
		{"of another region", quotas(), func(a *step.ApplyQuota) { a.Dimensions = map[string]string{"regionId": "cn-beijing"} }, remedy.Conflict},
		{"there is none", &sim.World{}, nil, remedy.Conflict},
	} {
		r := build(t, tt.w, nil)
		a := apply
		if tt.edit != nil {
			tt.edit(&a)
		}
		if got, err := a.Check(t.Context(), r.c); err != nil || got != tt.want {
			t.Errorf("%s: %s, %v; want %s", tt.name, got, err, tt.want)
		}
	}

	r = build(t, quotas(), nil)
	for _, action := range []string{"ListProductQuotas", "ListQuotaApplications", "CreateQuotaApplication"} {
		heal := r.cloud.Fault(sim.Fault{Product: "quotas", Action: action, Status: 403, Code: "NoPermission"})
		if err := apply.Apply(t.Context(), r.c, r.w); !errors.Is(err, cloud.ErrDenied) {
			t.Errorf("without %s: %v", action, err)
		}
		heal()
		if n := open(); n != 0 {
			t.Errorf("without %s: %d applications were made", action, n)
		}
	}
	if _, ok := apply.Undo(); ok {
		t.Error("an application is taken back")
	}
}
