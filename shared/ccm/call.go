package ccm

import "strings"

// frequent are the APIs that the controller calls in every sync (pkg/provider/alibaba).
var frequent = []string{
	"DescribeLoadBalancers", "DescribeLoadBalancerAttribute", "DescribeLoadBalancerListeners",
	"DescribeVServerGroups", "DescribeVServerGroupAttribute",
	"AddVServerGroupBackendServers", "RemoveVServerGroupBackendServers", "ListTagResources",
	"ListLoadBalancers", "GetLoadBalancerAttribute", "ListListeners", "ListServerGroups", "ListServerGroupServers", "AddServersToServerGroup",
	"DescribeNetworkInterfaces", "DescribeVpcAttribute", "DescribeVSwitches", "DescribeEipAddresses",
}

// ProductOf returns the product whose API a message of the controller about a Service is about, by
// the code that the quota center has for it: "slb", "nlb", "ecs" or "vpc". Only the messages of ECS
// and VPC name the API that was called; all others are those of the load balancers.
func ProductOf(message string, network bool) string {
	for _, api := range []struct{ name, product string }{
		{"DescribeNetworkInterfaces", "ecs"}, {"SecurityGroup", "ecs"},
		{"DescribeVpcAttribute", "vpc"}, {"DescribeVSwitches", "vpc"}, {"DescribeEipAddresses", "vpc"},
	} {
		if strings.Contains(message, "call "+api.name) || strings.Contains(message, "API: "+api.name) {
			return api.product
		}
	}
	if network {
		return "nlb"
	}
	return "slb"
}
