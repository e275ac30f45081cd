package observe

import (
	"slices"
	"time"

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
	m.ours.MustRegister(scraped(func(to emit) {
		x := ask()
		to(float64(x.Events), "lbremedy_events_seen_total", "Kubernetes Events about Services that were read from watches and lists.")
		for end, n := range map[string]int64{
			"ignored": x.Ignored, "reported": x.Reported, "overtaken": x.Overtaken, "published": x.Published,
			"kept": x.Kept, "dead": x.Dead, "strange": x.Strange, "released": x.Released,
		} {
			to(float64(n), "lbremedy_events_ended_total", "Events that were seen, by result; Events without a result are still pending.", "end", end)
		}
		to(float64(x.Relists), "lbremedy_event_lists_total", "Lists of all Events, at the start and after a watch could not be resumed.")
		to(float64(x.Retries), "lbremedy_publish_retries_total", "Publishes that were tried again.")
		to(float64(x.Slowed), "lbremedy_events_slowed_total", "Events over the budget of their namespace. They wait, and only the newest of each Service "+
			"and class is published.")
		to(float64(x.Unread), "lbremedy_service_read_errors_total", "Failed reads of the Service of an Event. The Event waits, and the read is retried.")
		for end, n := range map[string]int64{"taken": x.Posted, "refused": x.Refused} {
			to(float64(n), "lbremedy_posts_total", "Requests to exporter --from-http: taken, or refused because EventBridge did not sign them, or they came too "+
				"late, too often or in another form.", "end", end)
		}
		to(float64(x.Saves), "lbremedy_progress_saves_total", "Times that the progress in the cluster's Events was saved.")
		to(x.Lag.Seconds(), "lbremedy_publish_lag_seconds", "For how long the oldest failure that isn't published yet has been known; 0 if none waits.")
		to(number(x.Ready), "lbremedy_exporter_ready", "Whether Events are read and get through, 1 or 0.")
		to(unix(x.Last), "lbremedy_last_event_timestamp_seconds", "Unix time at which an Event about a Service was last seen; 0 if never.")
	}))
}

// Full registers the metric of full streams; each scrape calls ask.
func (m *Metrics) Full(ask func() []string) {
	m.ours.MustRegister(scraped(func(to emit) {
		full := ask()
		for _, name := range []string{stream.Failed, stream.Cases, stream.Dead} {
			to(number(slices.Contains(full, name)), "lbremedy_stream_full", "Whether the stream was full at this program's last write, 1 or 0. The write is retried.",
				"stream", name)
		}
	}))
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
