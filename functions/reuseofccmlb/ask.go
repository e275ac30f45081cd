package reuseofccmlb

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// maker says for whom the controller made the load balancer, as far as its tags tell.
func maker(ctx context.Context, c *remedy.Case, lb *ccm.Instance) (string, error) {
	value, ok := lb.Tags[ccm.NameTag]
	if !ok {
		return fmt.Sprintf("it has the tag %s=%s", ccm.ClusterTag, lb.Tags[ccm.ClusterTag]), nil
	}
	tag := fmt.Sprintf("its tag %s is %s", ccm.NameTag, value)
	if value == ccm.DefaultName(c.Service) {
		return tag + ", this Service's own", nil
	}
	all, err := c.Kube.Services(ctx)
	if err != nil {
		return "", fmt.Errorf("list Services: %w", err)
	}
	return tag + ", " + of(all, value), nil
}

// of says which Service gives its load balancer this name.
func of(all []corev1.Service, name string) string {
	for _, svc := range all {
		if ccm.DefaultName(&svc) == name {
			return fmt.Sprintf("that of the Service %s/%s", svc.Namespace, svc.Name)
		}
	}
	return "that of a Service which this cluster does not have, or no longer has"
}

// untag returns the command that hands a load balancer of the controller over to people.
func untag(c *remedy.Case, lb *ccm.Instance) string {
	product, kind := "slb", "instance"
	if lb.NLB != nil {
		product, kind = "nlb", "loadbalancer"
	}
	return fmt.Sprintf("aliyun %s UntagResources --RegionId %s --ResourceType %s --ResourceId.1 %s --TagKey.1 %s --TagKey.2 %s",
		product, c.Cloud.Region(), kind, lb.ID, ccm.NameTag, ccm.ClusterTag)
}

// choose asks for another load balancer, with those that could be reused.
func choose(ctx context.Context, c *remedy.Case, finding, then string) (remedy.Plan, error) {
	fit, err := c.Reusable(ctx)
	if err != nil {
		return remedy.Plan{}, err
	}
	which := "None was found that could be reused: made by a person, with the right kind of address, within reach of the cluster's VPC, and with the Service's ports free."
	if len(fit) > 0 {
		var names []string
		for _, lb := range fit {
			names = append(names, strings.TrimSpace(lb.ID+" "+lb.Name)+" at "+lb.Address)
		}
		which = "These could be reused: " + strings.Join(names, ", ") + "."
	}
	return remedy.Plan{
		Finding: say.Literal(finding),
		Ask:     say.F("Name a load balancer that a person made: %s. Or remove the annotation, and the controller makes one: %s. %s%s", ccm.SetCommand(c.Service, balancerID, "ITS-ID"), ccm.RemoveCommand(c.Service, balancerID), which, then),
	}, nil
}
