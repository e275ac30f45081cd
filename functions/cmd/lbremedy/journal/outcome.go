package journal

import (
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/event"
)

// IsOpen reports whether the case of the record is not over.
func IsOpen(r event.Record) bool { return r.Status().Open() }

// urgency puts first the cases that need a person, then those that lead nowhere without one, then other open ones.
func urgency(s event.Status) int {
	switch {
	case s == event.NeedsApproval, s == event.NeedsAction, s == event.Status(event.Failed):
		return 0
	case s == event.Status(event.Planned):
		return 1
	case s.Open():
		return 2
	}
	return 3
}

// Outcome returns the word for a record's status, in its colour.
func Outcome(p *cli.Program, r event.Record) string {
	return paint(p, r.Status())
}

func paint(p *cli.Program, word event.Status) string {
	return p.Paint(colours[word], p.Tell(word.Word()))
}

var colours = map[event.Status]cli.Colour{
	event.Status(event.Fixed): cli.Green, event.Recovered: cli.Green,
	event.Status(event.Planned): cli.Cyan, event.Rejected: cli.Cyan, event.Status(event.Undone): cli.Cyan, event.Status(event.Superseded): cli.Cyan,
	event.NeedsApproval: cli.Yellow, event.NeedsAction: cli.Yellow, event.Status(event.Waiting): cli.Yellow, event.Status(event.Unsettled): cli.Yellow,
	event.Status(event.Failed): cli.Red, event.Erred: cli.Red,
}
