package console

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/journal"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/ticket"
)

// asks reports whether a case waits for a person.
func asks(r *event.Record) bool {
	return r.Status() == event.NeedsApproval || r.Status() == event.NeedsAction
}

// An incident is one cause with the cases that ask a person about it.
type incident struct {
	ID      string
	Class   string
	Title   string // of the class
	Cluster string
	Lead    *event.Record // that the texts are about
	Impact  string        // the worst
	Status  event.Status
	Since   time.Time // the first failure
	Members []member
	More    int // that are not listed
}

// Answerable returns how many of the listed cases the person who looks may answer.
func (i incident) Answerable() int {
	n := 0
	for _, m := range i.Members {
		if m.Answerable() {
			n++
		}
	}
	return n
}

// A member is a case of an incident.
type member struct {
	*event.Record
	Next   string // what a person does, as "lbremedy show" says it
	Digest string // its beginning
	Plan   plan   // that an answer is to
	Right  right  // of the person who looks
}

// Askable reports whether an answer in the browser can be to it.
func (m member) Askable() bool {
	return m.Status() == event.NeedsApproval && m.Digest != "" && m.Service.Kind == ""
}

// Answerable reports whether the person who looks may answer it.
func (m member) Answerable() bool { return m.Askable() && m.Right.May }

// incidentOf names the incident of a case, as tickets do.
func (b *book) incidentOf(r *event.Record) string {
	scope := remedy.OneService
	if class, ok := b.classes[r.Class]; ok {
		scope = class.Scope
	}
	return ticket.IncidentOf(scope, *r)
}

// impacts say what users notice, the worst last.
var impacts = []event.Impact{"", event.Serving, event.Frozen, event.NeverUp}

// noticed are the impacts in words for a list.
var noticed = map[event.Impact]string{
	event.NeverUp: "never had an address", event.Frozen: "backends frozen", event.Serving: "traffic flows",
}

// listed is how many cases of an incident a page names.
const listed = 100

// incidents groups the cases that ask by their cause: the worst for users first, then that of
// the most Services, then the oldest.
func (b *book) incidents() []incident {
	all := map[string][]*event.Record{}
	for _, r := range b.records(asks) {
		id := b.incidentOf(r)
		all[id] = append(all[id], r)
	}
	list := make([]incident, 0, len(all))
	for id, members := range all {
		slices.SortFunc(members, func(x, y *event.Record) int {
			return cmp.Or(slices.Index(impacts, y.Impact)-slices.Index(impacts, x.Impact), strings.Compare(x.Service.String(), y.Service.String()))
		})
		lead := members[0]
		i := incident{
			ID: id, Class: lead.Class, Title: lead.Class, Cluster: lead.Cluster, Lead: lead, Impact: noticed[lead.Impact], Status: event.NeedsAction, Since: b.p.Now(),
			More: max(0, len(members)-listed),
		}
		if class, ok := b.classes[lead.Class]; ok {
			i.Title = class.Title()
		}
		for n, r := range members {
			if first := r.FirstFailure(); !first.IsZero() && first.Before(i.Since) {
				i.Since = first
			}
			if r.Status() == event.NeedsApproval && i.Status != event.NeedsApproval {
				i.Status, i.Lead = event.NeedsApproval, r
			}
			if n < listed {
				i.Members = append(i.Members, memberOf(r))
			}
		}
		list = append(list, i)
	}
	slices.SortFunc(list, func(x, y incident) int {
		return cmp.Or(slices.Index(impacts, worst(y))-slices.Index(impacts, worst(x)), len(y.Members)+y.More-len(x.Members)-x.More,
			x.Since.Compare(y.Since), strings.Compare(x.ID, y.ID))
	})
	return list
}

func memberOf(r *event.Record) member {
	m := member{Record: r, Next: journal.Printed(*r).NextStep, Digest: r.Digest[:min(len(r.Digest), 12)], Plan: planOf(r)}
	if m.Askable() {
		m.Next = strings.Replace(m.Next, "lbremedy approve "+r.Case, "lbremedy approve "+r.Case+" --digest "+m.Digest, 1)
	}
	return m
}

func worst(i incident) event.Impact { return i.Members[0].Impact }

// Services returns how many cases the incident has.
func (i incident) Services() int { return len(i.Members) + i.More }

// ask fills in what a person may answer.
func (s *server) ask(p *person, list []incident) {
	for _, i := range list {
		for n := range i.Members {
			i.Members[n].Right = s.right(p, i.Members[n].Service.Namespace)
		}
	}
}

// A questionsBody is what the page Questions shows.
type questionsBody struct {
	Rows  []incident
	Sheet sheet
}

func (s *server) questions(r *http.Request) (page, error) {
	var b questionsBody
	b.Rows, b.Sheet = sheetOf(r, s.book.incidents())
	s.ask(personOf(r), b.Rows)
	return page{Title: "Questions", name: "questions", Body: b}, nil
}
