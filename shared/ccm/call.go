package ccm

import (
	"strings"

	"github.com/lbremedy/lbremedy/shared/regex"
)

// frequent lists the APIs that the controller calls in every sync (pkg/provider/alibaba).
var frequent = []string{
	"DescribeLoadBalancers", "DescribeLoadBalancerAttribute", "DescribeLoadBalancerListeners",
	"DescribeVServerGroups", "DescribeVServerGroupAttribute",
	"AddVServerGroupBackendServers", "RemoveVServerGroupBackendServers", "ListTagResources",
	"ListLoadBalancers", "GetLoadBalancerAttribute", "ListListeners", "ListServerGroups", "ListServerGroupServers", "AddServersToServerGroup",
	"DescribeNetworkInterfaces", "DescribeVpcAttribute", "DescribeVSwitches", "DescribeEipAddresses",
}

// ProductOf returns the quota center's code of the product that a controller message is about: "slb", "nlb", "ecs" or "vpc". Only messages
// of ECS and VPC name the API; all others are about load balancers.
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

// host matches the host that the controller tried to reach: after "lookup", or in an address.
var host = regex.New(`(?i)lookup ([a-z0-9][a-z0-9.-]{0,252}\b)|https?://([a-z0-9][a-z0-9.-]{0,252}\b)|dial tcp (\[?[0-9a-f.:]{2,60}\]?:\d+)`)

// EndpointOf returns the host, or address with port, that the controller tried to reach, in lower case, or "".
func EndpointOf(message string) string {
	m := host().FindStringSubmatch(message)
	if m == nil {
		return ""
	}
	return strings.ToLower(m[1] + m[2] + m[3])
}
