package operator

import (
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// Lately returns the records of Journalled, moved to the last hour.
func Lately() []event.Record {
	records := Journalled()
	by := time.Since(Began.Add(30 * time.Minute)).Truncate(time.Second)
	for i := range records {
		r := &records[i]
		r.At, r.EventTime, r.First = r.At.Add(by), r.EventTime.Add(by), r.First.Add(by)
	}
	return records
}

// Began is the time of the newest failure in Journalled.
var Began = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

// Journalled returns the records of three cases of two Services.
func Journalled() []event.Record {
	web := event.Service{Namespace: "shop", Name: "web", UID: "22222222-2222-2222-2222-222222222222"}
	api := event.Service{Namespace: "pay", Name: "api", UID: "33333333-3333-3333-3333-333333333333"}
	base := func(s event.Service, class string, at time.Time) event.Record {
		return event.Record{
			Origin: event.Origin{
				Case: s.UID[:8] + "-" + at.Format("20060102T150405"), Cluster: "c1", Class: class, Service: s,
				Event: "e." + at.Format("150405") + ".1", Message: Message, EventTime: at,
			},
			Run:      event.Run{At: at.Add(4200 * time.Millisecond), Who: "worker", First: at, Attempts: []time.Time{}, Impact: event.NeverUp},
			Decision: event.Decision{Mode: "fix"},
		}
	}
	old := base(web, "vswitch-ip-exhausted", Began.Add(-24*time.Hour))
	old.Phase, old.Result, old.Finding = event.Settled, event.Gone, say.Literal("The cause of the failure is gone.")
	begun := base(web, "vswitch-ip-exhausted", Began)
	begun.Phase, begun.Finding = event.Intent, say.Literal("The vSwitch vsw-a is full; vsw-b has 41 free addresses.")
	fixed := begun
	fixed.Phase, fixed.Result, fixed.Attempt, fixed.Attempts = event.Settled, event.Fixed, 1, []time.Time{Began}
	fixed.Risk, fixed.Rule = "low",
		say.Literal("Fix mode applies plans up to low risk. The risk of this plan is low.")
	fixed.Digest, fixed.Next, fixed.Written = "0123456789abcdef0123456789abcdef", 1, Began.Add(time.Second)
	key := "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-vswitch-id"
	fixed.Steps = []event.StepRecord{{
		Kind: "annotate", Text: say.Literal("annotate " + key + "=vsw-b"), Risk: "low",
		Step: json.RawMessage(`{"set":{"` + key + `":"vsw-b"},"was":{"` + key + `":"vsw-a"}}`),
		Undo: &event.Undo{Kind: "annotate", Text: say.Literal("annotate " + key + "=vsw-a")},
	}}
	fixed.Timings = event.Timings{Diagnose: 300 * time.Millisecond, Verify: 3 * time.Second}
	fixed.Trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	asked := base(api, "ram-permission", Began.Add(time.Minute))
	asked.Phase, asked.Result = event.Settled, event.Asked
	asked.Finding, asked.Ask = say.Literal("The role lacks slb:TagResources."), say.Literal("Attach the policy.\x1b[2J")
	return []event.Record{old, begun, fixed, asked}
}

// Embed starts NATS in a state directory, like up, and returns a call that finds it and a connection.
func Embed(t *testing.T) (Call, *stream.Stream) {
	t.Helper()
	c := Call{Env: map[string]string{"HOME": t.TempDir(), "LBREMEDY_STATE_DIR": t.TempDir()}}
	s := c.Embed(t)
	if got := c.Run(t.Context(), "up", "--setup", "--cluster", "c1"); got.Code != 0 {
		t.Fatalf("setup: %+v", got)
	}
	return c, s
}

// Embed starts the NATS of the call's state directory, like up, and connects to it.
func (c Call) Embed(t *testing.T) *stream.Stream {
	t.Helper()
	p := c.Program(io.Discard, io.Discard)
	p.State = c.Env["LBREMEDY_STATE_DIR"]
	server, err := p.Embed()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return c.Stream(t)
}

// Stream connects to the NATS of the call's state directory.
func (c Call) Stream(t *testing.T) *stream.Stream {
	t.Helper()
	p := c.Program(io.Discard, io.Discard)
	p.State = c.Env["LBREMEDY_STATE_DIR"]
	s, err := p.Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Approvers returns the approvers in a record, sorted by name, because the API server's times are whole seconds.
func Approvers(rec event.Record) []event.Approved {
	var all []event.Approved
	if rec.Approved != nil {
		all = append(all, *rec.Approved)
	}
	all = append(all, rec.Seconded...)
	slices.SortFunc(all, func(a, b event.Approved) int { return strings.Compare(a.By, b.By) })
	return all
}
