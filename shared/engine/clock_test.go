package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/fixture"
	"github.com/lbremedy/lbremedy/test/shell"
)

func TestAttempts(t *testing.T) {
	t.Parallel()
	r := build(t)
	var marks []string
	for n := 1; n <= 3; n++ {
		rec := r.ends(event.Waiting)
		if len(rec.Attempts) != n {
			t.Fatalf("attempt %d is counted as %d", n, len(rec.Attempts))
		}
		marks = append(marks, r.live().Annotations[ccm.Resync])
		r.patch("", `{"metadata":{"annotations":{"`+key+`":"old"}}}`) // somebody restores the old value
		// On a busy machine the run's watch may be too short to show the change.
		for rec = r.ends(event.Waiting); len(rec.Steps) > 0; rec = r.ends(event.Waiting) {
		}
		r.advance(time.Second)
	}
	rec := r.ends(event.Failed)
	wayOut := "raise budgets.attempts in the policy file. " +
		"To try once now, save such a policy as FILE and run it with: lbremedy run " + r.svc.Namespace + "/web --policy FILE --apply."
	if !strings.Contains(rec.Ask.String(), wayOut) || len(rec.Steps) != 1 || rec.Next != 0 {
		t.Errorf("the fourth attempt asks %q, with %d of %d steps", rec.Ask, rec.Next, len(rec.Steps))
	}
	r.wrote(3)

	r.policy.Budgets.Attempts = 4
	r.event = r.failure(class, r.now())
	r.ends(event.Waiting)
	r.wrote(4)
	marks = append(marks, r.live().Annotations[ccm.Resync])
	r.patch("", `{"metadata":{"annotations":{"`+key+`":"old"}}}`)
	for rec = r.ends(event.Waiting); len(rec.Steps) > 0; rec = r.ends(event.Waiting) {
	}

	r.advance(25 * time.Hour)
	r.event = r.failure(class, r.now())
	r.ends(event.Waiting)
	r.wrote(5)
	marks = append(marks, r.live().Annotations[ccm.Resync])
	seen := map[string]bool{}
	for _, m := range marks {
		if seen[m] {
			t.Errorf("two attempts have the mark %q: the controller isn't woken", m)
		}
		seen[m] = true
	}
}

// The mark of an attempt is new even after all earlier ones are forgotten: writing the present value again would trigger no sync.
func TestMarkIsNew(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.steps = []remedy.Step{act{Name: "1"}} // a resync step
	r.class.StillFails = func(context.Context, *remedy.Case) (remedy.Verdict, error) { return remedy.Yes, nil }
	r.ends(event.Waiting)
	first := r.live()
	r.advance(8 * time.Minute)
	r.ends(event.Unsettled)
	r.class.Diagnose = remedy.Always(remedy.Plan{Finding: say.F("f"), Ask: say.F("a")})
	r.ends(event.Asked)
	r.advance(25 * time.Hour)
	r.class.Diagnose = func(context.Context, *remedy.Case) (remedy.Plan, error) {
		return remedy.Plan{Finding: say.F("f"), Steps: r.bind(r.steps)}, nil
	}
	r.event.Again = true
	r.ends(event.Waiting)
	if got := r.live(); got.ResourceVersion == first.ResourceVersion {
		t.Errorf("the second touch changed nothing: %s", got.Annotations[ccm.Resync])
	}
}

func TestClockJumpsBack(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, point string
		steps       []remedy.Step
		most        time.Duration
	}{
		{"an open intent", "before 1", []remedy.Step{act{Name: "1", Annotate: set(key, "new", "old")}}, 2 * time.Minute},
		{"a parked plan", "", []remedy.Step{settling{act{Name: "1", Annotate: set(key, "new", "old")}}}, time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			r.steps = tt.steps
			if tt.point != "" {
				r.once(tt.point, kill)
				r.dies()
			} else {
				r.ends(event.Waiting)
			}
			r.advance(-48 * time.Hour)
			rec := r.ends(event.Waiting)
			if rec.Wait > tt.most {
				t.Errorf("waits %s, want at most %s", rec.Wait, tt.most)
			}
			r.advance(48*time.Hour + tt.most)
			r.env.Watch = 20 * time.Second
			r.on("after 1", r.syncs)
			r.ends(event.Fixed)
			r.wrote(1)
		})
	}
}

// A write by a clock that was ahead counts as made when it is read: its proof is not awaited until the local clock has caught up.
func TestWrittenAhead(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.advance(24 * time.Hour)
	r.event = r.failure(class, r.now())
	r.ends(event.Waiting)
	r.wrote(1)
	r.advance(-24 * time.Hour)
	r.event = r.failure(class, r.now())
	r.ends(event.Waiting)
	r.advance(4 * time.Minute)
	r.ends(event.Waiting)
	r.advance(4 * time.Minute)
	r.ends(event.Unsettled)
	r.sync("h2", "192.168.0.9")
	r.ends(event.Fixed)
	r.wrote(1)
}

// A dead run whose clock was ahead holds its Service for no longer than any other.
func TestClockWasAhead(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"before 1", "diagnose"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			r.steps = []remedy.Step{act{Name: "1", Annotate: set(key, "new", "old")}}
			r.advance(10 * time.Minute)
			r.once(point, kill)
			r.dies()
			r.advance(-10*time.Minute + 2*time.Minute + 20*time.Second) // the clock is right, and no order can be out any more
			r.env.Watch = 20 * time.Second
			r.on("after 1", r.syncs)
			r.ends(event.Fixed)
			r.wrote(1)
		})
	}
}

// Liveness is judged by the clock of NATS: an engine with a wrong clock neither takes others for dead nor is taken for dead.
func TestClockOfNATS(t *testing.T) {
	t.Parallel()
	const other = "another-class"
	by := func(env engine.Env, wrong time.Duration) *engine.Env {
		env.Now = func() time.Time { return time.Now().Add(wrong) }
		return &env
	}
	for _, tt := range []struct {
		name, point string
		holder, by  time.Duration
		class       string
	}{
		{"it reads", "diagnose", 0, 10 * time.Minute, class},
		{"it reads, behind", "diagnose", -10 * time.Minute, 0, class},
		{"it writes", "before 1", 0, 10 * time.Minute, class},
		{"it writes, behind", "before 1", -10 * time.Minute, 0, class},
		{"it writes for another class", "before 1", 0, 10 * time.Minute, other},
		{"it writes for another class, behind", "before 1", -10 * time.Minute, 0, other},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			_, err := r.env.Stream.Setup(t.Context(), []string{class, other}, stream.Settings{Clusters: []string{r.env.Cluster}})
			r.must(err)
			second, rival := by(*r.env, tt.by), *r.class
			rival.Class = tt.class
			r.env = by(*r.env, tt.holder)
			r.once(tt.point, func(ctx context.Context) error {
				before := len(r.journal())
				rec, err := engine.Run(ctx, second, &rival, r.failure(tt.class, time.Now()))
				if err != nil || rec.Result != event.Waiting || rec.Wait <= 0 || rec.Wait > 2*time.Minute || rec.Crashes != 0 {
					t.Errorf("a run beside it ends as %q, waits %s, counts %d crashes, %v", rec.Result, rec.Wait, rec.Crashes, err)
				}
				if n := len(r.journal()); n != before {
					t.Errorf("it has written %d records", n-before)
				}
				return nil
			})
			r.ends(event.Waiting)
			r.wrote(1)
		})
	}
}

// A killed engine is dead fifteen seconds later, however wrong the clocks are.
func TestClockOfNATSDead(t *testing.T) {
	t.Parallel()
	for _, wrong := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		t.Run(wrong.String(), func(t *testing.T) {
			t.Parallel()
			r := build(t)
			_, err := r.env.Stream.Setup(t.Context(), []string{class}, stream.Settings{Clusters: []string{r.env.Cluster}})
			r.must(err)
			right := r.env.Now
			r.env.Now = func() time.Time { return time.Now().Add(wrong) }
			r.once("diagnose", kill)
			r.dies()
			r.restart()
			r.env.Now = right
			began := time.Now()
			shell.Until(t, "the run is dead", func() bool { r.run(); return r.count("diagnose") == 2 })
			if took := time.Since(began); took < 12*time.Second {
				t.Errorf("it was taken for dead after %s", took)
			}
			r.wrote(1)
		})
	}
}

func TestFixedAhead(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.advance(10 * time.Minute)
	r.env.Watch = long
	r.on("after 1", r.syncs)
	r.ends(event.Fixed)
	r.annotate("old")
	r.event = r.failure(class, time.Now().Add(time.Minute))
	r.env.Watch = 200 * time.Millisecond
	r.ends(event.Waiting)
	r.wrote(2)
}

func TestPaceClock(t *testing.T) {
	t.Parallel()
	for _, wrong := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		r := build(t)
		_, err := control.Reserve(t.Context(), r.env.Stream, r.env.Cluster, 5*time.Second)
		r.must(err)
		r.steps = []remedy.Step{paced{act{Name: "1", Annotate: set(key, "new", "old")}}}
		r.advance(wrong)
		r.event.Failure.Last = r.now()
		if rec := r.ends(event.Waiting); rec.Wait > 5*time.Second || rec.Wait < time.Second || rec.Reason != event.AfterOthers {
			t.Errorf("with a clock that is %s ahead it waits %s, as %s", wrong, rec.Wait, rec.Reason)
		}
	}
}

// A run does not wait for a moment at which its order would have expired.
func TestPaceBeyondExpiry(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.env.Watch = time.Minute
	for range 6 {
		_, err := control.Reserve(t.Context(), r.env.Stream, r.env.Cluster, 5*time.Second)
		r.must(err)
	}
	r.steps = []remedy.Step{paced{act{Name: "1", Annotate: set(key, "new", "old")}}}
	rec := r.ends(event.Waiting)
	if rec.Reason != event.AfterOthers || rec.Wait < 20*time.Second {
		t.Errorf("it waits %s, as %s", rec.Wait, rec.Reason)
	}
	r.wrote(0)
	r.env.Watch = 200 * time.Millisecond
	r.advance(rec.Wait)
	r.ends(event.Waiting)
	r.wrote(1)
}

// Where others wait for its place, a case looks for the sync less often the longer it takes: each look costs two synced writes.
func TestWaitingForSync(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.env.Watch = 200 * time.Millisecond
	crowd := true
	r.env.Busy = func() bool { return crowd }
	written := r.ends(event.Waiting).Written
	for _, tt := range []struct {
		crowd       bool
		after, want time.Duration
	}{
		{true, 15 * time.Second, 10 * time.Second},
		{true, time.Minute, 30 * time.Second},
		{false, 90 * time.Second, 10 * time.Second},
		{true, 5 * time.Minute, time.Minute},
	} {
		crowd = tt.crowd
		r.advance(tt.after - r.now().Sub(written))
		if rec := r.ends(event.Waiting); rec.Wait.Round(2*time.Second) != tt.want {
			t.Errorf("%s after the write it waits %s, want %s", tt.after, rec.Wait, tt.want)
		}
	}
}

func TestSettle(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.steps = []remedy.Step{
		act{Name: "1", Annotate: set("example.com/a", "1", "0")},
		settling{act{Name: "2", Annotate: set(key, "new", "old")}},
	}
	rec := r.ends(event.Waiting)
	if rec.Next != 1 || rec.Wait > time.Minute || rec.Wait < 50*time.Second {
		t.Fatalf("parked after %d steps for %s", rec.Next, rec.Wait)
	}
	r.wrote(1)
	r.advance(30 * time.Second)
	if rec := r.ends(event.Waiting); rec.Wait > 30*time.Second {
		t.Errorf("half-way it waits %s", rec.Wait)
	}
	r.wrote(1)
	r.advance(30 * time.Second)
	r.env.Watch = 20 * time.Second
	r.on("after 2", r.syncs)
	r.ends(event.Fixed)
	r.wrote(2)
}

// The controller may retry while a plan waits for its resync. A full sync leaves another hash label, a sync of backends only an Event.
// Either replaces the resync if the class no longer finds its cause.
func TestWokenByItself(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		full    bool
		cause   remedy.Verdict
		resyncs bool
	}{
		{name: "a full sync", full: true, cause: remedy.No},
		{name: "a sync of backends alone", cause: remedy.No},
		{name: "an Event of success, and the cause is still there", cause: remedy.Yes, resyncs: true},
		{name: "an Event of success, and the cause is unknown", cause: remedy.Unknown, resyncs: true},
		{name: "a full sync, and the cause is still there", full: true, cause: remedy.Yes, resyncs: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := build(t, fixture.Labels(map[string]string{ccm.HashLabel: "h1"}))
			r.patch("status", fmt.Sprintf(`{"metadata":{"labels":{%q:%q}},"status":{"loadBalancer":{"ingress":[{"ip":"192.168.0.9"}]}}}`,
				ccm.BalancerLabel, r.lb))
			r.steps = []remedy.Step{step.TagLB{LB: r.lb, Key: ccm.NameTag, Value: ccm.DefaultName(r.svc)}, step.Resync{After: time.Minute}}
			if rec := r.ends(event.Waiting); rec.Next != 1 {
				t.Fatalf("%d steps were made, with the note %q", rec.Next, rec.Note)
			}
			r.wrote(0)
			if tt.full {
				r.sync("h2", "192.168.0.9")
			}
			ok := &corev1.Event{
				ObjectMeta:     metav1.ObjectMeta{Namespace: r.svc.Namespace, Name: "web.ok"},
				InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: r.svc.Namespace, Name: "web", UID: r.svc.UID},
				Reason:         "EnsuredLoadBalancer", Type: "Normal", LastTimestamp: metav1.NewTime(r.now().Add(5 * time.Second)),
				Source: corev1.EventSource{Component: "service-controller"},
			}
			_, err := r.kube.Client().CoreV1().Events(r.svc.Namespace).Create(r.Context(), ok, metav1.CreateOptions{})
			r.must(err)
			r.class.StillFails = func(context.Context, *remedy.Case) (remedy.Verdict, error) { return tt.cause, nil }
			r.advance(61 * time.Second)
			if tt.resyncs {
				if rec := r.ends(event.Waiting); rec.Next != 2 {
					t.Errorf("%d steps were made, with the note %q", rec.Next, rec.Note)
				}
				r.wrote(1)
				return
			}
			if rec := r.ends(event.Fixed); rec.Next != 1 || !strings.Contains(rec.Note.String(), "A resync was not needed") {
				t.Errorf("%d steps were made, with the note %q", rec.Next, rec.Note)
			}
			r.wrote(0)
		})
	}
}

// A change between the plan and its first step leads to a new plan, even for a resync step: a full sync may overwrite it.
func TestChangedBeforeTouch(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.steps = []remedy.Step{step.Resync{}}
	r.once("diagnose", func(context.Context) error {
		r.patch("", `{"metadata":{"annotations":{"a/b":"c"}}}`)
		return nil
	})
	if rec := r.ends(event.Waiting); len(rec.Note) == 0 || len(rec.Attempts) != 0 {
		t.Errorf("%d attempts, note %q", len(rec.Attempts), rec.Note)
	}
	r.wrote(0)
	r.ends(event.Waiting)
	r.wrote(1)
}

func TestStale(t *testing.T) {
	t.Parallel()
	for name, lie := range map[string]func(*rig){
		"parked": func(r *rig) {
			r.steps = []remedy.Step{settling{act{Name: "1", Annotate: set(key, "new", "old")}}}
			r.ends(event.Waiting)
		},
		"open": func(r *rig) { r.once("before 1", kill); r.dies() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			lie(r)
			plans := r.count("diagnose")
			r.advance(18 * time.Minute)
			r.ends(event.Waiting)
			if r.count("diagnose") != plans+1 {
				t.Error("it was not diagnosed again")
			}
		})
	}
}

// The journal records what a killed run wrote, however late and even in a pause; otherwise it could not be undone.
func TestUnsaid(t *testing.T) {
	t.Parallel()
	killed := func(r *rig) { r.once("after 1", kill); r.dies() }
	for _, tt := range []struct {
		name   string
		write  func(*rig)
		after  time.Duration
		paused bool
	}{
		{"killed, and stale", killed, 18 * time.Minute, false},
		{"killed, stale and paused", killed, 18 * time.Minute, true},
		{"killed and paused", killed, 3 * time.Minute, true},
		{"without an answer, and stale", func(r *rig) { r.once("patched", boom); r.fails("boom") }, 18 * time.Minute, false},
		{"without an answer, and paused", func(r *rig) { r.once("patched", boom); r.fails("boom") }, 3 * time.Minute, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			tt.write(r)
			r.wrote(1)
			if tt.paused {
				r.must(control.SetPause(r.Context(), r.env.Stream, control.Pause{Cluster: r.env.Cluster, By: "ann"}, false))
			}
			r.advance(tt.after)
			r.ends(event.Waiting)
			applied, _ := r.applied()
			if len(applied) != 1 || applied[0].Next != 1 || applied[0].Steps[0].Found {
				t.Fatalf("what can be undone: %+v", applied)
			}
			r.wrote(1)
			r.advance(3 * time.Minute)
			_, err := engine.Undo(t.Context(), r.env, r.class, applied)
			r.must(err)
			if got := r.live().Annotations[key]; got != "old" {
				t.Errorf("the annotation is %q", got)
			}
		})
	}
	r := build(t)
	killed(r)
	r.advance(18 * time.Minute)
	r.on("check 1", boom)
	r.advance(r.fails("boom").Wait)
	r.on("check 1", nil)
	r.advance(r.ends(event.Waiting).Wait)
	r.sync("h2", "192.168.0.9")
	r.ends(event.Fixed)
	if applied, _ := r.applied(); len(applied) != 1 {
		t.Errorf("what can be undone: %+v", applied)
	}
	r.wrote(1)
}

func TestStaleTargetGone(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.once("before 1", kill)
	r.dies()
	plans := r.count("diagnose")
	r.steps = []remedy.Step{act{Name: "2", Annotate: set(key, "new", "old")}}
	r.on("check 1", func(context.Context) error { return fmt.Errorf("list listeners: %w", cloud.ErrNotFound) })
	r.advance(18 * time.Minute)
	if rec := r.ends(event.Waiting); rec.Error != "" || r.count("diagnose") != plans+1 {
		t.Errorf("diagnosed %d times: %s", r.count("diagnose")-plans, rec.Error)
	}
	r.wrote(1)
}

func twoSteps() []remedy.Step {
	return []remedy.Step{
		act{Name: "1", Annotate: set("example.com/a", "1", "0")},
		act{Name: "2", Annotate: set(key, "new", "old")},
	}
}

// A step that a parked plan had not tried is not its own, even if somebody has made it since.
func TestParkedUntried(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.steps = twoSteps()
	r.once("after 1", func(ctx context.Context) error {
		return control.SetPause(ctx, r.env.Stream, control.Pause{Cluster: r.env.Cluster, By: "ann"}, false)
	})
	r.ends(event.Waiting)
	r.annotate("new")
	r.advance(18 * time.Minute)
	_, err := control.Resume(r.Context(), r.env.Stream, r.env.Cluster)
	r.must(err)
	_, err, _ = r.try(r.event)
	r.must(err)
	if applied, _ := r.applied(); len(applied) != 1 || applied[0].Next != 1 {
		t.Errorf("what can be undone: %+v", applied)
	}
}

func TestPolicyBetweenSteps(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.steps = twoSteps()
	r.once("after 1", func(context.Context) error { r.setPolicy(remedy.Policy{}); return nil })
	if rec := r.ends(event.Waiting); rec.Next != 1 || rec.Wait != time.Minute {
		t.Errorf("parked after %d steps for %s", rec.Next, rec.Wait)
	}
	r.wrote(1)
	r.advance(time.Minute)
	r.ends(event.Waiting)
	r.wrote(1)
	r.setPolicy(remedy.Policy{Mode: remedy.Fix})
	r.advance(time.Minute)
	r.env.Watch = 20 * time.Second
	r.on("after 2", r.syncs)
	r.ends(event.Fixed)
	r.wrote(2)
}

func TestPolicyUnreadable(t *testing.T) {
	t.Parallel()
	r := build(t)
	reads := 0
	for n := 1; n <= 2; n++ { // before the plan, before the step
		r = build(t)
		r.on("policy", func(context.Context) error {
			if reads++; reads == n {
				return errBoom
			}
			return nil
		})
		reads = 0
		r.fails("read the policy: boom")
		r.wrote(0)
	}
	r.on("policy", boom)
	r.advance(time.Minute)
	r.fails("read the policy: boom")
	r.on("policy", nil)
	r.advance(time.Minute)
	r.ends(event.Waiting)
	r.wrote(1)
	r.on("policy", boom)
	r.fails("read the policy: boom")
}

func TestNoTime(t *testing.T) {
	t.Parallel()
	r := build(t, func(svc *corev1.Service) {
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.168.0.9"}}
	})
	r.sync("h1", "192.168.0.9")
	r.event.Failure.Last, r.event.Failure.First = time.Time{}, time.Time{}
	if rec := r.ends(event.Waiting); rec.Timings.Queue != 0 {
		t.Errorf("it queued for %s", rec.Timings.Queue)
	}
	r.wrote(1)
	r.sync("h2", "192.168.0.9")
	r.ends(event.Fixed)
	r.patch("", `{"metadata":{"annotations":{"`+key+`":"old"}}}`)
	r.event.ID = "other"
	r.ends(event.Waiting)
	r.wrote(2)
}

func TestFuture(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.event = r.failure(class, time.Now().Add(24*time.Hour))
	r.env.Watch = 20 * time.Second
	r.on("after 1", r.syncs)
	if rec := r.ends(event.Fixed); rec.Timings.Queue > time.Second {
		t.Errorf("it queued for %s", rec.Timings.Queue)
	}
}

// A case that waits for something to pass, or that can't be decided, becomes a question after an hour.
func TestWaitingEnds(t *testing.T) {
	t.Parallel()
	t.Run("a plan that waits", func(t *testing.T) {
		t.Parallel()
		r := build(t)
		r.class.Diagnose = remedy.Always(remedy.Plan{Finding: say.F("It is busy."), Wait: time.Minute})
		if rec := r.ends(event.Waiting); rec.Wait != time.Minute || len(rec.Ask) > 0 {
			t.Errorf("it waits %s and asks %q", rec.Wait, rec.Ask)
		}
		r.advance(18 * time.Minute)
		if rec := r.ends(event.Asked); rec.Wait != 0 || len(rec.Ask) == 0 || len(rec.Rule) == 0 {
			t.Errorf("after 16 minutes it waits %s, asks %q, by the rule %q", rec.Wait, rec.Ask, rec.Rule)
		}
	})
	t.Run("a case that was asked long ago", func(t *testing.T) {
		t.Parallel()
		r := build(t)
		r.class.Diagnose = remedy.Always(remedy.Plan{Finding: say.F("f"), Ask: say.F("a")})
		r.ends(event.Asked)
		r.advance(20 * time.Hour)
		r.event = r.failure(class, r.now())
		r.class.Diagnose = remedy.Always(remedy.Plan{Finding: say.F("It is busy."), Wait: time.Minute})
		r.ends(event.Waiting) // it begins to wait now
	})
	t.Run("unknown", func(t *testing.T) {
		t.Parallel()
		r := build(t)
		r.class.StillFails = func(context.Context, *remedy.Case) (remedy.Verdict, error) { return remedy.Unknown, nil }
		r.ends(event.Waiting)
		r.advance(61 * time.Minute)
		if rec := r.ends(event.Asked); len(rec.Ask) == 0 {
			t.Error("after an hour it asks nothing")
		}
		r.wrote(0)
	})
}
