package observe

// Notifications count notifications of people.
type Notifications struct {
	Opened, Updated, Closed, Reopened int64 // tickets
	Retried                           int64 // failed and sent again
	Refused                           int64 // refused by a sink and repeated each hour; for a sink that can't be created, tries to create it
}

// Plus returns the sum of both.
func (t Notifications) Plus(o Notifications) Notifications {
	return Notifications{
		t.Opened + o.Opened, t.Updated + o.Updated, t.Closed + o.Closed, t.Reopened + o.Reopened,
		t.Retried + o.Retried, t.Refused + o.Refused,
	}
}

// Tickets registers each sink's notifications, by its name in the policy; each scrape calls ask, which must be quick.
func (m *Metrics) Tickets(ask func() map[string]Notifications) {
	m.ours.MustRegister(scraped(func(to emit) {
		for name, t := range ask() {
			for kind, n := range map[string]int64{
				"opened": t.Opened, "updated": t.Updated, "closed": t.Closed, "reopened": t.Reopened, "retried": t.Retried, "refused": t.Refused,
			} {
				to(float64(n), "lbremedy_notifications_total", "Notifications of people: tickets opened, updated, closed or reopened at a sink, and those that it "+
					"failed to take and gets again, or refused.", "sink", name, "kind", kind)
			}
		}
	}))
}
