package journal

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// SchemaFile is the path of a Case's JSON Schema in the module.
const SchemaFile = "functions/cmd/lbremedy/journal/case.v1.json"

// A Case is a record in printed form: in the words and units of people, the most important first.
type Case struct {
	Result    event.Status `json:"result"`             // status of the case
	FirstSeen time.Time    `json:"firstSeen,omitzero"` // when the failure that opened the case happened
	LastSeen  time.Time    `json:"lastSeen,omitzero"`  // when the failure was last seen
	Repeats   *Repeats     `json:"seen,omitempty"`     // consecutive runs with this outcome; absent: one
	NextStep  string       `json:"nextStep,omitempty"` // what a person does next
	WaitMs    float64      `json:"waitMs,omitempty"`   // milliseconds until the case is looked at again
	TimingsMs *Timings     `json:"timingsMs,omitempty"`
	event.Record

	// Omitted: the journal has it in nanoseconds.
	Wait    *struct{} `json:"wait,omitempty"`
	Timings *struct{} `json:"timings,omitempty"`
}

// Timings are the durations of a run's phases, and of the controller, in milliseconds.
type Timings struct {
	Queue    float64 `json:"queue,omitempty"` // from the event's time to the start of the run
	Resume   float64 `json:"resume,omitempty"`
	Diagnose float64 `json:"diagnose,omitempty"`
	Decide   float64 `json:"decide,omitempty"`
	Apply    float64 `json:"apply,omitempty"`
	Verify   float64 `json:"verify,omitempty"`
	Sync     float64 `json:"sync,omitempty"` // from the write to the controller's full sync
}

// Repeats counts consecutive runs with a record's outcome.
type Repeats struct {
	Times int       `json:"times"`
	First time.Time `json:"first"` // when the first of them ended
	Last  time.Time `json:"last"`  // when the last of them ended
}

// Printed returns a record in its JSON form.
func Printed(r event.Record) Case { return printed(r.In(nil), nil) }

func english(list []Case) []Case {
	list = slices.Clone(list)
	for i := range list {
		list[i].Record = list[i].Record.In(nil)
	}
	return list
}

func printed(r event.Record, seen *Repeats) Case {
	c := Case{Record: r, Result: r.Status(), FirstSeen: r.FirstFailure(), LastSeen: r.EventTime, Repeats: seen, WaitMs: ms(r.Wait)}
	if seen != nil && seen.Last.After(c.LastSeen) {
		c.LastSeen = seen.Last
	}
	if t := r.Timings; t != (event.Timings{}) {
		c.TimingsMs = &Timings{ms(t.Queue), ms(t.Resume), ms(t.Diagnose), ms(t.Decide), ms(t.Apply), ms(t.Verify), ms(t.Sync)}
	}
	if c.Attempts == nil {
		c.Attempts = []time.Time{}
	}
	if r.Phase != "" {
		c.NextStep = next(nil, r, seen)
	}
	return c
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (r *Repeats) in(p *cli.Program) string {
	if r == nil {
		return ""
	}
	return p.Phrase("%d times since %s, last at %s, %s ago", r.Times, cli.Clock(r.First), cli.Clock(r.Last), p.Ago(r.Last))
}

// countSeen returns the records with the number of runs that ended the same way. uid may be "*".
func countSeen(ctx context.Context, p *cli.Program, s *stream.Stream, uid string, records []event.Record) ([]Case, error) {
	docs := map[string]event.Document{}
	entries, err := s.Entries(ctx, event.StateKey(cmp.Or(p.Cluster, "*"), uid))
	if err != nil {
		return nil, fmt.Errorf("read how often cases were seen: %w", err)
	}
	for _, e := range entries {
		d, err := event.ReadDocument(e.Value)
		if err != nil {
			return nil, fmt.Errorf("read how often a case was seen, key %s: %w", e.Key, err)
		}
		docs[e.Key] = d
	}
	list := make([]Case, len(records))
	for i, rec := range records {
		var seen *Repeats
		// A count of an earlier record doesn't apply to this one.
		if c := docs[event.StateKey(rec.Cluster, rec.Service.UID)].Cases[rec.Class]; c != nil && c.Repeats > 1 && !c.Since(rec).At.Equal(rec.At) {
			seen = &Repeats{c.Repeats, c.First, c.Last}
		}
		list[i] = printed(rec, seen)
	}
	return list, nil
}

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
