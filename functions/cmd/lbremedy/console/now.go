package console

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/permission"
	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
)

type nowBody struct {
	Alarms   []alarm
	Clusters []clusterNow
	Open     []tile
	Day      []tile
	Median   time.Duration // from a failure to its proven end, in the last day; 0: nothing was healed
	Unread   int           // records of the journal
	Asked    []incident
	More     int
	Lately   []*summary
}

type tile struct {
	N          int
	Text, Link string
}

type alarm struct {
	Text    say.Text
	Link    string
	Command string
}

func (c clusterNow) alarms(failed int) []alarm {
	var list []alarm
	if c.Exporter != nil && !c.Exporter.Alive {
		list = append(list, alarm{Text: say.F("The exporter is silent: failures are not seen.")})
	}
	for _, one := range c.Pauses {
		list = append(list, alarm{Text: say.F("Writes are paused. %s", cli.PauseLine(one)), Command: "lbremedy resume --cluster " + c.Cluster})
	}
	for _, one := range c.Breakers {
		of := alarm{Text: one.Text(), Command: "lbremedy breaker close " + one.Class + " --cluster " + c.Cluster, Link: "/classes/" + one.Class}
		if one.Class == control.AnyClass {
			of.Command, of.Link = "lbremedy resume --cluster "+c.Cluster, ""
		}
		list = append(list, of)
	}
	for _, class := range slices.Sorted(maps.Keys(c.Places.Free)) {
		until := cli.Clock(c.Places.Free[class])
		of := say.F("The budget of the class %s is spent until %s.", class, until)
		if class == "" {
			of = say.F("The budget of the cluster is spent until %s.", until)
		}
		list = append(list, alarm{Text: of.And("To write earlier, raise the budget in the policy file."), Link: "/policy?cluster=" + c.Cluster})
	}
	if failed > 0 {
		list = append(list, alarm{Text: say.F("Failed and still open: %s.", say.Count(failed, "case")), Link: "/cases?result=failed"})
	}
	return list
}

type clusterNow struct {
	clusterState
	Says    string // the policy in words
	Classes []room // those with a used budget
	OfClass int
}

type room struct {
	Class string
	Left  int
}

func (s *server) now(r *http.Request) (page, error) {
	b := nowBody{Asked: s.index.incidents()}
	const most = 5
	if b.More = len(b.Asked) - most; b.More > 0 {
		b.Asked = b.Asked[:most]
	}
	s.index.tell(r.Context(), b.Asked)
	s.ask(r.Context(), personOf(r), b.Asked)
	failed := map[string]int{}
	for _, c := range s.index.newest(func(c *summary) bool { return c.Status == event.Status(event.Failed) }) {
		failed[c.Cluster]++
	}
	for _, c := range s.index.clusters() {
		now := clusterNow{clusterState: c, Says: s.p.Reads(r.Header).Tell(permission.Describe(c.InForce.Policy)), OfClass: c.InForce.Policy.Budgets.OfClass()}
		for class, left := range c.Places.Class {
			if left < now.OfClass {
				now.Classes = append(now.Classes, room{class, left})
			}
		}
		slices.SortFunc(now.Classes, func(x, y room) int { return x.Left - y.Left })
		b.Clusters = append(b.Clusters, now)
		for _, one := range now.alarms(failed[c.Cluster]) { // a pause of all clusters appears once
			if !slices.ContainsFunc(b.Alarms, func(have alarm) bool { return have.Text.String() == one.Text.String() }) {
				b.Alarms = append(b.Alarms, one)
			}
		}
	}
	all := s.index.tally(nil, "")
	b.Unread = all.Unread
	b.Open = []tile{
		{all.NeedsApproval, word("need approval"), "/cases?result=needs-approval"}, {all.NeedsAction, word("need action"), "/questions"},
		{all.Planned, word("planned, only observed"), "/cases?result=planned"}, {all.Waiting, word("waiting"), "/cases?result=open"},
		{all.Running, word("in progress"), "/cases?result=open"},
	}
	b.Day = []tile{
		{all.Fixed, word("fixed"), "/cases?result=fixed"}, {all.Recovered, word("recovered by themselves"), "/cases?result=recovered"},
		{all.Failed, word("failed"), "/cases?result=failed"},
	}
	var took []time.Duration
	since := s.p.Now().Add(-lately)
	s.index.each(func(c *summary) {
		if (c.Status == event.Status(event.Fixed) || c.Status == event.Status(event.Synced)) && !c.At.Before(since) && !c.First.IsZero() {
			took = append(took, max(0, c.At.Sub(c.First)))
		}
	})
	if slices.Sort(took); len(took) > 0 {
		b.Median = took[len(took)/2]
	}
	b.Lately = s.index.newest(func(*summary) bool { return true })
	b.Lately = b.Lately[:min(len(b.Lately), 10)]
	return page{Title: word("Now"), name: "now", Body: b}, nil
}
