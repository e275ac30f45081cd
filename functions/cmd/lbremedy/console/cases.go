package console

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/journal"
	"github.com/lbremedy/lbremedy/shared/approval"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/say"
)

type sheet struct {
	All, From, To  int
	Before, Behind string // addresses; empty if absent
}

const perSheet = 100

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

type table struct {
	Heads []head
	Rows  []*summary
}

type head struct {
	Name, Link string // Link sorts by the column; empty: not sortable
	Sorted     string // ascending or descending
}

// sorts are the columns; a nil comparison means not sortable.
var sorts = []struct {
	key, name string
	order     func(x, y *summary) int
}{
	{"service", word("Service"), func(x, y *summary) int { return strings.Compare(x.Service.String(), y.Service.String()) }},
	{"result", word("Result"), func(x, y *summary) int {
		return slices.Index(event.Statuses, x.Status) - slices.Index(event.Statuses, y.Status)
	}},
	{"impact", word("Impact"), func(x, y *summary) int {
		return slices.Index(event.Impacts, y.Impact) - slices.Index(event.Impacts, x.Impact)
	}},
	{"class", word("Class"), func(x, y *summary) int { return strings.Compare(x.Class, y.Class) }},
	{"changed", word("Changed"), newer},
	{"", word("Finding"), nil},
}

// heads returns links that sort the table if there is a request.
func heads(r *http.Request) []head {
	var list []head
	for _, c := range sorts {
		h := head{Name: c.name}
		if r != nil && c.order != nil {
			q := r.URL.Query()
			by, down := cmp.Or(q.Get("sort"), "changed"), q.Has("down")
			q.Set("sort", c.key)
			q.Del("page")
			q.Del("down")
			if by == c.key && down {
				h.Sorted = "descending"
			} else if by == c.key {
				h.Sorted = "ascending"
				q.Set("down", "1")
			}
			h.Link = (&url.URL{Path: r.URL.Path, RawQuery: q.Encode()}).String()
		}
		list = append(list, h)
	}
	return list
}

// arrange sorts cases, which arrive with the most recently changed first.
func arrange(r *http.Request, list []*summary) {
	for _, c := range sorts {
		if c.order != nil && c.key == r.URL.Query().Get("sort") {
			slices.SortStableFunc(list, c.order)
		}
	}
	if r.URL.Query().Has("down") {
		slices.Reverse(list)
	}
}

type casesBody struct {
	Query, Result, Class, Sort string
	Results                    []event.Status
	Classes                    []string
	Table                      table
	Sheet                      sheet
}

func (s *server) cases(r *http.Request) (page, error) {
	q := r.URL.Query()
	b := casesBody{Query: q.Get("q"), Result: q.Get("result"), Class: q.Get("class"), Sort: q.Get("sort"), Results: event.Statuses}
	words := strings.Fields(strings.ToLower(b.Query))
	classes := map[string]bool{}
	list := s.index.newest(func(c *summary) bool {
		classes[c.Class] = true
		switch {
		case b.Result == "open" && !c.Status.Open(), b.Result != "" && b.Result != "open" && string(c.Status) != b.Result, b.Class != "" && c.Class != b.Class:
			return false
		case len(words) == 0:
			return true
		}
		return holds(words, c.Service.String(), c.Case, c.Class, c.Finding.String(), c.Message)
	})
	b.Classes = slices.Sorted(maps.Keys(classes))
	arrange(r, list)
	b.Table.Heads = heads(r)
	b.Table.Rows, b.Sheet = sheetOf(r, list)
	return page{Title: word("Cases"), name: "cases", Body: b}, nil
}

func holds(words []string, texts ...string) bool {
	all := strings.ToLower(strings.Join(texts, "\n"))
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(all, w) })
}

type caseBody struct {
	journal.Story
	Record *event.Record // the newest
	Open   bool
	Parts  []part // parts before the plan
	More   []part // parts after it
	Done   int
	Reads  []event.Read
	Asks   member
	Again  approval.Question // a plan that the reader has rejected and may still approve; zero: none
	Links  []link
	Others []*summary
}

type part struct {
	Name, Quote string
	Segments    []say.Segment
}

type stepRow struct {
	journal.PlanStep
	State string
	Final bool // it can't be undone
}

func stepsOf(p *cli.Program, r *event.Record) []stepRow {
	var list []stepRow
	for i, step := range journal.Steps(p, r.In(p.Language())) {
		row := stepRow{step, step.Note, !r.Undoing && !r.Steps[i].ResyncOnly && r.Steps[i].Undo == nil}
		if row.State == "" && (r.Next > 0 || !r.Written.IsZero()) {
			row.State = p.Phrase("not done")
			if ended := r.Steps[i].Ended; i < r.Next && ended.IsZero() {
				row.State = p.Phrase("done")
			} else if i < r.Next {
				row.State = p.Phrase("done at %s", cli.Clock(ended))
			}
		}
		list = append(list, row)
	}
	return list
}

func answered(p *cli.Program, h journal.History) []journal.Moment {
	var list []journal.Moment
	tell := func(a event.Approved, text string) {
		if a.Comment != "" {
			text += p.Phrase(": %s", command.Clean(a.Comment))
		}
		if one := (journal.Moment{At: a.At, Who: a.By, Text: text}); !slices.Contains(list, one) {
			list = append(list, one)
		}
	}
	for _, r := range h {
		for _, a := range r.Seconded {
			tell(a, p.Phrase("approved the plan"))
		}
		if r.Approved != nil {
			tell(*r.Approved, p.Phrase("approved the plan"))
		}
		if r.Rejected != nil {
			tell(*r.Rejected, p.Phrase("rejected the plan"))
		}
	}
	return list
}

var apart = []string{"Plan", "Undone", "Case"}

func (s *server) oneCase(r *http.Request) (page, error) {
	cluster, uid, class, id := r.PathValue("cluster"), r.PathValue("uid"), r.PathValue("class"), r.PathValue("id")
	if cmp.Or(event.ValidCluster(cluster), event.ValidUID(uid), event.ValidClass(class)) != nil {
		return page{}, errNoPage
	}
	p := s.p.Reads(r.Header)
	st, err := s.index.reached()
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
	b := caseBody{Story: story, Record: &last, Open: last.Status().Open(), Done: min(last.Next, len(last.Steps)), Links: policyLinks(&last, p.Language())}
	for i, r := range h {
		m := &b.Course[i]
		if r.Person != nil {
			m.Who = cmp.Or(r.Person.String(), r.Who)
		}
		if m.Ends != "" { // a chip shows it
			m.Text = r.Error
		}
	}
	b.Course = append(append([]journal.Moment{{At: last.FirstFailure(), Text: p.Phrase("first failure")}}, b.Course...), answered(p, h)...)
	slices.SortStableFunc(b.Course, func(x, y journal.Moment) int { return x.At.Compare(y.At) })
	if of, err := p.ClassOf(class); err == nil {
		for _, one := range stretches(functions.ClassPage(p.Language(), of.Class, of.Doc)) {
			if one.To != "" && !slices.Contains(b.Links, one.link) {
				b.Links = append(b.Links, one.link)
			}
		}
	}
	for _, r := range h {
		if len(r.Reads) > 0 {
			b.Reads = r.Reads // the newest
		}
	}
	b.Asks.summary = summaryOf(&last)
	b.Asks.ask = askOf(&last)
	b.Asks.Right = s.right(r.Context(), personOf(r), last.Service.Namespace)
	if last.Rejected != nil && b.Asks.Right.May && approval.Takes(last, kube.Approve, personOf(r).name(r.Context())) == nil {
		b.Again = b.Asks.Plan()
	}
	to := &b.Parts
	for _, f := range story.Parts {
		if slices.ContainsFunc(apart, func(name string) bool { return f.Name == p.Language().Format(name) }) {
			to = &b.More // everything after the plan
			continue
		}
		if strings.TrimSpace(f.Text+f.Quote) != "" {
			*to = append(*to, part{f.Name, f.Quote, say.Segments(f.Text)})
		}
	}
	b.Others = s.index.newest(func(c *summary) bool {
		return c.Cluster == cluster && c.Service.UID == uid && (c.Class != class || c.Case != id)
	})
	return page{Title: last.Service.String(), name: "case", Body: b}, nil
}
