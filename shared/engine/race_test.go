package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/shell"
)

// Of many concurrent runs on one Service exactly one writes, and none takes another for dead.
func TestManyRuns(t *testing.T) {
	t.Parallel()
	r := build(t)
	const n = 12
	var wait sync.WaitGroup
	results := make([]event.Record, n)
	for i := range n {
		env := *r.env
		env.Stream = r.connect()
		wait.Go(func() {
			var err error
			if results[i], err = engine.Run(t.Context(), &env, r.class, r.event); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	for _, rec := range results {
		if rec.Result != event.Waiting {
			t.Errorf("a run ended as %q: %s", rec.Result, rec.Finding)
		}
	}
	r.wrote(1)
	r.sync("h2", "192.168.0.9")
	r.advance(10 * time.Second)
	r.ends(event.Fixed)
	intents := 0
	for _, rec := range r.journal() {
		if rec.Phase == event.Intent {
			intents++
		}
	}
	if intents != 1 {
		t.Errorf("%d intents stand in the journal", intents)
	}
}

// A slow run that another has overtaken loses its right to write at its next append.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.once("diagnose", func(ctx context.Context) error {
		r.advance(time.Minute)
		r.ends(event.Waiting) // writes; the sync doesn't show yet
		return nil
	})
	rec := r.ends(event.Waiting)
	if rec.Wait <= 0 {
		t.Error("the one overtaken doesn't come back")
	}
	r.wrote(1)
}

func TestManyClasses(t *testing.T) {
	t.Parallel()
	r := build(t)
	other := *r.class
	other.Class = "other"
	var theirs event.Record
	r.once("before 1", func(ctx context.Context) error {
		var err error
		theirs, err = engine.Run(ctx, r.env, &other, r.failure("other", time.Now().Add(-time.Minute)))
		return err
	})
	r.env.Watch = 20 * time.Second
	r.on("after 1", r.syncs)
	r.ends(event.Fixed)
	if theirs.Result != event.Waiting || theirs.Wait <= 0 {
		t.Errorf("the other class ended as %q", theirs.Result)
	}
	r.wrote(1)
	for i, rec := range r.journal() {
		if rec.Class == "other" {
			t.Errorf("record %d is of the other class, in phase %s", i, rec.Phase)
		}
	}

	// A plan that the first class left open when it died keeps the other from writing but not from looking.
	r = build(t)
	r.once("after 1", kill)
	r.dies()
	ev := r.failure("other", time.Now().Add(-time.Minute))
	rec, err := engine.Run(t.Context(), r.env, &other, ev)
	if err != nil || rec.Result != event.Gone {
		t.Errorf("the other class ended as %q, %v", rec.Result, err)
	}
	r.wrote(1)
}

func TestLostIsNoCrash(t *testing.T) {
	t.Parallel()
	r := build(t)
	other := *r.class
	other.Class, other.Steps = "other", nil
	other.StillFails = nil
	other.Diagnose = remedy.Always(remedy.Plan{Finding: say.F("f"), Wait: time.Second})
	ev := r.failure("other", time.Now().Add(-time.Minute))
	r.on("diagnose", func(ctx context.Context) error {
		if _, err := engine.Run(ctx, r.env, &other, ev); err != nil {
			t.Error(err)
		}
		return nil
	})
	for range 5 {
		r.ends(event.Waiting)
		r.advance(time.Minute)
	}
	r.on("diagnose", nil)
	rec := r.ends(event.Waiting)
	if !rec.Done() || rec.Crashes != 0 {
		t.Errorf("ended with %d steps and %d crashes: %s", rec.Next, rec.Crashes, rec.Finding)
	}
}

// Services that share places: each gets one or chooses another, and says so.
func TestClaims(t *testing.T) {
	t.Parallel()
	var full, taken int
	place := "place-" + t.Name() + fmt.Sprint(time.Now().UnixNano())
	for range 3 {
		r := build(t)
		r.class.Diagnose = func(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
			if c.Full(place) {
				return remedy.Plan{Finding: say.F("No place is left."), Ask: say.F("Make room.")}, nil
			}
			return remedy.Plan{Finding: say.F("There is room."), Steps: r.bind(r.steps), Claims: []remedy.Claim{{Key: place, Of: 1}}}, nil
		}
		switch rec := r.run(); rec.Result {
		case event.Asked:
			full++
			r.wrote(0)
		case event.Waiting:
			taken++
			r.wrote(1)
		}
	}
	if taken != 1 || full != 2 {
		t.Errorf("%d Services took the only place, %d asked", taken, full)
	}

	r := build(t)
	r.class.Diagnose = func(context.Context, *remedy.Case) (remedy.Plan, error) {
		return remedy.Plan{Finding: say.F("f"), Steps: r.bind(r.steps), Claims: []remedy.Claim{{Key: place, Of: 1}}}, nil
	}
	r.fails("which has no place left")
	r.wrote(0)

	r.class.Diagnose = func(context.Context, *remedy.Case) (remedy.Plan, error) {
		return remedy.Plan{Finding: say.F("f"), Steps: r.bind(r.steps), Claims: []remedy.Claim{{Key: "a..b", Of: 1}}}, nil
	}
	r.fails("claim a place")

	for _, point := range []string{"still fails", "diagnose"} {
		r = build(t)
		r.class.Diagnose = func(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
			if !c.Full(place) {
				r.on(point, boom)
			}
			return remedy.Plan{Finding: say.F("f"), Steps: r.bind(r.steps), Claims: []remedy.Claim{{Key: place, Of: 1}}}, r.hit(ctx, "diagnose")
		}
		if point == "diagnose" {
			r.class.Diagnose = func(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
				if !c.Full(place) {
					r.remove()
				}
				return remedy.Plan{Finding: say.F("f"), Steps: r.bind(r.steps), Claims: []remedy.Claim{{Key: place, Of: 1}}}, nil
			}
			r.ends(event.Gone)
		} else {
			r.fails("boom")
		}
		r.wrote(0)
	}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	target := fmt.Sprint("ram/p", time.Now().UnixNano())
	a, b := build(t), build(t)
	for _, r := range []*rig{a, b} {
		r.steps = []remedy.Step{act{Name: "1", At: target, Annotate: set(key, "new", "old")}}
	}
	a.once("before 1", func(context.Context) error {
		rec := b.ends(event.Waiting)
		if rec.Next != 0 || rec.Wait <= 0 {
			t.Errorf("the second case wrote %d steps", rec.Next)
		}
		b.wrote(0)
		return nil
	})
	a.ends(event.Waiting)
	a.wrote(1)
	b.advance(5 * time.Second)
	b.ends(event.Waiting)
	b.wrote(1)

	r := build(t)
	r.steps = []remedy.Step{
		act{Name: "1", At: target, Annotate: set(key, "new", "old")},
		act{Name: "2", At: "x..y", Annotate: set(key, "newer", "new")},
	}
	r.fails("lock x..y")
	r.wrote(0)
	_, held, err := control.Lock(t.Context(), r.env.Stream, "target."+target, "test", time.Second)
	if err != nil || !held {
		t.Errorf("the first lock was kept: %t, %v", held, err)
	}
}

// If another case makes the step while the plan waits for its target, the step is found and the rest of the plan is made.
func TestMadeByAnother(t *testing.T) {
	t.Parallel()
	target := fmt.Sprint("ram/p", time.Now().UnixNano())
	r := build(t)
	r.steps = []remedy.Step{
		act{Name: "1", At: target, Annotate: set(key, "new", "old")},
		act{Name: "2", Annotate: set(key, "newer", "new")},
	}
	unlock, held, err := control.Lock(t.Context(), r.env.Stream, "target."+target, "test", time.Minute)
	r.must(err)
	if rec := r.ends(event.Waiting); !held || rec.Reason != event.ForTarget {
		t.Fatalf("it waits for %q: %s", rec.Reason, rec.Rule)
	}
	r.patch("", `{"metadata":{"annotations":{"`+key+`":"new"}}}`)
	unlock()
	r.class.Diagnose = remedy.Always(remedy.Plan{Finding: say.F("it is made"), Wait: time.Minute})
	r.advance(5 * time.Second)
	rec := r.ends(event.Waiting)
	if r.wrote(1); rec.Next != 2 || !rec.Steps[0].Found || rec.Steps[1].Found {
		t.Errorf("%d steps are made, %+v: %s", rec.Next, rec.Steps, rec.Error)
	}
}

// All cases that wait for their turn get one: a case that comes back at its moment doesn't queue again.
func TestPace(t *testing.T) {
	t.Parallel()
	var rigs []*rig
	for range 6 {
		r := build(t)
		r.steps = []remedy.Step{paced{act{Name: "1", Annotate: set(key, "new", "old")}}}
		if len(rigs) > 0 { // one cluster for all
			r.env.Cluster, r.event.Failure.Cluster = rigs[0].env.Cluster, rigs[0].env.Cluster
		}
		rigs = append(rigs, r)
	}
	written := 0
	var waits []time.Duration
	for i, r := range rigs {
		rec := r.ends(event.Waiting)
		if rec.Next == 1 {
			written++
			continue
		}
		waits = append(waits, rec.Wait)
		if want := time.Duration(i) * 5 * time.Second; rec.Wait > want || rec.Wait < want-5*time.Second {
			t.Errorf("case %d waits %s, want about %s", i, rec.Wait, want)
		}
	}
	if written != 1 || !slices.IsSorted(waits) {
		t.Errorf("%d wrote at once; the others wait %v", written, waits)
	}
	for i, r := range rigs[1:] {
		r.advance(waits[i])
		if rec := r.ends(event.Waiting); rec.Next != 1 {
			t.Errorf("case %d came back at its moment and was sent away for %s: %s", i+1, rec.Wait, rec.Rule)
		}
		r.wrote(1)
	}
}

// A run waits for a near moment; the end of the run ends the wait.
func TestPaceSoon(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.steps = []remedy.Step{paced{act{Name: "1", Annotate: set(key, "new", "old")}}}
	_, err := control.Reserve(t.Context(), r.env.Stream, r.env.Cluster, 5*time.Second)
	r.must(err)
	r.env.Watch = 20 * time.Second
	r.env.Bound = 500 * time.Millisecond
	r.fails("deadline exceeded")
	r.wrote(0)

	r.env.Bound = 0
	r.must(r.env.Stream.Delete(t.Context(), control.BudgetKey(r.env.Cluster))) // as if it had passed
	r.advance(15 * time.Second)
	r.on("after 1", r.syncs)
	r.ends(event.Fixed)
	r.wrote(1)
}

// Decisions apply even if a NATS node that is behind answers.
func TestBehind(t *testing.T) {
	t.Parallel()
	r := build(t)
	server := nats.Start(t, embedded.Options{})
	r.env.Stream = nats.Connect(t, stream.Config{URL: server.URL()})
	r.starts()
	_, err := r.env.Stream.Setup(t.Context(), nil, stream.Settings{})
	r.must(err)
	r.on("after 1", r.syncs)
	nats.Behind(t, server.URL(), "KV_lbremedy")
	r.must(control.SetPause(t.Context(), r.env.Stream, control.Pause{Cluster: r.env.Cluster, By: "ann"}, false))
	again := func() event.Record {
		r.advance(ccm.Retry)
		r.event = r.failure(class, r.now())
		return r.run()
	}
	held := 0
	shell.Until(t, "runs see what holds it back", func() bool {
		if again().Held == event.HeldByPause {
			held++
		}
		return held == 3
	})
	r.wrote(0)
	_, err = control.Resume(t.Context(), r.env.Stream, r.env.Cluster)
	r.must(err)
	shell.Until(t, "it is fixed", func() bool { return again().Result == event.Fixed })
	r.wrote(1)
}

// If the wait for the moment took long, the run's stale reads are repeated, and the class is asked again.
func TestPaceStale(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		late   func(*rig)                        // happens while it waits
		class  func(*remedy.Remedy, func() bool) // in place of the class that waits so long
		want   event.Result
		says   string
		writes int64
	}{
		"nothing": {want: event.Fixed, writes: 1},
		"a label of the namespace": {late: func(r *rig) {
			_, err := r.kube.Client().CoreV1().Namespaces().Patch(r.Context(), r.svc.Namespace, types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"lbremedy.io/mode":"observe"}}}`), metav1.PatchOptions{})
			r.must(err)
		}, want: event.Waiting, says: "Observe mode"},
		"the cause is gone": {class: func(r *remedy.Remedy, late func() bool) {
			r.StillFails = func(context.Context, *remedy.Case) (remedy.Verdict, error) { return remedy.Is(!late()), nil }
		}, want: event.Gone, says: "The cause of the failure is gone"},
		"another plan": {class: func(r *remedy.Remedy, late func() bool) {
			diagnose := r.Diagnose
			r.Diagnose = func(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
				plan, err := diagnose(ctx, c)
				if late() {
					plan.Steps = append(plan.Steps, step.Resync{})
				}
				return plan, err
			}
		}, want: event.Waiting, says: "has changed in the meantime"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			r.steps = []remedy.Step{paced{act{Name: "1", Annotate: set(key, "new", "old")}}}
			_, err := control.Reserve(t.Context(), r.env.Stream, r.env.Cluster, 5*time.Second)
			r.must(err)
			reserved := func() time.Time {
				value, err := r.env.Stream.Get(r.Context(), control.BudgetKey(r.env.Cluster))
				r.must(err)
				var b control.Places
				r.must(json.Unmarshal(value, &b))
				return b.Resync
			}
			before := reserved()
			var late atomic.Bool
			if tt.class != nil {
				tt.class(r.class, late.Load)
			}
			r.env.Watch = 20 * time.Second
			r.on("after 1", r.syncs)
			ended := make(chan event.Record, 1)
			go func() {
				rec, _, _ := r.try(r.event)
				ended <- rec
			}()
			shell.Until(t, "the run waits for its moment", func() bool { return reserved().After(before) })
			if tt.late != nil {
				tt.late(r)
			}
			late.Store(true)
			r.advance(10 * time.Second)
			rec := <-ended
			if rec.Result != tt.want || !strings.Contains(rec.Finding.Then(rec.Rule).Then(rec.Note).String(), tt.says) {
				t.Errorf("it ends as %s: %s, %s, %s, %s", rec.Result, rec.Finding, rec.Rule, rec.Note, rec.Error)
			}
			if rec.Timings.Diagnose >= 5*time.Second || rec.Timings.Apply < 10*time.Second {
				t.Errorf("it took %s to diagnose and %s to apply: the wait for a moment is none of the diagnosis", rec.Timings.Diagnose, rec.Timings.Apply)
			}
			r.wrote(tt.writes)
		})
	}
}

// An approval counts even if a NATS node that is behind answers: its event must not be acknowledged before.
func TestApprovedBehind(t *testing.T) {
	t.Parallel()
	r := build(t)
	url := r.apart()
	asked := r.consent()
	nats.Behind(t, url, "KV_lbremedy")
	r.approve(asked, "ann")
	r.env.Watch = long
	r.on("after 1", r.syncs)
	shell.Until(t, "it is fixed", func() bool {
		rec := r.run()
		if rec.Result == event.Asked {
			t.Fatal("the approval is overlooked")
		}
		return rec.Result == event.Fixed
	})
	r.wrote(1)
}

// A run compares itself with the newest record, even if a NATS node that is behind answers.
func TestRepeatsBehind(t *testing.T) {
	t.Parallel()
	r := build(t)
	url := r.apart()
	for n := range 8 {
		finding := []string{"The vSwitch is full.", "The vSwitch is gone."}[n%2]
		r.class.Diagnose = remedy.Always(remedy.Plan{Finding: say.Literal(finding), Ask: say.F("a")})
		var rec event.Record
		shell.Until(t, "it asks", func() bool {
			r.advance(ccm.Retry)
			r.event = r.failure(class, r.now())
			rec = r.run()
			return rec.Result == event.Asked
		})
		if rec.Repeats {
			t.Fatalf("%q counts as a repetition of what was said before the last record", finding)
		}
		if n == 0 {
			nats.Behind(t, url, "CASES")
		}
	}
}

// A case that keeps ending as before outlives its last record: a missing record does not prove that the node is behind.
func TestRepeatsAged(t *testing.T) {
	t.Parallel()
	r := build(t)
	url := r.apart()
	r.class.Diagnose = remedy.Always(remedy.Plan{Finding: say.F("The vSwitch is full."), Ask: say.F("a")})
	for range 5 {
		r.ends(event.Asked)
		r.advance(ccm.Retry)
		r.event = r.failure(class, r.now())
	}
	cases, err := nats.JetStream(t, url).Stream(t.Context(), stream.Cases)
	r.must(err)
	r.must(cases.Purge(t.Context()))
	r.ends(event.Asked)
}

// While it waits for its moment, a run may be cut off and another may begin. It then writes only if it still holds the object.
func TestPaceLost(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.steps = []remedy.Step{paced{act{Name: "1", Annotate: set(key, "new", "old")}}}
	_, err := control.Reserve(t.Context(), r.env.Stream, r.env.Cluster, 3*time.Second)
	r.must(err)
	r.env.Watch = 20 * time.Second
	ended := make(chan event.Record, 1)
	go func() {
		rec, _, _ := r.try(r.event)
		ended <- rec
	}()
	shell.Until(t, "the run waits for its moment", func() bool { return len(r.journal()) == 1 })
	r.must(r.stolen(t.Context()))
	if rec := <-ended; rec.Result != event.Waiting || rec.Next != 0 {
		t.Errorf("it ends as %s after %d steps", rec.Result, rec.Next)
	}
	r.wrote(0)
	if d := r.document(); d.State.Holder != "another" {
		t.Errorf("the object is held by %q", d.State.Holder)
	}
}
