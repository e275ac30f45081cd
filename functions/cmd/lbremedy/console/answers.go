package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/lbremedy/lbremedy/shared/approval"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// A plan is what one answer is to: the plan of a case, as a page has shown it.
type plan struct {
	cluster, uid, class, id string
	attempt                 int
	digest                  string
}

// String is how forms and addresses name it.
func (p plan) String() string {
	return strings.Join([]string{p.cluster, p.uid, p.class, p.id, strconv.Itoa(p.attempt), p.digest}, "/")
}

func readPlan(text string) (plan, bool) {
	f := strings.Split(text, "/")
	if len(f) != 6 || slices.Contains(f, "") {
		return plan{}, false
	}
	attempt, err := strconv.Atoi(f[4])
	return plan{f[0], f[1], f[2], f[3], attempt, f[5]}, err == nil
}

// Short is the beginning of its digest.
func (p plan) Short() string { return p.digest[:min(len(p.digest), 12)] }

// Case is the ID of its case.
func (p plan) Case() string { return p.id }

// A question is a plan with what there is to say of it.
type question struct {
	Plan    plan
	Record  *event.Record // the newest of the case's class; nil: there is none
	Closed  error         // why nobody can answer it; nil: somebody can
	Missed  error         // why the person's last answer did not come about
	Answers []kube.Approval
	Mine    bool   // the person has answered it
	Apply   string // the command that applies an approved plan, where nothing else does
}

// Same reports whether the case still has the plan.
func (q question) Same() bool { return q.Record.Case == q.Plan.id && q.Record.Digest == q.Plan.digest }

// Open reports whether the person may still answer it.
func (q question) Open() bool { return q.Closed == nil && !q.Mine }

// An answersBody is what the page shows on which a person answers.
type answersBody struct {
	Verdict  kube.Verdict
	Rows     []question
	Open     int
	Here     template.URL // the address of this page
	Comment  string
	Wrong    say.Text
	MayNot   string // why the person can't answer
	Unlisted string // why it is not known who has answered
}

// verdicts are the answers, as an address names them.
var verdicts = map[string]kube.Verdict{"approve": kube.Approve, "reject": kube.Reject}

// mostPlans is how many plans can be answered at once.
const mostPlans = listed

// questionsOf returns the plans that a request names, and what there is to say of each.
func (s *server) questionsOf(r *http.Request) (answersBody, error) {
	q := r.URL.Query()
	b := answersBody{Verdict: verdicts[q.Get("verdict")]}
	if b.Verdict == "" || len(q["plan"]) > mostPlans {
		return b, errNoPage
	}
	me := personOf(r)
	given := map[string][]kube.Approval{} // by namespace
	for _, text := range q["plan"] {
		p, ok := readPlan(text)
		if !ok {
			return b, errNoPage
		}
		row := question{Plan: p, Missed: me.missed(p)}
		var err error
		if row.Record, err = s.book.record(r.Context(), caseKey{p.cluster, p.uid, p.class, ""}); err != nil {
			return b, err
		}
		row.Closed = closed(p, row.Record, b.Verdict, me.rejecting(r.Context(), row.Record))
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
				if a.Spec.Case == p.id && a.Spec.Plan == p.digest && a.Spec.Attempt == p.attempt {
					row.Answers = append(row.Answers, a)
					row.Mine = row.Mine || a.Spec.User == me.name(r.Context()) && approval.Stands(a, *row.Record, s.p.Now()) &&
						!(takesBack(row.Record, a) && b.Verdict == kube.Approve)
				}
			}
		}
		if row.Open() {
			b.Open++
		}
		if check, finding := strings.CutPrefix(p.class, event.DoctorPrefix); finding && row.Mine && row.Closed == nil && b.Verdict == kube.Approve {
			row.Apply = fmt.Sprintf("lbremedy doctor --fix %s %s --apply", check, row.Record.Service)
		}
		b.Rows = append(b.Rows, row)
	}
	b.MayNot, b.Here = me.why, template.URL("/answers?"+q.Encode()) // which has no character that HTML or JavaScript knows
	return b, nil
}

// closed returns why nobody can answer a plan: what stands in the journal is not what a page
// has shown, or asks for no such answer of the person.
func closed(p plan, now *event.Record, verdict kube.Verdict, by string) error {
	switch {
	case now == nil:
		return say.Errorf("The journal has no such case.")
	case now.Case != p.id:
		return say.Errorf("This case is over: there is a newer one, %s.", now.Case)
	case now.Service.Kind != "":
		return say.Errorf("This is not about a Service: it is answered in a terminal.")
	}
	if err := approval.Takes(*now, verdict, by); err != nil {
		return err
	}
	if now.Digest != p.digest || now.NextAttempt() != p.attempt {
		return say.Errorf("The plan is another one by now: look at it again.")
	}
	return nil
}

// takesBack reports whether an Approval is the rejection that a record tells of, so that who gave
// it may still approve the plan.
func takesBack(rec *event.Record, a kube.Approval) bool {
	return rec.Rejected != nil && rec.Rejected.Object == string(a.UID) && a.Spec.Verdict == kube.Reject
}

// rejecting returns the name of the person, where it matters: at a plan that somebody has rejected.
func (p *person) rejecting(ctx context.Context, rec *event.Record) string {
	if rec == nil || rec.Rejected == nil {
		return ""
	}
	return p.name(ctx)
}

// answers shows plans, who has answered them, and where the person answers.
func (s *server) answers(r *http.Request) (page, error) {
	b, err := s.questionsOf(r)
	return page{Title: word("Answer"), name: "answers", Body: b}, err
}

// decide answers the plans that a form names, in the person's name.
func (s *server) decide(w http.ResponseWriter, r *http.Request) {
	b, err := s.questionsOf(r)
	comment := strings.TrimSpace(r.PostFormValue("comment"))
	switch {
	case err != nil:
		s.answer(w, r, func(*http.Request) (page, error) { return page{}, err })
		return
	case len(comment) > 1024:
		b.Wrong, b.Comment = say.F("The comment has %d bytes, and 1024 are the most.", len(comment)), comment
		s.answer(w, r, func(*http.Request) (page, error) { return page{Title: word("Answer"), name: "answers", Body: b}, nil })
		return
	}
	me := personOf(r)
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	free := make(chan struct{}, atOnce)
	var wait sync.WaitGroup
	for _, q := range b.Rows {
		if !q.Open() || me.kube == nil {
			continue
		}
		wait.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			_, err := approval.Answer(ctx, me.kube, *q.Record, approval.Reply{Verdict: b.Verdict, Comment: comment})
			me.miss(q.Plan, err, s.p.Now())
		})
	}
	wait.Wait()
	http.Redirect(w, r, string(b.Here), http.StatusSeeOther)
}

// record reads the newest record of a Service and class; nil if there is none.
func (b *book) record(ctx context.Context, k caseKey) (*event.Record, error) {
	if cmp.Or(event.ValidCluster(k.cluster), event.ValidUID(k.uid), event.ValidClass(k.class)) != nil {
		return nil, nil // no record has such a name
	}
	s, err := b.reached()
	if err != nil {
		return nil, err
	}
	m, err := s.Last(ctx, stream.Cases, event.CaseSubject(k.cluster, k.uid, k.class))
	if errors.Is(err, stream.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r, err := event.DecodeRecord(m.Subject, m.Header, m.Data)
	return &r, err
}
