// Package bench measures lbremedy's promises in one run on real parts: kube-apiserver and etcd, a JetStream that syncs each
// message to disk, the shipped programs, and the simulated cloud and controller.
//
//	make bench
//	go test -run '^$' -bench 'Figures/latency' ./test/bench
//
// Each benchmark runs once and reports its figures with their goals. Missing a goal is not a failure, because machines differ.
// Figures that depend on the machine are compared, alternating in the same run, with the plainest program for the same purpose.
// Begin with BenchmarkFigures; the methods of rig describe their benchmarks.
package bench

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/kubernetes"
	"github.com/lbremedy/lbremedy/test/shell"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		play(role)
		return
	}
	// Each benchmark is a whole run, so more iterations would only repeat it.
	flag.Parse()
	if f := flag.Lookup("test.benchtime"); f.Value.String() == f.DefValue {
		if err := f.Value.Set("1x"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func BenchmarkFigures(b *testing.B) {
	r := &rig{dir: b.TempDir(), top: b, built: map[string]bool{}}
	load := loadAverage()
	began := time.Now()
	for _, part := range []struct {
		name    string
		measure func(*rig, *testing.B)
	}{
		// lbremedy would process the load of other benchmarks, so it ends after these two.
		{"heal", (*rig).heal},
		{"write", (*rig).write},
		{"latency", (*rig).latency},
		{"burst", (*rig).burst},
		{"stored", (*rig).stored},
		{"worker", (*rig).worker},
		{"broken", (*rig).broken},
		{"sustained", (*rig).sustained},
		{"soak", (*rig).soak},
		{"cause", (*rig).cause},
		{"scale", (*rig).scale},
		{"remote", (*rig).remote},
		{"classify", (*rig).classify},
		{"size", (*rig).size},
		{"start", (*rig).start},
		{"idle", (*rig).idle},
		{"memory", (*rig).memory},
	} {
		b.Run(part.name, func(b *testing.B) {
			b.ReportMetric(0, "ns/op") // a run has no operations
			r.part = part.name
			part.measure(r, b)
		})
	}
	fmt.Printf("\n%d cores, load %s at the start and %s at the end, %s in all\n\n", runtime.NumCPU(), load, loadAverage(), time.Since(began).Round(time.Second))
	r.print()
}

// A rig has the shared parts of the benchmarks. Parts start at their first use, and end with the rig.
type rig struct {
	dir  string
	top  *testing.B // its cleanup ends the shared parts
	part string     // the running benchmark

	built       map[string]bool // programs, by their folder
	clusterOnce sync.Once
	shared      *cluster.Cluster
	natsOnce    sync.Once
	bus         *nats
	upOnce      sync.Once
	running     *up

	rows []row
}

type row struct {
	part, what, unit string
	got, goal        float64
	bound            int // -1: goal is a maximum; 1: a minimum; 0: no goal
}

func (r *rig) report(b *testing.B, what, unit string, got, goal float64, bound int) {
	b.Helper()
	r.rows = append(r.rows, row{r.part, what, unit, got, goal, bound})
	name := strings.ReplaceAll(strings.TrimSpace(what+" "+unit), " ", "-")
	b.ReportMetric(got, name)
	if bound != 0 {
		b.ReportMetric(goal, name+"-goal")
	}
}

func (r *rig) atMost(b *testing.B, what, unit string, got, goal float64) {
	b.Helper()
	r.report(b, what, unit, got, goal, -1)
}

func (r *rig) atLeast(b *testing.B, what, unit string, got, goal float64) {
	b.Helper()
	r.report(b, what, unit, got, goal, 1)
}

func (r *rig) note(b *testing.B, what, unit string, got float64) {
	b.Helper()
	r.report(b, what, unit, got, 0, 0)
}

func (r *rig) print() {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tfigure\tmeasured\tgoal\tof the goal\tmet")
	last := ""
	for _, f := range r.rows {
		part := f.part
		if part == last {
			part = ""
		}
		last = f.part
		goal, ratio, met := "", "", ""
		if f.bound != 0 {
			word := map[int]string{-1: "≤", 1: "≥"}[f.bound]
			goal, ratio, met = word+" "+number(f.goal)+" "+f.unit, fmt.Sprintf("%.0f %%", 100*f.got/f.goal), "yes"
			if (f.got-f.goal)*float64(f.bound) < 0 {
				met = "no"
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s %s\t%s\t%s\t%s\n", part, f.what, number(f.got), f.unit, goal, ratio, met)
	}
	if err := w.Flush(); err != nil {
		r.top.Error(err)
	}
}

func number(f float64) string {
	switch {
	case f >= 100 || f == float64(int(f)):
		return fmt.Sprintf("%.0f", f)
	case f >= 10:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.2f", f)
}

// cluster returns the run's API server for exclusive use, or starts one that also syncs to disk.
func (r *rig) cluster(b *testing.B) *cluster.Cluster {
	b.Helper()
	r.clusterOnce.Do(func() {
		if os.Getenv("LBREMEDY_SANDBOX") != "" {
			r.shared = cluster.Alone(r.top)
			return
		}
		c, stop, err := cluster.Start(context.Background(), cluster.Options{})
		if err != nil {
			b.Fatal(err)
		}
		r.top.Cleanup(stop)
		r.shared = c
	})
	if r.shared == nil {
		b.Fatal("there is no API server")
	}
	return r.shared
}

func (r *rig) client(b *testing.B) *kubernetes.Client {
	b.Helper()
	config := rest.CopyConfig(r.cluster(b).Config)
	config.ContentType, config.AcceptContentTypes = apiruntime.ContentTypeProtobuf, apiruntime.ContentTypeProtobuf
	client, err := kubernetes.New(config)
	if err != nil {
		b.Fatal(err)
	}
	return client
}

func (r *rig) namespace(b *testing.B, name string) string {
	b.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + strings.ToLower(rand.Text()[:6])}}
	if _, err := r.client(b).CoreV1().Namespaces().Create(b.Context(), ns, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	return ns.Name
}

// program returns the path of a program built as for a release. folder is relative to the root, such as events/cmd/exporter.
func (r *rig) program(b *testing.B, folder string) string {
	b.Helper()
	r.build(b, folder)
	return filepath.Join(r.dir, "programs", filepath.Base(folder))
}

func (r *rig) build(b *testing.B, folders ...string) {
	b.Helper()
	folders = slices.DeleteFunc(slices.Clone(folders), func(f string) bool { return r.built[filepath.Base(f)] })
	if len(folders) == 0 {
		return
	}
	dir := filepath.Join(r.dir, "programs")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	var packages []string
	for _, f := range folders {
		packages = append(packages, "./"+f)
	}
	if err := shell.Build(dir, packages); err != nil {
		b.Fatal(err)
	}
	for _, f := range folders {
		r.built[filepath.Base(f)] = true
	}
}

func (r *rig) functions(b *testing.B) []string {
	b.Helper()
	found, err := filepath.Glob("../../functions/*/cmd/*")
	if err != nil {
		b.Fatal(err)
	}
	for i, f := range found {
		found[i] = strings.TrimPrefix(filepath.ToSlash(f), "../../")
	}
	return found
}

func classes() []string {
	ids := make([]string, len(functions.All))
	for i, r := range functions.All {
		ids[i] = r.Class
	}
	return ids
}

type nats struct {
	url, token string
	process    *process // nil: part of "lbremedy up"
}

func (n *nats) jetstream(b *testing.B) (js jetstream.JetStream, end func()) {
	b.Helper()
	nc, err := natsgo.Connect(n.url, natsgo.Token(n.token))
	if err != nil {
		b.Fatal(err)
	}
	if js, err = jetstream.New(nc); err != nil {
		b.Fatal(err)
	}
	return js, nc.Close
}

func (r *rig) startNATS(b *testing.B) *nats {
	b.Helper()
	n := &nats{token: rand.Text()}
	p := begin(r.top, os.Args[0], roleVariable+"=nats", "LBREMEDY_BENCH_DIR="+r.top.TempDir(), "LBREMEDY_NATS_TOKEN="+n.token)
	line, err := p.line()
	if err != nil {
		b.Fatalf("start NATS: %v", err)
	}
	n.url, n.process = line, p
	s := n.connect(b)
	if _, err := s.Setup(b.Context(), classes(), stream.Settings{Clusters: []string{clusterID, testbedID}}); err != nil {
		b.Fatal(err)
	}
	return n
}

func (r *rig) nats(b *testing.B) *nats {
	b.Helper()
	r.natsOnce.Do(func() { r.bus = r.startNATS(b) })
	if r.bus == nil {
		b.Fatal("there is no NATS")
	}
	return r.bus
}

func (n *nats) connect(b *testing.B) *stream.Stream {
	b.Helper()
	s, err := stream.Connect(b.Context(), stream.Config{URL: n.url, Token: n.token})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	return s
}

type sightings struct {
	mu   sync.Mutex
	at   map[string]time.Time
	news chan struct{} // closed at the next change
}

func newSightings() *sightings {
	return &sightings{at: map[string]time.Time{}, news: make(chan struct{})}
}

func (s *sightings) see(name string) { s.seeAt(name, time.Now()) }

func (s *sightings) seeAt(name string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.at[name]; ok {
		return
	}
	s.at[name] = at
	close(s.news)
	s.news = make(chan struct{})
}

func (s *sightings) forget(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		delete(s.at, name)
	}
}

func (s *sightings) wait(b *testing.B, limit time.Duration, names ...string) []time.Time {
	b.Helper()
	timeout := time.After(limit)
	at := make([]time.Time, 0, len(names))
	for i := 0; i < len(names); {
		s.mu.Lock()
		t, ok := s.at[names[i]]
		news := s.news
		s.mu.Unlock()
		if ok {
			at = append(at, t)
			i++
			continue
		}
		select {
		case <-news:
		case <-timeout:
			b.Fatalf("after %s, %d of %d were seen; %s was not", limit, i, len(names), names[i])
		}
	}
	return at
}

func await(b *testing.B, limit time.Duration, ok func() error) {
	b.Helper()
	end := time.Now().Add(limit)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ok()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			b.Fatalf("after %s: %v", limit, err)
		}
		<-tick.C
	}
}

func alike(goroutines, n int, do func(int) error) error {
	next := make(chan int)
	errs := make(chan error, goroutines)
	var wait sync.WaitGroup
	for range goroutines {
		wait.Go(func() {
			var err error
			for i := range next { // drained after an error to unblock the sender
				if err == nil {
					err = do(i)
				}
			}
			errs <- err
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wait.Wait()
	close(errs)
	var all []error
	for err := range errs {
		all = append(all, err)
	}
	return errors.Join(all...)
}

func uids(n int) []string {
	run := make([]byte, 4)
	rand.Read(run)
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s-0000-4000-8000-%012x", hex.EncodeToString(run), i)
	}
	return ids
}

func quantile[T cmp.Ordered](values []T, part float64) T {
	slices.Sort(values)
	return values[min(int(part*float64(len(values))), len(values)-1)]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
