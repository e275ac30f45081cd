package grant

// RAM actions. Their names are the OpenAPI's, except where RAM uses another.
var (
	DescribeLoadBalancers         = Grant{Action: "slb:DescribeLoadBalancers"}
	DescribeLoadBalancerAttribute = Grant{Action: "slb:DescribeLoadBalancerAttribute"}
	DescribeLoadBalancerListeners = Grant{Action: "slb:DescribeLoadBalancerListeners"}
	DescribeVServerGroups         = Grant{Action: "slb:DescribeVServerGroups"}
	DescribeVServerGroupAttribute = Grant{Action: "slb:DescribeVServerGroupAttribute"}
	ListSLBTags                   = Grant{Action: "slb:ListTagResources"}
	DescribeAvailableResource     = Grant{Action: "slb:DescribeAvailableResource"}
	DescribeServerCertificates    = Grant{Action: "slb:DescribeServerCertificates"}
	DescribeAccessControlLists    = Grant{Action: "slb:DescribeAccessControlLists"}
	DescribeDomainExtensions      = Grant{Action: "slb:DescribeDomainExtensions"}
	SetTCPListener                = Grant{Action: "slb:SetLoadBalancerTCPListenerAttribute"}
	SetUDPListener                = Grant{Action: "slb:SetLoadBalancerUDPListenerAttribute"}
	SetHTTPListener               = Grant{Action: "slb:SetLoadBalancerHTTPListenerAttribute"}
	SetHTTPSListener              = Grant{Action: "slb:SetLoadBalancerHTTPSListenerAttribute"}
	DeleteListener                = Grant{Action: "slb:DeleteLoadBalancerListener"}
	CreateTCPListener             = Grant{Action: "slb:CreateLoadBalancerTCPListener"}
	CreateUDPListener             = Grant{Action: "slb:CreateLoadBalancerUDPListener"}
	CreateHTTPListener            = Grant{Action: "slb:CreateLoadBalancerHTTPListener"}
	CreateHTTPSListener           = Grant{Action: "slb:CreateLoadBalancerHTTPSListener"}
	StartListener                 = Grant{Action: "slb:StartLoadBalancerListener"}
	TagSLB                        = Grant{Action: "slb:TagResources"}
	UntagSLB                      = Grant{Action: "slb:UntagResources"}
	ProtectSLB                    = Grant{Action: "slb:SetLoadBalancerDeleteProtection"}

	DescribeVSwitches    = Grant{Action: "vpc:DescribeVSwitches"}
	DescribeEipAddresses = Grant{Action: "vpc:DescribeEipAddresses"}
	DescribeVpcAttribute = Grant{Action: "vpc:DescribeVpcAttribute"}

	DescribeRouteTableList = Grant{Action: "vpc:DescribeRouteTableList"}
	DescribeRouteEntryList = Grant{Action: "vpc:DescribeRouteEntryList"}

	DescribeNetworkInterfaces = Grant{Action: "ecs:DescribeNetworkInterfaces"}
	DescribeInstances         = Grant{Action: "ecs:DescribeInstances"}
	DescribeSecurityGroups    = Grant{Action: "ecs:DescribeSecurityGroups"}
	DescribeSecurityGroup     = Grant{Action: "ecs:DescribeSecurityGroupAttribute"}

	DescribeClusterDetail    = Grant{Action: "cs:DescribeClusterDetail"}
	DescribeClusterResources = Grant{Action: "cs:DescribeClusterResources"}
	DescribeClusterNodePools = Grant{Action: "cs:DescribeClusterNodePools"}
	DescribeClusterAddons    = Grant{Action: "cs:DescribeClusterAddonsVersion"}
	GetClusterAddon          = Grant{Action: "cs:GetClusterAddonInstance"}
	DescribeDeleteProtection = Grant{Action: "cs:DescribeResourcesDeleteProtection"}

	// DescribeClusterUserKubeconfig belongs to no class: programs that get their kubeconfig from the container service need it.
	DescribeClusterUserKubeconfig = Grant{Action: "cs:DescribeClusterUserKubeconfig"}

	ListPoliciesForRole     = Grant{Action: "ram:ListPoliciesForRole"}
	GetPolicy               = Grant{Action: "ram:GetPolicy"}
	ListPolicyVersions      = Grant{Action: "ram:ListPolicyVersions"}
	ListEntitiesForPolicy   = Grant{Action: "ram:ListEntitiesForPolicy"}
	CreatePolicyVersion     = Grant{Action: "ram:CreatePolicyVersion"}
	DeletePolicyVersion     = Grant{Action: "ram:DeletePolicyVersion"}
	SetDefaultPolicyVersion = Grant{Action: "ram:SetDefaultPolicyVersion"}

	ListNLBs                 = Grant{Action: "nlb:ListLoadBalancers"}
	GetNLB                   = Grant{Action: "nlb:GetLoadBalancerAttribute"}
	ListNLBTags              = Grant{Action: "nlb:ListTagResources"}
	TagNLB                   = Grant{Action: "nlb:TagResources"}
	UntagNLB                 = Grant{Action: "nlb:UntagResources"}
	ProtectNLB               = Grant{Action: "nlb:UpdateLoadBalancerProtection"}
	ListNLBListeners         = Grant{Action: "nlb:ListListeners"}
	ListListenerCertificates = Grant{Action: "nlb:ListListenerCertificates"}

	ListServerGroups       = Grant{Action: "nlb:ListServerGroups"}
	ListServerGroupServers = Grant{Action: "nlb:ListServerGroupServers"}

	GetCallerIdentity = Grant{Action: "sts:GetCallerIdentity"}

	ListProductQuotas      = Grant{Action: "quotas:ListProductQuotas"}
	ListQuotaApplications  = Grant{Action: "quotas:ListQuotaApplications"}
	CreateQuotaApplication = Grant{Action: "quotas:CreateQuotaApplication"}

	// QueryAccountBalance is the only action with another name in RAM
	// (https://www.alibabacloud.com/help/en/user-center/developer-reference/api-bssopenapi-2017-12-14-queryaccountbalance).
	QueryAccountBalance = Grant{Action: "bss:DescribeAcccount"}

	CreateTicket = Grant{Action: "workorder:CreateTicket"}
	ListTickets  = Grant{Action: "workorder:ListTickets"}
	ReplyTicket  = Grant{Action: "workorder:ReplyTicket"}
	CloseTicket  = Grant{Action: "workorder:CloseTicket"}
	ReopenTicket = Grant{Action: "workorder:ReopenTicket"}
)

// Kubernetes verbs.
var (
	GetServices          = Grant{Resource: "services", Verb: "get"}
	GetNamespaces        = Grant{Resource: "namespaces", Verb: "get"}
	ListServices         = Grant{Resource: "services", Verb: "list"}
	WatchServices        = Grant{Resource: "services", Verb: "watch"}
	PatchServices        = Grant{Resource: "services", Verb: "patch"}
	PatchServicesStatus  = Grant{Resource: "services/status", Verb: "patch"}
	ListEvents           = Grant{Resource: "events", Verb: "list"}
	WatchEvents          = Grant{Resource: "events", Verb: "watch"}
	CreateEvents         = Grant{Resource: "events", Verb: "create"}
	PatchEvents          = Grant{Resource: "events", Verb: "patch"}
	GetNodes             = Grant{Resource: "nodes", Verb: "get"}
	ListNodes            = Grant{Resource: "nodes", Verb: "list"}
	ListPods             = Grant{Resource: "pods", Verb: "list"}
	GetPods              = Grant{Resource: "pods", Verb: "get"}
	GetServiceAccounts   = Grant{Resource: "serviceaccounts", Verb: "get"}
	EvictPods            = Grant{Resource: "pods/eviction", Verb: "create"}
	ListEndpointSlices   = Grant{Group: "discovery.k8s.io", Resource: "endpointslices", Verb: "list"}
	GetAdmissionPolicies = Grant{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies", Verb: "get"}
	GetAdmissionBindings = Grant{Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicybindings", Verb: "get"}
	ListApprovals        = Grant{Group: "lbremedy.io", Resource: "approvals", Verb: "list"}
	WatchApprovals       = Grant{Group: "lbremedy.io", Resource: "approvals", Verb: "watch"}
	CreateApprovals      = Grant{Group: "lbremedy.io", Resource: "approvals", Verb: "create"}
	// PatchApprovalsStatus is the right to write the status of Approvals.
	PatchApprovalsStatus = Grant{Group: "lbremedy.io", Resource: "approvals/status", Verb: "patch"}
	// RelayApprovals is the right to create Approvals in the name of others. The admission policy of Approvals checks it.
	RelayApprovals = Grant{Group: "lbremedy.io", Resource: "approvals", Verb: "relay"}
	ListMutating   = Grant{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations", Verb: "list"}
	ListValidating = Grant{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations", Verb: "list"}
	GetDeployments = Grant{Group: "apps", Resource: "deployments", Verb: "get"}
	ListDaemonSets = Grant{Group: "apps", Resource: "daemonsets", Verb: "list"}

	// ReviewAccess is the right to ask what another user may do; the API server answers, and stores nothing.
	ReviewAccess = Grant{Group: "authorization.k8s.io", Resource: "subjectaccessreviews", Verb: "create"}
)
