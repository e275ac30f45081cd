package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/lbremedy/lbremedy/shared/command"
)

// A Table is rows of one line. At a terminal it fits the width, unless it is a wide table: long texts end in an ellipsis. In a pipe nothing is cut.
type Table struct {
	p       *Program
	all     []any // English names of the columns, of which some are shown
	columns []any
	rows    [][]any
}

// Table returns a table with these columns.
func (p *Program) Table(columns ...any) *Table { return &Table{p: p, all: columns, columns: columns} }

// Show leaves columns out unless the condition holds. It comes before the rows, which have a cell for them nonetheless.
func (t *Table) Show(condition bool, columns ...any) {
	if !condition {
		t.columns = slices.DeleteFunc(slices.Clone(t.columns), func(name any) bool { return slices.Contains(columns, name) })
	}
}

// AppendRow adds a row with a value for each column. An empty value becomes "-", which keeps the number of words in each line constant.
func (t *Table) AppendRow(row []any) {
	var shown []any
	for i, cell := range row {
		if s, ok := cell.(string); ok && (s == "" || strings.ContainsAny(s, "\n\r\t")) {
			cell = cmp.Or(strings.Join(strings.Fields(s), " "), "-")
		}
		if slices.Contains(t.columns, t.all[i]) {
			shown = append(shown, cell)
		}
	}
	t.rows = append(t.rows, shown)
}

// short is the width up to which a word stays whole as long as others can be shortened.
const short = 14

// Render prints the table, unless it has no rows.
func (t *Table) Render() {
	if len(t.rows) == 0 {
		return
	}
	heads, widths, sum := make([]any, len(t.columns)), make([]int, len(t.columns)), 0
	for i, name := range t.columns {
		heads[i] = t.p.Language().Format(fmt.Sprint(name))
		widths[i] = Columns(heads[i])
		for _, row := range t.rows {
			widths[i] = max(widths[i], Columns(row[i]))
		}
		sum += widths[i]
	}
	gap, gaps := 3, len(t.columns)-1
	if limit := t.p.Terminal(t.p.Out); limit > 0 && !t.p.Wide() && sum+gap*gaps > limit {
		gap = 2
		t.shorten(heads, widths, sum+gap*gaps-limit)
	}
	w := command.Table(heads...)
	w.Style().Box.PaddingRight = strings.Repeat(" ", gap)
	for _, row := range t.rows {
		cut := slices.Clone(row)
		for i := range cut {
			if Columns(cut[i]) > widths[i] {
				cut[i] = text.Snip(fmt.Sprint(cut[i]), widths[i], "…")
			}
		}
		w.AppendRow(cut)
	}
	w.SetOutputMirror(t.p.Out)
	w.Render()
}

// shorten takes that many columns off the widths, first off the widest, and at most down to the names.
func (t *Table) shorten(heads []any, widths []int, over int) {
	natural := slices.Clone(widths)
	for _, whole := range []int{short, 0} {
		for ; over > 0; over-- {
			widest, most := -1, 0
			for i, w := range widths {
				may := natural[i] > whole && w > max(least, Columns(heads[i]))
				switch t.columns[i] {
				case "title", "cause", "finding", "why", "Why", "reason", "error": // sentences
					w /= 2
				case "service", "about": // a person has to type it
					w = w * 3 / 4
				}
				if may && w >= most {
					widest, most = i, w
				}
			}
			if widest < 0 {
				break
			}
			widths[widest]--
		}
	}
}

// least is the smallest width of a shortened text.
const least = 8

// Columns returns how many columns a text takes; a Chinese character takes two.
func Columns(cell any) int { return text.StringWidthWithoutEscSequences(fmt.Sprint(cell)) }

// Cut shortens a text to that many columns, with an ellipsis.
func Cut(s string, columns int) string { return text.Snip(s, columns, "…") }
