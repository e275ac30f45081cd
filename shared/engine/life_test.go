package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/test/fixture"
)

func TestFix(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.env.Watch = 20 * time.Second
	r.on("after 1", r.syncs)
	rec := r.ends(event.Fixed)
	if len(rec.Attempts) != 1 || rec.Attempt != 1 || rec.Next != 1 || rec.Error != "" || rec.Digest == "" || rec.Mode != "fix" {
		t.Errorf("the record is %+v", rec)
	}
	var phases []event.Phase
	for _, rec := range r.journal() {
		phases = append(phases, rec.Phase)
	}
	fixture.Equal(t, phases, []event.Phase{event.Intent, event.Step, event.Settled})
	r.wrote(1)

	reads := r.count("GET")
	r.ends(event.Fixed)
	r.event = r.failure(class, r.event.Failure.Last.Add(time.Second)) // older than the fix
	r.ends(event.Fixed)
	if got := r.count("GET"); got != reads {
		t.Errorf("an answered event made %d requests", got-reads)
	}
	if got := len(r.journal()); got != len(phases) {
		t.Errorf("an answered event wrote %d records", got-len(phases))
	}
	r.wrote(1)

	r.event.Again = true
	r.ends(event.Gone)
	r.wrote(1)
}

func TestRuleStays(t *testing.T) {
	t.Parallel()
	r := build(t)
	rec := r.ends(event.Waiting)
	if rec.Rule.String() != "Applied. Waiting for the controller to sync." || !strings.HasPrefix(rec.Decided.String(), "Fix mode applies") {
		t.Errorf("it waits by the rule %q, and was decided by %q", rec.Rule, rec.Decided)
	}
	if err := r.syncs(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.advance(rec.Wait)
	if rec := r.ends(event.Fixed); !strings.HasPrefix(rec.Rule.String(), "Fix mode applies") {
		t.Errorf("what is fixed was decided by the rule %q", rec.Rule)
	}
}

func TestKill(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		point string
		quiet time.Duration // how long the next run waits
	}{
		{"diagnose", 15 * time.Second},          // started
		{"before 1", 2 * time.Minute},           // intent
		{"after 1", 2 * time.Minute},            // applied, and not recorded
		{"before 2", 2 * time.Minute},           // between two steps
		{"after 2", 2 * time.Minute},            //
		{"WATCH", 15 * time.Second},             // all written
		{"still fails after", 15 * time.Second}, // about to be proven
	} {
		t.Run(tt.point, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			r.steps = append(r.steps, act{Name: "2", Annotate: set("example.com/second", "yes", "")})
			r.steps[1].(act).Was["example.com/second"] = "no"
			r.patch("", `{"metadata":{"annotations":{"example.com/second":"no"}}}`)
			if tt.point == "still fails after" {
				r.env.Watch = 20 * time.Second
				r.on("after 2", r.syncs)
			}
			r.once(tt.point, kill)
			r.dies()
			r.restart()
			rec := r.ends(event.Waiting)
			if rec.Wait <= 0 || rec.Wait > tt.quiet {
				t.Errorf("a run right behind waits %s, want at most %s", rec.Wait, tt.quiet)
			}
			r.advance(tt.quiet)
			r.env.Watch = 20 * time.Second
			r.on("after 2", r.syncs)
			if rec.Done() || r.count("after 2") > 0 {
				r.sync("h2", "192.168.0.9")
			}
			rec = r.ends(event.Fixed)
			r.wrote(2)
			if len(rec.Attempts) != 1 {
				t.Errorf("%d attempts are counted, want 1", len(rec.Attempts))
			}
		})
	}
}

func TestJournalLost(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"diagnose", "before 1", "after 1"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			r.once(point, func(context.Context) error { r.env.Stream.Close(); return nil })
			r.fails("NATS is not available")
			r.restart()
			r.advance(3 * time.Minute)
			r.env.Watch = 20 * time.Second
			r.on("after 1", r.syncs)
			if r.patches.Load() > 0 { // the stream went away in the middle of the step
				r.sync("h2", "192.168.0.9")
			}
			r.ends(event.Fixed)
			r.wrote(1)
		})
	}
}

// A process that ends by asking its runs to stop does not kill them: an open plan is parked with its steps and goes on.
func TestCancelled(t *testing.T) {
	t.Parallel()
	r := build(t)
	ctx, cancel := context.WithCancel(t.Context())
	r.once("after 1", func(context.Context) error { cancel(); return nil })
	rec, err := engine.Run(ctx, r.env, r.class, r.event)
	if err == nil || rec.Result != event.Waiting {
		t.Fatalf("ended as %q, %v", rec.Result, err)
	}
	r.advance(rec.Wait)
	r.sync("h2", "192.168.0.9")
	r.ends(event.Fixed)
	r.wrote(1)
}

func TestCrashLoop(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"diagnose", "before 1", "check 1", "WATCH"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			if point == "check 1" {
				r.once("before 1", kill)
				r.dies()
				r.advance(2 * time.Minute)
			}
			r.on(point, kill)
			for range 3 {
				if rec, _, killed := r.try(r.event); !killed {
					if rec.Result == event.Failed && point == "check 1" {
						break
					}
					t.Fatalf("not killed: %q, wait %s", rec.Result, rec.Wait)
				}
				r.restart()
				r.advance(2 * time.Minute)
			}
			rec := r.ends(event.Failed)
			if len(rec.Ask) == 0 || rec.Crashes == 0 && len(rec.Finding) == 0 {
				t.Errorf("it asks %q and finds %q", rec.Ask, rec.Finding)
			}
			records := len(r.journal())
			r.ends(event.Failed)
			if got := len(r.journal()); got != records {
				t.Error("the answer is not in the journal")
			}
		})
	}
}

// A write of a run that died can be undone even if no other run could check it: the undo finds out whether it was made.
func TestUnknown(t *testing.T) {
	t.Parallel()
	wrote := func(r *rig) { r.once("after 1", kill); r.dies() }
	crashes := func(after time.Duration) func(*rig) {
		return func(r *rig) {
			wrote(r)
			for range 2 {
				r.restart()
				r.advance(after)
				r.once("GET", kill)
				r.dies()
			}
			r.restart()
			r.advance(2 * time.Minute)
			r.ends(event.Failed)
		}
	}
	errs := func(r *rig) {
		r.on("check 1", boom)
		for range 200 {
			rec, _, _ := r.try(r.event)
			if rec.Result == event.Failed {
				r.on("check 1", nil)
				return
			}
			r.advance(rec.Wait)
		}
		r.Fatal("it never asks")
	}
	for name, lost := range map[string]func(*rig){
		"the process died each time":           crashes(2 * time.Minute),
		"the process died each time, too late": crashes(18 * time.Minute),
		"an hour of errors":                    func(r *rig) { wrote(r); r.advance(2 * time.Minute); errs(r) },
		"an hour of errors, too late":          func(r *rig) { wrote(r); r.advance(18 * time.Minute); errs(r) },
		"an hour of errors, without an answer": func(r *rig) { r.once("patched", boom); r.advance(r.fails("boom").Wait); errs(r) },
		"changed in part": func(r *rig) {
			wrote(r)
			r.patch("", `{"metadata":{"annotations":{"a/b":"theirs"}}}`)
			r.advance(2 * time.Minute)
			r.run()
		},
		"changed in part, too late": func(r *rig) {
			wrote(r)
			r.patch("", `{"metadata":{"annotations":{"a/b":"theirs"}}}`)
			r.advance(18 * time.Minute)
			r.run()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			r.steps = []remedy.Step{act{Name: "1", Annotate: step.Annotate{
				Set: map[string]string{key: "new", "a/b": "ours"}, Was: map[string]string{key: "old"},
			}}}
			lost(r)
			r.wrote(1)
			applied, _ := r.applied()
			if len(applied) != 1 || len(applied[0].Made()) != 1 || !applied[0].Steps[0].Unknown {
				t.Fatalf("what can be undone: %+v", applied)
			}
			r.advance(3 * time.Minute)
			_, err := engine.Undo(t.Context(), r.env, r.class, applied)
			if r.live().Annotations["a/b"] == "theirs" {
				if !errors.Is(err, remedy.ErrMoved) || !strings.Contains(err.Error(), `a/b is "theirs"`) {
					t.Errorf("the undo ends with %v", err)
				}
				return
			}
			if r.must(err); r.live().Annotations[key] != "old" {
				t.Errorf("the annotation is %q", r.live().Annotations[key])
			}
		})
	}
	// So can a write that was reported as failed or that arrived after the run had looked.
	for name, wrote := range map[string]func(*rig){
		"it took too long": func(r *rig) {
			r.once("patched", func(context.Context) error { return errTimeout })
			rec, _, _ := r.try(r.event)
			r.advance(rec.Wait)
		},
		"it took too long, and a pause": func(r *rig) {
			r.once("patched", func(context.Context) error { return errTimeout })
			rec, _, _ := r.try(r.event)
			r.must(control.SetPause(r.Context(), r.env.Stream, control.Pause{Cluster: r.env.Cluster, By: "ann"}, false))
			r.advance(rec.Wait)
			r.ends(event.Waiting)
			r.must(r.env.Stream.Delete(r.Context(), control.Key(r.env.Cluster)))
			r.advance(18 * time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			wrote(r)
			r.run()
			applied, _ := r.applied()
			r.advance(3 * time.Minute)
			if _, err := engine.Undo(t.Context(), r.env, r.class, applied); err != nil || r.live().Annotations[key] != "old" {
				t.Errorf("the undo ends with %v, and the annotation is %q", err, r.live().Annotations[key])
			}
		})
	}
	// A step that turns out not to have been made does not belong to the case.
	r := build(t)
	r.once("before 1", kill)
	r.dies()
	r.on("check 1", boom)
	r.advance(2 * time.Minute)
	rec := r.fails("boom")
	r.must(control.SetPause(r.Context(), r.env.Stream, control.Pause{Cluster: r.env.Cluster, By: "ann"}, false))
	r.on("check 1", nil)
	r.advance(rec.Wait)
	r.ends(event.Waiting)
	if applied, _ := r.applied(); len(applied) != 0 {
		t.Errorf("what can be undone: %+v", applied)
	}
}

// A step that was possibly not made, and whose target has changed since, keeps neither an undo of the others from ending nor the next
// failure from asking whether to repeat what was undone.
func TestUnknownBeside(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.class.StillFails = func(_ context.Context, c *remedy.Case) (remedy.Verdict, error) {
		return remedy.Is(c.Service.Annotations[key] != "new"), nil
	}
	r.once("PATCH", boom) // it never arrived
	rec := r.fails("boom")
	r.annotate("theirs")
	r.steps = []remedy.Step{act{Name: "1", Annotate: set(key, "new", "theirs")}}
	for range 2 {
		r.advance(rec.Wait)
		rec, _, _ = r.try(r.event)
	}
	r.advance(3 * time.Minute)
	applied, _ := r.applied()
	if len(applied) != 2 {
		t.Fatalf("what can be undone: %+v", applied)
	}
	rec, err := engine.Undo(t.Context(), r.env, r.class, applied)
	if err != nil || rec.Result != event.Undone || r.live().Annotations[key] != "theirs" ||
		!strings.Contains(rec.Note.String(), "Whether this was applied is unknown") {
		t.Errorf("the undo ends as %q with %v, notes %q, and leaves %q", rec.Result, err, rec.Note, r.live().Annotations[key])
	}
	r.advance(10 * time.Minute)
	r.event = r.failure(class, r.now())
	r.ends(event.Asked)
}

func TestTrace(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.env.Watch = 20 * time.Second
	const first, second = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	made := r.event.Failure.Last.Add(time.Second)
	r.event.Failure.Trace, r.event.Failure.Recorded = first, made
	r.once("before 1", func(context.Context) error { return errors.New("no") })
	before := r.now()
	broke := r.fails("no")
	if broke.Trace != first || !broke.Recorded.Equal(made) || broke.Opened != "" || !broke.Prior.IsZero() || broke.Began.Before(before) ||
		broke.Began.After(broke.At) {
		t.Errorf("the record says trace %q, opened %q, recorded %s, prior %s, began %s", broke.Trace, broke.Opened, broke.Recorded, broke.Prior, broke.Began)
	}
	if s := broke.Steps[0]; s.Began.Before(broke.Began) || !s.Ended.IsZero() || broke.Timings.Apply <= 0 {
		t.Errorf("of a step that failed it says %s and %s, and of the phase %s", s.Began, s.Ended, broke.Timings.Apply)
	}

	r.advance(broke.Wait)
	r.on("after 1", r.syncs)
	r.once("still fails after", func(context.Context) error { return errors.New("no") })
	unproven := r.fails("no")
	if s := unproven.Steps[0]; !unproven.Prior.Equal(broke.At) || s.Began.Before(unproven.Began) || s.Ended.Before(s.Began) || unproven.Timings.Verify <= 0 {
		t.Errorf("the second run says prior %s, a step from %s to %s, and verify %s", unproven.Prior, s.Began, s.Ended, unproven.Timings.Verify)
	}

	r.advance(unproven.Wait)
	r.event = r.failure(class, r.event.Failure.Last.Add(time.Second))
	r.event.Failure.Trace = second
	fixed := r.ends(event.Fixed)
	if fixed.Trace != second || fixed.Opened != first || !fixed.Prior.IsZero() || !fixed.Recorded.IsZero() || !fixed.Steps[0].Began.Before(fixed.Began) {
		t.Errorf("the third run says trace %q, opened %q, prior %s, recorded %s", fixed.Trace, fixed.Opened, fixed.Prior, fixed.Recorded)
	}

	// An event without a trace has the trace that is derived from its ID.
	r.event = r.failure(class, r.now().Add(time.Hour))
	if rec := r.ends(event.Gone); rec.Trace != event.TraceOf(r.env.Cluster, r.event.ID) || rec.Opened != "" {
		t.Errorf("an event without a trace has %q, opened %q", rec.Trace, rec.Opened)
	}
}
