package journal_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/test/operator"
)

// A write is listed once, however many records repeat it, and also if the journal lacks its request; a step found already made is not.
func TestWrites(t *testing.T) {
	c, s := operator.Embed(t)
	old := operator.Journalled()[2] // a release that recorded no requests
	old.Attempt = 1
	call := event.Call{At: operator.Began.Add(time.Minute), Action: "slb:TagResources", Resource: "lb-1", Request: "R-1"}
	lost := event.Call{At: call.At.Add(time.Second), Action: "slb:TagResources", Resource: "lb-2", Error: "NoAnswer"}
	first := old
	first.Service.UID, first.Case = operator.UID(1), "44444444-20260102T150405"
	first.Phase, first.Result, first.Next = event.Step, "", 1
	tag := event.StepRecord{Kind: "tag-lb", Text: say.Literal("tag lb-1"), Target: "slb/lb-1", Risk: "high", Step: json.RawMessage(`{}`), Ended: call.At}
	made, found, half := tag, tag, tag
	made.Calls, found.Found, half.Calls = []event.Call{call}, true, []event.Call{lost}
	first.Steps = []event.StepRecord{made, found, half}
	second := first
	second.Phase, second.Result, second.Next, second.At = event.Settled, event.Waiting, 2, first.At.Add(time.Second)
	if err := operator.Seed(t.Context(), s, old, first, second); err != nil {
		t.Fatal(err)
	}
	var got []event.Call
	said := c.Run(t.Context(), "ls", "--writes", "-o", "json")
	if err := json.Unmarshal([]byte(said.Out), &got); err != nil || said.Code != 0 {
		t.Fatalf("%v: %+v", err, said)
	}
	want := []event.Call{lost, call, {At: old.Written, Action: "unknown", Resource: "shop/web"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the writes (-want +got):\n%s", diff)
	}
}
