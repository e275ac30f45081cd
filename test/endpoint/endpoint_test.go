// Package endpoint runs the program of a function as Function Compute and Knative do, built
// as it is shipped, on a real API server, a real JetStream and a simulated cloud.
//
// One class goes through all that may happen, and every class through both runtimes.
package endpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/shell"
	"github.com/lbremedy/lbremedy/test/sim"
)

const class = "tag-missing"

// programs builds the programs of all classes, once for all tests, and returns the
// folder where they are, each by the name of its class's folder.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "lbremedy-endpoint")
	if err != nil {
		return "", err
	}
	mains, err := filepath.Glob("../../functions/*/cmd/*")
	if err != nil {
		return "", err
	}
	var packages []string
	for _, main := range mains {
		if !strings.Contains(main, "functions/cmd/") {
			packages = append(packages, "."+strings.TrimPrefix(main, "../.."))
		}
	}
	return dir, shell.Build(dir, packages)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := programs(); err == nil {
		_ = os.RemoveAll(dir) // what is left lies among temporary files
	}
	os.Exit(code)
}

// A world is what a function needs: a Service that has failed, a cloud, a stream.
type world struct {
	cloud  *sim.Cloud
	gate   *gate // before the cloud
	nats   *gate // before NATS
	key    sim.Credentials
	svc    *corev1.Service
	env    []string
	stream *stream.Stream
}

func build(t *testing.T) *world {
	t.Helper()
	server := nats.Start(t, embedded.Options{Token: "sesame"})
	w := &world{cloud: sim.New(t, nil)}
	w.key = w.cloud.Client("function", "*")
	w.gate, w.nats = newGate(t, w.cloud.Addr()), newGate(t, strings.TrimPrefix(server.URL(), "nats://"))
	w.stream = nats.Connect(t, stream.Config{URL: server.URL(), Token: "sesame"})
	if _, err := w.stream.Setup(t.Context(), (&host.Host{Remedies: functions.All}).Classes(), stream.Settings{Clusters: []string{"c-1"}}); err != nil {
		t.Fatal(err)
	}
	k := cluster.Join(t)
	var err error
	w.svc, err = k.Client().CoreV1().Services(k.Namespace(t)).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Finalizers: []string{"service.k8s.alibaba/resources"}},
		Spec:       corev1.ServiceSpec{Type: "LoadBalancer", Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(),
		"LBREMEDY_CLUSTER=c-1", "LBREMEDY_REGION=" + w.cloud.Region(), "LBREMEDY_KUBECONFIG=" + k.Kubeconfig,
		"LBREMEDY_NATS=nats://" + w.nats.addr(), "LBREMEDY_NATS_TOKEN=sesame",
		"LBREMEDY_CLOUD_ENDPOINT=" + w.gate.addr(), "LBREMEDY_CLOUD_SCHEME=HTTP",
	}
	return w
}

// own adds credentials that the program has of its own.
func (w *world) own() []string {
	return []string{"ALIBABA_CLOUD_ACCESS_KEY_ID=" + w.key.AccessKeyID, "ALIBABA_CLOUD_ACCESS_KEY_SECRET=" + w.key.Secret}
}

// event returns a failure of the Service, another one for each version.
func (w *world) event(t *testing.T, version string) []byte {
	t.Helper()
	return failure(t, class, version, w.svc.Namespace, w.svc.Name, string(w.svc.UID))
}

// failure returns a failure of any class and Service.
func failure(t *testing.T, class, version, namespace, name, uid string) []byte {
	t.Helper()
	e, err := event.NewFailed(event.Failure{
		Cluster: "c-1", Class: class, Reason: "SyncLoadBalancerFailed", Type: "Warning", Component: "service-controller",
		Message: "Error syncing load balancer []: apply model error: alicloud: can not find loadbalancer by tag [kubernetes.do.not.delete:x]",
		Service: event.Service{Namespace: namespace, Name: name, UID: uid},
		Event:   event.Reference{Name: "web.1", UID: "11111111-1111-1111-1111-111111111111", ResourceVersion: version},
		Count:   1, First: time.Now(), Last: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := event.EncodeJSON(e)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A gate passes connections on, unless it is shut: then they wait until it opens.
type gate struct {
	listen  net.Listener
	arrived chan struct{} // gets one for each connection that finds it shut

	mu   sync.Mutex
	shut chan struct{} // nil: it is open
	mute chan struct{} // closed: the connections of before carry nothing more
	live []net.Conn
}

func newGate(t *testing.T, to string) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{listen: l, arrived: make(chan struct{}, 100), mute: make(chan struct{})}
	t.Cleanup(func() { l.Close(); g.open() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			g.mu.Lock()
			shut, mute := g.shut, g.mute
			g.mu.Unlock()
			go func() {
				defer in.Close()
				if shut != nil {
					g.arrived <- struct{}{}
					<-shut
				}
				out, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer out.Close()
				g.mu.Lock()
				g.live = append(g.live, in, out)
				g.mu.Unlock()
				ended := make(chan struct{}, 2)
				pass := func(to, from net.Conn) {
					defer func() { ended <- struct{}{} }()
					b := make([]byte, 32<<10)
					for {
						n, err := from.Read(b)
						select {
						case <-mute:
							_, _ = io.Copy(io.Discard, from) // until it gives up
							return
						default:
						}
						if _, failed := to.Write(b[:n]); failed != nil || err != nil {
							return
						}
					}
				}
				go pass(out, in)
				go pass(in, out)
				<-ended
			}()
		}
	}()
	return g
}

func (g *gate) addr() string { return g.listen.Addr().String() }

// close makes new connections wait until it opens.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}

// cut ends the connections of now.
func (g *gate) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.live {
		_ = c.Close() // it may have ended
	}
	g.live = nil
}

// deaden lets the connections of now carry nothing more, without ending them: as those
// of a frozen instance, which its peers have given up.
func (g *gate) deaden() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.mute)
	g.mute = make(chan struct{})
}

// A function is a running program.
type function struct {
	*exec.Cmd
	url string // empty under the Go runtime

	mu    sync.Mutex
	text  bytes.Buffer
	ready chan string
	ended chan error
}

// Write takes lines of the log.
func (f *function) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.text.Write(b)
	for text := range bytes.Lines(b) {
		var line struct{ Msg, Address string }
		if json.Unmarshal(text, &line) == nil && line.Msg == "function is ready" {
			f.ready <- line.Address
		}
	}
	return len(b), nil
}

func (f *function) log() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.text.String()
}

// logged waits until the log holds what the pattern finds n times, and no less.
func (f *function) logged(t *testing.T, pattern string, n int) {
	t.Helper()
	find := regexp.MustCompile(pattern)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(20 * time.Second)
	for len(find.FindAllString(f.log(), -1)) < n {
		select {
		case <-tick.C: // what the program writes comes by a pipe
		case <-late:
			t.Fatalf("the log does not say %q %d times:\n%s", pattern, n, f.log())
		}
	}
}

// start starts the program and waits until it is ready.
func (w *world) start(t *testing.T, env ...string) *function {
	t.Helper()
	return w.startOf(t, class, env...)
}

// startOf starts the program of any class.
func (w *world) startOf(t *testing.T, class string, env ...string) *function {
	t.Helper()
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	f := &function{Cmd: exec.Command(filepath.Join(dir, strings.ReplaceAll(class, "-", ""))), ready: make(chan string, 1), ended: make(chan error, 1)}
	f.Env, f.Stderr = append(append([]string{}, w.env...), env...), f
	if err := f.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { f.ended <- f.Wait() }()
	t.Cleanup(func() {
		_ = f.Process.Kill() // it may have ended
		for line := range strings.Lines(f.log()) {
			if strings.Count(line, `"class":`) > 1 {
				t.Errorf("a line of the log names the class twice: %s", line)
			}
		}
		if t.Failed() {
			t.Log(f.log())
		}
	})
	select {
	case address := <-f.ready:
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		f.url = "http://127.0.0.1:" + port
	case err := <-f.ended:
		t.Fatalf("it ended: %v\n%s", err, f.log())
	case <-time.After(time.Minute):
		t.Fatalf("it is not ready\n%s", f.log())
	}
	return f
}

// ends checks that the program ends in good order.
func (f *function) ends(t *testing.T) {
	t.Helper()
	select {
	case err := <-f.ended:
		if err != nil {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("it does not end")
	}
}

// post sends an event to a path and returns the answer with its body.
func (f *function) post(t *testing.T, client *http.Client, path, media string, body []byte, header map[string]string) (*http.Response, string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", media)
	for k, v := range header {
		q.Header.Set(k, v)
	}
	a, err := client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a, string(text)
}

const structured = "application/cloudevents+json"

// settled returns the event of the world's Service that was settled last, and how. Both
// are empty if none was.
func (w *world) settled(t *testing.T) (string, event.Result) {
	t.Helper()
	r := w.last(t, class, string(w.svc.UID))
	if r.Phase != event.Settled {
		return "", ""
	}
	return r.Event, r.Result
}

// last returns the last record of a Service and class, as it stands since the last run
// that ended as it says; the zero record if there is none.
func (w *world) last(t *testing.T, class, uid string) event.Record {
	t.Helper()
	var r event.Record
	m, err := w.stream.Journal("c-1", uid, class).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if m == nil {
		return r
	}
	if err := json.Unmarshal(m.Data, &r); err != nil {
		t.Fatal(err)
	}
	var since event.Running
	data, err := w.stream.Get(t.Context(), event.RunKey("c-1", uid, class))
	if err == nil {
		err = json.Unmarshal(data, &since)
	}
	if err != nil && !errors.Is(err, stream.ErrNotFound) {
		t.Fatal(err)
	}
	return since.Since(r)
}

// isSettled checks that the event of this version is.
func (w *world) isSettled(t *testing.T, version string) {
	t.Helper()
	if event, how := w.settled(t); !strings.HasSuffix(event, "."+version) || !how.Settled() {
		t.Errorf("the journal has settled %q as %q, and not version %s", event, how, version)
	}
}

func stop(t *testing.T, f *function) {
	t.Helper()
	if err := f.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// refuses waits until a program takes no more connections.
func (f *function) refuses(ctx context.Context) {
	for ctx.Err() == nil {
		c, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
		if err != nil {
			return
		}
		c.Close()
	}
}
