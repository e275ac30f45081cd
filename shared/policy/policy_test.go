package policy

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/nats"
)

// What is published is what is in force, whole; without any, lbremedy observes;
// what can't be read is an error, and no policy.
func TestInForce(t *testing.T) {
	s := nats.Streams(t)
	check := func(want remedy.Policy) {
		t.Helper()
		got, err := InForce(t.Context(), s, "c1")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	check(remedy.Policy{Mode: remedy.Observe})
	high := remedy.High
	full := remedy.Policy{
		Mode: remedy.Fix, Risk: remedy.Medium, Budgets: remedy.Budgets{Attempts: 5},
		Sections: map[string]json.RawMessage{
			"ramDelay": json.RawMessage("1000000000"), "payBySpec": json.RawMessage("true"),
			"vswitches": json.RawMessage(`{"allow":["vsw-1"],"reserve":0,"replaceMissing":true}`),
		},
		Classes: map[string]remedy.Class{"tag-missing": {Mode: remedy.Observe, Risk: &high}, "ram-permission": {}},
	}
	if err := Publish(t.Context(), s, "c1", full); err != nil {
		t.Fatal(err)
	}
	check(full)
	if err := Publish(t.Context(), s, "c1", remedy.Policy{}); err != nil {
		t.Fatal(err)
	}
	check(remedy.Policy{})

	if err := s.Put(t.Context(), "policy.c1", []byte("{")); err != nil {
		t.Fatal(err)
	}
	if p, err := InForce(t.Context(), s, "c1"); err == nil {
		t.Errorf("garbage is the policy %+v", p)
	}
	if err := s.Put(t.Context(), "policy.c1", []byte(`{"Risk":"huge"}`)); err != nil {
		t.Fatal(err)
	}
	if p, err := InForce(t.Context(), s, "c1"); err == nil {
		t.Errorf("a risk that nobody knows is the policy %+v", p)
	}
	s.Close()
	if _, err := InForce(t.Context(), s, "c1"); !errors.Is(err, stream.ErrUnavailable) {
		t.Errorf("without NATS: %v", err)
	}
	if err := Publish(t.Context(), s, "c1", full); !errors.Is(err, stream.ErrUnavailable) {
		t.Errorf("without NATS: %v", err)
	}
	if err := Publish(t.Context(), s, "c1", remedy.Policy{Risk: 7}); err == nil {
		t.Error("a risk that nobody knows is published")
	}
}
