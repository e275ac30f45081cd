package ccm

import (
	"strings"

	"github.com/lbremedy/lbremedy/shared/regex"
)

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

// host is where the controller names the host that it tried to reach: after "lookup", or in an address.
var host = regex.New(`(?i)lookup ([a-z0-9][a-z0-9.-]{0,252}\b)|https?://([a-z0-9][a-z0-9.-]{0,252}\b)|dial tcp (\[?[0-9a-f.:]{2,60}\]?:\d+)`)

// EndpointOf returns the host, or the address with its port, that the controller tried to reach according
// to its message, in lower case; empty if the message names none.
func EndpointOf(message string) string {
	m := host().FindStringSubmatch(message)
	if m == nil {
		return ""
	}
	return strings.ToLower(m[1] + m[2] + m[3])
}
