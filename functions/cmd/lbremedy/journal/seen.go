package journal

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// A seenRecord is a record as it is printed: with how often runs have ended as it says,
// which the journal does not hold.
type seenRecord struct {
	event.Record
	Seen     *repeats `json:"seen,omitempty"`     // absent: only the one that wrote the record did
	UndoneBy string   `json:"undoneBy,omitempty"` // ID of the case whose undo has taken away the fix of this one

	lost event.Record // that undo
}

// outcome returns the word for where the case stands, in its colour.
func (r seenRecord) outcome(p *cli.Program) string {
	if r.UndoneBy != "" {
		return p.Paint(cli.Yellow, "fix undone")
	}
	return Outcome(p, r.Record)
}

// lostFix says that the fix is gone; empty if it is not.
func (r seenRecord) lostFix() string {
	if r.UndoneBy == "" {
		return ""
	}
	return fmt.Sprintf("The fix is gone: it was undone with another case at %s.\nSee lbremedy show %s", cli.Clock(r.lost.At), r.UndoneBy)
}

// tellLost has the records say whose undo has taken away their fix.
func tellLost(ctx context.Context, p *cli.Program, s *stream.Stream, list []seenRecord) error {
	var records []event.Record
	for _, r := range list {
		if event.Result(State(r.Record)) == event.Fixed {
			records = append(records, r.Record)
		}
	}
	if len(records) == 0 {
		return nil
	}
	latest, err := latestCases(ctx, p, s, &Filter{})
	if err != nil {
		return err
	}
	lost, err := lostFixes(ctx, s, latest, records)
	if err != nil {
		return err
	}
	for i, r := range list {
		if undone, ok := lost[identity(r.Record)]; ok && event.Result(State(r.Record)) == event.Fixed {
			list[i].lost, list[i].UndoneBy = undone, undone.Case
		}
	}
	return nil
}

// Repeats say how often runs in a row have ended as a record says.
type repeats struct {
	Times int       `json:"times"`
	First time.Time `json:"first"` // when the first of them ended
	Last  time.Time `json:"last"`
}

// in says it in words; nothing of none.
func (r *repeats) in(p *cli.Program) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("%d times since %s, last at %s, %s ago", r.Times, cli.Clock(r.First), cli.Clock(r.Last), p.Ago(r.Last))
}

// countSeen returns the records with how often runs have ended as they say. Of a Service, by
// its UID, or of all with "*".
func countSeen(ctx context.Context, p *cli.Program, s *stream.Stream, uid string, records []event.Record) ([]seenRecord, error) {
	runs := map[string]event.Running{}
	entries, err := s.Entries(ctx, event.RunKey(cmp.Or(p.Cluster, "*"), uid, "*"))
	if err != nil {
		return nil, fmt.Errorf("read how often cases were seen: %w", err)
	}
	for _, e := range entries {
		var r event.Running
		if err := json.Unmarshal(e.Value, &r); err != nil {
			return nil, fmt.Errorf("read how often a case was seen, key %s: %w", e.Key, err)
		}
		runs[e.Key] = r
	}
	list := make([]seenRecord, len(records))
	for i, rec := range records {
		list[i].Record = rec
		// A count of an earlier record is none of this one.
		if r := runs[event.RunKey(rec.Cluster, rec.Service.UID, rec.Class)]; r.Seen > 1 && !r.Since(rec).At.Equal(rec.At) {
			list[i].Seen = &repeats{r.Seen, r.First, r.Last}
		}
	}
	return list, nil
}
