package observe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A Survey is how runs of the survey went. Its methods may be called side by side.
type Survey struct {
	last, took, every prometheus.Gauge
	findings, unknown *prometheus.GaugeVec
	failures          prometheus.Counter
	checks            []string
}

// Survey makes a program say how its surveys went, with these checks. What a survey
// found stays until the next one has ended well: of the one in between it is not known.
func (m *Metrics) Survey(checks []string, every time.Duration) *Survey {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	s := &Survey{
		last:     gauge("lbremedy_survey_last_timestamp_seconds", "When the last survey of the cluster ended well, of this process or another that it left the cluster to, in seconds since 1970; before the first one, when the process began."),
		took:     gauge("lbremedy_survey_read_seconds", "How long the last survey took to read cluster and cloud; 0 before the first one."),
		every:    gauge("lbremedy_survey_interval_seconds", "Time from one survey to the next."),
		findings: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "lbremedy_survey_findings", Help: "What the last survey found, by check and severity."}, []string{"check", "severity"}),
		unknown:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "lbremedy_survey_unknown", Help: "Things of which the last survey could not tell how they stand, by check."}, []string{"check"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "lbremedy_survey_failures_total", Help: "Surveys that failed; each is made again at the next time."}),
		checks:   checks,
	}
	m.ours.MustRegister(s.last, s.took, s.every, s.findings, s.unknown, s.failures)
	s.every.Set(every.Seconds())
	s.last.Set(unix(m.began))
	return s
}

// Ended says what a survey found: how many findings of each check and severity, and how
// many things each check could not tell.
func (s *Survey) Ended(at time.Time, took time.Duration, findings map[[2]string]int, unknown map[string]int) {
	if s == nil {
		return
	}
	s.last.Set(unix(at))
	s.took.Set(took.Seconds())
	s.findings.Reset()
	for k, n := range findings {
		s.findings.WithLabelValues(k[0], k[1]).Set(float64(n))
	}
	for _, c := range s.checks {
		s.unknown.WithLabelValues(c).Set(float64(unknown[c]))
	}
}

// Elsewhere says that another process surveys the cluster: what it finds it says itself.
func (s *Survey) Elsewhere(at time.Time) {
	if s != nil {
		s.last.Set(unix(at))
	}
}

// Failed counts a survey that failed.
func (s *Survey) Failed() {
	if s != nil {
		s.failures.Inc()
	}
}
