package credentials

import (
	"regexp"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A trouble is a reason why the API does not accept the controller's requests.
type trouble struct {
	texts   []string // parts of the message, in lower case: of its text or its code
	cause   string
	finding say.Text
	ask     func(ccm.Controller) say.Text
}

// unreachable is the cause of a trouble with the network.
const unreachable = "unreachable"

// troubles are tried in this order.
var troubles = []trouble{
	{
		[]string{"accesskeyid.notfound", "access key is not found"}, "unknown key",
		say.F("Alibaba Cloud does not know the controller's access key: it was deleted, or it belongs to another site of Alibaba Cloud."),
		keys(say.F("Give the controller the access key of a RAM user that exists.")),
	},
	{
		[]string{"accesskeyid.inactive", "access key is disabled", "accesskeydisabled"}, "disabled key",
		say.F("The controller's access key is disabled."),
		keys(say.F("If the key was not leaked, enable it in the RAM console. Otherwise, give the controller the key of another RAM user.")),
	},
	{
		[]string{"invalidaccesskeyid"}, "bad key",
		say.F("Alibaba Cloud rejects the controller's access key."),
		keys(say.F("Give the controller the access key of a RAM user that exists and is active.")),
	},
	{
		[]string{"signaturedoesnotmatch", "signature is not matched"}, "wrong secret",
		say.F("The controller's signature is wrong: its access key secret does not belong to its access key ID."),
		keys(say.F("Give the controller the ID and the secret of the same key, without white space around them.").
			And("In the configuration both are encoded in base64, in the environment they are not.")),
	},
	{
		[]string{"time stamp or date value is expired", "invalidtimestamp"}, "wrong clock",
		say.F("The clock of the controller's node is wrong by more than 15 minutes, so Alibaba Cloud rejects its signatures."),
		where(ticket, say.F("Set the clocks of the nodes that run the controller, and keep them in sync with NTP.").Then(retries)),
	},
	{
		[]string{"securitytoken is expired", "invalidsecuritytoken.expired"}, "expired token",
		say.F("The controller's temporary token has expired, and it did not get a new one."),
		keys(say.F("Remove the security token that is configured with the key, or give the controller a key that needs no token.").
			And("Every token expires within hours.")),
	},
	{
		[]string{"securitytoken"}, "bad token",
		say.F("Alibaba Cloud rejects the controller's temporary token: it is missing, malformed, or belongs to another key."),
		keys(say.F("Give the controller a key and a security token from the same STS response, or a key that needs no token.")),
	},
	{
		[]string{"cannotresolveendpoint"}, "no endpoint",
		say.F("The controller knows no API endpoint for its region."),
		where(ticket, say.F("Set the region in the ConfigMap cloud-config of kube-system to an ID such as cn-hangzhou.").
			And("Or set the endpoints with the variables SLB_ENDPOINT, VPC_ENDPOINT, ECS_ENDPOINT and NLB_ENDPOINT.").Then(restart)),
	},
	{
		[]string{"no such host", "server misbehaving"}, unreachable,
		say.F("The controller cannot reach the API: the name of the endpoint does not resolve."),
		network(say.F("Check the DNS of the node.").
			And("Its /etc/resolv.conf must name the VPC's DNS servers, 100.100.2.136 and 100.100.2.138, or servers that forward to them.")),
	},
	{
		[]string{"connection refused"}, unreachable,
		say.F("The controller cannot reach the API: the endpoint refuses the connection."),
		network(say.F("Check for a proxy, and for an endpoint in the controller's environment that does not exist.")),
	},
	{
		[]string{"no route to host", "network is unreachable"}, unreachable,
		say.F("The controller cannot reach the API: there is no route to the endpoint."),
		network(say.F("Check the node's routes to 100.64.0.0/10, the range of the endpoints inside a VPC.")),
	},
}

// silent is the trouble of a message that names no other.
var silent = trouble{
	cause:   unreachable,
	finding: say.F("The controller cannot reach the API: the endpoint does not answer in time."),
	ask: network(say.F("Check the security group and the network ACL of the node.").
		And("Both must allow traffic to 100.64.0.0/10, the range of the endpoints inside a VPC.").
		And("If the controller uses public endpoints, they must instead allow traffic to the internet through a NAT gateway.")),
}

var (
	ticket  = say.F("On a managed cluster, only Alibaba Cloud can fix this: open a ticket.")
	retries = ccm.ThenRetries()
	restart = say.F("Then restart the controller: %s.", "kubectl -n kube-system rollout restart daemonset "+ccm.DaemonSet)
)

// where asks for one thing if the cluster has no DaemonSet of the controller, else for the other.
func where(hidden, found say.Text) func(ccm.Controller) say.Text {
	return func(ctl ccm.Controller) say.Text {
		if ctl.DaemonSet {
			return found
		}
		return hidden
	}
}

// network asks for a repair of the network between the controller and the API.
func network(check say.Text) func(ccm.Controller) say.Text {
	return where(say.F("On a managed cluster, ACK runs the network of the control plane: open a ticket with Alibaba Cloud. On any other cluster: %s", check),
		check.Then(retries))
}

// keys asks for a repair of what the controller signs with.
func keys(withKey say.Text) func(ccm.Controller) say.Text {
	role := say.F("Check that the node still has its RAM role and that its metadata service at 100.100.100.200 answers.")
	return func(ctl ccm.Controller) say.Text {
		switch {
		case ctl.AccessKey:
			return withKey.Then(restart)
		case ctl.DaemonSet:
			return say.F("Check the controller's configuration, the ConfigMap cloud-config in kube-system.").
				And("If it has an access key: %s If not: %s", withKey, role).Then(restart)
		}
		return say.F("On a managed cluster, the controller's credentials belong to ACK: authorize the service roles of ACK again in its console.").
			And("If that does not help, open a ticket with Alibaba Cloud.")
	}
}

// host finds the host that the controller tried to reach: after "lookup", or in an address.
var host = regexp.MustCompile(`(?i)lookup ([a-z0-9][a-z0-9.-]{0,252}\b)|https?://([a-z0-9][a-z0-9.-]{0,252}\b)|dial tcp (\[?[0-9a-f.:]{2,60}\]?:\d+)`)

// troubleOf returns the trouble that the message is about.
func troubleOf(message string) trouble {
	lower := strings.ToLower(message)
	in := func(text string) bool { return strings.Contains(lower, text) }
	t := silent
	if i := slices.IndexFunc(troubles, func(t trouble) bool { return slices.ContainsFunc(t.texts, in) }); i >= 0 {
		t = troubles[i]
	}
	if m := host.FindStringSubmatch(message); m != nil && t.cause == unreachable {
		t.finding = t.finding.And("The endpoint is %s.", strings.ToLower(m[1]+m[2]+m[3]))
	}
	return t
}
