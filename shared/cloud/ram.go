package cloud

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/ram"
)

// RAM reads roles and their policies.
type RAM struct{ c *client }

// RAMWriter writes versions of custom policies. They take effect within about a minute.
type RAMWriter struct{ c *client }

// CustomPolicy is the type of the account's own policies, which can be written. Alibaba Cloud's have the type "System".
const CustomPolicy = "Custom"

// A PolicyRef names a policy that is attached to a role.
type PolicyRef struct {
	Name string
	Type string // CustomPolicy or "System"
}

// A Policy is a policy with its default version.
type Policy struct {
	Name     string
	Type     string // CustomPolicy or "System"
	Version  string // ID of the default version
	Document string // of the default version: JSON
}

// A PolicyVersion is one version of a policy, which has at most five.
type PolicyVersion struct {
	ID       string    // such as "v3"
	Document string    // JSON; empty if the answer lacks it
	Default  bool      // it is in force
	Created  time.Time // zero if the answer lacks it
}

// Entities are what a policy is attached to, by name, sorted.
type Entities struct{ Roles, Users, Groups []string }

type truncated struct {
	IsTruncated on
	Marker      text
}

// partial returns a page of such a list, which must name the next page if it continues.
func partial[W any](t truncated, items []W) (pageOf[W], error) {
	switch {
	case !bool(t.IsTruncated):
		return pageOf[W]{items: items}, nil
	case t.Marker == "":
		return pageOf[W]{}, lack("the Marker of its next page")
	}
	return pageOf[W]{items: items, next: string(t.Marker)}, nil
}

// RolePolicies returns the policies that are attached to a role, or ErrNotFound. It needs grant.ListPoliciesForRole.
func (r RAM) RolePolicies(ctx context.Context, role string) ([]PolicyRef, error) {
	type wirePolicy struct{ PolicyName, PolicyType text }
	type answer struct {
		truncated
		Policies *struct{ Policy []wirePolicy }
	}
	list, err := chained("ram", "ListPoliciesForRole", pages(ctx, r.c, listing[string, answer, wirePolicy]{
		needs: needs{{"role name", role}},
		request: func(token string) requests.AcsRequest {
			q := ram.CreateListPoliciesForRoleRequest()
			q.RoleName = role
			mark(q.QueryParams, token)
			return q
		},
		page: func(a answer) (p pageOf[wirePolicy], err error) {
			if a.Policies == nil {
				return p, lack("Policies")
			}
			return partial(a.truncated, a.Policies.Policy)
		},
		check: func(p wirePolicy) error {
			if p.PolicyName == "" || p.PolicyType == "" {
				return lack("name and type of a policy of role %s", role)
			}
			return nil
		},
		gone: []string{"EntityNotExist.Role"},
	}))
	out := values(list, func(p wirePolicy) PolicyRef {
		return PolicyRef{string(p.PolicyName), string(p.PolicyType)}
	})
	return sorted(out, func(p PolicyRef) string { return p.Name + "\x00" + p.Type }), err
}

// mark requests the page with this token, for which the SDK's requests have no field.
func mark(params map[string]string, token string) {
	if token != "" {
		params["Marker"] = token
	}
}

// Policy returns the policy of this name and type, or ErrNotFound. It needs grant.GetPolicy.
func (r RAM) Policy(ctx context.Context, name, typ string) (Policy, error) {
	type answer struct {
		Policy               struct{ PolicyName, PolicyType, DefaultVersion text }
		DefaultPolicyVersion struct{ VersionID, PolicyDocument text }
	}
	a, err := read(ctx, r.c, call[answer]{
		needs: needs{{"name of the policy", name}, {"type of the policy", typ}},
		request: func() requests.AcsRequest {
			q := ram.CreateGetPolicyRequest()
			q.PolicyName, q.PolicyType = name, typ
			return q
		},
		check: func(a answer) error {
			switch {
			case string(a.Policy.PolicyName) != name:
				return lack("policy %s: it is about %q", name, a.Policy.PolicyName)
			case a.Policy.DefaultVersion == "" || a.DefaultPolicyVersion.PolicyDocument == "":
				return lack("DefaultVersion and PolicyDocument of policy %s", name)
			case a.DefaultPolicyVersion.VersionID != "" && a.DefaultPolicyVersion.VersionID != a.Policy.DefaultVersion:
				return lack("version %s of policy %s: it holds %s", a.Policy.DefaultVersion, name, a.DefaultPolicyVersion.VersionID)
			}
			return nil
		},
		gone: []string{"EntityNotExist.Policy"},
	})
	if err != nil {
		return Policy{}, err
	}
	return Policy{Name: name, Type: typ, Version: string(a.Policy.DefaultVersion), Document: string(a.DefaultPolicyVersion.PolicyDocument)}, nil
}

type wireVersion struct {
	VersionID        text `json:"VersionId"`
	PolicyDocument   text
	IsDefaultVersion on
	CreateDate       text
}

// PolicyVersions returns all versions of the policy of this name and type, or ErrNotFound. It needs grant.ListPolicyVersions.
func (r RAM) PolicyVersions(ctx context.Context, name, typ string) ([]PolicyVersion, error) {
	type answer struct {
		truncated
		PolicyVersions *struct{ PolicyVersion []wireVersion }
	}
	list, err := chained("ram", "ListPolicyVersions", pages(ctx, r.c, listing[string, answer, wireVersion]{
		needs: needs{{"name of the policy", name}, {"type of the policy", typ}},
		request: func(token string) requests.AcsRequest {
			q := ram.CreateListPolicyVersionsRequest()
			q.PolicyName, q.PolicyType = name, typ
			mark(q.QueryParams, token)
			return q
		},
		page: func(a answer) (p pageOf[wireVersion], err error) {
			if a.PolicyVersions == nil {
				return p, lack("PolicyVersions")
			}
			return partial(a.truncated, a.PolicyVersions.PolicyVersion)
		},
		check: func(v wireVersion) error {
			if v.VersionID == "" {
				return lack("the ID of a version of policy %s", name)
			}
			return nil
		},
		gone: []string{"EntityNotExist.Policy"},
	}))
	if err != nil {
		return nil, err
	}
	var out []PolicyVersion
	for _, v := range list {
		out = append(out, PolicyVersion{
			ID: string(v.VersionID), Document: string(v.PolicyDocument), Default: bool(v.IsDefaultVersion), Created: when(v.CreateDate),
		})
	}
	out = sorted(out, func(v PolicyVersion) string { return fmt.Sprintf("%8s", v.ID) }) // v9 before v10
	if !slices.ContainsFunc(out, func(v PolicyVersion) bool { return v.Default }) {
		return nil, &Error{
			Product: "ram", Action: "ListPolicyVersions", Code: codeBadAnswer, Status: 200, kind: ErrUnavailable,
			Message: "no version of policy " + name + " is the default one",
		}
	}
	return out, nil
}

// PolicyRoles returns the entities to which the policy of this name and type is attached, or ErrNotFound. It needs grant.ListEntitiesForPolicy.
func (r RAM) PolicyRoles(ctx context.Context, name, typ string) (Entities, error) {
	type answer struct {
		truncated
		Roles  *struct{ Role []struct{ RoleName text } }
		Users  *struct{ User []struct{ UserName text } }
		Groups *struct{ Group []struct{ GroupName text } }
	}
	list, err := chained("ram", "ListEntitiesForPolicy", pages(ctx, r.c, listing[string, answer, answer]{
		needs: needs{{"name of the policy", name}, {"type of the policy", typ}},
		request: func(token string) requests.AcsRequest {
			q := ram.CreateListEntitiesForPolicyRequest()
			q.PolicyName, q.PolicyType = name, typ
			mark(q.QueryParams, token)
			return q
		},
		page: func(a answer) (pageOf[answer], error) { return partial(a.truncated, []answer{a}) },
		check: func(a answer) error {
			if a.Roles == nil || a.Users == nil || a.Groups == nil {
				return lack("Roles, Users and Groups")
			}
			return nil
		},
		gone: []string{"EntityNotExist.Policy"},
	}))
	if err != nil {
		return Entities{}, err
	}
	var roles, users, groups []text
	for _, a := range list {
		for _, e := range a.Roles.Role {
			roles = append(roles, e.RoleName)
		}
		for _, e := range a.Users.User {
			users = append(users, e.UserName)
		}
		for _, e := range a.Groups.Group {
			groups = append(groups, e.GroupName)
		}
	}
	out := Entities{Roles: strs(roles), Users: strs(users), Groups: strs(groups)}
	for _, list := range [][]string{out.Roles, out.Users, out.Groups} {
		slices.Sort(list)
	}
	return out, nil
}

// CreatePolicyVersion adds a default version, of at most 6144 bytes, to a custom policy. The error is ErrConflict if the policy has five
// versions; it removes none. It is ErrNotFound for a missing policy. A repeated call adds another: after an error, read
// PolicyVersions first. It needs grant.CreatePolicyVersion.
func (w RAMWriter) CreatePolicyVersion(ctx context.Context, name, document string) error {
	q := ram.CreateCreatePolicyVersionRequest()
	q.PolicyName, q.PolicyDocument = name, document
	q.SetAsDefault = requests.NewBoolean(true)
	return w.c.change(ctx, needs{{"name of the policy", name}, {"document of the policy", document}}, "policy/"+name, policyGone, q)
}

// DeletePolicyVersion deletes a version of a custom policy, or returns ErrConflict for the default or ErrNotFound. It needs grant.DeletePolicyVersion.
func (w RAMWriter) DeletePolicyVersion(ctx context.Context, name, version string) error {
	q := ram.CreateDeletePolicyVersionRequest()
	q.PolicyName, q.VersionId = name, version
	return w.c.change(ctx, needs{{"name of the policy", name}, {"version of the policy", version}}, "policy/"+name+"/"+version, policyGone, q)
}

// SetDefaultPolicyVersion changes a custom policy's default version, or returns ErrNotFound. It may be repeated. It needs
// grant.SetDefaultPolicyVersion.
func (w RAMWriter) SetDefaultPolicyVersion(ctx context.Context, name, version string) error {
	q := ram.CreateSetDefaultPolicyVersionRequest()
	q.PolicyName, q.VersionId = name, version
	return w.c.change(ctx, needs{{"name of the policy", name}, {"version of the policy", version}}, "policy/"+name+"/"+version, policyGone, q)
}

var policyGone = []string{"EntityNotExist.Policy", "EntityNotExist.Policy.Version"}
