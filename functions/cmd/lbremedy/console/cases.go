package console

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/journal"
	"github.com/lbremedy/lbremedy/shared/approval"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A sheet is a part of a long list, with what leads to the others.
type sheet struct {
	All, From, To  int
	Before, Behind string // addresses; empty: there is none
}

// perSheet is how many rows a page shows of a list.
const perSheet = 100

// sheetOf returns the part of a list that a request asks for.
func sheetOf[T any](r *http.Request, list []T) ([]T, sheet) {
	n, err := strconv.Atoi(r.URL.Query().Get("page"))
	if last := (len(list) - 1) / perSheet; err != nil || n < 0 || n > last {
		n = 0
	}
	part := list[min(n*perSheet, len(list)):min((n+1)*perSheet, len(list))]
	s := sheet{All: len(list), From: n*perSheet + 1, To: n*perSheet + len(part)}
	to := func(n int) string {
		q := r.URL.Query()
		q.Set("page", strconv.Itoa(n))
		return (&url.URL{Path: r.URL.Path, RawQuery: q.Encode()}).String()
	}
	if n > 0 {
		s.Before = to(n - 1)
	}
	if s.To < len(list) {
		s.Behind = to(n + 1)
	}
	return part, s
}

// A casesBody is what the list of cases shows.
type casesBody struct {
	Query, Result, Class string
	Results, Classes     []string
	Rows                 []*past
	Sheet                sheet
}

func (s *server) cases(r *http.Request) (page, error) {
	q := r.URL.Query()
	b := casesBody{Query: q.Get("q"), Result: q.Get("result"), Class: q.Get("class")}
	for _, status := range event.Statuses {
		b.Results = append(b.Results, string(status))
	}
	words := strings.Fields(strings.ToLower(b.Query))
	classes := map[string]bool{}
	list := s.book.newest(func(c *past) bool {
		classes[c.Class] = true
		switch {
		case b.Result == "open" && !c.Status.Open(), b.Result != "" && b.Result != "open" && string(c.Status) != b.Result, b.Class != "" && c.Class != b.Class:
			return false
		case len(words) == 0:
			return true
		}
		return holds(words, c.Service.String(), c.Case, c.Class, c.Finding.String(), c.Message)
	})
	for class := range classes {
		b.Classes = append(b.Classes, class)
	}
	slices.Sort(b.Classes)
	b.Rows, b.Sheet = sheetOf(r, list)
	return page{Title: word("Cases"), name: "cases", Body: b}, nil
}

// holds reports whether each word is in one of the texts.
func holds(words []string, texts ...string) bool {
	all := strings.ToLower(strings.Join(texts, "\n"))
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(all, w) })
}

// A caseBody is what the page of a case shows.
type caseBody struct {
	journal.Story
	Parts  []part
	Steps  []stepRow
	Risk   string
	Done   int
	Undone bool // the steps take back what was written
	Reads  []event.Read
	Asks   member
	Again  approval.Question // a plan that the reader has rejected and may still approve; the zero Question: none
	Others []*past
}

// A part of what is told of a case, with what somebody else has said at its end.
type part struct {
	Name, Quote string
	Pieces      []say.Piece
}

// A stepRow is a step of a plan with how far it is.
type stepRow struct {
	journal.PlanStep
	State string
}

// apart are the parts of a story that the page shows in a form of their own.
var apart = []string{"Plan", "Undone"}

func (s *server) oneCase(r *http.Request) (page, error) {
	cluster, uid, class, id := r.PathValue("cluster"), r.PathValue("uid"), r.PathValue("class"), r.PathValue("id")
	if cmp.Or(event.ValidCluster(cluster), event.ValidUID(uid), event.ValidClass(class)) != nil {
		return page{}, errNoPage
	}
	p := s.p.Reads(r.Header)
	st, err := s.book.reached()
	if err != nil {
		return page{}, err
	}
	h, err := journal.Of(r.Context(), s.p, st, cluster, uid, class, id)
	if err != nil {
		return page{}, err
	}
	if len(h) == 0 {
		return page{}, errNoPage
	}
	story, err := journal.Tell(r.Context(), p, st, h)
	if err != nil {
		return page{}, err
	}
	last := h.Last()
	told := last.In(p.Language())
	b := caseBody{Story: story, Risk: last.Risk, Done: min(last.Next, len(last.Steps)), Undone: last.Undoing}
	for _, r := range h {
		if len(r.Reads) > 0 {
			b.Reads = r.Reads // the newest
		}
	}
	b.Asks.past = &past{
		Cluster: last.Cluster, Class: last.Class, Case: last.Case, Service: last.Service, Status: last.Status(), At: last.At, ask: askOf(&last),
	}
	b.Asks.Right = s.right(r.Context(), personOf(r), last.Service.Namespace)
	if last.Rejected != nil && b.Asks.Right.May && approval.Takes(last, kube.Approve, personOf(r).name(r.Context())) == nil {
		b.Again = b.Asks.Plan()
	}
	for _, f := range story.Parts {
		if strings.TrimSpace(f.Text) == "" || slices.ContainsFunc(apart, func(name string) bool { return f.Name == p.Language().Format(name) }) {
			continue
		}
		text := f.Text
		one := part{Name: f.Name}
		if head, quoted := strings.CutSuffix(text, "\n"+last.Message); quoted && last.Message != "" {
			text, one.Quote = head, last.Message
		}
		one.Pieces = say.Pieces(text)
		b.Parts = append(b.Parts, one)
	}
	for i, step := range journal.Steps(p, told) {
		row := stepRow{step, cmp.Or(step.Note, p.Phrase("not done"))}
		if ended := last.Steps[i].Ended; i < last.Next && step.Note == "" {
			if row.State = p.Phrase("done"); !ended.IsZero() {
				row.State = p.Phrase("done at %s", cli.Clock(ended))
			}
		}
		b.Steps = append(b.Steps, row)
	}
	b.Others = s.book.newest(func(c *past) bool {
		return c.Cluster == cluster && c.Service.UID == uid && (c.Class != class || c.Case != id)
	})
	return page{Title: last.Service.String(), name: "case", Body: b}, nil
}
