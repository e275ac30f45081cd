package ram

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

type document struct {
	Statement []statement
}

type statement struct {
	Effect    string
	Action    words
	NotAction words
	Resource  words
	Condition map[string]any
}

type words []string

func (w *words) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*w = words{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(w))
}

func (s *State) document(text string) (*document, error) {
	if d := s.parsed[text]; d != nil {
		return d, nil
	}
	var d struct {
		Version string
		document
	}
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return nil, err
	}
	if d.Version != "1" || len(d.Statement) == 0 {
		return nil, errors.New("version is not 1, or there is no statement")
	}
	for i := range d.Statement {
		t := &d.Statement[i]
		if t.Effect != "Allow" && t.Effect != "Deny" || len(t.Action)+len(t.NotAction) == 0 || len(t.Resource) == 0 {
			return nil, fmt.Errorf("statement %d lacks Effect, Action or Resource", i+1)
		}
		for _, l := range []words{t.Action, t.NotAction} { // actions ignore case
			for n, a := range l {
				l[n] = strings.ToLower(a)
			}
		}
	}
	s.parsed[text] = &d.document
	return &d.document, nil
}

func (p *Policy) current() *PolicyVersion {
	for i := range p.Versions {
		if p.Versions[i].Default {
			return &p.Versions[i]
		}
	}
	return nil
}

// inForce returns the effective document of a policy: a change takes effect after State.RAM.Delay.
func (s *State) inForce(p *Policy, now time.Time) string {
	text := ""
	if v := p.current(); v != nil {
		text = v.Document
	}
	return s.documents[p.Name].At(now, text)
}

// changing records a policy's document before a change, because it remains effective for a while.
func (s *State) changing(p *Policy, now time.Time) {
	if v := p.current(); v != nil {
		core.Leave(s.documents, p.Name, now, s.RAM.Delay, v.Document)
	}
}

func (s *State) policy(name string) *Policy {
	if p := s.Policies[name]; p != nil {
		return p
	}
	actions := ""
	switch product, full := strings.CutSuffix(name, "FullAccess"); {
	case name == "AdministratorAccess":
		actions = "*"
	case full && strings.HasPrefix(product, "Aliyun"):
		actions = strings.ToLower(strings.TrimPrefix(product, "Aliyun")) + ":*"
	default:
		return nil
	}
	return &Policy{Name: name, Type: "System", Versions: []PolicyVersion{{
		ID: "v1", Default: true, Created: s.Started,
		Document: `{"Version":"1","Statement":[{"Effect":"Allow","Action":"` + actions + `","Resource":"*"}]}`,
	}}}
}

// Authorize returns an error unless RAM allows a request: it must be allowed and not denied.
func (s *State) Authorize(q *core.Request) *core.Failure { return (&request{q, s}).authorize() }

// Verdict returns why RAM denies the request's action on a resource (ExplicitDeny or ImplicitDeny), or "" if it allows it.
func (s *State) Verdict(q *core.Request, resource string) string {
	return (&request{q, s}).verdict(resource)
}

func (q *request) authorize() *core.Failure {
	if q.Action.Open {
		return nil
	}
	resource := "*"
	if q.Action.Resource != nil {
		resource = q.Action.Resource(q.Request)
	}
	deny := q.verdict(resource)
	if deny == "" || q.Action.Filtered && q.state.RAM.FilterLists {
		return nil
	}
	f := q.Product.Refusal
	who, kind := q.Caller.Name, "SubUser"
	if q.Caller.Role != "" {
		who, kind = q.Caller.Role+":"+q.Caller.Name, "AssumedRoleUser"
	}
	f.Denied = map[string]any{
		"AuthAction": q.Action.RAM[0], "AuthPrincipalType": kind, "AuthPrincipalOwnerId": q.state.AccountID,
		"AuthPrincipalDisplayName": who, "NoPermissionType": deny, "PolicyType": "AccountLevelIdentityBasedPolicy",
		"EncodedDiagnosticMessage": "AQEAAAAA" + core.Derive(who+q.Action.Name, 40),
	}
	return &f
}

func (q *request) verdict(resource string) string {
	region := q.State.Region
	if q.Product.Name == "ram" || q.Product.Name == "sts" {
		region = "*"
	}
	arn := "acs:" + q.Product.Name + ":" + region + ":" + q.state.AccountID + ":" + resource
	answer := "ImplicitDeny"
	for _, name := range q.Action.RAM { // one of them has to be allowed, and none denied
		lower := strings.ToLower(name)
		deny := q.unlimited(name, lower, arn)
		if deny == "" && q.Caller.Policy != "" {
			deny = q.limit(lower, arn)
		}
		switch deny {
		case "ExplicitDeny":
			return deny
		case "":
			answer = ""
		}
	}
	return answer
}

// unlimited returns why RAM denies an action under one of its names, ignoring a session policy.
func (q *request) unlimited(name, lower, arn string) string {
	if matches(q.Caller.Deny, name, lower) {
		return "ExplicitDeny"
	}
	deny := "ImplicitDeny"
	if matches(q.Caller.Allow, name, lower) {
		deny = ""
	}
	for _, text := range q.documents() {
		d, err := q.state.document(text)
		if err != nil {
			continue
		}
		for _, t := range d.Statement {
			switch {
			case !t.covers(lower, arn):
			case t.Effect == "Deny":
				return "ExplicitDeny"
			case len(t.Condition) == 0: // a condition that cannot be evaluated allows nothing
				deny = ""
			}
		}
	}
	return deny
}

// limit returns why a session policy, which applies in addition to the role's policies, denies an action.
func (q *request) limit(action, arn string) string {
	deny := "ImplicitDeny"
	d, err := q.state.document(q.Caller.Policy)
	if err != nil {
		return deny
	}
	for _, t := range d.Statement {
		switch {
		case !t.covers(action, arn):
		case t.Effect == "Deny":
			return "ExplicitDeny"
		case len(t.Condition) == 0:
			deny = ""
		}
	}
	return deny
}

func matches(list []string, name, lower string) bool {
	return slices.ContainsFunc(list, func(p string) bool { return p == name || core.Glob(strings.ToLower(p), lower) })
}

func (q *request) documents() []string {
	var list []string
	if r := q.state.Roles[q.Caller.Role]; r != nil {
		for _, name := range q.state.attachments[r.Name].At(q.Now, r.Policies) {
			if p := q.state.policy(name); p != nil {
				list = append(list, q.state.inForce(p, q.Now))
			}
		}
	}
	if q.Caller.User == "" {
		return list
	}
	for _, p := range q.state.Policies {
		if slices.Contains(p.Users, q.Caller.User) {
			list = append(list, q.state.inForce(p, q.Now))
		}
	}
	return list
}

func (t *statement) covers(action, arn string) bool {
	hit := slices.ContainsFunc(t.Action, func(p string) bool { return core.Glob(p, action) })
	if len(t.NotAction) > 0 {
		hit = !slices.ContainsFunc(t.NotAction, func(p string) bool { return core.Glob(p, action) })
	}
	return hit && slices.ContainsFunc(t.Resource, func(p string) bool { return core.Glob(p, arn) })
}
