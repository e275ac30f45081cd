// Package ram simulates access control ([State.Authorize]) and the products RAM and STS.
package ram

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

// Settings are the behaviour of an account's access control.
type Settings struct {
	Delay          core.Duration `json:"delay,omitempty"`          // until a change of policies takes effect
	NoServiceRoles bool          `json:"noServiceRoles,omitempty"` // the service-linked roles, which NLBs require, do not exist
	FilterLists    bool          `json:"filterLists,omitempty"`    // lists of load balancers omit what the caller may not see, instead of a 403
}

// A Role is a RAM role. Its policies are names of World.Policies or of the simulator's system policies: AdministratorAccess and
// Aliyun<Product>FullAccess.
type Role struct {
	Name     string      `json:"name,omitempty"`
	Policies []string    `json:"policies,omitempty"`
	OIDC     []OIDCTrust `json:"oidc,omitempty"` // may assume it with an issuer's token
}

// A Policy is a RAM policy with its versions.
type Policy struct {
	Name     string          `json:"name,omitempty"`
	Type     string          `json:"type,omitempty"` // Custom if empty, or System
	Versions []PolicyVersion `json:"versions,omitempty"`
	Roles    []string        `json:"roles,omitempty"` // attached to these, besides roles that name the policy
	Users    []string        `json:"users,omitempty"`
}

// A PolicyVersion is a version of a policy's document.
type PolicyVersion struct {
	ID       string    `json:"id,omitempty"` // v1, v2, … by position if empty
	Document string    `json:"document,omitempty"`
	Default  bool      `json:"default,omitempty"` // otherwise the last one
	Created  time.Time `json:"created,omitzero"`
}

// A State holds the access control of an account.
type State struct {
	*core.State
	RAM           Settings
	Roles         map[string]*Role
	Policies      map[string]*Policy       // by name
	OIDCProviders map[string]*OIDCProvider // by name
	Callers       map[string]*core.Caller  // by access key ID

	documents   map[string]core.Trail[string]   // of policies
	attachments map[string]core.Trail[[]string] // policies of roles
	parsed      map[string]*document
}

// A Start is the initial state.
type Start struct {
	Settings      Settings
	Roles         []Role
	Needed        []string // created if Roles lacks them; empty names are ignored
	Policies      []Policy
	OIDCProviders []OIDCProvider
	Callers       []core.Caller
}

// New returns the state, with defaults set.
func New(base *core.State, w Start) (*State, error) {
	s := &State{
		State: base, RAM: w.Settings, documents: map[string]core.Trail[string]{}, attachments: map[string]core.Trail[[]string]{},
		parsed: map[string]*document{},
	}
	base.Add(s)
	for _, name := range w.Needed {
		if name != "" && !slices.ContainsFunc(w.Roles, func(r Role) bool { return r.Name == name }) {
			w.Roles = append(w.Roles, Role{Name: name})
		}
	}
	var roles, policies, callers error
	s.Roles, roles = core.Index("role", w.Roles, func(r *Role) string { return r.Name }, func(int, *Role) {})
	s.Policies, policies = core.Index("policy", w.Policies, func(p *Policy) string { return p.Name }, func(_ int, p *Policy) { p.fill(s) })
	errs := []error{roles, policies}
	for _, p := range s.Policies {
		if p.current() == nil {
			errs = append(errs, fmt.Errorf("policy %s has no version", p.Name))
		}
		for _, v := range p.Versions {
			if _, err := s.document(v.Document); err != nil {
				errs = append(errs, fmt.Errorf("policy %s, version %s: %w", p.Name, v.ID, err))
			}
		}
		// Policies can name roles, and roles policies; State stores both with the role.
		for _, name := range p.Roles {
			r := s.Roles[name]
			if r == nil {
				r = &Role{Name: name}
				s.Roles[name] = r
			}
			if !slices.Contains(r.Policies, p.Name) {
				r.Policies = append(r.Policies, p.Name)
			}
		}
		p.Roles = nil
	}
	for _, r := range s.Roles {
		for _, name := range r.Policies {
			if s.policy(name) == nil {
				errs = append(errs, fmt.Errorf("role %s: there is no policy %s", r.Name, name))
			}
		}
	}
	s.Callers, callers = core.Index("caller", w.Callers, func(c *core.Caller) string { return c.AccessKeyID }, func(_ int, c *core.Caller) { c.Fill() })
	errs = append(errs, callers)
	for _, c := range s.Callers {
		if c.Role != "" && s.Roles[c.Role] == nil {
			errs = append(errs, fmt.Errorf("caller %s: there is no role %s", c.Name, c.Role))
		}
	}
	return s, errors.Join(append(errs, s.fillOIDC(w.OIDCProviders))...)
}

func (p *Policy) fill(s *State) {
	p.Type = cmp.Or(p.Type, "Custom")
	for i := range p.Versions {
		v := &p.Versions[i]
		v.ID = cmp.Or(v.ID, fmt.Sprintf("v%d", i+1))
		if v.Created.IsZero() {
			v.Created = s.Started.Add(time.Duration(i-len(p.Versions)) * time.Hour)
		}
	}
	if n := len(p.Versions); n > 0 && p.current() == nil {
		p.Versions[n-1].Default = true
	}
}

// Adopt copies from the previous state what a World does not contain.
func (s *State) Adopt(was *State) { s.documents, s.attachments = was.documents, was.attachments }

// Share makes a region use the access control of the account.
func (s *State) Share(home *State) {
	base := s.State
	*s = *home
	s.State = base
}

// Settle updates the state after an edit.
func (s *State) Settle() {
	for id, p := range s.Policies {
		p.Name, p.Type = id, cmp.Or(p.Type, "Custom")
	}
	for id, k := range s.Callers {
		k.AccessKeyID = id
		k.Fill()
	}
}

type request struct {
	*core.Request
	state *State
}

func on(do func(*request) (any, *core.Failure)) func(*core.Request) (any, *core.Failure) {
	return func(q *core.Request) (any, *core.Failure) { return do(&request{q, core.Part[*State](q.State)}) }
}

// longestDocument and mostVersions are RAM's limits for a policy: https://www.alibabacloud.com/help/en/ram/product-overview/limits
const (
	longestDocument = 6144
	mostVersions    = 5
)

// Product is RAM (https://www.alibabacloud.com/help/en/ram/developer-reference/api-ram-2015-05-01-overview).
func Product() *core.Product {
	one, version := []string{"PolicyName", "PolicyType"}, []string{"PolicyName", "VersionId"}
	p := &core.Product{
		Name: "ram", Version: "2015-05-01", Host: "ram.aliyuncs.com", Refusal: core.NotAuthorized,
		Actions: map[string]*core.Action{
			"GetRole":                 {Do: on(getRole), Need: []string{"RoleName"}},
			"ListPoliciesForRole":     {Do: on(listPoliciesForRole), Need: []string{"RoleName"}},
			"AttachPolicyToRole":      {Do: on(attachPolicy), Need: append(one, "RoleName")},
			"DetachPolicyFromRole":    {Do: on(detachPolicy), Need: append(one, "RoleName")},
			"GetPolicy":               {Do: on(getPolicy), Need: one},
			"GetPolicyVersion":        {Do: on(getPolicyVersion), Need: append(one, "VersionId")},
			"ListPolicyVersions":      {Do: on(listPolicyVersions), Need: one},
			"ListEntitiesForPolicy":   {Do: on(listEntities), Need: one},
			"CreatePolicyVersion":     {Do: on(createPolicyVersion), Need: []string{"PolicyName", "PolicyDocument"}},
			"DeletePolicyVersion":     {Do: on(deletePolicyVersion), Need: version},
			"SetDefaultPolicyVersion": {Do: on(setDefaultPolicyVersion), Need: version},
		},
	}
	for name, a := range p.Actions {
		a.Resource = func(q *core.Request) string {
			if strings.Contains(name, "Role") && !strings.Contains(name, "Policy") || name == "ListPoliciesForRole" {
				return "role/" + q.Params["RoleName"]
			}
			return "policy/" + q.Params["PolicyName"]
		}
	}
	return p
}

func (q *request) role() (*Role, *core.Failure) {
	if r := q.state.Roles[q.Params["RoleName"]]; r != nil {
		return r, nil
	}
	return nil, core.Fail(http.StatusNotFound, "EntityNotExist.Role", "The role not exists: %s", q.Params["RoleName"])
}

func (q *request) readable() (*Policy, *core.Failure) {
	p := q.state.policy(q.Params["PolicyName"])
	if p == nil || !core.Is(q.Params["PolicyType"], p.Type) {
		return nil, core.Fail(http.StatusNotFound, "EntityNotExist.Policy", "The policy not exists: %s", q.Params["PolicyName"])
	}
	return p, nil
}

// writable returns the request's policy if it is not a system policy, which cannot be changed.
func (q *request) writable() (*Policy, *core.Failure) {
	p, bad := q.readable()
	if bad == nil && p.Type != "Custom" {
		return nil, core.Fail(http.StatusNotFound, "EntityNotExist.Policy", "The policy not exists: %s", p.Name)
	}
	return p, bad
}

func (p *Policy) version(id string) (*PolicyVersion, *core.Failure) {
	for i := range p.Versions {
		if p.Versions[i].ID == id {
			return &p.Versions[i], nil
		}
	}
	return nil, core.Fail(http.StatusNotFound, "EntityNotExist.Policy.Version", "The policy version not exists: %s", id)
}

func (v *PolicyVersion) show(document bool) core.Reply {
	m := core.Reply{"VersionId": v.ID, "IsDefaultVersion": v.Default, "CreateDate": v.Created.UTC().Format("2006-01-02T15:04:05Z")}
	if document {
		m["PolicyDocument"] = v.Document
	}
	return m
}

func (s *State) attached(policy string) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(s.Roles)) {
		if slices.Contains(s.Roles[name].Policies, policy) {
			list = append(list, name)
		}
	}
	return list
}

func (p *Policy) show(s *State) core.Reply {
	m := core.Reply{
		"PolicyName": p.Name, "PolicyType": p.Type, "Description": "", "AttachmentCount": len(s.attached(p.Name)) + len(p.Users),
		"UpdateDate": s.Started.Format("2006-01-02T15:04:05Z"),
	}
	if v := p.current(); v != nil {
		m["DefaultVersion"] = v.ID
	}
	return m
}

func getRole(q *request) (any, *core.Failure) {
	r, bad := q.role()
	if bad != nil {
		return nil, bad
	}
	return core.Reply{"Role": core.Reply{
		"RoleName": r.Name, "RoleId": q.state.roleID(r.Name), "Arn": "acs:ram::" + q.state.AccountID + ":role/" + strings.ToLower(r.Name),
		"Description": "", "CreateDate": q.state.Started.Format("2006-01-02T15:04:05Z"), "MaxSessionDuration": 3600,
		"AssumeRolePolicyDocument": `{"Statement":[{"Action":"sts:AssumeRole","Effect":"Allow","Principal":{"Service":["ecs.aliyuncs.com"]}}],"Version":"1"}`,
	}}, nil
}

func (s *State) roleID(name string) string {
	n := uint64(0)
	for _, c := range name {
		n = n*131 + uint64(c)
	}
	return "3" + fmt.Sprintf("%017d", n%1e17)
}

func listPoliciesForRole(q *request) (any, *core.Failure) {
	r, bad := q.role()
	if bad != nil {
		return nil, bad
	}
	list := []core.Reply{}
	for _, name := range r.Policies {
		if p := q.state.policy(name); p != nil {
			list = append(list, p.show(q.state))
		}
	}
	return core.Reply{"Policies": core.Reply{"Policy": list}}, nil
}

func attachPolicy(q *request) (any, *core.Failure) {
	r, bad := q.role()
	if bad != nil {
		return nil, bad
	}
	p, bad := q.readable()
	if bad != nil {
		return nil, bad
	}
	if slices.Contains(r.Policies, p.Name) {
		return nil, core.Fail(http.StatusConflict, "EntityAlreadyExists.Role.Policy", "The role policy already exists.")
	}
	core.Leave(q.state.attachments, r.Name, q.Now, q.state.RAM.Delay, slices.Clone(r.Policies))
	r.Policies = append(r.Policies, p.Name)
	return core.Reply{}, nil
}

func detachPolicy(q *request) (any, *core.Failure) {
	r, bad := q.role()
	if bad != nil {
		return nil, bad
	}
	i := slices.Index(r.Policies, q.Params["PolicyName"])
	if i < 0 {
		return nil, core.Fail(http.StatusNotFound, "EntityNotExist.Role.Policy", "The role policy does not exist.")
	}
	core.Leave(q.state.attachments, r.Name, q.Now, q.state.RAM.Delay, slices.Clone(r.Policies))
	r.Policies = slices.Delete(r.Policies, i, i+1)
	return core.Reply{}, nil
}

func getPolicy(q *request) (any, *core.Failure) {
	p, bad := q.readable()
	if bad != nil {
		return nil, bad
	}
	out := core.Reply{"Policy": p.show(q.state)}
	if v := p.current(); v != nil {
		out["DefaultPolicyVersion"] = v.show(true)
	}
	return out, nil
}

func getPolicyVersion(q *request) (any, *core.Failure) {
	p, bad := q.readable()
	if bad != nil {
		return nil, bad
	}
	v, bad := p.version(q.Params["VersionId"])
	if bad != nil {
		return nil, bad
	}
	return core.Reply{"PolicyVersion": v.show(true)}, nil
}

func listPolicyVersions(q *request) (any, *core.Failure) {
	p, bad := q.readable()
	if bad != nil {
		return nil, bad
	}
	list := []core.Reply{}
	for i := range p.Versions {
		list = append(list, p.Versions[i].show(true))
	}
	return core.Reply{"PolicyVersions": core.Reply{"PolicyVersion": list}}, nil
}

func listEntities(q *request) (any, *core.Failure) {
	p, bad := q.readable()
	if bad != nil {
		return nil, bad
	}
	roles, users := []core.Reply{}, []core.Reply{}
	for _, name := range q.state.attached(p.Name) {
		roles = append(roles, core.Reply{"RoleName": name, "RoleId": q.state.roleID(name), "Arn": "acs:ram::" + q.state.AccountID + ":role/" + strings.ToLower(name)})
	}
	for _, name := range p.Users {
		users = append(users, core.Reply{"UserName": name, "UserId": q.state.roleID(name)})
	}
	return core.Reply{"Roles": core.Reply{"Role": roles}, "Users": core.Reply{"User": users}, "Groups": core.Reply{"Group": []core.Reply{}}}, nil
}

func createPolicyVersion(q *request) (any, *core.Failure) {
	p, bad := q.writable()
	if bad != nil {
		return nil, bad
	}
	text, rotate := q.Params["PolicyDocument"], q.Params["RotateStrategy"]
	if len(text) > longestDocument {
		return nil, core.Fail(http.StatusBadRequest, "InvalidParameter.PolicyDocument.Length",
			"The length of the policy document is invalid. It must be 1 to 6144 characters in length.")
	}
	if _, err := q.state.document(text); err != nil {
		return nil, core.Fail(http.StatusBadRequest, "MalformedPolicyDocument", "The policy document is malformed: %s.", err)
	}
	if !core.OneOf("None,DeleteOldestNonDefaultVersionWhenLimitExceeded", strings.TrimSpace(rotate)) && rotate != "" {
		return nil, core.Invalid("RotateStrategy")
	}
	if len(p.Versions) >= mostVersions {
		if rotate != "DeleteOldestNonDefaultVersionWhenLimitExceeded" {
			return nil, core.Fail(http.StatusConflict, "LimitExceeded.Policy.Version", "The count of policy version beyond the current limits.")
		}
		oldest := -1
		for i, v := range p.Versions {
			if !v.Default && (oldest < 0 || v.number() < p.Versions[oldest].number()) {
				oldest = i
			}
		}
		p.Versions = slices.Delete(p.Versions, oldest, oldest+1)
	}
	next := q.state.Serial["version "+p.Name] // numbers are never reused
	for _, v := range p.Versions {
		next = max(next, v.number())
	}
	q.state.Serial["version "+p.Name] = next + 1
	v := PolicyVersion{ID: fmt.Sprintf("v%d", next+1), Document: text, Created: q.Now.UTC().Truncate(time.Second)}
	p.Versions = append(p.Versions, v)
	if q.Params["SetAsDefault"] == "true" {
		q.state.makeDefault(p, v.ID, q.Now)
	}
	return core.Reply{"PolicyVersion": p.Versions[len(p.Versions)-1].show(true)}, nil
}

func (v *PolicyVersion) number() int {
	n, err := strconv.Atoi(strings.TrimPrefix(v.ID, "v"))
	if err != nil {
		return 0
	}
	return n
}

func (s *State) makeDefault(p *Policy, id string, now time.Time) {
	s.changing(p, now)
	for i := range p.Versions {
		p.Versions[i].Default = p.Versions[i].ID == id
	}
}

func deletePolicyVersion(q *request) (any, *core.Failure) {
	p, bad := q.writable()
	if bad != nil {
		return nil, bad
	}
	v, bad := p.version(q.Params["VersionId"])
	if bad != nil {
		return nil, bad
	}
	if v.Default {
		return nil, core.Fail(http.StatusConflict, "DeleteConflict.Policy.Version", "The default policy version cannot be deleted.")
	}
	id, last := v.ID, v.number()
	q.state.Serial["version "+p.Name] = max(q.state.Serial["version "+p.Name], last)
	p.Versions = slices.DeleteFunc(p.Versions, func(v PolicyVersion) bool { return v.ID == id })
	return core.Reply{}, nil
}

func setDefaultPolicyVersion(q *request) (any, *core.Failure) {
	p, bad := q.writable()
	if bad != nil {
		return nil, bad
	}
	v, bad := p.version(q.Params["VersionId"])
	if bad != nil {
		return nil, bad
	}
	q.state.makeDefault(p, v.ID, q.Now)
	return core.Reply{}, nil
}
