package event

import (
	"cmp"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/say"
)

// A Status is the word that people read for the state of a case.
type Status string

// Statuses without a result of the same word.
const (
	NeedsApproval Status = "needs-approval" // Asked, and a person may approve the plan
	NeedsAction   Status = "needs-action"   // Asked, and a person must act
	Rejected      Status = "rejected"       // Planned, and a person has rejected the plan
	Recovered     Status = "recovered"      // Gone
	NotOurs       Status = "ignored"        // OutOfScope
	Writing       Status = "writing"        // a run applies the plan
	Erred         Status = "error"          // a run ended with an error and left no record
)

// Statuses are those at which a run may end, in the order of lists for people.
var Statuses = []Status{
	Status(Fixed), Status(Synced), Status(Planned), NeedsApproval, NeedsAction, Rejected, Status(Waiting), Status(Unsettled), Status(Failed), Recovered,
	Status(Superseded), Status(Undone), NotOurs,
}

// Word returns the status for people; translations may use another word.
func (s Status) Word() say.Text { return say.Text{{Format: string(s)}} }

// Status returns the state of the record's case.
func (r Record) Status() Status {
	switch {
	case r.Phase == "" && r.Result == "" && r.Error != "":
		return Erred
	case r.Phase == Intent, r.Phase == Step:
		return Writing
	case r.Result == Asked && len(r.Steps) > 0 && r.Digest != "" && r.Service.Kind == "":
		return NeedsApproval
	case r.Result == Asked:
		return NeedsAction
	case r.Result == Planned && r.Rejected != nil:
		return Rejected
	case r.Result == Gone:
		return Recovered
	case r.Result == OutOfScope:
		return NotOurs
	}
	return Status(cmp.Or(string(r.Result), "unknown"))
}

// Open reports whether a case with this status is not over.
func (s Status) Open() bool {
	switch s {
	case Status(Fixed), Status(Synced), Recovered, Status(Superseded), Status(Undone), NotOurs:
		return false
	}
	return true
}

const caseTime = "20060102T150405"

// CaseID returns the ID of an object's case by the time of its first failure.
func CaseID(uid string, failed time.Time) string {
	return uid[:min(len(uid), 8)] + "-" + failed.UTC().Format(caseTime)
}

// FirstFailure returns when the failure that opened the case happened. The case's ID keeps that time, in whole seconds, through pauses and retries.
func (r Record) FirstFailure() time.Time {
	first := r.EventTime
	if first.IsZero() || !r.First.IsZero() && r.First.Before(first) {
		first = r.First
	}
	at, err := time.Parse(caseTime, r.Case[strings.LastIndexByte(r.Case, '-')+1:])
	if err == nil && at.Before(first.Truncate(time.Second)) {
		return at
	}
	return first
}
