package status

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/say"
)

const (
	wide   = 80
	indent = 12 // columns before the text
	most   = 3  // lines of a list
)

type screen struct {
	p *cli.Program
	Status
}

func show(p *cli.Program, st Status) {
	s := screen{p, st}
	s.line("lbremedy", s.p.Paint(s.colour(), s.p.Tell(s.Headline())))
	s.line("Version", s.p.Phrase("%s, controller %s", s.Version, cmp.Or(s.Controller, s.p.Phrase("unknown"))))
	if len(s.Newer) > 0 {
		s.line("", s.p.Paint(cli.Yellow, clip(s.p.Tell(s.Newer))))
	}
	switch {
	case s.Cluster == "":
		s.line("Cluster", s.missing("cluster"))
	case s.Region == "":
		s.line("Cluster", s.Cluster)
	default:
		s.line("Cluster", s.p.Phrase("%s in %s", s.Cluster, s.Region))
	}
	s.nats()
	s.line("Exporter", s.exporter())
	s.policy()
	s.list("Pauses", "pauses", s.p.Phrase("None."), len(s.Pauses), func(i int) string { return s.p.Tell(s.pause(s.Pauses[i])) })
	if len(s.Pauses) > 0 {
		s.line("", s.p.Phrase("To end the pause: lbremedy resume"))
	}
	s.list("Breakers", "breakers", s.p.Phrase("None is open."), len(s.Breakers), func(i int) string {
		b := s.Breakers[i]
		if b.Class == control.AnyClass {
			return s.p.Phrase("All classes are stopped: lbremedy resume")
		}
		return s.p.Phrase("%[1]s is stopped: lbremedy breaker close %[1]s --cluster %[2]s", b.Class, b.Cluster)
	})
	s.budgets()
	s.backlog()
	s.cases()
	if s.Backlog != nil {
		s.losses()
	}
}

func (s screen) pause(one control.Pause) say.Text {
	if one.Cluster == "" {
		return cli.PauseLine(one)
	}
	return one.Text().Map(command.Clean)
}

// losses prints what does not balance; on a wide screen also the outcomes of each class's failures.
func (s screen) losses() {
	if len(s.Backlog.Problems) > 0 {
		s.rows("Problems", cli.Red, wrap(strings.Join(s.Backlog.Problems, "\n")))
	}
	losses := s.Backlog.Losses
	if !s.p.Wide() {
		losses = losses[:min(len(losses), most)]
	}
	if len(losses) > 0 {
		t := s.p.Table("lost", "class", "overdue", "why")
		for _, x := range losses {
			name := x.Service.UID
			if x.Service.Name != "" {
				name = x.Service.String()
			}
			t.AppendRow([]any{command.Clean(name), x.Class, s.p.Ago(x.Since), x.Why})
		}
		t.Render()
	}
	if n := len(s.Backlog.Losses) - len(losses); n > 0 {
		s.p.Note("%d more are lost: see -o wide.", n)
	}
	if s.p.Wide() && len(s.Backlog.Classes) > 0 {
		t := s.p.Table("class", "published", "queued", "waiting", "settled", "dead", "lost", "undelivered", "in-hand")
		for _, a := range s.Backlog.Classes {
			t.AppendRow([]any{a.Class, a.Published, a.Queued, a.Waiting, a.Settled, a.Dead, a.Lost, a.Undelivered, a.InHand})
		}
		t.Render()
	}
}

// rows prints lines of one colour below each other.
func (s screen) rows(name string, c cli.Colour, lines []string) {
	for _, line := range lines {
		s.line(name, s.p.Paint(c, line))
		name = ""
	}
}

func (s screen) line(name, text string) {
	name = s.p.Language().Format(name)
	fmt.Fprintf(s.p.Out, "%s%s%s\n", s.p.Paint(cli.Faint, name), strings.Repeat(" ", max(1, indent-cli.Columns(name))), text)
}

func wrap(text string) []string {
	var lines []string
	for line := range strings.Lines(cli.Wrap(text, "", wide-indent)) {
		lines = append(lines, clip(line))
	}
	return lines
}

func clip(text string) string {
	return cli.Cut(cli.Plain(text), wide-indent)
}

// missing prints the reason why NATS is unreachable only once.
func (s screen) missing(field string) string {
	why := s.Unknown[field]
	if why == s.Unknown["nats"] {
		return s.p.Paint(cli.Yellow, s.p.Phrase("unknown"))
	}
	return s.p.Paint(cli.Yellow, clip(s.p.Phrase("unknown: %s", why)))
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

func (s screen) nats() {
	if s.NATS.Reached {
		s.line("NATS", clip(s.p.Phrase("connected to %s", s.NATS.URL)))
		return
	}
	s.rows("NATS", cli.Red, wrap(s.Unknown["nats"]))
}

func (s screen) exporter() string {
	switch x := s.Exporter; {
	case x == nil:
		return s.missing("exporter")
	case x.Alive:
		return clip(s.p.Phrase("alive, last reported %s ago", s.p.Ago(x.At)))
	case x.At.IsZero():
		return s.p.Paint(cli.Red, s.p.Phrase("silent for more than an hour"))
	default:
		return s.p.Paint(cli.Red, s.p.Phrase("silent for %s", s.p.Ago(x.At)))
	}
}

func (s screen) policy() {
	if _, ok := s.Unknown["mode"]; ok {
		s.line("Policy", s.missing("mode"))
		return
	}
	lines := strings.SplitN(strings.TrimRight(cli.Wrap(s.p.Phrase("%s.", s.Policy), "", wide-indent), "\n"), "\n", 2)
	s.line("Policy", lines[0])
	if len(lines) > 1 {
		s.line("", clip(lines[1]))
	}
	if len(s.Freeze) > 0 {
		s.line("Freeze", s.p.Paint(cli.Yellow, clip(s.p.Tell(s.Freeze))))
	}
}

// list prints n entries in at most most lines, and how many more there are.
func (s screen) list(name, field, none string, n int, text func(i int) string) {
	if _, ok := s.Unknown[field]; ok {
		s.line(name, s.missing(field))
		return
	}
	if n == 0 {
		s.line(name, none)
	}
	for i, used := 0, 0; i < n; i++ {
		lines := fit(text(i))
		if used += len(lines); used > most || used == most && i < n-1 {
			s.line("", s.p.Phrase("and %d more: lbremedy %s", n-i, map[string]string{"pauses": "policy show", "breakers": "breaker ls"}[field]))
			break
		}
		s.rows(name, cli.Yellow, lines)
		name = ""
	}
}

func fit(text string) []string {
	if cli.Columns(text) <= wide-indent {
		return []string{clip(text)}
	}
	var lines []string
	for _, p := range say.Segments(text) {
		if p.Command {
			lines = append(lines, command.Clean(p.Text))
		} else {
			lines = append(lines, clip(p.Text))
		}
	}
	return lines
}

func (s screen) budgets() {
	if _, ok := s.Unknown["budgets"]; ok {
		s.line("Budgets", s.missing("budgets"))
		return
	}
	if len(s.Budgets) == 0 {
		return
	}
	first, then := s.Budgets[0], say.F("To write earlier, raise the budget in the policy file.")
	text := say.F("That of the cluster is spent until %s.", cli.Clock(first.Until))
	if first.Class != "" {
		text = say.F("%s is spent until %s.", first.Class, cli.Clock(first.Until))
	}
	if n := len(s.Budgets) - 1; n > 0 {
		then = say.F("Others: %d.", n).Then(then)
	}
	s.rows("Budgets", cli.Yellow, []string{clip(s.p.Tell(text)), clip(s.p.Tell(then))})
}

func (s screen) backlog() {
	b := s.Backlog
	if b == nil {
		s.line("Queue", s.missing("backlog"))
		return
	}
	queue := s.p.Phrase("%d queued, %d not delivered", b.Queued, b.Undelivered)
	if b.Dead > 0 {
		queue = s.p.Paint(cli.Yellow, queue+", "+s.p.Phrase("%s: lbremedy dead ls", say.Count(int(b.Dead), "dead letter")))
	}
	s.line("Queue", queue)
	if b.Lost > 0 {
		s.line("", s.p.Paint(cli.Red, s.p.Phrase("%d lost", b.Lost)))
	}
}

func (s screen) cases() {
	c := s.Cases
	if c == nil {
		s.line("Cases", s.missing("cases"))
		return
	}
	name, in := "Cases", ""
	if s.Namespace != "" {
		in = " -n " + s.Namespace
	}
	for _, one := range []struct {
		n    int
		what say.Text
		next string
		c    cli.Colour
	}{
		{c.NeedsApproval, say.F("%d need approval", c.NeedsApproval), "lbremedy ls --result needs-approval", cli.Yellow},
		{c.NeedsAction, say.F("%d need action", c.NeedsAction), "lbremedy ls --result needs-action,failed", cli.Yellow},
		{c.Planned, say.F("%d planned and only observed", c.Planned), "lbremedy ls --result planned", cli.Cyan},
		{c.Rejected, say.F("%d rejected by a person", c.Rejected), "lbremedy ls --result rejected", cli.Cyan},
		{c.Waiting, say.F("%d waiting", c.Waiting), "lbremedy ls --result waiting,unsettled", cli.Cyan},
		{c.Running, say.F("%d in progress", c.Running), "lbremedy ls --watch", cli.Cyan},
	} {
		if one.n > 0 {
			s.line(name, s.p.Paint(one.c, s.p.Phrase("%s: %s", one.what, one.next+in)))
			name = ""
		}
	}
	if name != "" {
		s.line(name, s.p.Phrase("None is open."))
	}
	s.line("Last 24 h", s.p.Phrase("%d fixed, %d synced (traffic not proven), %d recovered, %d failed", c.Fixed, c.Synced, c.Recovered, c.Failed))
}
