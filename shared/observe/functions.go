package observe

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lbremedy/lbremedy/shared/event"
)

// Functions count calls of functions, and what their answers say. Methods are safe for concurrent use and do nothing on nil.
type Functions struct {
	calls, problems, requests *prometheus.CounterVec

	took *prometheus.HistogramVec
}

// Functions registers the metrics of calls of the functions of these classes.
func (m *Metrics) Functions(classes []string) *Functions {
	f := &Functions{
		calls: m.counters("lbremedy_function_calls_total", "Calls of functions: answered, refused by the function, unavailable, or unsure, "+
			"which means that no answer came that can be used.", "class", "result"),
		problems: m.counters("lbremedy_function_problems_total", "Problems that functions answered, by kind, such as throttled or denied.", "class", "kind"),
		requests: m.counters("lbremedy_function_requests_total", "Requests to the cluster and the cloud that answers of functions name: reads and writes, "+
			"ok or with an error. An answer names at most 24 reads.", "class", "api", "kind", "result"),
		took: m.histograms("lbremedy_function_call_seconds", "How long a call of a function took.", seconds, "class"),
	}
	for _, class := range classes {
		for _, result := range []string{"answered", "refused", "unavailable", "unsure"} { // a rate needs a series before its first event
			f.calls.WithLabelValues(class, result)
		}
	}
	return f
}

// Called counts a call with its result, its duration, and the kind of the problem in the answer; empty: no problem.
func (f *Functions) Called(class, result, problem string, took time.Duration) {
	if f == nil {
		return
	}
	f.calls.WithLabelValues(class, result).Inc()
	f.took.WithLabelValues(class).Observe(took.Seconds())
	if problem != "" {
		f.problems.WithLabelValues(class, problem).Inc()
	}
}

// Did counts the requests that an answer names.
func (f *Functions) Did(class string, reads []event.Read, writes []event.Call) {
	if f == nil {
		return
	}
	count := func(action, kind, failure string) {
		api, result := "cluster", "ok"
		if subject, _, _ := strings.Cut(action, " "); strings.Contains(subject, ":") { // "slb:DescribeLoadBalancers", not "get Service a/b"
			api = "cloud"
		}
		if failure != "" {
			result = "error"
		}
		f.requests.WithLabelValues(class, api, kind, result).Inc()
	}
	for _, r := range reads {
		count(r.Action, "read", r.Error)
	}
	for _, w := range writes {
		count(w.Action, "write", w.Error)
	}
}
