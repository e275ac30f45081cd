// Package endpoint runs a function's program, built as shipped, as Function Compute and Knative do, on a real API server and a
// simulated cloud, and calls it as the engine does. One class is tested in all situations, and every class in both runtimes.
package endpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say/chinese"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/shell"
	"github.com/lbremedy/lbremedy/test/sim"
)

const class = "tag-missing"

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
		_ = os.RemoveAll(dir) // only temporary files remain
	}
	os.Exit(code)
}

type world struct {
	cloud   *sim.Cloud
	gate    *gate // in front of the cloud
	key     sim.Credentials
	cluster *kube.Cluster
	svc     *corev1.Service
	engine  hand.Key
	env     []string
	touched int // number of orders, each with its own mark
}

func build(t *testing.T) *world {
	t.Helper()
	w := &world{cloud: sim.New(t, &sim.World{
		Cluster: sim.Cluster{ID: "c-1", VPC: "vpc-1"}, VPCs: []sim.VPC{{ID: "vpc-1"}}, VSwitches: []sim.VSwitch{{ID: "vsw-1", VPC: "vpc-1"}},
	})}
	w.key = w.cloud.Client("function", "*")
	w.gate = newGate(t, w.cloud.Addr())
	k := cluster.Join(t)
	var err error
	w.svc, err = k.Client().CoreV1().Services(k.Namespace(t)).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Finalizers: []string{"service.k8s.alibaba/resources"}, Annotations: map[string]string{ccm.Prefix + "id": "lb-bp1gone000000000000"},
		},
		Spec: corev1.ServiceSpec{Type: "LoadBalancer", Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := kube.Load(k.Kubeconfig, "")
	if err == nil {
		w.cluster, err = kube.New(config)
	}
	if err != nil {
		t.Fatal(err)
	}
	if w.engine, err = hand.NewKey(); err != nil {
		t.Fatal(err)
	}
	w.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(),
		"LBREMEDY_CLUSTER=c-1", "LBREMEDY_REGION=" + w.cloud.Region(), "LBREMEDY_KUBECONFIG=" + k.Kubeconfig, "LBREMEDY_ENGINE_KEYS=" + w.engine.Public(),
		"LBREMEDY_CLOUD_ENDPOINT=" + w.gate.addr(), "LBREMEDY_CLOUD_SCHEME=HTTP",
	}
	return w
}

func (w *world) own() []string {
	return []string{"ALIBABA_CLOUD_ACCESS_KEY_ID=" + w.key.AccessKeyID, "ALIBABA_CLOUD_ACCESS_KEY_SECRET=" + w.key.Secret}
}

func remedyOf(t *testing.T, class string) *remedy.Remedy {
	t.Helper()
	i := slices.IndexFunc(functions.All, func(r *remedy.Remedy) bool { return r.Class == class })
	if i < 0 {
		t.Fatalf("the class %s does not exist", class)
	}
	return functions.All[i]
}

func (w *world) hand(r *remedy.Remedy, send func(context.Context, []byte) ([]byte, error)) *hand.Remote {
	return &hand.Remote{
		Class: r, Key: w.engine, Decode: step.Decode, Known: functions.Chinese(chinese.Language)().Has, Send: send, Read: w.cluster.Service,
	}
}

func (w *world) about(t *testing.T, class string) hand.About {
	t.Helper()
	svc, err := w.cluster.Service(t.Context(), w.svc.Namespace, w.svc.Name)
	if err != nil {
		t.Fatal(err)
	}
	return hand.About{
		Class: class, Case: "3f9a12bc-1", Attempt: 1, Service: svc, Now: time.Now(),
		Failure: event.Failure{
			Cluster: "c-1", Class: class, Reason: "SyncLoadBalancerFailed", Type: "Warning", Component: "service-controller",
			Message: "Error syncing load balancer []: apply model error: alicloud: can not find loadbalancer by tag [kubernetes.do.not.delete:x]",
			Service: event.Service{Namespace: svc.Namespace, Name: svc.Name, UID: string(svc.UID)},
			Event:   event.Reference{Name: "web.1", UID: "11111111-1111-1111-1111-111111111111", ResourceVersion: "1"},
			Count:   1, First: time.Now(), Last: time.Now(),
		},
	}
}

func (w *world) looks(t *testing.T, h *hand.Remote) error {
	t.Helper()
	a, err := h.Look(t.Context(), hand.LookRequest{About: w.about(t, h.Class.Class), For: hand.Diagnose})
	if err == nil && a.Verdict == remedy.Yes && a.Plan == nil {
		t.Error("there is neither a plan nor an error")
	}
	return err
}

func (w *world) touches(t *testing.T, h *hand.Remote) (hand.ApplyAnswer, error) {
	t.Helper()
	steps, err := hand.Steps([]remedy.Step{step.Resync{}})
	if err != nil {
		t.Fatal(err)
	}
	about := w.about(t, h.Class.Class)
	w.touched++
	about.Attempt = w.touched
	return h.Apply(t.Context(), hand.Order{About: about, Step: steps[0], Fresh: true})
}

func (w *world) orders(t *testing.T, h *hand.Remote) {
	t.Helper()
	a, err := w.touches(t, h)
	if err != nil || a.State != hand.Done || len(a.Calls) != 1 {
		t.Errorf("the order: %+v, %v", a, err)
	}
	about := w.about(t, h.Class.Class)
	if mark := about.Service.Annotations[ccm.Resync]; mark != fmt.Sprintf("%s.%d", about.Case, w.touched) {
		t.Errorf("the Service has the mark %q", mark)
	}
}

// A gate forwards connections; while it is shut, they wait.
type gate struct {
	listen  net.Listener
	arrived chan struct{} // receives for each connection while it is shut

	mu   sync.Mutex
	shut chan struct{} // nil: open
	live []net.Conn
}

func newGate(t *testing.T, to string) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{listen: l, arrived: make(chan struct{}, 100)}
	t.Cleanup(func() { l.Close(); g.open() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			g.mu.Lock()
			shut := g.shut
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
					_, _ = io.Copy(to, from) // until one side ends
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

func (g *gate) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.live {
		_ = c.Close() // it may have ended
	}
	g.live = nil
}

type function struct {
	*exec.Cmd
	url string // empty with the Go runtime

	mu    sync.Mutex
	text  bytes.Buffer
	ready chan string
	ended chan error
}

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

func (f *function) logged(t *testing.T, pattern string, n int) {
	t.Helper()
	find := regexp.MustCompile(pattern)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(20 * time.Second)
	for len(find.FindAllString(f.log(), -1)) < n {
		select {
		case <-tick.C: // the program's output arrives by a pipe
		case <-late:
			t.Fatalf("the log does not say %q %d times:\n%s", pattern, n, f.log())
		}
	}
}

func (w *world) start(t *testing.T, env ...string) *function {
	t.Helper()
	return w.startOf(t, class, env...)
}

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

func (f *function) posts(client *http.Client, path string, header map[string]string) func(context.Context, []byte) ([]byte, error) {
	return func(ctx context.Context, call []byte) ([]byte, error) {
		a, text, err := f.post(ctx, client, path, call, header)
		if err == nil && a.Header.Get("x-fc-status") != "200" {
			err = fmt.Errorf("status %d, x-fc-status %s", a.StatusCode, a.Header.Get("x-fc-status"))
		}
		return text, err
	}
}

func (f *function) post(ctx context.Context, client *http.Client, path string, call []byte, header map[string]string) (*http.Response, []byte, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url+path, bytes.NewReader(call))
	if err != nil {
		return nil, nil, err
	}
	for k, v := range header {
		q.Header.Set(k, v)
	}
	a, err := client.Do(q)
	if err != nil {
		return nil, nil, err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	return a, text, err
}

func stop(t *testing.T, f *function) {
	t.Helper()
	if err := f.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

func (f *function) refuses(ctx context.Context) {
	for ctx.Err() == nil {
		c, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
		if err != nil {
			return
		}
		c.Close()
	}
}
