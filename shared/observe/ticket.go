package observe

import "github.com/prometheus/client_golang/prometheus"

// Tellings count what people were told.
type Tellings struct {
	Opened, Updated, Closed, Reopened int64 // tickets
	Retried                           int64 // tellings that failed and are made again
	Refused                           int64 // tellings that a sink will never take
}

// Plus returns the sum of both.
func (t Tellings) Plus(o Tellings) Tellings {
	return Tellings{
		t.Opened + o.Opened, t.Updated + o.Updated, t.Closed + o.Closed, t.Reopened + o.Reopened,
		t.Retried + o.Retried, t.Refused + o.Refused,
	}
}

// Tickets says what people were told, by asking at each scrape what each sink was
// told, by its name in the policy. Ask must be quick.
func (m *Metrics) Tickets(ask func() map[string]Tellings) {
	m.ours.MustRegister(sinks{ask, prometheus.NewDesc("lbremedy_tellings_total",
		"What was told to people: tickets that were opened, updated, closed or reopened at a sink, and tellings that it failed to take and gets again, or refused.",
		[]string{"sink", "telling"}, nil)})
}

// sinks are a collector: which ones there are is the policy's, which changes.
type sinks struct {
	ask  func() map[string]Tellings
	desc *prometheus.Desc
}

// Describe tells which metric there is.
func (s sinks) Describe(to chan<- *prometheus.Desc) { to <- s.desc }

// Collect says what each sink was told.
func (s sinks) Collect(to chan<- prometheus.Metric) {
	for name, t := range s.ask() {
		for telling, n := range map[string]int64{
			"opened": t.Opened, "updated": t.Updated, "closed": t.Closed, "reopened": t.Reopened, "retried": t.Retried, "refused": t.Refused,
		} {
			to <- prometheus.MustNewConstMetric(s.desc, prometheus.CounterValue, float64(n), name, telling)
		}
	}
}
