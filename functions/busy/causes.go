package busy

import "strings"

// A cause is a change or a failure that keeps the load balancer busy.
type cause struct {
	texts        []string // in the message, in lower case
	finding, ask string
}

var causes = []cause{
	{
		[]string{"token is processing", "tokenisprocessing"},
		"An earlier request with the same client token is still being processed.",
		"The controller keeps the token of a creation in its memory. If the load balancer was deleted by hand, restart the controller so that it takes a new token: kubectl -n kube-system rollout restart daemonset cloud-controller-manager; on a managed cluster ask Alibaba Cloud to, or create the Service again under another name.",
	},
	{
		[]string{"the lock ", "conflict.lock"},
		"Another operation holds the lock of the resource.",
		"Look for who else changes the load balancer all the time: a second controller, Terraform, a person. If nobody does, open a ticket with Alibaba Cloud.",
	},
	{
		[]string{"in creating status", "loadbalancer is creating", "resourceincreating.loadbalancer"},
		"The NLB of the Service is still being created.",
		"Look at the NLB in the console. If its creation hangs, open a ticket with Alibaba Cloud with its ID.",
	},
	{
		[]string{"status of the listener", "listenerstatusnotsupport", "incorrectstatus", "] is incorrect"},
		"The resource is in a state in which it can't be changed.",
		"Look at the load balancer and its listeners in the console. Start a listener that somebody has stopped; if one stays between two states, open a ticket with Alibaba Cloud.",
	},
	{
		[]string{"temporary failure of the server"},
		"The API of Alibaba Cloud failed for a reason of its own.",
		"Look at the status page of Alibaba Cloud for the region, and open a ticket with the request ID.",
	},
}

// causeOf returns the cause that the message names.
func causeOf(message string) cause {
	message = strings.ToLower(message)
	for _, why := range causes {
		for _, text := range why.texts {
			if strings.Contains(message, text) {
				return why
			}
		}
	}
	return cause{
		finding: "An earlier change of the load balancer is still being carried out, or the API is busy.",
		ask:     "Look at the load balancer in the console for an operation that does not end, and for who else changes it. If there is none, open a ticket with Alibaba Cloud.",
	}
}
