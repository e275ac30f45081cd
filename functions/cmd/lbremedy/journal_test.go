package main

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

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
)

var began = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

// journalled returns the records of three cases of two Services.
func journalled() []event.Record {
	web := event.Service{Namespace: "shop", Name: "web", UID: "22222222-2222-2222-2222-222222222222"}
	api := event.Service{Namespace: "pay", Name: "api", UID: "33333333-3333-3333-3333-333333333333"}
	base := func(s event.Service, class string, at time.Time) event.Record {
		return event.Record{
			Case: s.UID[:8] + "-" + at.Format("20060102T150405"), Cluster: "c1", Class: class, Service: s, Event: "e." + at.Format("150405") + ".1", Message: full,
			EventTime: at, At: at.Add(4200 * time.Millisecond), Who: "worker", First: at, Attempts: []time.Time{}, Impact: event.NeverUp, Mode: "fix",
		}
	}
	old := base(web, "vswitch-ip-exhausted", began.Add(-24*time.Hour))
	old.Phase, old.Result, old.Finding = event.Settled, event.Gone, "The cause of the failure is gone."
	started := base(web, "vswitch-ip-exhausted", began)
	started.Phase = event.Started
	fixed := started
	fixed.Phase, fixed.Result, fixed.Attempt, fixed.Attempts = event.Settled, event.Fixed, 1, []time.Time{began}
	fixed.Finding, fixed.Risk, fixed.Rule = "The vSwitch vsw-a is full; vsw-b has 41 free addresses.", "low", "Fix mode applies plans up to low risk. The risk of this plan is low."
	fixed.Digest, fixed.Next, fixed.Written = "0123456789abcdef0123456789abcdef", 1, began.Add(time.Second)
	key := "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-vswitch-id"
	fixed.Steps = []event.StepRecord{{
		Kind: "annotate", Text: "annotate " + key + "=vsw-b", Risk: "low", Step: json.RawMessage(`{"set":{"` + key + `":"vsw-b"},"was":{"` + key + `":"vsw-a"}}`),
		Undo: &event.Undo{Kind: "annotate", Text: "annotate " + key + "=vsw-a", Step: json.RawMessage(`{"set":{"` + key + `":"vsw-a"},"was":{"` + key + `":"vsw-b"}}`)},
	}}
	fixed.Timings = event.Timings{Diagnose: 300 * time.Millisecond, Verify: 3 * time.Second}
	fixed.Trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	asked := base(api, "ram-permission", began.Add(time.Minute))
	asked.Phase, asked.Result, asked.Finding, asked.Ask = event.Settled, event.Asked, "The role lacks slb:TagResources.", "Attach the policy.\x1b[2J"
	return []event.Record{old, started, fixed, asked}
}

// embed starts a NATS in a state directory, as up does, and returns the
// environment of calls that find it there, and a connection.
func embed(t *testing.T) (call, *stream.Stream) {
	t.Helper()
	c := call{"", map[string]string{"HOME": t.TempDir(), "LBREMEDY_STATE_DIR": t.TempDir()}}
	p := &program{err: io.Discard, getenv: func(name string) string { return c.env[name] }, terminal: func(any) int { return 0 }}
	p.state = c.env["LBREMEDY_STATE_DIR"]
	server, _, err := p.embed(p.state)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	s, err := p.stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if got := c.run(t.Context(), "setup", "--cluster", "c1"); got.code != 0 {
		t.Fatalf("setup: %+v", got)
	}
	return c, s
}

func TestJournal(t *testing.T) {
	c, s := embed(t)
	info, err := os.Stat(placeFile(c.env["LBREMEDY_STATE_DIR"]))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file with the token: %v, %v; want mode 0600", info.Mode(), err)
	}
	if got := c.run(t.Context(), "ls"); got.code != 0 || got.out != "" || got.err != "No case.\n" {
		t.Errorf("an empty journal: %+v", got)
	}
	if got := c.run(t.Context(), "ls", "-o", "json"); got.code != 0 || got.out != "[]\n" {
		t.Errorf("an empty journal: %+v", got)
	}
	if err := seed(t.Context(), s, journalled()...); err != nil {
		t.Fatal(err)
	}

	const web, gone, api = "22222222-20260102T150405", "22222222-20260101T150405", "33333333-20260102T150505"
	for _, tt := range []struct {
		args string
		want []string
	}{
		{"", []string{api + " asked", web + " fixed"}},
		{"--all", []string{api + " asked", web + " fixed", gone + " gone"}},
		{"--all --case 22222222", []string{web + " fixed", gone + " gone"}},
		{"--case " + api, []string{api + " asked"}},
		{"--open", []string{api + " asked"}},
		{"--class vswitch-ip-exhausted,tag-missing", []string{web + " fixed"}},
		{"--all --class vswitch-ip-exhausted", []string{web + " fixed", gone + " gone"}},
		{"--namespace pay", []string{api + " asked"}},
		{"--service shop/web --result fixed", []string{web + " fixed"}},
		{"--service api", []string{api + " asked"}},
		{"--since 2026-01-02", []string{api + " asked", web + " fixed"}},
		{"--result gone,asked", []string{api + " asked"}},
		{"--all --result gone,asked", []string{api + " asked", gone + " gone"}},
		{"--cluster c2", nil},
	} {
		got := c.run(t.Context(), append([]string{"ls", "-o", "json"}, strings.Fields(tt.args)...)...)
		var records []event.Record
		if err := json.Unmarshal([]byte(got.out), &records); err != nil {
			t.Fatalf("ls %s: %v: %+v", tt.args, err, got)
		}
		var ids []string
		for _, r := range records {
			ids = append(ids, r.Case+" "+string(r.Result))
		}
		if diff := cmp.Diff(tt.want, ids); diff != "" || got.code != 0 {
			t.Errorf("ls %s: code %d, %s", tt.args, got.code, diff)
		}
	}
	table := c.run(t.Context(), "ls", "--all")
	if !strings.HasPrefix(table.out, "CASE ") || strings.Count(table.out, "\n") != 4 || strings.Contains(table.out, " \n") {
		t.Errorf("ls printed %q", table.out)
	}

	report := c.run(t.Context(), "show", "shop/web", "--history")
	for _, want := range []string{
		"shop/web  fixed\n", "Case       " + web, "Failed ", full, "Finding    The vSwitch vsw-a is full; vsw-b has 41 free addresses.\n",
		"Impact     The Service had no address", "Plan       low risk, 1 of 1 steps done\n           1. annotate", "\n              before: vswitch-id vsw-a\n              after: vswitch-id vsw-b\n",
		"undo: annotate", "Undo       lbremedy undo " + web + " --apply\n", "Rule       Fix mode", "Timings    diagnose 300ms, verify 3s; 3.3s in all\n",
		"Outcome    fixed at", "by worker, the first attempt", "History\n", "worker  started\n", "Others     " + gone,
	} {
		if !strings.Contains(report.out, want) {
			t.Errorf("show lacks %q:\n%s", want, report.out)
		}
	}
	if got := c.run(t.Context(), "show", api[:8]); got.code != 0 || !strings.Contains(got.out, "Asks       Attach the policy. [2J\n") {
		t.Errorf("show by the beginning of an ID: %+v", got)
	}
	if got := c.run(t.Context(), "show", "nope/none"); got.code != command.CodeWrong || !strings.Contains(got.err, `"nope/none"`) {
		t.Errorf("show of an unknown Service: %+v", got)
	}
	if got := c.run(t.Context(), "__complete", "show", ""); !strings.Contains(got.out, web+"\tshop/web vswitch-ip-exhausted fixed\n") {
		t.Errorf("completion: %+v", got)
	}

	if got := c.run(t.Context(), "undo", web); got.code != 0 || !strings.Contains(got.out, "vswitch-id=vsw-a\n") || !strings.Contains(got.err, "Nothing was written") {
		t.Errorf("undo without --apply: %+v", got)
	}
	for name, want := range map[string]string{api: "no step was applied", "22222222": "2 cases begin with", "99": "holds no case", "22222222-2026010": "2 cases begin with"} {
		if got := c.run(t.Context(), "undo", name); got.code != command.CodeWrong || !strings.Contains(got.err, want) {
			t.Errorf("undo %s: %+v; want %q", name, got, want)
		}
	}

	policy := write(t, "policy.yaml", "mode: fix\nrisk: medium\n")
	if got := c.run(t.Context(), "setup", "--cluster", "c1", "--policy", policy); got.code != 0 || got.out != "The policy in force is fix: plans up to medium risk are applied.\n" {
		t.Errorf("setup with a policy: %+v", got)
	}
}

var update = flag.Bool("update", false, "write what the commands print")

// The report of a fixed case tells what happened, why, what was done by which rule
// with before and after, how to take it back, how long it took and who did it.
func TestReport(t *testing.T) {
	c, s := embed(t)
	key := "service.beta.kubernetes.io/alibaba-cloud-loadbalancer-"
	fixed := journalled()[2]
	fixed.Written, fixed.First = began.Add(1500*time.Millisecond), began.Add(300*time.Millisecond)
	fixed.Steps[0].Text = "annotate " + key + "vswitch-id=vsw-b, remove " + key + "zone-maps"
	fixed.Steps[0].Step = json.RawMessage(`{"set":{"` + key + `vswitch-id":"vsw-b"},"remove":["` + key + `zone-maps"],"was":{"` + key + `zone-maps":"h:vsw-a"}}`)
	fixed.Steps[0].Undo.Text = "annotate " + key + "zone-maps=h:vsw-a, remove " + key + "vswitch-id"
	fixed.Steps = append(fixed.Steps,
		event.StepRecord{Kind: "listener", Text: "let listener 80/tcp of lb-1 use the group rsp-2", Risk: "high", Step: json.RawMessage(`{"lb":"lb-1","port":80,"protocol":"tcp","group":"rsp-2","was":"rsp-1"}`)},
		event.StepRecord{Kind: "touch", Text: "wake the controller", Risk: "low", Step: json.RawMessage(`{"after":60000000000}`)})
	fixed.Risk, fixed.Next, fixed.Rule = "high", 3, "Fix mode applies plans up to high risk. The risk of this plan is high."
	fixed.Note = "Two other Services were in the same vSwitch."
	if err := seed(t.Context(), s, journalled()[1], fixed); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	p := &program{in: strings.NewReader(""), out: &out, err: io.Discard, now: func() time.Time { return began.Add(8 * time.Hour) },
		getenv: func(name string) string { return c.env[name] }, terminal: func(any) int { return 0 }}
	if code := p.run(t.Context(), []string{"show", fixed.Case, "--history"}); code != 0 {
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

// Of a case that comes back and changes nothing it is told how often, and when last.
func TestShowSeen(t *testing.T) {
	c, s := embed(t)
	asked := journalled()[3]
	if err := seed(t.Context(), s, asked); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		known event.Running
		want  string
	}{
		{event.Running{Seen: 1, First: asked.At, Last: asked.At}, ""},
		{event.Running{Seen: 8640, First: asked.At, Last: asked.At.Add(720 * time.Hour)}, "8640 times since "},
		{event.Running{Seen: 12, First: asked.At.Add(-2 * time.Hour), Last: asked.At.Add(-time.Hour)}, ""}, // of an earlier record
	} {
		data, err := json.Marshal(tt.known)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Put(t.Context(), event.RunKey(asked.Cluster, asked.Service.UID, asked.Class), data); err != nil {
			t.Fatal(err)
		}
		got := c.run(t.Context(), "show", asked.Case)
		if got.code != 0 || strings.Contains(got.out, "Seen ") != (tt.want != "") || !strings.Contains(got.out, tt.want) {
			t.Errorf("with %+v it shows %+v", tt.known, got)
		}
		if got := c.run(t.Context(), "ls"); got.code != 0 || strings.Contains(got.out, "SEEN") != (tt.want != "") || strings.Contains(got.out, " 8640") != (tt.want != "") {
			t.Errorf("with %+v it lists %+v", tt.known, got)
		}
		for _, args := range [][]string{{"ls"}, {"show", asked.Case, "--history"}} {
			var list []seenRecord
			got := c.run(t.Context(), append(args, "-o", "json")...)
			if err := json.Unmarshal([]byte(got.out), &list); err != nil || len(list) != 1 || list[0].Case != asked.Case {
				t.Fatalf("%s: %v %+v", args, err, got)
			}
			if seen := list[0].Seen; (seen != nil) != (tt.want != "") || seen != nil && (seen.Times != tt.known.Seen || !seen.Last.Equal(tt.known.Last)) {
				t.Errorf("with %+v %s prints %+v", tt.known, args, seen)
			}
		}
		var one seenRecord
		if got := c.run(t.Context(), "show", asked.Case, "-o", "json"); json.Unmarshal([]byte(got.out), &one) != nil || (one.Seen != nil) != (tt.want != "") {
			t.Errorf("with %+v show prints %+v", tt.known, got)
		}
	}
}

// What was kept before a write is shown with listeners, groups and backends.
func TestShowSnapshot(t *testing.T) {
	c, s := embed(t)
	fixed := journalled()[2]
	if err := seed(t.Context(), s, fixed); err != nil {
		t.Fatal(err)
	}
	if got := c.run(t.Context(), "show", fixed.Case, "--snapshot"); got.code != command.CodeWrong || !strings.Contains(got.err, "has no snapshot") {
		t.Errorf("without a snapshot: %+v", got)
	}
	kept := engine.Snapshot{Case: fixed.Case, Cluster: "c1", Class: fixed.Class, Service: fixed.Service, Attempt: 1, At: began, Balancers: []engine.Standing{{
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
	got := c.run(t.Context(), "show", "shop/web", "--snapshot")
	for _, want := range []string{
		"shop/web  before attempt 1 of " + fixed.Case, "CLB        lb-1 10.0.0.1 active\n", "Tags       a=b\n",
		"Listener   80/tcp running rsp-1\n", "Group      rsp-1 g\n             i-1 ecs port 30080 weight 100\n",
	} {
		if got.code != 0 || !strings.Contains(got.out, want) {
			t.Errorf("it lacks %q: %+v", want, got)
		}
	}
	if got := c.run(t.Context(), "show", "shop/web", "--snapshot", "-o", "json"); !strings.Contains(got.out, `"attempt": 1`) {
		t.Errorf("as JSON: %+v", got)
	}
	// It is no record: nothing else of the journal meets it.
	if got := c.run(t.Context(), "ls", "--all"); got.code != 0 || got.err != "" || strings.Count(got.out, "\n") != 2 {
		t.Errorf("ls: %+v", got)
	}
}

func TestWatch(t *testing.T) {
	c, s := embed(t)
	out, in := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int, 1)
	go func() {
		p := &program{in: strings.NewReader(""), out: in, err: io.Discard, now: time.Now,
			getenv: func(name string) string { return c.env[name] }, terminal: func(any) int { return 0 }}
		code <- p.run(ctx, []string{"watch", "-o", "json", "--result", "fixed,asked"})
		in.Close()
	}()
	// Nobody knows when it follows: the journal is written until it says so.
	lines := bufio.NewScanner(out)
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		for i := 0; ctx.Err() == nil; i++ {
			records := journalled()
			for j := range records {
				records[j].Event += strings.Repeat("x", i%50)
			}
			if err := seed(ctx, s, records...); err != nil && ctx.Err() == nil {
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
		if r != "fixed" && r != "asked" {
			t.Errorf("it printed a record that ended as %s", r)
		}
	}
	if len(got) != 2 {
		t.Errorf("%d records, want 2", len(got))
	}
}

// The live lines of watch and up.
func TestLive(t *testing.T) {
	var out strings.Builder
	p := &program{out: &out, getenv: func(string) string { return "" }, terminal: func(any) int { return 0 }}
	records := journalled()
	writing := records[2]
	writing.Phase, writing.Result, writing.Next = event.Intent, "", 0
	failing := records[3]
	failing.Error = "list vSwitches: denied"
	for _, r := range append(records, writing, failing) {
		p.live(r)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.TrimSpace(line[len("15:04:05"):]))
	}
	set := "annotate service.beta.kubernetes.io/alibaba-cloud-loadbalancer-vswitch-id=vsw-b"
	want := []string{
		"gone        shop/web  vswitch-ip-exhausted  The cause of the failure is gone.",
		"looking     shop/web  vswitch-ip-exhausted  " + full,
		"fixed       shop/web  vswitch-ip-exhausted  " + set + " (4.2s after the failure)",
		"asked       pay/api  ram-permission  The role lacks slb:TagResources.",
		"writing     shop/web  vswitch-ip-exhausted  " + set,
		"asked       pay/api  ram-permission  list vSwitches: denied",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// After the end of up, its address is known and nobody answers there.
func TestStreamIsAway(t *testing.T) {
	c := call{"", map[string]string{"LBREMEDY_STATE_DIR": t.TempDir()}}
	at := place{URL: "nats://127.0.0.1:1", Token: "t"}
	if err := at.write(c.env["LBREMEDY_STATE_DIR"]); err != nil {
		t.Fatal(err)
	}
	if got := c.run(t.Context(), "ls"); got.code != command.CodeFailed || !strings.Contains(got.err, `"lbremedy up" does not run`) {
		t.Errorf("%+v", got)
	}
	if got := c.run(t.Context(), "ls", "--nats", "nats://127.0.0.1:1"); got.code != command.CodeFailed || !strings.Contains(got.err, "no NATS server answers there") {
		t.Errorf("%+v", got)
	}
	if got := c.run(t.Context(), "ls", "--nats", "nats://127.0.0.1:1", "--nats-creds", filepath.Join(t.TempDir(), "none")); got.code != command.CodeWrong {
		t.Errorf("%+v", got)
	}
}
