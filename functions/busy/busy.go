// Package busy waits while a load balancer is being changed, and asks if that takes too long.
package busy

import (
	"cmp"
	"context"
	_ "embed"
	"slices"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed doc.md
var doc string

// Remedy waits for the operation in progress to end. It calls no API while it waits.
var Remedy = &remedy.Remedy{
	Class: "busy",
	Doc:   doc,
	Codes: []string{
		"ServiceIsConfiguring", "BackendServer.configuring", "VServerGroupProcessing", "OperationFailed.ListenerStatusNotSupport",
		"SystemBusy", "VpcSystemBusy", "OperationBusy", "OperationFailed.TokenIsProcessing", "ProcessingSameRequest",
		"ServiceIsStopping", "ResourceInConfiguring.*", "ResourceInCreating.*", "Conflict.Lock", "IncorrectStatus.*",
	},
	Texts: []string{
		"system is busy", "vpc system busy", "operation is busy",
		"service is configuring", "is being configured, please try again later",
		"A previous configuration is pending", "A previous configuration of the * is pending", "A previous operation is pending",
		"because of the status of the listener", "Listener is stopping, please retry later", "The status of * is incorrect",
		"the Client Token is processing", "The same request is being processed",
		"The Lock * is conflict",
		"is in creating status", "is creating, please try again later",
		"due to a temporary failure of the server",
	},
	Reads:    slices.Concat(ccm.BoundReads, ccm.NetworkReads, []grant.Grant{grant.DescribeLoadBalancerListeners}),
	Deleting: true,
	Diagnose: diagnose,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	why := remedy.CauseOf(causes, c.Event.Message)
	if !c.Lasts() {
		return remedy.Plan{Finding: why.Finding.And("It ends without intervention, and the controller retries."), Wait: c.PollInterval()}, nil
	}
	state, err := state(ctx, c)
	if err != nil {
		return remedy.Plan{}, err
	}
	return remedy.Plan{
		Finding: why.Finding.And("This has lasted more than 15 minutes. The message is %s.", c.Said()).Then(state),
		Ask:     why.Ask.And("The controller's log has the API and the request ID: %s.", c.LogQuery()),
	}, nil
}

// state describes the load balancer of the Service and its listeners. Where the controller's way to find it
// fails, the label on the Service and the message still tell which one is busy.
func state(ctx context.Context, c *remedy.Case) (say.Text, error) {
	lb, err := c.Bound(ctx)
	id := cmp.Or(c.Service.Labels[ccm.BalancerLabel], ccm.BalancerOf(c.Event.Message))
	if err == nil && lb == nil && id != "" {
		lb, err = c.Named(ctx, id)
	}
	switch {
	case err != nil:
		return nil, err
	case lb == nil && id != "":
		return say.F("The API finds no load balancer %s.", ccm.Quote(id)), nil
	case lb == nil:
		return say.F("Neither the tag %[1]s=%[2]s nor the name %[2]s finds exactly one load balancer of the Service.", ccm.NameTag, ccm.DefaultName(c.Service)), nil
	}
	return c.State(ctx, lb)
}

// causes are the operations that keep the API from accepting another.
var causes = []remedy.Cause{
	{
		Texts:   []string{"token is processing", "tokenisprocessing"},
		Finding: say.F("An earlier request with the same client token is still being processed."),
		Ask: say.F("The controller keeps the client token of a creation in memory.").
			And("If someone deleted the load balancer by hand, restart the controller to give it a new token: %s.", ccm.RestartCommand()).
			And("On a managed cluster, ask Alibaba Cloud to restart it, or recreate the Service under another name."),
	},
	{
		Texts:   []string{"the lock ", "conflict.lock"},
		Finding: say.F("Another operation holds the lock of the resource."),
		Ask: say.F("Find out who else keeps changing the load balancer: a second controller, Terraform, a person.").
			And("If nobody does, open a ticket with Alibaba Cloud."),
	},
	{
		Texts:   []string{"in creating status", "loadbalancer is creating", "resourceincreating.loadbalancer"},
		Finding: say.F("The NLB of the Service is still being created."),
		Ask:     say.F("Check the NLB in the console. If its creation hangs, open a ticket with Alibaba Cloud and give its ID."),
	},
	{
		Texts:   []string{"status of the listener", "listenerstatusnotsupport", "incorrectstatus", "] is incorrect"},
		Finding: say.F("The resource is in a state in which it cannot be changed."),
		Ask: say.F("Check the load balancer and its listeners in the console. If someone has stopped a listener, start it.").
			And("If a listener stays between two states, open a ticket with Alibaba Cloud."),
	},
	{
		Texts:   []string{"temporary failure of the server"},
		Finding: say.F("The API of Alibaba Cloud had an internal failure."),
		Ask:     say.F("Check the status page of Alibaba Cloud for the region, and open a ticket with the request ID."),
	},
	{
		Finding: say.F("An earlier change of the load balancer is still in progress, or the API is busy."),
		Ask: say.F("Check the load balancer in the console for an operation that does not end, and for others who change it.").
			And("If there are none, open a ticket with Alibaba Cloud."),
	},
}
