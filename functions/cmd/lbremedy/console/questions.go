package console

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/journal"
	"github.com/lbremedy/lbremedy/shared/approval"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/ticket"
)

func (c *summary) asks() bool {
	return c.Status == event.NeedsApproval || c.Status == event.NeedsAction || c.Status == event.Status(event.Failed)
}

type ask struct {
	incident string
	Next     string // what a person does, as in "lbremedy show"
	digest   string // of the plan; empty: none
	attempt  int
}

func askOf(r *event.Record) *ask {
	a := &ask{Next: journal.Printed(*r).NextStep, digest: r.Digest, attempt: r.NextAttempt()}
	if r.Status() == event.NeedsApproval && a.digest != "" && r.Service.Kind == "" {
		a.Next = strings.Replace(a.Next, "lbremedy approve "+r.Case, "lbremedy approve "+r.Case+" --digest "+a.Digest(), 1)
	}
	return a
}

func (a *ask) Digest() string { return a.digest[:min(len(a.digest), 12)] }

type incident struct {
	ID      string
	Class   string
	Title   string // of the class
	Cluster string
	Lead    *summary      // subject of the texts
	Newest  *event.Record // its newest; nil: unreadable
	Impact  event.Impact  // the worst
	Status  event.Status
	Since   time.Time // the first failure
	Members []member
	More    int // not listed
}

func (i incident) Answerable() int {
	n := 0
	for _, m := range i.Members {
		if m.Answerable() {
			n++
		}
	}
	return n
}

type member struct {
	*summary
	Right right // of the viewer
}

func (m member) Plan() approval.Question {
	return approval.Question{Cluster: m.Cluster, UID: m.Service.UID, Class: m.Class, Case: m.Case, Attempt: m.attempt, Digest: m.digest}
}

func (m member) Askable() bool {
	return m.ask != nil && m.Status == event.NeedsApproval && m.digest != "" && m.Service.Kind == ""
}

func (m member) Answerable() bool { return m.Askable() && m.Right.May }

func (b *index) incidentOf(r *event.Record) string {
	scope := remedy.OneService
	if class, ok := b.classes[r.Class]; ok {
		scope = class.Scope
	}
	return ticket.IncidentOf(scope, *r)
}

// listed is how many cases of an incident a page lists.
const listed = 100

// incidents groups the asking cases by cause: the worst for users first, then those with the most Services, then the oldest.
func (b *index) incidents() []incident {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[string][]*summary{}
	for _, c := range b.latest {
		if c.asks() {
			all[c.incident] = append(all[c.incident], c)
		}
	}
	list := make([]incident, 0, len(all))
	for id, members := range all {
		slices.SortFunc(members, func(x, y *summary) int {
			return cmp.Or(slices.Index(event.Impacts, y.Impact)-slices.Index(event.Impacts, x.Impact), strings.Compare(x.Service.Namespace, y.Service.Namespace),
				strings.Compare(x.Service.Name, y.Service.Name), strings.Compare(x.Class, y.Class))
		})
		lead := members[0]
		i := incident{
			ID: id, Class: lead.Class, Title: lead.Class, Cluster: lead.Cluster, Lead: lead, Impact: lead.Impact, Status: event.NeedsAction, Since: b.p.Now(),
			More: max(0, len(members)-listed),
		}
		if class, ok := b.classes[lead.Class]; ok {
			i.Title = class.Title()
		}
		for n, c := range members {
			if !c.First.IsZero() && c.First.Before(i.Since) {
				i.Since = c.First
			}
			if c.Status == event.NeedsApproval && i.Status != event.NeedsApproval {
				i.Status, i.Lead = event.NeedsApproval, c
			}
			if n < listed {
				i.Members = append(i.Members, member{summary: c})
			}
		}
		list = append(list, i)
	}
	slices.SortFunc(list, func(x, y incident) int {
		return cmp.Or(slices.Index(event.Impacts, y.Impact)-slices.Index(event.Impacts, x.Impact), y.Services()-x.Services(),
			x.Since.Compare(y.Since), strings.Compare(x.ID, y.ID))
	})
	return list
}

// tell reads the newest records of the cases that the texts are about. For an unreadable one, the page shows less.
func (b *index) tell(ctx context.Context, list []incident) {
	var g errgroup.Group
	g.SetLimit(atOnce)
	for n := range list {
		i := &list[n]
		g.Go(func() error {
			if r, err := b.record(ctx, approval.Question{Cluster: i.Lead.Cluster, UID: i.Lead.Service.UID, Class: i.Lead.Class}); err == nil {
				i.Newest = r
			}
			return nil
		})
	}
	_ = g.Wait() // none returns an error
}

func (i incident) Services() int { return len(i.Members) + i.More }

// ask sets what a person may answer. It asks the API server about several namespaces at a time.
func (s *server) ask(ctx context.Context, p *person, list []incident) {
	may := map[string]*right{}
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, i := range list {
		for _, m := range i.Members {
			if namespace := m.Service.Namespace; may[namespace] == nil {
				is := new(right)
				may[namespace] = is
				g.Go(func() error { *is = s.right(ctx, p, namespace); return nil })
			}
		}
	}
	_ = g.Wait() // none returns an error
	for _, i := range list {
		for n := range i.Members {
			i.Members[n].Right = *may[i.Members[n].Service.Namespace]
		}
	}
}

type questionsBody struct {
	Rows  []incident
	Sheet sheet
}

func (s *server) questions(r *http.Request) (page, error) {
	var b questionsBody
	b.Rows, b.Sheet = sheetOf(r, s.index.incidents())
	s.index.tell(r.Context(), b.Rows)
	s.ask(r.Context(), personOf(r), b.Rows)
	return page{Title: word("Questions"), name: "questions", Body: b}, nil
}
