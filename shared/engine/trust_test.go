package engine_test

import (
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
)

// A failure that a stranger put under a Service's UID, or dated in the future, does not supersede the run in hand.
func TestStrangersFailures(t *testing.T) {
	t.Parallel()
	year2100 := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, change := range map[string]func(*event.Failure){
		"of another namespace":              func(f *event.Failure) { f.Service.Namespace = "strangers" },
		"of another name":                   func(f *event.Failure) { f.Service.Name = "strange" },
		"dated 2100":                        func(f *event.Failure) { f.Last = year2100 },
		"dated 2100, of another namespace":  func(f *event.Failure) { f.Last, f.Service.Namespace = year2100, "strangers" },
		"dated 2100, made before the event": func(f *event.Failure) { f.Last, f.Recorded = year2100, f.First.Add(-time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			forged := r.failure("other", r.event.Failure.Last.Add(2*time.Second))
			change(&forged.Failure)
			r.publish(forged)
			r.ends(event.Waiting)
			r.wrote(1)
		})
		t.Run("beside a newer one, "+name, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			r.publish(r.failure("true", r.event.Failure.Last.Add(2*time.Second)))
			forged := r.failure("other", r.event.Failure.Last.Add(3*time.Second))
			change(&forged.Failure)
			r.publish(forged)
			r.ends(event.Superseded)
		})
	}
}

// A failure dated in the future happened when the exporter met it: it is not newer than the end of its own case.
func TestDatedInTheFuture(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.event.Failure.Last = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	r.event.Failure.Recorded = time.Now().Add(-5 * time.Second)
	rec := r.run()
	if !rec.EventTime.Equal(r.event.Failure.Recorded) {
		t.Errorf("the event's time is %s", rec.EventTime)
	}
	r.event.Failure.Recorded = time.Time{}
	r.event.ID += "-again"
	if rec = r.run(); rec.EventTime.After(time.Now()) {
		t.Errorf("the event's time is %s", rec.EventTime)
	}
}

// A sync from before a failure proves nothing, even if the failure's author dated it with a clock that is behind.
func TestSyncedInTheFuture(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.sync("h1", "192.168.0.9")
	r.event.Failure.Last = time.Now().Add(time.Second)
	r.advance(-10 * time.Minute)
	r.ends(event.Waiting)
	r.wrote(1)
}
