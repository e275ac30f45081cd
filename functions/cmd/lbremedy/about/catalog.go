// Package about is the commands about lbremedy itself: its classes and its version.
package about

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// Commands returns the commands of this package.
func Commands(p *cli.Program) []*cobra.Command {
	return []*cobra.Command{catalog(p), versionCommand(p)}
}

// An Entry is a class as the catalogue shows it.
type Entry struct {
	Class  string   `json:"class"`
	Title  string   `json:"title"`
	Writes []string `json:"writes"`          // kinds of steps; none: it only asks
	Risk   string   `json:"risk,omitempty"`  // the highest that a plan can have
	Risks  string   `json:"risks,omitempty"` // from the lowest to the highest
	Scope  string   `json:"scope"`
	OptIn  bool     `json:"optIn,omitempty"`
	Grants []string `json:"grants"`
	Texts  []string `json:"texts,omitempty"`
	Codes  []string `json:"codes,omitempty"`
	Page   string   `json:"page,omitempty"` // Markdown
}

// NewEntry returns a class as the catalogue shows it.
func NewEntry(r *remedy.Remedy) Entry {
	e := Entry{
		Class: r.Class, Title: r.Title(), Writes: []string{}, Scope: cmp.Or(string(r.Scope), "service"),
		OptIn: r.OptIn, Texts: r.Texts, Codes: r.Codes, Grants: []string{},
	}
	for _, s := range r.Steps {
		e.Writes = append(e.Writes, s.Kind())
	}
	if risks := r.PlanRisks(); len(risks) > 0 {
		e.Risk, e.Risks = slices.Max(risks).String(), r.RiskRange()
	}
	for _, g := range r.Grants() {
		e.Grants = append(e.Grants, g.String())
	}
	return e
}

func catalog(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:   "catalog [CLASS]",
		Short: "List the error classes, or show the page of one",
		Long: `List the error classes, or show the page of one: symptom, cause, what lbremedy does and
asks, and how to undo it. RISK is what its plans can have, from the lowest
to the highest.`,
		Args:              command.Exactly(0, 1, "one class"),
		ValidArgsFunction: cli.CompleteClasses,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				r, err := cli.ClassOf(args[0])
				if err != nil {
					return err
				}
				e := NewEntry(r)
				e.Page = functions.ClassPage(p.Language(), r.Class, r.Doc)
				return p.Print(e, func() { page(p, e) })
			}
			list := []Entry{}
			for _, r := range functions.All {
				list = append(list, NewEntry(r))
			}
			slices.SortFunc(list, func(a, b Entry) int { return cmp.Compare(a.Class, b.Class) })
			return p.Print(list, func() {
				t := p.Table("class", "title", "writes", "risk")
				for _, e := range list {
					t.AppendRow([]any{e.Class, p.Language().Format(e.Title), cmp.Or(strings.Join(e.Writes, ", "), p.Phrase("asks only")), cmp.Or(e.Risks, p.Phrase("none"))})
				}
				t.Render()
			})
		},
	}
}

var (
	strong = regex.New(`\*\*([^*]+)\*\*`)
	link   = regex.New(`\[([^\]]+)\]\((https?://[^)\s]+)\)`)
)

// page prints the page of a class for a person: Markdown without its marks.
func page(p *cli.Program, e Entry) {
	for i, para := range strings.Split(strings.TrimSpace(e.Page), "\n") {
		para = link().ReplaceAllString(para, "$1 ($2)")
		title, isTitle := strings.CutPrefix(para, "# ")
		switch {
		case i == 0 && isTitle:
			fmt.Fprintln(p.Out, p.Paint(cli.Bold, title)+"  "+p.Paint(cli.Faint, e.Class))
		case para == "":
			fmt.Fprintln(p.Out)
		default:
			text := strings.TrimSuffix(cli.Wrap(strings.ReplaceAll(para, "`", ""), "", p.Width()), "\n")
			if rest, ok := strings.CutPrefix(para, "- "); ok {
				text = "- " + strings.TrimSuffix(cli.Wrap(strings.ReplaceAll(rest, "`", ""), "  ", p.Width()), "\n")[2:]
			}
			fmt.Fprintln(p.Out, strong().ReplaceAllStringFunc(text, func(s string) string { return p.Paint(cli.Bold, strings.Trim(s, "*")) }))
		}
	}
	fmt.Fprintln(p.Out)
	p.Field("Writes", cmp.Or(strings.Join(e.Writes, ", "), "nothing"))
	p.Field("Needs", strings.Join(e.Grants, ", "))
}
