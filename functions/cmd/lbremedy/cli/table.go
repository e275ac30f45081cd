package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/lbremedy/lbremedy/shared/command"
)

// A Table is rows under the names of their columns.
type Table struct {
	p        *Program
	columns  []any // English
	rows     [][]any
	fitted   bool
	optional int // column that is left out where there is no room for it; -1: none
	prose    int // column of sentences, which gives way later than names; -1: none
}

// Table returns a table with these columns.
func (p *Program) Table(columns ...any) *Table {
	return &Table{p: p, columns: columns, optional: -1, prose: -1}
}

// Fit makes the table fit the reader's screen, unless it is to be wide: long texts end in
// an ellipsis.
func (t *Table) Fit() { t.fitted = !t.p.Wide() }

// FitWithout does as Fit, and leaves the column out if there is no room for it.
func (t *Table) FitWithout(column string) {
	t.Fit()
	t.optional = slices.Index(t.columns, any(column))
}

// FitProse does as Fit, and leaves twice as much room to the column as to names.
func (t *Table) FitProse(column string) {
	t.Fit()
	t.prose = slices.Index(t.columns, any(column))
}

// AppendRow adds a row, with a value for each column.
func (t *Table) AppendRow(row []any) { t.rows = append(t.rows, row) }

const (
	screen   = 80 // columns of a reader that is no terminal
	shortest = 16 // columns that are left of a text
	telling  = 20 // columns below which an optional text tells nothing
)

// Render prints the table.
func (t *Table) Render() {
	limit := 0
	if t.fitted {
		limit = t.p.screen()
	}
	widths, gap, fits := t.fit(limit)
	if o := t.optional; o >= 0 && limit > 0 && (!fits || widths[o] < min(telling, t.natural(o))) {
		t.columns, t.optional = slices.Delete(slices.Clone(t.columns), o, o+1), -1
		for i, row := range t.rows {
			t.rows[i] = slices.Delete(slices.Clone(row), o, o+1)
		}
		widths, gap, _ = t.fit(limit)
	}
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

// fit returns how wide each column may be and how much space is between two, and whether
// the table is as narrow as the limit then. The widest columns give way first.
func (t *Table) fit(limit int) (widths []int, gap int, fits bool) {
	sum := 0
	for i := range t.columns {
		widths = append(widths, t.natural(i))
		sum += widths[i]
	}
	if gap = 3; limit == 0 || sum+gap*(len(widths)-1) <= limit {
		return widths, gap, true
	}
	gap = 2
	for over := sum + gap*(len(widths)-1) - limit; over > 0; over-- {
		widest, most := -1, 0
		for i, w := range widths {
			may := w > max(shortest, Columns(t.head(i)))
			if i == t.prose {
				w /= 2
			}
			if may && w >= most {
				widest, most = i, w
			}
		}
		if widest < 0 {
			return widths, gap, false
		}
		widths[widest]--
	}
	return widths, gap, true
}

// natural returns how wide a column is with all its texts.
func (t *Table) natural(column int) int {
	most := Columns(t.head(column))
	for _, row := range t.rows {
		most = max(most, Columns(row[column]))
	}
	return most
}

// head returns the name of a column in the reader's language.
func (t *Table) head(column int) string { return t.p.Language().Format(fmt.Sprint(t.columns[column])) }

// Columns returns how many columns a text takes: a Chinese character two.
func Columns(cell any) int { return text.StringWidthWithoutEscSequences(fmt.Sprint(cell)) }

// Cut returns a text in at most so many columns, with an ellipsis where it was cut.
func Cut(s string, columns int) string { return text.Snip(s, columns, "…") }

// screen returns how many columns the reader sees.
func (p *Program) screen() int {
	if w := p.Terminal(p.Out); w > 0 {
		return w
	}
	return screen
}
