// Package securitygroupambiguous reports NLBs whose source ranges are not enforced, because the controller finds several security groups.
package securitygroupambiguous

import (
	"context"
	_ "embed"
	"fmt"
	"slices"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed doc.md
var doc string

// Remedy asks: a security group can protect several NLBs, and lbremedy deletes none.
//
// FindAssociatedSecurityGroup's caller only logs its error, and that sync succeeds without the group: the text comes from log lines
// (pkg/controller/service/nlbv2/loadbalancer.go of v2.14.0).
var Remedy = &remedy.Remedy{
	Class:      "security-group-ambiguous",
	Doc:        doc,
	Texts:      []string{"find associated security group error: expect 1, got"},
	Reads:      []grant.Grant{grant.DescribeSecurityGroups},
	Deleting:   true,
	Diagnose:   diagnose,
	StillFails: stillFails,
}

func marked(ctx context.Context, c *remedy.Case) ([]cloud.SecurityGroup, error) {
	groups, err := c.Cloud.ECS.SecurityGroups(ctx, ccm.NameTag, ccm.DefaultName(c.Service))
	if err != nil {
		return nil, fmt.Errorf("list the security groups with the tag of the Service: %w", err)
	}
	return groups, nil
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	groups, err := marked(ctx, c)
	if err != nil {
		return remedy.Plan{}, err
	}
	tag := ccm.NameTag + "=" + ccm.DefaultName(c.Service)
	if len(groups) < 2 {
		return remedy.Plan{
			Finding: say.F("The controller found several security groups with the tag %s. Now there are fewer than two.", tag).Then(ccm.Retries()),
			Wait:    ccm.Retry,
		}, nil
	}
	name, text := ccm.SourceGroupName(c.Service), ccm.SourceGroupText(c.Service, c.Cluster)
	var ids, own []string
	for _, g := range groups {
		ids = append(ids, g.ID)
		if g.Name == name && g.Description == text {
			own = append(own, g.ID)
		}
	}
	other := "GROUP-ID"
	keep := say.F("Keep the one that has the rules for the Service's source ranges.")
	if len(own) == 1 {
		keep = say.F("Keep %s: it has the name %s and the description %s that the controller gives.", own[0], name, text)
		other = ids[slices.IndexFunc(ids, func(id string) bool { return id != own[0] })]
	}
	return remedy.Plan{
		Finding: say.F("%s have the tag %s: %s. The controller expects one and uses none of them, so the Service's source ranges are not enforced.",
			say.Count(len(groups), "security group"), tag, say.List(ids, 6)),
		Cause: tag,
		Ask: keep.And("Remove the tag from the others, for example: aliyun ecs UntagResources --RegionId %s --ResourceType securitygroup "+
			"--ResourceId.1 %s --TagKey.1 %s.",
			c.Cloud.Region(), other, ccm.NameTag).
			And("Then trigger a resync: %s.", ccm.ResyncCommand(c.Service)),
		Proven: true,
	}, nil
}

func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	groups, err := marked(ctx, c)
	return remedy.Is(len(groups) > 1), err
}
