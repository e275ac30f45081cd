package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/ticket"
)

// A person lists the open incidents, looks at one, and closes it.
func TestTickets(t *testing.T) {
	c, s := embed(t)
	ctx := t.Context()
	run := func(code int, out, errs string, args ...string) said {
		t.Helper()
		got := c.run(ctx, args...)
		if got.code != code || !strings.Contains(got.out, out) || !strings.Contains(got.err, errs) {
			t.Errorf("%v: code %d, %q, %q; want %d with %q and %q", args, got.code, got.out, got.err, code, out, errs)
		}
		return got
	}
	run(0, "", "No incident.\n", "tickets", "ls")
	run(0, "[]\n", "", "tickets", "ls", "-o", "json")
	run(command.CodeWrong, "", `there is no incident "x"`, "tickets", "show", "x")
	run(0, "close INCIDENT", "", "tickets", "close", "--help")

	came := make(chan string, 10)
	desk := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		came <- string(body)
	}))
	defer desk.Close()
	follow := func() {
		t.Helper()
		f, err := ticket.New(ticket.Config{Stream: s, Cluster: "c1", Remedies: functions.All, Sinks: []policy.Sink{
			{Name: "desk", Kind: policy.Webhook, URL: desk.URL, SecretFrom: policy.Reference{File: write(t, "key", "MDEyMzQ1Njc4OWFiY2RlZg==")}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		inner, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- f.Run(inner) }()
		<-came
		stop() // what is in hand is finished, and noted
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now().Add(-time.Minute)
	r := event.Record{
		Case: "44444444-20260102T150405", Cluster: "c1", Class: "arrearage", Service: event.Service{Namespace: "shop", Name: "web", UID: uidOf(1)}, Event: "e", Message: "unpaid",
		EventTime: now, Phase: event.Settled, Result: event.Asked, At: now, First: now, Who: "worker", Finding: "The account is in arrears.", Cause: "bill", Ask: "Pay.",
	}
	if err := seed(ctx, s, r); err != nil {
		t.Fatal(err)
	}
	follow()
	got := run(0, "account-c1.arrearage.", "", "tickets", "ls")
	if !strings.Contains(got.out, "desk open") || !strings.Contains(got.out, "bill") {
		t.Errorf("got %s", got.out)
	}
	var list []ticket.Incident
	if err := json.Unmarshal([]byte(run(0, "", "", "tickets", "ls", "-o", "json").out), &list); err != nil || len(list) != 1 || !list[0].Open || len(list[0].Tickets) != 1 {
		t.Fatalf("got %+v, %v", list, err)
	}
	run(0, "shop/web", "", "tickets", "show", list[0].Tickets[0].Key)
	run(0, "desk: open, lbr-", "", "show", "shop/web")
	run(0, ", over which 1 Service failed.", "", "tickets", "close", "account-c1.arrearage")
	run(0, "", "No incident.\n", "tickets", "ls")
	follow() // by the mark alone, without a record
	if got := run(0, "", "", "tickets", "show", list[0].ID); !strings.Contains(got.out, "over") || !strings.Contains(got.out, "closed") {
		t.Errorf("got %s", got.out)
	}
}

// What the survey found about a load balancer is called that wherever a person meets it,
// and nothing takes it for a Service.
func TestSurveyedCase(t *testing.T) {
	t.Parallel()
	c, s := embed(t)
	now := time.Now().Add(-time.Minute)
	r := event.Record{
		Case: "44444444-20260102T150405", Cluster: "c1", Class: "survey-room", Service: event.Service{Kind: "load balancer", Name: "lb-1", UID: uidOf(1)}, Event: "e", Message: "It is full.",
		EventTime: now, Phase: event.Settled, Result: event.Asked, At: now, First: now, Who: "worker", Finding: "It is full.", Ask: "Make room.",
	}
	planned := r
	planned.Case, planned.Class, planned.Service = "55555555-20260102T150405", "survey-finalizers", event.Service{Namespace: "shop", Name: "web", UID: "55555555-0000-4000-8000-000000000002"}
	planned.Steps, planned.Digest = []event.StepRecord{{Kind: "touch", Text: "touch it", Step: []byte("{}")}}, strings.Repeat("0", 32)
	if err := seed(t.Context(), s, r, planned); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"ls", 0, "load balancer lb-1"},
		{"ls --service lb-1 --class survey-room", 0, "load balancer lb-1"},
		{"show 44444444", 0, "load balancer lb-1  asked"},
		{"show 44444444", 0, "by the check room of the survey"},
		{"approve 44444444", command.CodeWrong, "is a finding of the survey without a plan to agree to"},
		{"approve 55555555 --as me", 0, "lbremedy doctor --fix finalizers shop/web --apply"},
		{"undo 44444444", command.CodeWrong, "there is nothing to take back"},
		{"export --case 44444444", 0, `"kind":"load balancer"`},
	} {
		got := c.run(t.Context(), strings.Fields(tt.args)...)
		if got.code != tt.code || !strings.Contains(got.out+got.err, tt.want) || strings.Contains(got.out+got.err, "kube-system") {
			t.Errorf("%s: code %d, %s%s; want %d and %q", tt.args, got.code, got.out, got.err, tt.code, tt.want)
		}
	}
}
