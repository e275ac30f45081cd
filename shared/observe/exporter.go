package observe

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lbremedy/lbremedy/shared/ledger"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// An Export holds an exporter's counts since its start, and its state.
type Export struct {
	ledger.Page
	Relists int64 // lists of all Events
	Retries int64 // repeated publishes
	Saves   int64 // times that progress was saved
	Slowed  int64 // Events above the budget of their namespace
	Unread  int64 // reads of a Service that failed
	Posted  int64 // accepted requests of EventBridge
	Refused int64
	Ready   bool // Events are read and get through
}

// Exporter registers the metrics of an exporter; each scrape calls ask, which must be quick.
func (m *Metrics) Exporter(ask func() Export) {
	m.counter("lbremedy_events_seen_total", "Kubernetes Events about Services that were read from watches and lists.", nil, func() int64 { return ask().Events })
	for end, n := range map[string]func(Export) int64{
		"ignored":   func(x Export) int64 { return x.Ignored },
		"reported":  func(x Export) int64 { return x.Reported },
		"overtaken": func(x Export) int64 { return x.Overtaken },
		"published": func(x Export) int64 { return x.Published },
		"kept":      func(x Export) int64 { return x.Kept },
		"dead":      func(x Export) int64 { return x.Dead },
		"strange":   func(x Export) int64 { return x.Strange },
		"released":  func(x Export) int64 { return x.Released },
	} {
		m.counter("lbremedy_events_ended_total", "What became of the Events that were seen; those without an end wait.", prometheus.Labels{"end": end},
			func() int64 { return n(ask()) })
	}
	m.counter("lbremedy_event_lists_total", "Lists of all Events, at the start and where a watch could not go on.", nil, func() int64 { return ask().Relists })
	m.counter("lbremedy_publish_retries_total", "Publishes that were tried again.", nil, func() int64 { return ask().Retries })
	m.counter("lbremedy_events_slowed_total", "Events that came while their namespace made more than its budget. They wait, and of each Service and class "+
		"the newest is published.", nil, func() int64 { return ask().Slowed })
	m.counter("lbremedy_service_read_errors_total", "Reads of the Service that an Event is about that failed. The Event waits, and the read is made again.",
		nil, func() int64 { return ask().Unread })
	for end, n := range map[string]func(Export) int64{"taken": func(x Export) int64 { return x.Posted }, "refused": func(x Export) int64 { return x.Refused }} {
		m.counter("lbremedy_posts_total", "Requests to exporter --from-http: taken, or refused, since EventBridge has not signed them, or they come too late, "+
			"too often or in another form.", prometheus.Labels{"end": end}, func() int64 { return n(ask()) })
	}
	m.counter("lbremedy_progress_saves_total", "Times that the progress in the cluster's Events was saved.", nil, func() int64 { return ask().Saves })
	m.gauge("lbremedy_publish_lag_seconds", "For how long the oldest failure that isn't published yet has been known; 0 if none waits.", nil,
		func() float64 { return ask().Lag.Seconds() })
	m.gauge("lbremedy_exporter_ready", "Whether Events are read and get through, 1 or 0.", nil, func() float64 { return number(ask().Ready) })
	m.gauge("lbremedy_last_event_timestamp_seconds", "When an Event about a Service was last seen, in seconds since 1970; 0 if never.", nil,
		func() float64 { return unix(ask().Last) })
}

// Full registers the metric of full streams; each scrape calls ask.
func (m *Metrics) Full(ask func() []string) {
	for _, name := range []string{stream.Failed, stream.Cases, stream.Dead} {
		m.gauge("lbremedy_stream_full", "Whether a stream took nothing when this program last tried, 1 or 0. It tries again.", prometheus.Labels{"stream": name},
			func() float64 {
				return number(slices.Contains(ask(), name))
			})
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
