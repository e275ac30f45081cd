package observe

import "github.com/prometheus/client_golang/prometheus"

// Notifications count what people were notified of.
type Notifications struct {
	Opened, Updated, Closed, Reopened int64 // tickets
	Retried                           int64 // that failed and are sent again
	Refused                           int64 // that a sink did not take, and is asked to again each hour; of one that can't be made, tries to make it
}

// Plus returns the sum of both.
func (t Notifications) Plus(o Notifications) Notifications {
	return Notifications{
		t.Opened + o.Opened, t.Updated + o.Updated, t.Closed + o.Closed, t.Reopened + o.Reopened,
		t.Retried + o.Retried, t.Refused + o.Refused,
	}
}

// Tickets says what people were notified of, by asking at each scrape what each sink got,
// by its name in the policy. Ask must be quick.
func (m *Metrics) Tickets(ask func() map[string]Notifications) {
	m.ours.MustRegister(sinks{ask, prometheus.NewDesc("lbremedy_notifications_total",
		"Notifications of people: tickets opened, updated, closed or reopened at a sink, and those that it failed to take and gets again, or refused.",
		[]string{"sink", "kind"}, nil)})
}

// sinks are a collector: which ones there are is the policy's, which changes.
type sinks struct {
	ask  func() map[string]Notifications
	desc *prometheus.Desc
}

// Describe says which metrics there are.
func (s sinks) Describe(to chan<- *prometheus.Desc) { to <- s.desc }

// Collect says what each sink was notified of.
func (s sinks) Collect(to chan<- prometheus.Metric) {
	for name, t := range s.ask() {
		for kind, n := range map[string]int64{
			"opened": t.Opened, "updated": t.Updated, "closed": t.Closed, "reopened": t.Reopened, "retried": t.Retried, "refused": t.Refused,
		} {
			to <- prometheus.MustNewConstMetric(s.desc, prometheus.CounterValue, float64(n), name, kind)
		}
	}
}
