// Package observe turns lbremedy's activity into Prometheus metrics. Begin with [New] and [Metrics].
//
// It contains no class and makes no requests: programs pass it what they have anyway. Function programs stay small and don't import
// it: the engine counts the results of their answers.
//
// Labels are bounded: class, outcome, phase, kind and similar, never the name of a Service, a case or an error text. A record's writer
// may be an outsider: an unknown word counts as "other". Every series has the cluster as a label.
package observe

import (
	"crypto/sha256"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lbremedy/lbremedy/shared/event"
)

// Metrics are the metrics of one program about one cluster. Its methods are safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry // includes the metrics of the process itself
	ours     prometheus.Registerer
	began    time.Time

	runs, runErrors, repeats, steps, holds *prometheus.CounterVec
	phases, fixes                          *prometheus.HistogramVec
	syncs                                  prometheus.Observer

	classes, kinds []string // known values

	mu  sync.Mutex
	met map[[sha256.Size]byte]met // by hash of case and class, which may be long
}

type met struct {
	at            time.Time
	attempt, next int
}

// most is how many cases are remembered; beyond it, all are forgotten: a step counted twice is better than growing memory.
const most = 10_000

// seconds are for a run, from a quick read to a verification.
var seconds = []float64{.01, .05, .1, .5, 1, 5, 15, 60, 300, 900}

// fixSeconds are for a failure, from the Event to the proof.
var fixSeconds = []float64{5, 15, 30, 60, 120, 300, 900, 3600, 4 * 3600, 24 * 3600}

// syncSeconds are for a sync: the API server's times are whole seconds, and the controller retries within five minutes.
var syncSeconds = []float64{1, 2, 5, 10, 30, 60, 120, 300, 600, 1800}

// New returns the metrics of a program for a cluster, with Prometheus' own of the process, and its version.
func New(version, cluster string) *Metrics {
	registry := prometheus.NewRegistry()
	m := &Metrics{
		registry: registry, ours: prometheus.WrapRegistererWith(prometheus.Labels{"cluster": cluster}, registry),
		began: time.Now(), met: map[[sha256.Size]byte]met{},
	}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.gauges("lbremedy_build_info", "Version of the program; always 1.", "version").WithLabelValues(version).Set(1)
	return m
}

// Handler answers GET /metrics; with 500 rather than a part if a metric can't be read.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
}

// An emit gives the value of a metric at a scrape. Labels are names and values in turn; a name in _total is a counter's, any other a gauge's.
type emit func(value float64, name, help string, labels ...string)

// A scraped emits metrics whose values something else keeps. It declares none: what is unknown has no series.
type scraped func(emit)

// Describe declares nothing.
func (scraped) Describe(chan<- *prometheus.Desc) {}

// Collect sends what the function emits.
func (f scraped) Collect(to chan<- prometheus.Metric) {
	f(func(value float64, name, help string, labels ...string) {
		kind, of := prometheus.GaugeValue, prometheus.Labels{}
		if strings.HasSuffix(name, "_total") {
			kind = prometheus.CounterValue
		}
		for l := range slices.Chunk(labels, 2) {
			of[l[0]] = l[1]
		}
		to <- prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, of), kind, value)
	})
}

func (m *Metrics) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	m.ours.MustRegister(v)
	return v
}

func (m *Metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.ours.MustRegister(v)
	return v
}

func (m *Metrics) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	m.ours.MustRegister(v)
	return v
}

// Runs enables OnRun. Other values count as "other". Each class begins with zero runs that were fixed, unsettled and failed: a rate
// needs a series before its first event.
func (m *Metrics) Runs(classes, kinds []string) {
	m.classes, m.kinds = classes, kinds
	m.runs = m.counters("lbremedy_runs_total", "Runs on a failure, by outcome: \"answered\" if the journal already had the answer, \"error\" if the run "+
		"ended without an outcome.", "class", "outcome")
	m.runErrors = m.counters("lbremedy_run_errors_total", "Runs that ended with an error, whatever their outcome.", "class")
	m.repeats = m.counters("lbremedy_repeats_total", "Runs with the same result as the last record in the journal. That record counts them; "+
		"they add none.", "class")
	m.steps = m.counters("lbremedy_steps_applied_total", "Steps of plans that were applied.", "class", "kind")
	m.holds = m.counters("lbremedy_holds_total", "Runs whose plan was allowed and held back.", "class", "hold")
	m.phases = m.histograms("lbremedy_run_phase_seconds", "How long a phase of a run took; queue is from the Event to the start of the run.", seconds,
		"class", "phase")
	m.fixes = m.histograms("lbremedy_fix_seconds", "How long a failure that was fixed lasted, from the first run on it to the proof.", fixSeconds, "class")
	m.syncs = m.histograms("lbremedy_sync_delay_seconds", "How long the controller took to sync a Service in full after lbremedy had changed it.", syncSeconds).
		WithLabelValues()
	for _, c := range classes {
		for _, r := range []event.Result{event.Fixed, event.Synced, event.Unsettled, event.Failed} {
			m.runs.WithLabelValues(c, string(r))
		}
		m.runErrors.WithLabelValues(c)
		m.repeats.WithLabelValues(c)
	}
}

var outcomes = append([]event.Status{event.Writing}, event.Statuses...)

func known[T ~string](list []T, word T) string {
	if slices.Contains(list, word) {
		return string(word)
	}
	return "other"
}

// OnRun counts a run; it fits host.Host.OnRun. Call Runs first.
func (m *Metrics) OnRun(r event.Record, err error) {
	class := known(m.classes, r.Class)
	if r.Class == "" {
		class = "unread" // the document can't be read, so no record exists
	}
	if err != nil {
		m.runErrors.WithLabelValues(class).Inc()
	}
	steps, fresh := m.since(r)
	switch {
	case !fresh:
		m.runs.WithLabelValues(class, "answered").Inc()
		return
	case r.Result == "":
		m.runs.WithLabelValues(class, "error").Inc()
	default:
		m.runs.WithLabelValues(class, known(outcomes, r.Status())).Inc()
	}
	if r.Repeats {
		m.repeats.WithLabelValues(class).Inc()
	}
	if r.Held != "" {
		m.holds.WithLabelValues(class, known(event.Holds, r.Held)).Inc()
	}
	for _, s := range steps {
		m.steps.WithLabelValues(class, known(m.kinds, s.Kind)).Inc()
	}
	for phase, d := range map[string]time.Duration{
		"queue": r.Timings.Queue, "resume": r.Timings.Resume, "diagnose": r.Timings.Diagnose,
		"decide": r.Timings.Decide, "apply": r.Timings.Apply, "verify": r.Timings.Verify,
	} {
		if d > 0 { // a phase that the run never reached is zero
			m.phases.WithLabelValues(class, phase).Observe(d.Seconds())
		}
	}
	if r.Result.Worked() && r.Timings.Sync > 0 {
		m.syncs.Observe(r.Timings.Sync.Seconds())
	}
	if r.Result == event.Fixed && !r.First.IsZero() {
		m.fixes.WithLabelValues(class).Observe(max(0, r.At.Sub(r.First)).Seconds())
	}
}

// since returns the steps applied since the last record of the case, and whether the record is new, not a repeated answer.
func (m *Metrics) since(r event.Record) (steps []event.StepRecord, fresh bool) {
	if r.At.IsZero() {
		return nil, true // no record was written
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := sha256.Sum256([]byte(r.Case + " " + r.Class))
	was, known := m.met[key]
	if known && was.at.Equal(r.At) || !known && r.At.Before(m.began) {
		return nil, false
	}
	if len(m.met) >= most {
		clear(m.met)
	}
	m.met[key] = met{r.At, r.Attempt, r.Next}
	from := 0
	if known && was.attempt == r.Attempt {
		from = was.next
	}
	// An undo uses the same fields.
	if r.Result == event.Undone || r.Written.Before(m.began) || from > r.Next || r.Next > len(r.Steps) {
		return nil, true
	}
	return r.Steps[from:r.Next], true
}

// Calls returns a function that counts a request to Alibaba Cloud; its status is 0 without an answer.
func (m *Metrics) Calls() func(product, action string, status int, throttled bool, took time.Duration) {
	calls := m.counters("lbremedy_cloud_calls_total", "Requests to Alibaba Cloud, each try by itself: ok, throttled, refused or unanswered.", "product",
		"action", "result")
	times := m.histograms("lbremedy_cloud_call_seconds", "How long a request to Alibaba Cloud took.", seconds, "product")
	return func(product, action string, status int, throttled bool, took time.Duration) {
		result := "refused"
		switch {
		case throttled:
			result = "throttled"
		case status == 0 || status >= 500:
			result = "unanswered"
		case status < 300:
			result = "ok"
		}
		calls.WithLabelValues(product, action, result).Inc()
		times.WithLabelValues(product).Observe(took.Seconds())
	}
}
