// Package forge simulates the HTTP APIs of GitHub, GitLab and Codeup, as far as merge requests need them, over one repository in memory.
// Methods, paths, headers, fields and statuses are those of their documentation: GitHub's REST API of 2022-11-28, GitLab's REST API v4, and
// the developer reference of Alibaba Cloud DevOps. Anything else is an error of the test.
package forge

import (
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Token is the only token that a Server accepts.
const Token = "t0ken-0f-f0rge"

// A Server is a forge with one repository, whose target branch is main.
type Server struct {
	testing.TB
	*httptest.Server
	Kind string

	mu       sync.Mutex
	branches map[string]map[string]string // files by branch
	requests []*Request
	calls    []string
	fault    func(n int, call string) Fault
	called   func()
}

// A Request is a merge request.
type Request struct {
	Number                                   int
	Branch, Target, Title, Text, State, Fork string // open, closed or merged
}

// A Fault is how a call fails; the zero Fault: not.
type Fault struct {
	Status int
	Header http.Header
	Body   string
	Cut    bool // the connection ends, after the call has had its effect
}

// New starts a forge whose main branch has these files.
func New(t testing.TB, kind string, files map[string]string) *Server {
	s := &Server{TB: t, Kind: kind, branches: map[string]map[string]string{"main": files}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	s.Config.ErrorLog = nil
	t.Cleanup(s.Close)
	return s
}

// Repository returns the repository's name, as the API has it.
func (s *Server) Repository() string {
	return map[string]string{"github": "acme/deploy", "gitlab": "acme/shop/deploy", "codeup": "60d54f3daccf2bbd6659f3ad/2813489"}[s.Kind]
}

// Faults sets which calls fail from now on; n counts them from 1.
func (s *Server) Faults(f func(n int, call string) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault, s.calls = f, nil
}

// Called sets what is called after each call.
func (s *Server) Called(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.called = f
}

// Calls returns the calls since the last Calls or Faults, as METHOD PATH.
func (s *Server) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.calls
	s.calls = nil
	return all
}

// Branches returns the names of the branches besides main.
func (s *Server) Branches() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.branches)), func(b string) bool { return b == "main" })
}

// File returns a file of a branch.
func (s *Server) File(branch, path string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.branches[branch][path]
}

// Put changes a file of a branch, as a person does.
func (s *Server) Put(branch, path, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.branches[branch][path] = text
}

// Requests returns the requests.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Request
	for _, r := range s.requests {
		all = append(all, *r)
	}
	return all
}

// End gives a request another state, as a person does.
func (s *Server) End(number int, state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.requests[number-1]
	if r.State = state; state == "merged" {
		maps.Copy(s.branches["main"], s.branches[r.Branch])
	}
}

// Fork adds an open request of a stranger's fork with this branch.
func (s *Server) Fork(branch string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, &Request{Number: len(s.requests) + 1, Branch: branch, Target: "main", Title: branch, State: "open", Fork: "mallory"})
}

type answer struct {
	status int
	body   any
}

// refused is the answer to a call that the forge does not accept.
func refused(status int, message string) answer {
	return answer{status, map[string]any{"message": message}}
}

// routes are the calls by kind. Groups of a pattern, parameters of the query and fields of the body are named alike.
var routes = map[string][]struct {
	method, path, query, body string
	do                        func(*Server, map[string]string) answer
}{
	"github": {
		{"GET", "/repos/acme/deploy/git/matching-refs/heads/(?<prefix>[^/]+)", "", "", (*Server).listBranches},
		{"GET", "/repos/acme/deploy/git/ref/heads/(?<branch>[^/]+)", "", "", (*Server).getBranch},
		{"GET", "/repos/acme/deploy/pulls", "head per_page state", "", (*Server).listRequests},
		{"GET", "/repos/acme/deploy/contents/(?<path>[^/]+)", "ref", "", (*Server).readFile},
		{"POST", "/repos/acme/deploy/git/refs", "", "ref sha", (*Server).createBranch},
		{"PUT", "/repos/acme/deploy/contents/(?<path>[^/]+)", "", "branch content message sha", (*Server).writeFile},
		{"POST", "/repos/acme/deploy/pulls", "", "base body head title", (*Server).openRequest},
		{"PATCH", "/repos/acme/deploy/pulls/(?<number>[0-9]+)", "", "state", (*Server).closeRequest},
		{"DELETE", "/repos/acme/deploy/git/refs/heads/(?<branch>[^/]+)", "", "", (*Server).deleteBranch},
	},
	"gitlab": {
		{"GET", "/api/v4/projects/acme%2Fshop%2Fdeploy/repository/branches", "per_page search", "", (*Server).listBranches},
		{"GET", "/api/v4/projects/acme%2Fshop%2Fdeploy/merge_requests", "per_page source_branch state", "", (*Server).listRequests},
		{"GET", "/api/v4/projects/acme%2Fshop%2Fdeploy/repository/files/(?<path>[^/]+)", "ref", "", (*Server).readFile},
		{"POST", "/api/v4/projects/acme%2Fshop%2Fdeploy/repository/branches", "branch ref", "", (*Server).createBranch},
		{"PUT", "/api/v4/projects/acme%2Fshop%2Fdeploy/repository/files/(?<path>[^/]+)", "", "branch commit_message content encoding last_commit_id",
			(*Server).writeFile},
		{"POST", "/api/v4/projects/acme%2Fshop%2Fdeploy/merge_requests", "", "description remove_source_branch source_branch target_branch title",
			(*Server).openRequest},
		{"PUT", "/api/v4/projects/acme%2Fshop%2Fdeploy/merge_requests/(?<number>[0-9]+)", "", "state_event", (*Server).closeRequest},
		{"DELETE", "/api/v4/projects/acme%2Fshop%2Fdeploy/repository/branches/(?<branch>[^/]+)", "", "", (*Server).deleteBranch},
	},
	"codeup": {
		{"GET", codeup + "/branches", "perPage search", "", (*Server).listBranches},
		{"GET", "/oapi/v1/codeup/organizations/60d54f3daccf2bbd6659f3ad/changeRequests", "perPage projectIds search", "", (*Server).listRequests},
		{"GET", codeup + "/files/(?<path>[^/]+)", "ref", "", (*Server).readFile},
		{"POST", codeup + "/branches", "branch ref", "", (*Server).createBranch},
		{"PUT", codeup + "/files/(?<path>[^/]+)", "", "branch commitMessage content encoding", (*Server).writeFile},
		{"POST", codeup + "/changeRequests", "", "description sourceBranch sourceProjectId targetBranch targetProjectId title", (*Server).openRequest},
		{"POST", codeup + "/changeRequests/(?<number>[0-9]+)/close", "", "", (*Server).closeRequest},
		{"DELETE", codeup + "/branches/(?<branch>[^/]+)", "", "", (*Server).deleteBranch},
	},
}

const codeup = "/oapi/v1/codeup/organizations/60d54f3daccf2bbd6659f3ad/repositories/2813489"

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.Errorf("read a body: %v", err)
	}
	s.mu.Lock()
	if s.called != nil {
		defer s.called()
	}
	defer s.mu.Unlock()
	path := r.URL.EscapedPath()
	s.calls = append(s.calls, r.Method+" "+path)
	var fault Fault
	if s.fault != nil {
		fault = s.fault(len(s.calls), r.Method+" "+path)
	}
	if fault.Status != 0 {
		maps.Copy(w.Header(), fault.Header)
		w.WriteHeader(fault.Status)
		_, _ = io.WriteString(w, fault.Body)
		return
	}
	a := s.answer(r, path, body)
	if fault.Cut {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	if a.body != nil {
		if err := json.NewEncoder(w).Encode(a.body); err != nil {
			s.Errorf("answer: %v", err)
		}
	}
}

func (s *Server) answer(r *http.Request, path string, body []byte) answer {
	h := r.Header
	token := map[string]string{
		"github": strings.TrimPrefix(h.Get("Authorization"), "Bearer "), "gitlab": h.Get("PRIVATE-TOKEN"), "codeup": h.Get("x-yunxiao-token"),
	}[s.Kind]
	if token != Token {
		return refused(401, "Bad credentials: "+token)
	}
	if s.Kind == "github" && (h.Get("Accept") != "application/vnd.github+json" || h.Get("X-GitHub-Api-Version") != "2022-11-28" || h.Get("User-Agent") == "") {
		s.Errorf("%s %s: the headers are %v", r.Method, path, h)
	}
	for _, route := range routes[s.Kind] {
		m := regexp.MustCompile("^" + route.path + "$").FindStringSubmatch(path)
		if m == nil || route.method != r.Method {
			continue
		}
		values := map[string]string{}
		for i, name := range regexp.MustCompile("^" + route.path + "$").SubexpNames() {
			if name != "" {
				values[name], _ = url.PathUnescape(m[i])
			}
		}
		fields := map[string]any{}
		if len(body) > 0 {
			if err := json.Unmarshal(body, &fields); err != nil || h.Get("Content-Type") != "application/json" {
				s.Errorf("%s %s: the body is %s of type %q", r.Method, path, body, h.Get("Content-Type"))
			}
		}
		if query := strings.Join(slices.Sorted(maps.Keys(r.URL.Query())), " "); query != route.query ||
			strings.Join(slices.Sorted(maps.Keys(fields)), " ") != route.body {
			s.Errorf("%s %s: query %q, body %s", r.Method, path, r.URL.RawQuery, body)
		}
		for name, list := range r.URL.Query() {
			values[name] = list[0]
		}
		for name, value := range fields {
			switch value := value.(type) {
			case string:
				values[name] = value
			case bool:
				values[name] = strconv.FormatBool(value)
			case float64:
				values[name] = strconv.Itoa(int(value)) + " as a number"
			}
		}
		return route.do(s, values)
	}
	s.Errorf("%s has no call %s %s", s.Kind, r.Method, r.URL)
	return refused(404, "Not Found")
}

func first(v map[string]string, names ...string) string {
	for _, name := range names {
		if v[name] != "" {
			return v[name]
		}
	}
	return ""
}

func sha(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// commit returns an ID of a branch's state.
func (s *Server) commit(branch string) string { return sha(fmt.Sprint(s.branches[branch])) }

func (s *Server) listBranches(v map[string]string) answer {
	list := []any{}
	prefix := v["prefix"]
	if s.Kind == "gitlab" && !strings.HasPrefix(v["search"], "^") || v["per_page"] != "" && v["per_page"] != "100" {
		s.Errorf("search %v", v)
	}
	for _, b := range slices.Sorted(maps.Keys(s.branches)) {
		switch {
		case s.Kind == "github" && strings.HasPrefix(b, prefix):
			list = append(list, map[string]any{"ref": "refs/heads/" + b, "node_id": "x", "object": map[string]any{"type": "commit", "sha": s.commit(b)}})
		case s.Kind == "gitlab" && strings.HasPrefix(b, strings.TrimPrefix(v["search"], "^")), s.Kind == "codeup" && strings.Contains(b, v["search"]):
			list = append(list, map[string]any{"name": b, "commit": map[string]any{"id": s.commit(b)}, "protected": false})
		}
	}
	if s.Kind == "codeup" { // its search finds more
		list = append(list, map[string]any{"name": "main"})
	}
	return answer{200, list}
}

func (s *Server) getBranch(v map[string]string) answer {
	if s.branches[v["branch"]] == nil {
		return refused(404, "Not Found")
	}
	return answer{200, map[string]any{"ref": "refs/heads/" + v["branch"], "object": map[string]any{"type": "commit", "sha": s.commit(v["branch"])}}}
}

// states are the states of requests by kind.
var states = map[string]map[string]string{
	"github": {"open": "open", "closed": "closed", "merged": "closed"},
	"gitlab": {"open": "opened", "closed": "closed", "merged": "merged"},
	"codeup": {"open": "UNDER_REVIEW", "closed": "CLOSED", "merged": "MERGED"},
}

func (s *Server) listRequests(v map[string]string) answer {
	list := []any{}
	if s.Kind == "codeup" && v["projectIds"] != "2813489" || s.Kind != "codeup" && v["state"] != "all" {
		s.Errorf("list requests by %v", v)
	}
	for _, r := range slices.Backward(s.requests) {
		owner := "acme"
		if r.Fork != "" {
			owner = r.Fork
		}
		if s.Kind == "github" && v["head"] == owner+":"+r.Branch || s.Kind == "gitlab" && v["source_branch"] == r.Branch ||
			s.Kind == "codeup" && strings.Contains(r.Title, v["search"]) {
			list = append(list, s.request(r))
		}
	}
	return answer{200, list}
}

func (s *Server) request(r *Request) map[string]any {
	from := 2813489
	if r.Fork != "" {
		from = 666
	}
	state := states[s.Kind][r.State]
	switch s.Kind {
	case "github":
		return map[string]any{"id": 900 + r.Number, "number": r.Number, "state": state, "title": r.Title, "body": r.Text,
			"user": map[string]any{"login": "bot"}, "head": map[string]any{"ref": r.Branch, "sha": s.commit(r.Branch)}, "base": map[string]any{"ref": r.Target}}
	case "gitlab":
		return map[string]any{"id": 900 + r.Number, "iid": r.Number, "state": state, "title": r.Title, "description": r.Text, "source_branch": r.Branch,
			"target_branch": r.Target, "source_project_id": from, "target_project_id": 2813489}
	}
	return map[string]any{"localId": r.Number, "state": state, "title": r.Title, "description": r.Text, "sourceBranch": r.Branch, "projectId": 2813489,
		"targetBranch": r.Target, "sourceProjectId": from, "targetProjectId": 2813489, "author": map[string]any{"name": "bot", "state": "active"}}
}

func (s *Server) readFile(v map[string]string) answer {
	text, ok := s.branches[v["ref"]][v["path"]]
	if !ok {
		return refused(404, "Not Found")
	}
	data := base64.StdEncoding.EncodeToString([]byte(text))
	switch s.Kind {
	case "github":
		lines := ""
		for chunk := range slices.Chunk([]byte(data), 60) {
			lines += string(chunk) + "\n"
		}
		return answer{200, map[string]any{"type": "file", "encoding": "base64", "content": lines, "sha": sha(text), "name": v["path"], "path": v["path"]}}
	case "gitlab":
		return answer{200, map[string]any{"file_name": v["path"], "encoding": "base64", "content": data, "ref": v["ref"], "last_commit_id": sha(text)}}
	}
	return answer{200, map[string]any{"fileName": v["path"], "encoding": "text", "content": text, "ref": v["ref"], "lastCommitId": ""}}
}

func (s *Server) createBranch(v map[string]string) answer {
	name, from := v["branch"], v["ref"]
	if s.Kind == "github" {
		name, from = strings.TrimPrefix(v["ref"], "refs/heads/"), "main"
		if v["sha"] != s.commit("main") {
			return refused(422, "Object does not exist")
		}
	}
	switch {
	case s.branches[name] != nil:
		return refused(map[string]int{"github": 422, "gitlab": 400, "codeup": 409}[s.Kind], "Branch already exists")
	case s.branches[from] == nil:
		return refused(404, "Not Found")
	}
	s.branches[name] = maps.Clone(s.branches[from])
	return answer{201, map[string]any{"name": name}}
}

func (s *Server) writeFile(v map[string]string) answer {
	was, ok := s.branches[v["branch"]][v["path"]]
	if !ok {
		return refused(404, "Not Found")
	}
	if version := first(v, "sha", "last_commit_id"); s.Kind != "codeup" && version != sha(was) {
		return refused(409, "it does not match")
	}
	text, err := base64.StdEncoding.DecodeString(v["content"])
	if err != nil || first(v, "message", "commit_message", "commitMessage") == "" || s.Kind != "github" && v["encoding"] != "base64" {
		return refused(422, "Invalid request")
	}
	s.branches[v["branch"]][v["path"]] = string(text)
	return answer{200, map[string]any{"commit": map[string]any{"sha": s.commit(v["branch"])}}}
}

func (s *Server) openRequest(v map[string]string) answer {
	r := &Request{
		Number: len(s.requests) + 1, Title: v["title"], Text: first(v, "body", "description"), State: "open",
		Branch: first(v, "head", "source_branch", "sourceBranch"), Target: first(v, "base", "target_branch", "targetBranch"),
	}
	exists := slices.ContainsFunc(s.requests, func(o *Request) bool { return o.State == "open" && o.Fork == "" && o.Branch == r.Branch })
	switch {
	case s.Kind == "codeup" && (v["sourceProjectId"] != "2813489 as a number" || v["targetProjectId"] != "2813489 as a number"):
		return refused(400, "sourceProjectId")
	case exists:
		return refused(map[string]int{"github": 422, "gitlab": 409, "codeup": 409}[s.Kind], "A pull request already exists for "+r.Branch)
	case s.branches[r.Branch] == nil || s.branches[r.Target] == nil || r.Title == "" || len(r.Title) > 255:
		return refused(422, "Validation Failed")
	case maps.Equal(s.branches[r.Branch], s.branches[r.Target]):
		return refused(422, "No commits between")
	}
	s.requests = append(s.requests, r)
	return answer{201, s.request(r)}
}

func (s *Server) closeRequest(v map[string]string) answer {
	number, _ := strconv.Atoi(v["number"])
	if number < 1 || number > len(s.requests) {
		return refused(404, "Not Found")
	}
	if s.Kind == "github" && v["state"] != "closed" || s.Kind == "gitlab" && v["state_event"] != "close" {
		return refused(422, "state")
	}
	r := s.requests[number-1]
	if r.State != "open" || r.Fork != "" {
		s.Errorf("request %d is %s, and lbremedy closes it", number, r.State)
	}
	r.State = "closed"
	if s.Kind == "codeup" {
		return answer{200, map[string]any{"result": true}}
	}
	return answer{200, s.request(r)}
}

func (s *Server) deleteBranch(v map[string]string) answer {
	if v["branch"] == "main" {
		s.Error("lbremedy deletes main")
	}
	if s.branches[v["branch"]] == nil {
		return refused(map[string]int{"github": 422, "gitlab": 404, "codeup": 404}[s.Kind], "Reference does not exist")
	}
	delete(s.branches, v["branch"])
	if s.Kind == "codeup" {
		return answer{200, map[string]any{"branchName": v["branch"]}}
	}
	return answer{204, nil}
}
