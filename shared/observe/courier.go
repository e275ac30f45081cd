package observe

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A Courier counts what a courier delivers. Its methods may be called side by side,
// and do nothing on nil.
type Courier struct {
	posts, ends *prometheus.CounterVec
	took        *prometheus.HistogramVec
	hand, up    *prometheus.GaugeVec
}

// Courier makes a program count what it delivers to the functions of these classes.
func (m *Metrics) Courier(classes []string) *Courier {
	c := &Courier{
		posts: m.counters("lbremedy_courier_posts_total", "Requests to functions, by the first digit of the status; \"none\" got no answer.", "class", "status"),
		ends: m.counters("lbremedy_courier_ended_total",
			"What became of messages in hand: acked, later, refused (the route is wrong, and the message comes again), dead, or returned at the end of the program.",
			"class", "end"),
		took: m.histograms("lbremedy_courier_post_seconds", "How long a request to a function took.", seconds, "class"),
		hand: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "lbremedy_courier_in_hand", Help: "Messages that are being delivered."}, []string{"class"}),
		up: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "lbremedy_courier_route_up",
			Help: "Whether the function of a class answered the last request and knew the courier, 1 or 0. A class without a route is not there."}, []string{"class"}),
	}
	m.ours.MustRegister(c.hand, c.up)
	for _, class := range classes {
		for _, end := range []string{"acked", "refused", "dead"} { // a rate needs a series before its first event
			c.ends.WithLabelValues(class, end)
		}
		c.posts.WithLabelValues(class, "none")
	}
	return c
}

// Posted counts a request: the status of HTTP, 0 without an answer, and how long it took.
func (c *Courier) Posted(class string, status int, took time.Duration) {
	if c == nil {
		return
	}
	kind := "none"
	if status > 0 {
		kind = strconv.Itoa(status/100) + "xx"
	}
	c.posts.WithLabelValues(class, kind).Inc()
	c.took.WithLabelValues(class).Observe(took.Seconds())
}

// Took counts a message that is being delivered. Ended takes it back.
func (c *Courier) Took(class string) {
	if c != nil {
		c.hand.WithLabelValues(class).Inc()
	}
}

// Ended counts what became of a message in hand.
func (c *Courier) Ended(class, end string) {
	if c != nil {
		c.ends.WithLabelValues(class, end).Inc()
		c.hand.WithLabelValues(class).Dec()
	}
}

// Route says whether the function of a class answers.
func (c *Courier) Route(class string, up bool) {
	if c != nil {
		c.up.WithLabelValues(class).Set(number(up))
	}
}

// NoRoute takes back what Route said: nothing is sent to the class any more.
func (c *Courier) NoRoute(class string) {
	if c != nil {
		c.up.DeleteLabelValues(class)
	}
}
