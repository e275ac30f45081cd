package status_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/answer"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/root"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/status"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/ledger"
	"github.com/lbremedy/lbremedy/shared/machine"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/operator"
)

func TestLedger(t *testing.T) {
	c, s := operator.Embed(t)
	c.Env["LBREMEDY_CLUSTER"] = "c1"
	draw := func(balanced bool, late time.Duration) ledger.Ledger {
		t.Helper()
		l, err := ledger.Draw(t.Context(), s, "c1", time.Now(), late)
		if err != nil || (len(l.Lost)+len(l.Problems) == 0) != balanced {
			t.Fatalf("%v, %+v; want balanced: %v", err, l, balanced)
		}
		return l
	}
	if l := draw(false, ledger.Late); len(l.Problems) != 1 || !strings.Contains(l.Problems[0], "No exporter has reported") {
		t.Errorf("without an exporter: %+v", l)
	}
	page := ledger.Page{Exporter: "x", Since: time.Now(), At: time.Now(), Last: time.Now(), Events: 20, Ignored: 11, Published: 8, Kept: 1}
	tell := func(change func(*ledger.Page)) {
		t.Helper()
		p := page
		change(&p)
		if err := p.Save(t.Context(), s, "c1"); err != nil {
			t.Fatal(err)
		}
	}
	tell(func(*ledger.Page) {})
	draw(true, ledger.Late)

	// The class tag-missing has one Service for each way in which a failure can end.
	publish := func(i int) event.Failure {
		t.Helper()
		header, data := operator.Failure(t, "tag-missing", operator.UID(i), "7")
		if _, _, err := s.PublishNewer(t.Context(), event.FailedSubject("c1", "tag-missing", operator.UID(i)), fmt.Sprint("m", i), header, data,
			func(stream.Message) bool { return true }); err != nil {
			t.Fatal(err)
		}
		it, err := answer.Kept(new(cli.Program), stream.Message{Header: header, Data: data})
		if err != nil {
			t.Fatal(err)
		}
		return it.Event.Failure
	}
	journal := func(i int, change func(*event.Record)) {
		t.Helper()
		f := publish(i)
		r := event.Record{
			Origin: event.Origin{
				Case: operator.UID(i)[:8] + "-20260102T150405", Cluster: "c1", Class: "tag-missing", Service: f.Service,
				Message: operator.Message, EventTime: f.Last, Event: f.Event.UID + ".1.7",
			},
			Run: event.Run{Phase: event.Settled, At: time.Now(), Who: "worker", Attempts: []time.Time{}},
		}
		change(&r)
		if err := operator.Seed(t.Context(), s, r); err != nil {
			t.Fatal(err)
		}
	}
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	journal(1, func(r *event.Record) { r.Result = event.Asked })
	journal(2, func(r *event.Record) { r.Result, r.Event = event.Fixed, "another.1.6" })
	journal(3, func(r *event.Record) { r.Result, r.Wait = event.Waiting, time.Hour })
	journal(4, func(r *event.Record) { r.Result, r.Wait, r.Event = event.Waiting, 48*time.Hour, "another.1.6" })
	journal(5, func(r *event.Record) { r.Phase = event.Intent })
	journal(6, func(r *event.Record) { r.Result, r.Event = event.Asked, "another.1.6" }) // not answered
	publish(7)                                                                           // not looked at
	publish(8)
	operator.Bury(t, s, "tag-missing", operator.UID(8), "7", "r")
	// One came back without a change, and one is being looked at for the first time.
	document := func(i int, d event.Document) {
		t.Helper()
		d.V = event.DocumentVersion
		data, err := json.Marshal(d)
		if err == nil {
			err = s.Put(t.Context(), event.StateKey("c1", operator.UID(i)), data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	journal(12, func(r *event.Record) { r.Result, r.Event, r.At = event.Asked, "another.1.6", ago(time.Hour) })
	data, err := s.Get(t.Context(), event.StateKey("c1", operator.UID(12)))
	if err != nil {
		t.Fatal(err)
	}
	again, err := event.ReadDocument(data)
	if err != nil {
		t.Fatal(err)
	}
	it := again.Cases["tag-missing"]
	it.Repeats, it.First, it.Last, it.Event = 2, ago(time.Hour), time.Now(), "11111111-1111-1111-1111-111111111111.1.7"
	document(12, again)
	publish(13)
	document(13, event.Document{State: machine.Doc{Holder: "x", Cases: []machine.Case{{Class: "tag-missing", State: machine.Looking}}},
		Cases: map[string]*event.Case{"tag-missing": {}}})
	draw(true, ledger.Late)
	want := ledger.Account{Class: "tag-missing", Published: 10, Queued: 2, Waiting: 4, Settled: 3, Dead: 1, Undelivered: 10}
	if diff := cmp.Diff([]ledger.Account{want}, draw(true, ledger.Late).Classes); diff != "" {
		t.Error(diff)
	}

	// Everything unsettled is lost as soon as it is late.
	l := draw(false, 0)
	want.Queued, want.Waiting, want.Lost = 0, 2, 4
	if diff := cmp.Diff([]ledger.Account{want}, l.Classes); diff != "" {
		t.Error(diff)
	}
	var lost []string
	for _, x := range l.Lost {
		lost = append(lost, x.Service.UID[len(x.Service.UID)-1:]+" "+x.Event+" "+x.Case+" "+x.Why)
	}
	id := "11111111-1111-1111-1111-111111111111.1.7"
	if diff := cmp.Diff([]string{
		"5 " + id + " 44444444-20260102T150405 A run on it began and never ended.",
		"6 " + id + "  Nobody has looked at it.",
		"7 " + id + "  Nobody has looked at it.",
		"3 " + id + "  A run on it began and never ended.",
	}, lost); diff != "" {
		t.Error(diff)
	}
	then := time.Now().Add(90 * time.Minute)
	tell(func(p *ledger.Page) { p.At = then })
	l, err = ledger.Draw(t.Context(), s, "c1", then, ledger.Late)
	if err != nil || len(l.Lost) <= 3 {
		t.Fatalf("%v, %+v", err, l)
	}
	run := func(args ...string) (int, string, string) {
		var out, errs strings.Builder
		p := c.Program(&out, &errs)
		p.Now = func() time.Time { return then }
		code := root.Run(t.Context(), p, append([]string{"status"}, args...))
		return code, out.String(), errs.String()
	}
	if code, out, errs := run(); code != command.CodeFailed || !strings.Contains(out, "Not all failures are accounted for.") ||
		!strings.Contains(out, fmt.Sprintf("%d lost\n", len(l.Lost))) || strings.Count(out, " tag-missing ") != 3 ||
		!strings.Contains(errs, fmt.Sprintf("%d more are lost: see -o wide.", len(l.Lost)-3)) {
		t.Errorf("code %d: %s%s", code, out, errs)
	}
	if code, out, _ := run("-o", "wide"); code != command.CodeFailed || strings.Count(out, " tag-missing ") != len(l.Lost) ||
		!strings.Contains(out, "UNDELIVERED") {
		t.Errorf("code %d: %s", code, out)
	}
	var st status.Status
	if _, out, _ := run("-o", "json"); json.Unmarshal([]byte(out), &st) != nil || len(st.Backlog.Losses) != len(l.Lost) ||
		len(st.Backlog.Classes) != 1 || st.Backlog.Classes[0].Lost != len(l.Lost) || strings.Contains(out, "0001-01-01") {
		t.Errorf("%s", out)
	}
	tell(func(*ledger.Page) {})

	tell(func(p *ledger.Page) { p.Events, p.Last = 21, ago(2*time.Minute) })
	if err := s.Put(t.Context(), event.StateKey("c1", operator.UID(10)), []byte("no document")); err != nil {
		t.Fatal(err)
	}
	header, data := operator.Failure(t, "tag-missing", operator.UID(11), "7")
	if _, _, err := s.PublishNewer(t.Context(), event.FailedSubject("c1", "no-class", operator.UID(11)), "n", header, data,
		func(stream.Message) bool { return true }); err != nil {
		t.Fatal(err)
	}
	problems := strings.Join(draw(false, ledger.Late).Problems, "\n")
	for _, want := range []string{"The exporter x has seen 21 Events, and 1 of them are not accounted for.",
		"The key state.c1." + operator.UID(10) + " can't be read", "The class no-class has 1 failures and no consumer"} {
		if !strings.Contains(problems, want) {
			t.Errorf("it lacks %q: %s", want, problems)
		}
	}
	tell(func(p *ledger.Page) { p.At = ago(10 * time.Minute) })
	if problems := draw(false, ledger.Late).Problems; !strings.Contains(strings.Join(problems, "\n"), "No exporter has reported") {
		t.Errorf("with a silent exporter: %v", problems)
	}
}
