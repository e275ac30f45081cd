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

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/serve"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/pages"
	"github.com/lbremedy/lbremedy/test/shell"
	"github.com/lbremedy/lbremedy/test/testbed"
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

// Each mistake is told in a sentence that names it.
func TestMistakes(t *testing.T) {
	good := shell.File(t, "routes", "default: {url: 'https://a'}")
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	natsless := []string{"--cluster=c1", "--routes=" + good, "--nats=nats://" + shell.Secret + "@127.0.0.1:1"}
	shell.Mistakes(t, run, map[string]shell.Mistake{
		"no routes":     {Args: []string{"--cluster=c1"}, Want: "name the routes file with --routes or LBREMEDY_ROUTES", Usage: true},
		"no cluster ID": {Args: []string{"--routes=" + good}, Want: "name the cluster with --cluster or LBREMEDY_CLUSTER", Usage: true},
		"a bad cluster ID": {Args: []string{"--routes=" + good, "--cluster=a.b"}, Want: `cluster ID "a.b" is not 1 to 64 letters`,
			Usage: true},
		"no cluster between commas": {Args: []string{"--routes=" + good, "--cluster=c1,,c2"},
			Want: "--cluster: invalid event: the cluster ID is empty", Usage: true},
		"a cluster twice": {Args: []string{"--routes=" + good, "--cluster=c1, c2,c1"}, Want: "--cluster: c1 is named twice", Usage: true},
		"one of several clusters is none": {Args: []string{"--routes=" + good, "--cluster=c1,c>"}, Want: `cluster ID "c>" is not 1 to 64 letters`,
			Usage: true},
		"one function for two clusters": {Args: []string{"--routes=" + good, "--cluster=c1,c2"},
			Want: "line 1: default: the failures of c1, c2 would go to one function", Usage: true},
		"a cluster without routes": {Args: []string{"--routes=" + shell.File(t, "r", "clusters: {c1: {}}"), "--cluster=c1,c2"},
			Want: "line 1: clusters: there are no routes for c2", Usage: true},
		"a check of other clusters": {Args: []string{"--check=" + shell.File(t, "c", "clusters: {c3: {}}"), "--cluster=c1"},
			Want: "clusters.c3: the courier does not serve this cluster, but c1", Usage: true},
		"a key for each cluster that is not there": {Args: append(natsless, "--nats-nkey=/keys/{cluster}/courier.seed"),
			Want: "serve cluster c1: read the NATS key: /keys/c1/courier.seed"},
		"an unknown flag":      {Args: []string{"--clutser=a"}, Want: "flag provided but not defined: -clutser; see --help", Usage: true},
		"a word too many":      {Args: []string{"--cluster=a", "now"}, Want: `"now" is no flag`, Usage: true},
		"no time to drain":     {Args: []string{"--drain=-1s"}, Want: "--drain: -1s is no time", Usage: true},
		"an unknown log level": {Args: append(natsless, "--log=loud"), Want: `"loud" is no level: use debug, info, warn or error`, Usage: true},
		"routes with mistakes": {Args: []string{"--cluster=c1", "--routes=" + shell.File(t, "r", "routes: {qouta: {url: x}, quota: {url: y}}")},
			Want: "line 1: routes.qouta: there is no such class", Usage: true},
		"no such routes":      {Args: []string{"--cluster=c1", "--routes=nowhere.yaml"}, Want: "nowhere.yaml", Usage: true},
		"no such table":       {Args: append(natsless, "--table=nowhere.json"), Want: "nowhere.json", Usage: true},
		"a table with a typo": {Args: append(natsless, "--table="+shell.File(t, "t", `[{"clas": "x"}]`)), Want: `unknown field "clas"`, Usage: true},
		"a port in use":       {Args: append(natsless, "--listen="+busy.Addr().String()), Want: "address already in use", Usage: true},
		"no NATS":             {Args: natsless, Want: "no NATS server answers there"},
		"a check that fails": {Args: []string{"--check=" + shell.File(t, "c", "routes: {quota: {url: y}}")},
			Want: "line 1: routes.quota.url: it is no URL such as", Usage: true},
	})
}

func TestHelpVersionAndCheck(t *testing.T) {
	for flagged, want := range map[string]string{"--help": "[$LBREMEDY_ROUTES]", "--version": version} {
		var out bytes.Buffer
		if err := run(t.Context(), []string{flagged}, shell.Environment("LBREMEDY_NATS_TOKEN="+shell.Secret), &out, &out); !errors.Is(err, flag.ErrHelp) {
			t.Errorf("%s: %v", flagged, err)
		}
		if !strings.Contains(out.String(), want) || strings.Contains(out.String(), shell.Secret) {
			t.Errorf("%s prints %q", flagged, out.String())
		}
	}
	var out bytes.Buffer
	table := shell.File(t, "table", `[{"class": "busy", "texts": ["is configuring"]}, {"class": "quota", "texts": ["too many"]}]`)
	err := run(t.Context(), []string{"--check=" + shell.File(t, "routes", "routes: {busy: {url: 'https://a'}}"), "--table=" + table}, shell.Environment(),
		&out, io.Discard)
	if err != nil || !strings.Contains(out.String(), "is right.\n1 of 3 classes have a route.\nThe messages of these stay: unclassified, quota.\n") {
		t.Errorf("%v: %s", err, out.String())
	}
	out.Reset()
	err = run(t.Context(), []string{"--check=" + shell.File(t, "routes",
		"clusters: {c1: {default: {url: 'https://a'}}, c2: {routes: {busy: {url: 'https://b'}}}}"), "--table=" + table}, shell.Environment(), &out, io.Discard)
	if err != nil || !strings.HasSuffix(out.String(),
		"is right.\nc1: 3 of 3 classes have a route.\nc2: 1 of 3 classes have a route.\nc2: The messages of these stay: unclassified, quota.\n") {
		t.Errorf("%v: %s", err, out.String())
	}
}

// What a page shows of routes.yaml is right by the command that it shows.
func TestPages(t *testing.T) {
	for _, c := range pages.Of(t, "../../..", "events/cmd/courier") {
		text, err := os.ReadFile(filepath.Join("../../..", c.Page))
		if err != nil {
			t.Fatal(err)
		}
		_, example, _ := strings.Cut(string(text), "# routes.yaml\n")
		example, _, _ = strings.Cut(example, "```")
		line, _, _ := strings.Cut(c.Text, " #")
		line = strings.Replace(line, "routes.yaml", shell.File(t, "routes.yaml", example), 1)
		var out bytes.Buffer
		if err := run(t.Context(), strings.Fields(line)[1:], shell.Environment(), &out, io.Discard); err != nil || !strings.Contains(out.String(), "is right.\n") {
			t.Errorf("%s: %v: %s", c, err, out.String())
		}
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
	c := cluster.Alone(t) // may wait for other tests
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	tb, err := testbed.Start(ctx, testbed.Options{Cluster: c, Namespace: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	server := nats.Start(t, embedded.Options{Token: "t0ken"})
	st := nats.Connect(t, stream.Config{URL: server.URL(), Token: "t0ken"})
	whole := &host.Host{Remedies: functions.All}
	if _, err := st.Setup(ctx, whole.Classes(), stream.Settings{Clusters: []string{testbed.ClusterID}}); err != nil {
		t.Fatal(err)
	}
	if err := policy.Publish(ctx, st, testbed.ClusterID, remedy.Policy{Mode: remedy.Fix, Budgets: remedy.Budgets{Class: 100, Least: 100}}); err != nil {
		t.Fatal(err)
	}
	// The function is an endpoint as its program opens it, with the rights of its class and no
	// others, and asks for a token.
	const class = "vswitch-ip-exhausted"
	// What a killed courier had in hand comes again after this, in place of 30 s.
	nats.Patience(t, "nats://t0ken@"+strings.TrimPrefix(server.URL(), "nats://"), testbed.ClusterID, class, 15*time.Second)
	h := &host.Host{Remedies: slices.DeleteFunc(slices.Clone(functions.All), func(r *remedy.Remedy) bool { return r.Class != class })}
	if h.Env, err = tb.Env(ctx, st, class); err != nil {
		t.Fatal(err)
	}
	h.Env.Who, h.Env.Watch = "http", 10*time.Second
	endpoint := &serve.Endpoint{Handle: h.Handle, Tokens: func() ([]string, error) { return []string{"kn0wn"}, nil }}
	behind := http.StripPrefix("/"+class, endpoint.Handler())
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

	health := "127.0.0.1:" + shell.Port(t)
	if courier.log, err = os.Create(filepath.Join(t.TempDir(), "log")); err != nil {
		t.Fatal(err)
	}
	defer courier.log.Close()
	token := shell.File(t, "token", "kn0wn\n")
	routes := shell.File(t, "routes.yaml", fmt.Sprintf("default: {url: '%s/{class}/', auth: {bearer: '%s'}}", function.URL, token))
	courier.args = []string{"--cluster=" + testbed.ClusterID, "--nats=" + server.URL(), "--routes=" + routes, "--listen=" + health, "--drain=20s"}
	courier.start(t)
	defer func() { _ = courier.cmd.Process.Kill() }()

	x, err := tb.Exporter(ctx, st)
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
	all := testbed.All()
	full := all[slices.IndexFunc(all, func(f testbed.Fixture) bool {
		return f.Class == class && f.Ends == event.Fixed && f.Config == testbed.Config{} && f.Supported()
	})]
	fixtures := testbed.Bulk(full, "web", services)
	if err := tb.Fail(ctx, fixtures...); err != nil {
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
	if err := tb.Until(ctx, func() bool {
		return !slices.ContainsFunc(fixtures, func(f testbed.Fixture) bool { return !tb.Healed(f.Service) })
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
		ledger, err := st.Ledger(ctx, testbed.ClusterID, time.Now(), stream.Late)
		if err != nil {
			t.Fatal(err)
		}
		open := uint64(0)
		queues, err := st.Queues(ctx, testbed.ClusterID)
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
	if body := get(t, "http://"+health+"/metrics"); !strings.Contains(body,
		`lbremedy_courier_posts_total{class="`+class+`",cluster="`+testbed.ClusterID+`",status="2xx"}`) {
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
			uid, mark := string(svc.UID), svc.Annotations[ccm.Resync]
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
