package console

import (
	"net/http"
	"slices"
	"time"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/journal"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/permission"
	"github.com/lbremedy/lbremedy/shared/event"
)

// A nowBody is what the page Now shows.
type nowBody struct {
	Clusters []clusterNow
	Tally    journal.Tally
	Median   time.Duration // from a failure to its proven end, in the last day; 0: nothing was healed
	Asked    []incident
	More     int
	Lately   []*past
}

// A clusterNow is how a cluster stands.
type clusterNow struct {
	standing
	Says    string // what the policy allows
	Classes []room // whose budget is not whole
	OfClass int
}

// A room is what is left of a class's budget.
type room struct {
	Class string
	Left  int
}

func (s *server) now(r *http.Request) (page, error) {
	b := nowBody{Asked: s.book.incidents()}
	const most = 5
	if b.More = len(b.Asked) - most; b.More > 0 {
		b.Asked = b.Asked[:most]
	}
	s.book.tell(r.Context(), b.Asked)
	s.ask(r.Context(), personOf(r), b.Asked)
	for _, c := range s.book.clusters() {
		now := clusterNow{standing: c, Says: s.p.Reads(r.Header).Tell(permission.Describe(c.Version.Policy)), OfClass: c.Version.Policy.Budgets.OfClass()}
		for class, left := range c.Places.Class {
			if left < now.OfClass {
				now.Classes = append(now.Classes, room{class, left})
			}
		}
		slices.SortFunc(now.Classes, func(x, y room) int { return x.Left - y.Left })
		b.Clusters = append(b.Clusters, now)
		b.Tally = sum(b.Tally, *c.Cases)
	}
	var took []time.Duration
	since := s.p.Now().Add(-lately)
	s.book.each(func(c *past) {
		if (c.Status == event.Status(event.Fixed) || c.Status == event.Status(event.Synced)) && !c.At.Before(since) && !c.First.IsZero() {
			took = append(took, max(0, c.At.Sub(c.First)))
		}
	})
	if slices.Sort(took); len(took) > 0 {
		b.Median = took[len(took)/2]
	}
	b.Lately = s.book.newest(func(*past) bool { return true })
	b.Lately = b.Lately[:min(len(b.Lately), 10)]
	return page{Title: word("Now"), name: "now", Body: b}, nil
}

// sum adds counts.
func sum(x, y journal.Tally) journal.Tally {
	return journal.Tally{
		NeedsApproval: x.NeedsApproval + y.NeedsApproval, NeedsAction: x.NeedsAction + y.NeedsAction, Waiting: x.Waiting + y.Waiting,
		Planned: x.Planned + y.Planned, Running: x.Running + y.Running, Fixed: x.Fixed + y.Fixed, Synced: x.Synced + y.Synced, Recovered: x.Recovered + y.Recovered,
		Failed: x.Failed + y.Failed, Unread: max(x.Unread, y.Unread),
	}
}
