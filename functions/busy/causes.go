package busy

import (
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/say"
)

// A cause is an operation that keeps the API from accepting another.
type cause struct {
	texts        []string // parts of the message, in lower case
	finding, ask say.Text
}

var causes = []cause{
	{
		[]string{"token is processing", "tokenisprocessing"},
		say.F("An earlier request with the same client token is still being processed."),
		say.F("The controller keeps the client token of a creation in memory.").
			And("If someone deleted the load balancer by hand, restart the controller to give it a new token: %s.",
				"kubectl -n kube-system rollout restart daemonset cloud-controller-manager").
			And("On a managed cluster, ask Alibaba Cloud to restart it, or recreate the Service under another name."),
	},
	{
		[]string{"the lock ", "conflict.lock"},
		say.F("Another operation holds the lock of the resource."),
		say.F("Find out who else keeps changing the load balancer: a second controller, Terraform, a person.").
			And("If nobody does, open a ticket with Alibaba Cloud."),
	},
	{
		[]string{"in creating status", "loadbalancer is creating", "resourceincreating.loadbalancer"},
		say.F("The NLB of the Service is still being created."),
		say.F("Check the NLB in the console. If its creation hangs, open a ticket with Alibaba Cloud and give its ID."),
	},
	{
		[]string{"status of the listener", "listenerstatusnotsupport", "incorrectstatus", "] is incorrect"},
		say.F("The resource is in a state in which it cannot be changed."),
		say.F("Check the load balancer and its listeners in the console. If someone has stopped a listener, start it.").
			And("If a listener stays between two states, open a ticket with Alibaba Cloud."),
	},
	{
		[]string{"temporary failure of the server"},
		say.F("The API of Alibaba Cloud had an internal failure."),
		say.F("Check the status page of Alibaba Cloud for the region, and open a ticket with the request ID."),
	},
}

// causeOf returns the cause that the message names.
func causeOf(message string) cause {
	message = strings.ToLower(message)
	in := func(text string) bool { return strings.Contains(message, text) }
	if i := slices.IndexFunc(causes, func(why cause) bool { return slices.ContainsFunc(why.texts, in) }); i >= 0 {
		return causes[i]
	}
	return cause{
		finding: say.F("An earlier change of the load balancer is still in progress, or the API is busy."),
		ask: say.F("Check the load balancer in the console for an operation that does not end, and for others who change it.").
			And("If there are none, open a ticket with Alibaba Cloud."),
	}
}
