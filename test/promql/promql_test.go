// Package promql reads the alert rules and the dashboard of infra/observability like Prometheus, and makes each alert fire. It is
// a separate module, because Prometheus' parser and engine would raise the versions of the programs' dependencies.
package promql

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
	"go.yaml.in/yaml/v3"
)

const folder = "../../infra/observability/"

var language = parser.NewParser(parser.Options{})

type rule struct {
	Alert, Expr         string
	For                 string
	Labels, Annotations map[string]string
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(folder + name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func rules(t *testing.T) []rule {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string
			Rules []rule
		}
	}
	dec := yaml.NewDecoder(strings.NewReader(string(read(t, "alerts.yaml"))))
	dec.KnownFields(true)
	if err := dec.Decode(&file); err != nil {
		t.Fatal(err)
	}
	if len(file.Groups) != 1 {
		t.Fatalf("there are %d groups", len(file.Groups))
	}
	return file.Groups[0].Rules
}

type metric struct {
	kind   string
	labels []string
}

func catalogue(t *testing.T) map[string]metric {
	t.Helper()
	all := map[string]metric{}
	line := regexp.MustCompile(`(?m)^(\w+)\{(.*)\} (\w+): (.*)$`)
	for _, f := range line.FindAllStringSubmatch(string(read(t, "metrics.txt")), -1) {
		all[f[1]] = metric{f[3], strings.Split(f[2], ",")}
	}
	if len(all) < 20 {
		t.Fatalf("the catalogue has %d metrics", len(all))
	}
	return all
}

// wrong returns the errors of an expression: it does not parse, or uses a metric or a label that no program has.
func wrong(expr string, known map[string]metric) []string {
	node, err := language.ParseExpr(expr)
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	has := map[string]bool{} // labels of all its metrics
	parser.Inspect(node, func(n parser.Node, _ []parser.Node) error {
		s, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		m, found := known[s.Name]
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			if base, cut := strings.CutSuffix(s.Name, part); cut && !found {
				if m, found = known[base]; found && m.kind != "histogram" {
					found = false
				}
			}
		}
		if !found {
			out = append(out, "no program has the metric "+s.Name)
			return nil
		}
		for _, l := range m.labels {
			has[l] = true
		}
		for _, l := range s.LabelMatchers {
			if l.Name != "__name__" && !slices.Contains(m.labels, l.Name) {
				out = append(out, s.Name+" has no label "+l.Name)
			}
		}
		return nil
	})
	parser.Inspect(node, func(n parser.Node, _ []parser.Node) error {
		var by []string
		switch n := n.(type) {
		case *parser.AggregateExpr:
			by = n.Grouping
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				by = n.VectorMatching.MatchingLabels
			}
		}
		for _, l := range by {
			if !has[l] {
				out = append(out, "nothing in it has the label "+l)
			}
		}
		return nil
	})
	return out
}

func TestWrong(t *testing.T) {
	known := map[string]metric{"a_total": {"counter", []string{"class"}}, "b_seconds": {"histogram", []string{"le"}}}
	for expr, want := range map[string]string{
		"sum by (class) (rate(a_total[5m]))": "", "b_seconds_bucket": "", "b_seconds_count": "",
		"a_total_count": "no program has the metric a_total_count", "rate(a_total[5m]": "unclosed left parenthesis",
		`a_total{clas="x"}`: "a_total has no label clas", "sum by (phase) (a_total)": "nothing in it has the label phase", "c": "no program has the metric c",
	} {
		if got := strings.Join(wrong(expr, known), "; "); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", expr, got, want)
		}
	}
}

func TestDashboard(t *testing.T) {
	var board struct {
		UID, Title string
		Templating struct {
			List []struct{ Name, Definition string }
		}
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr, RefID string }
		}
	}
	if err := json.Unmarshal(read(t, "dashboard.json"), &board); err != nil {
		t.Fatal(err)
	}
	if board.UID == "" || board.Title == "" || len(board.Panels) == 0 {
		t.Fatal("the dashboard is empty")
	}
	known, shown := catalogue(t), ""
	values := strings.NewReplacer("$__rate_interval", "5m", "$cluster", ".*")
	taken, ids := map[[2]int]string{}, map[int]bool{}
	for _, p := range board.Panels {
		if ids[p.ID] || p.Title == "" || len(p.Targets) == 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d, %q: it has no title, no target, no place or no ID of its own", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if taken[at] != "" {
					t.Fatalf("panels %q and %q lie on each other", taken[at], p.Title)
				}
				taken[at] = p.Title
			}
		}
		for _, q := range p.Targets {
			shown += q.Expr + "\n"
			for _, complaint := range wrong(values.Replace(q.Expr), known) {
				t.Errorf("panel %q: %s: %s", p.Title, q.Expr, complaint)
			}
			if !strings.Contains(q.Expr, `cluster=~"$cluster"`) {
				t.Errorf("panel %q does not ask which cluster: %s", p.Title, q.Expr)
			}
		}
	}
	for name, m := range known {
		told := m.kind == "gauge" || m.kind == "histogram" || strings.HasSuffix(name, "s_total")
		if told && !strings.Contains(shown, name) && !slices.Contains(aside, name) {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// aside are the metrics without a panel, for a closer look.
var aside = []string{"lbremedy_build_info", "lbremedy_function_problems_total", "lbremedy_function_requests_total", "lbremedy_last_event_timestamp_seconds",
	"lbremedy_posts_total", "lbremedy_progress_saves_total",
	"lbremedy_state_known", "lbremedy_stream_limit_bytes"}

type series struct {
	labels string // as in {a="b"}, with the name
	values func(minute int) float64
}

func always(v float64) func(int) float64 { return func(int) float64 { return v } }
func growing(by float64) func(int) float64 {
	return func(minute int) float64 { return by * float64(minute) }
}

func since(before, v float64) func(int) float64 {
	return func(minute int) float64 {
		if minute < 60 {
			return before
		}
		return v
	}
}

const function = `lbremedy_function_calls_total{class="a",cluster="c",result=`

const calls = `lbremedy_cloud_calls_total{cluster="c",action="A",product="slb",result=`

// fires has, for each alert, series that make it fire, and similar ones that do not.
var fires = map[string]struct{ ill, well []series }{
	"LbremedyAbsent":             {nil, []series{{`lbremedy_exporter_ready{cluster="c"}`, always(1)}}},
	"LbremedyNothingGetsThrough": {[]series{{`lbremedy_exporter_ready{cluster="c"}`, since(1, 0)}}, []series{{`lbremedy_exporter_ready{cluster="c"}`, always(1)}}},
	"LbremedyPublishLag": {[]series{{`lbremedy_publish_lag_seconds{cluster="c"}`, since(0, 61)}},
		[]series{{`lbremedy_publish_lag_seconds{cluster="c"}`, always(60)}}},
	"LbremedyNamespaceFloods": {[]series{{`lbremedy_events_slowed_total{cluster="c"}`, growing(60)}},
		[]series{{`lbremedy_events_slowed_total{cluster="c"}`, since(0, 300)}}},
	"LbremedyStateUnknown": {[]series{{`lbremedy_state_known{cluster="c"}`, since(1, 0)}}, []series{{`lbremedy_state_known{cluster="c"}`, always(1)}}},
	"LbremedyJournalNearlyFull": {
		[]series{{`lbremedy_stream_bytes{cluster="c",stream="CASES"}`, since(50, 81)}, {`lbremedy_stream_limit_bytes{cluster="c",stream="CASES"}`, always(100)}},
		[]series{{`lbremedy_stream_bytes{cluster="c",stream="FAILED"}`, always(99)}, {`lbremedy_stream_limit_bytes{cluster="c",stream="FAILED"}`, always(100)}},
	},
	"LbremedyStreamFull": {
		[]series{{`lbremedy_stream_full{cluster="c",stream="CASES"}`, since(0, 1)}, {`lbremedy_stream_full{cluster="c",stream="FAILED"}`, always(0)}},
		[]series{{`lbremedy_stream_full{cluster="c",stream="CASES"}`, always(0)}},
	},
	"LbremedyLedgerOutOfBalance": {
		[]series{{`lbremedy_ledger_lost{class="a",cluster="c"}`, since(0, 1)}, {`lbremedy_ledger_lost{class="b",cluster="c"}`, always(0)},
			{`lbremedy_ledger_problems{cluster="c"}`, always(0)}},
		[]series{{`lbremedy_ledger_lost{class="a",cluster="c"}`, always(0)}, {`lbremedy_ledger_problems{cluster="c"}`, always(0)}},
	},
	"LbremedyBreakerOpen": {[]series{{`lbremedy_breaker_open{class="a",cluster="c"}`, since(0, 1)}},
		[]series{{`lbremedy_breaker_open{class="a",cluster="c"}`, always(0)}}},
	"LbremedyPausedForLong": {[]series{{`lbremedy_paused_timestamp_seconds{cluster="c"}`, always(60)}},
		[]series{{`lbremedy_paused_timestamp_seconds{cluster="c"}`, always(0)}}},
	"LbremedyRunsFail": {[]series{{`lbremedy_runs_total{class="a",cluster="c",outcome="failed"}`, since(0, 1)}},
		[]series{{`lbremedy_runs_total{class="a",cluster="c",outcome="fixed"}`, growing(1)}}},
	"LbremedyRunsUnsettled": {[]series{{`lbremedy_runs_total{class="a",cluster="c",outcome="unsettled"}`, since(0, 3)}},
		[]series{{`lbremedy_runs_total{class="a",cluster="c",outcome="unsettled"}`, since(0, 1)}}},
	"LbremedyRunErrors": {[]series{{`lbremedy_run_errors_total{class="a",cluster="c"}`, growing(1)}},
		[]series{{`lbremedy_run_errors_total{class="a",cluster="c"}`, growing(.5)}}},
	"LbremedyFunctionDown": {[]series{{function + `"refused"}`, growing(1)}, {function + `"answered"}`, always(7)}},
		[]series{{function + `"unsure"}`, growing(1)}, {function + `"answered"}`, growing(1)}}},
	"LbremedyThrottled": {[]series{{calls + `"throttled"}`, growing(2)}, {calls + `"ok"}`, growing(8)}}, []series{{calls + `"throttled"}`, growing(1)},
		{calls + `"ok"}`, growing(19)}}},
	"LbremedyCloudUnanswered": {[]series{{calls + `"unanswered"}`, growing(3)}, {calls + `"ok"}`, growing(7)}}, []series{{calls + `"refused"}`, growing(9)},
		{calls + `"ok"}`, growing(1)}}},
	"LbremedyDeadLetters": {[]series{{`lbremedy_stream_messages{cluster="c",stream="DEAD"}`, since(0, 1)}},
		[]series{{`lbremedy_stream_messages{cluster="c",stream="CASES"}`, always(7)}, {`lbremedy_stream_messages{cluster="c",stream="DEAD"}`, always(0)}}},
	"LbremedyBacklog": {[]series{{`lbremedy_waiting_messages{class="a",cluster="c",state="undelivered"}`, since(0, 101)}},
		[]series{{`lbremedy_waiting_messages{class="a",cluster="c",state="in hand"}`, always(500)}}},
	"LbremedySinkFails": {[]series{{`lbremedy_notifications_total{cluster="c",sink="s",kind="retried"}`, growing(1)}},
		[]series{{`lbremedy_notifications_total{cluster="c",sink="s",kind="retried"}`, since(0, 1)}}},
	"LbremedyTicketsRefused": {[]series{{`lbremedy_notifications_total{cluster="c",sink="s",kind="refused"}`, since(0, 1)}},
		[]series{{`lbremedy_notifications_total{cluster="c",sink="s",kind="opened"}`, growing(1)}}},
	"LbremedyDoctorStopped": {
		[]series{{`lbremedy_doctor_last_timestamp_seconds{cluster="c"}`, always(0)}, {`lbremedy_doctor_interval_seconds{cluster="c"}`, always(3600)}},
		[]series{{`lbremedy_doctor_last_timestamp_seconds{cluster="c"}`, func(minute int) float64 { return float64(minute / 60 * 3600) }},
			{`lbremedy_doctor_interval_seconds{cluster="c"}`, always(3600)}},
	},
	"LbremedyProbeLost": {
		[]series{{`lbremedy_probe_last_timestamp_seconds{class="busy",cluster="c"}`, always(0)},
			{`lbremedy_probe_last_timestamp_seconds{class="quota",cluster="c"}`, func(minute int) float64 { return float64(60 * minute) }},
			{`lbremedy_probe_interval_seconds{cluster="c"}`, always(600)}},
		[]series{{`lbremedy_probe_last_timestamp_seconds{class="busy",cluster="c"}`, func(minute int) float64 { return float64(minute / 20 * 1200) }},
			{`lbremedy_probe_interval_seconds{cluster="c"}`, always(600)}},
	},
	"LbremedyDoctorBlind": {[]series{{`lbremedy_doctor_unknown{check="a",cluster="c"}`, since(0, 1)}},
		[]series{{`lbremedy_doctor_unknown{check="a",cluster="c"}`, func(minute int) float64 { return float64(minute / 60 % 2) }},
			{`lbremedy_doctor_unknown{check="scale",cluster="c"}`, always(1)}}},
	"LbremedyBudgetSpent": {[]series{{`lbremedy_cluster_budget_left{cluster="c"}`, since(3, 0)}},
		[]series{{`lbremedy_cluster_budget_left{cluster="c"}`, always(1)}}},
}

// A store has five hours of series, one value a minute from 1970 on.
type store []series

const minutes = 300

func (s store) Querier(_, _ int64) (storage.Querier, error) { return querier{s}, nil }

type querier struct{ store }

func (q querier) Close() error { return nil }

func (q querier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (q querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (q querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	var found found
	for _, s := range q.store {
		expr, err := language.ParseExpr(s.labels)
		if err != nil {
			return storage.ErrSeriesSet(err)
		}
		has, pairs := map[string]string{}, []string{}
		for _, m := range expr.(*parser.VectorSelector).LabelMatchers {
			has[m.Name] = m.Value
			pairs = append(pairs, m.Name, m.Value)
		}
		if slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(has[m.Name]) }) {
			continue
		}
		var samples []chunks.Sample
		for i := range minutes {
			samples = append(samples, sample{minute: i, value: s.values(i)})
		}
		found = append(found, storage.NewListSeries(labels.FromStrings(pairs...), samples))
	}
	return &set{series: found}
}

type found []storage.Series

type sample struct {
	minute int
	value  float64
}

func (s sample) T() int64                      { return int64(s.minute) * 60_000 }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

type set struct {
	series found
	at     storage.Series
}

func (s *set) Next() bool {
	if len(s.series) == 0 {
		return false
	}
	s.at, s.series = s.series[0], s.series[1:]
	return true
}

func (s *set) At() storage.Series                { return s.at }
func (s *set) Err() error                        { return nil }
func (s *set) Warnings() annotations.Annotations { return nil }

func fired(t *testing.T, engine *promql.Engine, r rule, s store) int {
	t.Helper()
	patience := time.Duration(0)
	if r.For != "" {
		var err error
		if patience, err = time.ParseDuration(r.For); err != nil {
			t.Fatal(err)
		}
	}
	pending := -1
	for minute := range minutes {
		q, err := engine.NewInstantQuery(t.Context(), s, nil, r.Expr, time.UnixMilli(int64(minute)*60_000))
		if err != nil {
			t.Fatal(err)
		}
		v, err := q.Exec(t.Context()).Vector()
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case len(v) == 0:
			pending = -1
		case pending < 0:
			pending = minute
		}
		q.Close()
		if pending >= 0 && time.Duration(minute-pending)*time.Minute >= patience {
			return minute
		}
	}
	return -1
}

// TestAlerts: every alert parses, uses existing metrics, says what is wrong and what to do, and fires exactly when it should.
func TestAlerts(t *testing.T) {
	known := catalogue(t)
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: language})
	defer engine.Close()
	seen := map[string]bool{}
	for _, r := range rules(t) {
		t.Run(r.Alert, func(t *testing.T) {
			for _, complaint := range wrong(r.Expr, known) {
				t.Errorf("%s: %s", r.Expr, complaint)
			}
			if !strings.HasSuffix(r.Annotations["summary"], ".") || !strings.HasSuffix(r.Annotations["action"], ".") ||
				!slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) || seen[r.Alert] {
				t.Errorf("it has a name of its own, a severity, and in summary and action a sentence that says what is wrong and what to do: %+v", r)
			}
			seen[r.Alert] = true
			example, ok := fires[r.Alert]
			if !ok {
				t.Fatal("nothing shows when it fires: add it to fires")
			}
			if at := fired(t, engine, r, example.ill); at < 0 {
				t.Error("it does not fire")
			}
			if at := fired(t, engine, r, example.well); at >= 0 {
				t.Errorf("it fires at minute %d, though all is well", at)
			}
		})
	}
	for name := range fires {
		if !seen[name] {
			t.Errorf("there is no alert %s", name)
		}
	}
}

// stands matches the metrics of the current state, which each notifier, or "lbremedy up" with the doctor, measures independently.
var stands = regexp.MustCompile(`^lbremedy_((breaker|paused|ledger|waiting|class_budget|cluster_budget)_\w+|stream_(bytes|limit_bytes|messages)|` +
	`doctor_(findings|unknown))$`)

// TestTwoNotifiers: alerts and dashboard show the same for two notifiers, as briefly during an upgrade, though each counts everything.
func TestTwoNotifiers(t *testing.T) {
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: language})
	defer engine.Close()
	same := func(expr string, all []series) {
		t.Helper()
		says := func(pods ...string) string {
			var s store
			for _, one := range all {
				for _, pod := range pods {
					s = append(s, series{strings.TrimSuffix(one.labels, "}") + `,pod="` + pod + `"}`, one.values})
				}
			}
			q, err := engine.NewInstantQuery(t.Context(), s, nil, expr, time.UnixMilli((minutes-1)*60_000))
			if err != nil {
				t.Fatal(err)
			}
			defer q.Close()
			return q.Exec(t.Context()).String()
		}
		if one, two := says("x"), says("x", "y"); one != two || one == "" {
			t.Errorf("%s\nof one says %q\nof two says %q", expr, one, two)
		}
	}
	name := regexp.MustCompile(`lbremedy_\w+`)
	asked := func(expr string) []string {
		names := name.FindAllString(expr, -1)
		if slices.ContainsFunc(names, func(n string) bool { return !stands.MatchString(n) }) {
			return nil
		}
		return names
	}
	for _, r := range rules(t) {
		if asked(r.Expr) != nil {
			same(r.Expr, fires[r.Alert].ill)
		}
	}
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(read(t, "dashboard.json"), &board); err != nil {
		t.Fatal(err)
	}
	known := catalogue(t)
	for _, p := range board.Panels {
		for _, q := range p.Targets {
			var all []series
			for _, n := range asked(q.Expr) {
				has := map[string]string{"stream": "CASES"}
				if strings.Contains(q.Expr, `"DEAD"`) {
					has["stream"] = "DEAD"
				}
				var pairs []string
				for _, l := range known[n].labels {
					pairs = append(pairs, l+`="`+cmp.Or(has[l], "x")+`"`)
				}
				all = append(all, series{n + "{" + strings.Join(pairs, ",") + "}", always(1)})
			}
			if all != nil {
				same(strings.ReplaceAll(q.Expr, "$cluster", ".*"), all)
			}
		}
	}
}
