package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
)

// undone builds a rig whose plan of three steps is written.
func undone(t *testing.T) (*rig, event.Record) {
	t.Helper()
	r := build(t)
	r.steps = []remedy.Step{
		step.TagLB{LB: r.lb, Key: "k", Value: "v"},
		act{Name: "1", At: "slb/" + r.lb, Annotate: set(key, "new", "old")},
		step.Touch{},
	}
	rec := r.ends(event.Waiting)
	if !rec.Done() {
		t.Fatalf("%d steps are written", rec.Next)
	}
	return r, rec
}

func (r *rig) tags() map[string]string {
	r.Helper()
	tags, err := r.env.Cloud.SLB.Tags(r.Context(), r.lb)
	r.must(err)
	return tags
}

// What was written is taken back, the last step first, and the journal tells it.
func TestUndo(t *testing.T) {
	t.Parallel()
	r, rec := undone(t)
	back, err := engine.Undo(t.Context(), r.env, r.class, []event.Record{rec})
	if err != nil {
		t.Fatal(err)
	}
	if back.Result != event.Undone || back.Case != rec.Case || len(back.Steps) != 2 || back.Next != 2 || back.Attempt <= rec.Attempt {
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
	// The event that led to it is settled.
	r.ends(event.Undone)
	// Once more: all is as it was, and nothing is written.
	wrote := r.patches.Load()
	if _, err := engine.Undo(t.Context(), r.env, r.class, []event.Record{rec}); err != nil {
		t.Error(err)
	}
	r.wrote(wrote)
}

// Nothing is taken back where somebody has moved on.
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
		}, "no way back"},
		{"nothing written", func(_ *rig, rec *event.Record) { rec.Next = 0 }, "no step was applied"},
		{"an unknown step", func(_ *rig, rec *event.Record) { rec.Steps[1].Kind = "gone" }, "gone"},
		{"a step of another class", func(_ *rig, rec *event.Record) { rec.Steps[1].Kind = "elsewhere" }, `a step "elsewhere", which the class does not declare`},
		{"an annotation of another class", func(_ *rig, rec *event.Record) {
			rec.Steps[1].Step = []byte(`{"set":{"example.com/other":"new"},"was":{"example.com/other":"old"}}`)
		}, "a step writes example.com/other, which the class does not declare"},
		{"steps that are not there", func(_ *rig, rec *event.Record) { rec.Next = 9 }, "9 of 3 steps are done"},
		{"a check fails", func(r *rig, _ *event.Record) { r.on("check 1 back", boom) }, "check undo 1: boom"},
		{"a write fails", func(r *rig, _ *event.Record) { r.once("PATCH", boom) }, "undo 1, "},
		{"another case writes to the same", func(r *rig, _ *event.Record) {
			_, held, err := r.env.Stream.Lock(r.Context(), "target.slb/"+r.lb, "test", time.Minute)
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
			r, rec := undone(t)
			tt.before(r, &rec)
			wrote := r.patches.Load()
			_, err := engine.Undo(t.Context(), r.env, r.class, []event.Record{rec})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if strings.Contains(tt.want, "does not declare") != errors.Is(err, remedy.ErrUndeclared) && tt.name != "an unknown step" &&
				tt.name != "steps that are not there" {
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

// The way back is worked out from the step: what the journal says of it is for people.
func TestUndoOfItsOwn(t *testing.T) {
	t.Parallel()
	r, rec := undone(t)
	rec.Steps[0].Undo = nil
	rec.Steps[1].Undo.Kind, rec.Steps[1].Undo.Step = "annotate", []byte(`{"set":{"`+key+`":"forged"},"was":{"`+key+`":"new"}}`)
	_, err := engine.Undo(t.Context(), r.env, r.class, []event.Record{rec})
	r.must(err)
	if got := r.live().Annotations[key]; got != "old" || r.tags()["k"] != "" {
		t.Errorf("the annotation is %q, and the tags are %v", got, r.tags())
	}
}

// A run that is about to write loses against an undo that was first.
func TestUndoAgainstRun(t *testing.T) {
	t.Parallel()
	r, rec := undone(t)
	r.steps = []remedy.Step{act{Name: "9", Annotate: set(key, "new", "old")}}
	r.advance(8 * time.Minute)
	r.ends(event.Unsettled)
	r.patch("", `{"metadata":{"annotations":{"`+key+`":"old"}}}`)
	r.once("diagnose", func(ctx context.Context) error {
		r.patch("", `{"metadata":{"annotations":{"`+key+`":"new"}}}`)
		_, err := engine.Undo(ctx, r.env, r.class, []event.Record{rec})
		return err
	})
	wrote := r.patches.Load()
	r.ends(event.Waiting)
	r.wrote(wrote + 1) // the undo's own
}
