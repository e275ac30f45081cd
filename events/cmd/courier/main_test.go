package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/events"
	"github.com/lbremedy/lbremedy/events/program"
	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/serve"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/scene"
)

// TestMain runs the courier's program instead of the tests where a test has started
// this binary for it.
func TestMain(m *testing.M) {
	if os.Getenv("COURIER_MAIN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for _, p := range pairs {
			if v, ok := strings.CutPrefix(p, name+"="); ok {
				return v
			}
		}
		return ""
	}
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Each mistake is told in a sentence that names it.
func TestMistakes(t *testing.T) {
	good := write(t, "routes", "default: {url: 'https://a'}")
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	natsless := []string{"--cluster=c1", "--routes=" + good, "--nats=nats://s3cr3t@127.0.0.1:1"}
	for name, tt := range map[string]struct {
		args  []string
		want  string
		usage bool
	}{
		"no routes":            {args: []string{"--cluster=c1"}, want: "name the routes file with --routes or LBREMEDY_ROUTES", usage: true},
		"no cluster ID":        {args: []string{"--routes=" + good}, want: "name the cluster with --cluster or LBREMEDY_CLUSTER", usage: true},
		"a bad cluster ID":     {args: []string{"--routes=" + good, "--cluster=a.b"}, want: `cluster ID "a.b" is not 1 to 64 letters`, usage: true},
		"an unknown flag":      {args: []string{"--clutser=a"}, want: "flag provided but not defined: -clutser; see --help", usage: true},
		"a word too many":      {args: []string{"--cluster=a", "now"}, want: `"now" is no flag`, usage: true},
		"no time to drain":     {args: []string{"--drain=-1s"}, want: "--drain: -1s is no time", usage: true},
		"an unknown log level": {args: append(natsless, "--log=loud"), want: `"loud" is no level: use debug, info, warn or error`, usage: true},
		"routes with mistakes": {args: []string{"--cluster=c1", "--routes=" + write(t, "r", "routes: {qouta: {url: x}, quota: {url: y}}")}, want: "line 1: routes.qouta: there is no such class", usage: true},
		"no such routes":       {args: []string{"--cluster=c1", "--routes=nowhere.yaml"}, want: "nowhere.yaml", usage: true},
		"no such table":        {args: append(natsless, "--table=nowhere.json"), want: "nowhere.json", usage: true},
		"a table with a typo":  {args: append(natsless, "--table="+write(t, "t", `[{"clas": "x"}]`)), want: `unknown field "clas"`, usage: true},
		"a port in use":        {args: append(natsless, "--listen="+busy.Addr().String()), want: "address already in use", usage: true},
		"no NATS":              {args: natsless, want: "no NATS server answers there"},
		"a check that fails":   {args: []string{"--check=" + write(t, "c", "routes: {quota: {url: y}}")}, want: "line 1: routes.quota.url: it is no URL such as", usage: true},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			err := run(t.Context(), tt.args, environment(), &out, &errs)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want an error with %q", err, tt.want)
			}
			var usage program.Mistake
			if errors.As(err, &usage) != tt.usage {
				t.Errorf("%v is a mistake in the flags: %v, want %v", err, !tt.usage, tt.usage)
			}
			if text := err.Error() + errs.String(); strings.Contains(text, "s3cr3t") {
				t.Errorf("the output tells a secret: %s", text)
			}
		})
	}
}

func TestHelpVersionAndCheck(t *testing.T) {
	for flagged, want := range map[string]string{"--help": "[$LBREMEDY_ROUTES]", "--version": version} {
		var out bytes.Buffer
		if err := run(t.Context(), []string{flagged}, environment("LBREMEDY_NATS_TOKEN=s3cr3t"), &out, &out); !errors.Is(err, flag.ErrHelp) {
			t.Errorf("%s: %v", flagged, err)
		}
		if !strings.Contains(out.String(), want) || strings.Contains(out.String(), "s3cr3t") {
			t.Errorf("%s prints %q", flagged, out.String())
		}
	}
	var out bytes.Buffer
	table := write(t, "table", `[{"class": "busy", "texts": ["is configuring"]}, {"class": "quota", "texts": ["too many"]}]`)
	err := run(t.Context(), []string{"--check=" + write(t, "routes", "routes: {busy: {url: 'https://a'}}"), "--table=" + table}, environment(), &out, io.Discard)
	if err != nil || !strings.Contains(out.String(), "is right: 1 of 3 classes have a route.\nThe messages of these stay: unclassified, quota.\n") {
		t.Errorf("%v: %s", err, out.String())
	}
}

// A process is the courier, by itself.
type process struct {
	args []string
	log  *os.File
	cmd  *exec.Cmd
}

func (p *process) start(t *testing.T) {
	t.Helper()
	p.cmd = exec.Command(os.Args[0], p.args...)
	p.cmd.Env = append(os.Environ(), "COURIER_MAIN=1", "LBREMEDY_NATS_TOKEN=t0ken")
	p.cmd.Stderr = p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

// end ends the process with a signal and returns how.
func (p *process) end(signal os.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil {
		return err
	}
	return p.cmd.Wait()
}

// Services fail on a real API server and a simulated cloud, and are healed by functions
// behind HTTP to which the courier brings the failures. It is killed while functions
// run, with what they have not answered yet, and started again: each Service heals, is
// written once, and the ledger balances.
func TestHealsThroughKills(t *testing.T) {
	const services = 6
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c := cluster.Alone(t)
	stage, err := scene.Start(ctx, scene.Options{Cluster: c, Namespace: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	defer stage.Close()
	server, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Port: -1, Token: "t0ken"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	st, err := stream.Connect(ctx, stream.Config{URL: server.URL(), Token: "t0ken"})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	whole := &host.Host{Remedies: functions.All}
	if _, err := st.Setup(ctx, whole.Classes(), stream.Settings{}); err != nil {
		t.Fatal(err)
	}
	if err := policy.Publish(ctx, st, remedy.Policy{Mode: remedy.Fix, Budgets: remedy.Budgets{Class: 100, Least: 100}}); err != nil {
		t.Fatal(err)
	}
	// The function is a door as its program opens it, with the rights of its class and no
	// others, and asks for a token.
	const class = "vswitch-ip-exhausted"
	h := &host.Host{Remedies: slices.DeleteFunc(slices.Clone(functions.All), func(r *remedy.Remedy) bool { return r.Class != class })}
	if h.Env, err = stage.Env(ctx, st, class); err != nil {
		t.Fatal(err)
	}
	h.Env.Who, h.Env.Watch = "http", 10*time.Second
	door := &serve.Door{Handle: h.Handle, Tokens: func() ([]string, error) { return []string{"kn0wn"}, nil }}
	behind := http.StripPrefix("/"+class, door.Handler())
	courier := &process{}
	var requests atomic.Int64
	kill := make(chan struct{}, 1)
	function := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := requests.Add(1)
		if n == 2 {
			kill <- struct{}{} // a run begins
		}
		behind.ServeHTTP(w, r)
		if n == services+2 {
			kill <- struct{}{} // a run has ended, and its answer is on its way
		}
	}))
	defer function.Close()

	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	health := free.Addr().String()
	free.Close()
	if courier.log, err = os.Create(filepath.Join(t.TempDir(), "log")); err != nil {
		t.Fatal(err)
	}
	defer courier.log.Close()
	token := write(t, "token", "kn0wn\n")
	routes := write(t, "routes.yaml", fmt.Sprintf("default: {url: '%s/{class}/', auth: {bearer: '%s'}}", function.URL, token))
	courier.args = []string{"--cluster=" + scene.ClusterID, "--nats=" + server.URL(), "--routes=" + routes, "--listen=" + health, "--drain=20s"}
	courier.start(t)
	defer func() { _ = courier.cmd.Process.Kill() }()

	x, err := stage.Exporter(ctx, st)
	if err != nil {
		t.Fatal(err)
	}
	exporting, stop := context.WithCancel(ctx)
	var wait sync.WaitGroup
	wait.Go(func() {
		if err := x.Run(exporting); err != nil && exporting.Err() == nil {
			t.Errorf("the exporter has ended: %v", err)
		}
	})
	defer wait.Wait()
	defer stop()

	marks := watchWrites(t, ctx, c)
	all := scene.All()
	full := all[slices.IndexFunc(all, func(s scene.Scene) bool {
		return s.Class == class && s.Ends == events.Fixed && s.On == scene.Setting{} && s.Playable()
	})]
	roles := scene.Bulk(full, "web", services)
	if err := stage.Play(ctx, roles...); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		select {
		case <-kill:
		case <-ctx.Done():
			t.Fatalf("the functions got %d requests", requests.Load())
		}
		if err := courier.end(syscall.SIGKILL); err == nil {
			t.Fatal("the courier was not killed")
		}
		courier.start(t)
	}
	if err := stage.Until(ctx, func() bool {
		return !slices.ContainsFunc(roles, func(r scene.Role) bool { return !stage.Healed(r.Service) })
	}); err != nil {
		t.Fatal(err)
	}
	for uid, written := range marks() {
		if len(written) != 1 {
			t.Errorf("Service %s was written %d times: %v", uid, len(written), written)
		}
	}
	if n := len(marks()); n != services {
		t.Errorf("%d Services were written, want %d", n, services)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		ledger, err := st.Ledger(ctx, scene.ClusterID, time.Now(), stream.Late)
		if err != nil {
			t.Fatal(err)
		}
		open := uint64(0)
		queues, err := st.Queues(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range queues {
			open += q.Undelivered + q.InHand
		}
		if open == 0 && ledger.Balanced() {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d messages wait; the ledger is %+v", open, ledger)
		}
	}
	if body := get(t, "http://"+health+"/readyz"); body != "ok\n" {
		t.Errorf("not ready: %s", body)
	}
	if body := get(t, "http://"+health+"/metrics"); !strings.Contains(body, `lbremedy_courier_posts_total{class="`+class+`",cluster="`+scene.ClusterID+`",status="2xx"}`) {
		t.Errorf("the metrics are %s", body)
	}
	if err := courier.end(syscall.SIGTERM); err != nil {
		t.Errorf("the courier ended with %v", err)
	}
	log, err := os.ReadFile(courier.log.Name())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(log), "kn0wn") || strings.Contains(string(log), "t0ken") || !strings.Contains(string(log), "the courier has ended") {
		t.Errorf("the log is %s", log)
	}
	t.Logf("%d Services, %d requests, 2 kills", services, requests.Load())
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// watchWrites notes each value that our annotation takes on each Service.
func watchWrites(t *testing.T, ctx context.Context, c *cluster.Cluster) func() map[string][]string {
	t.Helper()
	watch, err := c.Client().CoreV1().Services("shop").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watch.Stop)
	var mu sync.Mutex
	seen := map[string][]string{}
	go func() {
		for change := range watch.ResultChan() {
			svc, ok := change.Object.(*corev1.Service)
			if !ok {
				continue
			}
			mu.Lock()
			uid, mark := string(svc.UID), svc.Annotations[remedy.Resync]
			if mark != "" && !slices.Contains(seen[uid], mark) {
				seen[uid] = append(seen[uid], mark)
			}
			mu.Unlock()
		}
	}()
	return func() map[string][]string {
		mu.Lock()
		defer mu.Unlock()
		all := map[string][]string{}
		for uid, written := range seen {
			all[uid] = slices.Clone(written)
		}
		return all
	}
}
