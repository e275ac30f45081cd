package ram

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/test/sim/core"
)

// STS returns the caller's identity and credentials of roles
// (https://www.alibabacloud.com/help/en/ram/developer-reference/api-sts-2015-04-01-overview).
func STS() *core.Product {
	return &core.Product{
		Name: "sts", Version: "2015-04-01", Host: "sts.aliyuncs.com", Refusal: core.NotAuthorized,
		Actions: map[string]*core.Action{
			"GetCallerIdentity": {Do: on(getCallerIdentity)},
			"AssumeRole": {
				Do: on(assumeRole), Need: []string{"RoleArn", "RoleSessionName"},
				Resource: func(q *core.Request) string { return "role/" + roleName(q.Params["RoleArn"]) },
			},
			"AssumeRoleWithOIDC": {Do: on(assumeRoleWithOIDC), Need: []string{"OIDCProviderArn", "RoleArn", "RoleSessionName"}, Open: true},
		},
	}
}

func getCallerIdentity(q *request) (any, *core.Failure) {
	s, k := q.state, q.Caller
	out := core.Reply{"AccountId": s.AccountID, "IdentityType": "RAMUser", "UserId": s.roleID(k.Name), "PrincipalId": s.roleID(k.Name)}
	out["Arn"] = "acs:ram::" + s.AccountID + ":user/" + k.Name
	if k.Role != "" {
		out["IdentityType"], out["RoleId"] = "AssumedRoleUser", s.roleID(k.Role)
		out["PrincipalId"] = s.roleID(k.Role) + ":" + k.Name
		out["Arn"] = "acs:ram::" + s.AccountID + ":assumed-role/" + strings.ToLower(k.Role) + "/" + k.Name
		delete(out, "UserId")
	}
	return out, nil
}

func roleName(arn string) string { return arn[strings.LastIndex(arn, "/")+1:] }

func (q *request) assumed() (*Role, *core.Failure) {
	arn, s := q.Params["RoleArn"], q.state
	for _, r := range s.Roles { // an ARN has the name in lower case
		if strings.EqualFold(r.Name, roleName(arn)) && strings.HasPrefix(arn, "acs:ram::"+s.AccountID+":role/") {
			return r, nil
		}
	}
	return nil, core.Fail(http.StatusNotFound, "EntityNotExist.Role", "The specified Role not exists.")
}

func assumeRole(q *request) (any, *core.Failure) {
	role, bad := q.assumed()
	if bad != nil {
		return nil, bad
	}
	out, bad := q.session(role)
	if bad != nil {
		return nil, bad
	}
	return out, nil
}

// session creates a caller with a role and an expiring token. A policy in the request limits the role's rights.
func (q *request) session(role *Role) (core.Reply, *core.Failure) {
	s := q.state
	seconds, bad := q.Params.Number("DurationSeconds", 900, 43200, 3600)
	if bad != nil {
		return nil, bad
	}
	if text := q.Params["Policy"]; text != "" {
		if _, err := s.document(text); err != nil {
			return nil, core.Fail(http.StatusBadRequest, "InvalidParameter.PolicyGrammar", "The parameter Policy has not passed grammar check.")
		}
	}
	s.Serial["session"]++
	session := fmt.Sprintf("session %d of %s", s.Serial["session"], role.Name)
	k := &core.Caller{
		Name: q.Params["RoleSessionName"], AccessKeyID: "STS." + core.Derive(session, 24), Token: core.Derive("token "+session, 64),
		Role: role.Name, Policy: q.Params["Policy"], Expires: q.Now.Add(time.Duration(seconds) * time.Second).UTC().Truncate(time.Second),
	}
	k.Fill()
	s.Callers[k.AccessKeyID] = k
	return core.Reply{
		"AssumedRoleUser": core.Reply{
			"AssumedRoleId": s.roleID(role.Name) + ":" + k.Name,
			"Arn":           "acs:ram::" + s.AccountID + ":role/" + strings.ToLower(role.Name) + "/" + k.Name,
		},
		"Credentials": core.Reply{
			"AccessKeyId": k.AccessKeyID, "AccessKeySecret": k.Secret, "SecurityToken": k.Token, "Expiration": k.Expires.Format("2006-01-02T15:04:05Z"),
		},
	}, nil
}
