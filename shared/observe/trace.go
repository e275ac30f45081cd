package observe

// Spans count the results of the spans that package trace makes.
type Spans struct {
	Sent    int64 // spans that the collector has taken
	Dropped int64 // spans that it has not taken
	Lost    int64 // runs whose spans were never made, since too many waited
}

// Traces registers the counts of spans; each scrape calls ask, which must be quick.
func (m *Metrics) Traces(ask func() Spans) {
	m.ours.MustRegister(scraped(func(to emit) {
		n := ask()
		for end, spans := range map[string]int64{"sent": n.Sent, "dropped": n.Dropped} {
			to(float64(spans), "lbremedy_spans_total", "Spans of traces: taken by the collector, or dropped because it did not take them.", "end", end)
		}
		to(float64(n.Lost), "lbremedy_untraced_runs_total", "Runs without spans, because too many spans waited to be sent.")
	}))
}
