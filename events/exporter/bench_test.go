package exporter

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/stream"
)

func (w *world) arrivals(filter string) <-chan arrival {
	ch := make(chan arrival, 10000)
	s := w.connect()
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Tail(ctx, stream.Failed, filter, 0, func(m stream.Message) error {
			ch <- arrival{m.Subject, time.Now()}
			return nil
		})
	}()
	w.Cleanup(func() { cancel(); <-done })
	return ch
}

type arrival struct {
	subject string
	at      time.Time
}

func quiet(w *world, e *Exporter) *Exporter {
	e.log = slog.New(slog.DiscardHandler)
	return e
}

func BenchmarkLatency(b *testing.B) {
	w := newWorld(b)
	stop := w.run(quiet(w, w.exporter(nil)))
	arrived := w.arrivals(event.FailedSubjects)
	w.event("warm-up", w.uid(99999), full)
	<-arrived

	const n = 500
	w.uids(0, n)
	var asked, created, stored [n]time.Time
	var writers sync.WaitGroup
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for i := range n {
		<-tick.C
		writers.Go(func() {
			asked[i] = time.Now()
			w.event(fmt.Sprint("e", i), w.uid(i), full)
			created[i] = time.Now()
		})
	}
	writers.Wait()
	index := map[string]int{}
	for i := range n {
		index[event.FailedSubject(w.id, "vswitch-ip-exhausted", w.uid(i))] = i
	}
	for range n {
		a := <-arrived
		stored[index[a.subject]] = a.at
	}
	stop()
	report := func(name string, from [n]time.Time) {
		var all []time.Duration
		for i := range n {
			all = append(all, stored[i].Sub(from[i]))
		}
		slices.Sort(all)
		b.ReportMetric(float64(all[n/2].Microseconds())/1000, "ms-p50-since-"+name)
		b.ReportMetric(float64(all[n*99/100].Microseconds())/1000, "ms-p99-since-"+name)
	}
	report("asked", asked)
	report("created", created)
}

// BenchmarkBurst reports how many of 3,000 Events created at once are exported per second, compared with a bare watch and publish.
func BenchmarkBurst(b *testing.B) {
	const n, writers = 3000, 16
	burst := func(w *world, arrived <-chan arrival) float64 {
		w.uids(0, n)
		client := w.join.Client().CoreV1().Events(w.ns)
		var all sync.WaitGroup
		next := make(chan int, n)
		for i := range n {
			next <- i
		}
		close(next)
		began := time.Now()
		for range writers {
			all.Go(func() {
				for i := range next {
					if _, err := client.Create(w.ctx, w.newEvent(fmt.Sprint("e", i), w.uid(i), full), metav1.CreateOptions{}); err != nil {
						b.Error(err)
					}
				}
			})
		}
		var last time.Time
		for range n {
			last = (<-arrived).at
		}
		all.Wait()
		return n / last.Sub(began).Seconds()
	}
	b.Run("exporter", func(b *testing.B) {
		w := newWorld(b)
		w.run(quiet(w, w.exporter(nil)))
		arrived := w.arrivals(event.FailedSubjects)
		w.event("warm-up", w.uid(99999), full)
		<-arrived
		b.ReportMetric(burst(w, arrived), "events/s")
	})
	b.Run("bare", func(b *testing.B) {
		w := newWorld(b)
		k, err := kube.New(w.join.Config)
		if err != nil {
			b.Fatal(err)
		}
		s := w.connect()
		from, err := k.EventsVersion(w.ctx)
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(w.ctx)
		b.Cleanup(cancel)
		go func() {
			_ = k.WatchEvents(ctx, services, from, spell, func(ch kube.Change) error {
				_, _, err := s.PublishNewer(ctx, "lbremedy.failed.c1.bare."+ch.Event.Object.UID, "", nil, []byte(ch.Event.Message),
					func(stream.Message) bool { return true })
				return err
			})
		}()
		arrived := w.arrivals(event.FailedSubjects)
		w.event("warm-up", w.uid(99999), full)
		<-arrived
		b.ReportMetric(burst(w, arrived), "events/s")
	})
}

func BenchmarkMessage(b *testing.B) {
	s := &Exporter{c: Config{Classifier: event.NewClassifier(table), Now: time.Now}, log: slog.New(slog.DiscardHandler)}
	ev := kube.Event{Namespace: "shop", Name: "web.1", UID: "99999999-1111-2222-3333-444444444444", ResourceVersion: "12345", Reason: "SyncLoadBalancerFailed",
		Type: "Warning", Message: full, Component: "service-controller", Count: 1, First: time.Now(), Last: time.Now(),
		Object: kube.Object{Kind: "Service", Namespace: "shop", Name: "web", UID: "11111111-1111-2222-3333-444444444444"}}
	b.ReportAllocs()
	for b.Loop() {
		o, ok := s.classify(ev)
		if !ok {
			b.Fatal("ignored")
		}
		if _, err := o.message("c1"); err != nil {
			b.Fatal(err)
		}
	}
}
