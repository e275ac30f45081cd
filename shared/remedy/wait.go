package remedy

import "time"

// Lasting is how long what was to pass by itself may last, before a person is asked.
const Lasting = 15 * time.Minute

// Between two looks at what is to pass by itself.
const (
	shortPause = 30 * time.Second
	longPause  = 3 * time.Minute
)

// Waited returns for how long the failure is known to stand: since its Event, or
// as long as the case has waited with nothing to write, whichever is more. At both
// ends somebody looked and found it.
func (c *Case) Waited() time.Duration {
	waited := c.Idle
	if last := c.Event.Last; !last.IsZero() {
		waited = max(waited, c.Now.Sub(last))
	}
	return waited
}

// Lasts reports whether the case has waited long enough for what was to pass by
// itself. Then a plan that waits becomes a question, and a class may read what only a
// person who is asked wants to know.
func (c *Case) Lasts() bool { return c.Idle > Lasting }

// PollInterval returns how long to wait before the next look at what is to pass by
// itself: as long as it has lasted, half a minute at least and 3 minutes at most.
func (c *Case) PollInterval() time.Duration {
	return min(max(c.Idle, shortPause), longPause).Round(time.Second)
}

// Settling returns how long to wait before the next look at a failure that counts only once it has lasted: for a
// moment, things look like that which are about to be put right. It is zero if the failure has.
func (c *Case) Settling(lasting time.Duration) time.Duration {
	left := lasting - c.Waited()
	if left <= 0 {
		return 0
	}
	return max(time.Second, min(left, c.PollInterval()))
}
