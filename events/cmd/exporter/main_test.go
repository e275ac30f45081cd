package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/events/program"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/cluster"
)

const oneClass = `[{"class": "vswitch-ip-exhausted", "texts": ["VSwitch has no available ip"]}]`

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

// TestMistakes proves that each mistake is told in a sentence that names it.
func TestMistakes(t *testing.T) {
	kubeconfig := write(t, "kubeconfig", `{apiVersion: v1, kind: Config, current-context: a, clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}], contexts: [{name: a, context: {cluster: c}}]}`)
	natsless := []string{"--cluster=c1", "--kubeconfig=" + kubeconfig, "--nats=nats://s3cr3t@127.0.0.1:1"}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	nats, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Port: -1, Token: "right"})
	if err != nil {
		t.Fatal(err)
	}
	defer nats.Close()
	serverless := []string{"--cluster=c1", "--kubeconfig=" + kubeconfig, "--nats=" + nats.URL()}

	for name, tt := range map[string]struct {
		args  []string
		env   []string
		want  string
		usage bool
	}{
		"no cluster ID":        {args: nil, want: "name the cluster with --cluster or LBREMEDY_CLUSTER", usage: true},
		"a bad cluster ID":     {args: []string{"--cluster=a.b"}, want: `cluster ID "a.b" is not 1 to 64 letters`, usage: true},
		"an unknown flag":      {args: []string{"--clutser=a"}, want: "flag provided but not defined: -clutser; see --help", usage: true},
		"a word too many":      {args: []string{"--cluster=a", "now"}, want: `"now" is no flag`, usage: true},
		"an unknown log level": {args: []string{"--cluster=a", "--log=loud"}, want: `"loud" is no level: use debug, info, warn or error`, usage: true},
		"no such table":        {args: []string{"--cluster=a", "--table=nowhere.json"}, want: "nowhere.json", usage: true},
		"a table with a typo":  {args: []string{"--cluster=a", "--table=" + write(t, "t", `[{"clas": "x"}]`)}, want: `unknown field "clas"`, usage: true},
		"a table that is wrong": {args: []string{"--cluster=a", "--table=" + write(t, "t", `[{"class": "a", "texts": ["x y"]}, {"class": "b", "texts": ["x y"]}]`)},
			want: "belongs to two classes", usage: true},
		"no kubeconfig":   {args: []string{"--cluster=a", "--kubeconfig=nowhere"}, want: "there is no kubeconfig nowhere", usage: true},
		"no such context": {args: append(natsless, "--context=z"), want: `no context "z": it has a`, usage: true},
		"no NATS":         {args: natsless, want: "no NATS server answers there"},
		"a wrong token":   {args: serverless, env: []string{"LBREMEDY_NATS_TOKEN=wrong"}, want: "the server refuses these credentials"},
		"a wrong seed":    {args: natsless, env: []string{"LBREMEDY_NATS_NKEY=" + write(t, "seed", "s3cr3t")}, want: "holds no seed of a user"},
		"no API server":   {args: serverless, env: []string{"LBREMEDY_NATS_TOKEN=right"}, want: "connection refused"},
		"a port in use":   {args: append(serverless, "--listen="+busy.Addr().String()), env: []string{"LBREMEDY_NATS_TOKEN=right"}, want: "address already in use", usage: true},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			err := run(t.Context(), tt.args, environment(tt.env...), &out, &errs)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want an error with %q", err, tt.want)
			}
			var usage program.Mistake
			if errors.As(err, &usage) != tt.usage {
				t.Errorf("%v is a mistake in the flags: %v, want %v", err, !tt.usage, tt.usage)
			}
			if text := err.Error() + errs.String(); strings.Contains(text, "s3cr3t") || strings.Contains(text, "wrong") && name == "a wrong token" {
				t.Errorf("the output tells a secret: %s", text)
			}
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	for flagged, want := range map[string]string{"--help": "[$LBREMEDY_CLUSTER]", "--version": version} {
		var out bytes.Buffer
		if err := run(t.Context(), []string{flagged}, environment("LBREMEDY_NATS_TOKEN=s3cr3t"), &out, &out); !errors.Is(err, flag.ErrHelp) {
			t.Errorf("%s: %v", flagged, err)
		}
		// It connects to NATS by all that a function does.
		for _, name := range []string{"NATS", "NATS_TOKEN", "NATS_CREDS", "NATS_NKEY", "NATS_INBOX", "NATS_CA"} {
			if flagged == "--help" && !strings.Contains(out.String(), "$LBREMEDY_"+name) {
				t.Errorf("%s does not name LBREMEDY_%s", flagged, name)
			}
		}
		if !strings.Contains(out.String(), want) || strings.Contains(out.String(), "s3cr3t") {
			t.Errorf("%s prints %q", flagged, out.String())
		}
	}
}

// TestProgram proves that the program, configured by its environment alone, sets up
// NATS, exports, says that it is ready, and ends in peace.
func TestProgram(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	j := cluster.Join(t)
	ns := j.Namespace(t)
	nats, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Port: -1, Token: "t0ken"})
	if err != nil {
		t.Fatal(err)
	}
	defer nats.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	door := l.Addr().String()
	l.Close()

	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	var out, errs bytes.Buffer
	go func() {
		ended <- run(running, nil, environment("LBREMEDY_CLUSTER=c1", "LBREMEDY_KUBECONFIG="+j.Kubeconfig, "LBREMEDY_NATS="+nats.URL(),
			"LBREMEDY_NATS_TOKEN=t0ken", "LBREMEDY_TABLE="+write(t, "table", oneClass), "LBREMEDY_LISTEN="+door), &out, &errs)
	}()
	uid := "11111111-2222-3333-4444-555555555555"
	_, err = j.Client().CoreV1().Events(ns).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "web.1"},
		InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: ns, Name: "web", UID: "11111111-2222-3333-4444-555555555555"},
		Reason:         "SyncLoadBalancerFailed", Type: "Warning", Source: corev1.EventSource{Component: "service-controller"},
		Message: "Error syncing load balancer []: Message: The specified VSwitch has no available ip.",
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := stream.Connect(ctx, stream.Config{URL: nats.URL(), Token: "t0ken"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	stored := func() bool {
		_, err := s.Last(ctx, stream.Failed, "lbremedy.failed.c1.vswitch-ip-exhausted."+uid)
		return err == nil
	}
	ask := func(path string) int {
		resp, err := http.Get("http://" + door + path)
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
	if !strings.Contains(errs.String(), "Created consumer vswitch-ip-exhausted.") || strings.Contains(errs.String(), "t0ken") {
		t.Errorf("the log is\n%s", errs.String())
	}
}
