package journal

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// Sharing returns the newest records of the other cases that are fixed by what these
// attempts of a case have written, too: an undo takes it from all of them.
func Sharing(ctx context.Context, p *cli.Program, s *stream.Stream, attempts []event.Record) ([]event.Record, error) {
	latest, err := latestCases(ctx, p, s, &Filter{})
	if err != nil {
		return nil, err
	}
	list := []event.Record{}
	for _, h := range latest {
		if r := h.Last(); reliesOn(r, attempts) {
			list = append(list, r)
		}
	}
	return list, nil
}

// reliesOn reports whether a case is fixed by what attempts of another one have written.
func reliesOn(r event.Record, attempts []event.Record) bool {
	fixed := r.Phase == event.Settled && r.Result.Worked()
	return fixed && slices.ContainsFunc(attempts, func(a event.Record) bool {
		return r.Cluster == a.Cluster && identity(r) != identity(a) && (shareStep(r, a) || waitedFor(r, a))
	})
}

// shareStep reports whether two records have a step of one kind that writes to one target.
func shareStep(a, b event.Record) bool {
	for _, s := range a.Made() {
		for _, t := range b.Made() {
			if s.Kind == t.Kind && !s.Wakes && s.Target == t.Target && (s.Target != "" || a.Service.UID == b.Service.UID && overlap(s, t)) {
				return true
			}
		}
	}
	return false
}

// waitedFor reports whether a case needed nothing but a resync, since what an attempt wrote
// beside its Service had ended their common cause.
func waitedFor(r, attempt event.Record) bool {
	beside := slices.ContainsFunc(attempt.Made(), func(s event.StepRecord) bool { return s.Target != "" })
	other := slices.ContainsFunc(r.Made(), func(s event.StepRecord) bool { return !s.Wakes })
	return beside && !other && len(r.Made()) > 0 && r.Class == attempt.Class && r.Cause != "" && r.Cause == attempt.Cause && r.At.After(attempt.Written)
}

// overlap reports whether two steps on one Service write the same field of it.
func overlap(a, b event.StepRecord) bool {
	keys := keysOf(a.Step)
	if len(keys) == 0 {
		return true // no annotations: all of the kind write the same
	}
	return slices.ContainsFunc(keysOf(b.Step), func(k string) bool { return slices.Contains(keys, k) })
}

// keysOf returns the annotations that a step writes.
func keysOf(step json.RawMessage) []string {
	var s struct {
		Set           map[string]string
		Names, Remove []string
	}
	if json.Unmarshal(step, &s) != nil {
		return nil
	}
	return slices.Concat(slices.Collect(maps.Keys(s.Set)), s.Names, s.Remove)
}

// A caseKey tells cases apart.
type caseKey struct{ cluster, uid, class, id string }

func identity(r event.Record) caseKey { return caseKey{r.Cluster, r.Service.UID, r.Class, r.Case} }

// lostFixes returns by case, of records of cases that are fixed, the undo of another case
// that has taken the fix away since. latest are the newest records of all cases.
func lostFixes(ctx context.Context, s *stream.Stream, latest []History, records []event.Record) (map[caseKey]event.Record, error) {
	lost := map[caseKey]event.Record{}
	for _, h := range latest {
		if h.Last().Result != event.Undone && h.Last().Back.IsZero() {
			continue
		}
		undone, attempts, err := lastUndo(ctx, s, h.Last())
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			if !undone.At.After(r.At) || !reliesOn(r, attempts) || madeAgain(latest, undone.At, attempts) {
				continue
			}
			if before, ok := lost[identity(r)]; !ok || undone.At.After(before.At) {
				lost[identity(r)] = undone
			}
		}
	}
	return lost, nil
}

// lastUndo returns the last undo of a Service and class that has taken something back, and
// the attempts that it took back; nothing if none exists.
func lastUndo(ctx context.Context, s *stream.Stream, of event.Record) (undone event.Record, attempts []event.Record, err error) {
	cases := map[string][]event.Record{}
	subject := event.CaseSubject(of.Cluster, of.Service.UID, of.Class)
	err = s.Each(ctx, stream.Cases, subject, time.Time{}, func(m stream.Message) error {
		r, err := event.DecodeRecord(m.Subject, m.Header, m.Data)
		if err != nil {
			return nil // "ls" and "show" say so
		}
		if r.Result == event.Undone && slices.ContainsFunc(r.Steps, func(s event.StepRecord) bool { return !s.Found }) {
			undone = r
			attempts = event.Attempts(cases[r.Case])
		}
		cases[r.Case] = append(cases[r.Case], r)
		return nil
	})
	return undone, attempts, err
}

// madeAgain reports whether a case has been fixed since by what attempts had written.
func madeAgain(latest []History, since time.Time, attempts []event.Record) bool {
	return slices.ContainsFunc(latest, func(h History) bool {
		r := h.Last()
		again := func(a event.Record) bool { return r.Cluster == a.Cluster && shareStep(r, a) }
		return !r.Undoing && r.Written.After(since) && slices.ContainsFunc(attempts, again)
	})
}

// lostFix says that the fix is gone; empty if it is not.
func (c Case) lostFix(p *cli.Program) string {
	if c.UndoneBy == "" {
		return ""
	}
	return p.Phrase("The fix is gone: it was undone with another case at %s.\nSee lbremedy show %s", cli.Clock(c.lost.At), c.UndoneBy)
}

// tellLost has the records say whose undo has taken away their fix.
func tellLost(ctx context.Context, p *cli.Program, s *stream.Stream, list []Case) error {
	var records []event.Record
	for _, r := range list {
		if worked(r) {
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
		if undone, ok := lost[identity(r.Record)]; ok && worked(r) {
			list[i].Result, list[i].lost, list[i].UndoneBy = event.FixUndone, undone, undone.Case
		}
	}
	return nil
}

// worked reports whether a case is printed as one whose fix worked.
func worked(c Case) bool {
	return c.Result == event.Status(event.Fixed) || c.Result == event.Status(event.Synced)
}
