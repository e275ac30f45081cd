package event

import (
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/say"
)

// Said holds sentences of a record as messages. The record's own fields hold the same in
// English; they alone count where the two differ, or where a field of Said is empty.
type Said struct {
	Finding say.Text `json:"finding,omitempty"`
	Rule    say.Text `json:"rule,omitempty"`
	Decided say.Text `json:"decided,omitempty"`
	Ask     say.Text `json:"ask,omitempty"`
	Note    say.Text `json:"note,omitempty"`
}

// SetFinding replaces the finding, in both forms.
func (r *Record) SetFinding(t say.Text) { r.Finding, r.Said.Finding = t.String(), t }

// SetRule replaces the rule, in both forms.
func (r *Record) SetRule(t say.Text) { r.Rule, r.Said.Rule = t.String(), t }

// SetAsk replaces the question, in both forms.
func (r *Record) SetAsk(t say.Text) { r.Ask, r.Said.Ask = t.String(), t }

// SetNote replaces the note, in both forms.
func (r *Record) SetNote(t say.Text) { r.Note, r.Said.Note = t.String(), t }

// Texts returns the sentences of the record as messages. What a record says in English alone
// is a message without a translation.
func (r Record) Texts() Said {
	return Said{
		Finding: messages(r.Said.Finding, r.Finding), Rule: messages(r.Said.Rule, r.Rule), Decided: messages(r.Said.Decided, r.Decided),
		Ask: messages(r.Said.Ask, r.Ask), Note: messages(r.Said.Note, r.Note),
	}
}

// AddAsk puts a text behind the question.
func (r *Record) AddAsk(t say.Text) { r.SetAsk(messages(r.Said.Ask, r.Ask).Then(t)) }

// AddNote puts a text behind the note.
func (r *Record) AddNote(t say.Text) { r.SetNote(messages(r.Said.Note, r.Note).Then(t)) }

// Says returns what the step does.
func (s StepRecord) Says() say.Text { return messages(s.Said, s.Text) }

// messages returns the messages of a sentence; the sentence itself where they are not its.
func messages(t say.Text, english string) say.Text {
	if t.String() == english {
		return t
	}
	return say.Literal(english)
}

// fitting returns the messages redacted; none if they are not those of the sentence, which
// is redacted already.
func fitting(t say.Text, english string) say.Text {
	if t = t.Map(Redact); len(t) > 0 && strings.ToValidUTF8(t.String(), "?") == english {
		return t
	}
	return nil
}

// fit drops the messages that the record, redacted, does not say.
func (r *Record) fit() {
	r.Said = Said{
		Finding: fitting(r.Said.Finding, r.Finding), Rule: fitting(r.Said.Rule, r.Rule), Decided: fitting(r.Said.Decided, r.Decided),
		Ask: fitting(r.Said.Ask, r.Ask), Note: fitting(r.Said.Note, r.Note),
	}
	for i := range r.Steps {
		s := &r.Steps[i]
		s.Said = fitting(s.Said, s.Text)
		if s.Undo != nil {
			s.Undo.Said = fitting(s.Undo.Said, s.Undo.Text)
		}
	}
	for i := range r.Changes {
		c := &r.Changes[i]
		c.Said = fitting(c.Said, c.How)
	}
}

// In returns what was found with its sentences in a language, in which they stay.
func (f Found) In(l *say.Language) Found {
	f.Text, f.Do = say.Literal(f.Text.In(l)), say.Literal(f.Do.In(l))
	return f
}

// In returns the record with its sentences, those of its steps and changes, and what was found in a
// language. It is to be shown and not to be written: what reads it again takes the sentences for English.
func (r Record) In(l *say.Language) Record {
	if l == nil {
		return r
	}
	t := r.Texts()
	r.Finding, r.Rule, r.Decided, r.Ask, r.Note = t.Finding.In(l), t.Rule.In(l), t.Decided.In(l), t.Ask.In(l), t.Note.In(l)
	r.Steps = slices.Clone(r.Steps)
	for i := range r.Steps {
		s := &r.Steps[i]
		s.Text = s.Says().In(l)
		if s.Undo != nil {
			undo := *s.Undo
			undo.Text = messages(undo.Said, undo.Text).In(l)
			s.Undo = &undo
		}
	}
	r.Changes = slices.Clone(r.Changes)
	for i := range r.Changes {
		c := &r.Changes[i]
		c.How = messages(c.Said, c.How).In(l)
	}
	r.Found = slices.Clone(r.Found)
	for i := range r.Found {
		r.Found[i] = r.Found[i].In(l)
	}
	return r
}
