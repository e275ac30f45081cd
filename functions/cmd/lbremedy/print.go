package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
)

// print writes a value as the flags ask for; in the form of a table, show does it.
func (p *program) print(value any, show func()) error {
	switch p.output {
	case "json":
		return command.JSON(p.out, value, "  ")
	case "yaml":
		return command.YAML(p.out, value)
	}
	show()
	return nil
}

// line writes a value among many as they come: a line of JSON or a document of YAML.
func (p *program) line(value any, show func()) error {
	switch p.output {
	case "json":
		return command.JSON(p.out, value, "")
	case "yaml":
		fmt.Fprintln(p.out, "---")
	}
	return p.print(value, show)
}

// table returns a table with these columns.
func (p *program) table(columns ...any) table.Writer {
	t := command.Table(columns...)
	t.SetOutputMirror(p.out)
	return t
}

// A colour is an escape sequence of a terminal.
type colour string

const (
	red    colour = "\x1b[31m"
	green  colour = "\x1b[32m"
	yellow colour = "\x1b[33m"
	cyan   colour = "\x1b[36m"
	bold   colour = "\x1b[1m"
	faint  colour = "\x1b[2m"
	plain         = "\x1b[0m"
)

// paint colours a text of the output.
func (p *program) paint(c colour, s string) string { return p.paintOn(p.out, c, s) }

// paintOn colours a text if its reader sits at a terminal and wants colours.
func (p *program) paintOn(stream io.Writer, c colour, s string) string {
	if c == "" || s == "" || p.getenv("NO_COLOR") != "" || p.getenv("TERM") == "dumb" || p.terminal(stream) == 0 {
		return s
	}
	return string(c) + s + plain
}

// outcome returns the word for where a record stands, in its colour.
func (p *program) outcome(r event.Record) string {
	word := state(r)
	switch event.Result(word) {
	case event.Fixed, event.Gone:
		return p.paint(green, word)
	case event.Planned, event.Undone, event.Superseded:
		return p.paint(cyan, word)
	case event.Asked, event.Waiting, event.Unsettled:
		return p.paint(yellow, word)
	case event.Failed, "error":
		return p.paint(red, word)
	}
	return word
}

// state returns the word for where a record stands: its result, or that a run is on it.
func state(r event.Record) string {
	switch {
	case r.Phase == "" && r.Result == "" && r.Error != "":
		return "error"
	case r.Phase == event.Settled, r.Phase == "":
		return cmp.Or(string(r.Result), "unknown")
	case r.Phase == event.Started:
		return "looking"
	}
	return "writing"
}

// cell returns a text for one line of a table: clean, and short where a terminal has
// no room for it beside the other columns.
func (p *program) cell(s string, others int) string {
	s = strings.Join(strings.Fields(command.Clean(s)), " ")
	width := p.terminal(p.out)
	if width == 0 {
		return s
	}
	return text.Trim(s, max(20, width-others))
}

// wrap returns the text in lines of at most width, each after the indent and the
// blanks that its paragraph begins with. A word is never cut.
func wrap(s, indent string, width int) string {
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

// ago returns how long ago a time was, as kubectl writes ages.
func (p *program) ago(t time.Time) string {
	if t.IsZero() {
		return "unknown"
	}
	return duration.HumanDuration(max(0, p.now().Sub(t)))
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "unknown"
	}
	return t.Local().Format("2006-01-02 15:04:05 MST")
}

// A progress tells a person at a terminal how far long work is.
type progress struct {
	to   io.Writer // nil: nobody looks
	next time.Time
	now  func() time.Time
}

func (p *program) progress() *progress {
	g := &progress{now: p.now, next: p.now().Add(300 * time.Millisecond)}
	if p.terminal(p.err) > 0 {
		g.to = p.err
	}
	return g
}

// say replaces what was said before, a few times a second at most.
func (g *progress) say(format string, args ...any) {
	if g.to == nil || g.now().Before(g.next) {
		return
	}
	g.next = g.now().Add(100 * time.Millisecond)
	fmt.Fprintf(g.to, "\r\x1b[K"+format, args...)
}

// done takes back what was said.
func (g *progress) done() {
	if g.to != nil {
		fmt.Fprint(g.to, "\r\x1b[K")
	}
}
