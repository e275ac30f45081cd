package observe

import "github.com/prometheus/client_golang/prometheus"

// Spans count the results of the spans that package trace makes.
type Spans struct {
	Sent    int64 // spans that the collector has taken
	Dropped int64 // spans that it has not taken
	Lost    int64 // runs whose spans were never made, since too many waited
}

// Traces registers the counts of spans; each scrape calls ask, which must be quick.
func (m *Metrics) Traces(ask func() Spans) {
	const help = "Spans of traces: those that the collector has taken, and those that were dropped since it did not."
	m.counter("lbremedy_spans_total", help, prometheus.Labels{"end": "sent"}, func() int64 { return ask().Sent })
	m.counter("lbremedy_spans_total", help, prometheus.Labels{"end": "dropped"}, func() int64 { return ask().Dropped })
	m.counter("lbremedy_untraced_runs_total", "Runs of which no spans were made, since too many waited to be sent.", nil, func() int64 { return ask().Lost })
}
