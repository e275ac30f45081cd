package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
)

// begun is how long after a pause a write may still arrive, if it began before.
const begun = time.Second

type verdict struct {
	Wrong   []string // violations, one sentence each
	Open    []string // open failures, each with a reason
	Writes  int      // executed
	Settled int      // Services with the expected result
}

// granted reports whether a part made the same kind of write to the cluster in this history: an API server that restarts answers before its
// authorizer has read the roles.
func (e *evidence) granted(refused write) bool {
	return refused.Where == "cluster" && slices.ContainsFunc(e.Writes, func(w write) bool { return w.Done && w.Who == refused.Who && w.What == refused.What })
}

func judge(e evidence) verdict {
	var v verdict
	wrong := func(format string, args ...any) { v.Wrong = append(v.Wrong, fmt.Sprintf(format, args...)) }
	for _, s := range e.Services {
		e.outcome(s, &v, wrong)
	}
	made := map[string][]write{} // by step
	written := map[string]map[string]bool{}
	for _, w := range e.Writes {
		if w.Refused && !e.granted(w) {
			wrong("%s asked for what is not among its rights: %s of %s", w.Who, w.What, w.Presence)
		}
		if !w.Done {
			continue
		}
		v.Writes++
		rec, why := e.covers(w)
		if why != "" {
			wrong("%s at %s by %s to %s: %s", w.What, w.At.Format(clockTime), w.Who, w.Presence, why)
			continue
		}
		if !e.lost(w) {
			step := fmt.Sprintf("%s %s.%d step %d", rec.Service.UID, rec.Case, rec.Attempt, rec.Next+1)
			made[step] = append(made[step], w)
		}
		if written[rec.Class] == nil {
			written[rec.Class] = map[string]bool{}
		}
		if slices.ContainsFunc(e.Services, func(s witness) bool { return s.UID == rec.Service.UID }) {
			written[rec.Class][rec.Service.UID] = true
		}
		for _, p := range e.Pauses {
			if w.At.After(p.from.Add(begun)) && w.At.Before(p.to) {
				wrong("%s at %s by %s to %s: it was paused since %s", w.What, w.At.Format(clockTime), w.Who, w.Presence, p.from.Format(clockTime))
			}
		}
	}
	for step, all := range made {
		if len(all) > 1 {
			var times []string
			for _, w := range all {
				times = append(times, fmt.Sprintf("%s by %s at %s", w.What, w.Who, w.At.Format(clockTime)))
			}
			wrong("%s was made %d times: %s", step, len(all), strings.Join(times, ", "))
		}
	}
	for class, uids := range written {
		if e.Budget > 0 && len(uids) > e.Budget {
			wrong("%d Services of %s were written to, and the budget is %d", len(uids), class, e.Budget)
		}
	}
	for _, l := range e.Ledger {
		wrong("the ledger does not balance: %s", l)
	}
	for _, u := range e.Undone {
		wrong("undo: %s", u)
	}
	slices.Sort(v.Wrong)
	return v
}

// lost reports whether a write may have been lost by restoring an older copy of the cluster, and may be repeated. Writes just before the
// copy may or may not be in it.
func (e evidence) lost(w write) bool {
	return w.Where == "cluster" && slices.ContainsFunc(e.Lost, func(s span) bool { return w.At.After(s.from.Add(-begun)) && w.At.Before(s.to) })
}

const clockTime = "15:04:05.000"

func (e evidence) outcome(s witness, v *verdict, wrong func(string, ...any)) {
	if !slices.ContainsFunc(e.Failures, func(f failure) bool { return f.UID == s.UID && !f.Over }) {
		wrong("%s: the history is none: the controller has reported no failure", s.Name)
		return
	}
	rec := e.last(s.UID, s.Class, time.Time{})
	switch {
	case rec == nil:
		wrong("%s: lost: its failure was reported and the journal holds nothing about it", s.Name)
	case rec.Phase != event.Settled:
		wrong("%s: lost: its case ends in the middle, with %s of attempt %d by %s at %s", s.Name, rec.Phase, rec.Attempt, rec.Who, rec.At.Format(clockTime))
	case s.ended(*rec):
		v.Settled++
	case rec.Result.Worked() && !s.Healed:
		wrong("%s: the journal says %s, and the Service does not work", s.Name, rec.Result)
	case rec.Result == event.Gone && !s.Healed:
		wrong("%s: the journal says that the failure is over, and the Service does not work", s.Name)
	case reasonOf(*rec) == "":
		wrong("%s: it stands open as %s and nothing says why", s.Name, rec.Result)
	default:
		v.Open = append(v.Open, fmt.Sprintf("%s: %s, should be %s: %s", s.Name, rec.Result, s.Ends, reasonOf(*rec)))
	}
}

func (s witness) ended(rec event.Record) bool {
	if rec.Phase != event.Settled {
		return false
	}
	if s.Ends.Worked() {
		// A write whose author died before reporting it counts as gone or superseded.
		return s.Healed && (rec.Result.Worked() || rec.Result == event.Gone || rec.Result == event.Superseded)
	}
	return rec.Result == s.Ends
}

func reasonOf(rec event.Record) string {
	var all []string
	for _, text := range []string{string(rec.Held), rec.Rule.String(), rec.Ask.String(), rec.Note.String(), rec.Error} {
		if text != "" {
			all = append(all, text)
		}
	}
	return strings.Join(all, "; ")
}

// last returns the last record about a Service stored by then, or nil. An empty class means all, the zero time the end.
func (e evidence) last(uid, class string, by time.Time) *event.Record {
	for i := len(e.Records) - 1; i >= 0; i-- {
		r := &e.Records[i]
		if r.Service.UID == uid && (class == "" || r.Class == class) && (by.IsZero() || !r.Stored.After(by)) {
			return &r.Record
		}
	}
	return nil
}

// covers returns the record of a write, or an error: the last record before it about the Service has to announce it, by the same author.
func (e evidence) covers(w write) (*event.Record, string) {
	uids := []string{w.UID}
	if w.Where == "cloud" { // the cloud knows no Services: any will do
		uids = nil
		for _, r := range e.Records {
			uids = append(uids, r.Service.UID)
		}
		slices.Sort(uids)
		uids = slices.Compact(uids)
	}
	var why []string
	for _, uid := range uids {
		rec := e.last(uid, "", w.At)
		switch {
		case rec == nil:
			why = append(why, "the journal held nothing about the Service")
		case rec.Phase != event.Intent && rec.Phase != event.Step || rec.Next >= len(rec.Steps):
			why = append(why, fmt.Sprintf("the journal announced no write: it held %s %s", rec.Phase, rec.Result))
		case rec.Who != w.Who && !(rec.Who == remoteWorker && w.Who == function):
			why = append(why, fmt.Sprintf("the object was held by %s", rec.Who))
		case w.Where == "cluster" && w.Mark != "" && w.Mark != fmt.Sprintf("%s.%d", rec.Case, rec.Attempt):
			why = append(why, fmt.Sprintf("it bears the mark %s, and the journal announced %s.%d", w.Mark, rec.Case, rec.Attempt))
		case !announces(rec.Steps[rec.Next], w):
			why = append(why, fmt.Sprintf("the journal announced another step: %s", rec.Steps[rec.Next].Text))
		default:
			return rec, ""
		}
	}
	slices.Sort(why)
	return nil, "no journal entry covers it: " + strings.Join(slices.Compact(why), ", or ")
}

func announces(step event.StepRecord, w write) bool {
	for _, text := range append(slices.Clone(w.Keys), w.Targets...) {
		if !strings.Contains(string(step.Step), text) {
			return false
		}
	}
	return w.Where == "cluster" || len(w.Targets) > 0
}
