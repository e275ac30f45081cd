package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/text"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/say"
)

const (
	tableForm = "table"
	wideForm  = "wide"
)

const forms = "table, wide, json, yaml, jsonpath=EXPR or go-template=TEMPLATE"

// Wide reports whether tables show all columns at full width.
func (p *Program) Wide() bool { return p.Output == wideForm }

// ForPeople reports whether the output is for people, not for programs.
func (p *Program) ForPeople() bool { return p.Output == tableForm || p.Wide() }

func (p *Program) writer() (func(io.Writer, any) error, error) {
	name, text, _ := strings.Cut(p.Output, "=")
	switch {
	case p.ForPeople():
		return nil, nil
	case p.Output == "json":
		return func(to io.Writer, value any) error { return command.JSON(to, value, "  ") }, nil
	case p.Output == "yaml":
		return command.YAML, nil
	case name == "jsonpath" && text != "":
		return command.JSONPath(text)
	case name == "go-template" && text != "":
		return command.Template(text)
	}
	return nil, command.Wrong("--output: %q is not one of %s", p.Output, forms)
}

// zeroTime matches a JSON field with Go's zero time. In a string the quotes of such text are escaped.
var zeroTime = regex.New(`"\w+":"0001-01-01T00:00:00Z",|,?"\w+":"0001-01-01T00:00:00Z"`)

func encoded(value any) (json.RawMessage, error) {
	var b bytes.Buffer
	if err := command.JSON(&b, value, ""); err != nil {
		return nil, err
	}
	data := bytes.TrimSpace(b.Bytes())
	if bytes.Contains(data, []byte(`"0001-01-01T`)) {
		data = zeroTime().ReplaceAll(data, nil)
	}
	return data, nil
}

// Print writes a value in the selected form; for people it calls show.
func (p *Program) Print(value any, show func()) error {
	write, err := p.writer()
	if err != nil {
		return err
	}
	if write == nil {
		show()
		return nil
	}
	data, err := encoded(value)
	if err != nil {
		return err
	}
	return write(p.Out, data)
}

// Line writes one value of a sequence: a line of JSON, of a template or of an expression, or a YAML document. For people it calls show.
func (p *Program) Line(value any, show func()) error {
	switch p.Output {
	case "json":
		data, err := encoded(value)
		if err != nil {
			return err
		}
		_, err = p.Out.Write(append(data, '\n'))
		return err
	case "yaml":
		fmt.Fprintln(p.Out, "---")
	}
	err := p.Print(value, show)
	if err == nil && !p.ForPeople() && p.Output != "yaml" {
		_, err = fmt.Fprintln(p.Out)
	}
	return err
}

// A Colour is a terminal's escape sequence.
type Colour string

// Colours of the output.
const (
	Red    Colour = "\x1b[31m"
	Green  Colour = "\x1b[32m"
	Yellow Colour = "\x1b[33m"
	Cyan   Colour = "\x1b[36m"
	Bold   Colour = "\x1b[1m"
	Faint  Colour = "\x1b[2m"
	plain         = "\x1b[0m"
)

// Paint colours a text for standard output.
func (p *Program) Paint(c Colour, s string) string { return p.PaintOn(p.Out, c, s) }

// PaintOn colours a text if the stream is a terminal and colours are wanted.
func (p *Program) PaintOn(stream io.Writer, c Colour, s string) string {
	if c == "" || s == "" || p.Getenv("NO_COLOR") != "" || p.Getenv("TERM") == "dumb" || p.Terminal(stream) == 0 {
		return s
	}
	return string(c) + s + plain
}

// Plain returns a text as one clean line.
func Plain(s string) string {
	return command.Local(strings.Join(strings.Fields(command.Clean(s)), " "))
}

// Cell returns a text for one line: clean, and cut if the terminal lacks room for it beside the others.
func (p *Program) Cell(s string, others int) string {
	s = strings.Join(strings.Fields(command.Clean(s)), " ")
	width := p.Terminal(p.Out)
	if width == 0 || p.Wide() {
		return s
	}
	return text.Trim(s, max(20, width-others))
}

// Wrap breaks the text into lines of at most width, each after the indent and the blanks that begin its paragraph. It never cuts a word.
func Wrap(s, indent string, width int) string {
	var b strings.Builder
	s = clocks().ReplaceAllString(command.Local(command.Clean(s)), "$1"+glue+"$2"+glue+"$3")
	for para := range strings.SplitSeq(strings.TrimRight(s, "\n"), "\n") {
		start := indent + para[:len(para)-len(strings.TrimLeft(para, " "))]
		for _, line := range command.Fold(strings.Join(strings.Fields(para), " "), width-Columns(start)) {
			b.WriteString(strings.TrimRight(start+line, " ") + "\n")
		}
	}
	return strings.ReplaceAll(b.String(), glue, " ")
}

// glue replaces the spaces in a time while lines are broken. It is as wide as a space.
const glue = "\u2800"

var clocks = regex.New(`(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) ([A-Z+-]\w+)`)

// Ago returns a time's age as kubectl writes ages.
func (p *Program) Ago(t time.Time) string {
	if t.IsZero() {
		return p.Phrase("unknown")
	}
	return duration.HumanDuration(max(0, p.Now().Sub(t)))
}

// Clock formats a time for people.
func Clock(t time.Time) string {
	if t.IsZero() {
		return "unknown"
	}
	return t.Local().Format(command.Clock)
}

// A Progress shows the progress of long work at a terminal.
type Progress struct {
	p    *Program
	next time.Time
}

// Progress returns a Progress that prints only at a terminal.
func (p *Program) Progress() *Progress { return &Progress{p, p.Now().Add(300 * time.Millisecond)} }

// Say replaces the last line, at most a few times a second.
func (g *Progress) Say(format string, args ...any) {
	if now := g.p.Now(); now.After(g.next) {
		g.next = now.Add(100 * time.Millisecond)
		g.print(g.p.Phrase(format, args...))
	}
}

// Done erases the last line.
func (g *Progress) Done() { g.print("") }

func (g *Progress) print(line string) {
	if g.p.Terminal(g.p.Err) > 0 {
		fmt.Fprint(g.p.Err, "\r\x1b[K"+line)
	}
}

const margin = 11 // columns before a report's text

// Field prints a part of a report under its translated name; nothing if it is empty. A command gets its own unwrapped line, ready to be pasted.
func (p *Program) Field(name, text string) { p.Quoted(name, text, "") }

// Quoted prints a part of a report like Field, and a quote below: a text of others, whose commands are not to be pasted.
func (p *Program) Quoted(name, text, quote string) {
	text, quote = strings.TrimSpace(command.Clean(text)), strings.TrimSpace(command.Clean(quote)) // may become empty
	if text+quote == "" {
		return
	}
	name = p.Language().Format(name)
	indent, lines := strings.Repeat(" ", margin), ""
	for _, piece := range say.Segments(text) {
		if piece.Command {
			lines += indent + p.Paint(Bold, piece.Text) + "\n"
		} else {
			lines += Wrap(piece.Text, indent, p.Width())
		}
	}
	if quote != "" {
		lines += Wrap(quote, indent, p.Width())
	}
	fmt.Fprint(p.Out, p.Paint(Faint, name)+lines[min(Columns(name), margin-1):])
}

// Width returns the width of a report: the terminal's, otherwise COLUMNS.
func (p *Program) Width() int {
	w := p.Terminal(p.Out)
	if n, err := strconv.Atoi(p.Getenv("COLUMNS")); w == 0 && err == nil {
		w = n
	}
	if w > 0 {
		return max(40, min(w, 120))
	}
	return 100
}

// Note prints a note beside the data, or gives it to Noted.
func (p *Program) Note(format string, args ...any) {
	if p.Noted != nil {
		p.Noted(format, args...)
		return
	}
	fmt.Fprintln(p.Err, command.Local(p.Phrase(format, args...)))
}

// Capital returns a text with its first letter in upper case.
func Capital(s string) string {
	first, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return s
	}
	return string(unicode.ToUpper(first)) + s[n:]
}

// Short formats a duration without needless digits.
func Short(d time.Duration) string {
	if d < time.Second {
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
