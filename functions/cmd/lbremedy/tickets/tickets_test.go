package tickets_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/ticket"
	"github.com/lbremedy/lbremedy/test/operator"
)

func TestTickets(t *testing.T) {
	c, s := operator.Embed(t)
	ctx := t.Context()
	run := func(code int, out, errs string, args ...string) operator.Said {
		t.Helper()
		got := c.Run(ctx, args...)
		if got.Code != code || !strings.Contains(got.Out, out) || !strings.Contains(got.Err, errs) {
			t.Errorf("%v: code %d, %q, %q; want %d with %q and %q", args, got.Code, got.Out, got.Err, code, out, errs)
		}
		return got
	}
	run(0, "", "No incident.\n", "tickets", "ls")
	run(0, "[]\n", "", "tickets", "ls", "-o", "json")
	run(command.CodeWrong, "", `there is no incident "x"`, "tickets", "show", "x")
	run(0, "close INCIDENT", "", "tickets", "close", "--help")

	came := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		came <- string(body)
	}))
	defer receiver.Close()
	follow := func() {
		t.Helper()
		f, err := ticket.New(ticket.Config{Stream: s, Cluster: "c1", Remedies: functions.All, Sinks: []policy.Sink{
			{Name: "ops", Kind: policy.Webhook, URL: receiver.URL, SecretFrom: policy.Reference{File: operator.Write(t, "key", "MDEyMzQ1Njc4OWFiY2RlZg==")}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		inner, stop := context.WithCancel(ctx)
		var following sync.WaitGroup
		following.Go(func() { f.Run(inner) })
		<-came
		stop() // work in progress is finished and recorded
		following.Wait()
	}
	now := time.Now().Add(-time.Minute)
	r := event.Record{
		Origin: event.Origin{
			Case: "44444444-20260102T150405", Cluster: "c1", Class: "arrearage",
			Service: event.Service{Namespace: "shop", Name: "web", UID: operator.UID(1)}, Event: "e", Message: "unpaid", EventTime: now,
		},
		Run:     event.Run{Phase: event.Settled, Result: event.Asked, At: now, First: now, Who: "worker"},
		Plan:    event.Plan{Finding: say.F("Money is not the problem."), Cause: "bill"},
		Outcome: event.Outcome{Ask: say.Literal("Pay.")},
	}
	if err := operator.Seed(ctx, s, r); err != nil {
		t.Fatal(err)
	}
	follow()
	got := run(0, "account-c1.arrearage.", "", "tickets", "ls")
	if !strings.Contains(got.Out, "ops open") || !strings.Contains(got.Out, "bill") {
		t.Errorf("got %s", got.Out)
	}
	var list []ticket.Incident
	if err := json.Unmarshal([]byte(run(0, "", "", "tickets", "ls", "-o", "json").Out), &list); err != nil || len(list) != 1 || !list[0].Open ||
		len(list[0].Tickets) != 1 || list[0].Members[0].Result != "needs-action" || list[0].Members[0].Stood != "needs-action" {
		t.Fatalf("got %+v, %v", list, err)
	}
	c.Env["LANG"] = "zh_CN.UTF-8"
	for _, args := range [][]string{{"tickets", "ls"}, {"tickets", "show", list[0].ID}} {
		if got := run(0, `"Money is not the problem."`, "", append(args, "-o", "json")...); strings.Contains(got.Out, "format") {
			t.Errorf("%v: JSON is not in English sentences: %s", args, got.Out)
		}
	}
	run(0, "ops 未结束", "", "tickets", "ls")
	run(0, "  待处理  ", "", "tickets", "show", list[0].ID)
	run(0, "问题不在余额。", "", "tickets", "show", list[0].ID)
	delete(c.Env, "LANG")
	run(0, "shop/web", "", "tickets", "show", list[0].Tickets[0].Key)
	run(0, "   needs-action   ", "", "tickets", "show", list[0].ID)
	run(0, "ops: open, lbr-", "", "show", "shop/web")
	run(command.CodeWrong, "", `"" is not an incident`, "tickets", "close", "")
	run(0, "", "No incident in cluster c2.\n", "tickets", "ls", "--cluster", "c2")
	run(0, "[]\n", "", "tickets", "ls", "--cluster", "c2", "-o", "json")
	for _, verb := range []string{"show", "close"} {
		run(command.CodeWrong, "", `there is no incident "account-c1.arrearage" in cluster c2`, "tickets", verb, "account-c1.arrearage", "--cluster", "c2")
	}
	run(0, "account-c1.arrearage.", "", "tickets", "ls", "--cluster", "c1")
	run(0, "account-c1.arrearage.", "", "tickets", "ls", "-n", "shop", "--sort-by", "failing")
	run(0, "account-c1.arrearage.", "", "tickets", "ls", "-A")
	run(0, "", "No incident with --namespace pay.\n", "tickets", "ls", "-n", "pay")
	run(command.CodeWrong, "", "want age, cause, failing, incident", "tickets", "ls", "--sort-by", "result")
	run(command.CodeWrong, "", "--all-namespaces contradicts --namespace pay", "tickets", "ls", "-A", "-n", "pay")
	run(0, ", which affected 1 Service.", "", "tickets", "close", "account-c1.arrearage", "--cluster", "c1")
	run(0, "", "No incident.\n", "tickets", "ls")
	follow() // through the mark alone, without a record
	if got := run(0, "", "", "tickets", "show", list[0].ID); !strings.Contains(got.Out, "over") || !strings.Contains(got.Out, "closed") {
		t.Errorf("got %s", got.Out)
	}
}
