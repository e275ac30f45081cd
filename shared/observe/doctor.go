package observe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A Doctor holds the results of scheduled runs. Its methods are safe for concurrent use.
type Doctor struct {
	last, took        prometheus.Gauge
	findings, unknown *prometheus.GaugeVec
	failures          prometheus.Counter
	checks            []string
}

// Doctor registers the metrics of scheduled runs. Findings stay until the next run has succeeded; the result of a failed run is unknown.
func (m *Metrics) Doctor(checks []string, every time.Duration) *Doctor {
	d := &Doctor{
		last: m.gauges("lbremedy_doctor_last_timestamp_seconds", "Unix time of the last successful scheduled run on the cluster, in any process; before "+
			"the first one, when a process first asked.").WithLabelValues(),
		took: m.gauges("lbremedy_doctor_read_seconds", "How long the last scheduled run took to read cluster and cloud; 0 before the first one.").
			WithLabelValues(),
		findings: m.gauges("lbremedy_doctor_findings", "What the last scheduled run found, by check and severity.", "check", "severity"),
		unknown:  m.gauges("lbremedy_doctor_unknown", "Items that the last scheduled run could not check, by check.", "check"),
		failures: m.counters("lbremedy_doctor_failures_total", "Scheduled runs that failed; the next one tries again.").WithLabelValues(),
		checks:   checks,
	}
	m.gauges("lbremedy_doctor_interval_seconds", "Time from one scheduled run to the next.").WithLabelValues().Set(every.Seconds())
	d.last.Set(unix(m.began))
	return d
}

// Ended sets the results of a scheduled run: findings by check and severity, and what each check could not decide.
func (d *Doctor) Ended(at time.Time, took time.Duration, findings map[[2]string]int, unknown map[string]int) {
	if d == nil {
		return
	}
	d.last.Set(unix(at))
	d.took.Set(took.Seconds())
	d.findings.Reset()
	for k, n := range findings {
		d.findings.WithLabelValues(k[0], k[1]).Set(float64(n))
	}
	for _, c := range d.checks {
		d.unknown.WithLabelValues(c).Set(float64(unknown[c]))
	}
}

// Last sets when another process's last scheduled run succeeded; that process publishes its findings.
func (d *Doctor) Last(at time.Time) {
	if d != nil {
		d.last.Set(unix(at))
	}
}

// Failed counts a scheduled run that failed.
func (d *Doctor) Failed() {
	if d != nil {
		d.failures.Inc()
	}
}
