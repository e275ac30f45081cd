package sim_test

import (
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/services/ram"
	"github.com/aliyun/alibaba-cloud-sdk-go/services/sts"
)

func ramCalls() []actionCall {
	return []actionCall{
		on("ram:GetRole", ram.CreateGetRoleRequest, ram.CreateGetRoleResponse, "RoleName", "masters"),
		on("ram:ListPoliciesForRole", ram.CreateListPoliciesForRoleRequest, ram.CreateListPoliciesForRoleResponse, "RoleName", "masters"),
		on("ram:AttachPolicyToRole", ram.CreateAttachPolicyToRoleRequest, ram.CreateAttachPolicyToRoleResponse, "PolicyName", "free", "PolicyType", "Custom",
			"RoleName", "masters"),
		on("ram:DetachPolicyFromRole", ram.CreateDetachPolicyFromRoleRequest, ram.CreateDetachPolicyFromRoleResponse, "PolicyName", "p", "PolicyType", "Custom",
			"RoleName", "masters"),
		on("ram:GetPolicy", ram.CreateGetPolicyRequest, ram.CreateGetPolicyResponse, "PolicyName", "p", "PolicyType", "Custom"),
		on("ram:GetPolicyVersion", ram.CreateGetPolicyVersionRequest, ram.CreateGetPolicyVersionResponse, "PolicyName", "p", "PolicyType", "Custom",
			"VersionId", "v1"),
		on("ram:ListPolicyVersions", ram.CreateListPolicyVersionsRequest, ram.CreateListPolicyVersionsResponse, "PolicyName", "p", "PolicyType", "Custom"),
		on("ram:ListEntitiesForPolicy", ram.CreateListEntitiesForPolicyRequest, ram.CreateListEntitiesForPolicyResponse, "PolicyName", "p", "PolicyType", "Custom"),
		on("ram:CreatePolicyVersion", ram.CreateCreatePolicyVersionRequest, ram.CreateCreatePolicyVersionResponse, "PolicyName", "p", "PolicyDocument",
			`{"Version":"1","Statement":[{"Effect":"Allow","Action":"nlb:*","Resource":"*"}]}`),
		on("ram:DeletePolicyVersion", ram.CreateDeletePolicyVersionRequest, ram.CreateDeletePolicyVersionResponse, "PolicyName", "p", "VersionId", "v1"),
		on("ram:SetDefaultPolicyVersion", ram.CreateSetDefaultPolicyVersionRequest, ram.CreateSetDefaultPolicyVersionResponse, "PolicyName", "p", "VersionId", "v1"),
	}
}

func stsCalls() []actionCall {
	const account = "acs:ram::1298765432101234:"
	pod := on("sts:AssumeRoleWithOIDC", sts.CreateAssumeRoleWithOIDCRequest, sts.CreateAssumeRoleWithOIDCResponse, "RoleArn", account+"role/masters",
		"OIDCProviderArn", account+"oidc-provider/rrsa", "RoleSessionName", "pod", "OIDCToken", unsigned(map[string]any{"iss": "https://issuer", "sub": "pod",
			"aud": "sts.aliyuncs.com", "exp": time.Now().Add(time.Hour).Unix()}))
	pod.open = true
	return []actionCall{
		pod,
		on("sts:GetCallerIdentity", sts.CreateGetCallerIdentityRequest, sts.CreateGetCallerIdentityResponse),
		on("sts:AssumeRole", sts.CreateAssumeRoleRequest, sts.CreateAssumeRoleResponse, "RoleArn", account+"role/masters", "RoleSessionName", "s"),
	}
}
