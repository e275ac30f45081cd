package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/lbremedy/lbremedy/shared/approval"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
)

type question struct {
	Plan    approval.Question
	Record  *event.Record // newest of the case's class; nil: none
	Closed  error         // why it can't be answered; nil: it can
	Missed  error         // why the person's last answer was not saved
	Answers []kube.Approval
	Mine    bool   // the person has answered it
	Apply   string // the command for an approved plan, if nothing else applies it
}

func (q question) Same() bool {
	return q.Record.Case == q.Plan.Case && q.Record.Digest == q.Plan.Digest
}

// Undo returns the command that undoes the applied plan; empty if no step can be undone or the plan has changed.
func (q question) Undo() string {
	if q.Record != nil && q.Same() && slices.ContainsFunc(q.Record.Steps, func(s event.StepRecord) bool { return s.Undo != nil }) {
		return "lbremedy undo " + q.Record.Case
	}
	return ""
}

func (q question) Open() bool { return q.Closed == nil && !q.Mine }

type answersBody struct {
	Verdict  kube.Verdict
	Rows     []question
	Open     int
	Here     template.URL // the address of this page
	MayNot   string       // why the person can't answer
	Unlisted string       // why the existing answers are unknown
}

var verdicts = map[string]kube.Verdict{"approve": kube.Approve, "reject": kube.Reject}

const mostPlans = listed

func (s *server) questionsOf(r *http.Request) (answersBody, error) {
	q := r.URL.Query()
	b := answersBody{Verdict: verdicts[q.Get("verdict")]}
	if b.Verdict == "" || len(q["plan"]) > mostPlans {
		return b, errNoPage
	}
	me := personOf(r)
	given := map[string][]kube.Approval{} // by namespace
	for _, text := range q["plan"] {
		p, ok := approval.ParseQuestion(text)
		if !ok {
			return b, errNoPage
		}
		row := question{Plan: p, Missed: me.missed(p)}
		var err error
		if row.Record, err = s.index.record(r.Context(), p); err != nil {
			return b, err
		}
		row.Closed = p.Takes(row.Record, b.Verdict, me.rejecting(r.Context(), row.Record))
		if row.Record != nil {
			namespace := row.Record.Service.Namespace
			all, seen := given[namespace]
			if !seen && me.kube != nil && row.Record.Service.Kind == "" {
				ctx, cancel := context.WithTimeout(r.Context(), patience)
				var err error
				if all, err = me.kube.Approvals(ctx, namespace); err != nil && !errors.Is(err, kube.ErrNotFound) {
					b.Unlisted = said(err)
				}
				cancel()
				given[namespace] = all
			}
			for _, a := range all {
				if a.Spec.Case == p.Case && a.Spec.Plan == p.Digest && a.Spec.Attempt == p.Attempt {
					row.Answers = append(row.Answers, a)
					row.Mine = row.Mine || a.Spec.User == me.name(r.Context()) && approval.StillValid(a, *row.Record, s.p.Now()) &&
						!(takesBack(row.Record, a) && b.Verdict == kube.Approve)
				}
			}
		}
		if row.Open() {
			b.Open++
		}
		if check, finding := strings.CutPrefix(p.Class, event.DoctorPrefix); finding && row.Mine && row.Closed == nil && b.Verdict == kube.Approve {
			row.Apply = fmt.Sprintf("lbremedy doctor --fix %s %s --apply", check, row.Record.Service)
		}
		b.Rows = append(b.Rows, row)
	}
	for _, row := range b.Rows {
		if b.MayNot == "" && row.Record != nil && row.Open() {
			if may := s.right(r.Context(), me, row.Record.Service.Namespace); !may.May {
				b.MayNot = cmp.Or(may.Why, s.p.Reads(r.Header).Phrase("You may not answer in the namespace %s.", row.Record.Service.Namespace))
			}
		}
	}
	b.MayNot, b.Here = cmp.Or(me.why, b.MayNot), template.URL("/answers?"+q.Encode()) // has no characters special to HTML or JavaScript
	return b, nil
}

// takesBack reports whether an Approval is the rejection in a record: the person who gave it may still approve.
func takesBack(rec *event.Record, a kube.Approval) bool {
	return rec.Rejected != nil && rec.Rejected.Object == string(a.UID) && a.Spec.Verdict == kube.Reject
}

// rejecting returns the person's name if somebody has rejected the plan; otherwise it doesn't matter.
func (p *person) rejecting(ctx context.Context, rec *event.Record) string {
	if rec == nil || rec.Rejected == nil {
		return ""
	}
	return p.name(ctx)
}

func (s *server) answers(r *http.Request) (page, error) {
	b, err := s.questionsOf(r)
	return page{Title: word("Answer"), name: "answers", Body: b}, err
}

func (s *server) decide(w http.ResponseWriter, r *http.Request) {
	b, err := s.questionsOf(r)
	comment := strings.TrimSpace(r.PostFormValue("comment"))
	switch {
	case err != nil:
		s.answer(w, r, func(*http.Request) (page, error) { return page{}, err })
		return
	case len(comment) > 1024:
		http.Error(w, "The comment has more than 1024 bytes.", http.StatusBadRequest)
		return
	}
	me := personOf(r)
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, q := range b.Rows {
		if !q.Open() || me.kube == nil {
			continue
		}
		g.Go(func() error {
			_, err := approval.Answer(ctx, me.kube, *q.Record, approval.Reply{Verdict: b.Verdict, Comment: comment})
			me.miss(q.Plan, err, s.p.Now())
			return nil
		})
	}
	_ = g.Wait() // none returns an error
	http.Redirect(w, r, string(b.Here), http.StatusSeeOther)
}

// record returns nil if the journal has no record of the question's Service and class.
func (b *index) record(ctx context.Context, q approval.Question) (*event.Record, error) {
	s, err := b.reached()
	if err != nil {
		return nil, err
	}
	return q.Now(ctx, s)
}
