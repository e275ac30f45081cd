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
	g := a.Given[i]
	rec.Rejected = said(g)
	rec.Rule = say.F("%s rejected this plan at %s.", g.By, g.At.Format(time.RFC3339)).Then(beside(g))
	return true
}

// Approved reports whether enough people have approved this plan, and records them. The record also names approvals that the policy does not count.
func (a Answers) Approved(rec *event.Record, attempt int, want remedy.Consent) bool {
	given := a.Given
	if me := a.Agreed; me.good(rec.Digest, attempt) {
		given = append(slices.Clip(given), Given{
			By: me.By.Name, Groups: me.By.Groups, Host: me.Host, Case: rec.Case, Digest: rec.Digest, Attempt: attempt, At: a.At.Truncate(time.Second),
		})
	}
	for _, v := range a.Void {
		if v.Digest == rec.Digest {
			rec.Note = rec.Note.Then(v.Why)
		}
	}
	var count []Given
	for _, g := range given {
		switch {
		case g.Rejects || g.Case != rec.Case:
		case g.Digest != rec.Digest:
			rec.Note = rec.Note.Then(say.F("%s approved another plan (%s) at %s. This plan is %s.", g.By, g.Digest, g.At.Format(time.RFC3339), rec.Digest))
		case g.Attempt != attempt:
		case !want.From(g.By, g.Groups):
			rec.Note = rec.Note.Then(say.F("%s approved this plan at %s, but only these approvals count: %s.", g.By, g.At.Format(time.RFC3339), want.Approvers()))
		case !slices.ContainsFunc(count, func(b Given) bool { return b.By == g.By }):
			count = append(count, g)
		}
	}
	text := func(g Given) say.Text {
		return say.F("%s approved this plan at %s.", g.By, g.At.Format(time.RFC3339)).Then(beside(g))
	}
	if len(count) < want.Needs {
		for _, g := range count {
			rec.Note = rec.Note.Then(text(g))
		}
		return false
	}
	rec.Approved, rec.Seconded = said(count[0]), nil
	rule := text(count[0])
	for _, g := range count[1:want.Needs] {
		rec.Seconded = append(rec.Seconded, *said(g))
		rule = rule.Then(text(g))
	}
	rec.Rule = rule
	return true
}

func said(g Given) *event.Approved {
	return &event.Approved{By: g.By, At: g.At, Identity: g.By, Host: g.Host, Object: g.Object, Chat: g.Chat, Comment: event.Redact(g.Comment)}
}

// beside returns what an answer says besides its author and time.
func beside(g Given) say.Text {
	var text say.Text
	if g.Chat != "" {
		text = say.F("It came from a chat: %s.", event.FromChat(event.Redact(g.Chat)))
	}
	if g.Comment != "" {
		text = text.Then(say.F("Comment: %s", event.Redact(g.Comment)))
	}
	return text
}
