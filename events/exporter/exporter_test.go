package exporter

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/shell"
)

var table = []event.Row{
	{Class: "vswitch-ip-exhausted", Texts: []string{"VSwitch has no available ip"}},
	{Class: "tag-missing", Texts: []string{"not able to find loadbalancer named ["}},
}

const (
	full    = "Error syncing load balancer []: Message: The specified VSwitch has no available ip."
	untaged = "Error syncing load balancer [lb-1]: not able to find loadbalancer named [a1] in openapi, but it's defined in service.loaderbalancer.ingress"
)

type world struct {
	testing.TB
	ctx  context.Context
	join *cluster.Cluster
	ns   string
	id   string
	dir  string
	port int
	nats *embedded.Server
	s    *stream.Stream

	mu   sync.Mutex
	made map[int]string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return worldOn(t, cluster.Join(t))
}

func worldOn(t testing.TB, join *cluster.Cluster) *world {
	t.Helper()
	ns := join.Namespace(t) // waits while another test has the cluster for itself
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	w := &world{TB: t, ctx: ctx, join: join, ns: ns, dir: t.TempDir(), id: "c1", port: -1, made: map[int]string{}}
	w.startNATS()
	t.Cleanup(func() { w.nats.Close() })
	w.s = w.connect()
	if _, err := w.s.Setup(ctx, []string{"vswitch-ip-exhausted", "tag-missing", event.Unclassified}, stream.Settings{Clusters: []string{w.id}}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) startNATS() {
	w.Helper()
	s, err := embedded.Start(embedded.Options{Dir: w.dir, Port: w.port, Sync: true})
	if err != nil {
		w.Fatal(err)
	}
	u, err := url.Parse(s.URL())
	if err != nil {
		w.Fatal(err)
	}
	w.port, _ = strconv.Atoi(u.Port())
	w.nats = s
}

func (w *world) connect() *stream.Stream {
	w.Helper()
	return nats.Connect(w, stream.Config{URL: w.nats.URL()})
}

func (w *world) exporter(config *rest.Config) *Exporter {
	w.Helper()
	return w.budgeted(config, 100_000, 100_000)
}

func (w *world) budgeted(config *rest.Config, perSecond float64, burst int) *Exporter {
	w.Helper()
	k, err := kube.New(cmp.Or(config, w.join.Config))
	if err != nil {
		w.Fatal(err)
	}
	e, err := New(Config{Cluster: w.id, Kube: k, Stream: w.connect(), Classifier: event.NewClassifier(table), Rate: perSecond, Burst: burst,
		Log: slog.New(slog.NewTextHandler(w.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		w.Fatal(err)
	}
	return e
}

// ways are the two in which an exporter learns of Events. The gate is that of a watch.
var ways = map[string]func(w *world) (*Exporter, *gate){
	"watch": func(w *world) (*Exporter, *gate) {
		config, g := w.through()
		return w.exporter(config), g
	},
	"posts": func(w *world) (*Exporter, *gate) {
		e := w.exporter(nil)
		e.c.Posts = newBridge(w).posts()
		if err := e.c.Posts.check(); err != nil {
			w.Fatal(err)
		}
		return e, nil
	},
}

func (w *world) run(e *Exporter) (stop func()) {
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.Errorf("the exporter ended with %v", err)
		}
		if p := e.Page(); p.Waiting() != 0 {
			w.Errorf("the exporter's page does not balance: %d of %+v are not accounted for", p.Waiting(), p)
		}
	})
	w.Cleanup(stop)
	return stop
}

func (w *world) event(name, uid, message string) *corev1.Event {
	w.Helper()
	return w.make(w.newEvent(name, uid, message))
}

func (w *world) newEvent(name, uid, message string) *corev1.Event {
	now := metav1.Now().Rfc3339Copy()
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: name, Namespace: w.ns},
		InvolvedObject: corev1.ObjectReference{Kind: "Service", APIVersion: "v1", Namespace: w.ns, Name: w.named(uid), UID: types.UID(uid)},
		Reason:         "SyncLoadBalancerFailed", Type: corev1.EventTypeWarning, Message: message,
		Source:         corev1.EventSource{Component: "service-controller"},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
}

func (w *world) make(e *corev1.Event) *corev1.Event {
	w.Helper()
	e, err := w.join.Client().CoreV1().Events(e.Namespace).Create(w.ctx, e, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return e
}

func (w *world) again(e *corev1.Event) *corev1.Event {
	w.Helper()
	e.Count++
	e.LastTimestamp = metav1.NewTime(e.LastTimestamp.Add(time.Second))
	e, err := w.join.Client().CoreV1().Events(e.Namespace).Update(w.ctx, e, metav1.UpdateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return e
}

// A tail is what FAILED stored about the world's namespace, in order.
type tail struct {
	w    *world
	ch   chan event.Failure
	most map[string]int // the highest count that was read, by the Service's UID
}

func (w *world) tail() *tail {
	t := &tail{w: w, ch: make(chan event.Failure, 10000), most: map[string]int{}}
	s := w.connect()
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := s.Tail(ctx, stream.Failed, event.FailedSubjects, 0, func(m stream.Message) error {
			ce, err := event.DecodeNATS(m.Header, m.Data)
			if err != nil {
				return err
			}
			f, err := event.ReadFailed(ce)
			if err != nil {
				return err
			}
			if f.Service.Namespace == w.ns {
				t.ch <- f
			}
			return nil
		})
		if ctx.Err() == nil {
			w.Errorf("read what is stored: %v", err)
		}
	}()
	w.Cleanup(func() { cancel(); <-done })
	return t
}

func (t *tail) next(n int) []event.Failure {
	t.w.Helper()
	var got []event.Failure
	for len(got) < n {
		select {
		case f := <-t.ch:
			got = append(got, f)
			t.most[f.Service.UID] = max(t.most[f.Service.UID], f.Count)
		case <-t.w.ctx.Done():
			t.w.Fatalf("%d failures were stored, want %d; the last: %+v", len(got), n, got[max(0, len(got)-3):])
		}
	}
	return got
}

// until reads until each UID has, or had, a failure with at least the count.
func (t *tail) until(uids []string, count int) {
	t.w.Helper()
	for _, u := range uids {
		for t.most[u] < count {
			t.next(1)
		}
	}
}

func (w *world) uid(n int) string {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.made[n] == "" {
		w.made[n] = w.service(serviceName(n))
	}
	return w.made[n]
}

func (w *world) uids(from, to int) []string {
	w.Helper()
	var all []string
	for n := from; n < to; n++ {
		all = append(all, w.uid(n))
	}
	return all
}

func serviceName(n int) string { return fmt.Sprint("web-", n) }

func (w *world) service(name string) string {
	w.Helper()
	svc, err := w.join.Client().CoreV1().Services(w.ns).Create(w.ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone},
	}, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return string(svc.UID)
}

func (w *world) named(uid string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for n, made := range w.made {
		if made == uid {
			return serviceName(n)
		}
	}
	return "web"
}

func (w *world) last(class, uid string) (event.Failure, stream.Message) {
	w.Helper()
	m, err := w.s.Last(w.ctx, stream.Failed, event.FailedSubject(w.id, class, uid))
	if err != nil {
		w.Fatal(err)
	}
	ce, err := event.DecodeNATS(m.Header, m.Data)
	if err != nil {
		w.Fatal(err)
	}
	f, err := event.ReadFailed(ce)
	if err != nil {
		w.Fatal(err)
	}
	return f, m
}

// TestEachOccurrence proves that adds and updates are published, whatever the Event's API version, and nothing else.
func TestEachOccurrence(t *testing.T) {
	w := newWorld(t)
	e := w.exporter(nil)
	got := w.tail()
	w.run(e)

	type row struct {
		Class, UID, Event string
		Count             int
	}
	var rows []row
	take := func(n int) {
		t.Helper()
		for _, f := range got.next(n) {
			rows = append(rows, row{f.Class, f.Service.UID, f.Event.Name, f.Count})
		}
	}
	first := w.event("web.1", w.uid(1), full)
	take(1)
	first = w.again(first)
	take(1)
	w.again(first)
	take(1)
	ensured := w.newEvent("web.2", w.uid(1), "Ensured load balancer [lb-1]")
	ensured.Reason, ensured.Type = "EnsuredLoadBalancer", "Normal"
	w.make(ensured)
	pull := w.newEvent("web.3", w.uid(1), "Failed to pull image")
	pull.Reason, pull.Source.Component = "Failed", "kubelet"
	w.make(pull)
	dry := w.newEvent("web.4", w.uid(1), "DryRun: "+full)
	w.make(dry)
	ours := w.newEvent("web.5a", w.uid(6), full) // a ticket may quote all of this message
	ours.Reason, ours.Source.Component = "LBRemedyAsked", kube.Manager
	w.make(ours)
	w.make(w.newEvent("web.5", w.uid(2), "(combined from similar events): "+untaged))
	pod := w.newEvent("web.6", w.uid(3), full)
	pod.InvolvedObject.Kind = "Pod"
	w.make(pod)
	// Events of events.k8s.io have no count, no source and no first and last time.
	at := metav1.NowMicro()
	if _, err := w.join.Client().EventsV1().Events(w.ns).Create(w.ctx, &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "web.7"}, EventTime: at, Reason: "UnAvailableLoadBalancer", Action: "Sync", Type: "Normal",
		Note: "There are no available nodes for LoadBalancer", ReportingController: "service-controller", ReportingInstance: "ccm",
		Regarding: corev1.ObjectReference{Kind: "Service", Namespace: w.ns, Name: serviceName(4), UID: types.UID(w.uid(4))},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.event("web.8", w.uid(5), full)

	take(3)
	// Different subjects are in flight together and arrive in any order.
	slices.SortStableFunc(rows, func(a, b row) int { return strings.Compare(a.Event, b.Event) })
	want := []row{
		{"vswitch-ip-exhausted", w.uid(1), "web.1", 1},
		{"vswitch-ip-exhausted", w.uid(1), "web.1", 2},
		{"vswitch-ip-exhausted", w.uid(1), "web.1", 3},
		{"tag-missing", w.uid(2), "web.5", 1},
		{event.Unclassified, w.uid(4), "web.7", 1},
		{"vswitch-ip-exhausted", w.uid(5), "web.8", 1},
	}
	if diff := gocmp.Diff(want, rows); diff != "" {
		t.Errorf("what was stored (-want +got):\n%s", diff)
	}

	f, m := w.last("vswitch-ip-exhausted", w.uid(5))
	if f.Message != full || f.Reason != "SyncLoadBalancerFailed" || f.Component != "service-controller" || f.Type != "Warning" ||
		f.Cluster != w.id || f.Service != (event.Service{Namespace: w.ns, Name: serviceName(5), UID: w.uid(5)}) {
		t.Errorf("the failure is %+v", f)
	}
	if want := f.Event.UID + "." + f.Event.ResourceVersion; m.ID() != want {
		t.Errorf("the message's ID is %q, want %q", m.ID(), want)
	}
	if e.Stats().Reported.Load() == 0 {
		t.Error("the Event of the dry run was not reported")
	}
	if !e.Ready() {
		t.Error("the exporter says that it isn't ready")
	}
}

// TestGoesOn proves that a new exporter continues where the last one ended, without a list.
func TestGoesOn(t *testing.T) {
	w := worldOn(t, cluster.Alone(t))
	got := w.tail()
	w.event("a", w.uid(1), full)
	e := w.exporter(nil)
	stop := w.run(e)
	got.until(w.uids(1, 2), 1)
	w.event("b", w.uid(2), full)
	got.until(w.uids(2, 3), 1)
	stop()
	if n := e.Stats().Relists.Load(); n != 1 {
		t.Errorf("the first exporter listed %d times, want 1", n)
	}
	if v, err := w.s.Get(w.ctx, event.ProgressKey(w.id)); err != nil || len(v) == 0 {
		t.Fatalf("the progress is %q, error %v", v, err)
	}

	w.event("c", w.uid(3), full)
	e = w.exporter(nil)
	stop = w.run(e)
	got.until(w.uids(3, 4), 1)
	stop()
	if n := e.Stats().Relists.Load(); n != 0 {
		t.Errorf("the second exporter listed %d times, want 0", n)
	}

	// etcd forgets: everything is listed, and FAILED stays as it is.
	w.event("d", w.uid(4), full)
	w.join.Compact(t)
	_, before := w.last("vswitch-ip-exhausted", w.uid(3))
	e = w.exporter(nil)
	stop = w.run(e)
	got.until(w.uids(4, 5), 1)
	stop()
	if n := e.Stats().Relists.Load(); n != 1 {
		t.Errorf("the third exporter listed %d times, want 1", n)
	}
	if _, after := w.last("vswitch-ip-exhausted", w.uid(3)); after.Sequence != before.Sequence {
		t.Errorf("the list stored a failure again: sequence %d became %d", before.Sequence, after.Sequence)
	}
}

// TestProgressAheadOfTheCluster proves that progress from another cluster or before a restore of etcd hides nothing.
func TestProgressAheadOfTheCluster(t *testing.T) {
	w := newWorld(t)
	if err := w.s.Put(w.ctx, event.ProgressKey(w.id), []byte("999999999999")); err != nil {
		t.Fatal(err)
	}
	got := w.tail()
	w.event("a", w.uid(1), full)
	w.run(w.exporter(nil))
	got.until(w.uids(1, 2), 1)
	// The list holds other tests' Events too, and ends with them.
	w.await("progress in this cluster", func() bool {
		v, err := w.s.Get(w.ctx, event.ProgressKey(w.id))
		return err == nil && kube.Later("999999999999", string(v))
	})
}

// TestRestoredCluster proves that an exporter notices when the cluster goes back behind the version that it knows, and that failures
// stored before that hide no new ones.
func TestRestoredCluster(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			e, g := way(w)
			if err := w.s.Put(w.ctx, event.ProgressKey(w.id), []byte("999999999999")); err != nil {
				t.Fatal(err)
			}
			e.exists("999999999999")
			w.store(w.uid(1), "900000000000")
			w.event("a", w.uid(1), full)
			ctx, cancel := context.WithCancel(w.ctx)
			ended := make(chan struct{})
			go func() { e.export(ctx, "999999999999"); close(ended) }()
			if g != nil {
				w.awaitAsked(g, true)
				g.cutAll()
			}
			w.await("the new failure replaces the stored one", func() bool {
				f, _ := w.last("vswitch-ip-exhausted", w.uid(1))
				return f.Count == 1
			})
			cancel()
			<-ended
			if v, err := w.s.Get(w.ctx, event.ProgressKey(w.id)); !errors.Is(err, stream.ErrNotFound) {
				t.Errorf("the progress of before is still there: %s, error %v", v, err)
			}
		})
	}
}

// A gate is a proxy of an API server that refuses chosen requests.
type gate struct {
	mu     sync.Mutex
	refuse func(watch bool, w http.ResponseWriter) bool // reports whether it has answered
	cut    []context.CancelFunc
	asked  chan bool // receives whether each request was a watch, if somebody listens

	others   func(watch bool, w http.ResponseWriter) bool // answers requests of Events about other objects
	services func(w http.ResponseWriter) bool             // refuses reads of a Service
	reads    map[string]int                               // reads of a Service and lists of Services, by path; a list of several pages counts once
}

func (w *world) through() (*rest.Config, *gate) {
	w.Helper()
	g := &gate{asked: make(chan bool, 1000), reads: map[string]int{}, others: away}
	target, err := url.Parse(w.join.Config.Host)
	if err != nil {
		w.Fatal(err)
	}
	transport, err := rest.TransportFor(w.join.Config)
	if err != nil {
		w.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = transport
	proxy.FlushInterval = -1
	proxy.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		watch := r.URL.Query().Get("watch") != ""
		g.mu.Lock()
		only := g.services
		if strings.Contains(r.URL.Path, "/services") && !watch && !r.URL.Query().Has("continue") {
			g.reads[r.URL.Path]++
		}
		g.mu.Unlock()
		if strings.HasSuffix(r.URL.Path, "/services") {
			proxy.ServeHTTP(rw, r)
			return
		}
		if strings.Contains(r.URL.Path, "/services/") {
			if only != nil && only(rw) {
				return
			}
			proxy.ServeHTTP(rw, r)
			return
		}
		if strings.Contains(r.URL.Path, "/kube-system/") || strings.Contains(r.URL.Path, "/default/") {
			g.others(watch, rw)
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		g.mu.Lock()
		refuse := g.refuse
		if watch {
			g.cut = append(g.cut, cancel)
		}
		g.mu.Unlock()
		select {
		case g.asked <- watch:
		default:
		}
		if refuse != nil && refuse(watch, rw) {
			return
		}
		defer func() { _ = recover() }() // the proxy aborts a cut request with a panic
		proxy.ServeHTTP(rw, r.WithContext(ctx))
	}))
	server.Config.ErrorLog = proxy.ErrorLog
	server.Start()
	w.Cleanup(server.Close)
	w.Cleanup(g.cutAll)
	return &rest.Config{Host: server.URL}, g
}

func (g *gate) set(refuse func(watch bool, w http.ResponseWriter) bool) {
	g.mu.Lock()
	g.refuse = refuse
	g.mu.Unlock()
	g.cutAll()
}

func (g *gate) cutAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, cut := range g.cut {
		cut()
	}
	g.cut = nil
}

func (w *world) awaitAsked(g *gate, watch bool) {
	w.Helper()
	for {
		select {
		case got := <-g.asked:
			if got == watch {
				return
			}
		case <-w.ctx.Done():
			w.Fatal("the exporter doesn't ask")
		}
	}
}

func away(_ bool, w http.ResponseWriter) bool {
	w.WriteHeader(http.StatusServiceUnavailable)
	return true
}

// TestCutWatches proves that nothing is lost when watches break or the API server is unreachable or forgets the version.
func TestCutWatches(t *testing.T) {
	w := worldOn(t, cluster.Alone(t))
	config, g := w.through()
	e := w.exporter(config)
	got := w.tail()
	w.event("a1", w.uid(1), full)
	w.run(e)
	got.until(w.uids(1, 2), 1)

	for n := 2; n < 10; n++ {
		g.cutAll()
		w.event(fmt.Sprint("a", n), w.uid(n), full)
	}
	got.until(w.uids(2, 10), 1)
	lists := e.Stats().Relists.Load()

	g.set(away)
	w.awaitAsked(g, true)
	w.event("b", w.uid(10), full)
	w.again(w.event("c", w.uid(11), full))
	w.join.Compact(t)
	g.set(nil)
	got.until(w.uids(10, 11), 1)
	got.until(w.uids(11, 12), 2)
	if n := e.Stats().Relists.Load(); n <= lists {
		t.Errorf("after the compaction nothing was listed: %d lists, %d before", n, lists)
	}
}

// TestOutage proves that an outage of the API server is logged once at its beginning and once at its end.
func TestOutage(t *testing.T) {
	w := newWorld(t)
	config, g := w.through()
	e := w.exporter(config)
	var said shell.Log
	e.log = slog.New(slog.NewTextHandler(&said, nil))
	got := w.tail()
	w.event("a", w.uid(1), full)
	w.run(e)
	got.until(w.uids(1, 2), 1)
	var tries atomic.Int64
	g.set(func(watch bool, rw http.ResponseWriter) bool {
		tries.Add(1)
		return away(watch, rw)
	})
	w.await("the API server is asked again and again", func() bool { return tries.Load() > 5 })
	g.set(nil)
	w.event("b", w.uid(2), full)
	got.until(w.uids(2, 3), 1)
	w.await("the end is told", func() bool { return said.Count("Events can be read again") > 0 })
	if began, ended := said.Count("level=WARN msg=\"Events can't be read"), said.Count("Events can be read again"); began != 1 || ended != 1 {
		t.Errorf("the outage began %d times and ended %d times:\n%s", began, ended, said.String())
	}
}

// TestEndlessList proves that the part of a list within the limit is published, the rest logged, and the watch continues from there.
func TestEndlessList(t *testing.T) {
	w := newWorld(t)
	first, err := json.Marshal(w.event("a", w.uid(1), full))
	if err != nil {
		t.Fatal(err)
	}
	version := w.event("b", w.uid(2), full).ResourceVersion
	config, g := w.through()
	lists := 0
	var mu sync.Mutex
	g.set(func(watch bool, rw http.ResponseWriter) bool {
		mu.Lock()
		defer mu.Unlock()
		if !watch {
			lists++
		}
		if watch || lists != 2 { // the first asks for the version alone
			return false
		}
		rw.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(rw, `{"metadata":{"resourceVersion":%q},"items":[%s%s]}`, version, first, strings.Repeat(",{}", 200_000))
		return true
	})
	watches := 0 // of Events about other objects
	g.others = func(watch bool, rw http.ResponseWriter) bool {
		mu.Lock()
		defer mu.Unlock()
		rw.Header().Set("Content-Type", "application/json")
		if watch {
			watches++
			return true
		}
		_, _ = fmt.Fprintf(rw, `{"metadata":{"resourceVersion":%q},"items":[{}%s]}`, version, strings.Repeat(",{}", 100_000))
		return true
	}
	e := w.exporter(config)
	got := w.tail()
	w.run(e)
	got.until(w.uids(1, 2), 1)
	w.event("c", w.uid(3), full)
	got.until(w.uids(3, 4), 1)
	if all := e.Stats().Relists.Load(); all != 1 {
		t.Errorf("%d lists", all)
	}
	w.await("Events about nodes and the cluster are watched", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return watches >= len(others()) && e.Stats().Incomplete.Load() > int64(len(others()))
	})
}

// TestRefusedWatches proves that closed or "410 Gone" watches lead to lists without a storm of them.
func TestRefusedWatches(t *testing.T) {
	for name, refusal := range map[string]string{
		"closed at once": "",
		"gone": `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version",` +
			`"reason":"Expired","code":410}}`,
		"broken": `{"type":"ADDED","object":{"kind":"Event","meta`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			config, g := w.through()
			var mu sync.Mutex
			refused, enough := 0, make(chan struct{})
			g.set(func(watch bool, rw http.ResponseWriter) bool {
				if !watch {
					return false
				}
				mu.Lock()
				defer mu.Unlock()
				if refused++; refused > 4 {
					return false
				}
				if refused == 4 {
					close(enough)
				}
				rw.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(rw, refusal)
				return true
			})
			const tries = 7
			lists, listed := 0, make(chan time.Time, 1) // of Events about other objects
			g.others = func(watch bool, rw http.ResponseWriter) bool {
				rw.Header().Set("Content-Type", "application/json")
				if watch {
					_, _ = io.WriteString(rw, refusal)
					return true
				}
				_, _ = io.WriteString(rw, `{"metadata":{"resourceVersion":"1"},"items":[]}`)
				mu.Lock()
				defer mu.Unlock()
				if lists++; lists == tries*len(others()) {
					listed <- time.Now()
				}
				return true
			}
			e := w.exporter(config)
			got := w.tail()
			began := time.Now()
			w.run(e)
			<-enough
			w.event("a", w.uid(1), full)
			got.until(w.uids(1, 2), 1)
			if name != "broken" && e.Stats().Relists.Load() < 4 {
				t.Errorf("%d lists after 4 refused watches", e.Stats().Relists.Load())
			}
			// Pauses of at least 25, 50 and 100 ms lie between four tries.
			if took := time.Since(began); took < 175*time.Millisecond {
				t.Errorf("four tries took %s: they came without a pause", took)
			}
			// One of them was listed at least seven times, with pauses of at least 25, 50, 100, 200, 400 and 800 ms.
			if took := (<-listed).Sub(began); took < 1575*time.Millisecond {
				t.Errorf("%d lists of Events about other objects took %s: they came without growing pauses", tries*len(others()), took)
			}
		})
	}
}

// TestNATSAway proves that Events from an outage of NATS arrive later, without another list, and that readiness shows a long one.
func TestNATSAway(t *testing.T) {
	for name, long := range map[string]bool{"short": false, "long": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			elsewhere := w.join.Namespace(t)
			e := w.exporter(nil)
			if long {
				e.stuck = time.Second
			}
			before := w.tail()
			w.run(e)
			w.event("first", w.uid(0), full)
			before.until(w.uids(0, 1), 1)
			already := e.Stats().Relists.Load()

			w.nats.Close()
			const many = 3 * inFlight
			for n := 1; n <= many; n++ {
				ev := w.event(fmt.Sprint("e", n), w.uid(n), full)
				if n%10 == 0 {
					w.again(ev)
				}
			}
			if long {
				strange := e.Stats().Strange.Load()
				nobody := w.newEvent("nobody", "00000000-0000-4000-8000-000000000000", full)
				nobody.Namespace, nobody.InvolvedObject.Namespace = elsewhere, elsewhere
				w.make(nobody)
				w.await("the exporter is not ready", func() bool { return !e.Ready() })
				w.await("an Event that ends without NATS", func() bool { return e.Stats().Strange.Load() > strange })
				if e.Ready() {
					t.Error("an Event that NATS was not sent made the exporter ready")
				}
			} else {
				w.await("something waits", func() bool { return e.Lag() > 0 })
			}
			w.startNATS()
			w.tail().until(w.uids(0, many+1), 1)
			for n := 10; n <= many; n += 10 {
				w.await("the newest occurrence is stored", func() bool { f, _ := w.last("vswitch-ip-exhausted", w.uid(n)); return f.Count == 2 })
			}
			if lists := e.Stats().Relists.Load(); lists != already {
				t.Errorf("%d lists before the outage and %d after it", already, lists)
			}
			w.await("nothing waits", func() bool { return e.Lag() == 0 && e.Ready() })
		})
	}
}

// TestBrokenList proves that Events of a list that breaks off after it had no room for all are accounted for; run compares the sums.
func TestBrokenList(t *testing.T) {
	w := newWorld(t)
	var page []string
	for n := range 300 {
		ev := w.newEvent(fmt.Sprint("e", n), fmt.Sprintf("00000000-0000-4000-8000-%012x", n), full+strings.Repeat(" long", 800))
		ev.ResourceVersion = "1"
		item, err := json.Marshal(ev)
		if err != nil {
			t.Fatal(err)
		}
		page = append(page, string(item))
	}
	config, g := w.through()
	var lists atomic.Int64
	g.set(func(watch bool, rw http.ResponseWriter) bool {
		switch {
		case watch:
		case lists.Add(1) == 2: // the first asks for the version alone
			rw.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(rw, `{"metadata":{"resourceVersion":"1","continue":"next"},"items":[%s]}`, strings.Join(page, ","))
			return true
		case lists.Load() == 3:
			return away(watch, rw)
		}
		return false
	})
	e := w.exporter(config)
	got := w.tail()
	w.run(e)
	w.event("a", w.uid(1), full)
	got.until(w.uids(1, 2), 1)
	if n := e.Stats().Relists.Load(); n < 2 {
		t.Errorf("%d lists", n)
	}
}

// TestNATSLosesFailures proves that all Events are listed when NATS holds less than was saved.
func TestNATSLosesFailures(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			e, g := way(w)
			ev := w.event("a", w.uid(1), full)
			got := w.tail()
			w.run(e)
			got.until(w.uids(1, 2), 1)
			key := event.ProgressKey(w.id)
			w.await("progress is saved", func() bool {
				version, err := w.s.Get(w.ctx, key)
				return err == nil && !kube.Later(ev.ResourceVersion, string(version)) && e.Stats().Saves.Load() > 0
			})
			_, m := w.last("vswitch-ip-exhausted", w.uid(1))
			lists := e.Stats().Relists.Load()
			if _, err := w.s.Remove(w.ctx, stream.Failed, m.Sequence); err != nil {
				t.Fatal(err)
			}
			if err := w.s.Delete(w.ctx, key); err != nil {
				t.Fatal(err)
			}
			if g != nil { // a new Event moves progress
				w.event("b", w.uid(2), full)
				w.await("the exporter notices", func() bool { return len(e.anew) > 0 || e.Stats().Relists.Load() > lists })
				g.cutAll()
			}
			w.await("the lost failure is stored again", func() bool {
				_, err := w.s.Last(w.ctx, stream.Failed, m.Subject)
				return err == nil
			})
		})
	}
}

func (w *world) await(what string, yes func() bool) {
	w.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !yes() {
		select {
		case <-tick.C:
		case <-w.ctx.Done():
			w.Fatalf("waited in vain: %s", what)
		}
	}
}

func TestTwoExporters(t *testing.T) {
	w := newWorld(t)
	a, b := w.exporter(nil), w.exporter(nil)
	got := w.tail()
	w.run(a)
	w.run(b)

	const services, repeats = 20, 5
	var writers sync.WaitGroup
	for n := range services {
		writers.Go(func() {
			ev := w.event(fmt.Sprint("e", n), w.uid(n), full)
			for range repeats - 1 {
				ev = w.again(ev)
			}
		})
	}
	writers.Wait()
	latest := map[string]int{}
	for len(latest) < services || slices.Min(slices.Collect(valuesOf(latest))) < repeats {
		f := got.next(1)[0]
		if f.Count <= latest[f.Service.UID] {
			t.Errorf("count %d of %s was stored after count %d", f.Count, f.Service.UID, latest[f.Service.UID])
		}
		latest[f.Service.UID] = f.Count
	}
	w.await("both exporters are through", func() bool {
		return a.Lag() == 0 && b.Lag() == 0 && a.Stats().Kept.Load()+b.Stats().Kept.Load() >= services
	})
	for n := range services {
		if f, _ := w.last("vswitch-ip-exhausted", w.uid(n)); f.Count != repeats {
			t.Errorf("Service %d ended with count %d, want %d", n, f.Count, repeats)
		}
	}
}

func valuesOf(m map[string]int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for _, v := range m {
			if !yield(v) {
				return
			}
		}
	}
}

// store stores a failure of the Service as if it came from an Event of that version, with count 9.
func (w *world) store(id, version string) {
	w.Helper()
	ev := kube.Event{Namespace: w.ns, Name: "old", UID: "u", ResourceVersion: version, Message: full, Count: 9,
		Object: kube.Object{Namespace: w.ns, Name: w.named(id), UID: id}}
	m, err := occurrence{Event: ev, class: "vswitch-ip-exhausted",
		about: event.Service{Namespace: ev.Object.Namespace, Name: ev.Object.Name, UID: ev.Object.UID}}.message(w.id)
	if err != nil {
		w.Fatal(err)
	}
	if _, stored, err := w.s.PublishNewer(w.ctx, m.subject, m.id, m.header, m.data, func(stream.Message) bool { return true }); err != nil || !stored {
		w.Fatalf("store: %v, error %v", stored, err)
	}
}

// TestAlienMessage proves that a stored occurrence from before a restore of etcd is replaced, and a later one of this cluster is not.
func TestAlienMessage(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.store(w.uid(1), "999999999999")
			if _, _, err := w.s.PublishNewer(w.ctx, event.FailedSubject(w.id, "vswitch-ip-exhausted", w.uid(2)), "", nil, []byte("no failure"),
				func(stream.Message) bool { return true }); err != nil {
				t.Fatal(err)
			}
			w.event("a", w.uid(1), full)
			w.event("b", w.uid(2), full)
			ours := w.event("c", w.uid(3), full)
			later := w.event("d", w.uid(4), full) // makes a version that exists and is later than c's
			w.store(w.uid(3), later.ResourceVersion)

			e, _ := way(w)
			stop := w.run(e)
			w.await("the list is through", func() bool { return e.Lag() == 0 && e.Stats().Saves.Load() > 0 })
			stop()
			for _, n := range []int{1, 2} {
				if f, _ := w.last("vswitch-ip-exhausted", w.uid(n)); f.Count != 1 {
					t.Errorf("Service %d: the alien message with version %s is still there", n, f.Event.ResourceVersion)
				}
			}
			if f, _ := w.last("vswitch-ip-exhausted", w.uid(3)); f.Event.ResourceVersion == ours.ResourceVersion {
				t.Error("an older occurrence replaced a later one")
			}
		})
	}
}

// TestHostileEvents proves that an Event that can't be published goes to DEAD once, with the reason, and blocks nothing.
func TestHostileEvents(t *testing.T) {
	w := worldOn(t, cluster.Alone(t))
	e := w.exporter(nil)
	got := w.tail()
	stop := w.run(e)

	t.Cleanup(func() { // other tests' exporters list them too
		err := w.join.Client().CoreV1().Events(w.ns).DeleteCollection(context.WithoutCancel(w.ctx), metav1.DeleteOptions{}, metav1.ListOptions{})
		if err != nil {
			t.Error(err)
		}
	})
	want := map[string]string{}
	hostile := func(name, reason string, change func(*corev1.Event)) {
		t.Helper()
		ev := w.newEvent(name, w.uid(1), full)
		change(ev)
		w.make(ev)
		if reason != "" {
			want[name] = reason
		}
	}
	hostile("no-uid", "invalid event: the Service has no UID", func(e *corev1.Event) { e.InvolvedObject.UID = "" })
	hostile("wildcard", `invalid event: service UID ">" is not a UUID`, func(e *corev1.Event) { e.InvolvedObject.UID = ">" })
	hostile("tokens", "is not a UUID", func(e *corev1.Event) { e.InvolvedObject.UID = "a.b c\r\nd.*.eeeeeeeeeeeeeeeeeeeeeeeee" })
	hostile("path", "is not a valid Service name", func(e *corev1.Event) { e.InvolvedObject.Name = "../../nodes/x" })
	hostile("no-name", "is not a valid Service name", func(e *corev1.Event) { e.InvolvedObject.Name = "" })
	hostile("large", "", func(e *corev1.Event) {
		e.Type = "Warning"
		e.Action = strings.Repeat("x", 100)
		e.Reason = "Failed"
		e.Message = "Fail to ensure loadbalancer, error " + full
		e.Type = strings.Repeat("t", 70<<10)
	})
	hostile("long", "", func(e *corev1.Event) {
		e.InvolvedObject.Name, e.InvolvedObject.UID = serviceName(2), types.UID(w.uid(2))
		e.Message = full + strings.Repeat(" and\x00 more é", 80<<10)
	})
	w.event("last", w.uid(3), full)

	stored := map[string]event.Failure{}
	for _, f := range got.next(3) {
		stored[f.Event.Name] = f
	}
	if f, ok := stored["large"]; !ok || len(f.Type) != 1024 {
		t.Errorf("the failure with a type that is none: %d bytes of it", len(f.Type))
	}
	if f, ok := stored["long"]; !ok || len(f.Message) > event.MaxMessage || f.Class != "vswitch-ip-exhausted" {
		t.Errorf("the failure with the long message: %d bytes, class %s", len(f.Message), f.Class)
	}
	if _, ok := stored["last"]; !ok {
		t.Error("the failure after the hostile ones is missing")
	}

	dead := func() map[string]string {
		all := map[string]string{}
		err := w.s.Each(w.ctx, stream.Dead, ">", time.Time{}, func(m stream.Message) error {
			var ev corev1.Event
			if err := json.Unmarshal(m.Data, &ev); err != nil {
				return fmt.Errorf("the dead Event is no Event: %w", err)
			}
			if ev.Namespace == w.ns {
				if all[ev.Name] != "" {
					t.Errorf("%s is in DEAD twice", ev.Name)
				}
				all[ev.Name] = m.Header[stream.HeaderReason][0]
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	check := func() {
		t.Helper()
		all := dead()
		for name, reason := range want {
			if !strings.Contains(all[name], reason) {
				t.Errorf("the reason of %s is %q, want %q", name, all[name], reason)
			}
		}
		if len(all) != len(want) {
			t.Errorf("DEAD holds %d Events, want %d", len(all), len(want))
		}
	}
	check()
	stop()
	w.join.Compact(t)
	e = w.exporter(nil)
	w.run(e)
	w.event("new", w.uid(4), full)
	got.until(w.uids(4, 5), 1)
	check()
}

func TestRunNeedsBothSides(t *testing.T) {
	w := newWorld(t)
	t.Run("no rights", func(t *testing.T) {
		e := w.exporter(w.join.As(t, "exporter-test-nobody", []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get"}}}))
		if err := e.Run(w.ctx); !errors.Is(err, kube.ErrDenied) {
			t.Errorf("Run ended with %v, want ErrDenied", err)
		}
	})
	t.Run("no API server", func(t *testing.T) {
		e := w.exporter(&rest.Config{Host: "http://127.0.0.1:1"})
		if err := e.Run(w.ctx); !errors.Is(err, kube.ErrUnavailable) {
			t.Errorf("Run ended with %v, want ErrUnavailable", err)
		}
	})
	t.Run("no NATS", func(t *testing.T) {
		e := w.exporter(nil)
		w.nats.Close()
		if err := e.Run(w.ctx); !errors.Is(err, stream.ErrUnavailable) {
			t.Errorf("Run ended with %v, want ErrUnavailable", err)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	for _, id := range []string{"", "a b", "a.b", ">", strings.Repeat("x", 65)} {
		if _, err := New(Config{Cluster: id}); err == nil || !strings.HasPrefix(err.Error(), "name the cluster: ") {
			t.Errorf("New took the cluster ID %q: %v", id, err)
		}
	}
	if _, err := New(Config{Cluster: "c1"}); err == nil {
		t.Error("New took no cluster, no stream and no classifier")
	}
}

// TestRightsOfTheExporter proves that publishing needs no permissions but to list and watch Events and to get Services.
func TestRightsOfTheExporter(t *testing.T) {
	w := newWorld(t)
	got := w.tail()
	e := w.exporter(w.join.As(t, "exporter-test", []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get"}}}))
	w.run(e)
	w.event("a", w.uid(1), full)
	got.until(w.uids(1, 2), 1)
}
