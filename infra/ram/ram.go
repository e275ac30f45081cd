// Package ram converts grants to RAM policies: the actions of a role, and their resources. Begin with Policy and Files.
//
// RAM ignores or refuses the restriction of some actions to resources, and its pages partly disagree. An action is restricted here if the
// product's page allows it and it is useful: writes first. Lists over several kinds of resources stay at "*": a wrongly refused read
// would stop a class, and RAM answers some with an empty list, which looks like an absence.
//
// Region and account are "*", since a role can't exceed its account; roles.sh restricts them, and the cluster, to the actual ones.
package ram

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/grant"
)

// MaxDocument is the largest policy document of an account in bytes (https://www.alibabacloud.com/help/en/ram/product-overview/limits).
const MaxDocument = 6144

// A Document is a RAM policy.
type Document struct {
	Version   string
	Statement []Statement
}

// A Statement allows actions on resources.
type Statement struct {
	Effect   string
	Action   []string
	Resource []string
}

type scope struct {
	action    string // or several, with * at the end
	resources []string
	source    string // the page with the source
}

// Pages that say to which resources an action can be restricted.
const (
	slbPage     = "https://www.alibabacloud.com/help/en/slb/classic-load-balancer/developer-reference/api-slb-2014-05-15-ram"
	nlbPage     = "https://www.alibabacloud.com/help/en/slb/network-load-balancer/developer-reference/api-nlb-2022-04-30-ram"
	vpcPage     = "https://www.alibabacloud.com/help/en/vpc/developer-reference/api-vpc-2016-04-28-ram"
	ecsPage     = "https://www.alibabacloud.com/help/en/ecs/developer-reference/api-ecs-2014-05-26-ram"
	csPage      = "https://www.alibabacloud.com/help/en/ack/ack-managed-and-ack-dedicated/developer-reference/api-cs-2015-12-15-ram"
	ramPage     = "https://www.alibabacloud.com/help/en/ram/developer-reference/api-ram-2015-05-01-ram"
	quotasPage  = "https://www.alibabacloud.com/help/en/quota-center/developer-reference/api-quotas-2020-05-10-ram"
	stsPage     = "https://www.alibabacloud.com/help/en/ram/developer-reference/api-sts-2015-04-01-getcalleridentity"
	bssPage     = "https://www.alibabacloud.com/help/en/user-center/developer-reference/api-bssopenapi-2017-12-14-queryaccountbalance"
	supportPage = "https://www.alibabacloud.com/help/en/support/developer-reference/api-workorder-2021-06-10-overview"
)

var all = []string{"*"}

// scopes has every action named in a grant; the first matching row counts.
var scopes = []scope{
	{"slb:DescribeAvailableResource", all, slbPage},
	{"slb:DescribeServerCertificates", all, slbPage},
	{"slb:DescribeAccessControlLists", all, slbPage},
	{"slb:*", []string{"acs:slb:*:*:loadbalancer/*"}, slbPage},

	{"nlb:GetLoadBalancerAttribute", []string{"acs:nlb:*:*:loadbalancer/*"}, nlbPage},
	{"nlb:TagResources", []string{"acs:nlb:*:*:loadbalancer/*"}, nlbPage},
	{"nlb:UntagResources", []string{"acs:nlb:*:*:loadbalancer/*"}, nlbPage},
	{"nlb:UpdateLoadBalancerProtection", []string{"acs:nlb:*:*:loadbalancer/*"}, nlbPage},
	// Lists over several kinds; existing policies write servergroup in two ways.
	{"nlb:List*", all, nlbPage},

	{"vpc:DescribeVSwitches", []string{"acs:vpc:*:*:vswitch/*"}, vpcPage},
	{"vpc:DescribeVpcAttribute", []string{"acs:vpc:*:*:vpc/*"}, vpcPage},
	{"vpc:DescribeRouteTableList", []string{"acs:vpc:*:*:routetable/*"}, vpcPage},
	{"vpc:DescribeRouteEntryList", []string{"acs:vpc:*:*:routetable/*"}, vpcPage},
	{"vpc:DescribeEipAddresses", []string{"acs:vpc:*:*:eip/*"}, vpcPage},

	{"ecs:DescribeInstances", []string{"acs:ecs:*:*:instance/*"}, ecsPage},
	{"ecs:DescribeNetworkInterfaces", all, ecsPage},
	{"ecs:DescribeSecurityGroups", all, ecsPage},
	{"ecs:DescribeSecurityGroupAttribute", []string{"acs:ecs:*:*:securitygroup/*"}, ecsPage},

	{"cs:*", []string{"acs:cs:*:*:cluster/*"}, csPage},

	{"ram:ListPoliciesForRole", []string{"acs:ram:*:*:role/*"}, ramPage},
	// The masters' role may have any policies, which are read before one is changed. A system policy's owner is named system.
	{"ram:GetPolicy", []string{"acs:ram:*:*:policy/*"}, ramPage},
	{"ram:ListPolicyVersions", []string{"acs:ram:*:*:policy/*"}, ramPage},
	{"ram:ListEntitiesForPolicy", []string{"acs:ram:*:*:policy/*"}, ramPage},
	// The right to write a policy is the right to gain any right: only for the policies of masters of dedicated clusters.
	{"ram:CreatePolicyVersion", []string{"acs:ram:*:*:policy/k8sMasterRolePolicy-*"}, ramPage},
	{"ram:DeletePolicyVersion", []string{"acs:ram:*:*:policy/k8sMasterRolePolicy-*"}, ramPage},
	{"ram:SetDefaultPolicyVersion", []string{"acs:ram:*:*:policy/k8sMasterRolePolicy-*"}, ramPage},

	{"quotas:*", all, quotasPage},
	{"sts:GetCallerIdentity", all, stsPage},
	{"bss:DescribeAcccount", all, bssPage},
	{"workorder:*", all, supportPage},
}

// Policy returns the document that allows the grants' RAM actions, with one statement for each set of resources. Without actions it has
// no statements, which RAM does not accept. An action missing from the table and a document that is too long are errors.
func Policy(grants []grant.Grant) (Document, error) {
	d := Document{Version: "1"}
	for _, action := range grant.Actions(grants) {
		i := slices.IndexFunc(scopes, func(s scope) bool {
			fits, err := path.Match(s.action, action)
			return err == nil && fits
		})
		if i < 0 {
			return Document{}, fmt.Errorf("nothing says on which resources RAM can allow %s: add a row to scopes in infra/ram/ram.go, with the page", action)
		}
		at := slices.IndexFunc(d.Statement, func(s Statement) bool { return slices.Equal(s.Resource, scopes[i].resources) })
		if at < 0 {
			d.Statement = append(d.Statement, Statement{Effect: "Allow", Resource: scopes[i].resources})
			at = len(d.Statement) - 1
		}
		d.Statement[at].Action = append(d.Statement[at].Action, action)
	}
	if n := len(d.JSON()); n > MaxDocument {
		return Document{}, fmt.Errorf("the policy has %d bytes, and RAM takes %d", n, MaxDocument)
	}
	return d, nil
}

// JSON returns the document in RAM's format, with a line feed at its end.
func (d Document) JSON() []byte { return written(d) }

// Files returns lbremedy's policies and trust policies by name: class/<class>.json for each class with RAM actions; trust/fc.json and
// trust/rrsa.json for the roles; kubeconfig.json for functions that fetch their kubeconfig from the container service; invoke.json for an
// engine that calls functions; runtime.json for accounts where Function Compute has no service-linked role; and all of these as a module
// of Terraform and as a template of ROS.
func Files(grants map[string][]grant.Grant) (map[string][]byte, error) {
	out := map[string][]byte{
		"trust/fc.json":   []byte(trustFC),
		"trust/rrsa.json": []byte(trustRRSA),
		"runtime.json":    runtime.JSON(),
		"invoke.json":     invoke.JSON(),
	}
	for class, g := range grants {
		d, err := Policy(g)
		if err != nil {
			return nil, fmt.Errorf("write the RAM policy of %s: %w", class, err)
		}
		if len(d.Statement) > 0 {
			out["class/"+class+".json"] = d.JSON()
		}
	}
	d, err := Policy([]grant.Grant{grant.DescribeClusterUserKubeconfig})
	if err != nil {
		return nil, fmt.Errorf("write the RAM policy of the kubeconfig: %w", err)
	}
	out["kubeconfig.json"] = d.JSON()
	policies := map[string]string{}
	for file, text := range out {
		if name := strings.TrimSuffix(path.Base(file), ".json"); path.Dir(file) != "trust" {
			policies[name] = string(text)
		}
	}
	out["terraform/main.tf.json"] = terraform(policies)
	out["ros.json"] = ros(slices.Sorted(maps.Keys(grants)), policies)
	return out, nil
}

// trustFC lets Function Compute assume a role for its functions
// (https://www.alibabacloud.com/help/en/functioncompute/fc-3-0/grant-function-compute-permissions-to-access-other-alibaba-cloud-services).
const trustFC = `{
  "Version": "1",
  "Statement": [
    {
      "Effect": "Allow",
      "Action": "sts:AssumeRole",
      "Principal": {
        "Service": [
          "fc.aliyuncs.com"
        ]
      }
    }
  ]
}
`

// trustRRSA lets one ServiceAccount's Pods assume a role. roles.sh and the templates replace the words in capital letters
// (https://www.alibabacloud.com/help/en/ack/ack-managed-and-ack-dedicated/user-guide/use-rrsa-to-authorize-pods-to-access-different-cloud-services).
const trustRRSA = `{
  "Version": "1",
  "Statement": [
    {
      "Effect": "Allow",
      "Action": "sts:AssumeRole",
      "Principal": {
        "Federated": [
          "acs:ram::ACCOUNT:oidc-provider/ack-rrsa-CLUSTER"
        ]
      },
      "Condition": {
        "StringEquals": {
          "oidc:aud": "sts.aliyuncs.com",
          "oidc:iss": "ISSUER",
          "oidc:sub": "system:serviceaccount:NAMESPACE:ROLE"
        }
      }
    }
  ]
}
`

// invoke allows an engine to call functions with our prefix
// (https://www.alibabacloud.com/help/en/functioncompute/fc-3-0/user-guide/policies-for-ram-users).
var invoke = Document{Version: "1", Statement: []Statement{
	{Effect: "Allow", Action: []string{"fc:InvokeFunction"}, Resource: []string{"acs:fc:*:*:functions/lbremedy-*"}},
}}

// runtime allows what Function Compute does with a role without its service-linked role, AliyunServiceRoleForFC: network interfaces in the
// VPC, as in AliyunECSNetworkInterfaceManagementAccess, and log lines. The function's code has these rights too, so the service-linked
// role is better (https://www.alibabacloud.com/help/en/functioncompute/security-and-compliance/service-linked-role-of-function-compute).
var runtime = Document{Version: "1", Statement: []Statement{
	{Effect: "Allow", Resource: all, Action: []string{
		"ecs:CreateNetworkInterface", "ecs:CreateNetworkInterfacePermission", "ecs:DeleteNetworkInterface",
		"ecs:DeleteNetworkInterfacePermission", "ecs:DescribeNetworkInterfacePermissions", "ecs:DescribeNetworkInterfaces",
		"vpc:DescribeVSwitchAttributes",
	}},
	{Effect: "Allow", Resource: []string{"acs:log:*:*:project/*/logstore/*"}, Action: []string{"log:PostLogStoreLogs"}},
}}
