package exporter

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// TestForgedEvents proves that a forged Event is published nowhere: it neither replaces the failure of the Service with that UID nor fills DEAD.
func TestForgedEvents(t *testing.T) {
	w := newWorld(t)
	got := w.tail()
	e := w.exporter(nil)
	w.run(e)
	victim := w.uid(1)
	w.event("real", victim, full)
	got.until([]string{victim}, 1)
	_, before := w.last("vswitch-ip-exhausted", victim)

	elsewhere := w.join.Namespace(t)
	forge := func(name string, change func(*corev1.Event)) {
		t.Helper()
		ev := w.newEvent(name, victim, full)
		ev.LastTimestamp = metav1.NewTime(time.Now().AddDate(70, 0, 0))
		change(ev)
		w.make(ev)
	}
	forge("from-another-namespace", func(e *corev1.Event) {
		e.Namespace, e.InvolvedObject.Namespace = elsewhere, elsewhere
	})
	forge("another-name", func(e *corev1.Event) { e.InvolvedObject.Name = "other" })
	forge("another-uid", func(e *corev1.Event) { e.InvolvedObject.UID = "00000000-0000-4000-8000-000000000000" })
	w.uid(2)
	forge("anothers-uid", func(e *corev1.Event) { e.InvolvedObject.Name = serviceName(2) })
	w.await("all forged ones are counted", func() bool { return e.Stats().Strange.Load() >= 4 })
	w.event("after", w.uid(2), full)
	got.until(w.uids(2, 3), 1)

	if _, after := w.last("vswitch-ip-exhausted", victim); after.Sequence != before.Sequence {
		t.Error("a forged Event took the place of the Service's failure")
	}
	if _, err := w.s.Last(w.ctx, stream.Failed, event.FailedSubject(w.id, "vswitch-ip-exhausted", "00000000-0000-4000-8000-000000000000")); !errors.Is(err,
		stream.ErrNotFound) {
		t.Errorf("a failure of a Service that never was: %v", err)
	}
	if n := e.Stats().Dead.Load(); n != 0 {
		t.Errorf("%d Events are in DEAD", n)
	}
}

func TestForgedInAList(t *testing.T) {
	w := newWorld(t)
	victim := w.uid(1)
	elsewhere := w.join.Namespace(t)
	w.event("real", victim, full)
	for i, change := range []func(*corev1.Event){
		func(e *corev1.Event) { e.Namespace, e.InvolvedObject.Namespace = elsewhere, elsewhere },
		func(e *corev1.Event) { e.InvolvedObject.Name = "other" },
	} {
		ev := w.newEvent(fmt.Sprint("forged-", i), victim, full)
		change(ev)
		w.make(ev)
	}
	got := w.tail()
	w.run(w.exporter(nil))
	if f := got.next(1)[0]; f.Event.Name != "real" || f.Service.Name != serviceName(1) {
		t.Errorf("the failure is %+v", f)
	}
}

// TestUnreadService proves that an Event whose Service can't be read waits, holds progress, and is published once it can be read.
func TestUnreadService(t *testing.T) {
	for name, refuse := range map[string]func(http.ResponseWriter) bool{
		"away":      func(rw http.ResponseWriter) bool { rw.WriteHeader(http.StatusServiceUnavailable); return true },
		"forbidden": func(rw http.ResponseWriter) bool { rw.WriteHeader(http.StatusForbidden); return true },
		"broken":    func(rw http.ResponseWriter) bool { _, _ = rw.Write([]byte("{")); return true },
		"cut":       func(http.ResponseWriter) bool { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			config, g := w.through()
			e := w.exporter(config)
			got := w.tail()
			w.run(e)
			w.event("known", w.uid(1), full)
			got.until(w.uids(1, 2), 1)
			w.await("progress is saved", func() bool { return e.Stats().Saves.Load() > 0 })

			g.mu.Lock()
			g.services = refuse
			g.mu.Unlock()
			waits := w.event("waits", w.uid(2), full)
			w.await("the Service was asked for again", func() bool { return e.Stats().Unread.Load() >= 4 })
			w.event("passes", w.uid(1), untaged) // known Services aren't read
			w.await("the known one passes", func() bool {
				_, err := w.s.Last(w.ctx, stream.Failed, event.FailedSubject(w.id, "tag-missing", w.uid(1)))
				return err == nil
			})
			if _, err := w.s.Last(w.ctx, stream.Failed, event.FailedSubject(w.id, "vswitch-ip-exhausted", w.uid(2))); !errors.Is(err, stream.ErrNotFound) {
				t.Errorf("it was published unproven: %v", err)
			}
			// It doesn't count as waiting for NATS, however long it takes.
			if e.silence() != 0 {
				t.Error("NATS is taken for silent")
			}
			if e.Lag() == 0 || !e.Ready() {
				t.Error("nothing waits, or the exporter takes it for NATS being away")
			}
			if p, err := w.s.Get(w.ctx, event.ProgressKey(w.id)); err != nil || !kube.Later(waits.ResourceVersion, string(p)) {
				t.Errorf("progress %s has passed the Event that waits, of %s: %v", p, waits.ResourceVersion, err)
			}
			w.again(waits)
			g.mu.Lock()
			g.services = nil
			g.mu.Unlock()
			got.until(w.uids(2, 3), 2)
			w.await("nothing waits", func() bool { return e.Lag() == 0 })
		})
	}
}

// TestDeletedService proves that a deleted Service's failure is not published, and that a new Service of its name is another.
func TestDeletedService(t *testing.T) {
	w := newWorld(t)
	old := w.uid(1)
	ev := w.newEvent("old", old, full)
	if err := w.join.Client().CoreV1().Services(w.ns).Delete(w.ctx, serviceName(1), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e := w.exporter(nil)
	got := w.tail()
	w.run(e)
	w.make(ev)
	w.await("the old one is counted", func() bool { return e.Stats().Strange.Load() >= 1 })
	anew := w.service(serviceName(1))
	again := w.newEvent("new", anew, full)
	again.InvolvedObject.Name = serviceName(1)
	w.make(again)
	if f := got.next(1)[0]; f.Service.UID != anew {
		t.Errorf("the failure is %+v", f)
	}
}

// TestCountedLoadBalancer proves that a LoadBalancer Service that was counted is not read when it fails, and that a newer one is read.
func TestCountedLoadBalancer(t *testing.T) {
	w := newWorld(t)
	config, g := w.through()
	e := w.exporter(config)
	got := w.tail()
	before := w.loadBalancer("before")
	w.run(e)
	w.await("those of before are known", e.knows(before))
	for name, reads := range map[string]int{"before": 0, "web": 1} {
		uid := before
		if name == "web" {
			uid = w.loadBalancer(name)
		}
		ev := w.newEvent(name, uid, full)
		ev.InvolvedObject.Name = name
		w.make(ev)
		if f := got.next(1)[0]; f.Service.UID != uid {
			t.Errorf("the failure is %+v", f)
		}
		g.mu.Lock()
		if n := g.reads["/api/v1/namespaces/"+w.ns+"/services/"+name]; n != reads {
			t.Errorf("the Service %s was read %d times, want %d", name, n, reads)
		}
		g.mu.Unlock()
	}
}

func (w *world) loadBalancer(name string) string {
	w.Helper()
	svc, err := w.join.Client().CoreV1().Services(w.ns).Create(w.ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, AllocateLoadBalancerNodePorts: new(false), Ports: []corev1.ServicePort{{Port: 80}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return string(svc.UID)
}

func (e *Exporter) knows(uid string) func() bool {
	return func() bool { _, ok := e.registry.get(uid); return ok }
}

// TestCountWithoutNATS proves that without NATS the Services are listed once, and their number is stored later.
func TestCountWithoutNATS(t *testing.T) {
	w := newWorld(t)
	config, g := w.through()
	e := w.exporter(config)
	before := w.loadBalancer("before")
	w.nats.Close()
	ctx, cancel := context.WithCancel(w.ctx)
	var counting sync.WaitGroup
	counting.Go(func() { e.count(ctx) })
	defer counting.Wait()
	defer cancel()
	w.await("those of before are known", e.knows(before))
	w.startNATS()
	w.await("the number is stored", func() bool { _, err := w.s.Get(w.ctx, event.CountKey(w.id)); return err == nil })
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := g.reads["/api/v1/services"]; n != 1 {
		t.Errorf("the Services were listed %d times", n)
	}
}

func TestRegistry(t *testing.T) {
	reads := 0
	r := registry{read: func(_ context.Context, _, name, _ string) (string, error) { reads++; return "uid-" + name, nil }}
	of := func(n int) kube.Object {
		return kube.Object{Namespace: "shop", Name: fmt.Sprint("s", n), UID: fmt.Sprint("uid-s", n)}
	}
	for range 3 {
		if err := r.proves(t.Context(), of(0)); err != nil {
			t.Fatal(err)
		}
	}
	if reads != 1 {
		t.Errorf("%d reads of one Service", reads)
	}
	for n := range 2 * registered {
		if err := r.proves(t.Context(), of(n)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(r.known); n != registered {
		t.Errorf("%d Services are remembered", n)
	}
	old := of(2*registered - 1)
	r.known[old.UID] = registration{old.Namespace, old.Name, time.Now().Add(-2 * registerFor)}
	before := reads
	if err := r.proves(t.Context(), old); err != nil || reads != before+1 {
		t.Errorf("an old one was read %d times, error %v", reads-before, err)
	}
	before = reads
	for range 2 {
		if err := r.proves(t.Context(), kube.Object{Namespace: "shop", Name: "a", UID: "b"}); !errors.As(err, new(*noObject)) {
			t.Errorf("got %v", err)
		}
	}
	if reads != before+2 {
		t.Error("it remembers that a Service is missing")
	}
}

func TestNotice(t *testing.T) {
	var n notice
	for i := range 10 * notices {
		if key := fmt.Sprint(i); !n.first(key) || n.first(key) {
			t.Fatalf("key %d", i)
		}
	}
	if len(n.logged) > notices {
		t.Errorf("%d keys are kept", len(n.logged))
	}
}

// TestDates proves that an Event is dated neither after now nor long before the API server accepted it.
func TestDates(t *testing.T) {
	w := newWorld(t)
	got := w.tail()
	e := w.exporter(nil)
	w.run(e)
	began := time.Now().Truncate(time.Second)
	at := func(y int) metav1.Time { return metav1.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }
	for i, date := range []metav1.Time{{}, at(1970), at(2100), at(9999)} {
		ev := w.newEvent(fmt.Sprint("e", i), w.uid(i), full)
		ev.FirstTimestamp, ev.LastTimestamp = date, date
		w.make(ev)
		f := got.next(1)[0]
		if f.First.Before(began) || f.Last.Before(began) || f.First.After(time.Now()) || f.Last.After(time.Now()) {
			t.Errorf("dated %s: first %s, last %s", date, f.First, f.Last)
		}
		_, m := w.last("vswitch-ip-exhausted", w.uid(i))
		ce, err := event.DecodeNATS(m.Header, m.Data)
		if err != nil || ce.Time().After(time.Now()) || ce.Time().Before(began) {
			t.Errorf("dated %s: the CloudEvent's time is %s, error %v", date, ce.Time(), err)
		}
	}
	late := w.newEvent("late", w.uid(9), full)
	late.LastTimestamp = metav1.NewTime(began.Add(-time.Minute))
	w.make(late)
	if f := got.next(1)[0]; !f.Last.Equal(late.LastTimestamp.Time) {
		t.Errorf("a time that may be right was changed to %s", f.Last)
	}
}

// TestWriters proves that Events of the controller's components count, and those without a component whose text is the controller's.
func TestWriters(t *testing.T) {
	w := newWorld(t)
	got := w.tail()
	e := w.exporter(nil)
	w.run(e)
	ignored := e.Stats().Ignored.Load()
	for i, component := range []string{"kubelet", "my-operator", "service-controller ", "Service-Controller"} {
		ev := w.newEvent(fmt.Sprint("stranger-", i), w.uid(1), full)
		ev.Source.Component, ev.ReportingController = component, component
		w.make(ev)
	}
	w.await("they are ignored", func() bool { return e.Stats().Ignored.Load() >= ignored+4 })
	none := w.newEvent("none", w.uid(2), full)
	none.Source.Component = ""
	w.make(none)
	if f := got.next(1)[0]; f.Service.UID != w.uid(2) {
		t.Errorf("the failure is %+v", f)
	}
	reporting := w.newEvent("reporting", w.uid(3), full)
	reporting.Source.Component, reporting.ReportingController = "", "nlb-controller"
	reporting.InvolvedObject.UID = types.UID(w.uid(3))
	w.make(reporting)
	if f := got.next(1)[0]; f.Component != "nlb-controller" {
		t.Errorf("the failure is %+v", f)
	}
}
