package remedy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/events"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// forge stores a record after the last one of the rig's class, changed as somebody
// would who may write to the journal.
func (r *rig) forge(change func(*events.Record)) {
	r.Helper()
	j := r.env.Stream.Journal(r.env.Cluster, string(r.svc.UID), class)
	last, err := j.Load(r.Context())
	r.must(err)
	rec, err := events.DecodeRecord(last.Header, last.Data)
	r.must(err)
	change(&rec)
	rec.At = r.now()
	e, err := events.NewRecord(rec)
	r.must(err)
	header, data, err := events.EncodeNATS(e)
	r.must(err)
	r.must(j.Append(r.Context(), e.ID(), header, data))
}

// A plan that stands in the journal is data: what the class would not have planned is
// refused, with nothing written, and the next failure is diagnosed afresh.
func TestForgedPlan(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*events.Record)
		want   string
	}{
		"a kind of another class":  {func(rec *events.Record) { rec.Steps[0].Kind = "elsewhere" }, `a step "elsewhere", which the class does not declare`},
		"a kind that nobody knows": {func(rec *events.Record) { rec.Steps[0].Kind = "gone" }, `a step "gone", which the class does not declare`},
		"an annotation of another class": {func(rec *events.Record) {
			rec.Steps[0].Step = json.RawMessage(`{"name":"1","set":{"example.com/other":"x"},"was":{}}`)
		}, "a step writes example.com/other, which the class does not declare"},
		"more done than there is": {func(rec *events.Record) { rec.Next = 2 }, "2 of 1 steps are done"},
		"less than nothing done":  {func(rec *events.Record) { rec.Next = -1 }, "-1 of 1 steps are done"},
	} {
		for _, parked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, parked %t", name, parked), func(t *testing.T) {
				t.Parallel()
				r := build(t)
				r.once("before 1", kill)
				r.dies()
				r.forge(func(rec *events.Record) {
					if parked {
						rec.Phase, rec.Result, rec.Wait = events.Settled, events.Waiting, time.Second
					}
					tt.change(rec)
				})
				r.advance(3 * time.Minute)
				rec := r.ends(events.Failed)
				if !strings.Contains(rec.Finding, tt.want) || rec.Ask == "" || len(rec.Steps) != 0 {
					t.Errorf("finding %q, ask %q, %d steps", rec.Finding, rec.Ask, len(rec.Steps))
				}
				r.wrote(0)
				r.event = r.failure(class, r.now())
				r.ends(events.Waiting)
				r.wrote(1)
			})
		}
	}
}

// The risk of a plan in the journal is worked out from its steps: a record that says
// less does not get by the policy, and one that says more is held to it.
func TestForgedRisk(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*events.Record)
	}{
		{"steps of higher risk", func(rec *events.Record) {
			rec.Steps[0].Step = json.RawMessage(`{"name":"1","how":"high","set":{"` + key + `":"new"},"was":{"` + key + `":"old"}}`)
		}},
		{"a higher risk of the plan", func(rec *events.Record) { rec.Risk = "high" }},
		{"a risk that is none", func(rec *events.Record) { rec.Risk = "none" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			r.policy.Risk = remedy.Low
			r.once("before 1", kill)
			r.dies()
			r.forge(tt.change)
			r.advance(3 * time.Minute)
			if rec := r.ends(events.Waiting); rec.Next != 0 || !strings.Contains(rec.Rule, "risk is high") {
				t.Errorf("%d steps were applied: %s", rec.Next, rec.Rule)
			}
			r.wrote(0)
		})
	}
}
