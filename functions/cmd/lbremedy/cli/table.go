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
	prose   int // column of sentences, which is shortened later than names; -1: none
}

// Table returns a table with these columns.
func (p *Program) Table(columns ...any) *Table {
	return &Table{p: p, all: columns, columns: columns, prose: -1}
}

// Show leaves columns out unless the condition holds. It comes before Prose and the rows, which have a cell for them nonetheless.
func (t *Table) Show(condition bool, columns ...any) {
	if !condition {
		t.columns = slices.DeleteFunc(slices.Clone(t.columns), func(name any) bool { return slices.Contains(columns, name) })
	}
}

// Prose gives the column twice as much room as names.
func (t *Table) Prose(column string) { t.prose = slices.Index(t.columns, any(column)) }

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
	limit := 0
	if !t.p.Wide() {
		limit = t.p.Terminal(t.p.Out)
	}
	widths, gap := t.fit(limit)
	var heads []any
	for i := range t.columns {
		heads = append(heads, t.head(i))
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

// fit returns the width of each column and the space between two; limit 0: none. The widest columns are shortened first, at most to their names.
func (t *Table) fit(limit int) (widths []int, gap int) {
	sum := 0
	for i := range t.columns {
		widths = append(widths, t.natural(i))
		sum += widths[i]
	}
	if gap = 3; limit == 0 || sum+gap*(len(widths)-1) <= limit {
		return widths, gap
	}
	gap = 2
	natural := slices.Clone(widths)
	over := sum + gap*(len(widths)-1) - limit
	for _, whole := range []int{short, 0} {
		for ; over > 0; over-- {
			widest, most := -1, 0
			for i, w := range widths {
				may := natural[i] > whole && w > max(least, Columns(t.head(i)))
				switch name := t.columns[i]; {
				case i == t.prose:
					w /= 2
				case name == "service" || name == "about": // a person has to type it
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
	return widths, gap
}

// least is the smallest width of a shortened text.
const least = 8

func (t *Table) natural(column int) int {
	most := Columns(t.head(column))
	for _, row := range t.rows {
		most = max(most, Columns(row[column]))
	}
	return most
}

func (t *Table) head(column int) string { return t.p.Language().Format(fmt.Sprint(t.columns[column])) }

// Columns returns how many columns a text takes; a Chinese character takes two.
func Columns(cell any) int { return text.StringWidthWithoutEscSequences(fmt.Sprint(cell)) }

// Cut shortens a text to that many columns, with an ellipsis.
func Cut(s string, columns int) string { return text.Snip(s, columns, "…") }
