package event_test

import (
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
)

func TestStatus(t *testing.T) {
	t.Parallel()
	plan := event.Plan{Steps: []event.StepRecord{{Kind: "annotate"}}}
	settled := func(r event.Result) event.Run { return event.Run{Phase: event.Settled, Result: r} }
	for want, r := range map[event.Status]event.Record{
		"fixed":          {Run: settled(event.Fixed)},
		"planned":        {Run: settled(event.Planned), Plan: plan},
		"needs-approval": {Run: settled(event.Asked), Plan: plan, Outcome: event.Outcome{Digest: "d"}},
		"rejected":       {Run: settled(event.Planned), Plan: plan, Decision: event.Decision{Rejected: &event.Approved{By: "ann"}}},
		"needs-action":   {Run: settled(event.Asked), Plan: plan}, // the plan is unknown
		"waiting":        {Run: settled(event.Waiting)},
		"recovered":      {Run: settled(event.Gone)},
		"ignored":        {Run: settled(event.OutOfScope)},
		"writing":        {Run: event.Run{Phase: event.Step}},
		"error":          {Outcome: event.Outcome{Error: "no"}},
		"unknown":        {Run: event.Run{Phase: event.Settled}},
	} {
		if got := r.Status(); got != want {
			t.Errorf("%+v is %s, want %s", r.Run, got, want)
		}
	}
	byHand := event.Record{
		Origin: event.Origin{Service: event.Service{Kind: "cluster"}}, Run: settled(event.Asked), Plan: plan, Outcome: event.Outcome{Digest: "d"},
	}
	if got := byHand.Status(); got != event.NeedsAction {
		t.Errorf("what is no Service can't be approved, and is %s", got)
	}
	for _, s := range event.Statuses {
		over := s != "planned" && s != "needs-approval" && s != "needs-action" && s != "rejected" && s != "waiting" && s != "unsettled" && s != "failed"
		if s.Open() == over {
			t.Errorf("%s: open %v", s, s.Open())
		}
	}
}

func TestFirstFailure(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 15, 4, 5, 600, time.UTC)
	record := func(id string, failed, began time.Time) event.Record {
		return event.Record{Origin: event.Origin{Case: id, EventTime: failed}, Run: event.Run{First: began}}
	}
	const id = "22222222-20260102T150405"
	for name, tt := range map[string]struct {
		r    event.Record
		want time.Time
	}{
		"answered at once":      {record(id, at, at.Add(time.Second)), at},
		"failed again":          {record(id, at.Add(time.Hour), at.Add(time.Second)), at.Truncate(time.Second)},
		"an ID without a time":  {record("x", at.Add(time.Hour), at), at},
		"only the run is known": {record("x", time.Time{}, at), at},
		"a run on another case": {record(id, at.Add(-time.Hour), at), at.Add(-time.Hour)},
	} {
		if got := tt.r.FirstFailure(); !got.Equal(tt.want) {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}
