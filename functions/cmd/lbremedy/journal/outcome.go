package journal

import (
	"cmp"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/event"
)

// IsOpen reports whether the case of the record is not over.
func IsOpen(r event.Record) bool {
	switch event.Result(State(r)) {
	case event.Fixed, event.Synced, event.Gone, event.Superseded, event.Failed, event.Undone, event.Foreign:
		return false
	}
	return true
}

// Outcome returns the word for where a record stands, in its colour.
func Outcome(p *cli.Program, r event.Record) string {
	word := State(r)
	switch event.Result(word) {
	case event.Fixed, event.Gone:
		return p.Paint(cli.Green, word)
	case event.Planned, event.Undone, event.Superseded:
		return p.Paint(cli.Cyan, word)
	case event.Asked, event.Waiting, event.Unsettled, event.Synced:
		return p.Paint(cli.Yellow, word)
	case event.Failed, "error":
		return p.Paint(cli.Red, word)
	}
	return word
}

// State returns the word for where a record stands: its result, or that a run is on it.
func State(r event.Record) string {
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
