package exporter

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/shell"
)

// TestMalformedFlood proves that unpublishable Events don't fill DEAD: all are counted, some kept, and progress moves on. Other
// namespaces keep their places.
func TestMalformedFlood(t *testing.T) {
	w := newWorld(t)
	flooding := w.join.Namespace(t)
	e := w.budgeted(nil, 500, 500)
	log := &shell.Log{}
	e.log = slog.New(slog.NewTextHandler(log, nil))
	got := w.tail()
	w.run(e)
	const many = 120
	w.flood(flooding, many, func(i int, ev *corev1.Event) {
		switch i % 3 {
		case 0:
			ev.InvolvedObject.UID = "../x"
		case 1:
			ev.InvolvedObject.Name = "no such name"
		case 2:
			ev.InvolvedObject.UID = ""
		}
	})
	w.await("all are counted", func() bool { return e.Stats().Strange.Load()+e.Stats().Dead.Load() >= many })
	w.make(w.newEvent("no-uid", "", full))
	w.event("real", w.uid(1), full)
	got.until(w.uids(1, 2), 1)
	w.await("progress moves on", func() bool { return e.Lag() == 0 && e.Stats().Saves.Load() > 0 })
	if n := log.Count("kubeevent=" + flooding); n != queueSamples+1 {
		t.Errorf("the log names %d of the namespace's Events, want %d", n, queueSamples+1)
	}
	stored := map[string]int{} // by namespace
	err := w.s.Each(w.ctx, stream.Dead, ">", time.Time{}, func(m stream.Message) error {
		var ev corev1.Event
		err := json.Unmarshal(m.Data, &ev)
		stored[ev.Namespace]++
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if stored[flooding] != queueSamples || stored[w.ns] != 1 {
		t.Errorf("DEAD holds %d Events of the namespace and %d of another, want %d and 1", stored[flooding], stored[w.ns], queueSamples)
	}
	if _, err := w.s.Last(w.ctx, stream.Failed, event.FailedSubject(w.id, "vswitch-ip-exhausted", w.uid(1))); err != nil {
		t.Error(err)
	}
}
