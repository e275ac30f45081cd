package console

import (
	"html/template"
	"net/http"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A classRow is a class with how its cases went.
type classRow struct {
	*remedy.Remedy
	worked
}

// Writes names the kinds of steps of the class; none: it only asks.
func (r classRow) Writes() []string {
	kinds := []string{}
	for _, s := range r.Steps {
		kinds = append(kinds, s.Kind())
	}
	return kinds
}

// Span says of which risk the plans of the class are.
func (r classRow) Span() say.Text {
	switch least, most, several := strings.Cut(r.RiskRange(), " to "); {
	case several:
		return say.F("%s to %s", least, most)
	case least == "":
		return say.F("none")
	default:
		return say.Literal(least)
	}
}

// worked counts the cases of a class in the last 30 days.
type worked struct{ Cases, Fixed, Recovered, Failed, Asked int }

func (w *worked) count(s event.Status) {
	w.Cases++
	switch s {
	case event.Status(event.Fixed), event.Status(event.Synced):
		w.Fixed++
	case event.Recovered:
		w.Recovered++
	case event.Status(event.Failed):
		w.Failed++
	case event.NeedsApproval, event.NeedsAction:
		w.Asked++
	}
}

// went returns how the cases of the last 30 days went, by class.
func (s *server) went() map[string]*worked {
	all := map[string]*worked{}
	s.book.each(func(c *past) {
		if all[c.Class] == nil {
			all[c.Class] = &worked{}
		}
		all[c.Class].count(c.Status)
	})
	return all
}

func (s *server) classes(*http.Request) (page, error) {
	went, rows := s.went(), []classRow{}
	for _, r := range functions.All {
		row := classRow{Remedy: r}
		if w := went[r.Class]; w != nil {
			row.worked = *w
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(x, y classRow) int { return strings.Compare(x.Class, y.Class) })
	return page{Title: word("Classes"), name: "classes", Body: rows}, nil
}

// A classBody is what the page of a class shows.
type classBody struct {
	classRow
	Blocks []block
	Open   []*past
}

func (s *server) class(r *http.Request) (page, error) {
	class, err := cli.ClassOf(r.PathValue("class"))
	if err != nil {
		return page{}, errNoPage
	}
	b := classBody{classRow: classRow{Remedy: class}, Blocks: blocks(functions.ClassPage(s.p.Reads(r.Header).Language(), class.Class, class.Doc))}
	if w := s.went()[class.Class]; w != nil {
		b.worked = *w
	}
	b.Open = s.book.newest(func(c *past) bool { return c.Class == class.Class && c.Status.Open() })
	b.Open = b.Open[:min(len(b.Open), listed)]
	return page{Title: b.Title(), name: "class", Body: b}, nil
}

// A block is a part of a page of Markdown: a heading, a paragraph, an item of a list or code.
type block struct{ Kind, Text string }

var (
	links  = regex.New(`\[([^\]]+)\]\(([^)\s]+)\)`)
	strong = regex.New(`\*\*([^*]+)\*\*`)
)

// code returns a text of Markdown with what stands between backquotes as code.
func code(text string) template.HTML {
	var b strings.Builder
	for i, part := range strings.Split(text, "`") {
		part = template.HTMLEscapeString(part)
		if i%2 == 1 {
			part = "<code>" + part + "</code>"
		}
		b.WriteString(part)
	}
	return template.HTML(b.String())
}

// blocks takes the page of a class apart. Its title stands above it already.
func blocks(doc string) []block {
	var list []block
	code := false
	begin := true // of a block
	for i, line := range strings.Split(strings.TrimSpace(doc), "\n") {
		kind, text := "text", line
		switch {
		case strings.HasPrefix(line, "```"):
			code, begin = !code, true
			continue
		case code:
			kind = "code"
		case i == 0 && strings.HasPrefix(line, "# "), strings.TrimSpace(line) == "":
			begin = true
			continue
		case strings.HasPrefix(line, "#"):
			kind, text, begin = "heading", strings.TrimLeft(line, "# "), true
		case strings.HasPrefix(line, "- "):
			kind, text, begin = "item", line[2:], true
		}
		if kind != "code" {
			text = links().ReplaceAllStringFunc(text, func(s string) string {
				m := links().FindStringSubmatch(s)
				if strings.HasPrefix(m[2], "https://") {
					return m[1] + " (" + m[2] + ")"
				}
				return m[1]
			})
			text = strings.TrimSpace(strong().ReplaceAllString(text, "$1"))
		}
		if n := len(list) - 1; !begin && n >= 0 && (kind == "code" || kind == "text") {
			gap := " "
			if kind == "code" {
				gap = "\n"
			}
			list[n].Text += gap + text
			continue
		}
		list = append(list, block{kind, text})
		begin = kind == "heading"
	}
	return list
}
