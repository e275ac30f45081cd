// Package busy waits while a load balancer is being changed, and asks if that takes too long.
package busy

import (
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
		"ServiceIsConfiguring", "BackendServer.configuring", "VServerGroupProcessing", "OperationFailed.ListenerStatusNotSupport", "SystemBusy",
		"VpcSystemBusy", "OperationBusy", "OperationFailed.TokenIsProcessing", "ProcessingSameRequest", "ServiceIsStopping", "ResourceInConfiguring.*",
		"ResourceInCreating.*", "Conflict.Lock", "IncorrectStatus.*", "InternalError", "SystemError", "DependencyViolation",
	},
	Texts: []string{
		"system is busy", "vpc system busy", "operation is busy", "service is configuring", "is being configured, please try again later",
		"A previous configuration is pending", "A previous configuration of the * is pending", "A previous operation is pending",
		"because of the status of the listener", "Listener is stopping, please retry later", "The status of * is incorrect", "The Lock * is conflict",
		"the Client Token is processing", "The same request is being processed", "is in creating status", "is creating, please try again later",
		"due to a temporary failure of the server", "wait jobs error: context deadline exceeded",
		"wait jobs error: job * for API * failed", "wait jobs error: [job * for API * failed",
		"code: 500, <nil>", "code: 502, <nil>", "code: 503, <nil>", "code: 504, <nil>", // of an NLB, without a message
		"request processing has failed due to some unknown error", "A system error occurred",
		"resp is nil", "response is nil", "resp nlb is nil", // an answer without content
	},
	Reads:    slices.Concat(ccm.BoundReads, ccm.NetworkReads, []grant.Grant{grant.DescribeLoadBalancerListeners}),
	Deleting: true,
	Diagnose: diagnose,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	why := remedy.CauseOf(causes, c.Event.Message)
	if !c.Lasts() {
		return remedy.Plan{Finding: why.Finding.And("This usually ends without intervention, and the controller retries."), Wait: c.PollInterval()}, nil
	}
	state, err := c.StateOf(ctx, c.Event.Message)
	if err != nil {
		return remedy.Plan{}, err
	}
	return remedy.Plan{
		Finding: why.Finding.And("This has lasted more than 15 minutes. The message is %s.", c.Said()).Then(state),
		Ask:     why.Ask.And("The controller's log has the API and the request ID: %s.", c.LogQuery()),
	}, nil
}

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
		// ListAsynJobs returns the state of a job without a reason (github.com/alibabacloud-go/nlb-20220430/v4).
		Texts:   []string{"wait jobs error: job ", "wait jobs error: [job "},
		Finding: say.F("The API accepted a change of a listener, and the change failed afterwards. No API says why."),
		Ask: say.F("Check the listeners and server groups of the NLB in the console.").
			And("If nothing is wrong with them, open a ticket with Alibaba Cloud and give the ID of the job."),
	},
	{
		// pkg/controller/service/nlbv2/loadbalancer.go of v2.14.0.
		Texts:   []string{"error to delete associated security group"},
		Finding: say.F("The security group that the controller made for source ranges, and now wants to delete, is still in use."),
		Ask: say.F("Find what is in the security group that the message names, in the ECS console, and take it out.").
			And("Look for other security groups with rules that name it, too."),
	},
	{
		Texts:   []string{"wait jobs error"},
		Finding: say.F("The API accepted a change of a listener and did not finish it within 30 seconds, so the controller stopped waiting."),
		Ask: say.F("Check the listeners of the NLB in the console for a change that does not end.").
			And("If there is one, open a ticket with Alibaba Cloud and give the ID of the job."),
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
		Texts:   []string{" is nil"},
		Finding: say.F("The API of Alibaba Cloud gave an answer without content."),
		Ask:     say.F("Check the status page of Alibaba Cloud for the region, and open a ticket with the request ID."),
	},
	{
		Texts:   []string{"temporary failure of the server", ", <nil>", "some unknown error", "internalerror", "a system error occurred", "systemerror"},
		Finding: say.F("The API of Alibaba Cloud had an internal failure."),
		Ask:     say.F("Check the status page of Alibaba Cloud for the region, and open a ticket with the request ID."),
	},
	{
		Finding: say.F("An earlier change of the load balancer is still in progress, or the API is busy."),
		Ask: say.F("Check the load balancer in the console for an operation that does not end, and for others who change it.").
			And("If there are none, open a ticket with Alibaba Cloud."),
	},
}
