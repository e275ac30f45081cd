package bench

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
)

func lasts(b *testing.B, variable string, usual time.Duration) time.Duration {
	b.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second {
		b.Fatalf("%s: %q is not a duration from 1s on", variable, text)
	}
	return d
}

// sustained measures failures that 100 clusters publish into one NATS at 1,000 a second for 20 s (or LBREMEDY_BENCH_SUSTAINED,
// such as 10m): whether each was delivered, and how late. Each cluster has its own connection, publishes like an exporter, and
// has a worker's consumer for each class. Only the newest failure of a Service has to be delivered.
func (r *rig) sustained(b *testing.B) {
	const clusters, perSecond, services, hands = 100, 1000, 50, 4
	length := lasts(b, "LBREMEDY_BENCH_SUSTAINED", 20*time.Second)
	kinds := []string{"vswitch-ip-exhausted", "tag-missing", "quota", "busy"}
	bus := r.startNATS(b)
	admin := bus.connect(b)
	ids := make([]string, clusters)
	for i := range ids {
		ids[i] = fmt.Sprintf("c-many-%03d", i)
	}
	if _, err := admin.Setup(b.Context(), kinds, stream.Settings{Clusters: ids}); err != nil {
		b.Fatal(err)
	}

	var mu sync.Mutex
	newest := map[string]string{}    // by subject: ID of the last stored failure
	delivered := map[string]string{} // last delivered one
	sent := map[string]time.Time{}   // by ID
	var late []time.Duration
	working, stop := context.WithCancel(b.Context())
	var wait sync.WaitGroup
	defer func() { stop(); wait.Wait() }()
	streams := make([]*stream.Stream, clusters)
	for i, id := range ids {
		streams[i] = bus.connect(b)
		for _, class := range kinds {
			wait.Go(func() {
				err := streams[i].Consume(working, id, class, hands, func(_ context.Context, m stream.Message) stream.Reply {
					e, err := event.DecodeNATS(m.Header, m.Data)
					if err != nil {
						b.Error(err)
						return stream.Reply{}
					}
					now := time.Now()
					mu.Lock()
					defer mu.Unlock()
					if at, ok := sent[e.ID()]; ok {
						late = append(late, now.Sub(at))
						delete(sent, e.ID())
					}
					delivered[m.Subject] = e.ID()
					return stream.Reply{}
				})
				if err != nil {
					b.Errorf("consume %s of %s: %v", class, id, err)
				}
			})
		}
	}

	uid := func(cluster, service int) string { return fmt.Sprintf("%08x-0000-4000-8000-%012x", cluster, service) }
	publish := func(cluster, n int) error {
		service := n % services
		class := kinds[service%len(kinds)]
		e, err := event.NewFailed(event.Failure{
			Cluster: ids[cluster], Class: class, Reason: "SyncLoadBalancerFailed", Type: "Warning", Message: saysFull,
			Service: event.Service{Namespace: "shop", Name: fmt.Sprintf("web-%d", service), UID: uid(cluster, service)},
			Event:   event.Reference{Name: "web", UID: uid(cluster, service), ResourceVersion: fmt.Sprint(n + 1)}, Count: n/services + 1, Last: time.Now(),
		})
		if err != nil {
			return err
		}
		header, data, err := event.EncodeNATS(e)
		if err != nil {
			return err
		}
		subject := event.FailedSubject(ids[cluster], class, uid(cluster, service))
		mu.Lock()
		sent[e.ID()] = time.Now()
		mu.Unlock()
		if _, _, err = streams[cluster].PublishNewer(b.Context(), subject, event.MessageID(e), header, data, func(stream.Message) bool { return true }); err != nil {
			return err
		}
		mu.Lock()
		newest[subject] = e.ID() // in order: one publisher for each cluster
		mu.Unlock()
		return nil
	}

	// Each cluster publishes sequentially at its share of the rate, and catches up after delays.
	began := time.Now()
	errs := make(chan error, clusters)
	total := int(length.Seconds()) * perSecond / clusters
	for cluster := range ids {
		go func() {
			for n := range total {
				due := began.Add(time.Duration(n)*clusters*time.Second/perSecond + time.Duration(cluster)*time.Second/perSecond)
				pause := time.NewTimer(time.Until(due))
				<-pause.C
				if err := publish(cluster, n); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range ids {
		if err := <-errs; err != nil {
			b.Fatal(err)
		}
	}
	took := time.Since(began)
	lost := func() (missing []string) {
		mu.Lock()
		defer mu.Unlock()
		for subject, id := range newest {
			if delivered[subject] != id {
				missing = append(missing, subject)
			}
		}
		return missing
	}
	await(b, time.Minute, func() error {
		if missing := lost(); len(missing) > 0 {
			return fmt.Errorf("%d Services have a failure that was not delivered, such as %s", len(missing), strings.Join(missing[:1], ""))
		}
		return nil
	})
	mu.Lock()
	defer mu.Unlock()
	published := float64(total * clusters)
	r.note(b, "failures", "", published)
	r.atLeast(b, "rate", "failures/s", published/took.Seconds(), 0.95*perSecond)
	r.atMost(b, "lost", "", 0, 0)
	r.note(b, "replaced by a newer one before delivery", "", published-float64(len(late)))
	r.note(b, "from publish to delivery, p50", "ms", ms(quantile(late, 0.5)))
	r.atMost(b, "from publish to delivery, p99", "ms", ms(quantile(late, 0.99)), 1000)
	r.note(b, "the longest", "ms", ms(quantile(late, 1)))
	r.note(b, "NATS, most memory", "MB", bus.process.memory(b, "VmHWM"))
	r.note(b, "NATS, CPU", "s", bus.process.cpu(b).Seconds())
}
