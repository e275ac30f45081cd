package credentials

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
)

// A trouble is what keeps the controller from the API.
type trouble struct {
	cause   string
	finding string
	ask     func(home) string
}

// What a person does next.
const (
	restart = "Then restart it: kubectl -n kube-system rollout restart daemonset cloud-controller-manager."
	roles   = "On a managed cluster the controller's credentials are ACK's: authorise the service roles of ACK again in its console, and open a ticket with Alibaba Cloud if that does not help."
	desk    = "On a managed cluster only Alibaba Cloud can set this right: open a ticket."
)

// keys returns the question about a key or a role that the controller signs with.
func keys(withKey, withRole string) func(home) string {
	return func(h home) string {
		switch {
		case h.accessKey:
			return withKey + " " + restart
		case h.found:
			return fmt.Sprintf("Look into its configuration, the ConfigMap cloud-config in kube-system. If that holds an access key: %s If not: %s %s", withKey, withRole, restart)
		}
		return roles
	}
}

// host finds the host that was to be reached: after "lookup", or in an address.
var host = regexp.MustCompile(`(?i)lookup ([a-z0-9][a-z0-9.-]{0,252}\b)|https?://([a-z0-9][a-z0-9.-]{0,252}\b)|dial tcp (\[?[0-9a-f.:]{2,60}\]?:\d+)`)

// troubleOf returns the trouble that the message names.
func troubleOf(message string) trouble {
	lower := strings.ToLower(message)
	has := func(texts ...string) bool {
		for _, text := range texts {
			if strings.Contains(lower, text) {
				return true
			}
		}
		return false
	}
	where := "the endpoint"
	if m := host.FindStringSubmatch(message); m != nil {
		where = "the endpoint " + strings.ToLower(m[1]+m[2]+m[3])
	}
	const role = "Look whether the node still has its RAM role, and whether its metadata service at 100.100.100.200 answers."
	const key = "Give it the key of a RAM user that exists and is active."
	switch {
	case has("accesskeyid.notfound", "access key is not found"):
		return trouble{"unknown key", "Alibaba Cloud does not know the access key that the controller signs with: it was deleted, or it belongs to another site of Alibaba Cloud.", keys("Give it the key of a RAM user that exists.", role)}
	case has("accesskeyid.inactive", "access key is disabled", "accesskeydisabled"):
		return trouble{"disabled key", "The access key that the controller signs with is disabled.", keys("Switch the key on again in the RAM console if it was not leaked; else give the controller the key of another RAM user.", role)}
	case has("invalidaccesskeyid"):
		return trouble{"bad key", "Alibaba Cloud refuses the access key that the controller signs with.", keys(key, role)}
	case has("signaturedoesnotmatch", "signature is not matched"):
		return trouble{"wrong secret", "The controller's signature is wrong: its access key secret does not belong to its access key ID.", keys("Write ID and secret of one key into it, without white space around them; the configuration wants both in base64, the environment as they are.", role)}
	case has("time stamp or date value is expired", "invalidtimestamp"):
		return trouble{"wrong clock", "The clock of the controller's node is wrong by more than 15 minutes, so that Alibaba Cloud takes no signature of it.", func(h home) string {
			if !h.found {
				return desk
			}
			return "Set the clocks of the nodes that the controller runs on, and keep them set with NTP. The controller tries again by itself within 5 minutes."
		}}
	case has("securitytoken is expired", "invalidsecuritytoken.expired"):
		return trouble{"expired token", "The temporary token that the controller signs with has expired, and it got no new one.", keys("Remove the security token beside the key, or give it a key that needs none: a token never outlives its hours.", role)}
	case has("securitytoken"):
		return trouble{"bad token", "Alibaba Cloud refuses the temporary token that the controller signs with: it is missing, malformed, or of another key.", keys("Give it a key and a security token of one answer of STS, or a key that needs no token.", role)}
	case has("cannotresolveendpoint"):
		return trouble{"no endpoint", "The controller knows no endpoint of the API for its region.", func(h home) string {
			if !h.found {
				return desk
			}
			return "Set the region in the ConfigMap cloud-config of kube-system to an ID such as cn-hangzhou, or name the endpoints by the variables SLB_ENDPOINT, VPC_ENDPOINT, ECS_ENDPOINT and NLB_ENDPOINT. " + restart
		}}
	case has("no such host", "server misbehaving"):
		return unreachable(where, "its name is not resolved", "Look at the DNS of the node: /etc/resolv.conf must name the DNS servers of the VPC, 100.100.2.136 and 100.100.2.138, or ones that forward to them.")
	case has("connection refused"):
		return unreachable(where, "the connection is refused", "Look for a proxy, and for an endpoint in the controller's environment that does not exist.")
	case has("no route to host", "network is unreachable"):
		return unreachable(where, "there is no route to it", "Look at the routes of the node to 100.64.0.0/10, where the endpoints inside a VPC are.")
	}
	return unreachable(where, "no answer comes in time", "Look at the security group and the network ACL of the node: both must let it out to 100.64.0.0/10, where the endpoints inside a VPC are, or to the internet through a NAT gateway if the controller uses public endpoints.")
}

func unreachable(where, why, ask string) trouble {
	return trouble{"unreachable", fmt.Sprintf("The controller can't reach %s: %s.", where, why), func(h home) string {
		if !h.found {
			return "Open a ticket with Alibaba Cloud: the network of the control plane is ACK's. If the cluster is not managed: " + strings.ToLower(ask[:1]) + ask[1:]
		}
		return fmt.Sprintf("%s The controller tries again by itself within %.0f minutes.", ask, ccm.Retry.Minutes())
	}}
}
