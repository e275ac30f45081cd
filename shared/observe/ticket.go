package observe

// Notifications returns a function that counts notifications of people at a sink, by its name in the policy. Zero makes the series.
func (m *Metrics) Notifications() func(sink, kind string, n float64) {
	all := m.counters("lbremedy_notifications_total",
		"Notifications of people at a sink: tickets opened, updated, closed or reopened, and those that are retried or that the sink refused.",
		"sink", "kind")
	return func(sink, kind string, n float64) { all.WithLabelValues(sink, kind).Add(n) }
}
