package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/test/sim"
)

func undone(t *testing.T) (*rig, event.Record) {
	t.Helper()
	r := build(t)
	r.steps = []remedy.Step{
		step.TagLB{LB: r.lb, Key: "k", Value: "v"},
		act{Name: "1", At: "slb/" + r.lb, Annotate: set(key, "new", "old")},
		step.Resync{},
	}
	rec := r.ends(event.Waiting)
	if !rec.Done() {
		t.Fatalf("%d steps are written", rec.Next)
	}
	return r, rec
}

func (r *rig) tags() map[string]string {
	r.Helper()
	tags, err := r.clients.Cloud.SLB.Tags(r.Context(), r.lb)
	r.must(err)
	return tags
}

func TestUndo(t *testing.T) {
	t.Parallel()
	r, rec := undone(t)
	r.env.Person = &event.Person{Name: "ann", Identity: "ann@example.com", Host: "laptop"}
	before, wrote := len(r.journal()), r.patches.Load()
	would, err := engine.LookUndo(t.Context(), r.env, r.class, []event.Record{rec})
	if err != nil {
		t.Fatal(err)
	}
	if would.Result != event.Planned || len(would.Steps) != 2 || would.Next != 0 || len(r.journal()) != before || r.tags()["k"] != "v" ||
		r.live().Annotations[key] != "new" {
		t.Errorf("a look at the undo says %+v, and left %v, %v", would, r.live().Annotations, r.tags())
	}
	r.wrote(wrote)
	back, err := engine.Undo(t.Context(), r.env, r.class, []event.Record{rec})
	if err != nil {
		t.Fatal(err)
	}
	var calls []string
	for _, s := range back.Steps {
		for _, c := range s.Calls {
			calls = append(calls, fmt.Sprint(c.Action, " ", c.Resource, " ", c.Request != "", " ", c.Version != "", " ", c.At.IsZero(), c.Error))
		}
		if s.Found {
			t.Errorf("%s was not there", s.Text)
		}
	}
	want := []string{"patch services " + r.svc.Namespace + "/web false true false", "slb:UntagResources " + r.lb + " true false false"}
	if !slices.Equal(calls, want) {
		t.Errorf("the calls are %q, want %q", calls, want)
	}
	if back.Person == nil || back.Person.Identity != "ann@example.com" || r.journal()[before].Person == nil {
		t.Errorf("undone by %v", back.Person)
	}
	if back.Result != event.Undone || back.Case != rec.Case || len(back.Steps) != 2 || back.Next != 2 || back.Attempt != rec.Attempt {
		t.Errorf("the record is %+v", back)
	}
	if got := r.live().Annotations[key]; got != "old" {
		t.Errorf("the annotation is %q", got)
	}
	if _, ok := r.tags()["k"]; ok {
		t.Error("the tag is still there")
	}
	all := r.journal()
	if last := all[len(all)-1]; last.Result != event.Undone {
		t.Errorf("the journal ends with %q", last.Result)
	}
	r.ends(event.Undone)
	wrote = r.patches.Load()
	for _, undo := range []func(context.Context, *engine.Env, *remedy.Remedy, []event.Record) (event.Record, error){engine.LookUndo, engine.Undo} {
		if _, err := undo(t.Context(), r.env, r.class, []event.Record{rec}); err == nil || !strings.Contains(err.Error(), "no step was applied") {
			t.Errorf("got %v", err)
		}
	}
	r.wrote(wrote)
}

func TestUndoRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		before func(*rig, *event.Record)
		want   string
	}{
		{"changed since", func(r *rig, _ *event.Record) { r.patch("", `{"metadata":{"annotations":{"`+key+`":"newer"}}}`) },
			`has changed since it was read. The annotation ` + key + ` is "newer", and was "new" when lbremedy left it.`},
		{"deleted", func(r *rig, _ *event.Record) { r.remove() }, "deleted since"},
		{"replaced", func(r *rig, _ *event.Record) { r.replace() }, "deleted since"},
		{"unreadable", func(r *rig, _ *event.Record) { r.once("GET", boom) }, "boom"},
		{"no way back", func(_ *rig, rec *event.Record) {
			rec.Steps[0].Kind, rec.Steps[0].Step = step.ClearStatus{}.Kind(), []byte("{}")
		}, "can't be undone"},
		{"an unknown step", func(_ *rig, rec *event.Record) { rec.Steps[1].Kind = "gone" }, "gone"},
		{"a step of another class", func(_ *rig, rec *event.Record) { rec.Steps[1].Kind = "elsewhere" }, `a step "elsewhere", which the class does not declare`},
		{"an annotation of another class", func(_ *rig, rec *event.Record) {
			rec.Steps[1].Step = []byte(`{"set":{"example.com/other":"new"},"was":{"example.com/other":"old"}}`)
		}, "a step writes example.com/other, which the class does not declare"},
		{"a check fails", func(r *rig, _ *event.Record) { r.on("check 1 back", boom) }, "check undo 1: boom"},
		{"a write fails", func(r *rig, _ *event.Record) { r.once("PATCH", boom) }, "undo 1, "},
		{"another case writes to the same", func(r *rig, _ *event.Record) {
			_, held, err := control.Lock(r.Context(), r.env.Stream, "target.slb/"+r.lb, "test", time.Minute)
			if err != nil || !held {
				t.Errorf("lock: %t, %v", held, err)
			}
		}, "another case is writing"},
		{"the lock can't be taken", func(_ *rig, rec *event.Record) {
			rec.Steps[1].Step = []byte(`{"name":"1","at":"a..b","set":{"` + key + `":"new"},"was":{"` + key + `":"old"}}`)
		}, "lock a..b"},
		{"a run writes", func(r *rig, _ *event.Record) {
			r.steps = []remedy.Step{act{Name: "9", Annotate: set(key, "new", "old")}}
			r.patch("", `{"metadata":{"annotations":{"`+key+`":"old"}}}`)
			r.ends(event.Waiting)
			r.once("before 9", kill)
			r.dies()
		}, "a run may be writing"},
		{"another class writes", func(r *rig, _ *event.Record) {
			r.sync("h2", "192.168.0.9")
			r.ends(event.Fixed)
			other, ev := *r.class, r.failure("other", r.now())
			other.Class = "other"
			other.StillFails = func(context.Context, *remedy.Case) (remedy.Verdict, error) { return remedy.Yes, nil }
			done := make(chan struct{})
			r.steps = []remedy.Step{act{Name: "9", Annotate: set(key, "new", "old")}}
			r.once("before 9", kill)
			go func() {
				defer close(done)
				engine.Run(r.Context(), r.env, &other, ev)
			}()
			<-done
		}, "a run may be writing"},
		{"the journal is away", func(r *rig, _ *event.Record) { r.env.Stream.Close() }, "NATS is not available"},
		{"another cluster's", func(_ *rig, rec *event.Record) { rec.Cluster = "c-other" }, "not for this host"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			look, same := undone(t)
			tt.before(look, &same)
			look.forge(func(rec *event.Record) { rec.Steps = same.Steps })
			if _, err := engine.LookUndo(t.Context(), look.env, look.class, []event.Record{same}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("a look: got %v, want %s", err, tt.want)
			}
			r, rec := undone(t)
			tt.before(r, &rec)
			r.forge(func(stored *event.Record) { stored.Steps = rec.Steps })
			wrote := r.patches.Load()
			_, err := engine.Undo(t.Context(), r.env, r.class, []event.Record{rec})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if strings.Contains(tt.want, "does not declare") != errors.Is(err, remedy.ErrUndeclared) && tt.name != "an unknown step" &&
				tt.name != "no way back" {
				t.Errorf("the kind of %v is wrong", err)
			}
			if tt.name == "no way back" && !errors.Is(err, engine.ErrNoUndo) || tt.name == "changed since" && !errors.Is(err, remedy.ErrMoved) {
				t.Errorf("the kind of %v is lost", err)
			}
			r.wrote(wrote)
			if tt.name != "the journal is away" && r.tags()["k"] != "v" {
				t.Error("the tag is gone")
			}
		})
	}
}

// A value that no longer fits, because a load balancer was created in the meantime, is not restored.
func TestUndoRuledOut(t *testing.T) {
	t.Parallel()
	zone := ccm.Prefix + ccm.MasterZone
	made := func(r *rig) {
		r.must(r.clients.CloudWriter.SLB.Tag(r.Context(), r.lb, ccm.NameTag, ccm.DefaultName(r.svc)))
	}
	for _, tt := range []struct {
		name   string
		was    string // the zone that it asked for; empty: none
		leaves bool   // the class does not say how load balancers are created
		before func(*rig)
		want   string // why it is refused; empty: it is allowed
		final  bool
	}{
		{name: "there is none", was: "z-was"},
		{name: "in another zone", was: "z-was", before: made, want: "exists by now and can never be what was asked for before: master-zoneid=\"z-was\", " +
			"but its primary zone is cn-hangzhou-", final: true},
		{name: "a class that creates none", was: "z-was", leaves: true, before: made},
		{name: "nothing was asked for", before: made},
		{name: "undone already", was: "z-was", before: func(r *rig) {
			made(r)
			r.patch("", `{"metadata":{"annotations":{"`+zone+`":"z-was"}}}`)
		}},
		{name: "not found", was: "z-was", before: func(r *rig) { r.sync("h2", "192.168.0.9") }, want: "none with the address 192.168.0.9", final: true},
		{name: "unreadable", was: "z-was", before: func(r *rig) {
			r.cloud.Fault(sim.Fault{Product: "slb", Action: "DescribeLoadBalancers", Status: 403, Code: "NoPermission"})
		}, want: "look for a load balancer that rules the undo out"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			first := step.Annotate{Set: map[string]string{zone: "z-new"}}
			if tt.was != "" {
				first = set(zone, "z-new", tt.was)
			}
			r := build(t, func(svc *corev1.Service) { maps.Copy(svc.Annotations, first.Was) })
			r.class.Creates, r.class.Annotations = !tt.leaves, append(r.class.Annotations, ccm.MasterZone)
			r.steps = append(r.steps, act{Name: "2", Annotate: first})
			rec := r.ends(event.Waiting)
			if tt.before != nil {
				tt.before(r)
			}
			wrote, records := r.patches.Load(), len(r.journal())
			for _, undo := range []func(context.Context, *engine.Env, *remedy.Remedy, []event.Record) (event.Record, error){engine.LookUndo, engine.Undo} {
				_, err := undo(t.Context(), r.env, r.class, []event.Record{rec})
				if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) || errors.Is(err, engine.ErrNoUndo) != tt.final {
					t.Errorf("got %v, want %q", err, tt.want)
				}
			}
			if now := r.live().Annotations; tt.want == "" && (now[zone] != tt.was || now[key] != "old") {
				t.Errorf("it is left with %v", now)
			}
			if tt.want != "" {
				r.wrote(wrote)
				if got := len(r.journal()); got != records {
					t.Errorf("it left %d records", got-records)
				}
			}
		})
	}
	r := build(t, func(svc *corev1.Service) { svc.Annotations[zone] = "z-was" })
	r.class.Creates, r.class.Annotations = true, append(r.class.Annotations, ccm.MasterZone)
	r.steps = append(r.steps, act{Name: "2", Annotate: set(zone, "z-new", "z-was")})
	r.policy.TakeBack, r.policy.Budgets.Attempts = true, 1
	r.ends(event.Waiting)
	r.advance(8 * time.Minute)
	held := r.ends(event.Waiting)
	made(r)
	r.advance(held.Wait)
	rec := r.ends(event.Failed)
	if !strings.Contains(rec.Note.String(), "The fix was not undone: ") || !strings.Contains(rec.Note.String(), `master-zoneid="z-was"`) || len(rec.Ask) == 0 {
		t.Errorf("note %q, ask %q", rec.Note, rec.Ask)
	}
	r.wrote(2)
}

// The undo is worked out from the step; what the record says of it is for people.
func TestUndoOfItsOwn(t *testing.T) {
	t.Parallel()
	r, rec := undone(t)
	rec.Steps[0].Undo = nil
	rec.Steps[1].Undo.Kind, rec.Steps[1].Undo.Text = "annotate", say.Literal("annotate "+key+"=forged")
	_, err := engine.Undo(t.Context(), r.env, r.class, []event.Record{rec})
	r.must(err)
	if got := r.live().Annotations[key]; got != "old" || r.tags()["k"] != "" {
		t.Errorf("the annotation is %q, and the tags are %v", got, r.tags())
	}
}

func TestUndoAgainstRun(t *testing.T) {
	t.Parallel()
	r, rec := undone(t)
	r.steps = []remedy.Step{act{Name: "9", Annotate: set(key, "new", "old")}}
	r.advance(8 * time.Minute)
	r.ends(event.Unsettled)
	r.patch("", `{"metadata":{"annotations":{"`+key+`":"old"}}}`)
	r.once("diagnose", func(ctx context.Context) error {
		r.patch("", `{"metadata":{"annotations":{"`+key+`":"new"}}}`)
		if _, err := engine.Undo(ctx, r.env, r.class, []event.Record{rec}); err == nil || !strings.Contains(err.Error(), "a run may be writing") {
			t.Errorf("the undo ends with %v", err)
		}
		return nil
	})
	wrote := r.patches.Load()
	r.ends(event.Asked)
	r.wrote(wrote)
}

// Only the newest case of a class can be undone: the steps of an older one lie below those of the newer one.
func TestUndoOfOlderCase(t *testing.T) {
	t.Parallel()
	for name, wrote := range map[string]event.Result{"fixed": event.Fixed, "not proven yet": event.Waiting} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			r.env.Watch = long
			r.on("after 1", r.syncs)
			first := r.ends(event.Fixed)
			applied, _ := r.applied()
			r.annotate("old")
			r.advance(time.Minute)
			r.event = r.failure(class, r.now())
			r.on("after 1", func(context.Context) error { r.sync("h3", "192.168.0.9"); return nil })
			if wrote == event.Waiting {
				r.on("after 1", nil)
				r.env.Watch = 200 * time.Millisecond
			}
			second := r.ends(wrote)
			if first.Case == second.Case {
				t.Fatalf("both are of case %s", first.Case)
			}
			for _, undo := range []func(context.Context, *engine.Env, *remedy.Remedy, []event.Record) (event.Record, error){engine.LookUndo, engine.Undo} {
				if _, err := undo(t.Context(), r.env, r.class, applied); err == nil || !strings.Contains(err.Error(), "can't be undone before case "+second.Case) {
					t.Errorf("got %v", err)
				}
			}
			r.wrote(2)
			applied, _, err := r.env.Documents().Applied(t.Context(), second)
			r.must(err)
			_, err = engine.Undo(t.Context(), r.env, r.class, applied)
			r.must(err)
			r.wrote(3)
		})
	}
}

// A newer case that wrote nothing but a resync does not keep an older one from being undone, and has nothing to undo itself.
func TestUndoPastResync(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]func(*rig){
		"under way": func(*rig) {},
		"given up":  func(r *rig) { r.advance(20 * time.Minute); r.ends(event.Unsettled) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			r.env.Watch = long
			r.on("after 1", r.syncs)
			first := r.ends(event.Fixed)
			r.env.Watch = 200 * time.Millisecond
			r.class.StillFails = func(context.Context, *remedy.Case) (remedy.Verdict, error) { return remedy.Yes, nil }
			r.steps = []remedy.Step{step.Resync{}}
			r.advance(time.Minute)
			r.event = r.failure(class, r.now())
			second := r.ends(event.Waiting)
			later(r)
			undo := func(of event.Record) (event.Record, error) {
				t.Helper()
				applied, _, err := r.env.Documents().Applied(t.Context(), of)
				r.must(err)
				if len(applied) != 1 {
					t.Fatalf("%d attempts of case %s can be undone", len(applied), of.Case)
				}
				return engine.Undo(t.Context(), r.env, r.class, applied)
			}
			if _, err := undo(second); err == nil || !strings.Contains(err.Error(), "no step was applied") {
				t.Errorf("the resync: got %v", err)
			}
			rec, err := undo(first)
			if err != nil || rec.Result != event.Undone || rec.Case != first.Case || r.live().Annotations[key] != "old" {
				t.Errorf("%v; case %s of %s, %s ended as %q, and the annotation is %q", err, rec.Case, first.Case, second.Case, rec.Result, r.live().Annotations[key])
			}
		})
	}
}

// A request to undo counts even if an earlier one came from a computer whose clock was ahead.
func TestUndoAfterClockAhead(t *testing.T) {
	t.Parallel()
	r, rec := undone(t)
	r.advance(time.Hour)
	tag := func(value string) { r.must(r.clients.CloudWriter.SLB.Tag(t.Context(), r.lb, "k", value)) }
	r.once("patched", func(context.Context) error { tag("other"); return nil })
	if _, err := engine.Undo(t.Context(), r.env, r.class, []event.Record{rec}); !errors.Is(err, remedy.ErrMoved) {
		t.Fatalf("got %v", err)
	}
	tag("v")
	r.advance(-time.Hour)
	if _, err := engine.Undo(t.Context(), r.env, r.class, []event.Record{rec}); err != nil || r.tags()["k"] != "" {
		t.Errorf("%v, the tags are %v", err, r.tags())
	}
}

// A dry run knows what a patch leaves for the next one, and says that it does not know this of a load balancer.
func TestLookUndoOfSeveralSteps(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.steps = []remedy.Step{
		act{Name: "1", Annotate: set(key, "b", "old")}, act{Name: "2", Annotate: set(key, "c", "b")},
		step.TagLB{LB: r.lb, Key: "k", Value: "v"}, step.UntagLB{LB: r.lb, Key: "k", Value: "v"}, // which can't be known beforehand
	}
	rec := r.ends(event.Waiting)
	if !rec.Done() || r.live().Annotations[key] != "c" {
		t.Fatalf("%d steps are written", rec.Next)
	}
	would, err := engine.LookUndo(t.Context(), r.env, r.class, []event.Record{rec})
	if err != nil || len(would.Steps) != 4 || !strings.Contains(would.Note.String(), "Step 2 is checked when the step before it is undone.") {
		t.Errorf("%v, %+v", err, would)
	}
	if r.live().Annotations[key] != "c" || len(r.tags()) != 0 {
		t.Errorf("it left %v, %v", r.live().Annotations, r.tags())
	}
	_, err = engine.Undo(t.Context(), r.env, r.class, []event.Record{rec})
	r.must(err)
	if r.live().Annotations[key] != "old" || len(r.tags()) != 0 {
		t.Errorf("after the undo there are %v, %v", r.live().Annotations, r.tags())
	}
}

func TestCalls(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.must(r.clients.CloudWriter.SLB.Tag(t.Context(), r.lb, "k", "v"))
	r.steps = []remedy.Step{
		step.TagLB{LB: r.lb, Key: "k", Value: "v"}, step.TagLB{LB: r.lb, Key: "l", Value: "w"}, act{Name: "1", Annotate: set(key, "new", "old")},
	}
	r.ends(event.Waiting)
	all := r.journal()
	steps := all[len(all)-1].Steps
	if !steps[0].Found || len(steps[0].Calls) != 0 {
		t.Errorf("the tag was there: %+v", steps[0])
	}
	if c := steps[1].Calls; steps[1].Found || len(c) != 1 || c[0].Action != "slb:TagResources" || c[0].Resource != r.lb || c[0].Request == "" || c[0].Error != "" {
		t.Errorf("the tag was written: %+v", steps[1])
	}
	if c := steps[2].Calls; len(c) != 1 || c[0].Action != "patch services" || c[0].Version != r.live().ResourceVersion {
		t.Errorf("the Service was written: %+v", steps[2])
	}
	r.advance(3 * time.Minute)
	applied, _ := r.applied()
	_, err := engine.Undo(t.Context(), r.env, r.class, applied)
	r.must(err)
	tags, err := r.clients.Cloud.SLB.Tags(t.Context(), r.lb)
	r.must(err)
	if _, ok := tags["l"]; ok || tags["k"] != "v" {
		t.Errorf("after the undo the tags are %v", tags)
	}
}

// A refused write is recorded, too. The result of one whose run was killed is unknown.
func TestCallsOfTrouble(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.once("PATCH", boom)
	rec := r.fails("boom")
	if c := rec.Steps[0].Calls; len(c) != 1 || c[0].Error != "NoAnswer" {
		t.Errorf("the calls are %+v", c)
	}

	r = build(t)
	r.once("after 1", kill)
	r.dies()
	r.advance(3 * time.Minute)
	rec = r.ends(event.Waiting)
	if s := rec.Steps[0]; !rec.Done() || s.Found || len(s.Calls) != 0 {
		t.Errorf("the step is %+v", s)
	}
}

func TestLookMeetsTheGuards(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		before func(*rig)
		want   event.Result
		says   string
	}{
		"nothing in the way": {func(*rig) {}, event.Planned, ""},
		"paused": {func(r *rig) {
			r.must(control.SetPause(r.Context(), r.env.Stream, control.Pause{Cluster: r.env.Cluster, By: "ann"}, false))
		}, event.Waiting, "Paused by ann"},
		"undone by a person": {func(r *rig) {
			rec := r.ends(event.Waiting)
			r.advance(3 * time.Minute)
			_, err := engine.Undo(r.Context(), r.env, r.class, []event.Record{rec})
			r.must(err)
			r.advance(3 * time.Minute)
			r.event = r.failure(class, r.now())
		}, event.Asked, "was undone at"},
		"the budget is spent": {func(r *rig) {
			r.policy.Budgets = remedy.Budgets{Class: 1, Least: 1}
			r.spend()
		}, event.Waiting, "The budget of the class is spent"},
		"another case writes to the same": {func(r *rig) {
			r.steps = []remedy.Step{step.TagLB{LB: r.lb, Key: "k", Value: "v"}}
			_, held, err := control.Lock(r.Context(), r.env.Stream, "target.slb/"+r.lb, "test", time.Minute)
			if err != nil || !held {
				r.Errorf("lock: %t, %v", held, err)
			}
		}, event.Waiting, "Another case is writing to the same target."},
		"the API server refuses": {func(r *rig) {
			r.class.Annotations = append(r.class.Annotations, "a/b/c")
			r.steps = []remedy.Step{step.Annotate{Set: map[string]string{"a/b/c": "x"}}}
		}, "", ""},
		"a plan waits for its sync": {func(r *rig) { r.ends(event.Waiting) }, event.Waiting, "A plan is under way"},
		"a plan is under way": {func(r *rig) {
			r.steps = []remedy.Step{act{Name: "1", Annotate: set(key, "new", "old")}, settling{act{Name: "2", Annotate: set("a/b", "c", "")}}}
			r.ends(event.Waiting)
		}, event.Waiting, "A plan is under way"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			tt.before(r)
			r.event.Again = true
			wrote, before := r.patches.Load(), len(r.journal())
			rec, err := engine.Look(t.Context(), r.env, r.class, r.event)
			if name == "the API server refuses" {
				if err == nil || !strings.Contains(err.Error(), "step 1, annotate a/b/c=x: patch Service") {
					t.Errorf("got %v", err)
				}
				err, rec.Result = nil, ""
			}
			if err != nil || rec.Result != tt.want || !strings.Contains(rec.Rule.Then(rec.Note).String(), tt.says) {
				t.Errorf("%v: %s, rule %q, note %q", err, rec.Result, rec.Rule, rec.Note)
			}
			if rec.Case != "" && !slices.ContainsFunc(r.journal(), func(j event.Record) bool { return j.Case == rec.Case }) {
				t.Errorf("it names the case %s, which is not in the journal", rec.Case)
			}
			r.wrote(wrote)
			if after := len(r.journal()); after != before {
				t.Errorf("the journal has %d records, and had %d", after, before)
			}
		})
	}
}
