package apiunreachable

import (
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

const (
	noConnection = "no connection"
	unsteady     = "unsteady connection"
	page         = "a page in place of an answer"
	metadata     = "metadata service"
)

var (
	restart  = say.F("Then restart the controller: %s.", ccm.RestartCommand())
	variable = say.F("Check the variables %s and %s of the controller, and whether the proxy runs and lets it connect to %s.",
		"HTTPS_PROXY", "NO_PROXY", "*.aliyuncs.com")
	inside = say.F("Both must allow traffic to 100.64.0.0/10, the range of the endpoints inside a VPC.").
		And("If the controller uses public endpoints, they must instead allow traffic to the internet through a NAT gateway.")
)

// causes are in the order in which they are tried.
var causes = []remedy.Cause{
	{
		Name: "no endpoint", Texts: []string{"cannotresolveendpoint"},
		Finding: say.F("The controller knows no API endpoint for its region."),
		Ask: say.F("Set the region in the ConfigMap cloud-config of kube-system to an ID such as cn-hangzhou.").
			And("Or set the endpoints with the variables SLB_ENDPOINT, VPC_ENDPOINT, ECS_ENDPOINT and NLB_ENDPOINT.").Then(restart),
	},
	{
		// With both values in its configuration, the controller requests neither (NewMetaData in pkg/provider/alibaba/base/metadata.go).
		Name: metadata, Texts: []string{"://100.100.100.200/"},
		Finding: say.F("The metadata service of the controller's node, at 100.100.100.200, does not answer."),
		Ask: say.F("Check that nothing on the node blocks 100.100.100.200: a firewall, a network policy, a route, a proxy without an exception for it.").
			And("Or name vpcid and vswitchid in the ConfigMap cloud-config of kube-system: then the controller does not ask there for them.").Then(restart),
	},
	{
		Name: "proxy", Texts: []string{
			"proxyconnect", ": proxy authentication required", ": forbidden", ": bad gateway", ": service unavailable", ": gateway time",
		},
		Finding: say.F("The controller cannot reach the API: its proxy is unreachable or refuses the connection."),
		Ask:     variable,
	},
	{
		Name: "certificate", Texts: []string{"certificate has expired or is not yet valid"},
		Finding: say.F("The controller rejects the certificate of the endpoint: it has expired or is not yet valid."),
		Ask: say.F("Compare the time in the message with the real one.").
			And("If it is wrong, set the clocks of the nodes that run the controller, and keep them in sync with NTP.").
			And("If it is right, find the proxy or firewall that presents this certificate, and exempt the endpoint."),
	},
	{
		Name: "certificate", Texts: []string{"x509", "failed to verify certificate"},
		Finding: say.F("The controller rejects the certificate of the endpoint: the server does not prove to be Alibaba Cloud."),
		Ask: say.F("Find the proxy or firewall that opens TLS connections on the way, and exempt the endpoint.").
			And("If there is none, update the root certificates in the controller's image, and check that the DNS returns the addresses of Alibaba Cloud."),
	},
	{
		Name: "no TLS", Texts: []string{"remote error: tls", "tls: ", "http response to https client", "malformed http response"},
		Finding: say.F("The server at the endpoint does not speak TLS with the controller: a proxy, a firewall or another server."),
		Ask: say.F("Check for a proxy or firewall on the way, for a wrong endpoint in the controller's environment and for a DNS that returns other addresses.").
			Then(variable),
	},
	{
		Name: page, Texts: []string{"message: <", "jsonunmarshalerror", "invalid character '<'"},
		Finding: say.F("Something other than the API answers: a page in place of an API response. Proxies and gateways send such pages."),
		Ask: say.F("Find what sends the page: call the endpoint from the controller's node with curl.").
			Then(variable).And("If the page is from Alibaba Cloud, check its status page for the region."),
	},
	{
		Name: noConnection, Texts: []string{"no such host"},
		Finding: say.F("The controller cannot reach the API: the name of the endpoint does not resolve."),
		Ask: say.F("Check that the endpoint has the cluster's region in its name: the region is in the ConfigMap cloud-config of kube-system.").
			And("If it is right, check the DNS of the node.").
			And("Its /etc/resolv.conf must name the VPC's DNS servers, 100.100.2.136 and 100.100.2.138, or servers that forward to them."),
	},
	{
		Name: unsteady, Texts: []string{"lookup "},
		Finding: say.F("The controller cannot reach the API: the DNS servers do not resolve the name of the endpoint."),
		Ask: say.F("Check the DNS servers in /etc/resolv.conf of the node, and that UDP and TCP port 53 are open to them.").
			And("The VPC's DNS servers are 100.100.2.136 and 100.100.2.138."),
	},
	{
		Name: noConnection, Texts: []string{"connection refused"},
		Finding: say.F("The controller cannot reach the API: the endpoint refuses the connection."),
		Ask:     say.F("Check for a proxy, and for an endpoint in the controller's environment that does not exist."),
	},
	{
		Name: noConnection, Texts: []string{"no route to host", "network is unreachable"},
		Finding: say.F("The controller cannot reach the API: there is no route to the endpoint."),
		Ask:     say.F("Check the node's routes to 100.64.0.0/10, the range of the endpoints inside a VPC."),
	},
	{
		Name: unsteady, Texts: []string{"cannot assign requested address", "too many open files"},
		Finding: say.F("The controller cannot reach the API: its node has no free local port or file descriptor for another connection."),
		Ask:     say.F("Find the process on the node that holds so many connections (%s), and restart it. It may be the controller.", "ss -tanp"),
	},
	{
		Name: unsteady, Texts: []string{
			"connection reset", "broken pipe", ": eof", "unexpected eof", "idle connection", "goaway", "connection broken", "connection lost",
			"end of json input",
		},
		Finding: say.F("The connection from the controller to the API was cut."),
		Ask: say.F("Check what is between the node and the endpoint: a proxy, a firewall, a NAT gateway at its limit of connections.").
			And("If there is nothing, check the status page of Alibaba Cloud for the region."),
	},
	{
		Name:    unsteady, // the message says no more
		Finding: say.F("The controller cannot reach the API: the endpoint does not answer in time."),
		Ask:     say.F("Check the security group and the network ACL of the node.").Then(inside),
	},
}
