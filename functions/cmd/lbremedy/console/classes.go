package console

import (
	"net/http"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/journal"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

type classRow struct {
	*remedy.Remedy
	worked
}

func (r classRow) Writes() []string {
	kinds := []string{}
	for _, s := range r.Steps {
		kinds = append(kinds, s.Kind())
	}
	return kinds
}

func (r classRow) Span() say.Text {
	switch all := r.PlanRisks(); len(all) {
	case 0:
		return say.F("none")
	case 1:
		return all[0].Word()
	default:
		return say.F("%s to %s", all[0], all[len(all)-1])
	}
}

type worked struct {
	Cases, Asked int
	journal.Tally
}

func (w *worked) count(s event.Status) {
	w.Cases++
	w.Ended(s)
	if s == event.NeedsApproval || s == event.NeedsAction {
		w.Asked++
	}
}

// went counts the cases of the last 30 days by class.
func (s *server) went() map[string]*worked {
	all := map[string]*worked{}
	s.index.each(func(c *summary) {
		if all[c.Class] == nil {
			all[c.Class] = &worked{}
		}
		all[c.Class].count(c.Status)
	})
	return all
}

func (s *server) classes(*http.Request) (page, error) {
	went, rows := s.went(), []classRow{}
	for _, r := range s.p.All() {
		row := classRow{Remedy: r}
		if w := went[r.Class]; w != nil {
			row.worked = *w
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(x, y classRow) int { return strings.Compare(x.Class, y.Class) })
	return page{Title: word("Classes"), name: "classes", Body: rows}, nil
}

type classBody struct {
	classRow
	Page []stretch
	Open []*summary
}

func (s *server) class(r *http.Request) (page, error) {
	class, err := s.p.ClassOf(r.PathValue("class"))
	if err != nil {
		return page{}, errNoPage
	}
	b := classBody{classRow: classRow{Remedy: class}, Page: stretches(functions.ClassPage(s.p.Reads(r.Header).Language(), class.Class, class.Doc))}
	if w := s.went()[class.Class]; w != nil {
		b.worked = *w
	}
	b.Open = s.index.newest(func(c *summary) bool { return c.Class == class.Class && c.Status.Open() })
	b.Open = b.Open[:min(len(b.Open), listed)]
	return page{Title: b.Title(), name: "class", Body: b}, nil
}
