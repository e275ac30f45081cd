package journal

import (
	"context"
	"slices"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// Sharing returns the newest records of the other cases that are fixed by these attempts' writes: an undo takes the fix from all.
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

func reliesOn(r event.Record, attempts []event.Record) bool {
	fixed := r.Phase == event.Settled && r.Result.Worked()
	return fixed && slices.ContainsFunc(attempts, func(a event.Record) bool {
		return r.Cluster == a.Cluster && identity(r) != identity(a) && (shareStep(r, a) || waitedFor(r, a))
	})
}

func shareStep(a, b event.Record) bool {
	for _, s := range a.Made() {
		for _, t := range b.Made() {
			if s.Kind == t.Kind && !s.ResyncOnly && s.Target == t.Target && (s.Target != "" || a.Service.UID == b.Service.UID && overlap(s, t)) {
				return true
			}
		}
	}
	return false
}

// waitedFor reports whether a case needed only a resync, because an attempt's write beside its Service ended their common cause.
func waitedFor(r, attempt event.Record) bool {
	beside := slices.ContainsFunc(attempt.Made(), func(s event.StepRecord) bool { return s.Target != "" })
	other := slices.ContainsFunc(r.Made(), func(s event.StepRecord) bool { return !s.ResyncOnly })
	return beside && !other && len(r.Made()) > 0 && r.Class == attempt.Class && r.Cause != "" && r.Cause == attempt.Cause && r.At.After(attempt.Written)
}

func overlap(a, b event.StepRecord) bool {
	changes := differences(a)
	return len(changes) == 0 || slices.ContainsFunc(changes, func(x Difference) bool {
		return slices.ContainsFunc(differences(b), func(y Difference) bool { return x.Key == y.Key })
	})
}

type caseKey struct{ cluster, uid, class, id string }

func identity(r event.Record) caseKey { return caseKey{r.Cluster, r.Service.UID, r.Class, r.Case} }
