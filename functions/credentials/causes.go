package credentials

import (
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// The causes that are no matter of the controller's credentials.
const (
	wrongClock  = "wrong clock"
	noEndpoint  = "no endpoint"
	unreachable = "unreachable" // a trouble with the network
)

// restart is how the controller comes to use another configuration.
var restart = say.F("Then restart the controller: %s.", ccm.RestartCommand())

// causes are why the API does not accept the controller's requests, in the order in which they are tried.
var causes = []remedy.Cause{
	{
		Name: "unknown key", Texts: []string{"accesskeyid.notfound", "access key is not found"},
		Finding: say.F("Alibaba Cloud does not know the controller's access key: it was deleted, or it belongs to another site of Alibaba Cloud."),
		Ask:     say.F("Give the controller the access key of a RAM user that exists."),
	},
	{
		Name: "disabled key", Texts: []string{"accesskeyid.inactive", "access key is disabled", "accesskeydisabled"},
		Finding: say.F("The controller's access key is disabled."),
		Ask:     say.F("If the key was not leaked, enable it in the RAM console. Otherwise, give the controller the key of another RAM user."),
	},
	{
		Name: "bad key", Texts: []string{"invalidaccesskeyid"},
		Finding: say.F("Alibaba Cloud rejects the controller's access key."),
		Ask:     say.F("Give the controller the access key of a RAM user that exists and is active."),
	},
	{
		Name: "wrong secret", Texts: []string{"signaturedoesnotmatch", "signature is not matched"},
		Finding: say.F("The controller's signature is wrong: its access key secret does not belong to its access key ID."),
		Ask: say.F("Give the controller the ID and the secret of the same key, without white space around them.").
			And("In the configuration both are encoded in base64, in the environment they are not."),
	},
	{
		Name: wrongClock, Texts: []string{"time stamp or date value is expired", "invalidtimestamp"},
		Finding: say.F("The clock of the controller's node is wrong by more than 15 minutes, so Alibaba Cloud rejects its signatures."),
		Ask:     say.F("Set the clocks of the nodes that run the controller, and keep them in sync with NTP.").Then(ccm.ThenRetries()),
	},
	{
		Name: "expired token", Texts: []string{"securitytoken is expired", "invalidsecuritytoken.expired"},
		Finding: say.F("The controller's temporary token has expired, and it did not get a new one."),
		Ask: say.F("Remove the security token that is configured with the key, or give the controller a key that needs no token.").
			And("Every token expires within hours."),
	},
	{
		Name: "bad token", Texts: []string{"securitytoken"},
		Finding: say.F("Alibaba Cloud rejects the controller's temporary token: it is missing, malformed, or belongs to another key."),
		Ask:     say.F("Give the controller a key and a security token from the same STS response, or a key that needs no token."),
	},
	{
		Name: noEndpoint, Texts: []string{"cannotresolveendpoint"},
		Finding: say.F("The controller knows no API endpoint for its region."),
		Ask: say.F("Set the region in the ConfigMap cloud-config of kube-system to an ID such as cn-hangzhou.").
			And("Or set the endpoints with the variables SLB_ENDPOINT, VPC_ENDPOINT, ECS_ENDPOINT and NLB_ENDPOINT.").Then(restart),
	},
	{
		Name: unreachable, Texts: []string{"no such host", "server misbehaving"},
		Finding: say.F("The controller cannot reach the API: the name of the endpoint does not resolve."),
		Ask: say.F("Check the DNS of the node.").
			And("Its /etc/resolv.conf must name the VPC's DNS servers, 100.100.2.136 and 100.100.2.138, or servers that forward to them."),
	},
	{
		Name: unreachable, Texts: []string{"connection refused"},
		Finding: say.F("The controller cannot reach the API: the endpoint refuses the connection."),
		Ask:     say.F("Check for a proxy, and for an endpoint in the controller's environment that does not exist."),
	},
	{
		Name: unreachable, Texts: []string{"no route to host", "network is unreachable"},
		Finding: say.F("The controller cannot reach the API: there is no route to the endpoint."),
		Ask:     say.F("Check the node's routes to 100.64.0.0/10, the range of the endpoints inside a VPC."),
	},
	{
		Name:    unreachable, // the message says no more
		Finding: say.F("The controller cannot reach the API: the endpoint does not answer in time."),
		Ask: say.F("Check the security group and the network ACL of the node.").
			And("Both must allow traffic to 100.64.0.0/10, the range of the endpoints inside a VPC.").
			And("If the controller uses public endpoints, they must instead allow traffic to the internet through a NAT gateway."),
	},
}

// ask asks to repair what the cause names. Who can do that depends on how the controller runs.
func ask(why remedy.Cause, ctl ccm.Controller) say.Text {
	network, setup := why.Name == unreachable, why.Name == wrongClock || why.Name == noEndpoint
	switch {
	case network && ctl.DaemonSet:
		return why.Ask.Then(ccm.ThenRetries())
	case network:
		return say.F("On a managed cluster, ACK runs the network of the control plane: open a ticket with Alibaba Cloud. On any other cluster: %s", why.Ask)
	case setup && ctl.DaemonSet:
		return why.Ask
	case setup:
		return say.F("On a managed cluster, only Alibaba Cloud can fix this: open a ticket.")
	case ctl.AccessKey:
		return why.Ask.Then(restart)
	case ctl.DaemonSet:
		role := say.F("Check that the node still has its RAM role and that its metadata service at 100.100.100.200 answers.")
		return say.F("Check the controller's configuration, the ConfigMap cloud-config in kube-system.").
			And("If it has an access key: %s If not: %s", why.Ask, role).Then(restart)
	}
	return say.F("On a managed cluster, the controller's credentials belong to ACK: authorize the service roles of ACK again in its console.").
		And("If that does not help, open a ticket with Alibaba Cloud.")
}
