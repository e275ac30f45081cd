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

// Tickets says what people were told, by asking at each scrape. Ask must be quick.
func (m *Metrics) Tickets(ask func() Tellings) {
	for telling, n := range map[string]func(Tellings) int64{
		"opened":   func(t Tellings) int64 { return t.Opened },
		"updated":  func(t Tellings) int64 { return t.Updated },
		"closed":   func(t Tellings) int64 { return t.Closed },
		"reopened": func(t Tellings) int64 { return t.Reopened },
		"retried":  func(t Tellings) int64 { return t.Retried },
		"refused":  func(t Tellings) int64 { return t.Refused },
	} {
		m.counter("lbremedy_tellings_total", "What was told to people, over all sinks: tickets that were opened, updated, closed or reopened there, and tellings that are retried or refused.",
			prometheus.Labels{"telling": telling}, func() int64 { return n(ask()) })
	}
}
