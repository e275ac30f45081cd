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
)

//go:embed doc.md
var doc string

// Remedy waits until the change ends. Meanwhile it calls no API.
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
		return remedy.Plan{Finding: why.finding + " It ends by itself, and the controller tries again.", Wait: c.PollInterval()}, nil
	}
	state, err := state(ctx, c)
	if err != nil {
		return remedy.Plan{}, err
	}
	return remedy.Plan{
		Finding: fmt.Sprintf("%s It has not ended within 15 minutes; the message is %s. %s", why.finding, c.Said(), state),
		Ask:     fmt.Sprintf("%s The controller's log has the API and the request ID: %s.", why.ask, c.LogQuery()),
	}, nil
}

// bracket is where the controller names the load balancer in its message.
var bracket = regexp.MustCompile(`load balancer \[((?:lb|nlb)-[0-9A-Za-z]{1,64})\]`)

// state describes the load balancer and its listeners, in sentences.
func state(ctx context.Context, c *remedy.Case) (string, error) {
	lb, err := c.Bound(ctx)
	if err != nil {
		return "", err
	}
	id := c.Service.Labels[ccm.BalancerLabel]
	if m := bracket.FindStringSubmatch(c.Event.Message); id == "" && m != nil {
		id = m[1]
	}
	if lb == nil && id != "" {
		if lb, err = c.Named(ctx, id); err != nil {
			return "", err
		}
	}
	var status string
	var all int
	var idle []string
	switch {
	case lb == nil && id != "":
		return fmt.Sprintf("The API knows no load balancer %s.", ccm.Quote(id)), nil
	case lb == nil:
		return fmt.Sprintf("No load balancer of the Service was found, neither by the tag %s=%[2]s nor by the name %[2]s.", ccm.NameTag, ccm.DefaultName(c.Service)), nil
	case lb.NLB != nil:
		status = lb.NLB.Status
		listeners, err := c.Cloud.NLB.Listeners(ctx, lb.ID)
		if err != nil {
			return "", fmt.Errorf("list listeners of %s: %w", lb.ID, err)
		}
		all = len(listeners)
		for _, l := range listeners {
			if l.Status != "Running" {
				idle = append(idle, fmt.Sprintf("%s:%d is %q", l.Protocol, l.Port, l.Status))
			}
		}
	default:
		status = lb.CLB.Status
		listeners, err := c.Cloud.SLB.Listeners(ctx, lb.ID)
		if err != nil {
			return "", fmt.Errorf("list listeners of %s: %w", lb.ID, err)
		}
		all = len(listeners)
		for _, l := range listeners {
			if l.Status != "running" {
				idle = append(idle, fmt.Sprintf("%s:%d is %q", l.Protocol, l.Port, l.Status))
			}
		}
	}
	text := fmt.Sprintf("The load balancer %s is %q", lb.ID, status)
	switch {
	case all == 0:
		text += " and has no listeners."
	case len(idle) == 0:
		text += ", and all its listeners are running."
	default:
		text += fmt.Sprintf(", and of its listeners %s.", remedy.List(idle, 5))
	}
	if lb.CLB != nil && status == "locked" {
		text += " Alibaba Cloud has locked it, mostly for an overdue payment."
	}
	return text, nil
}
