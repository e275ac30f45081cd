package journal

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

type write struct {
	event.Call
	Case     string          `json:"case"`
	Cluster  string          `json:"cluster"`
	Class    string          `json:"class"`
	Service  event.Service   `json:"service"`
	Step     string          `json:"step"`
	Who      string          `json:"who"`
	Person   *event.Person   `json:"person,omitempty"`
	Approved *event.Approved `json:"approved,omitempty"`
}

// unknownAction is the action of a write that the journal lacks: the run was killed before it could record it.
const unknownAction = "unknown"

func listWrites(cmd *cobra.Command, p *cli.Program, s *stream.Stream, f *Filter) error {
	ctx := cmd.Context()
	list, err := writes(ctx, p, s, f)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		if err := p.NoteNone(ctx, s, cli.Chosen(cmd, say.F("write"))); err != nil {
			return err
		}
	}
	return p.Print(list, func() {
		t := p.Table("time", "case", "action", "resource", "service", "request", "who")
		t.Show(p.Wide(), "service", "request", "who")
		ids := shortIDs(p, list, func(w write) string { return w.Case })
		for _, w := range list {
			action := w.Action
			if w.Error != "" {
				action += " (" + w.Error + ")"
			}
			at := w.At.Local().Format("01-02 15:04:05 MST")
			if p.Wide() {
				at = cli.Clock(w.At)
			}
			t.AppendRow([]any{at, ids[w.Case], command.Clean(action), command.Clean(w.Resource), command.Clean(w.Service.String()),
				command.Clean(cmp.Or(w.Request, w.Version, "unknown")), command.Clean(p.Tell(w.by()))})
		}
		t.Render()
	})
}

func (w write) by() say.Text {
	switch {
	case w.Person != nil:
		return say.Literal(w.Person.String())
	case w.Approved != nil:
		return say.F("%s, approved by %s", w.Who, w.Approved.Text())
	}
	return say.Literal(w.Who)
}

// writes returns the newest first. A record repeats the writes of the records before it.
func writes(ctx context.Context, p *cli.Program, s *stream.Stream, f *Filter) ([]write, error) {
	type key struct {
		of            caseKey
		attempt, step int
		call          event.Call
	}
	list, known := []write{}, map[key]bool{}
	r := newReader(p)
	err := s.Each(ctx, stream.Cases, caseFilter(p, f.classes), f.stored(), r.each(func(rec event.Record) error {
		if !f.about(rec.Class, rec.Service) || !strings.HasPrefix(rec.Case, f.id) {
			return nil
		}
		for i, step := range rec.Steps {
			for _, c := range callsOf(rec, i) {
				k := key{identity(rec), rec.Attempt, i, c}
				if k.call.At = c.At.UTC(); c.Action == unknownAction {
					k.call.At = time.Time{} // it may be that of the next step
				}
				if !known[k] && !c.At.Before(f.since.Time) {
					known[k] = true
					list = append(list, write{c, rec.Case, rec.Cluster, rec.Class, rec.Service, step.Text.String(), rec.Who, rec.Person, rec.Approved})
				}
			}
		}
		return nil
	}))
	r.end()
	slices.SortStableFunc(list, func(a, b write) int { return b.At.Compare(a.At) })
	return list, err
}

// stored returns the earliest time at which the server may have stored selected records: after the times in them, by another clock.
func (f *Filter) stored() time.Time {
	if f.since.IsZero() {
		return time.Time{}
	}
	return f.since.Add(-time.Hour)
}

// callsOf returns an unknown write if the journal only says that the step was made.
func callsOf(r event.Record, i int) []event.Call {
	s := r.Steps[i]
	if len(s.Calls) > 0 || s.Found || i >= r.Next {
		return s.Calls
	}
	at := s.Ended
	if at.IsZero() {
		at = r.Written
	}
	return []event.Call{{At: at, Action: unknownAction, Resource: cmp.Or(s.Target, r.Service.String())}}
}
