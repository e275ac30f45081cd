package bench

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/kubernetes"
	"github.com/lbremedy/lbremedy/test/testbed"
)

const clusterID = "c-bench"

const testbedID = testbed.ClusterID

const saysFull = "Error syncing load balancer []: Message: The specified VSwitch has no available ip."

func failure(namespace, service, uid string) *corev1.Event {
	now := metav1.Now().Rfc3339Copy()
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: service + "." + uid, Namespace: namespace},
		InvolvedObject: corev1.ObjectReference{Kind: "Service", APIVersion: "v1", Namespace: namespace, Name: service, UID: types.UID(uid)},
		Reason:         "SyncLoadBalancerFailed", Type: corev1.EventTypeWarning, Message: saysFull,
		Source:         corev1.EventSource{Component: "service-controller"},
		FirstTimestamp: now, LastTimestamp: now, Count: 1, ReportingController: "service-controller",
	}
}

type disk struct {
	*rig
	client    *kubernetes.Client
	namespace string
	arrived   *sightings        // messages in FAILED, by the Service's UID
	round     int               // in the names of Events: a Service can fail again
	names     map[string]string // of the Services, by UID
}

func (r *rig) disk(b *testing.B) *disk {
	b.Helper()
	if r.running != nil {
		r.running.end()
	}
	d := &disk{rig: r, client: r.client(b), namespace: r.namespace(b, "disk"), arrived: newSightings(), names: map[string]string{}}
	s := r.nats(b).connect(b)
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- s.Tail(ctx, stream.Failed, event.FailedSubjects, 0, func(m stream.Message) error {
			d.arrived.see(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:])
			return nil
		})
	}()
	b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Errorf("read FAILED: %v", err)
		}
	})
	return d
}

// services returns UIDs of n new Services. They get no load balancers, and the exporter reads each at its first failure.
func (d *disk) services(b *testing.B, n int) []string {
	b.Helper()
	return d.make(b, n, corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone})
}

func (d *disk) loadBalancers(b *testing.B, n int) []string {
	b.Helper()
	return d.make(b, n, corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, AllocateLoadBalancerNodePorts: new(false), Ports: []corev1.ServicePort{{Port: 80}},
	})
}

func (d *disk) make(b *testing.B, n int, spec corev1.ServiceSpec) []string {
	b.Helper()
	ids, run := make([]string, n), len(d.names)
	err := alike(16, n, func(i int) error {
		svc, err := d.client.CoreV1().Services(d.namespace).Create(b.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("web-", run+i)}, Spec: spec,
		}, metav1.CreateOptions{})
		if err == nil {
			ids[i] = string(svc.UID)
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	for i, uid := range ids {
		d.names[uid] = fmt.Sprint("web-", run+i)
	}
	return ids
}

func (d *disk) create(ctx context.Context, uid string) error {
	e := failure(d.namespace, d.names[uid], uid)
	e.Name += fmt.Sprint(".", d.round)
	_, err := d.client.CoreV1().Events(d.namespace).Create(ctx, e, metav1.CreateOptions{})
	return err
}

func (d *disk) run(b *testing.B, exporter bool) *process {
	b.Helper()
	var p *process
	if exporter {
		p = d.exporter(b)
	} else {
		n := d.nats(b)
		p = begin(b, os.Args[0], roleVariable+"=publish", "LBREMEDY_KUBECONFIG="+d.cluster(b).Kubeconfig, "LBREMEDY_NATS="+n.url, "LBREMEDY_NATS_TOKEN="+n.token)
		if _, err := p.line(); err != nil {
			b.Fatalf("start the bare program: %v", err)
		}
	}
	for _, uid := range d.services(b, 5) { // the first Events meet cold connections
		if err := d.create(b.Context(), uid); err != nil {
			b.Fatal(err)
		}
		d.arrived.wait(b, time.Minute, uid)
	}
	return p
}

func (r *rig) exporter(b *testing.B) *process {
	b.Helper()
	n := r.nats(b)
	return guarded(b, r.program(b, "events/cmd/exporter"), []string{
		"LBREMEDY_CLUSTER=" + clusterID, "LBREMEDY_KUBECONFIG=" + r.cluster(b).Kubeconfig,
		"LBREMEDY_NATS=" + n.url, "LBREMEDY_NATS_TOKEN=" + n.token, "LBREMEDY_LOG=warn",
		"LBREMEDY_NAMESPACE_RATE=100000", "LBREMEDY_NAMESPACE_BURST=100000",
	})
}

// latency measures the time from the API server's answer to the creation of an Event until a reader of FAILED has the message,
// which JetStream delivers after syncing it. The exporter program and NATS are separate processes, and Events come at 50 a
// second. The bare program watches the same selection and publishes each Event in order.
func (r *rig) latency(b *testing.B) {
	const rounds, n, pause = 4, 250, 20 * time.Millisecond
	d := r.disk(b)
	took := map[bool][]time.Duration{}
	for range rounds {
		for _, exporter := range []bool{true, false} {
			p := d.run(b, exporter)
			took[exporter] = append(took[exporter], d.steady(b, n, pause)...)
			p.end()
		}
	}
	for _, q := range []struct {
		name       string
		part, goal float64
	}{{"p50", 0.5, 2}, {"p99", 0.99, 4}} {
		ours, bare := ms(quantile(took[true], q.part)), ms(quantile(took[false], q.part))
		r.atMost(b, q.name, "ms", ours, q.goal)
		r.note(b, q.name+" bare", "ms", bare)
		r.note(b, q.name+" by bare", "ratio", ours/bare)
	}
}

// stored measures the exporter's processor time for publishing stored failures when it starts without saved progress: 5,000, or
// LBREMEDY_BENCH_FAILURES, a hundred in each namespace, until FAILED has all of them.
func (r *rig) stored(b *testing.B) {
	n := 5000
	if text := os.Getenv("LBREMEDY_BENCH_FAILURES"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 {
			b.Fatalf("LBREMEDY_BENCH_FAILURES: %q is not a number of failures", text)
		}
	}
	const each = 100 // in one namespace
	d := r.disk(b)
	ids := make([]string, 0, n)
	for len(ids) < n {
		d.namespace = r.namespace(b, "stored")
		some := d.services(b, min(each, n-len(ids)))
		if err := alike(16, len(some), func(i int) error { return d.create(b.Context(), some[i]) }); err != nil {
			b.Fatal(err)
		}
		ids = append(ids, some...)
	}
	if err := d.nats(b).connect(b).Delete(b.Context(), event.ProgressKey(clusterID)); err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	p := d.exporter(b)
	d.arrived.wait(b, 10*time.Minute, ids...)
	r.note(b, "failures", "", float64(n))
	r.note(b, "until the last is on disk", "s", time.Since(began).Seconds())
	r.note(b, "computing", "s", p.cpu(b).Seconds())
	r.note(b, "peak memory", "MB", p.memory(b, "VmHWM"))
	p.end()
}

func (d *disk) steady(b *testing.B, n int, pause time.Duration) []time.Duration {
	b.Helper()
	ids, answered, errs := d.services(b, n), make([]time.Time, n), make([]error, n)
	tick := time.NewTicker(pause)
	defer tick.Stop()
	var clients sync.WaitGroup
	for i, uid := range ids {
		<-tick.C
		clients.Go(func() {
			errs[i] = d.create(b.Context(), uid)
			answered[i] = time.Now()
		})
	}
	clients.Wait()
	for _, err := range errs {
		if err != nil {
			b.Fatal(err)
		}
	}
	took := make([]time.Duration, n)
	for i, at := range d.arrived.wait(b, time.Minute, ids...) {
		took[i] = at.Sub(answered[i])
	}
	return took
}

// burst measures 3,000 Events created by 16 clients at once, from the first request until a reader of FAILED has the last
// message: the rate, and each one's time. Each is about an existing LoadBalancer Service of its own. Ratios are of median rounds.
func (r *rig) burst(b *testing.B) {
	const rounds, n, clients = 5, 3000, 16
	d := r.disk(b)
	rates, cost, created, peak := map[bool][]float64{}, map[bool]time.Duration{}, []float64{}, 0.0
	took := map[bool][]time.Duration{}
	ids := d.loadBalancers(b, n)
	js, end := d.nats(b).jetstream(b)
	defer end()
	failed, err := js.Stream(b.Context(), stream.Failed)
	if err != nil {
		b.Fatal(err)
	}
	for i := range 2 * rounds {
		exporter := i%4 == 0 || i%4 == 3 // alternating, each as often first as second
		p := d.run(b, exporter)
		d.round++
		d.arrived.forget(ids...)
		if err := failed.Purge(b.Context()); err != nil { // each is the first of its Service
			b.Fatal(err)
		}
		before := p.cpu(b)
		answered := make([]time.Time, n)
		began := time.Now()
		err := alike(clients, n, func(i int) error {
			defer func() { answered[i] = time.Now() }()
			return d.create(b.Context(), ids[i])
		})
		if err != nil {
			b.Fatal(err)
		}
		created = append(created, n/time.Since(began).Seconds())
		last := began
		for i, at := range d.arrived.wait(b, time.Minute, ids...) {
			took[exporter] = append(took[exporter], at.Sub(answered[i]))
			if at.After(last) {
				last = at
			}
		}
		rates[exporter] = append(rates[exporter], n/last.Sub(began).Seconds())
		cost[exporter] += p.cpu(b) - before
		if exporter {
			peak = max(peak, p.memory(b, "VmHWM"))
		}
		p.end()
	}
	ours, bare := quantile(rates[true], 0.5), quantile(rates[false], 0.5)
	r.atLeast(b, "rate by bare", "ratio", ours/bare, 0.95)
	r.note(b, "rate", "events/s", ours)
	r.note(b, "rate bare", "events/s", bare)
	r.note(b, "rate of creation", "events/s", quantile(created, 0.5))
	r.note(b, "p99", "ms", ms(quantile(took[true], 0.99)))
	r.note(b, "p99 bare", "ms", ms(quantile(took[false], 0.99)))
	r.note(b, "computing for one", "µs", float64(cost[true].Microseconds())/(rounds*n))
	r.note(b, "computing for one bare", "µs", float64(cost[false].Microseconds())/(rounds*n))
	r.note(b, "peak memory", "MB", peak)
	b.Logf("rounds of the exporter %.0f, of the bare program %.0f events/s", rates[true], rates[false])
}
