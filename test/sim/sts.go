package sim

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// sts says who calls, and lends roles:
// https://www.alibabacloud.com/help/en/ram/developer-reference/api-sts-2015-04-01-overview
func sts() *product {
	return &product{
		name: "sts", version: "2015-04-01", host: "sts.aliyuncs.com", refusal: notAuthorized,
		actions: map[string]*action{
			"GetCallerIdentity": {do: getCallerIdentity},
			"AssumeRole": {
				do: assumeRole, need: []string{"RoleArn", "RoleSessionName"},
				resource: func(q *request) string { return "role/" + roleName(q.params["RoleArn"]) },
			},
			"AssumeRoleWithOIDC": {do: assumeRoleWithOIDC, need: []string{"OIDCProviderArn", "RoleArn", "RoleSessionName"}, open: true},
		},
	}
}

func getCallerIdentity(q *request) (any, *failure) {
	s, k := q.state, q.caller
	out := reply{"AccountId": s.AccountID, "IdentityType": "RAMUser", "UserId": s.roleID(k.Name), "PrincipalId": s.roleID(k.Name)}
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

// assumed returns the role that a request wants to have.
func (q *request) assumed() (*Role, *failure) {
	arn, s := q.params["RoleArn"], q.state
	for _, r := range s.Roles { // an ARN has the name in lower case
		if strings.EqualFold(r.Name, roleName(arn)) && strings.HasPrefix(arn, "acs:ram::"+s.AccountID+":role/") {
			return r, nil
		}
	}
	return nil, fail(http.StatusNotFound, "EntityNotExist.Role", "The specified Role not exists.")
}

func assumeRole(q *request) (any, *failure) {
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

// session makes a caller that has a role, with a token that expires. A policy
// in the request leaves it less than the role has.
func (q *request) session(role *Role) (reply, *failure) {
	s := q.state
	seconds, bad := q.params.number("DurationSeconds", 900, 43200, 3600)
	if bad != nil {
		return nil, bad
	}
	if text := q.params["Policy"]; text != "" {
		if _, err := s.document(text); err != nil {
			return nil, fail(http.StatusBadRequest, "InvalidParameter.PolicyGrammar", "The parameter Policy has not passed grammar check.")
		}
	}
	s.serial["session"]++
	session := fmt.Sprintf("session %d of %s", s.serial["session"], role.Name)
	k := &Caller{
		Name: q.params["RoleSessionName"], AccessKeyID: "STS." + derive(session, 24), Token: derive("token "+session, 64),
		Role: role.Name, Policy: q.params["Policy"], Expires: q.now.Add(time.Duration(seconds) * time.Second).UTC().Truncate(time.Second),
	}
	k.fill()
	s.Callers[k.AccessKeyID] = k
	return reply{
		"AssumedRoleUser": reply{
			"AssumedRoleId": s.roleID(role.Name) + ":" + k.Name,
			"Arn":           "acs:ram::" + s.AccountID + ":role/" + strings.ToLower(role.Name) + "/" + k.Name,
		},
		"Credentials": reply{
			"AccessKeyId": k.AccessKeyID, "AccessKeySecret": k.Secret, "SecurityToken": k.Token, "Expiration": k.Expires.Format("2006-01-02T15:04:05Z"),
		},
	}, nil
}
