package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

func (r *rig) forge(change func(*event.Record)) {
	r.Helper()
	data, err := r.env.Stream.Get(r.Context(), event.StateKey(r.env.Cluster, string(r.svc.UID)))
	if err != nil {
		return // the stream is away
	}
	d, err := event.ReadDocument(data)
	r.must(err)
	rec := d.Case(class).Record
	change(rec)
	rec.At = r.now()
	data, err = json.Marshal(d)
	r.must(err)
	r.must(r.env.Stream.Put(r.Context(), event.StateKey(r.env.Cluster, string(r.svc.UID)), data))
}

// A plan in the document that the class would not have made is refused with nothing written, and the next failure is diagnosed afresh.
func TestForgedPlan(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*event.Record)
		want   string
	}{
		"a kind of another class":  {func(rec *event.Record) { rec.Steps[0].Kind = "elsewhere" }, `a step "elsewhere", which the class does not declare`},
		"a kind that nobody knows": {func(rec *event.Record) { rec.Steps[0].Kind = "gone" }, `a step "gone", which the class does not declare`},
		"an annotation of another class": {func(rec *event.Record) {
			rec.Steps[0].Step = json.RawMessage(`{"name":"1","set":{"example.com/other":"x"},"was":{}}`)
		}, "a step writes example.com/other, which the class does not declare"},
		"more done than there is": {func(rec *event.Record) { rec.Next = 2 }, "2 of 1 steps are done"},
		"less than nothing done":  {func(rec *event.Record) { rec.Next = -1 }, "-1 of 1 steps are done"},
	} {
		for _, parked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, parked %t", name, parked), func(t *testing.T) {
				t.Parallel()
				r := build(t)
				r.once("before 1", kill)
				r.dies()
				r.forge(func(rec *event.Record) {
					if parked {
						rec.Phase, rec.Result, rec.Wait = event.Settled, event.Waiting, time.Second
					}
					tt.change(rec)
				})
				r.advance(3 * time.Minute)
				rec := r.ends(event.Failed)
				if !strings.Contains(rec.Finding.String(), tt.want) || len(rec.Ask) == 0 || len(rec.Steps) != 0 {
					t.Errorf("finding %q, ask %q, %d steps", rec.Finding, rec.Ask, len(rec.Steps))
				}
				r.wrote(0)
				r.event = r.failure(class, r.now())
				r.ends(event.Waiting)
				r.wrote(1)
			})
		}
	}
}

// The risk of a plan in the document is computed again, never read: a lower one does not get past the policy, a higher one holds nothing back.
func TestForgedRisk(t *testing.T) {
	t.Parallel()
	high := func(rec *event.Record) {
		last := len(rec.Steps) - 1
		rec.Steps[last].Step = json.RawMessage(`{"name":"` + fmt.Sprint(last+1) + `","how":"high","set":{"` + key + `":"new"},"was":{"` + key + `":"old"}}`)
	}
	says := func(risk string) func(*event.Record) { return func(rec *event.Record) { rec.Risk = risk } }
	for _, tt := range []struct {
		name   string
		steps  int
		raise  remedy.Risk // by the class, while the policy allows it
		change func(*event.Record)
		want   string // why it waits; empty: it goes on
		asks   bool   // it asks instead of waiting
		wrote  int64
	}{
		{name: "steps of higher risk, and none made", steps: 1, change: high, wrote: 1}, // the class is asked again, and its steps count
		{name: "steps of higher risk, and one made", steps: 2, change: high, want: "risk of the plan is high", wrote: 1},
		{name: "a higher risk of the plan", steps: 1, change: says("high"), wrote: 1},
		{name: "a risk that is none", steps: 1, change: says("none"), wrote: 1},
		{name: "a lower risk than the class says", steps: 1, raise: remedy.High, change: says("low"), want: "risk of the plan is high", asks: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			if tt.steps == 2 {
				r.steps = []remedy.Step{act{Name: "1", Annotate: set("a/b", "x", "")}, act{Name: "2", Annotate: set(key, "new", "old")}}
			}
			r.class.Diagnose = func(context.Context, *remedy.Case) (remedy.Plan, error) {
				return remedy.Plan{Finding: say.F("It is old."), Risk: tt.raise, Steps: r.bind(r.steps)}, nil
			}
			r.once(fmt.Sprintf("before %d", tt.steps), kill)
			r.dies()
			r.forge(tt.change)
			lower := r.policy
			lower.Risk = remedy.Low
			r.setPolicy(lower)
			r.advance(3 * time.Minute)
			rec, _, _ := r.try(r.event)
			if why := rec.Rule.String() + rec.Note.String(); tt.want != "" && (rec.Result != event.Waiting && !tt.asks || !strings.Contains(why, tt.want)) {
				t.Errorf("ended as %s: %s", rec.Result, why)
			}
			r.wrote(tt.wrote)
		})
	}
}

// Only the remaining steps of a plan are judged. If the write got through unrecorded, only the proof remains.
func TestJudgedWhenMade(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.policy.Risk = remedy.Low
	r.once("after 1", func(ctx context.Context) error {
		r.must(r.syncs(ctx)) // on a load balancer with many differences
		return kill(ctx)
	})
	r.dies()
	r.advance(3 * time.Minute)
	r.ends(event.Fixed)
	r.wrote(1)
}

// Only the Approval of this plan and this attempt proves consent; a record does not.
func TestForgedApproval(t *testing.T) {
	t.Parallel()
	evil := func(rec *event.Record) {
		last := len(rec.Steps) - 1
		rec.Steps[last].Step = json.RawMessage(`{"name":"` + fmt.Sprint(last+1) + `","how":"medium","set":{"` + key + `":"evil"},"was":{"` + key + `":"old"}}`)
	}
	for _, tt := range []struct {
		name   string
		steps  int
		agreed bool // a person has approved the true plan
		forge  func(*event.Record)
	}{
		{"nobody has agreed", 1, false, func(*event.Record) {}},
		{"nobody has agreed, and a step is made", 2, false, func(*event.Record) {}},
		{"somebody has agreed to another plan", 1, true, evil},
		{"somebody has agreed to another plan, and a step is made", 2, true, evil},
		{"somebody has agreed, and the record lists more", 2, true, func(rec *event.Record) {
			rec.Changes = []event.Change{{Balancer: "lb-1", What: "listener tcp:80", Down: true}}
		}},
		{"for an attempt that is over", 1, true, func(rec *event.Record) { rec.Attempt++ }},
	} {
		for _, parked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, parked %t", tt.name, parked), func(t *testing.T) {
				t.Parallel()
				r := build(t)
				r.steps = []remedy.Step{act{Name: "1", How: remedy.Medium, Annotate: set(key, "new", "old")}}
				if tt.steps == 2 {
					r.steps = []remedy.Step{act{Name: "1", Annotate: set("a/b", "x", "")}, act{Name: "2", How: remedy.Medium, Annotate: set(key, "new", "old")}}
				}
				lower := r.policy
				lower.Risk = remedy.Low
				if tt.agreed {
					r.setPolicy(lower)
					r.approve(r.ends(event.Asked), "ann")
				}
				r.once(fmt.Sprintf("before %d", tt.steps), kill)
				r.dies()
				r.setPolicy(lower)
				r.forge(func(rec *event.Record) {
					rec.Approved, rec.Risk = &event.Approved{By: "eve", At: r.now()}, "low"
					if parked {
						rec.Phase, rec.Result, rec.Wait = event.Settled, event.Waiting, time.Second
					}
					tt.forge(rec)
				})
				r.advance(3 * time.Minute)
				for range 3 {
					r.try(r.event)
					r.advance(10 * time.Second)
				}
				wrote := tt.steps - 1
				if tt.name == "somebody has agreed to another plan" { // the class is asked again, and its plan is approved
					wrote = 1
				}
				r.wrote(int64(wrote))
				if got := r.live().Annotations[key]; got == "evil" {
					t.Error("the forged plan was applied")
				}
			})
		}
	}
}
