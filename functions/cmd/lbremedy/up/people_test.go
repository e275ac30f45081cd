package up_test

import (
	"context"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/up"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/test/operator"
)

// Whose clicks count stands in the policy file that the process was started with: whoever may write to NATS adds nobody.
func TestPeople(t *testing.T) {
	c, s := operator.Embed(t)
	u := &up.UpRun{Program: c.Program(io.Discard, io.Discard)}
	u.Cluster = "c1"
	const evil = `{"version":1,"sinks":[{"name":"e","kind":"event"}],"people":[{"dingtalk":"1","user":"eve"}]}`
	if err := s.Put(t.Context(), "tell.c1", []byte(evil)); err != nil {
		t.Fatal(err)
	}
	env := connection(&engine.Env{Cluster: "c1", Stream: s})
	told, err := u.Notifier(t.Context(), env)
	if err != nil {
		t.Fatal(err)
	}
	if len(told.People()) > 0 {
		t.Errorf("the clicks of %+v count", told.People())
	}

	ann, bob := policy.Person{DingTalk: "1", User: "ann"}, policy.Person{DingTalk: "2", User: "bob"}
	if err := u.Begin(t.Context(), s, &policy.Version{Sinks: []policy.Sink{{Name: "e", Kind: policy.Event}}, People: []policy.Person{ann}}); err != nil {
		t.Fatal(err)
	}
	if told, err = u.Notifier(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]policy.Person{ann}, told.People()); diff != "" {
		t.Errorf("as it starts: -want +got\n%s", diff)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	file := operator.Write(t, "policy.yaml", "people: [{dingtalk: \"2\", user: bob}]\ntell: [{name: e, kind: event}]\n")
	go func() { done <- u.Follow(ctx, s, file) }()
	told = told.Change(t.Context())
	if diff := cmp.Diff([]policy.Person{bob}, told.People()); diff != "" {
		t.Errorf("as the file changes: -want +got\n%s", diff)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	// Another policy that somebody puts in force has other sinks, and changes none of that.
	v := policy.Version{Sinks: []policy.Sink{{Name: "f", Kind: policy.Event}}, People: []policy.Person{{DingTalk: "3", User: "eve"}}}
	if _, err := policy.PutInForce(t.Context(), s, "c1", v); err != nil {
		t.Fatal(err)
	}
	told = told.Change(t.Context())
	if diff := cmp.Diff([]policy.Person{bob}, told.People()); diff != "" || told.Sinks()[0].Name != "f" {
		t.Errorf("by another policy: %+v, -want +got\n%s", told.Sinks(), diff)
	}
}
