package core

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Job is asynchronous work of a request.
type Job struct {
	ID     string
	ends   time.Time
	done   bool
	failed bool
	finish func(*State)
}

// Job starts a job and returns its ID. The job ends with finish or, if it fails, undo; at once if jobs take no time.
func (q *Request) Job(finish, undo func(*State)) string {
	s := q.State
	j := &Job{ID: strings.ToLower(RequestID()), ends: q.Now.Add(time.Duration(s.Lag.Jobs)), failed: q.Doomed, finish: finish}
	if q.Doomed {
		j.finish = undo
	}
	s.jobs[j.ID] = j
	s.pending = append(s.pending, j)
	s.Advance(q.Now)
	return j.ID
}

// Later calls finish after some time, as a job without an ID.
func (q *Request) Later(d time.Duration, finish func(*State)) {
	q.State.pending = append(q.State.pending, &Job{ends: q.Now.Add(d), finish: finish})
}

// Advance ends due jobs in the order of their start.
func (s *State) Advance(now time.Time) {
	if len(s.pending) > 0 {
		s.pending = slices.DeleteFunc(s.pending, func(j *Job) bool {
			if now.Before(j.ends) {
				return false
			}
			j.finish(s)
			j.done = true
			return true
		})
	}
}

// Status returns the job's status in answers.
func (j *Job) Status() string {
	switch {
	case !j.done:
		return "Processing"
	case j.failed:
		return "Failed"
	}
	return "Succeeded"
}

// Jobs returns all jobs by ID.
func (s *State) Jobs() map[string]*Job { return s.jobs }

// On makes a change of a product's state the end of a job. The change gets the state at that time, which may have been replaced.
func On[T any](do func(T)) func(*State) {
	return func(s *State) { do(Part[T](s)) }
}

// A Settled is an executed request with a client token.
type Settled struct {
	print  string // the request's parameters; empty: not compared
	Answer Reply
	Made   string // ID of the resource; empty: none
}

// Settled returns the result for a client token, unless it was forgotten.
func (q *Request) Settled(token string) (Settled, bool) {
	key := q.Product.Name + " " + q.Action.Name + " " + token
	done, ok := q.State.tokens[key]
	if token == "" || !ok {
		return Settled{}, false
	}
	if q.State.ForgetTokens && done.Made != "" && !q.State.Made(done.Made) {
		delete(q.State.tokens, key)
		return Settled{}, false
	}
	return done, true
}

// Settle stores the result for a client token.
func (q *Request) Settle(token string, done Settled) {
	if token != "" {
		q.State.tokens[q.Product.Name+" "+q.Action.Name+" "+token] = done
	}
}

// Once makes a write respect its client token and the dry run parameter.
func Once(do func(*Request) (any, *Failure)) func(*Request) (any, *Failure) {
	return func(q *Request) (any, *Failure) {
		if q.Params["DryRun"] == "true" {
			return nil, q.rehearse(do)
		}
		token, print := q.Params["ClientToken"], q.print()
		if done, ok := q.Settled(token); ok {
			if done.print != print {
				return nil, Fail(http.StatusBadRequest, "IdempotenceSignatureMismatch",
					"The idempotence token of request is same with the prev one, but the signature is different.")
			}
			return maps.Clone(done.Answer), nil
		}
		out, bad := do(q)
		if m, ok := out.(Reply); ok && bad == nil {
			made := ""
			for _, k := range []string{"LoadbalancerId", "ServerGroupId", "ListenerId", "SecurityGroupId"} {
				if id, ok := m[k].(string); ok && strings.HasPrefix(q.Action.Name, "Create") {
					made = id
				}
			}
			q.Settle(token, Settled{print: print, Answer: maps.Clone(m), Made: made})
		}
		return out, bad
	}
}

func (q *Request) print() string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(q.Params)) {
		b.WriteString(k + "=" + strconv.Quote(q.Params[k]) + "\n")
	}
	return b.String()
}

func (q *Request) rehearse(do func(*Request) (any, *Failure)) *Failure {
	s, err := q.State.Copy()
	if err != nil {
		return Fail(http.StatusInternalServerError, "InternalError", "The request processing has failed due to some unknown error, exception or failure.")
	}
	dry := *q
	dry.State = s
	if _, bad := do(&dry); bad != nil {
		return bad
	}
	return Fail(http.StatusBadRequest, "DryRunOperation", "Request validation has been passed with DryRun flag set.")
}
