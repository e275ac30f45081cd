package up_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/up"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/operator"
	"github.com/lbremedy/lbremedy/test/shell"
)

func connection(env *engine.Env) *host.Connection {
	return &host.Connection{Env: env, Clients: &hand.Clients{KubeWriter: &kube.Writer{}}}
}

// A faulty sink stops neither others nor up: one without its template uses the built-in text, another is omitted. Both count as refused.
func TestSinksWithFaults(t *testing.T) {
	c, s := operator.Embed(t)
	file := filepath.Join(t.TempDir(), "text.tmpl")
	sinks := fmt.Sprintf(`tell: [{name: own, kind: event, template: %q}, {name: none, kind: alibaba, category: "1"}, {name: good, kind: event}]`, file)
	var said strings.Builder
	u := &up.UpRun{Program: c.Program(io.Discard, &said)}
	u.Cluster = "c1"
	u.Policy(operator.Write(t, "policy.yaml", sinks))
	u.Secrets(filepath.Dir(file))
	told, err := u.Notifier(t.Context(), connection(&engine.Env{Cluster: "c1", Stream: s}))
	if err != nil {
		t.Fatal(err)
	}
	got := told.Sinks()
	if len(got) != 2 || got[0].Name != "own" || got[0].Template != "" || got[1].Name != "good" {
		t.Errorf("notified are %+v", got)
	}
	for sink, want := range map[string]string{"own": "no such file", "none": "need access to the account", "good": ""} {
		if why := told.Fault(sink); (why == "") != (want == "") || !strings.Contains(why, want) || !strings.Contains(said.String(), want) {
			t.Errorf("%s has the fault %q, want %q: %s", sink, why, want, said.String())
		}
	}
	if err := os.WriteFile(file, []byte(`{{define "text"}}It fails.{{end}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	told.Soon()
	next := told.Change(t.Context())
	if got := next.Sinks(); len(got) != 2 || got[0].Template != file || next.Fault("own") != "" || next.Fault("none") == "" {
		t.Errorf("notified are %+v, %q", got, next.Fault("own"))
	}
	for sink, want := range map[string]string{"own": "1", "none": "1", "good": "0"} {
		if n := told.Refused(sink); n != want {
			t.Errorf("%s has refused %s times, want %s", sink, n, want)
		}
	}
}

// If a sink's previous configuration fails too, the sink is omitted, and the others change.
func TestSinkWithoutWayBack(t *testing.T) {
	c, s := operator.Embed(t)
	file := filepath.Join(t.TempDir(), "text.tmpl")
	if err := os.WriteFile(file, []byte(`{{define "text"}}It fails.{{end}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	policy := operator.Write(t, "policy.yaml", fmt.Sprintf(`tell: [{name: own, kind: event, template: %q}]`, file))
	put := func(sinks string) {
		t.Helper()
		if err := os.WriteFile(policy, []byte("tell: ["+sinks+"]"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	u := &up.UpRun{Program: c.Program(io.Discard, io.Discard)}
	u.Cluster = "c1"
	u.Policy(policy)
	u.Secrets(filepath.Dir(file))
	told, err := u.Notifier(t.Context(), connection(&engine.Env{Cluster: "c1", Stream: s}))
	if err != nil {
		t.Fatal(err)
	}
	put(`{name: own, kind: alibaba, category: "1"}`)
	told = told.Change(t.Context())
	if got := told.Sinks(); len(got) != 1 || got[0].Template != file || told.Fault("own") == "" {
		t.Fatalf("notified are %+v, and the fault is %q", got, told.Fault("own"))
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	put(`{name: own, kind: alibaba, category: "1"}, {name: good, kind: event}`)
	told = told.Change(t.Context())
	if got := told.Sinks(); len(got) != 1 || got[0].Name != "good" {
		t.Errorf("notified are %+v", got)
	}
}

func notifying(t *testing.T, s *stream.Stream, sinks string) (said *shell.Log, done <-chan error, cancel func()) {
	t.Helper()
	said = new(shell.Log)
	u := &up.UpRun{Program: operator.Call{Env: operator.Home(t)}.Program(io.Discard, said)}
	u.Cluster = "c1"
	u.Policy(operator.Write(t, "policy.yaml", "tell: ["+sinks+"]"))
	told, err := u.Notifier(t.Context(), connection(&engine.Env{Cluster: "c1", Stream: s, Log: u.Log()}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- told.Run(ctx) }()
	return said, ended, cancel
}

func TestSinkWithoutConsumer(t *testing.T) {
	server := nats.Start(t, embedded.Options{})
	s := nats.Connect(t, stream.Config{URL: server.URL()})
	if _, err := s.Setup(t.Context(), new(cli.Program).Classes(), stream.Settings{Clusters: []string{"c1"}}); err != nil {
		t.Fatal(err)
	}
	js := nats.JetStream(t, server.URL())
	taken := jetstream.ConsumerConfig{Durable: "tell-new_c1", DeliverSubject: "elsewhere"}
	if _, err := js.CreatePushConsumer(t.Context(), stream.Cases, taken); err != nil {
		t.Fatal(err)
	}
	said, done, cancel := notifying(t, s, "{name: new, kind: event}, {name: good, kind: event}")
	shell.Until(t, "the other is followed, and this is said", func() bool {
		good, err := js.Consumer(t.Context(), stream.Cases, "tell-good_c1")
		return err == nil && good.CachedInfo().NumWaiting > 0 && strings.Contains(said.String(), "a sink can't be notified; trying again")
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestNotifierWithoutJournal(t *testing.T) {
	server := nats.Start(t, embedded.Options{})
	s := nats.Connect(t, stream.Config{URL: server.URL()})
	if _, err := s.Setup(t.Context(), new(cli.Program).Classes(), stream.Settings{Clusters: []string{"c1"}}); err != nil {
		t.Fatal(err)
	}
	js := nats.JetStream(t, server.URL())
	if err := js.DeleteStream(t.Context(), stream.Cases); err != nil {
		t.Fatal(err)
	}
	said, done, cancel := notifying(t, s, "{name: e, kind: event}")
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	until := func(what string, is func() bool) {
		t.Helper()
		for !is() {
			select {
			case <-tick.C:
			case err := <-done:
				t.Fatalf("%s: it ended: %v", what, err)
			case <-late:
				t.Fatalf("%s does not come: %s", what, said)
			}
		}
	}
	until("what is wrong", func() bool { return strings.Contains(said.String(), "a sink can't be notified; trying again") })
	if _, err := s.Setup(t.Context(), new(cli.Program).Classes(), stream.Settings{Clusters: []string{"c1"}}); err != nil {
		t.Fatal(err)
	}
	until("the follower", func() bool {
		_, err := js.Consumer(t.Context(), stream.Cases, "tell-e_c1")
		return err == nil
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
