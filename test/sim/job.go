package sim

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A job is work that goes on after its request was answered.
type job struct {
	id     string
	ends   time.Time
	done   bool
	failed bool
	finish func(*State)
}

// job starts a job and returns its ID. At its end it does finish or, if it
// fails, undo; at once if jobs take no time.
func (q *request) job(finish, undo func(*State)) string {
	s := q.state
	j := &job{id: strings.ToLower(requestID()), ends: q.now.Add(time.Duration(s.Lag.Jobs)), failed: q.doomed, finish: finish}
	if q.doomed {
		j.finish = undo
	}
	s.jobs[j.id] = j
	s.pending = append(s.pending, j)
	s.advance(q.now)
	return j.id
}

// later does something when some time has passed, as a job that nobody can ask
// about.
func (q *request) later(d time.Duration, finish func(*State)) {
	q.state.pending = append(q.state.pending, &job{ends: q.now.Add(d), finish: finish})
}

// advance ends the jobs whose time has come, in the order of their start, and
// agrees to applications for quotas that have waited long enough.
func (s *State) advance(now time.Time) {
	if len(s.pending) > 0 {
		s.pending = slices.DeleteFunc(s.pending, func(j *job) bool {
			if now.Before(j.ends) {
				return false
			}
			j.finish(s)
			j.done = true
			return true
		})
	}
	s.audit(now)
}

func (j *job) status() string {
	switch {
	case !j.done:
		return "Processing"
	case j.failed:
		return "Failed"
	}
	return "Succeeded"
}

func getJobStatus(q *request) (any, *failure) {
	j := q.state.jobs[q.params["JobId"]]
	if j == nil {
		return nil, notFound("job")
	}
	return reply{"Status": j.status()}, nil
}

func listAsynJobs(q *request) (any, *failure) {
	ids := q.params.list("JobIds")
	list := []reply{}
	for _, id := range slices.Sorted(maps.Keys(q.state.jobs)) {
		if slices.Contains(ids, id) {
			list = append(list, reply{"Id": id, "Status": q.state.jobs[id].status()})
		}
	}
	return reply{"Jobs": list, "TotalCount": strconv.Itoa(len(list))}, nil
}

// settled is a request with a client token that was done.
type settled struct {
	print  string // what the request said; empty: not compared
	answer reply
	made   string // ID; empty: nothing
}

// settled returns what was done for a client token, unless that is forgotten.
func (q *request) settled(token string) (settled, bool) {
	key := q.product.name + " " + q.action.name + " " + token
	done, ok := q.state.tokens[key]
	if token == "" || !ok {
		return settled{}, false
	}
	if q.state.ForgetTokens && done.made != "" && !q.state.has(done.made) {
		delete(q.state.tokens, key)
		return settled{}, false
	}
	return done, true
}

// settle remembers what was done for a client token.
func (q *request) settle(token string, done settled) {
	if token != "" {
		q.state.tokens[q.product.name+" "+q.action.name+" "+token] = done
	}
}

// has reports whether something that a request made is still there.
func (s *State) has(id string) bool {
	_, l := s.nlbListener(id)
	return s.LoadBalancers[id] != nil || s.NLBs[id] != nil || s.ServerGroups[id] != nil || s.SecurityGroups[id] != nil || l != nil
}

// once makes a write heed its client token, and try only when it is asked to
// run dry.
func once(do func(*request) (any, *failure)) func(*request) (any, *failure) {
	return func(q *request) (any, *failure) {
		if q.params["DryRun"] == "true" {
			return nil, q.rehearse(do)
		}
		token, print := q.params["ClientToken"], q.print()
		if done, ok := q.settled(token); ok {
			if done.print != print {
				return nil, fail(http.StatusBadRequest, "IdempotenceSignatureMismatch",
					"The idempotence token of request is same with the prev one, but the signature is different.")
			}
			return maps.Clone(done.answer), nil
		}
		out, bad := do(q)
		if m, ok := out.(reply); ok && bad == nil {
			made := ""
			for _, k := range []string{"LoadbalancerId", "ServerGroupId", "ListenerId", "SecurityGroupId"} {
				if id, ok := m[k].(string); ok && strings.HasPrefix(q.action.name, "Create") {
					made = id
				}
			}
			q.settle(token, settled{print: print, answer: maps.Clone(m), made: made})
		}
		return out, bad
	}
}

// print returns what a request says, as one string.
func (q *request) print() string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(q.params)) {
		b.WriteString(k + "=" + strconv.Quote(q.params[k]) + "\n")
	}
	return b.String()
}

// rehearse does a write on a copy of the state and says how that went.
func (q *request) rehearse(do func(*request) (any, *failure)) *failure {
	s, err := newState(q.state.world(), q.state.now)
	if err != nil {
		return fail(http.StatusInternalServerError, "InternalError", "The request processing has failed due to some unknown error, exception or failure.")
	}
	dry := *q
	dry.state = s
	if _, bad := do(&dry); bad != nil {
		return bad
	}
	return fail(http.StatusBadRequest, "DryRunOperation", "Request validation has been passed with DryRun flag set.")
}
