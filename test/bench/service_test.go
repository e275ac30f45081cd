package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/watch"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/shell"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/testbed"
)

type up struct {
	*nats
	testbed *testbed.Testbed
	end     func()
}

func (r *rig) up(b *testing.B) *up {
	b.Helper()
	r.upOnce.Do(func() { r.running = r.startUp(b, func(*testbed.Testbed) {}) })
	if r.running == nil {
		b.Fatal("lbremedy does not run")
	}
	return r.running
}

func (r *rig) startUp(b *testing.B, before func(*testbed.Testbed), args ...string) *up {
	b.Helper()
	tb, err := testbed.Start(b.Context(), testbed.Options{Cluster: r.cluster(b), Namespace: "heal", Room: 4000})
	if err != nil {
		b.Fatal(err)
	}
	closeTestbed := sync.OnceFunc(tb.Close)
	r.top.Cleanup(closeTestbed)
	policy, err := filepath.Abs("policy.yaml")
	if err != nil {
		b.Fatal(err)
	}
	before(tb)
	state, address := r.top.TempDir(), "127.0.0.1:"+shell.Port(b)
	env := append(tb.Environ("", ""), "XDG_CONFIG_HOME="+state, "GOMEMLIMIT=200MiB") // as in its Pod; without a person's settings
	p := guarded(r.top, r.program(b, "functions/cmd/lbremedy"), env,
		append([]string{"up", "--policy", policy, "--listen", address, "--state-dir", state}, args...)...)
	await(b, time.Minute, func() error { return p.asked("http://" + address + "/readyz") })
	data, err := os.ReadFile(filepath.Join(state, "nats.json"))
	if err != nil {
		b.Fatal(err)
	}
	var at struct{ URL, Token string }
	if err := json.Unmarshal(data, &at); err != nil {
		b.Fatal(err)
	}
	return &up{nats: &nats{url: at.URL, token: at.Token}, testbed: tb, end: func() { p.end(); closeTestbed() }}
}

func (p *process) asked(url string) error {
	answer, err := http.Get(url)
	if err != nil {
		return p.failed(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return p.failed(fmt.Errorf("%s answers %s", url, answer.Status))
	}
	return nil
}

// services watches Services from now until the benchmark ends. The API server closes the watch of a slow reader, as this process
// is while a thousand Services change: it resumes where it ended.
func (r *rig) services(b *testing.B, namespace string, see func(*corev1.Service)) {
	b.Helper()
	client := r.client(b).CoreV1().Services(namespace)
	now, err := client.List(b.Context(), metav1.ListOptions{Limit: 1})
	if err != nil {
		b.Fatal(err)
	}
	changes, err := watch.NewRetryWatcherWithContext(b.Context(), now.ResourceVersion, &cache.ListWatch{WatchFuncWithContext: client.Watch})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(changes.Stop)
	go func() {
		for change := range changes.ResultChan() {
			if svc, ok := change.Object.(*corev1.Service); ok {
				see(svc)
			}
		}
		if b.Context().Err() == nil {
			b.Error("the watch of Services has ended early: what is not seen may be there")
		}
	}()
}

// A street is Services without load balancers, in several namespaces because the exporter limits the rate of a namespace.
type street struct {
	*rig
	testbed    *testbed.Testbed
	namespaces []string
	services   []*corev1.Service
	answered   []time.Time // time of the API server's answer to the creation of the Event
	written    *sightings  // by UID
	touched    *sightings  // by the bare program, by UID
	settled    *sightings  // cases with the result fixed, by UID
	stored     map[string]*sightings
}

var way = []string{"exported", string(event.Intent), string(event.Step)}

func (r *rig) street(b *testing.B, u *up, n int) *street {
	b.Helper()
	s := &street{
		rig: r, testbed: u.testbed, services: make([]*corev1.Service, n), answered: make([]time.Time, n),
		written: newSightings(), touched: newSightings(), settled: newSightings(), stored: map[string]*sightings{},
	}
	for _, name := range way {
		s.stored[name] = newSightings()
	}
	for range n/50 + 1 {
		s.namespaces = append(s.namespaces, r.namespace(b, "write"))
	}
	client := r.client(b).CoreV1()
	err := alike(8, n, func(i int) (err error) {
		s.services[i], err = client.Services(s.namespaces[i%len(s.namespaces)]).Create(b.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{
				Name:        fmt.Sprintf("web-%03d", i),
				Annotations: map[string]string{ccm.Prefix + "address-type": "intranet", ccm.Prefix + "vswitch-id": testbed.FullVSwitchI},
			},
			Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeLoadBalancer, AllocateLoadBalancerNodePorts: new(false), Ports: []corev1.ServicePort{{Port: 80}},
			},
		}, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	r.services(b, "", func(svc *corev1.Service) {
		if svc.Annotations[ccm.Resync] != "" {
			s.written.see(string(svc.UID))
		}
		if svc.Annotations[bareAnnotation] != "" {
			s.touched.see(string(svc.UID))
		}
	})
	s.follow(b, u.connect(b))
	return s
}

func (s *street) follow(b *testing.B, st *stream.Stream) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	var following sync.WaitGroup
	follow := func(name, filter string, see func(stream.Message) error) {
		following.Go(func() {
			if err := st.FollowSince(ctx, name, filter, time.Time{}, see); err != nil {
				b.Errorf("follow %s: %v", name, err)
			}
		})
	}
	b.Cleanup(func() { cancel(); following.Wait() })
	follow(stream.Failed, event.FailedSubjects, func(m stream.Message) error {
		s.stored["exported"].seeAt(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], m.Time)
		return nil
	})
	follow(stream.Cases, "lbremedy.case.>", func(m stream.Message) error {
		rec, err := event.DecodeRecord(m.Subject, m.Header, m.Data)
		if err != nil {
			return err
		}
		if at := s.stored[string(rec.Phase)]; at != nil {
			at.seeAt(rec.Service.UID, m.Time)
		}
		if rec.Phase == event.Settled && rec.Result.Worked() {
			s.settled.see(rec.Service.UID)
		}
		return nil
	})
}

func (s *street) uid(i int) string { return string(s.services[i].UID) }

func (s *street) fail(ctx context.Context, i int, reason string) error {
	in := s.services[i].Namespace
	e := failure(in, s.services[i].Name, s.uid(i))
	e.Reason = reason
	if reason == bareReason {
		e.Name += ".bare"
	}
	_, err := s.rig.shared.Client().CoreV1().Events(in).Create(ctx, e, metav1.CreateOptions{})
	s.answered[i] = time.Now()
	return err
}

func (s *street) sync(ctx context.Context, i int) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"labels": map[string]string{ccm.HashLabel: s.uid(i)}},
		"status":   corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "10.0.0.1"}}}},
	})
	if err != nil {
		return err
	}
	client := s.rig.shared.Client().CoreV1().Services(s.services[i].Namespace)
	_, err = client.Patch(ctx, s.services[i].Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// room adds the roomiest vSwitch. Previously moved Services then have their claims elsewhere, as if ten minutes had passed.
func (s *street) room(i int) {
	s.testbed.Cloud.Edit(func(st *sim.State) {
		id := fmt.Sprintf("vsw-i-room-%d", i)
		vsw := *st.VSwitches[testbed.RoomyVSwitchI]
		vsw.ID, vsw.CIDR, vsw.Free = id, "", new(4001+i)
		st.VSwitches[id] = &vsw
		st.Cluster.VSwitches = append(st.Cluster.VSwitches, id)
	})
}

// write measures the time from the API server's answer to the creation of an Event until a watch of Services shows the write of
// "lbremedy up" (exporter, JetStream and worker in one process). No controller runs; the benchmark sets the marks of a sync,
// which ends each case before the next begins. The bare program reads the Event's Service and writes an annotation. A burst of
// 100 Services is measured until the last write. The region has load balancers of others, because an empty list is not shared.
func (r *rig) write(b *testing.B) {
	const warm, single, others = 10, 400, 50
	u := r.up(b)
	u.testbed.Cloud.Edit(func(st *sim.State) {
		for i := range others {
			id := fmt.Sprintf("lb-other-%d", i)
			st.LoadBalancers[id] = &sim.LoadBalancer{ID: id, Name: id, Tags: map[string]string{ccm.NameTag: id}}
		}
	})
	s := r.street(b, u, warm+single+1100)
	bare := begin(b, os.Args[0], roleVariable+"=write", "LBREMEDY_KUBECONFIG="+r.cluster(b).Kubeconfig)
	if _, err := bare.line(); err != nil {
		b.Fatalf("start the bare program: %v", err)
	}
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}

	var took, plain []time.Duration
	for i := range warm + single {
		if i%50 == 0 {
			s.room(i)
		}
		must(s.fail(b.Context(), i, bareReason))
		at := s.touched.wait(b, 10*time.Second, s.uid(i))[0]
		if i >= warm {
			plain = append(plain, at.Sub(s.answered[i]))
		}
		if one := s.single(b, i); i >= warm {
			took = append(took, one)
		}
	}
	r.atMost(b, "one p99", "ms", ms(quantile(took, 0.99)), 15)
	r.atMost(b, "one p99, times the bare program", "", ms(quantile(took, 0.99))/ms(quantile(plain, 0.99)), 2.5)
	r.note(b, "one p50", "ms", ms(quantile(took, 0.5)))
	r.note(b, "one p50 bare", "ms", ms(quantile(plain, 0.5)))
	r.note(b, "one p99 bare", "ms", ms(quantile(plain, 0.99)))
	s.stages(b, warm, warm+single)

	r.atMost(b, "100 at once", "ms", ms(s.burst(b, warm+single, 100)), 500)
	r.note(b, "100 at once bare", "ms", ms(s.bare(b, warm+single, 100)))
	r.atMost(b, "1,000 at once", "ms", ms(s.burst(b, warm+single+100, 1000)), 4000)
	r.note(b, "1,000 at once bare", "ms", ms(s.bare(b, warm+single+100, 1000)))
}

func (s *street) burst(b *testing.B, first, n int) time.Duration {
	b.Helper()
	s.room(first)
	took := s.atOnce(b, first, n, "SyncLoadBalancerFailed", s.written)
	if err := alike(16, n, func(i int) error { return s.sync(b.Context(), first+i) }); err != nil {
		b.Fatal(err)
	}
	s.settled.wait(b, 5*time.Minute, s.ids(first, n)...)
	return took
}

func (s *street) bare(b *testing.B, first, n int) time.Duration {
	b.Helper()
	return s.atOnce(b, first, n, bareReason, s.touched)
}

func (s *street) atOnce(b *testing.B, first, n int, reason string, seen *sightings) time.Duration {
	b.Helper()
	if err := alike(16, n, func(i int) error { return s.fail(b.Context(), first+i, reason) }); err != nil {
		b.Fatal(err)
	}
	began, last := s.answered[first], time.Time{}
	for _, at := range s.answered[first : first+n] {
		if at.Before(began) {
			began = at
		}
	}
	for _, at := range seen.wait(b, 5*time.Minute, s.ids(first, n)...) {
		if at.After(last) {
			last = at
		}
	}
	return last.Sub(began)
}

func (s *street) ids(first, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = s.uid(first + i)
	}
	return ids
}

func (s *street) stages(b *testing.B, from, to int) {
	b.Helper()
	took := make([][]time.Duration, len(way))
	for i := from; i < to; i++ {
		last := s.answered[i]
		for k, name := range way {
			at := s.stored[name].wait(b, time.Second, s.uid(i))[0]
			took[k] = append(took[k], at.Sub(last))
			last = at
		}
	}
	for k, name := range way {
		b.Logf("until %s: p50 %.2f ms, p90 %.2f ms, p99 %.2f ms", name, ms(quantile(took[k], 0.5)), ms(quantile(took[k], 0.9)), ms(quantile(took[k], 0.99)))
	}
}

// heal measures the time with the controller's real delays, from the first failure in a full vSwitch until a watch shows the sync.
func (r *rig) heal(b *testing.B) {
	const n = 60
	u := r.up(b)
	synced := newSightings()
	r.services(b, u.testbed.Namespace, func(svc *corev1.Service) {
		if svc.Labels[ccm.HashLabel] != "" && ccm.Synced(svc) {
			synced.see(svc.Name)
		}
	})
	fixtures := testbed.Bulk(testbed.FullVSwitch(testbed.FullVSwitchI), "web", n)
	names := make([]string, n)
	for i, f := range fixtures {
		names[i] = f.Service
	}
	if err := u.testbed.Fail(b.Context(), fixtures...); err != nil {
		b.Fatal(err)
	}
	took := make([]time.Duration, n)
	for i, at := range synced.wait(b, 1*time.Minute, names...) {
		failed, _ := u.testbed.Failed(names[i])
		took[i] = at.Sub(failed)
		if !u.testbed.Healed(names[i]) {
			b.Errorf("Service %s is synced and does not work", names[i])
		}
	}
	r.atMost(b, "median", "s", quantile(took, 0.5).Seconds(), 5)
	r.atMost(b, "p99", "s", quantile(took, 0.99).Seconds(), 20)
}
