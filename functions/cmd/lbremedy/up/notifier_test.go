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

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/up"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/operator"
	"github.com/lbremedy/lbremedy/test/shell"
)

// A sink that can't be made keeps no other from being notified, and up from nothing: one whose template is missing has the
// built-in text, and another one is left out. Both count as refused until they can be made.
func TestSinksWithFaults(t *testing.T) {
	c, s := operator.Embed(t)
	file := filepath.Join(t.TempDir(), "text.tmpl")
	sinks := fmt.Sprintf(`{"version":1,"sinks":[{"name":"own","kind":"event","template":%q},{"name":"none","kind":"alibaba","category":"1"},`+
		`{"name":"good","kind":"event"}]}`, file)
	if err := s.Put(t.Context(), "tell.c1", []byte(sinks)); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	u := &up.UpRun{Program: c.Program(io.Discard, &said)}
	u.Cluster = "c1"
	told, err := u.Notifier(t.Context(), &engine.Env{Cluster: "c1", Stream: s, KubeWriter: &kube.Writer{}})
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
	for sink, want := range map[string]int64{"own": 1, "none": 1, "good": 0} {
		if n := told.Refused(sink); n != want {
			t.Errorf("%s has refused %d times, want %d", sink, n, want)
		}
	}
}

// What keeps a notifier from following the journal is tried again, and ends nothing.
func TestNotifierWithoutJournal(t *testing.T) {
	server := nats.Start(t, embedded.Options{})
	s := nats.Connect(t, stream.Config{URL: server.URL()})
	if _, err := s.Setup(t.Context(), cli.Classes(), stream.Settings{Clusters: []string{"c1"}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "tell.c1", []byte(`{"version":1,"sinks":[{"name":"e","kind":"event"}]}`)); err != nil {
		t.Fatal(err)
	}
	js := nats.JetStream(t, server.URL())
	if err := js.DeleteStream(t.Context(), stream.Cases); err != nil {
		t.Fatal(err)
	}
	var said shell.Log
	u := &up.UpRun{Program: operator.Call{Env: operator.Home(t)}.Program(io.Discard, &said)}
	u.Cluster = "c1"
	told, err := u.Notifier(t.Context(), &engine.Env{Cluster: "c1", Stream: s, KubeWriter: &kube.Writer{}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- told.Run(ctx) }()
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
				t.Fatalf("%s does not come: %s", what, &said)
			}
		}
	}
	until("what is wrong", func() bool { return strings.Contains(said.String(), "people can't be notified; trying again") })
	if _, err := s.Setup(t.Context(), cli.Classes(), stream.Settings{Clusters: []string{"c1"}}); err != nil {
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
