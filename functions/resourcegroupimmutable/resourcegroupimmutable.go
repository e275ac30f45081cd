// Package resourcegroupimmutable remedies Services that ask for a resource group other than their load balancer's.
package resourcegroupimmutable

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed doc.md
var doc string

// Remedy removes the request for another resource group, so that the Service syncs again.
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
	StillFails:  holds,
}

// groupID is the short name of the annotation that asks for a resource group.
const groupID = "resource-group-id"

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	if lb == nil {
		return c.NoBalancer("its resource group"), nil
	}
	want, _ := ccm.Annotation(c.Service, groupID)
	return remedy.Plan{
		Finding: fmt.Sprintf("The annotation %s asks for the resource group %s, and the %s %s is in %s. The controller chooses the group when it makes a load balancer, and never changes it.",
			groupID, ccm.Quote(want), lb.Kind(), lb.ID, lb.ResourceGroup),
		Note: fmt.Sprintf("%s stays in %s, and its traffic is not touched. To have it in another group, transfer it in the console of Resource Management; then the annotation may name that group again.",
			lb.ID, lb.ResourceGroup),
		Steps: []remedy.Step{step.Without(c.Service, groupID)},
	}, nil
}

// holds reports whether the annotation still asks for another group than the load balancer's.
func holds(ctx context.Context, c *remedy.Case) (remedy.Verdict, error) {
	want, _ := ccm.Annotation(c.Service, groupID)
	if want == "" {
		return remedy.No, nil // the controller compares only what is asked for
	}
	lb, err := c.Bound(ctx)
	if err != nil {
		return remedy.Unknown, err
	}
	switch {
	case lb == nil:
		return remedy.Yes, nil
	case lb.NLB != nil: // there letter case does not count
		return remedy.Is(!strings.EqualFold(want, lb.ResourceGroup)), nil
	}
	return remedy.Is(want != lb.ResourceGroup), nil
}
