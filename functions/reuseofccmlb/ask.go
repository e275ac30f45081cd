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

// originOf says for which Service the controller created the load balancer, according to its tags.
func originOf(ctx context.Context, c *remedy.Case, lb *ccm.Instance) (say.Text, error) {
	value, ok := lb.Tags[ccm.NameTag]
	switch {
	case !ok:
		return say.F("It has the tag %s=%s.", ccm.ClusterTag, lb.Tags[ccm.ClusterTag]), nil
	case value == ccm.DefaultName(c.Service):
		return say.F("Its tag %s is %s, the name for this Service.", ccm.NameTag, value), nil
	}
	all, err := c.Kube.Services(ctx)
	if err != nil {
		return nil, fmt.Errorf("list Services: %w", err)
	}
	return namedFor(all, value), nil
}

// namedFor says which of the Services gives its load balancer this name.
func namedFor(all []corev1.Service, name string) say.Text {
	for _, svc := range all {
		if ccm.DefaultName(&svc) == name {
			return say.F("Its tag %s is %s, the name for the Service %s/%s.", ccm.NameTag, name, svc.Namespace, svc.Name)
		}
	}
	return say.F("Its tag %s is %s, the name for a Service that this cluster does not have, or no longer has.", ccm.NameTag, name)
}

// onlyTagged asks a person to leave the Service's name tag on one load balancer only.
func onlyTagged(svc *corev1.Service, id string) say.Text {
	return say.F("Make sure that only %s has the tag %s=%s.", id, ccm.NameTag, ccm.DefaultName(svc)).
		And("Then remove the annotation: %s.", ccm.RemoveCommand(svc, balancerID)).
		And("Do not delete any load balancer before that: when the Service is deleted, the controller deletes whatever carries the tag.")
}

// chooseOther asks for another load balancer, such as those that can be reused. A Service that has
// an address must be recreated afterwards.
func chooseOther(svc *corev1.Service, reusable []ccm.Instance) say.Text {
	ask := say.F("Name a load balancer that a person created: %s.", ccm.SetCommand(svc, balancerID, "ITS-ID")).
		And("Or remove the annotation, and the controller creates one: %s.", ccm.RemoveCommand(svc, balancerID))
	if len(reusable) == 0 {
		ask = ask.And("No load balancer was found that can be reused.").
			And("It must be created by a person, have the right kind of address, be within reach of the cluster's VPC, and have the Service's ports free.")
	} else {
		var names []string
		for _, lb := range reusable {
			names = append(names, fmt.Sprintf("%s (%s)", strings.TrimSpace(lb.ID+" "+lb.Name), lb.Address))
		}
		ask = ask.And("These can be reused: %s.", say.List(names, 5))
	}
	if address := ccm.Address(svc); address != "" {
		ask = ask.And("Then delete the Service and create it again: it loses the address %s.", address)
	}
	return ask
}
