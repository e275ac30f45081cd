package observe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A Probe holds the results of probes. Its methods are safe for concurrent use.
type Probe struct {
	last, took *prometheus.GaugeVec
	late       *prometheus.CounterVec
	failures   prometheus.Counter
}

// Probe registers the metrics of probes of these classes.
func (m *Metrics) Probe(classes []string, every time.Duration) *Probe {
	p := &Probe{
		last: m.gauges("lbremedy_probe_last_timestamp_seconds", "Unix time at which a probe of a class last came through to an outcome; before the first "+
			"one, when the process began.", "class"),
		took: m.gauges("lbremedy_probe_seconds", "How long the last probe of a class that came through took, from the created Event to the outcome in the "+
			"journal; 0 before the first one.", "class"),
		late: m.counters("lbremedy_probes_late_total", "Probes of a class that did not come through in time.", "class"),
		failures: m.counters("lbremedy_probe_failures_total", "Rounds in which nothing could be probed: the Service of the probes is missing, or the API "+
			"server or NATS did not answer.").WithLabelValues(),
	}
	m.gauges("lbremedy_probe_interval_seconds", "Time from one round of probes to the next.").WithLabelValues().Set(every.Seconds())
	for _, class := range classes {
		p.last.WithLabelValues(class).Set(unix(m.began))
		p.took.WithLabelValues(class)
		p.late.WithLabelValues(class)
	}
	return p
}

// Through sets when the probe of a class came through, and how long it took.
func (p *Probe) Through(class string, at time.Time, took time.Duration) {
	p.last.WithLabelValues(class).Set(unix(at))
	p.took.WithLabelValues(class).Set(took.Seconds())
}

// Late counts a probe of a class that did not come through in time.
func (p *Probe) Late(class string) { p.late.WithLabelValues(class).Inc() }

// Failed counts a round in which nothing could be probed.
func (p *Probe) Failed() { p.failures.Inc() }
