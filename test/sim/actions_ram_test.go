package sim_test

import (
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/services/ram"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/sts"
)

// ramCalls are the calls of the access control.
func ramCalls() []actionCall {
	return []actionCall{
		on("ram:GetRole", ram.CreateGetRoleRequest, ram.CreateGetRoleResponse, func(r *ram.GetRoleRequest) { r.RoleName = "masters" }),
		on("ram:ListPoliciesForRole", ram.CreateListPoliciesForRoleRequest, ram.CreateListPoliciesForRoleResponse, func(r *ram.ListPoliciesForRoleRequest) {
			r.RoleName = "masters"
		}),
		on("ram:AttachPolicyToRole", ram.CreateAttachPolicyToRoleRequest, ram.CreateAttachPolicyToRoleResponse, func(r *ram.AttachPolicyToRoleRequest) {
			r.PolicyName, r.PolicyType, r.RoleName = "free", "Custom", "masters"
		}),
		on("ram:DetachPolicyFromRole", ram.CreateDetachPolicyFromRoleRequest, ram.CreateDetachPolicyFromRoleResponse, func(r *ram.DetachPolicyFromRoleRequest) {
			r.PolicyName, r.PolicyType = "p", "Custom"
			r.RoleName = "masters"
		}),
		on("ram:GetPolicy", ram.CreateGetPolicyRequest, ram.CreateGetPolicyResponse, func(r *ram.GetPolicyRequest) {
			r.PolicyName, r.PolicyType = "p", "Custom"
		}),
		on("ram:GetPolicyVersion", ram.CreateGetPolicyVersionRequest, ram.CreateGetPolicyVersionResponse, func(r *ram.GetPolicyVersionRequest) {
			r.PolicyName, r.PolicyType = "p", "Custom"
			r.VersionId = "v1"
		}),
		on("ram:ListPolicyVersions", ram.CreateListPolicyVersionsRequest, ram.CreateListPolicyVersionsResponse, func(r *ram.ListPolicyVersionsRequest) {
			r.PolicyName, r.PolicyType = "p", "Custom"
		}),
		on("ram:ListEntitiesForPolicy", ram.CreateListEntitiesForPolicyRequest, ram.CreateListEntitiesForPolicyResponse, func(r *ram.ListEntitiesForPolicyRequest) {
			r.PolicyName, r.PolicyType = "p", "Custom"
		}),
		on("ram:CreatePolicyVersion", ram.CreateCreatePolicyVersionRequest, ram.CreateCreatePolicyVersionResponse, func(r *ram.CreatePolicyVersionRequest) {
			r.PolicyName, r.PolicyDocument = "p", `{"Version":"1","Statement":[{"Effect":"Allow","Action":"nlb:*","Resource":"*"}]}`
		}),
		on("ram:DeletePolicyVersion", ram.CreateDeletePolicyVersionRequest, ram.CreateDeletePolicyVersionResponse, func(r *ram.DeletePolicyVersionRequest) {
			r.PolicyName, r.VersionId = "p", "v1"
		}),
		on("ram:SetDefaultPolicyVersion", ram.CreateSetDefaultPolicyVersionRequest, ram.CreateSetDefaultPolicyVersionResponse, func(r *ram.SetDefaultPolicyVersionRequest) {
			r.PolicyName, r.VersionId = "p", "v1"
		}),
	}
}

// stsCalls are the calls that say who calls and lend roles.
func stsCalls() []actionCall {
	const account = "acs:ram::1298765432101234:"
	pod := on("sts:AssumeRoleWithOIDC", sts.CreateAssumeRoleWithOIDCRequest, sts.CreateAssumeRoleWithOIDCResponse, func(r *sts.AssumeRoleWithOIDCRequest) {
		r.RoleArn, r.OIDCProviderArn, r.RoleSessionName = account+"role/masters", account+"oidc-provider/rrsa", "pod"
		r.OIDCToken = unsigned(map[string]any{"iss": "https://issuer", "sub": "pod", "aud": "sts.aliyuncs.com", "exp": time.Now().Add(time.Hour).Unix()})
	})
	pod.open = true
	return []actionCall{
		pod,
		on("sts:GetCallerIdentity", sts.CreateGetCallerIdentityRequest, sts.CreateGetCallerIdentityResponse, nil),
		on("sts:AssumeRole", sts.CreateAssumeRoleRequest, sts.CreateAssumeRoleResponse, func(r *sts.AssumeRoleRequest) {
			r.RoleArn, r.RoleSessionName = account+"role/masters", "s"
		}),
	}
}
