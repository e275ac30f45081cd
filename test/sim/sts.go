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

// assumeRole makes a caller with a token, which ends when it expires.
func assumeRole(q *request) (any, *failure) {
	s := q.state
	var role *Role
	for _, r := range s.Roles { // an ARN has the name in lower case
		if strings.EqualFold(r.Name, roleName(q.params["RoleArn"])) && strings.HasPrefix(q.params["RoleArn"], "acs:ram::"+s.AccountID+":role/") {
			role = r
		}
	}
	if role == nil {
		return nil, fail(http.StatusNotFound, "EntityNotExist.Role", "The specified Role not exists.")
	}
	seconds, bad := q.params.number("DurationSeconds", 900, 43200, 3600)
	if bad != nil {
		return nil, bad
	}
	s.serial["session"]++
	session := fmt.Sprintf("session %d of %s", s.serial["session"], role.Name)
	k := &Caller{
		Name: q.params["RoleSessionName"], AccessKeyID: "STS." + derive(session, 24), Token: derive("token "+session, 64),
		Role: role.Name, Expires: q.now.Add(time.Duration(seconds) * time.Second).UTC().Truncate(time.Second),
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
