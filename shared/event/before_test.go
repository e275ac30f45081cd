package event

import (
	"testing"
	"time"
)

// A record of the release before the codes is read as that release decided.
func TestBefore(t *testing.T) {
	t.Parallel()
	step := []StepRecord{{Kind: "annotate", Step: []byte(`{}`)}, {Kind: "touch", Step: []byte(`{}`)}}
	ended := func(r Result, d Decision) Record { return Record{Run: Run{Phase: Settled, Result: r}, Decision: d} }
	for _, tt := range []struct {
		name    string
		rec     Record
		reason  Reason
		undoing bool
	}{
		{"by cause", ended(Waiting, Decision{Rule: "Written; whether it worked shows in the cause alone, which is looked at again."}), ByCause, false},
		{"after others", ended(Waiting, Decision{Rule: "Other writes of this kind come first."}), AfterOthers, false},
		{"a rule that nothing depended on", ended(Waiting, Decision{Rule: "Another case is writing to the same target."}), "", false},
		{"a sentence somewhere else", ended(Asked, Decision{Rule: "Other writes of this kind come first."}), "", false},
		{"the code goes first", ended(Waiting, Decision{Reason: ForSync, Rule: "Other writes of this kind come first."}), ForSync, false},
		{"failed without a finding", Record{Run: Run{Phase: Settled, Result: Failed}, Progress: Progress{Next: 1}}, "", true},
		{"failed with one", Record{Run: Run{Phase: Settled, Result: Failed}, Plan: Plan{Finding: "f"}, Progress: Progress{Next: 1}}, "", false},
	} {
		r := tt.rec
		r.Case, r.Cluster, r.Class, r.At, r.Steps = "3f9a12bc-20260102T150405", "c1", "busy", time.Now(), step
		r.Service = Service{Namespace: "shop", Name: "web", UID: "3f9a12bc-0000-4000-8000-000000000000"}
		e, err := NewRecord(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ReadRecord(e)
		if err != nil {
			t.Fatal(err)
		}
		if got.Reason != tt.reason || got.Undoing != tt.undoing || got.Steps[0].Wakes || !got.Steps[1].Wakes {
			t.Errorf("%s: reason %q, undoing %t, wakes %t and %t", tt.name, got.Reason, got.Undoing, got.Steps[0].Wakes, got.Steps[1].Wakes)
		}
	}
}
