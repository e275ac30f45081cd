// Package throttling waits while Alibaba Cloud limits the rate of calls, and asks if that lasts.
package throttling

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed doc.md
var doc string

// Remedy waits: more calls would make it worse. It calls no API while it waits.
var Remedy = &remedy.Remedy{
	Class: "throttling",
	Doc:   doc,
	Codes: []string{"Throttling.*"},
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
	finding := throttled(c.Event.Message, product)
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
	quotas, err := c.Cloud.Quotas.List(ctx, product, cloud.FlowControl, "")
	if err != nil {
		return remedy.Plan{}, fmt.Errorf("list the rate limits of %s: %w", product, err)
	}
	return remedy.Plan{
		Finding: finding.And("This has lasted more than 15 minutes.").Then(remedy.Together(peers)),
		Cause:   product,
		Ask: say.F("Find out what makes the calls.").Then(loads(peers)).
			And("Other clusters and tools of the account count, too: ActionTrail shows who makes calls.").
			Then(limits(product, c.Cloud.Region(), quotas)),
	}, nil
}

// names are the names of the products that the controller calls, by the codes that the quota center
// has for them.
var names = map[string]string{"slb": "CLB", "nlb": "NLB", "ecs": "ECS", "vpc": "VPC"}

// throttled says which limit the calls exceed, according to the message.
func throttled(message, product string) say.Text {
	switch message = strings.ToLower(message); {
	case strings.Contains(message, "user flow control"):
		return say.F("Alibaba Cloud throttles the controller's calls to %s: they exceed the rate limit of the account.", names[product])
	case strings.Contains(message, "api flow control"):
		return say.F("Alibaba Cloud throttles the controller's calls to %s: they exceed the rate limit of the API.", names[product])
	}
	return say.F("Alibaba Cloud throttles the controller's calls to %s: they exceed a rate limit.", names[product])
}

// loads says whose syncs make the calls. The controller syncs a failing Service again and again, so
// failures of other classes should be fixed first.
func loads(peers []remedy.Peer) say.Text {
	sorted := slices.Clone(peers)
	slices.SortStableFunc(sorted, func(a, b remedy.Peer) int { return b.Failed + b.Good - a.Failed - a.Good })
	var others []string
	var all []say.Text
	for _, p := range sorted {
		if p.Failed+p.Good > 0 {
			all = append(all, say.F("%s (%d failed, %d succeeded)", p, p.Failed, p.Good))
		}
		if p.Fails && !p.Same {
			others = append(others, p.String())
		}
	}
	text := say.F("The API server has no Events of syncs that would show this.")
	if len(all) > 0 {
		text = say.F("The syncs of the last hour, according to their Events: %s.", say.Clauses(all, 5))
	}
	if len(others) > 0 {
		text = text.And("Fix these failures first, which have other causes and are retried each time: %s.", say.List(others, 5))
	}
	return text
}
