package status

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/say"
)

// The screen that a status fits on, with any terminal.
const (
	wide   = 80
	indent = 12 // columns before the text
	most   = 3  // lines of a list
)

// A screen prints a status in lines that fit.
type screen struct {
	p *cli.Program
	Status
}

func show(p *cli.Program, st Status) {
	s := screen{p, st}
	s.line("lbremedy", s.p.Paint(s.colour(), s.Headline()))
	s.line("Version", s.Version+", controller "+cmp.Or(s.Controller, "unknown"))
	if s.Cluster == "" {
		s.line("Cluster", s.missing("cluster"))
	} else {
		s.line("Cluster", strings.TrimSuffix(s.Cluster+" in "+s.Region, " in "))
	}
	s.nats()
	s.line("Exporter", s.exporter())
	s.policy()
	s.list("Pauses", "pauses", "None.", len(s.Pauses), func(i int) string { return where(s.Pauses[i]) + command.Clean(s.Pauses[i].String()) })
	s.list("Breakers", "breakers", "None is open.", len(s.Breakers), func(i int) string {
		b := s.Breakers[i]
		return b.Class + " is stopped: lbremedy breaker close " + b.Class
	})
	s.backlog()
	s.cases()
}

// line prints one line of at most 80 columns.
func (s screen) line(name, text string) {
	fmt.Fprintf(s.p.Out, "%s%s%s\n", s.p.Paint(cli.Faint, name), strings.Repeat(" ", indent-len(name)), text)
}

// clip shortens a text to one line of the screen.
func clip(text string) string {
	r := []rune(strings.Join(strings.Fields(command.Clean(text)), " "))
	if len(r) > wide-indent {
		return string(r[:wide-indent-1]) + "…"
	}
	return string(r)
}

// missing returns what is printed of a field that is not known.
// The reason why NATS is not there is said once.
func (s screen) missing(field string) string {
	why := s.Unknown[field]
	if why == s.Unknown["nats"] {
		return s.p.Paint(cli.Yellow, "unknown")
	}
	return s.p.Paint(cli.Yellow, clip("unknown: "+why))
}

func (s screen) colour() cli.Colour {
	switch s.Verdict {
	case Well:
		return cli.Green
	case Problem:
		return cli.Red
	}
	return cli.Yellow
}

// nats prints where NATS is, or on some lines why it can't be reached.
func (s screen) nats() {
	if s.NATS.Reached {
		s.line("NATS", clip("connected to "+s.NATS.URL))
		return
	}
	name := "NATS"
	for line := range strings.Lines(cli.Wrap(s.Unknown["nats"], "", wide-indent)) {
		s.line(name, s.p.Paint(cli.Red, clip(line)))
		name = ""
	}
}

func (s screen) exporter() string {
	switch x := s.Exporter; {
	case x == nil:
		return s.missing("exporter")
	case x.Alive:
		return clip(fmt.Sprintf("alive, last reported %s ago", s.p.Ago(x.At)))
	case x.At.IsZero():
		return s.p.Paint(cli.Red, "silent for more than an hour")
	default:
		return s.p.Paint(cli.Red, "silent for "+s.p.Ago(x.At))
	}
}

// policy prints the mode with what the policy allows, on two lines at most.
func (s screen) policy() {
	if _, ok := s.Unknown["mode"]; ok {
		s.line("Policy", s.missing("mode"))
		return
	}
	lines := strings.SplitN(strings.TrimRight(cli.Wrap(s.Policy+".", "", wide-indent), "\n"), "\n", 2)
	s.line("Policy", lines[0])
	if len(lines) > 1 {
		s.line("", clip(lines[1]))
	}
	if s.Freeze != "" {
		s.line("Freeze", s.p.Paint(cli.Yellow, clip(s.Freeze)))
	}
}

// list prints a list of so many lines, with how many more there are.
func (s screen) list(name, field, none string, n int, text func(i int) string) {
	if _, ok := s.Unknown[field]; ok {
		s.line(name, s.missing(field))
		return
	}
	if n == 0 {
		s.line(name, none)
	}
	for i := range min(n, most) {
		if i == most-1 && n > most {
			s.line("", fmt.Sprintf("and %d more: lbremedy %s", n-i, map[string]string{"pauses": "policy show", "breakers": "breaker ls"}[field]))
			break
		}
		s.line(name, s.p.Paint(cli.Yellow, clip(text(i))))
		name = ""
	}
}

// where says what a pause is about.
func where(one engine.Pause) string {
	if one.Cluster == "" {
		return "All clusters: "
	}
	return "This cluster: "
}

func (s screen) backlog() {
	b := s.Backlog
	if b == nil {
		s.line("Queue", s.missing("backlog"))
		return
	}
	s.line("Queue", fmt.Sprintf("%d queued, %d not delivered", b.Queued, b.Undelivered))
	if b.Lost > 0 {
		s.line("", s.p.Paint(cli.Red, fmt.Sprintf("%d lost: lbremedy ledger", b.Lost)))
	}
	if b.Dead > 0 {
		s.line("", s.p.Paint(cli.Yellow, say.Count(int(b.Dead), "dead letter").String()+": lbremedy dead ls"))
	}
}

func (s screen) cases() {
	c := s.Cases
	if c == nil {
		s.line("Cases", s.missing("cases"))
		return
	}
	name := "Cases"
	for _, one := range []struct {
		n          int
		what, next string
		c          cli.Colour
	}{
		{c.NeedsApproval, "need approval", "lbremedy ls --result needs-approval", cli.Yellow},
		{c.NeedsAction, "need action", "lbremedy ls --result needs-action", cli.Yellow},
		{c.Planned, "planned and only observed", "lbremedy ls --result planned", cli.Cyan},
		{c.Rejected, "rejected by a person", "lbremedy ls --result rejected", cli.Cyan},
		{c.Waiting, "waiting", "lbremedy ls --result waiting,unsettled", cli.Cyan},
		{c.Running, "in progress", "lbremedy watch", cli.Cyan},
	} {
		if one.n > 0 {
			s.line(name, s.p.Paint(one.c, fmt.Sprintf("%d %s: %s", one.n, one.what, one.next)))
			name = ""
		}
	}
	if name != "" {
		s.line(name, "None is open.")
	}
	s.line("Last 24 h", fmt.Sprintf("%d fixed, %d recovered by themselves, %d failed", c.Fixed, c.Recovered, c.Failed))
}
