// Package resourcegroupimmutable remedies Services that request a resource group other than their load balancer's.
package resourcegroupimmutable

import (
	"context"
	_ "embed"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy removes the annotation that requests another resource group, and the Service syncs again.
var Remedy = &remedy.Remedy{
	Class: "resource-group-immutable",
	Doc:   doc,
	Texts: []string{
		"can not change ResourceGroupId once created",
		"ResourceGroupId cannot be changed",
	},
	Reads:       slices.Concat(ccm.BoundReads, ccm.NetworkReads),
	Steps:       []remedy.Step{step.RemoveAnnotation{}},
	Annotations: []string{groupID},
	Diagnose:    diagnose,
	StillFails:  stillFails,
}

const groupID = "resource-group-id"

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if lb == nil {
		return c.NoBalancer(say.F("its resource group")), nil
	}
	want, _ := ccm.Annotation(c.Service, groupID)
	return remedy.Plan{
		Finding: say.F("The annotation %s asks for the resource group %s, but the %s %s is in %s.", groupID, ccm.Quote(want), lb.Kind(), lb.ID, lb.ResourceGroup).
			And("The controller sets the resource group when it creates a load balancer and never changes it afterwards."),
		Note: say.F("%s stays in %s, and its traffic is not affected.", lb.ID, lb.ResourceGroup).
			And("To move it to another group, transfer it in the console of Resource Management; after that, the annotation may name that group again."),
		Steps: []remedy.Step{step.Without(c.Service, groupID)},
	}, nil
}

func stillFails(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	want, _ := ccm.Annotation(c.Service, groupID)
	if want == "" {
		return remedy.No, nil // without the annotation the controller compares nothing
	}
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	switch {
	case lb == nil:
		return remedy.Yes, nil
	case lb.NLB != nil: // the groups of NLBs are compared regardless of case
		return remedy.Is(!strings.EqualFold(want, lb.ResourceGroup)), nil
	}
	return remedy.Is(want != lb.ResourceGroup), nil
}
