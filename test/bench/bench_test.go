// Package bench measures what lbremedy promises, all of it in one run and on real
// parts: kube-apiserver and etcd, JetStream that syncs each message to disk, the
// programs as they are shipped, the simulated cloud and its controller.
//
//	make bench
//	go test -run '^$' -bench 'Figures/latency' ./test/bench
//
// Each benchmark runs once and reports its figures with the goal beside each; the
// last thing printed is a table of them all. A figure that misses its goal fails
// nothing: machines differ. What depends on the machine is therefore measured
// beside the plainest program that could do the same, in turns, in the same run.
//
//   - latency: the exporter program, and NATS in a process of its own. Events are
//     created at 50 a second. Time runs from the API server's answer to the create
//     until a reader of FAILED has the message, which JetStream hands out after it
//     has synced it. So the way to the reader counts, and the create does not. The
//     bare program watches with the same selection and publishes each Event as it
//     comes, one after the other.
//   - burst: 3,000 Events created by 16 clients at once, from the first request until
//     a reader of FAILED has the last message. Each is about a LoadBalancer Service of its own, which was there before.
//     Ratios are of the median rounds.
//   - stored: the exporter program starts without saved progress on 5,000 stored failures, a
//     hundred in each namespace. LBREMEDY_BENCH_FAILURES says another number.
//   - write: "lbremedy up", which is exporter, JetStream and worker in one process.
//     Time runs from the API server's answer to the create of an Event until a watch
//     of Services shows lbremedy's write. No controller runs for these Services; the
//     benchmark leaves the marks of one, so that each case ends before the next
//     begins. The bare program reads the Service that the Event is about and writes
//     an annotation. At once: 100 Services fail, until the last of them is written.
//   - heal: the controller as well, with the delays of the real one. Time runs from
//     the first failure that a watch shows until one shows the Service synced.
//   - memory: the exporter program, with 100,000 stored Events of Pods and 1,000 a
//     second more of them. LBREMEDY_BENCH_EVENTS stores another number.
//   - size, start: the function programs as they are built for release, and how long
//     one takes until it says that it is ready, beside an empty HTTP server. Medians of 15.
//   - idle: the memory of a function program that nobody calls.
//   - worker: events of Services that are gone, and the same events once more, which
//     the journal answers. The worker is in this process, NATS in another.
//   - broken: 1,000 Services that stay broken, in three ways, and what they leave in the
//     streams after 30 days of a clock that runs fast, at one failure a day. At one in
//     five minutes it is the same: TestStaysBroken of shared/engine has 8,640 of them.
//   - cause: 1,000 Services that fail at once for one cause of the account, until each has
//     its outcome, and the same for 100. LBREMEDY_BENCH_SCALE says another number, as
//     "make bench SCALE=10000" does.
//   - scale: the same with whole programs, 200 nodes and 500 load balancers: what "lbremedy up", or exporter, worker, notifier
//     and ledger each on its own, take in memory and CPU, and how many tickets there are.
//   - sustained: 1,000 failures a second of 100 clusters on one NATS, for 20 s or as long as LBREMEDY_BENCH_SUSTAINED says,
//     such as 10m: whether each was delivered, and how late.
//   - soak: as many failures as there are in 8 hours of a controller that retries every five minutes, one round after the
//     other, with Services that come and go: whether memory, goroutines, file handles, journal and consumers stay level.
//   - remote: as write, one Service after the other, where a function in a process of its own handles the class.
//   - classify: one message of the corpus of package event.
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
	// Each benchmark is a run of its own, which more iterations would only repeat.
	flag.Parse()
	if f := flag.Lookup("test.benchtime"); f.Value.String() == f.DefValue {
		if err := f.Value.Set("1x"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// BenchmarkFigures measures all figures and prints their table.
func BenchmarkFigures(b *testing.B) {
	r := &rig{dir: b.TempDir(), top: b, built: map[string]bool{}}
	load := loadAverage()
	began := time.Now()
	for _, part := range []struct {
		name    string
		measure func(*rig, *testing.B)
	}{
		// lbremedy would take in all that comes after these two, so that it ends with them.
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

// A rig holds what the benchmarks share. Its parts start when the first of them
// asks, and end with the rig.
type rig struct {
	dir  string
	top  *testing.B // ends what the benchmarks share
	part string     // the benchmark that runs

	built       map[string]bool // programs, by the name of their folder
	clusterOnce sync.Once
	shared      *cluster.Cluster
	natsOnce    sync.Once
	bus         *nats
	upOnce      sync.Once
	running     *up

	rows []row
}

// A row is one line of the table.
type row struct {
	part, what, unit string
	got, goal        float64
	bound            int // -1: at most the goal; 1: at least; 0: without a goal
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

// atMost reports a figure that should not be larger than its goal.
func (r *rig) atMost(b *testing.B, what, unit string, got, goal float64) {
	b.Helper()
	r.report(b, what, unit, got, goal, -1)
}

// atLeast reports a figure that should not be smaller than its goal.
func (r *rig) atLeast(b *testing.B, what, unit string, got, goal float64) {
	b.Helper()
	r.report(b, what, unit, got, goal, 1)
}

// note reports a figure that others are compared with.
func (r *rig) note(b *testing.B, what, unit string, got float64) {
	b.Helper()
	r.report(b, what, unit, got, 0, 0)
}

// print prints the table of all figures.
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

// number writes a figure with three digits that count, and whole if it is large.
func number(f float64) string {
	switch {
	case f >= 100 || f == float64(int(f)):
		return fmt.Sprintf("%.0f", f)
	case f >= 10:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.2f", f)
}

// cluster returns the API server of the run, for this benchmark alone. Where the
// run has none, one is started that syncs to disk, as the run's does.
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

// client returns a client that costs little to create many objects with.
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

// namespace makes a namespace with a name of its own.
func (r *rig) namespace(b *testing.B, name string) string {
	b.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + strings.ToLower(rand.Text()[:6])}}
	if _, err := r.client(b).CoreV1().Namespaces().Create(b.Context(), ns, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	return ns.Name
}

// program returns the file of a program, built as for a release: of a folder
// below the root, such as events/cmd/exporter.
func (r *rig) program(b *testing.B, folder string) string {
	b.Helper()
	r.build(b, folder)
	return filepath.Join(r.dir, "programs", filepath.Base(folder))
}

// build builds those of the programs that this run has not built yet.
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

// functions returns the folders of the function programs.
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

// classes returns the IDs of all classes.
func classes() []string {
	ids := make([]string, len(functions.All))
	for i, r := range functions.All {
		ids[i] = r.Class
	}
	return ids
}

// A nats is a NATS server in a process of its own.
type nats struct {
	url, token string
	process    *process // nil: it is one of "lbremedy up"
}

// jetstream returns a connection of the benchmark's own.
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

// startNATS starts a server that syncs each message to disk, with all streams.
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

// nats returns the server that the exporter's benchmarks share.
func (r *rig) nats(b *testing.B) *nats {
	b.Helper()
	r.natsOnce.Do(func() { r.bus = r.startNATS(b) })
	if r.bus == nil {
		b.Fatal("there is no NATS")
	}
	return r.bus
}

// connect connects to the server until the benchmark ends.
func (n *nats) connect(b *testing.B) *stream.Stream {
	b.Helper()
	s, err := stream.Connect(b.Context(), stream.Config{URL: n.url, Token: n.token})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	return s
}

// sightings are the moments at which something was first seen, by its name.
type sightings struct {
	mu   sync.Mutex
	at   map[string]time.Time
	news chan struct{} // closed when there is more
}

func newSightings() *sightings {
	return &sightings{at: map[string]time.Time{}, news: make(chan struct{})}
}

// see notes that the thing is there now.
func (s *sightings) see(name string) { s.seeAt(name, time.Now()) }

// seeAt notes that the thing was there at a time.
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

// forget lets them be seen anew.
func (s *sightings) forget(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		delete(s.at, name)
	}
}

// wait returns when all of them have been seen, with the moments in their order.
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

// await asks every few milliseconds until ok returns nil.
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

// alike calls do for 0 to n-1 from some goroutines at once. The first error ends it.
func alike(goroutines, n int, do func(int) error) error {
	next := make(chan int)
	errs := make(chan error, goroutines)
	var wait sync.WaitGroup
	for range goroutines {
		wait.Go(func() {
			var err error
			for i := range next { // drained after an error, so that nobody blocks
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

// uids returns n UIDs that no others have.
func uids(n int) []string {
	run := make([]byte, 4)
	rand.Read(run)
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s-0000-4000-8000-%012x", hex.EncodeToString(run), i)
	}
	return ids
}

// quantile returns the value below which a part of the values is. It sorts them.
func quantile[T cmp.Ordered](values []T, part float64) T {
	slices.Sort(values)
	return values[min(int(part*float64(len(values))), len(values)-1)]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// loadAverage returns how many threads wanted to run in the last minute; "unknown"
// where the system doesn't say.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
