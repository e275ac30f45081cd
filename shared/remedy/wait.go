package remedy

import "time"

// Lasting is how long to wait for a failure to pass without a person, before a person is asked.
const Lasting = 15 * time.Minute

// Limits of the pause between two looks at a failure that should pass.
const (
	shortPause = 30 * time.Second
	longPause  = 3 * time.Minute
)

// Waited returns how long the failure has lasted: since its Event, or as long as the case has waited without a write, whichever is longer.
// At both ends it was observed.
func (c *Case) Waited() time.Duration {
	waited := c.Idle
	if last := c.Event.Last; !last.IsZero() {
		waited = max(waited, c.Now.Sub(last))
	}
	return waited
}

// Lasts reports whether the case has waited long enough for a failure that should pass. Then a waiting plan becomes a question, and a class
// may read what only the person who is asked needs.
func (c *Case) Lasts() bool { return c.Idle > Lasting }

// PollInterval returns how long to wait before the next look at a failure that should pass: as long as it has lasted, at least half a
// minute and at most 3 minutes.
func (c *Case) PollInterval() time.Duration {
	return min(max(c.Idle, shortPause), longPause).Round(time.Second)
}

// Settling returns how long to wait before the next look at a failure that counts only after it has lasted, because it may be about to
// disappear. It is zero if it has lasted.
func (c *Case) Settling(lasting time.Duration) time.Duration {
	left := lasting - c.Waited()
	if left <= 0 {
		return 0
	}
	return max(time.Second, min(left, c.PollInterval()))
}
