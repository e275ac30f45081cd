package approval

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// An Agreement is the consent of the person who runs the engine by hand to the plan with this digest, in this process and for one attempt.
type Agreement struct {
	Digest string
	By     kube.User // the caller, as the API server knows them
	Host   string    // their machine

	attempt atomic.Int64
}

// good reports whether it is of this plan and attempt. The first attempt that asks claims it.
func (a *Agreement) good(digest string, attempt int) bool {
	return a != nil && a.Digest == digest && (a.attempt.CompareAndSwap(0, int64(attempt)) || a.attempt.Load() == int64(attempt))
}

// Answers are people's answers to plans for a Service, read at one time.
type Answers struct {
	Given  []Given
	Void   []Void
	Agreed *Agreement // nil if absent
	At     time.Time
}

// Rejected reports whether a person has rejected this plan, and records the rejection. An unchanged plan is not asked about again.
func (a Answers) Rejected(rec *event.Record) bool {
	i := slices.IndexFunc(a.Given, func(g Given) bool { return g.Rejects && g.Digest == rec.Digest })
	if i < 0 {
		return false
	}
	by := a.Given[i].Approved
	rec.Rejected, rec.Rule = &by, rejected(by.By, by.At).Then(beside(by))
	return true
}

// Approved reports whether enough people have approved this plan, and records them. The record also names approvals that the policy does not count.
func (a Answers) Approved(rec *event.Record, attempt int, want remedy.Consent) bool {
	given := a.Given
	if me := a.Agreed; me.good(rec.Digest, attempt) {
		by := event.Approved{By: me.By.Name, Identity: me.By.Name, Host: me.Host, At: a.At.Truncate(time.Second)}
		given = append(slices.Clip(given), Given{Approved: by, Groups: me.By.Groups, Case: rec.Case, Digest: rec.Digest, Attempt: attempt})
	}
	for _, v := range a.Void {
		if v.Digest == rec.Digest {
			rec.Note = rec.Note.Then(v.Why)
		}
	}
	var count []event.Approved
	for _, g := range given {
		switch {
		case g.Rejects || g.Case != rec.Case:
		case g.Digest != rec.Digest:
			rec.Note = rec.Note.Then(say.F("%s approved another plan (%s) at %s. This plan is %s.", g.By, g.Digest, g.At.Format(time.RFC3339), rec.Digest))
		case g.Attempt != attempt:
		case !want.From(g.By, g.Groups):
			rec.Note = rec.Note.Then(barred(g.By, g.At, want.Approvers()))
		case !slices.ContainsFunc(count, func(b event.Approved) bool { return b.By == g.By }):
			count = append(count, g.Approved)
		}
	}
	var text say.Text
	for i, by := range count {
		if i < want.Needs || len(count) < want.Needs {
			text = text.Then(approved(by.By, by.At).Then(beside(by)))
		}
	}
	if len(count) < want.Needs {
		rec.Note = rec.Note.Then(text)
		return false
	}
	rec.Approved, rec.Seconded, rec.Rule = &count[0], append([]event.Approved(nil), count[1:want.Needs]...), text
	return true
}

func approved(by string, at time.Time) say.Text {
	return say.F("%s approved this plan at %s.", by, at.Format(time.RFC3339))
}

func rejected(by string, at time.Time) say.Text {
	return say.F("%s rejected this plan at %s.", by, at.Format(time.RFC3339))
}

// barred returns the note on an approval of a person whose approvals the policy does not count.
func barred(by string, at time.Time, approvers string) say.Text {
	return say.F("%s approved this plan at %s, but only these approvals count: %s.", by, at.Format(time.RFC3339), approvers)
}

// beside returns what an answer says besides its author and time.
func beside(by event.Approved) say.Text {
	var text say.Text
	if by.Chat != "" {
		text = say.F("It came from a chat: %s.", event.FromChat(event.Redact(by.Chat)))
	}
	if by.Comment != "" {
		text = text.Then(say.F("Comment: %s", event.Redact(by.Comment)))
	}
	return text
}
