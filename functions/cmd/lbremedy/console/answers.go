package console

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lbremedy/lbremedy/shared/approval"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
)

// A plan is what one answer is to: the plan of a case, as a page has shown it.
type plan struct {
	cluster, uid, class, id string
	attempt                 int
	digest                  string
}

func planOf(r *event.Record) plan {
	return plan{r.Cluster, r.Service.UID, r.Class, r.Case, r.NextAttempt(), r.Digest}
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

// A response is an answer of somebody.
type response struct{ kube.Approval }

// Sign is the word for what became of it.
func (g response) Sign() string {
	switch g.Status.State {
	case kube.Recorded:
		return "counts"
	case kube.Refused:
		return "does not count"
	}
	return "waits"
}

// A question is a plan with what there is to say of it.
type question struct {
	Plan    plan
	Record  *event.Record // the newest of the case's class; nil: there is none
	Closed  string        // why nobody can answer it; empty: somebody can
	Missed  string        // why the person's last answer did not come about
	Answers []response
	Mine    bool   // the person has answered it
	Apply   string // the command that applies an approved plan, where nothing else does
}

// Same reports whether the case still has the plan.
func (q question) Same() bool { return q.Record.Case == q.Plan.id && q.Record.Digest == q.Plan.digest }

// Open reports whether the person may still answer it.
func (q question) Open() bool { return q.Closed == "" && !q.Mine }

// An answersBody is what the page shows on which a person answers.
type answersBody struct {
	Verdict  kube.Verdict
	Rows     []question
	Open     int
	Here     template.URL // the address of this page
	Comment  string
	Wrong    string
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
		row := question{Plan: p, Record: s.book.newest(p), Missed: me.missed(p)}
		row.Closed = closed(p, row.Record)
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
					row.Answers = append(row.Answers, response{a})
					row.Mine = row.Mine || a.Spec.User == me.name(r.Context())
				}
			}
		}
		if row.Open() {
			b.Open++
		}
		if check, finding := strings.CutPrefix(p.class, event.DoctorPrefix); finding && row.Mine && row.Closed == "" && b.Verdict == kube.Approve {
			row.Apply = fmt.Sprintf("lbremedy doctor --fix %s %s --apply", check, row.Record.Service)
		}
		b.Rows = append(b.Rows, row)
	}
	b.MayNot, b.Here = me.why, template.URL("/answers?"+q.Encode()) // which has no character that HTML or JavaScript knows
	return b, nil
}

// closed returns why nobody can answer a plan: what stands in the journal is not what a page
// has shown, or asks for no answer.
func closed(p plan, now *event.Record) string {
	switch {
	case now == nil:
		return "The journal has no such case."
	case now.Case != p.id:
		return "This case is over: there is a newer one, " + now.Case + "."
	case now.Service.Kind != "":
		return "This is not about a Service: it is answered in a terminal."
	}
	if err := engine.Asks(*now); err != nil {
		return said(err)
	}
	if now.Digest != p.digest || now.NextAttempt() != p.attempt {
		return "The plan is another one by now: look at it again."
	}
	return ""
}

// answers shows plans, who has answered them, and where the person answers.
func (s *server) answers(r *http.Request) (page, error) {
	b, err := s.questionsOf(r)
	return page{Title: "Answer", name: "answers", Body: b}, err
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
		b.Wrong, b.Comment = fmt.Sprintf("The comment has %d bytes, and 1024 are the most.", len(comment)), comment
		s.answer(w, r, func(*http.Request) (page, error) { return page{Title: "Answer", name: "answers", Body: b}, nil })
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
			why := ""
			if err := give(ctx, me.kube, *q.Record, b.Verdict, comment); err != nil {
				why = said(err)
			}
			me.miss(q.Plan, why, s.p.Now())
		})
	}
	wait.Wait()
	http.Redirect(w, r, string(b.Here), http.StatusSeeOther)
}

// looked is how long a page waits for what becomes of an answer.
const looked = 3 * time.Second

// give answers a plan, and waits a little until somebody has looked at the answer.
func give(ctx context.Context, c *kube.Cluster, rec event.Record, verdict kube.Verdict, comment string) error {
	lasts := engine.ApprovalLife
	if verdict == kube.Reject {
		lasts = engine.RejectionLife
	}
	made, err := approval.Create(ctx, c, rec, verdict, comment, lasts)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, looked)
	defer cancel()
	_, _ = c.AwaitApproval(ctx, *made) // the page shows how it stands
	return nil
}

// newest returns the newest record of the class of a plan's case; nil if there is none.
func (b *book) newest(p plan) *event.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shelf == nil {
		return nil
	}
	return b.latest[event.CaseSubject(p.cluster, p.uid, p.class)].record
}
