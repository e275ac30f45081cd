// Package throttling waits while Alibaba Cloud limits the rate of calls, and asks if that lasts.
package throttling

import (
	"context"
	_ "embed"
	"slices"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy waits: more calls would make it worse. It calls no API while it waits.
var Remedy = &remedy.Remedy{
	Class: "throttling",
	Doc:   doc,
	Codes: []string{"Throttling*"},
	Texts: []string{
		"Request was denied due to user flow control",
		"Request was denied due to api flow control",
		"Request was denied due to request throttling",
	},
	Reads:    append([]grant.Grant{grant.ListProductQuotas}, remedy.PeerReads...),
	Scope:    remedy.Cluster,
	Deleting: true,
	Diagnose: diagnose,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	product := ccm.ProductOf(c.Event.Message, ccm.NLB(c.Service))
	finding := remedy.CauseOf(causes(ccm.ProductName(product)), c.Event.Message).Finding
	if !c.Lasts() {
		return remedy.Plan{
			Finding: finding.And("The controller retries automatically, less often each time."),
			Cause:   product,
			Wait:    c.PollInterval(),
		}, nil
	}
	peers, err := c.Peers(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	rates, err := c.RateLimits(ctx, product)
	if err != nil {
		return remedy.Plan{}, err
	}
	return remedy.Plan{
		Finding: finding.And("This has lasted more than 15 minutes.").Then(remedy.Together(peers)),
		Cause:   product,
		Ask: first(peers).Then(limits(ccm.ProductName(product), rates)).
			And("Find out what makes the calls.").Then(loads(peers)).
			And("Other clusters and tools of the account count, too: ActionTrail shows who makes calls."),
	}, nil
}

func causes(product string) []remedy.Cause {
	return []remedy.Cause{
		{
			Texts:   []string{"user flow control"},
			Finding: say.F("Alibaba Cloud throttles the controller's calls to %s: they exceed the rate limit of the account.", product),
		},
		{
			Texts:   []string{"api flow control"},
			Finding: say.F("Alibaba Cloud throttles the controller's calls to %s: they exceed the rate limit of the API.", product),
		},
		{Finding: say.F("Alibaba Cloud throttles the controller's calls to %s: they exceed a rate limit.", product)},
	}
}

const shown = 5 // of a list

// first says what to fix first: the controller keeps syncing failing Services, so other classes' failures cause calls, too.
func first(peers remedy.Peers) say.Text {
	others, n := peers.Others(shown)
	if n == 0 {
		return nil
	}
	return say.F("First fix these Services, which fail for other reasons and are retried again and again: %s.", say.First(remedy.Names(others), n))
}

func loads(peers remedy.Peers) say.Text {
	if busiest, n := peers.Busiest(shown); n > 0 {
		var all []say.Text
		for _, p := range busiest {
			all = append(all, say.F("%s (%d failed, %d succeeded)", p, p.Failed, p.Good))
		}
		return say.F("The syncs of the last hour, according to their Events: %s.", say.FirstClauses(all, n))
	}
	return say.F("The API server has no Events of syncs that would show this.")
}

func limits(product string, rates []cloud.Quota) say.Text {
	if len(rates) == 0 {
		return say.F("The quota center lists no rate limits of %s; ask Alibaba Cloud for a higher limit.", product)
	}
	text := say.F("The account has these rate limits of %s: %s.", product, ccm.DescribeRates(rates))
	i := slices.IndexFunc(rates, func(q cloud.Quota) bool { return q.Adjustable })
	if i < 0 {
		return text.And("None of them can be raised by an application.")
	}
	return say.F("If the calls are needed, apply for a higher limit, for example: %s.",
		step.ApplyCommand(cloud.FlowControl, rates[i], "calls of the cloud controller manager")).Then(text)
}
