package event

import (
	"slices"

	"github.com/lbremedy/lbremedy/shared/say"
)

func (r *Record) sentences(f func(*say.Text)) {
	for _, t := range []*say.Text{&r.Finding, &r.Rule, &r.Decided, &r.Ask, &r.Note} {
		f(t)
	}
	r.Steps = slices.Clone(r.Steps)
	for i := range r.Steps {
		s := &r.Steps[i]
		f(&s.Text)
		if s.Undo != nil {
			undo := *s.Undo
			f(&undo.Text)
			s.Undo = &undo
		}
	}
	r.Changes = slices.Clone(r.Changes)
	for i := range r.Changes {
		f(&r.Changes[i].How)
	}
	r.Found = slices.Clone(r.Found)
	for i := range r.Found {
		f(&r.Found[i].Text)
		f(&r.Found[i].Do)
	}
}

// In returns the finding with its sentences fixed in a language.
func (f Found) In(l *say.Language) Found {
	f.Text, f.Do = say.Literal(f.Text.In(l)), say.Literal(f.Do.In(l))
	return f
}

// In returns the record with all its sentences fixed in a language; nil is English.
func (r Record) In(l *say.Language) Record {
	r.sentences(func(t *say.Text) { *t = say.Literal(t.In(l)) })
	return r
}
