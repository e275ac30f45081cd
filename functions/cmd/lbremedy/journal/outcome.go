package journal

import (
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/event"
)

// IsOpen reports whether the case of the record is not over.
func IsOpen(r event.Record) bool { return r.Status().Open() }

// Outcome returns the word for where a record stands, in its colour.
func Outcome(p *cli.Program, r event.Record) string {
	return paint(p, r.Status())
}

func paint(p *cli.Program, word event.Status) string { return p.Paint(colours[word], string(word)) }

var colours = map[event.Status]cli.Colour{
	event.Status(event.Fixed): cli.Green, event.Recovered: cli.Green,
	event.Status(event.Planned): cli.Cyan, event.Rejected: cli.Cyan, event.Status(event.Undone): cli.Cyan, event.Status(event.Superseded): cli.Cyan,
	event.NeedsApproval: cli.Yellow, event.NeedsAction: cli.Yellow, event.Status(event.Waiting): cli.Yellow, event.Status(event.Unsettled): cli.Yellow,
	event.FixUndone:            cli.Yellow,
	event.Status(event.Failed): cli.Red, event.Erred: cli.Red,
}
