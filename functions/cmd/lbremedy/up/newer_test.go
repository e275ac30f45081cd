package up_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/up"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/policy/policyfile"
	"github.com/lbremedy/lbremedy/test/operator"
)

// Where the policy in force is of a newer release, up starts, says that it is paused, in
// the log too, and is not ready; policy show says why. A file puts an end to it.
func TestNewerPolicy(t *testing.T) {
	c, s := operator.Embed(t)
	if err := up.Ready(nil, s, "c1")(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "policy.c1", []byte(`{"version":1,"mode":"fix","curfew":"22:00"}`)); err != nil {
		t.Fatal(err)
	}
	const says = `its field "curfew" is not known: it is of a newer release than this program`
	var said strings.Builder
	u := &up.UpRun{Program: c.Program(io.Discard, &said)}
	u.Cluster = "c1"
	if err := u.Begin(t.Context(), s, nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Mode: paused (", "nothing is written", says} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("up lacks %q: %s", want, said.String())
		}
	}
	if err := up.Ready(nil, s, "c1")(t.Context()); !errors.Is(err, policy.ErrNewer) {
		t.Errorf("ready: %v", err)
	}
	if got := c.Run(t.Context(), "policy", "show", "--cluster", "c1"); got.Code != command.CodeFailed || got.Out != "" || !strings.Contains(got.Err, says) {
		t.Errorf("policy show: %+v", got)
	}
	allowed, err := policyfile.Parse([]byte("mode: fix"), cli.PolicyClasses())
	if err != nil {
		t.Fatal(err)
	}
	if err := policy.Publish(t.Context(), s, "c1", allowed); err != nil {
		t.Fatal(err)
	}
	if got := c.Run(t.Context(), "policy", "show", "--cluster", "c1"); got.Code != 0 || !strings.Contains(got.Out, "In force: fix:") {
		t.Errorf("policy show: %+v", got)
	}
	if err := up.Ready(nil, s, "c1")(t.Context()); err != nil {
		t.Error(err)
	}
}

// Where the sinks in force are of a newer release, nobody is notified, from the start or from
// then on, and up says so; those that it knows are notified again.
func TestNewerSinks(t *testing.T) {
	c, s := operator.Embed(t)
	var said strings.Builder
	u := &up.UpRun{Program: c.Program(io.Discard, &said)}
	u.Cluster = "c1"
	put := func(text string) {
		t.Helper()
		if err := s.Put(t.Context(), "tell.c1", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	const newer = `{"version":1,"sinks":[{"name":"e","kind":"event","quiet":"22:00"}]}`
	const known = `{"version":1,"sinks":[{"name":"e","kind":"event"}]}`
	put(newer)
	told, err := u.Notifier(t.Context(), connection(&engine.Env{Cluster: "c1", Stream: s}))
	if err != nil || len(told.Sinks()) > 0 {
		t.Fatalf("%v, %+v", err, told)
	}
	const says = `Notified: nobody (read the sinks in force: its field "quiet" is not known`
	if n := strings.Count(said.String(), says); n != 1 {
		t.Errorf("up says it %d times: %s", n, said.String())
	}
	if err := up.Ready(nil, s, "c1")(t.Context()); !errors.Is(err, policy.ErrNewer) {
		t.Errorf("ready: %v", err)
	}
	put(known)
	if told = told.Change(t.Context()); len(told.Sinks()) != 1 {
		t.Errorf("told are %+v", told.Sinks())
	}
	if err := up.Ready(nil, s, "c1")(t.Context()); err != nil {
		t.Error(err)
	}
	put(newer)
	if told = told.Change(t.Context()); len(told.Sinks()) > 0 {
		t.Errorf("told are %+v", told.Sinks())
	}
	if n := strings.Count(said.String(), says); n != 2 {
		t.Errorf("up says it %d times: %s", n, said.String())
	}
}
