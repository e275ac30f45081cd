package journal_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/test/operator"
)

// A finding of the doctor about a load balancer is named as such everywhere, and never taken for a Service.
func TestFindingCase(t *testing.T) {
	t.Parallel()
	c, s := operator.Embed(t)
	now := time.Now().Add(-time.Minute)
	r := event.Record{
		Origin: event.Origin{
			Case: "44444444-20260102T150405", Cluster: "c1", Class: "doctor-room",
			Service: event.Service{Kind: "load balancer", Name: "lb-1", UID: operator.UID(1)}, Event: "e", Message: "It is full.",
			EventTime: now,
		},
		Run:     event.Run{Phase: event.Settled, Result: event.Asked, At: now, First: now, Who: "worker"},
		Plan:    event.Plan{Finding: say.Literal("It is full.")},
		Outcome: event.Outcome{Ask: say.Literal("Make room.")},
	}
	r.Found = []event.Found{{Key: "a", Severity: "warning", Text: say.F("It has %d of %d.", 3, 3), Do: say.F("Make room.")}}
	planned := r
	planned.Case, planned.Class, planned.Service = "55555555-20260102T150405", "doctor-finalizers", event.Service{Namespace: "shop", Name: "web",
		UID: "55555555-0000-4000-8000-000000000002"}
	planned.Steps, planned.Digest = []event.StepRecord{{Kind: "resync", Text: say.Literal("touch it"), Step: []byte("{}")}}, strings.Repeat("0", 32)
	if err := operator.Seed(t.Context(), s, r, planned); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"ls -o wide", 0, "load balancer lb-1"},
		{"ls --service lb-1 --class doctor-room -o wide", 0, "load balancer lb-1"},
		{"show 44444444", 0, "load balancer lb-1  needs-action"},
		{"show 44444444", 0, "by the doctor's check room"},
		{"show 44444444 -o json", 0, `"text": "It has 3 of 3."`},
		{"approve 44444444", command.CodeWrong, "is a finding of the doctor without a plan to approve"},
		{"approve 55555555 --print --user ann", 0, "service: web"},
		{"undo 44444444", command.CodeWrong, "there is nothing to undo"},
	} {
		got := c.Run(t.Context(), strings.Fields(tt.args)...)
		if got.Code != tt.code || !strings.Contains(got.Out+got.Err, tt.want) || strings.Contains(got.Out+got.Err, "kube-system") {
			t.Errorf("%s: code %d, %s%s; want %d and %q", tt.args, got.Code, got.Out, got.Err, tt.code, tt.want)
		}
	}
}
