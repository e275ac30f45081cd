package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/lbremedy/lbremedy/shared/command"
)

// Print writes a value as the flags ask for; in the form of a table, show does it.
func (p *Program) Print(value any, show func()) error {
	switch p.Output {
	case "json":
		return command.JSON(p.Out, value, "  ")
	case "yaml":
		return command.YAML(p.Out, value)
	}
	show()
	return nil
}

// Line writes a value among many as they come: a line of JSON or a document of YAML.
func (p *Program) Line(value any, show func()) error {
	switch p.Output {
	case "json":
		return command.JSON(p.Out, value, "")
	case "yaml":
		fmt.Fprintln(p.Out, "---")
	}
	return p.Print(value, show)
}

// Table returns a table with these columns.
func (p *Program) Table(columns ...any) table.Writer {
	t := command.Table(columns...)
	t.SetOutputMirror(p.Out)
	return t
}

// A Colour is an escape sequence of a terminal.
type Colour string

// The colours of what is printed.
const (
	Red    Colour = "\x1b[31m"
	Green  Colour = "\x1b[32m"
	Yellow Colour = "\x1b[33m"
	Cyan   Colour = "\x1b[36m"
	Bold   Colour = "\x1b[1m"
	Faint  Colour = "\x1b[2m"
	plain         = "\x1b[0m"
)

// Paint colours a text of the output.
func (p *Program) Paint(c Colour, s string) string { return p.PaintOn(p.Out, c, s) }

// PaintOn colours a text if its reader sits at a terminal and wants colours.
func (p *Program) PaintOn(stream io.Writer, c Colour, s string) string {
	if c == "" || s == "" || p.Getenv("NO_COLOR") != "" || p.Getenv("TERM") == "dumb" || p.Terminal(stream) == 0 {
		return s
	}
	return string(c) + s + plain
}

// Cell returns a text for one line of a table: clean, and short where a terminal has
// no room for it beside the other columns.
func (p *Program) Cell(s string, others int) string {
	s = strings.Join(strings.Fields(command.Clean(s)), " ")
	width := p.Terminal(p.Out)
	if width == 0 {
		return s
	}
	return text.Trim(s, max(20, width-others))
}

// Wrap returns the text in lines of at most width, each after the indent and the
// blanks that its paragraph begins with. A word is never cut.
func Wrap(s, indent string, width int) string {
	var b strings.Builder
	for para := range strings.SplitSeq(strings.TrimRight(command.Clean(s), "\n"), "\n") {
		start := indent + para[:len(para)-len(strings.TrimLeft(para, " "))]
		line := start
		for word := range strings.FieldsSeq(para) {
			if line != start && text.StringWidthWithoutEscSequences(line)+1+text.StringWidthWithoutEscSequences(word) > width {
				b.WriteString(line + "\n")
				line = start
			}
			if line != start {
				line += " "
			}
			line += word
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// Ago returns how long ago a time was, as kubectl writes ages.
func (p *Program) Ago(t time.Time) string {
	if t.IsZero() {
		return "unknown"
	}
	return duration.HumanDuration(max(0, p.Now().Sub(t)))
}

// Clock returns a time as a person reads it.
func Clock(t time.Time) string {
	if t.IsZero() {
		return "unknown"
	}
	return t.Local().Format("2006-01-02 15:04:05 MST")
}

// A Progress tells a person at a terminal how far long work is.
type Progress struct {
	to   io.Writer // nil: nobody looks
	next time.Time
	now  func() time.Time
}

// Progress returns what tells how far the work is, if a person looks.
func (p *Program) Progress() *Progress {
	g := &Progress{now: p.Now, next: p.Now().Add(300 * time.Millisecond)}
	if p.Terminal(p.Err) > 0 {
		g.to = p.Err
	}
	return g
}

// Say replaces what was said before, a few times a second at most.
func (g *Progress) Say(format string, args ...any) {
	if g.to == nil || g.now().Before(g.next) {
		return
	}
	g.next = g.now().Add(100 * time.Millisecond)
	fmt.Fprintf(g.to, "\r\x1b[K"+format, args...)
}

// Done takes back what was said.
func (g *Progress) Done() {
	if g.to != nil {
		fmt.Fprint(g.to, "\r\x1b[K")
	}
}

const margin = 11 // columns before the text of a report

// Field prints one part of a report; nothing if it is empty.
func (p *Program) Field(name, text string) {
	text = strings.TrimSpace(command.Clean(text)) // may hold nothing but what is left out
	if text == "" {
		return
	}
	lines := Wrap(text, strings.Repeat(" ", margin), p.Width())
	fmt.Fprint(p.Out, p.Paint(Faint, name)+lines[min(len(name), margin-1):])
}

// Width is how wide a report is.
func (p *Program) Width() int {
	if w := p.Terminal(p.Out); w > 0 {
		return max(40, min(w, 120))
	}
	return 100
}

// Note says something beside the data.
func (p *Program) Note(format string, args ...any) { fmt.Fprintf(p.Err, format+"\n", args...) }

// Short returns a duration without digits that nobody needs.
func Short(d time.Duration) string {
	if d < time.Second {
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
