package sim

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// longestDocument and mostVersions are RAM's limits for a policy:
// https://www.alibabacloud.com/help/en/ram/product-overview/limits
const (
	longestDocument = 6144
	mostVersions    = 5
)

// ram is the access control:
// https://www.alibabacloud.com/help/en/ram/developer-reference/api-ram-2015-05-01-overview
func ram() *product {
	one, version := []string{"PolicyName", "PolicyType"}, []string{"PolicyName", "VersionId"}
	p := &product{
		name: "ram", version: "2015-05-01", host: "ram.aliyuncs.com", refusal: notAuthorized,
		actions: map[string]*action{
			"GetRole":                 {do: getRole, need: []string{"RoleName"}},
			"ListPoliciesForRole":     {do: listPoliciesForRole, need: []string{"RoleName"}},
			"AttachPolicyToRole":      {do: attachPolicy, need: append(one, "RoleName")},
			"DetachPolicyFromRole":    {do: detachPolicy, need: append(one, "RoleName")},
			"GetPolicy":               {do: getPolicy, need: one},
			"GetPolicyVersion":        {do: getPolicyVersion, need: append(one, "VersionId")},
			"ListPolicyVersions":      {do: listPolicyVersions, need: one},
			"ListEntitiesForPolicy":   {do: listEntities, need: one},
			"CreatePolicyVersion":     {do: createPolicyVersion, need: []string{"PolicyName", "PolicyDocument"}},
			"DeletePolicyVersion":     {do: deletePolicyVersion, need: version},
			"SetDefaultPolicyVersion": {do: setDefaultPolicyVersion, need: version},
		},
	}
	for name, a := range p.actions {
		a.resource = func(q *request) string {
			if strings.Contains(name, "Role") && !strings.Contains(name, "Policy") || name == "ListPoliciesForRole" {
				return "role/" + q.params["RoleName"]
			}
			return "policy/" + q.params["PolicyName"]
		}
	}
	return p
}

func (q *request) role() (*Role, *failure) {
	if r := q.state.Roles[q.params["RoleName"]]; r != nil {
		return r, nil
	}
	return nil, fail(http.StatusNotFound, "EntityNotExist.Role", "The role not exists: %s", q.params["RoleName"])
}

// readable returns the policy that a request names.
func (q *request) readable() (*Policy, *failure) {
	p := q.state.policy(q.params["PolicyName"])
	if p == nil || !is(q.params["PolicyType"], p.Type) {
		return nil, fail(http.StatusNotFound, "EntityNotExist.Policy", "The policy not exists: %s", q.params["PolicyName"])
	}
	return p, nil
}

// writable returns the policy that a request names if it is not a system one,
// which nobody can change.
func (q *request) writable() (*Policy, *failure) {
	p, bad := q.readable()
	if bad == nil && p.Type != "Custom" {
		return nil, fail(http.StatusNotFound, "EntityNotExist.Policy", "The policy not exists: %s", p.Name)
	}
	return p, bad
}

func (p *Policy) version(id string) (*PolicyVersion, *failure) {
	for i := range p.Versions {
		if p.Versions[i].ID == id {
			return &p.Versions[i], nil
		}
	}
	return nil, fail(http.StatusNotFound, "EntityNotExist.Policy.Version", "The policy version not exists: %s", id)
}

func (v *PolicyVersion) show(document bool) reply {
	m := reply{"VersionId": v.ID, "IsDefaultVersion": v.Default, "CreateDate": v.Created.UTC().Format("2006-01-02T15:04:05Z")}
	if document {
		m["PolicyDocument"] = v.Document
	}
	return m
}

// attached returns the roles that have a policy.
func (s *State) attached(policy string) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(s.Roles)) {
		if slices.Contains(s.Roles[name].Policies, policy) {
			list = append(list, name)
		}
	}
	return list
}

func (p *Policy) show(s *State) reply {
	m := reply{
		"PolicyName": p.Name, "PolicyType": p.Type, "Description": "", "AttachmentCount": len(s.attached(p.Name)) + len(p.Users),
		"UpdateDate": s.started.Format("2006-01-02T15:04:05Z"),
	}
	if v := p.current(); v != nil {
		m["DefaultVersion"] = v.ID
	}
	return m
}

func getRole(q *request) (any, *failure) {
	r, bad := q.role()
	if bad != nil {
		return nil, bad
	}
	return reply{"Role": reply{
		"RoleName": r.Name, "RoleId": q.state.roleID(r.Name), "Arn": "acs:ram::" + q.state.AccountID + ":role/" + strings.ToLower(r.Name),
		"Description": "", "CreateDate": q.state.started.Format("2006-01-02T15:04:05Z"), "MaxSessionDuration": 3600,
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

func listPoliciesForRole(q *request) (any, *failure) {
	r, bad := q.role()
	if bad != nil {
		return nil, bad
	}
	list := []reply{}
	for _, name := range r.Policies {
		if p := q.state.policy(name); p != nil {
			list = append(list, p.show(q.state))
		}
	}
	return reply{"Policies": reply{"Policy": list}}, nil
}

func attachPolicy(q *request) (any, *failure) {
	r, bad := q.role()
	if bad != nil {
		return nil, bad
	}
	p, bad := q.readable()
	if bad != nil {
		return nil, bad
	}
	if slices.Contains(r.Policies, p.Name) {
		return nil, fail(http.StatusConflict, "EntityAlreadyExists.Role.Policy", "The role policy already exists.")
	}
	leave(q.state.attachments, r.Name, q.now, q.state.RAM.Delay, slices.Clone(r.Policies))
	r.Policies = append(r.Policies, p.Name)
	return reply{}, nil
}

func detachPolicy(q *request) (any, *failure) {
	r, bad := q.role()
	if bad != nil {
		return nil, bad
	}
	i := slices.Index(r.Policies, q.params["PolicyName"])
	if i < 0 {
		return nil, fail(http.StatusNotFound, "EntityNotExist.Role.Policy", "The role policy does not exist.")
	}
	leave(q.state.attachments, r.Name, q.now, q.state.RAM.Delay, slices.Clone(r.Policies))
	r.Policies = slices.Delete(r.Policies, i, i+1)
	return reply{}, nil
}

func getPolicy(q *request) (any, *failure) {
	p, bad := q.readable()
	if bad != nil {
		return nil, bad
	}
	out := reply{"Policy": p.show(q.state)}
	if v := p.current(); v != nil {
		out["DefaultPolicyVersion"] = v.show(true)
	}
	return out, nil
}

func getPolicyVersion(q *request) (any, *failure) {
	p, bad := q.readable()
	if bad != nil {
		return nil, bad
	}
	v, bad := p.version(q.params["VersionId"])
	if bad != nil {
		return nil, bad
	}
	return reply{"PolicyVersion": v.show(true)}, nil
}

func listPolicyVersions(q *request) (any, *failure) {
	p, bad := q.readable()
	if bad != nil {
		return nil, bad
	}
	list := []reply{}
	for i := range p.Versions {
		list = append(list, p.Versions[i].show(true))
	}
	return reply{"PolicyVersions": reply{"PolicyVersion": list}}, nil
}

func listEntities(q *request) (any, *failure) {
	p, bad := q.readable()
	if bad != nil {
		return nil, bad
	}
	roles, users := []reply{}, []reply{}
	for _, name := range q.state.attached(p.Name) {
		roles = append(roles, reply{"RoleName": name, "RoleId": q.state.roleID(name), "Arn": "acs:ram::" + q.state.AccountID + ":role/" + strings.ToLower(name)})
	}
	for _, name := range p.Users {
		users = append(users, reply{"UserName": name, "UserId": q.state.roleID(name)})
	}
	return reply{"Roles": reply{"Role": roles}, "Users": reply{"User": users}, "Groups": reply{"Group": []reply{}}}, nil
}

func createPolicyVersion(q *request) (any, *failure) {
	p, bad := q.writable()
	if bad != nil {
		return nil, bad
	}
	text, rotate := q.params["PolicyDocument"], q.params["RotateStrategy"]
	if len(text) > longestDocument {
		return nil, fail(http.StatusBadRequest, "InvalidParameter.PolicyDocument.Length", "The length of the policy document is invalid. It must be 1 to 6144 characters in length.")
	}
	if _, err := q.state.document(text); err != nil {
		return nil, fail(http.StatusBadRequest, "MalformedPolicyDocument", "The policy document is malformed: %s.", err)
	}
	if !oneOf("None,DeleteOldestNonDefaultVersionWhenLimitExceeded", strings.TrimSpace(rotate)) && rotate != "" {
		return nil, invalid("RotateStrategy")
	}
	if len(p.Versions) >= mostVersions {
		if rotate != "DeleteOldestNonDefaultVersionWhenLimitExceeded" {
			return nil, fail(http.StatusConflict, "LimitExceeded.Policy.Version", "The count of policy version beyond the current limits.")
		}
		oldest := -1
		for i, v := range p.Versions {
			if !v.Default && (oldest < 0 || v.number() < p.Versions[oldest].number()) {
				oldest = i
			}
		}
		p.Versions = slices.Delete(p.Versions, oldest, oldest+1)
	}
	next := q.state.serial["version "+p.Name] // numbers are never used again
	for _, v := range p.Versions {
		next = max(next, v.number())
	}
	q.state.serial["version "+p.Name] = next + 1
	v := PolicyVersion{ID: fmt.Sprintf("v%d", next+1), Document: text, Created: q.now.UTC().Truncate(time.Second)}
	p.Versions = append(p.Versions, v)
	if q.params["SetAsDefault"] == "true" {
		q.state.makeDefault(p, v.ID, q.now)
	}
	return reply{"PolicyVersion": p.Versions[len(p.Versions)-1].show(true)}, nil
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

func deletePolicyVersion(q *request) (any, *failure) {
	p, bad := q.writable()
	if bad != nil {
		return nil, bad
	}
	v, bad := p.version(q.params["VersionId"])
	if bad != nil {
		return nil, bad
	}
	if v.Default {
		return nil, fail(http.StatusConflict, "DeleteConflict.Policy.Version", "The default policy version cannot be deleted.")
	}
	id, last := v.ID, v.number()
	q.state.serial["version "+p.Name] = max(q.state.serial["version "+p.Name], last)
	p.Versions = slices.DeleteFunc(p.Versions, func(v PolicyVersion) bool { return v.ID == id })
	return reply{}, nil
}

func setDefaultPolicyVersion(q *request) (any, *failure) {
	p, bad := q.writable()
	if bad != nil {
		return nil, bad
	}
	v, bad := p.version(q.params["VersionId"])
	if bad != nil {
		return nil, bad
	}
	q.state.makeDefault(p, v.ID, q.now)
	return reply{}, nil
}
