package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// crashes makes three runs die while they diagnose; in one process, if it is the same.
func (r *rig) crashes(same bool) {
	r.Helper()
	r.on("diagnose", kill)
	for range 3 {
		r.dies()
		if !same {
			r.restart()
		}
		r.advance(2 * time.Minute)
	}
}

// asked returns how often CASES has a question about the class's failure.
func (r *rig) asked(class string) (n int) {
	r.Helper()
	for _, rec := range r.journal() {
		if rec.Class == class && rec.Phase == event.Settled && rec.Result == event.Failed && len(rec.Ask) > 0 && len(rec.Finding) > 0 {
			n++
		}
	}
	return n
}

// TestCrashesOfAnotherClass: a run that takes over the third crash of another class asks about it, and then answers its own failure.
func TestCrashesOfAnotherClass(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{false, true} {
		r := build(t)
		other := *r.class
		other.Class, other.Steps, other.StillFails = "other", nil, nil
		other.Diagnose = remedy.Always(remedy.Plan{Finding: say.F("f"), Ask: say.F("a")})
		answers := func(at time.Time) event.Record {
			t.Helper()
			ev := r.failure("other", at)
			rec, err := engine.Run(t.Context(), r.env, &other, ev)
			r.must(err)
			if rec.Class != "other" || rec.Result != event.Asked || rec.Event != ev.ID {
				t.Fatalf("the other class ended as %q for the event %s of %s", rec.Result, rec.Event, rec.Class)
			}
			return rec
		}
		if before {
			answers(r.now().Add(-time.Minute))
		}
		r.crashes(false)
		answers(r.now())
		if n := r.asked(class); n != 1 {
			t.Errorf("CASES has %d questions about the crashes", n)
		}
	}
}

// TestCrashesOfOneProcess: runs that hang in one process become a question, too.
func TestCrashesOfOneProcess(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.crashes(true)
	r.ends(event.Failed)
	if n := r.asked(class); n != 1 {
		t.Errorf("CASES has %d questions about the crashes", n)
	}
}

// TestCrashesBesideTheDoctor: a finding of the doctor about the object does not use up the question about a crash.
func TestCrashesBesideTheDoctor(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.crashes(false)
	var rec event.Record
	rec.Case, rec.Cluster, rec.Class = event.CaseID(string(r.svc.UID), r.now()), r.env.Cluster, "doctor-x"
	rec.Service, rec.Event, rec.Phase, rec.Result = r.event.Failure.Service, "doctor-1", event.Settled, event.Asked
	rec.Finding, rec.Ask, rec.At = say.F("f"), say.F("a"), r.now()
	_, err := r.env.Documents().Note(t.Context(), rec.Service.UID, rec.Class, func(event.Record) (event.Record, error) { return rec, nil })
	r.must(err)
	r.ends(event.Failed)
	if n := r.asked(class); n != 1 {
		t.Errorf("CASES has %d questions about the crashes", n)
	}
}

// TestCrashesWait: after the question the class is not asked again at once, whoever lets the Service fail anew.
func TestCrashesWait(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.crashes(false)
	r.ends(event.Failed)
	before := r.count("diagnose")
	r.advance(10 * time.Second)
	r.event = r.failure(class, r.now())
	r.ends(event.Failed)
	if r.count("diagnose") != before {
		t.Error("the next failure is diagnosed at once")
	}
	r.advance(5 * time.Minute)
	r.event = r.failure(class, r.now())
	r.dies()
}

// TestTimesOut: a run that exceeds its time twice in the same way ends with an error each time, and is not a crash.
func TestTimesOut(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.on("diagnose", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	r.env.Bound = 300 * time.Millisecond
	for n := range 3 {
		rec, err, _ := r.try(r.event)
		if d := r.document(); err == nil || d.State.Holder != "" || d.State.Case(class).Crashes != 0 {
			t.Fatalf("run %d: %v; the object is held by %q, and %d crashes are counted", n+1, err, d.State.Holder, d.State.Case(class).Crashes)
		}
		r.advance(max(rec.Wait, time.Second))
	}
}

// A late hand answers when the time of its call is over.
type late struct{ hand.Hand }

func (l late) Apply(ctx context.Context, o hand.Order) (hand.ApplyAnswer, error) {
	a, err := l.Hand.Apply(ctx, o)
	<-ctx.Done()
	return a, err
}

// TestTimeIsOver: a run whose time is over after a step stores that, and makes no other step.
func TestTimeIsOver(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.env.Hand = func(of *remedy.Remedy) hand.Hand { return late{r.clients.Hand(of)} }
	r.steps = append(r.steps, act{Name: "2", Annotate: set("example.com/second", "yes", "")})
	r.env.Bound = time.Second
	rec, err, _ := r.try(r.event)
	applied, _ := r.applied()
	if d := r.document(); err == nil || d.State.Holder != "" || rec.Result != event.Waiting || len(applied) != 1 || len(applied[0].Made()) != 1 {
		t.Errorf("%v; it ended as %q, the object is held by %q, and %+v can be undone", err, rec.Result, d.State.Holder, applied)
	}
	r.wrote(1)
}
