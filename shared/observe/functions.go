package observe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Functions count calls of functions. Called is safe for concurrent use and does nothing on nil.
type Functions struct {
	calls *prometheus.CounterVec
	took  *prometheus.HistogramVec
}

// Functions registers the metrics of calls of the functions of these classes.
func (m *Metrics) Functions(classes []string) *Functions {
	f := &Functions{
		calls: m.counters("lbremedy_function_calls_total", "Calls of functions: answered, refused by the function, unavailable, or unsure, "+
			"which means that no answer came that can be used.", "class", "result"),
		took: m.histograms("lbremedy_function_call_seconds", "How long a call of a function took.", seconds, "class"),
	}
	for _, class := range classes {
		for _, result := range []string{"answered", "refused", "unavailable", "unsure"} { // a rate needs a series before its first event
			f.calls.WithLabelValues(class, result)
		}
	}
	return f
}

// Called counts a call with its result and duration.
func (f *Functions) Called(class, result string, took time.Duration) {
	if f != nil {
		f.calls.WithLabelValues(class, result).Inc()
		f.took.WithLabelValues(class).Observe(took.Seconds())
	}
}
