package journal_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/journal"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/root"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/test/operator"
)

func TestJournal(t *testing.T) {
	c, s := operator.Embed(t)
	info, err := os.Stat(filepath.Join(c.Env["LBREMEDY_STATE_DIR"], "nats.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file with the token: %v, %v; want mode 0600", info.Mode(), err)
	}
	if got := c.Run(t.Context(), "ls"); got.Code != 0 || got.Out != "" || got.Err != "No case.\n" {
		t.Errorf("an empty journal: %+v", got)
	}
	if got := c.Run(t.Context(), "ls", "-o", "json"); got.Code != 0 || got.Out != "[]\n" {
		t.Errorf("an empty journal: %+v", got)
	}
	if err := operator.Seed(t.Context(), s, operator.Journalled()...); err != nil {
		t.Fatal(err)
	}

	for args, want := range map[string]string{
		"--cluster c2 --open": "No case with --open in cluster c2.\n" +
			"NATS has never seen a cluster \"c2\": did you mean c1? It knows c1.\n",
		"--class quota --result needs-approval,needs-action": "No case with --class quota with --result needs-approval,needs-action.\n",
		"--cluster c1 -n shpo":                               "No case with --namespace shpo in cluster c1.\n",
		"--all --case 99":                                    "No case with --case 99.\n",
		"--open=false -n shpo":                               "No case with --namespace shpo.\n",
	} {
		got := c.Run(t.Context(), append([]string{"ls"}, strings.Fields(args)...)...)
		if got.Code != 0 || got.Out != "" || got.Err != want {
			t.Errorf("ls %s: %+v, want %q", args, got, want)
		}
	}
	for args, want := range map[string]string{
		"show shop/web --cluster c2":     `NATS has never seen a cluster "c2": did you mean c1`,
		"approve 3333 --cluster c2":      `NATS has never seen a cluster "c2": did you mean c1`,
		"undo 2222 --apply --cluster c2": `NATS has never seen a cluster "c2": did you mean c1`,
		"show shop/nope --cluster c1":    `the journal holds no case of a Service "shop/nope" in cluster c1`,
	} {
		if got := c.Run(t.Context(), strings.Fields(args)...); got.Code != command.CodeWrong || !strings.Contains(got.Err, want) {
			t.Errorf("%s: %+v, want %q", args, got, want)
		}
	}

	const web, gone, api = "22222222-20260102T150405", "22222222-20260101T150405", "33333333-20260102T150505"
	for _, tt := range []struct {
		args string
		want []string
	}{
		{"", []string{api + " needs-action", web + " fixed"}},
		{"--all", []string{api + " needs-action", web + " fixed", gone + " recovered"}},
		{"--all --case 22222222", []string{web + " fixed", gone + " recovered"}},
		{"--case " + api, []string{api + " needs-action"}},
		{"--open", []string{api + " needs-action"}},
		{"--class vswitch-ip-exhausted,tag-missing", []string{web + " fixed"}},
		{"--all --class vswitch-ip-exhausted", []string{web + " fixed", gone + " recovered"}},
		{"--namespace pay", []string{api + " needs-action"}},
		{"--service shop/web --result fixed", []string{web + " fixed"}},
		{"--service api", []string{api + " needs-action"}},
		{"--since 2026-01-02", []string{api + " needs-action", web + " fixed"}},
		{"--result recovered,needs-action", []string{api + " needs-action"}},
		{"--all --result recovered,needs-action", []string{api + " needs-action", gone + " recovered"}},
		{"--all --result recovered,needs-action", []string{api + " needs-action", gone + " recovered"}},
		{"--all --result needs-approval", nil},
		{"--cluster c2", nil},
	} {
		got := c.Run(t.Context(), append([]string{"ls", "-o", "json"}, strings.Fields(tt.args)...)...)
		var records []event.Record
		if err := json.Unmarshal([]byte(got.Out), &records); err != nil {
			t.Fatalf("ls %s: %v: %+v", tt.args, err, got)
		}
		var ids []string
		for _, r := range records {
			ids = append(ids, r.Case+" "+string(r.Result))
		}
		if diff := cmp.Diff(tt.want, ids); diff != "" || got.Code != 0 {
			t.Errorf("ls %s: code %d, %s", tt.args, got.Code, diff)
		}
	}
	table := c.Run(t.Context(), "ls", "--all")
	if !strings.HasPrefix(table.Out, "CASE ") || strings.Count(table.Out, "\n") != 4 || strings.Contains(table.Out, " \n") {
		t.Errorf("ls printed %q", table.Out)
	}

	report := c.Run(t.Context(), "show", "shop/web", "--history")
	for _, want := range []string{
		"shop/web  fixed\n", "Case       " + web, "Failed ", operator.Message, "Finding    The vSwitch vsw-a is full; vsw-b has 41 free addresses.\n",
		"Plan       low risk, 1 of 1 steps done\n           1. annotate",
		"\n              before: vswitch-id vsw-a\n              after: vswitch-id vsw-b\n",
		"undo: annotate", "Rule       Fix mode",
		"Outcome    fixed at", "by worker, the first attempt", "History\n", "Others     " + gone,
	} {
		if !strings.Contains(report.Out, want) {
			t.Errorf("show lacks %q:\n%s", want, report.Out)
		}
	}
	if strings.Contains(report.Out, "lbremedy undo") {
		t.Errorf("show offers the undo of a fix: %s", report.Out)
	}
	if got := c.Run(t.Context(), "show", "shop/web", "-o", "wide"); !strings.Contains(got.Out, "\nUndo       lbremedy undo "+web+"\n") ||
		strings.Contains(got.Out, "\nReads ") {
		t.Errorf("show -o wide: %+v", got)
	}
	if got := c.Run(t.Context(), "show", api[:8]); got.Code != 0 || !strings.Contains(got.Out, "To do      Attach the policy. [2J\n") {
		t.Errorf("show by the beginning of an ID: %+v", got)
	}
	if got := c.Run(t.Context(), "show", "nope/none"); got.Code != command.CodeWrong || !strings.Contains(got.Err, `"nope/none"`) {
		t.Errorf("show of an unknown Service: %+v", got)
	}
	if got := c.Run(t.Context(), "__complete", "show", ""); !strings.Contains(got.Out, api+"\tpay/api ") || !strings.Contains(got.Out, "\nshop/web\t") ||
		!strings.Contains(got.Out, web+"\tshop/web vswitch-ip-exhausted fixed\n") {
		t.Errorf("completion: %+v", got)
	}

	if got := c.Run(t.Context(), "undo", web); got.Code != command.CodeWrong || !strings.Contains(got.Err, "no region is named") {
		t.Errorf("undo without --apply, and without a cluster to look at: %+v", got)
	}
	if got := c.Run(t.Context(), "undo", "22222222"); got.Code != command.CodeWrong || !strings.Contains(got.Err, "no region is named") {
		t.Errorf("undo of what ls lists: %+v", got)
	}
	for name, want := range map[string]string{api: "no step was applied", gone: "no step was applied", "99": "holds no case"} {
		if got := c.Run(t.Context(), "undo", name); got.Code != command.CodeWrong || !strings.Contains(got.Err, want) {
			t.Errorf("undo %s: %+v; want %q", name, got, want)
		}
	}
}

var update = flag.Bool("update", false, "write what the commands print")

// The report of a fixed case says what happened, why, what was done by which rule from what to what, how to undo it, how long it took and who did it.
func TestReport(t *testing.T) {
	c, s := operator.Embed(t)
	key := "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-"
	fixed := operator.Journalled()[2]
	fixed.Written, fixed.First = operator.Began.Add(1500*time.Millisecond), operator.Began.Add(300*time.Millisecond)
	fixed.Steps[0].Text = say.Literal("annotate " + key + "vswitch-id=vsw-b, remove " + key + "zone-maps")
	fixed.Steps[0].Step = json.RawMessage(`{"set":{"` + key + `vswitch-id":"vsw-b"},"remove":["` + key + `zone-maps"],"was":{"` + key + `zone-maps":"h:vsw-a"}}`)
	fixed.Steps[0].Undo.Text = say.Literal("annotate " + key + "zone-maps=h:vsw-a, remove " + key + "vswitch-id")
	fixed.Steps = append(fixed.Steps,
		event.StepRecord{Kind: "move-listener", Text: say.Literal("let listener 80/tcp of lb-1 use the group rsp-2"), Risk: "high",
			Step: json.RawMessage(`{"lb":"lb-1","port":80,"protocol":"tcp","group":"rsp-2","was":"rsp-1"}`)},
		event.StepRecord{Kind: "resync", Text: say.Literal("trigger a resync"), Risk: "low", ResyncOnly: true, Step: json.RawMessage(`{"after":60000000000}`)})
	fixed.Risk, fixed.Next, fixed.Rule = "high", 3, say.Literal("Fix mode applies plans up to high risk. The risk of this plan is high.")
	fixed.Note = say.Literal("Two other Services were in the same vSwitch.")
	if err := operator.Seed(t.Context(), s, operator.Journalled()[1], fixed); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	p := c.Program(&out, io.Discard)
	p.Now = func() time.Time { return operator.Began.Add(8 * time.Hour) }
	if code := root.Run(t.Context(), p, []string{"show", fixed.Case, "--history"}); code != 0 {
		t.Fatalf("code %d", code)
	}
	golden := filepath.Join("testdata", "show.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("show prints something else; go test -run TestReport -update takes it over: %s", diff)
	}
}

type seenRecord struct {
	event.Record
	Seen *struct {
		Times int
		Last  time.Time
	}
}

func TestShowSeen(t *testing.T) {
	c, s := operator.Embed(t)
	asked := operator.Journalled()[3]
	if err := operator.Seed(t.Context(), s, asked); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		known event.Case
		want  string
	}{
		{event.Case{Repeats: 1, First: asked.At, Last: asked.At}, ""},
		{event.Case{Repeats: 8640, First: asked.At, Last: asked.At.Add(720 * time.Hour)}, "8640 times since "},
		{event.Case{Repeats: 12, First: asked.At.Add(-2 * time.Hour), Last: asked.At.Add(-time.Hour)}, ""}, // of an earlier record
	} {
		data, err := json.Marshal(event.Document{V: event.DocumentVersion, Cases: map[string]*event.Case{asked.Class: &tt.known}})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Put(t.Context(), event.StateKey(asked.Cluster, asked.Service.UID), data); err != nil {
			t.Fatal(err)
		}
		got := c.Run(t.Context(), "show", asked.Case)
		if got.Code != 0 || strings.Contains(got.Out, "Seen ") != (tt.want != "") || !strings.Contains(got.Out, tt.want) {
			t.Errorf("with %+v it shows %+v", tt.known, got)
		}
		if got := c.Run(t.Context(), "ls"); got.Code != 0 || strings.Contains(got.Out, "SEEN") != (tt.want != "") ||
			strings.Contains(got.Out, " 8640") != (tt.want != "") {
			t.Errorf("with %+v it lists %+v", tt.known, got)
		}
		for _, args := range [][]string{{"ls"}, {"show", asked.Case, "--history"}} {
			var list []seenRecord
			got := c.Run(t.Context(), append(args, "-o", "json")...)
			if err := json.Unmarshal([]byte(got.Out), &list); err != nil || len(list) != 1 || list[0].Case != asked.Case {
				t.Fatalf("%s: %v %+v", args, err, got)
			}
			if seen := list[0].Seen; (seen != nil) != (tt.want != "") || seen != nil && (seen.Times != tt.known.Repeats || !seen.Last.Equal(tt.known.Last)) {
				t.Errorf("with %+v %s prints %+v", tt.known, args, seen)
			}
		}
		var one seenRecord
		if got := c.Run(t.Context(), "show", asked.Case, "-o", "json"); json.Unmarshal([]byte(got.Out), &one) != nil || (one.Seen != nil) != (tt.want != "") {
			t.Errorf("with %+v show prints %+v", tt.known, got)
		}
	}
}

func TestShowSnapshot(t *testing.T) {
	c, s := operator.Embed(t)
	fixed := operator.Journalled()[2]
	if err := operator.Seed(t.Context(), s, fixed); err != nil {
		t.Fatal(err)
	}
	if got := c.Run(t.Context(), "show", fixed.Case, "--snapshot"); got.Code != command.CodeWrong || !strings.Contains(got.Err, "has no snapshot") {
		t.Errorf("without a snapshot: %+v", got)
	}
	kept := hand.Snapshot{Case: fixed.Case, Cluster: "c1", Class: fixed.Class, Service: fixed.Service, Attempt: 1, At: operator.Began,
		Balancers: []ccm.BalancerState{{
			ID: "lb-1", CLB: &cloud.LoadBalancer{ID: "lb-1", Address: "10.0.0.1", Status: "active", Tags: map[string]string{"a": "b"}},
			Listeners: []cloud.Listener{{Port: 80, Protocol: "tcp", Status: "running", VServerGroup: "rsp-1"}},
			Groups:    []cloud.VServerGroup{{ID: "rsp-1", Name: "g", Backends: []cloud.Backend{{ID: "i-1", Type: "ecs", Port: 30080, Weight: 100}}}},
		}}}
	data, err := json.Marshal(kept)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Snapshot(t.Context(), "c1", fixed.Service.UID, fixed.Class, nil, packed.Bytes()); err != nil {
		t.Fatal(err)
	}
	got := c.Run(t.Context(), "show", "shop/web", "--snapshot")
	for _, want := range []string{
		"case: " + fixed.Case, "attempt: 1", "id: lb-1", "Address: 10.0.0.1", "VServerGroup: rsp-1", "Weight: 100",
	} {
		if got.Code != 0 || !strings.Contains(got.Out, want) {
			t.Errorf("it lacks %q: %+v", want, got)
		}
	}
	if got := c.Run(t.Context(), "show", "shop/web", "--snapshot", "-o", "json"); !strings.Contains(got.Out, `"attempt": 1`) {
		t.Errorf("as JSON: %+v", got)
	}
	if got := c.Run(t.Context(), "ls", "--all"); got.Code != 0 || got.Err != "" || strings.Count(got.Out, "\n") != 2 {
		t.Errorf("ls: %+v", got)
	}
}

func TestWatch(t *testing.T) {
	c, s := operator.Embed(t)
	out, in := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() {
		p := c.Program(in, io.Discard)
		code <- root.Run(ctx, p, []string{"ls", "--watch", "-o", "json", "--result", "fixed,needs-action"})
		in.Close()
	}()
	// When ls follows is unknown: records are written until one appears.
	lines := bufio.NewScanner(out)
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		for i := 0; ctx.Err() == nil; i++ {
			records := operator.Journalled()
			for j := range records {
				records[j].Event += strings.Repeat("x", i%50)
			}
			if err := operator.Seed(ctx, s, records...); err != nil && ctx.Err() == nil {
				t.Errorf("seed: %v", err)
				return
			}
		}
	}()
	var got []string
	for len(got) < 2 && lines.Scan() {
		var r event.Record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Error(err)
			break
		}
		got = append(got, string(r.Result))
	}
	cancel()
	go io.Copy(io.Discard, out)
	<-wrote
	if got := <-code; got != 0 {
		t.Errorf("code %d, want 0 after an interrupt", got)
	}
	for _, r := range got {
		if r != "fixed" && r != "needs-action" {
			t.Errorf("it printed a record that ended as %s", r)
		}
	}
	if len(got) != 2 {
		t.Errorf("%d records, want 2", len(got))
	}
}

func TestLive(t *testing.T) {
	var out strings.Builder
	p := operator.Call{}.Program(&out, io.Discard)
	records := operator.Journalled()
	writing := records[2]
	writing.Phase, writing.Result, writing.Next = event.Intent, "", 0
	failing := records[3]
	failing.Error = "list vSwitches: denied"
	for _, r := range append(records, writing, failing) {
		journal.Live(p, r)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.TrimSpace(line[len("15:04:05 UTC"):]))
	}
	set := "annotate service.beta.kubernetes.io/alibaba-cloud-loadbalancer-vswitch-id=vsw-b"
	want := []string{
		"recovered       shop/web  vswitch-ip-exhausted  The cause of the failure is gone.",
		"writing         shop/web  vswitch-ip-exhausted  The vSwitch vsw-a is full; vsw-b has 41 free addresses.",
		"fixed           shop/web  vswitch-ip-exhausted  " + set + " (4.2s after the failure)",
		"needs-action    pay/api  ram-permission  The role lacks slb:TagResources.",
		"writing         shop/web  vswitch-ip-exhausted  " + set,
		"needs-action    pay/api  ram-permission  list vSwitches: denied",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
