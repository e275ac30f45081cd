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
)

//go:embed doc.md
var doc string

// Remedy waits: more calls would make it worse. Meanwhile it calls no API.
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
	product := productOf(c.Event.Message, ccm.NLB(c.Service))
	finding := fmt.Sprintf("Alibaba Cloud throttles the controller's calls of %s: they came faster than %s allows.", names[product], limitOf(c.Event.Message))
	if !c.Lasts() {
		return remedy.Plan{
			Finding: finding + " The controller tries again by itself, less often each time.",
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
		Finding: finding + " It has not passed within 15 minutes. " + remedy.Together(peers),
		Cause:   product,
		Ask:     fmt.Sprintf("Find what makes the calls. %s Other clusters and tools of the account count, too: ActionTrail shows who calls. %s", loads(peers), limits(product, c.Cloud.Region(), quotas)),
	}, nil
}

// names are the products that the controller calls, by the codes that the quota
// center has for them.
var names = map[string]string{"slb": "CLB", "nlb": "NLB", "ecs": "ECS", "vpc": "VPC"}

// productOf returns the code of the product whose calls are throttled. Only the
// messages of ECS and VPC name the API that was called.
func productOf(message string, nlb bool) string {
	for _, api := range []struct{ name, product string }{
		{"DescribeNetworkInterfaces", "ecs"}, {"SecurityGroup", "ecs"},
		{"DescribeVpcAttribute", "vpc"}, {"DescribeVSwitches", "vpc"}, {"DescribeEipAddresses", "vpc"},
	} {
		if strings.Contains(message, "call "+api.name) || strings.Contains(message, "API: "+api.name) {
			return api.product
		}
	}
	if nlb {
		return "nlb"
	}
	return "slb"
}

// limitOf returns the limit that was exceeded, as the message names it.
func limitOf(message string) string {
	switch message = strings.ToLower(message); {
	case strings.Contains(message, "user flow control"):
		return "the limit of the account"
	case strings.Contains(message, "api flow control"):
		return "the limit of the API"
	}
	return "a limit"
}

// loads says, in sentences, whose syncs make the calls. A failing Service is synced
// again and again, so failures of other classes come first.
func loads(peers []remedy.Peer) string {
	sorted := slices.Clone(peers)
	slices.SortStableFunc(sorted, func(a, b remedy.Peer) int { return b.Failed + b.Good - a.Failed - a.Good })
	var others, all []string
	for _, f := range sorted {
		if f.Failed+f.Good > 0 {
			all = append(all, fmt.Sprintf("%s (%d failed and %d good)", f, f.Failed, f.Good))
		}
		if f.Fails && !f.Same {
			others = append(others, f.String())
		}
	}
	text := "The API server has no Events of syncs that would show it."
	if len(all) > 0 {
		text = fmt.Sprintf("The syncs of the last hour, by their Events: %s.", remedy.List(all, 5))
	}
	if len(others) > 0 {
		text += fmt.Sprintf(" End these failures first, which have other causes and are tried again each time: %s.", remedy.List(others, 5))
	}
	return text
}
