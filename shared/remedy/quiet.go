package remedy

import (
	"slices"
	"time"
)

// quiet reports whether Events with this reason come with a sync that succeeds: it
// leaves backends out and says so. That the controller has synced the Service
// since then proves nothing (pkg/controller/service/clbv1/vgroups.go).
func quiet(reason string) bool {
	return slices.Contains([]string{"UnAvailableLoadBalancer", "NoBackend", "SkipSyncBackends"}, reason)
}

// Waited returns for how long the failure is known to stand: since its Event, or
// as long as the case has waited with nothing to write, whichever is more. At both
// ends somebody looked and found it.
func (c *Case) Waited() time.Duration {
	waited := c.waited
	if last := c.Event.Last; !last.IsZero() {
		waited = max(waited, c.Now.Sub(last))
	}
	return waited
}
