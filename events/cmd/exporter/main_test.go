package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	accounts "github.com/lbremedy/lbremedy/infra/nats"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/shell"
)

func run(ctx context.Context, args []string, env func(string) string, out, errs io.Writer) error {
	cmd := program(env)
	cmd.SetArgs(args)
	cmd.SetOut(out)
	cmd.SetErr(errs)
	return cmd.ExecuteContext(ctx)
}

func TestMistakes(t *testing.T) {
	kubeconfig := shell.File(t, "kubeconfig", `{apiVersion: v1, kind: Config, current-context: a, clusters: [{name: c, cluster: {server: `+
		`"http://127.0.0.1:1"}}], contexts: [{name: a, context: {cluster: c}}]}`)
	natsless := []string{"--cluster=c1", "--kubeconfig=" + kubeconfig, "--nats=nats://" + shell.Secret + "@127.0.0.1:1"}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	server := nats.Start(t, embedded.Options{Token: "right"})
	serverless := []string{"--cluster=c1", "--kubeconfig=" + kubeconfig, "--nats=" + server.URL()}

	posted := slices.Clip(append(natsless, "--from-http-url=https://a.example", "--from-http-region=cn-hangzhou"))
	shell.Mistakes(t, run, map[string]shell.Mistake{
		"no cluster ID":        {Args: nil, Want: "name the cluster with --cluster or LBREMEDY_CLUSTER", Usage: true},
		"a bad cluster ID":     {Args: []string{"--cluster=a.b"}, Want: `cluster ID "a.b" is not 1 to 64 letters`, Usage: true},
		"an unknown flag":      {Args: []string{"--clutser=a"}, Want: "unknown flag --clutser: did you mean --cluster?", Usage: true},
		"a word too many":      {Args: []string{"--cluster=a", "now"}, Want: `takes no argument, and "now" is one`, Usage: true},
		"an unknown log level": {Args: []string{"--cluster=a", "--log=loud"}, Want: `"loud" is not a level: use debug, info, warn or error`, Usage: true},
		"no rate":              {Args: []string{"--cluster=a", "--namespace-rate=0"}, Want: "--namespace-rate: 0 is not above 0", Usage: true},
		"no number":            {Args: []string{"--cluster=a", "--namespace-rate=NaN"}, Want: "--namespace-rate: NaN is not above 0", Usage: true},
		"no burst": {Args: []string{"--cluster=a"}, Env: []string{"LBREMEDY_NAMESPACE_BURST=0.5"},
			Want: `LBREMEDY_NAMESPACE_BURST: "0.5" is not a value for namespace-burst`, Usage: true},
		"no kubeconfig":   {Args: []string{"--cluster=a", "--kubeconfig=nowhere"}, Want: "there is no kubeconfig nowhere", Usage: true},
		"no such context": {Args: append(natsless, "--context=z"), Want: `no context "z": it has a`, Usage: true},
		"no NATS":         {Args: natsless, Want: "no NATS server answers there"},
		"a wrong token":   {Args: serverless, Env: []string{"LBREMEDY_NATS_TOKEN=" + shell.Secret}, Want: "the server refuses these credentials"},
		"a wrong seed":    {Args: natsless, Env: []string{"LBREMEDY_NATS_NKEY=" + shell.File(t, "seed", shell.Secret)}, Want: "holds no seed of a user"},

		"EventBridge without its address": {Args: append(natsless, "--from-http-region=cn-hangzhou"), Want: "count only with --from-http", Usage: true},
		"EventBridge at no address": {Args: append(natsless, "--from-http=:0", "--from-http-url=http://a.example"),
			Want: "it is not a URL such as https://", Usage: true},
		"EventBridge in no region": {Args: append(natsless, "--from-http=:0", "--from-http-url=https://a.example"),
			Want: `--from-http-region: "" is not a region`, Usage: true},
		"EventBridge without a token": {Args: append(posted, "--from-http=:0"), Env: []string{"LBREMEDY_FROM_HTTP_TOKEN=" + shell.Secret},
			Want: "LBREMEDY_FROM_HTTP_TOKEN: the token of the target", Usage: true},
		"EventBridge at a port in use": {Args: append(posted, "--from-http="+busy.Addr().String()), Env: []string{"LBREMEDY_FROM_HTTP_TOKEN=0123456789abcdef"},
			Want: "address already in use", Usage: true},
		"no API server": {Args: serverless, Env: []string{"LBREMEDY_NATS_TOKEN=right"}, Want: "connection refused"},
		"a port in use": {Args: append(serverless, "--listen="+busy.Addr().String()), Env: []string{"LBREMEDY_NATS_TOKEN=right"},
			Want: "address already in use", Usage: true},
	})
}

func TestHelpAndVersion(t *testing.T) {
	for flagged, want := range map[string]string{"--help": "LBREMEDY_NATS_TOKEN", "--version": version} {
		var out bytes.Buffer
		if err := run(t.Context(), []string{flagged}, shell.Environment("LBREMEDY_NATS_TOKEN="+shell.Secret), &out, &out); err != nil {
			t.Errorf("%s: %v", flagged, err)
		}
		for _, name := range []string{"nats", "nats-creds", "nats-nkey", "nats-ca"} {
			if flagged == "--help" && !strings.Contains(out.String(), "--"+name+" ") {
				t.Errorf("%s does not name --%s", flagged, name)
			}
		}
		if !strings.Contains(out.String(), want) || strings.Contains(out.String(), shell.Secret) {
			t.Errorf("%s prints %q", flagged, out.String())
		}
	}
}

func fails(ctx context.Context, t *testing.T, c *cluster.Cluster, ns string) string {
	t.Helper()
	svc, err := c.Client().CoreV1().Services(ns).Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Client().CoreV1().Events(ns).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "web.1"},
		InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: ns, Name: "web", UID: svc.UID},
		Reason:         "SyncLoadBalancerFailed", Type: "Warning", Source: corev1.EventSource{Component: "service-controller"},
		Message: "Error syncing load balancer []: Message: The specified VSwitch has no available ip.",
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(svc.UID)
}

// TestProgram proves that environment variables alone suffice to set up NATS, export, report readiness and exit cleanly.
func TestProgram(t *testing.T) {
	j := cluster.Join(t)
	ns := j.Namespace(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server := nats.Start(t, embedded.Options{Token: "t0ken"})
	address := "127.0.0.1:" + shell.Port(t)

	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	var out, errs bytes.Buffer
	go func() {
		ended <- run(running, nil, shell.Environment("LBREMEDY_CLUSTER=c1", "LBREMEDY_KUBECONFIG="+j.Kubeconfig, "LBREMEDY_NATS="+server.URL(),
			"LBREMEDY_NATS_TOKEN=t0ken", "LBREMEDY_LISTEN="+address), &out, &errs)
	}()
	uid := fails(ctx, t, j, ns)
	s := nats.Connect(t, stream.Config{URL: server.URL(), Token: "t0ken"})
	stored := func() bool {
		_, err := s.Last(ctx, stream.Failed, "lbremedy.failed.c1.vswitch-ip-exhausted."+uid)
		return err == nil
	}
	ask := func(path string) int {
		resp, err := http.Get("http://" + address + path)
		if err != nil {
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !stored() || ask("/readyz") != http.StatusOK {
		select {
		case <-tick.C:
		case err := <-ended:
			t.Fatalf("the program ended with %v:\n%s", err, errs.String())
		case <-ctx.Done():
			t.Fatalf("nothing was exported:\n%s", errs.String())
		}
	}
	for path, want := range map[string]int{"/healthz": 200, "/metrics": 200, "/": 404} {
		if got := ask(path); got != want {
			t.Errorf("%s answers %d, want %d", path, got, want)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the program ended with %v", err)
	}
	if !strings.Contains(errs.String(), "Created consumer vswitch-ip-exhausted_c1.") || strings.Contains(errs.String(), "t0ken") {
		t.Errorf("the log is\n%s", errs.String())
	}
}

// TestOwnAccount proves that a user with its own NATS account learns of wrong settings and a missing setup, publishes, and keeps progress and page.
func TestOwnAccount(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	j := cluster.Join(t)
	ns := j.Namespace(t)
	server := nats.Install(t, "c1")
	address := "127.0.0.1:" + shell.Port(t)
	env := shell.Environment("LBREMEDY_CLUSTER=c1", "LBREMEDY_KUBECONFIG="+j.Kubeconfig, "LBREMEDY_NATS="+server.URL,
		"LBREMEDY_NATS_NKEY="+server.Seed(accounts.Exporter("c1")), "LBREMEDY_LISTEN="+address)
	var out, errs bytes.Buffer
	if err := run(ctx, nil, env, &out, &errs); !errors.Is(err, stream.ErrDenied) || !strings.Contains(err.Error(), "run lbremedy up --setup") {
		t.Fatalf("without streams the program ended with %v", err)
	}
	admin := server.As(accounts.Operator)
	if _, err := admin.Setup(ctx, nil, stream.Settings{CasesBytes: 2 << 30}); err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- run(running, nil, env, &out, &errs) }()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	uid := fails(ctx, t, j, ns)
	stored := func() bool {
		_, failure := admin.Last(ctx, stream.Failed, "lbremedy.failed.c1.vswitch-ip-exhausted."+uid)
		_, progress := admin.Get(ctx, event.ProgressKey("c1"))
		pages, page := admin.Entries(ctx, "ledger.c1.*")
		_, count := admin.Get(ctx, event.CountKey("c1"))
		return errors.Join(failure, progress, page, count) == nil && len(pages) == 1
	}
	for ready := false; !ready || !stored(); {
		select {
		case <-tick.C:
		case err := <-ended:
			t.Fatalf("the program ended with %v:\n%s", err, errs.String())
		case <-ctx.Done():
			t.Fatalf("ready: %v; not all is stored", ready)
		}
		if resp, err := http.Get("http://" + address + "/readyz"); err == nil {
			resp.Body.Close()
			ready = resp.StatusCode == http.StatusOK
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if log := errs.String(); !strings.Contains(log, "NATS is used as it is") || !strings.Contains(log, "consumer vswitch-ip-exhausted_c1") {
		t.Errorf("the log is\n%s", log)
	}
}
