// Package busy waits while a load balancer is being changed, and asks if that takes too long.
package busy

import (
	"context"
	_ "embed"
	"fmt"
	"regexp"
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
	why := causeOf(c.Event.Message)
	if !c.Lasts() {
		return remedy.Plan{Finding: why.finding.And("It ends without intervention, and the controller retries."), Wait: c.PollInterval()}, nil
	}
	state, err := state(ctx, c)
	if err != nil {
		return remedy.Plan{}, err
	}
	return remedy.Plan{
		Finding: why.finding.And("This has lasted more than 15 minutes. The message is %s.", c.Said()).Then(state),
		Ask:     why.ask.And("The controller's log has the API and the request ID: %s.", c.LogQuery()),
	}, nil
}

// bracket is where the controller names the load balancer in its message.
var bracket = regexp.MustCompile(`load balancer \[((?:lb|nlb)-[0-9A-Za-z]{1,64})\]`)

// state describes the load balancer and its listeners.
func state(ctx context.Context, c *remedy.Case) (say.Text, error) {
	lb, err := c.Bound(ctx)
	if err != nil {
		return nil, err
	}
	id := c.Service.Labels[ccm.BalancerLabel]
	if m := bracket.FindStringSubmatch(c.Event.Message); id == "" && m != nil {
		id = m[1]
	}
	if lb == nil && id != "" {
		if lb, err = c.Named(ctx, id); err != nil {
			return nil, err
		}
	}
	switch {
	case lb == nil && id != "":
		return say.F("The API finds no load balancer %s.", ccm.Quote(id)), nil
	case lb == nil:
		return say.F("Neither the tag %[1]s=%[2]s nor the name %[2]s finds exactly one load balancer of the Service.", ccm.NameTag, ccm.DefaultName(c.Service)), nil
	case lb.NLB != nil:
		listeners, err := c.Cloud.NLB.Listeners(ctx, lb.ID)
		if err != nil {
			return nil, fmt.Errorf("list listeners of %s: %w", lb.ID, err)
		}
		var idle []say.Text
		for _, l := range listeners {
			if l.Status != "Running" {
				idle = append(idle, say.F("%s:%d is %q", l.Protocol, l.Port, l.Status))
			}
		}
		return describe(lb.ID, lb.NLB.Status, len(listeners), idle), nil
	}
	listeners, err := c.Cloud.SLB.Listeners(ctx, lb.ID)
	if err != nil {
		return nil, fmt.Errorf("list listeners of %s: %w", lb.ID, err)
	}
	var idle []say.Text
	for _, l := range listeners {
		if l.Status != "running" {
			idle = append(idle, say.F("%s:%d is %q", l.Protocol, l.Port, l.Status))
		}
	}
	text := describe(lb.ID, lb.CLB.Status, len(listeners), idle)
	if lb.CLB.Status == "locked" {
		text = text.And("Alibaba Cloud has locked it, usually because of an overdue payment.")
	}
	return text, nil
}

// describe says which of the load balancer's listeners are not running.
func describe(id, status string, listeners int, idle []say.Text) say.Text {
	switch {
	case listeners == 0:
		return say.F("The load balancer %s is %q and has no listeners.", id, status)
	case len(idle) == 0:
		return say.F("The load balancer %s is %q, and all its listeners are running.", id, status)
	}
	return say.F("The load balancer %s is %q. Listeners that are not running: %s.", id, status, say.Clauses(idle, 5))
}
