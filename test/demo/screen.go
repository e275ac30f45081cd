package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/testbed"
)

const (
	failed  = "failed"
	finding = "finding"
	step    = "step"
	waits   = "waits"
	asks    = "asks"
	fixed   = "fixed"
	synced  = "synced"
	trouble = "error"
)

var colours = map[string]string{failed: "31", trouble: "31", step: "36", waits: "33", asks: "33", fixed: "32", synced: "33"}

// A screen prints the demonstration: lines of the terminal's width, in colour if supported, or plain text.
type screen struct {
	out     io.Writer
	colours bool
	width   int // of a line
	column  int // width of the Services' names

	mu    sync.Mutex
	start time.Time
}

func newScreen(f *os.File) *screen {
	s := &screen{out: f, width: 140, column: 9}
	if !term.IsTerminal(int(f.Fd())) {
		return s
	}
	s.colours = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
		s.width = max(w, 80)
	}
	return s
}

func (s *screen) say(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintln(s.out, line)
}

func (s *screen) paint(colour, text string) string {
	if !s.colours || colour == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

func (s *screen) title(text string) { s.say(s.paint("1", text) + "\n") }

func (s *screen) section(format string, args ...any) {
	s.say("\n" + s.paint("1", fmt.Sprintf(format, args...)) + "\n")
}

func (s *screen) fact(name, format string, args ...any) {
	s.say(fmt.Sprintf("  %-11s %s", name, cut(fmt.Sprintf(format, args...), s.width-14)))
}

func (s *screen) fit(fixtures []testbed.Fixture) {
	for _, f := range fixtures {
		s.column = max(s.column, len(f.Service))
	}
}

func (s *screen) story(f testbed.Fixture) {
	s.say(fmt.Sprintf("  %-*s %s", s.column, f.Service, cut(f.Story, s.width-s.column-3)))
}

func (s *screen) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start = time.Now()
}

func (s *screen) line(service, kind, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text = cut(strings.Join(strings.Fields(text), " "), s.width-s.column-20)
	fmt.Fprintf(s.out, "%6.1f s  %-*s %s %s\n", time.Since(s.start).Seconds(), s.column, service, s.paint(colours[kind], fmt.Sprintf("%-8s", kind)), text)
}

func (s *screen) trouble(format string, args ...any) {
	s.say(s.paint(colours[trouble], event.Redact(fmt.Sprintf(format, args...))))
}

type total struct {
	seconds        []float64 // until each working Service was fixed
	synced         int       // synced, but possibly without traffic
	asked, waiting int
	wrong          []string // unexpected results
	outcomes       []outcome
}

func (p *progress) table(sum *total) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.Style().Options.SeparateHeader = true
	t.Style().Format.Header = text.FormatDefault
	t.AppendHeader(table.Row{"Service", "Class", "Finding", "What was done", "Outcome", "Seconds"})
	// The two columns with sentences share the remaining width.
	room := max(48, p.screen.width-62)
	left, right := room*55/100, room*45/100
	t.SetColumnConfigs([]table.ColumnConfig{
		{Number: 3, WidthMax: left, WidthMaxEnforcer: text.WrapSoft},
		{Number: 4, WidthMax: right, WidthMaxEnforcer: text.WrapSoft},
		{Number: 6, Align: text.AlignRight, AlignHeader: text.AlignRight},
	})
	for _, svc := range p.services {
		ended, colour, seconds := string(svc.result), colours[string(svc.result)], "-"
		o := outcome{class: svc.Class, result: svc.result, plan: svc.plan}
		switch svc.result {
		case event.Synced:
			sum.synced++
		case event.Asked:
			colour = colours[asks]
			sum.asked++
		case event.Waiting:
			colour = colours[waits]
			sum.waiting++
		}
		if at, _ := p.testbed.Failed(svc.Service); !at.IsZero() && !svc.at.IsZero() {
			o.seconds = svc.at.Sub(at).Seconds()
			seconds = fmt.Sprintf("%.1f", o.seconds)
			if svc.result == event.Fixed {
				sum.seconds = append(sum.seconds, o.seconds)
			}
		}
		sum.outcomes = append(sum.outcomes, o)
		if w := p.wrong(svc); w != "" {
			sum.wrong = append(sum.wrong, w)
			ended, colour = ended+" !", colours[trouble]
		}
		t.AppendRow(
			table.Row{
				svc.Service,
				svc.Class,
				cut(gist(svc.finding), left*5/2),
				cut(strings.Join(svc.done, "; "), right*5/2),
				p.screen.paint(colour, ended),
				seconds,
			},
		)
	}
	p.screen.section("How each Service ended, and how many seconds after its first failure event:")
	p.screen.say(t.Render())
}

func (s *screen) verdict(sum *total, took time.Duration) {
	s.say("")
	for _, w := range sum.wrong {
		s.say(s.paint(colours[trouble], w))
	}
	if len(sum.wrong) > 0 {
		s.say(fmt.Sprintf("Not as it should be. The demonstration took %.0f s.", took.Seconds()))
		return
	}
	slices.Sort(sum.seconds)
	n := len(sum.seconds)
	text := fmt.Sprintf("%d Services work again", n)
	if n > 0 {
		text += fmt.Sprintf(", half of them within %.1f s, the last after %.1f s", sum.seconds[n/2], sum.seconds[n-1])
	}
	if sum.synced > 0 {
		text += fmt.Sprintf("; %d synced", sum.synced)
	}
	text += fmt.Sprintf("; for %d a person is asked", sum.asked)
	if sum.waiting > 0 {
		text += fmt.Sprintf(", and %d may pass by themselves", sum.waiting)
	}
	s.say(s.paint("1", fmt.Sprintf("%s. All as it should be, in %.0f s.", text, took.Seconds())))
}

func (s *screen) guide(dir string, about event.Service, console string, tb *testbed.Testbed, url, token string) error {
	file := filepath.Join(dir, "env")
	var exports strings.Builder
	for _, v := range append(tb.Environ(url, token), "KUBECONFIG="+tb.Cluster.Kubeconfig) {
		name, value, _ := strings.Cut(v, "=")
		fmt.Fprintf(&exports, "export %s='%s'\n", name, value)
	}
	if err := os.WriteFile(file, []byte(exports.String()), 0o600); err != nil {
		return fmt.Errorf("write the environment: %w", err)
	}
	s.section("All of it goes on until Ctrl-C. To look around in a browser, with lbremedy's console:")
	s.say("  " + console)
	s.section("To look around in another terminal, in this folder:")
	object, named := "-n "+about.Namespace+" describe service "+about.Name, about.String()
	switch about.Kind {
	case event.KindNode:
		object, named = "describe node "+about.Name, about.Kind+"/"+about.Name
	case event.KindCluster:
		object, named = "describe nodes", about.Kind
	}
	s.say(fmt.Sprintf(`  . %s

  kubectl -n %[2]s get services
  kubectl %[3]s
  go run ./functions/cmd/lbremedy ls
  go run ./functions/cmd/lbremedy show %[4]s
  go run ./functions/cmd/lbremedy ls --watch

The first line sets:
`, file, tb.Namespace, object, named))
	for line := range strings.Lines(exports.String()) {
		s.say("  " + strings.TrimSpace(strings.TrimPrefix(line, "export ")))
	}
	return nil
}

func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	s = string([]rune(s)[:n-1])
	if i := strings.LastIndexByte(s, ' '); i > max(0, len(s)-32) {
		s = s[:i]
	}
	return strings.TrimRight(s, " ,;:…") + "…"
}
