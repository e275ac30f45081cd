package exporter

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/shell"
)

// flood makes n Events about Services that don't exist, unless change sets others.
func (w *world) flood(ns string, n int, change func(i int, e *corev1.Event)) {
	w.Helper()
	client := w.join.Client().CoreV1().Events(ns)
	w.Cleanup(func() { // other tests' exporters list them too
		if err := client.DeleteCollection(context.WithoutCancel(w.ctx), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			w.Error(err)
		}
	})
	var all sync.WaitGroup
	for c := range 8 {
		all.Go(func() {
			for i := c; i < n; i += 8 {
				ev := w.newEvent(fmt.Sprint("flood-", i), fmt.Sprintf("00000000-0000-4000-8000-%012x", i), full)
				ev.Namespace, ev.InvolvedObject.Namespace = ns, ns
				if change != nil {
					change(i, ev)
				}
				if _, err := client.Create(w.ctx, ev, metav1.CreateOptions{}); err != nil && w.ctx.Err() == nil {
					w.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// TestForeseen proves that a namespace can't flood the log with predicted failures, and that only the controller's count.
func TestForeseen(t *testing.T) {
	log := &shell.Log{}
	s := &Exporter{c: Config{Classifier: event.NewClassifier(table), Now: time.Now}, log: slog.New(slog.NewTextHandler(log, nil)), queues: newQueues(0, 0)}
	for _, from := range []struct {
		namespace, component string
		n                    int
	}{{"a", "service-controller", 30}, {"b", "nlb-controller", 1}, {"c", "kubelet", 5}, {"c", "", 1}} {
		for range from.n {
			ev := kube.Event{Namespace: from.namespace, Component: from.component, Object: kube.Object{Kind: "Service"}, Reason: "SyncLoadBalancerFailed",
				Type: "Warning", Message: "DryRun: " + full}
			if _, ok := s.classify(ev); ok {
				t.Errorf("what %q foresees is published", from.component)
			}
		}
	}
	if n := log.Count("foresees a failure"); n != 11 || s.stats.Reported.Load() != 31 || s.stats.Ignored.Load() != 6 {
		t.Errorf("%d are logged, %d reported, %d ignored", n, s.stats.Reported.Load(), s.stats.Ignored.Load())
	}
}

// TestHugeMessages proves that a megabyte that is slow to classify doesn't delay the Events behind it, of any namespace.
func TestHugeMessages(t *testing.T) {
	s := &Exporter{c: Config{Classifier: event.NewClassifier(table), Now: time.Now}, log: slog.New(slog.DiscardHandler), queues: newQueues(0, 0)}
	ev := func(namespace, message string) kube.Event {
		return kube.Event{Namespace: namespace, Component: "service-controller", Object: kube.Object{Kind: "Service"}, Reason: "SyncLoadBalancerFailed",
			Type: "Warning", Message: message}
	}
	judged := make(chan bool, 1)
	go func() {
		defer close(judged)
		for _, part := range []string{"authorization:a,", "authorization: a ", "token='", "://a@", "x",
			"token:", "secret:", "apikey:", "credential:", "token: ["} {
			for _, first := range []string{full + " ", "DryRun: " + full + " "} {
				o, ok := s.classify(ev("a", first+strings.Repeat(part, 1<<20/len(part))))
				if ok && len(o.Message) > event.MaxMessage {
					t.Errorf("%q…: %d bytes are kept", part, len(o.Message))
				}
			}
		}
		o, ok := s.classify(ev("b", full))
		judged <- ok && o.Message == full
	}()
	select {
	case ok := <-judged:
		if !ok {
			t.Error("the failure of another namespace is not published")
		}
	case <-time.After(10 * time.Second): // quadratic time would be minutes
		t.Fatal("the failure of another namespace still waits")
	}
}

// TestFlood proves that a flooding namespace delays only itself. The flood is counted, logged once, bounded in memory, and loses nothing.
func TestFlood(t *testing.T) {
	w := newWorld(t)
	flooding := w.join.Namespace(t)
	const perSecond, burst, many = 20, 20, 800
	e := w.budgeted(nil, perSecond, burst)
	log := &shell.Log{}
	e.log = slog.New(slog.NewTextHandler(log, nil))
	got := w.tail()
	w.run(e)

	took := func(n int) time.Duration {
		t.Helper()
		id := w.uid(n)
		began := time.Now()
		w.event(fmt.Sprint("quiet-", n), id, full)
		got.until([]string{id}, 1)
		return time.Since(began)
	}
	var without, with []time.Duration
	for n := range 11 {
		without = append(without, took(n))
	}
	w.flood(flooding, many, nil)
	w.await("the flood has arrived", func() bool { return e.Stats().Slowed.Load() > many/4 })
	for n := range 11 {
		with = append(with, took(100+n))
	}
	slices.Sort(without)
	slices.Sort(with)
	// Waiting for the flood would take more than half a minute.
	if with[5] > 2*without[5]+2*time.Second {
		t.Errorf("a failure of another namespace took %s beside the flood, and %s without", with[5], without[5])
	}
	if n := log.Count("more Events of failed syncs than its budget"); n != 1 || log.Count("namespace="+flooding) == 0 {
		t.Errorf("the flood was told %d times", n)
	}
}

// TestFloodIsCoalesced proves that the newest waiting Event of each Service and class is published, spilled or not.
func TestFloodIsCoalesced(t *testing.T) {
	w := newWorld(t)
	const perSecond, burst, many, services = 15, 10, 800, 20 // a slow machine makes 30 Events a second
	e := w.budgeted(nil, perSecond, burst)
	w.run(e)
	names := w.uids(0, services)
	w.flood(w.ns, many, func(i int, ev *corev1.Event) {
		n := i % services
		ev.InvolvedObject.Name, ev.InvolvedObject.UID = serviceName(n), types.UID(names[n])
		if i >= many/2 { // and those of Services that don't exist
			ev.InvolvedObject.Name = fmt.Sprint("none-", i)
		}
		ev.Count = int32(i + 1)
		ev.Message = full + strings.Repeat(" long", 800)
	})
	last := map[string]*corev1.Event{}
	for n := range services {
		ev := w.newEvent(fmt.Sprint("last-", n), names[n], full)
		ev.Count = 100_000
		last[names[n]] = w.make(ev)
	}
	for _, id := range names {
		w.await("the newest is stored", func() bool {
			m, err := w.s.Last(w.ctx, stream.Failed, event.FailedSubject(w.id, "vswitch-ip-exhausted", id))
			return err == nil && versionOf(m) == last[id].ResourceVersion
		})
	}
	w.await("nothing waits", func() bool { return e.Lag() == 0 })
	if n := e.Stats().Overtaken.Load(); n == 0 {
		t.Error("nothing was coalesced")
	}
	if n := e.Stats().Released.Load(); n == 0 {
		t.Error("there was room for all: the test shows too little")
	}
	if n := e.Stats().Strange.Load(); n < many/2 {
		t.Errorf("%d of %d Events about no Service were dealt with: some are lost", n, many/2)
	}
	w.await("progress has passed all", func() bool {
		p, _ := w.s.Get(w.ctx, event.ProgressKey(w.id))
		return !kube.Later(last[names[services-1]].ResourceVersion, string(p))
	})
}

func TestListedFlood(t *testing.T) {
	w := newWorld(t)
	const many = 300
	w.flood(w.ns, many, func(i int, ev *corev1.Event) {
		ev.InvolvedObject.Name = fmt.Sprint("none-", i)
		ev.Message = full + strings.Repeat(" long", 800)
	})
	w.event("real", w.uid(1), full)
	got := w.tail()
	e := w.budgeted(nil, 1000, 10)
	w.run(e)
	got.until(w.uids(1, 2), 1)
	w.await("all are dealt with", func() bool { return e.Lag() == 0 && e.Stats().Strange.Load() >= many })
	if e.Stats().Slowed.Load() != 0 {
		t.Error("a list, which tells of long ago at once, is taken for a flood")
	}
}

// TestLanes proves that the queues are bounded, per namespace and in all.
func TestLanes(t *testing.T) {
	ls := newQueues(1, 1)
	l := &entries{}
	for i := range 40_000 {
		o := occurrence{class: "busy", Event: kube.Event{Namespace: fmt.Sprint("ns-", i%100), Name: fmt.Sprint("e", i), ResourceVersion: fmt.Sprint(i + 1),
			Message: strings.Repeat("x", 4000), Object: kube.Object{Namespace: fmt.Sprint("ns-", i%100), Name: "web",
				UID: fmt.Sprintf("00000000-0000-4000-8000-%012x", i)}}}
		ls.add(&waiting{occurrence: o, entry: l.open(o.ResourceVersion)}, false)
	}
	const most = 6000 // of one occurrence
	if ls.bytes > allBytes+100*most {
		t.Errorf("%d bytes wait", ls.bytes)
	}
	for _, queue := range ls.ring {
		if queue.bytes > queueBytes || len(queue.waiting) == 0 || queue.spill == nil {
			t.Errorf("%d bytes and %d occurrences wait in %s", queue.bytes, len(queue.waiting), queue.namespace)
		}
	}
	met := map[string]int{}
	for range 100 {
		queue, w, _ := ls.pick(time.Now())
		if w == nil {
			break
		}
		met[queue.namespace]++
	}
	if len(met) < inFlight {
		t.Errorf("of 100 namespaces %d were asked", len(met))
	}
}

// TestBudget proves that a namespace publishes no more than its budget. It runs without an API server, where other tests make Events too.
func TestBudget(t *testing.T) {
	const perSecond, burst, flood, others, seconds = 20, 30, 400, 50, 10
	ls := newQueues(perSecond, burst)
	add := func(ns string, i int) {
		ls.add(&waiting{occurrence: occurrence{class: "busy", Event: kube.Event{Namespace: ns, Name: fmt.Sprint("e", i), ResourceVersion: fmt.Sprint(i + 1),
			Object: kube.Object{Namespace: ns, Name: "web", UID: fmt.Sprintf("00000000-0000-4000-8000-%012x", i)}}}}, true)
	}
	for i := range flood {
		add("flood", i)
	}
	left := map[string]int{}
	began := time.Now()
	for tick := range seconds * 100 {
		if tick%20 == 0 {
			add("quiet", flood+tick)
		}
		for {
			queue, w, _ := ls.pick(began.Add(time.Duration(tick) * 10 * time.Millisecond))
			if queue == nil {
				break
			}
			if w == nil {
				t.Fatal("there was room for all")
			}
			left[queue.namespace]++
			ls.landed(queue, w)
		}
	}
	if n, most := left["flood"], burst+perSecond*seconds; n > most || n < most-1 {
		t.Errorf("%d of the flood left within %d s, and its budget is %d", n, seconds, most)
	}
	if left["quiet"] != others {
		t.Errorf("%d of the %d of another namespace left", left["quiet"], others)
	}
}

// TestRestart proves that a spill is read from its beginning after the cluster went back to an earlier state.
func TestRestart(t *testing.T) {
	ls, l := newQueues(1, 1), &entries{}
	add := func(version string) {
		o := occurrence{class: "busy", Event: kube.Event{Namespace: "shop", ResourceVersion: version, Message: strings.Repeat("x", queueBytes),
			Object: kube.Object{Namespace: "shop", Name: "web", UID: "00000000-0000-4000-8000-000000000" + version}}}
		ls.add(&waiting{occurrence: o, entry: l.open(version)}, false)
	}
	add("998")
	add("999")
	shop := ls.all["shop"]
	if shop.spill == nil || shop.spill.after != "998" || shop.spill.last != "999" {
		t.Fatalf("the spill is %+v", shop.spill)
	}
	entry := shop.spill.entry
	ls.restart()
	if *shop.spill != (spill{entry: entry}) || shop.top != "" {
		t.Errorf("after the restart, the spill is %+v, and the latest version is %q", shop.spill, shop.top)
	}
}

// TestIncompleteRefill proves that a spill ends with a list that is cut off: what was read of it and has room waits for its publishing.
func TestIncompleteRefill(t *testing.T) {
	const many, last = 300, 1299
	lists := 0
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		lists++
		rw.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(rw, `{"metadata":{"resourceVersion":"2000"},"items":[`)
		for i := range many {
			item, _ := json.Marshal(corev1.Event{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("e", i), ResourceVersion: fmt.Sprint(last + 1 - many + i)},
				InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: "shop", Name: serviceName(i),
					UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", i))},
				Reason: "SyncLoadBalancerFailed", Source: corev1.EventSource{Component: "service-controller"}, Message: full + strings.Repeat(" long", 800),
			})
			_, _ = fmt.Fprintf(rw, "%s,", item)
		}
		_, _ = fmt.Fprint(rw, strings.Repeat("{},", 100_000), "{}]}")
	}))
	t.Cleanup(server.Close)
	k, err := kube.New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	e := &Exporter{c: Config{Kube: k, Classifier: event.NewClassifier(table), Now: time.Now}, log: slog.New(slog.DiscardHandler), queues: newQueues(1000, 1000)}
	for _, version := range []int{999, last} {
		e.enter(occurrence{class: "busy", Event: kube.Event{Namespace: "shop", ResourceVersion: fmt.Sprint(version), Message: strings.Repeat("x", queueBytes),
			Object: kube.Object{Namespace: "shop", Name: "web", UID: fmt.Sprintf("00000000-0000-4000-8000-%012d", version)}}}, false)
	}
	published := 0
	for l, w, _ := e.queues.pick(time.Now()); l != nil; l, w, _ = e.queues.pick(time.Now()) {
		if w == nil {
			e.refill(t.Context(), l)
			continue
		}
		published++
		e.entries.close(w.entry)
		e.queues.landed(l, w)
	}
	if lists != 1 || e.stats.Incomplete.Load() != 1 {
		t.Errorf("%d lists, of which %d were incomplete", lists, e.stats.Incomplete.Load())
	}
	if shop := e.queues.all["shop"]; shop.spill != nil || published < 50 || published > many {
		t.Errorf("%d left the queue, and the spill is %+v", published, shop.spill)
	}
	if got := e.entries.progress(); got != fmt.Sprint(last) {
		t.Errorf("progress is %s", got)
	}
}

func TestSweep(t *testing.T) {
	ls := newQueues(1e6, 1)
	for i := range 3 * idleQueues {
		o := occurrence{class: "busy", Event: kube.Event{Namespace: fmt.Sprint("ns-", i), ResourceVersion: "1"}}
		ls.add(&waiting{occurrence: o}, false)
		queue, w := ls.next(t.Context())
		ls.landed(queue, w)
	}
	if n := len(ls.all); n > idleQueues+1 || n != len(ls.ring) {
		t.Errorf("%d queues are kept", n)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if queue, w := ls.next(ended); queue != nil || w != nil {
		t.Error("something leaves after the end")
	}
}
