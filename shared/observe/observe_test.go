package observe

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/ledger"
	"github.com/lbremedy/lbremedy/shared/stream"
)

var update = flag.Bool("update", false, "write the catalogue of metrics anew")

func scrape(t *testing.T, m *Metrics) []string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("a scrape answers %d: %s", w.Code, w.Body)
	}
	return slices.DeleteFunc(strings.Split(w.Body.String(), "\n"), func(l string) bool { return !strings.Contains(l, "lbremedy_") })
}

func value(t *testing.T, m *Metrics, series string) string {
	t.Helper()
	for _, l := range scrape(t, m) {
		l = strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(l, `,cluster="c1"`, ""), `cluster="c1",`, ""), `{cluster="c1"}`, "")
		if v, ok := strings.CutPrefix(l, series+" "); ok && !strings.HasPrefix(l, "#") {
			return v
		}
	}
	return ""
}

func expect(t *testing.T, m *Metrics, want map[string]string) {
	t.Helper()
	for series, v := range want {
		if got := value(t, m, series); got != v {
			t.Errorf("%s is %q, want %q", series, got, v)
		}
	}
}

func record(change func(*event.Record)) event.Record {
	now := time.Now().Add(time.Second)
	r := event.Record{
		Origin:   event.Origin{Case: "a", Class: "busy"},
		Run:      event.Run{Result: event.Fixed, Attempt: 1, First: now.Add(-42 * time.Second), At: now},
		Plan:     event.Plan{Steps: []event.StepRecord{{Kind: "annotate"}, {Kind: "resync"}}},
		Progress: event.Progress{Written: now},
		Outcome:  event.Outcome{Timings: event.Timings{Queue: 2 * time.Second, Diagnose: 70 * time.Millisecond}},
	}
	change(&r)
	return r
}

func TestSeen(t *testing.T) {
	m := New("v1", "c1")
	m.Runs([]string{"busy", "quota"}, []string{"annotate", "resync"})
	expect(t, m, map[string]string{`lbremedy_runs_total{class="quota",outcome="fixed"}`: "0", `lbremedy_run_errors_total{class="quota"}`: "0",
		`lbremedy_build_info{version="v1"}`: "1"})

	half := record(func(r *event.Record) {
		r.Next, r.Result, r.Error, r.Timings.Sync = 1, event.Waiting, "no", 2*time.Second
	})
	m.OnRun(half, errors.New("no"))
	whole := record(func(r *event.Record) { r.Next, r.At, r.Timings.Sync = 2, half.At.Add(time.Second), 3*time.Second })
	m.OnRun(whole, nil)
	m.OnRun(whole, nil) // the same event again: the document has the answer
	expect(t, m, map[string]string{
		`lbremedy_runs_total{class="busy",outcome="waiting"}`:                  "1",
		`lbremedy_runs_total{class="busy",outcome="fixed"}`:                    "1",
		`lbremedy_runs_total{class="busy",outcome="answered"}`:                 "1",
		`lbremedy_run_errors_total{class="busy"}`:                              "1",
		`lbremedy_steps_applied_total{class="busy",kind="annotate"}`:           "1",
		`lbremedy_steps_applied_total{class="busy",kind="resync"}`:             "1",
		`lbremedy_run_phase_seconds_count{class="busy",phase="queue"}`:         "2",
		`lbremedy_run_phase_seconds_sum{class="busy",phase="queue"}`:           "4",
		`lbremedy_run_phase_seconds_count{class="busy",phase="apply"}`:         "",
		`lbremedy_fix_seconds_count{class="busy"}`:                             "1",
		`lbremedy_fix_seconds_bucket{class="busy",le="60"}`:                    "1",
		`lbremedy_run_phase_seconds_bucket{class="busy",phase="queue",le="1"}`: "0",
		`lbremedy_sync_delay_seconds_sum`:                                      "3",
		`lbremedy_sync_delay_seconds_count`:                                    "1",
	})

	m.OnRun(record(func(r *event.Record) { r.Attempt, r.Next, r.At = 2, 2, whole.At.Add(time.Second) }), nil)
	m.OnRun(record(func(r *event.Record) {
		r.Case, r.Result, r.Held, r.Steps, r.Written = "b", event.Waiting, event.HeldByBudget, nil, time.Time{}
	}), nil)
	m.OnRun(record(func(r *event.Record) { r.Case, r.Next, r.At = "c", 2, time.Now().Add(-time.Hour) }), nil)
	m.OnRun(record(func(r *event.Record) {
		r.Case, r.Result, r.Steps, r.Written, r.Repeats = "e", event.Asked, nil, time.Time{}, true
	}), nil)
	// Without a document no record, and after a panic no result.
	m.OnRun(event.Record{Run: event.Run{Result: event.Waiting}}, errors.New("unread"))
	m.OnRun(event.Record{Origin: event.Origin{Class: "quota"}}, errors.New("panic"))
	m.OnRun(record(func(r *event.Record) { r.Case, r.Result, r.Next = "d", event.Undone, 2 }), nil)
	expect(t, m, map[string]string{
		`lbremedy_steps_applied_total{class="busy",kind="annotate"}`: "2",
		`lbremedy_holds_total{class="busy",hold="budget"}`:           "1",
		`lbremedy_runs_total{class="busy",outcome="answered"}`:       "2",
		`lbremedy_runs_total{class="unread",outcome="waiting"}`:      "1",
		`lbremedy_runs_total{class="busy",outcome="needs-action"}`:   "1",
		`lbremedy_repeats_total{class="busy"}`:                       "1",
		`lbremedy_repeats_total{class="quota"}`:                      "0",
		`lbremedy_runs_total{class="quota",outcome="error"}`:         "1",
		`lbremedy_runs_total{class="busy",outcome="undone"}`:         "1",
	})
}

// 1,000 unknown words make no more series than one.
func TestOddWords(t *testing.T) {
	m := New("v1", "c1")
	m.Runs([]string{"busy"}, []string{"annotate"})
	odd := func(n int) {
		for i, change := range []func(r *event.Record, word string){
			func(r *event.Record, word string) { r.Result = event.Result(word) },
			func(r *event.Record, word string) { r.Phase = event.Phase(word) },
			func(r *event.Record, word string) { r.Class = word },
			func(r *event.Record, word string) { r.Held = event.Hold(word) },
			func(r *event.Record, word string) { r.Steps[1].Kind = word },
		} {
			m.OnRun(record(func(r *event.Record) {
				r.Case, r.Next = fmt.Sprint(n, " ", i), 2
				change(r, fmt.Sprint("odd-", n))
			}), errors.New("odd"))
		}
	}
	odd(0)
	want := len(scrape(t, m))
	for n := range 1000 {
		odd(1 + n)
	}
	if got := scrape(t, m); len(got) != want || strings.Contains(strings.Join(got, "\n"), "odd-") {
		t.Errorf("%d series of 1,000 odd records, %d of one", len(got), want)
	}
	expect(t, m, map[string]string{
		`lbremedy_runs_total{class="busy",outcome="other"}`:          "1001",
		`lbremedy_runs_total{class="other",outcome="fixed"}`:         "1001",
		`lbremedy_holds_total{class="busy",hold="other"}`:            "1001",
		`lbremedy_steps_applied_total{class="busy",kind="other"}`:    "4004",
		`lbremedy_steps_applied_total{class="busy",kind="annotate"}`: "4004",
	})
}

func TestMemory(t *testing.T) {
	m := New("v1", "c1")
	m.Runs(nil, nil)
	for i := range 2*most + 1 {
		m.OnRun(record(func(r *event.Record) { r.Case = fmt.Sprint(i) }), nil)
	}
	if len(m.met) > most {
		t.Errorf("%d cases are remembered", len(m.met))
	}
}

func TestCall(t *testing.T) {
	m := New("v1", "c1")
	call := m.Calls()
	call("slb", "DescribeLoadBalancers", 200, false, time.Second)
	call("slb", "DescribeLoadBalancers", 400, true, time.Second)
	call("slb", "DescribeLoadBalancers", 403, false, time.Second)
	call("slb", "DescribeLoadBalancers", 0, false, time.Second)
	call("slb", "DescribeLoadBalancers", 503, false, time.Second)
	of := func(result string) string {
		return `lbremedy_cloud_calls_total{action="DescribeLoadBalancers",product="slb",result="` + result + `"}`
	}
	expect(t, m, map[string]string{of("ok"): "1", of("throttled"): "1", of("refused"): "1", of("unanswered"): "2",
		`lbremedy_cloud_call_seconds_count{product="slb"}`: "5"})
}

func TestExporter(t *testing.T) {
	m := New("v1", "c1")
	x := Export{Page: ledger.Page{Events: 9, Published: 4, Ignored: 3, Lag: 1500 * time.Millisecond}, Ready: true}
	m.Exporter(func() Export { return x })
	expect(t, m, map[string]string{
		`lbremedy_events_seen_total`: "9", `lbremedy_events_ended_total{end="published"}`: "4", `lbremedy_events_ended_total{end="dead"}`: "0",
		`lbremedy_publish_lag_seconds`: "1.5", `lbremedy_exporter_ready`: "1", `lbremedy_last_event_timestamp_seconds`: "0",
	})
	x.Ready = false
	expect(t, m, map[string]string{`lbremedy_exporter_ready`: "0"})
}

func TestTickets(t *testing.T) {
	m := New("v1", "c1")
	count := m.Notifications()
	count("chat", "retried", 7)
	count("chat", "refused", 0)
	count("ops", "opened", 1)
	count("ops", "opened", 10)
	expect(t, m, map[string]string{
		`lbremedy_notifications_total{kind="retried",sink="chat"}`: "7", `lbremedy_notifications_total{kind="refused",sink="chat"}`: "0",
		`lbremedy_notifications_total{kind="opened",sink="ops"}`: "11",
	})
}

func TestTraces(t *testing.T) {
	m := New("v1", "c1")
	m.Traces(func() Spans { return Spans{Sent: 1, Dropped: 2, Lost: 3} })
	expect(t, m, map[string]string{`lbremedy_spans_total{end="sent"}`: "1", `lbremedy_spans_total{end="dropped"}`: "2", `lbremedy_untraced_runs_total`: "3"})
}

func standing() State {
	return State{
		Classes: []string{"busy", "quota"}, Open: []string{"busy"}, Paused: time.Unix(1000, 0), Left: map[string]int{"busy": 5, "quota": 2}, ClusterLeft: 3,
		Queues: []stream.Queue{{Class: "busy", Undelivered: 7, InHand: 1}},
		Fills:  []stream.Fill{{Stream: "CASES", Messages: 10, Bytes: 20, Limit: 40}, {Stream: "KV_lbremedy", Messages: 1, Bytes: 2}},
		Ledger: ledger.Ledger{Classes: []ledger.Account{{Class: "quota", Lost: 2}}, Problems: []string{"p"}},
	}
}

func follow(t *testing.T, m *Metrics, answer error) (told []error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan bool)
	read := make(chan bool)
	n := 0
	go func() {
		m.follow(ctx, time.Millisecond, func(context.Context) (State, error) {
			if n++; n <= 3 { // the last two are read after the first is published
				read <- true
			}
			return standing(), answer
		}, func(err error) { told = append(told, err) })
		close(ended)
	}()
	for range 3 {
		<-read
	}
	cancel()
	<-ended
	return told
}

func TestState(t *testing.T) {
	m := New("v1", "c1")
	if told := follow(t, m, nil); told != nil {
		t.Errorf("it tells %v", told)
	}
	expect(t, m, map[string]string{
		`lbremedy_state_known`: "1", `lbremedy_paused_timestamp_seconds`: "1000", `lbremedy_cluster_budget_left`: "3",
		`lbremedy_breaker_open{class="busy"}`: "1", `lbremedy_breaker_open{class="quota"}`: "0", `lbremedy_class_budget_left{class="quota"}`: "2",
		`lbremedy_waiting_messages{class="busy",state="undelivered"}`: "7", `lbremedy_waiting_messages{class="busy",state="in hand"}`: "1",
		`lbremedy_stream_bytes{stream="CASES"}`: "20", `lbremedy_stream_limit_bytes{stream="CASES"}`: "40", `lbremedy_stream_limit_bytes{stream="KV_lbremedy"}`: "",
		`lbremedy_ledger_lost{class="quota"}`: "2", `lbremedy_ledger_lost{class="busy"}`: "0", `lbremedy_ledger_problems`: "1",
	})

	// An unreadable state is neither healthy nor unhealthy.
	m = New("v1", "c1")
	if told := follow(t, m, errors.New("away")); len(told) != 1 || told[0].Error() != "away" {
		t.Errorf("it tells %v", told)
	}
	if got := slices.DeleteFunc(scrape(t, m), func(l string) bool { return strings.HasPrefix(l, "#") }); !slices.Equal(got, []string{
		`lbremedy_build_info{cluster="c1",version="v1"} 1`, `lbremedy_state_known{cluster="c1"} 0`,
	}) {
		t.Errorf("without a state it says\n%s", strings.Join(got, "\n"))
	}
}

var (
	series = regexp.MustCompile(`^(\w+?)(_bucket|_sum|_count)?(\{.*\})? \S+$`)
	label  = regexp.MustCompile(`(\w+)="`)
	plain  = regexp.MustCompile(`^lbremedy_[a-z_]+$`)
)

// Findings that are over disappear when the next run has ended well.
func TestDoctor(t *testing.T) {
	m := New("v1", "c1")
	s := m.Doctor([]string{"drift", "room"}, time.Hour)
	say := func(want ...string) {
		t.Helper()
		const prefix = "lbremedy_doctor_"
		var got []string
		for _, l := range scrape(t, m) {
			if strings.HasPrefix(l, prefix) && !strings.Contains(l, "interval") {
				got = append(got, strings.ReplaceAll(strings.TrimPrefix(l, prefix), `cluster="c1",`, ""))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	at := time.Unix(1000, 0)
	s.Ended(at, 2*time.Second, map[[2]string]int{{"room", "critical"}: 2, {"drift", "warning"}: 1}, map[string]int{"room": 1})
	s.Failed()
	say(`failures_total{cluster="c1"} 1`, `findings{check="drift",severity="warning"} 1`, `findings{check="room",severity="critical"} 2`,
		`last_timestamp_seconds{cluster="c1"} 1000`, `read_seconds{cluster="c1"} 2`, `unknown{check="drift",cluster="c1"} 0`, `unknown{check="room",cluster="c1"} 1`)
	s.Ended(at.Add(time.Second), time.Second, map[[2]string]int{{"room", "critical"}: 1}, nil)
	s.Last(at.Add(time.Minute))
	say(`failures_total{cluster="c1"} 1`, `findings{check="room",severity="critical"} 1`,
		`last_timestamp_seconds{cluster="c1"} 1060`, `read_seconds{cluster="c1"} 1`, `unknown{check="drift",cluster="c1"} 0`, `unknown{check="room",cluster="c1"} 0`)
	var none *Doctor
	none.Ended(at, 0, nil, nil)
	none.Last(at)
	none.Failed()
}

// A probed class has the start of the process as its time: an alert must also notice that the first probe is missing.
func TestProbe(t *testing.T) {
	m := New("v1", "c1")
	p := m.Probe([]string{"busy", "quota"}, 10*time.Minute)
	say := func(want ...string) {
		t.Helper()
		var got []string
		for _, l := range scrape(t, m) {
			if strings.HasPrefix(l, "lbremedy_probe") {
				name, value, _ := strings.Cut(strings.ReplaceAll(strings.TrimPrefix(l, "lbremedy_"), `,cluster="c1"`, ""), " ")
				if strings.Contains(name, "timestamp") {
					if f, err := strconv.ParseFloat(value, 64); err == nil && math.Abs(f-float64(m.began.Unix())) < 2 {
						value = "began"
					}
				}
				got = append(got, name+" "+value)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	say(`probe_failures_total{cluster="c1"} 0`, `probe_interval_seconds{cluster="c1"} 600`,
		`probe_last_timestamp_seconds{class="busy"} began`, `probe_last_timestamp_seconds{class="quota"} began`,
		`probe_seconds{class="busy"} 0`, `probe_seconds{class="quota"} 0`, `probes_late_total{class="busy"} 0`, `probes_late_total{class="quota"} 0`)
	p.Through("busy", time.Unix(1000, 0), 2*time.Second)
	p.Late("quota")
	p.Failed()
	say(`probe_failures_total{cluster="c1"} 1`, `probe_interval_seconds{cluster="c1"} 600`,
		`probe_last_timestamp_seconds{class="busy"} 1000`, `probe_last_timestamp_seconds{class="quota"} began`,
		`probe_seconds{class="busy"} 2`, `probe_seconds{class="quota"} 0`, `probes_late_total{class="busy"} 0`, `probes_late_total{class="quota"} 1`)
}

// TestCatalogue maintains infra/observability/metrics.txt, against which the dashboard and the alert rules are checked, and checks all
// metrics against Prometheus' rules.
func TestCatalogue(t *testing.T) {
	m := New("v1", "c1")
	m.Runs(nil, nil)
	m.Exporter(func() Export { return Export{} })
	m.Full(func() []string { return []string{"CASES"} })
	count := m.Notifications()
	for _, kind := range []string{"opened", "updated", "closed", "reopened", "retried", "refused"} {
		count("ops", kind, 0)
	}
	m.Traces(func() Spans { return Spans{} })
	m.OnRun(record(func(r *event.Record) { r.Next, r.Held, r.Repeats = 2, event.HeldByPause, true }), errors.New("e"))
	m.Calls()("slb", "A", 200, false, time.Second)
	follow(t, m, nil)
	s := m.Doctor([]string{"room"}, time.Hour)
	s.Ended(time.Now(), time.Second, map[[2]string]int{{"room", "critical"}: 2}, map[string]int{"room": 1})
	m.Probe([]string{"busy"}, time.Hour).Late("busy")
	f := m.Functions([]string{"busy"})
	f.Called("busy", "answered", "throttled", time.Second)
	f.Did("busy", nil, []event.Call{{Action: "patch services"}})

	help, kind, labels := map[string]string{}, map[string]string{}, map[string]map[string]bool{}
	for _, l := range scrape(t, m) {
		if f := strings.SplitN(l, " ", 4); f[0] == "#" {
			map[string]map[string]string{"HELP": help, "TYPE": kind}[f[1]][f[2]] = f[3]
			continue
		}
		s := series.FindStringSubmatch(l)
		name := s[1]
		if kind[name] == "" {
			name = s[1] + s[2]
		}
		if labels[name] == nil {
			labels[name] = map[string]bool{}
		}
		for _, k := range label.FindAllStringSubmatch(s[3], -1) {
			labels[name][k[1]] = true
		}
	}
	bounded := []string{"action", "api", "check", "class", "cluster", "end", "hold", "kind", "le", "outcome", "phase", "product", "result", "severity", "sink",
		"state", "status", "stream", "telling", "version"}
	var lines []string
	for name, has := range labels {
		var all []string
		for l := range has {
			if all = append(all, l); !slices.Contains(bounded, l) {
				t.Errorf("%s has the label %s, which is not known to be bounded", name, l)
			}
		}
		slices.Sort(all)
		if !plain.MatchString(name) || strings.HasSuffix(name, "_total") != (kind[name] == "counter") || kind[name] == "histogram" &&
			!strings.HasSuffix(name, "_seconds") || !strings.HasSuffix(help[name], ".") {
			t.Errorf("%s, a %s, breaks the rules of names: %s", name, kind[name], help[name])
		}
		lines = append(lines, fmt.Sprintf("%s{%s} %s: %s\n", name, strings.Join(all, ","), kind[name], help[name]))
	}
	slices.Sort(lines)
	got := "# Code generated by go test ./shared/observe -run TestCatalogue -update; DO NOT EDIT.\n" + strings.Join(lines, "")
	const file = "../../infra/observability/metrics.txt"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the catalogue is old; write it with: go test ./shared/observe -run TestCatalogue -update\n%s", diff)
	}
}

func TestFunctions(t *testing.T) {
	m := New("v1", "c1")
	f := m.Functions([]string{"quota"})
	expect(t, m, map[string]string{`lbremedy_function_calls_total{class="quota",result="unsure"}`: "0"})
	f.Called("quota", "answered", "", time.Second)
	f.Called("quota", "answered", "throttled", time.Second)
	f.Called("quota", "refused", "denied", time.Second)
	f.Did("quota", []event.Read{
		{Action: "get Service a/b:c"}, {Action: "slb:DescribeLoadBalancers"}, {Action: "slb:DescribeLoadBalancers", Error: "Throttling"},
	}, nil)
	f.Did("quota", nil, []event.Call{{Action: "patch services", Error: "Conflict"}, {Action: "quotas:CreateQuotaApplication"}})
	expect(t, m, map[string]string{
		`lbremedy_function_calls_total{class="quota",result="answered"}`: "2", `lbremedy_function_calls_total{class="quota",result="refused"}`: "1",
		`lbremedy_function_call_seconds_count{class="quota"}`:              "3",
		`lbremedy_function_problems_total{class="quota",kind="throttled"}`: "1", `lbremedy_function_problems_total{class="quota",kind="denied"}`: "1",
		`lbremedy_function_requests_total{api="cluster",class="quota",kind="read",result="ok"}`:     "1",
		`lbremedy_function_requests_total{api="cloud",class="quota",kind="read",result="ok"}`:       "1",
		`lbremedy_function_requests_total{api="cloud",class="quota",kind="read",result="error"}`:    "1",
		`lbremedy_function_requests_total{api="cluster",class="quota",kind="write",result="error"}`: "1",
		`lbremedy_function_requests_total{api="cloud",class="quota",kind="write",result="ok"}`:      "1",
	})
	(*Functions)(nil).Called("quota", "answered", "", time.Second)
	(*Functions)(nil).Did("quota", nil, nil)
}
