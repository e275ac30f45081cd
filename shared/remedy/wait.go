package remedy

import "time"

// Between two looks at what is to pass by itself.
const (
	shortPause = 30 * time.Second
	longPause  = 3 * time.Minute
)

// Retry is the longest that the controller waits before it tries a failed sync
// again: 5 s, doubled each time, at most this
// (github.com/kubernetes/cloud-provider-alibaba-cloud, pkg/controller/service/clbv1/service_controller.go).
const Retry = 5 * time.Minute

// Lasts reports whether the case has waited long enough for what was to pass by
// itself: 15 minutes. Then a plan that waits becomes a question, and a class may
// read what only a person who is asked wants to know.
func (c *Case) Lasts() bool { return c.waited > enough }

// Pause returns how long to wait before the next look at what is to pass by
// itself: as long as it has lasted, half a minute at least and 3 minutes at most.
func (c *Case) Pause() time.Duration {
	return min(max(c.waited, shortPause), longPause).Round(time.Second)
}
