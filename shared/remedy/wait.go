package remedy

import "time"

// Lasting is how long a failure may take to pass before a person is asked.
const Lasting = 15 * time.Minute

const (
	shortPause = 30 * time.Second
	longPause  = 3 * time.Minute
)

// Waited returns how long the failure has been observed: since its Event, or while the case has waited without a write, whichever is longer.
func (c *Case) Waited() time.Duration {
	waited := c.Idle
	if last := c.Event.Last; !last.IsZero() {
		waited = max(waited, c.Now.Sub(last))
	}
	return waited
}

// Lasts reports whether a failure that should pass has lasted too long. Then a person is asked, for whom a class may read more.
func (c *Case) Lasts() bool { return c.Idle > Lasting }

// PollInterval returns the time until the next look at a failure that should pass: as long as it has lasted, between half a minute and 3 minutes.
func (c *Case) PollInterval() time.Duration {
	return min(max(c.Idle, shortPause), longPause).Round(time.Second)
}

// Settling returns the time until the next look at a failure that counts only after it has lasted; zero if it has.
func (c *Case) Settling(lasting time.Duration) time.Duration {
	left := lasting - c.Waited()
	if left <= 0 {
		return 0
	}
	return max(time.Second, min(left, c.PollInterval()))
}
