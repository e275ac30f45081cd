package ccm

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/say"
)

// Origin says for which Service the controller created a load balancer with one of its tags. It needs ListServices.
func (c *View) Origin(ctx context.Context, lb *Instance) (say.Text, error) {
	if name, ok := lb.Tags[NameTag]; !ok || name == DefaultName(c.Service) {
		return OriginOf(lb, c.Service, nil), nil
	}
	all, err := c.Kube.Services(ctx)
	if err != nil {
		return nil, fmt.Errorf("list Services: %w", err)
	}
	return OriginOf(lb, c.Service, all), nil
}

// OriginOf returns Origin's text for the Service asking; all are the cluster's Services.
func OriginOf(lb *Instance, asking *corev1.Service, all []corev1.Service) say.Text {
	name, ok := lb.Tags[NameTag]
	switch {
	case !ok:
		return say.F("It has the tag %s=%s.", ClusterTag, lb.Tags[ClusterTag])
	case name == DefaultName(asking):
		return say.F("Its tag %s is %s, the name for this Service.", NameTag, name)
	}
	for _, svc := range all {
		if DefaultName(&svc) == name {
			return say.F("Its tag %s is %s, the name for the Service %s/%s.", NameTag, name, svc.Namespace, svc.Name)
		}
	}
	return say.F("Its tag %s is %s, the name for a Service that this cluster does not have, or no longer has.", NameTag, name)
}

// OtherAdvice says how the Service gets another load balancer; with an address it must be recreated. It needs what Reusable needs.
func (c *View) OtherAdvice(ctx context.Context) (say.Text, error) {
	reusable, err := c.Reusable(ctx)
	if err != nil {
		return nil, err
	}
	ask := say.F("Name a load balancer that a person created: %s.", SetCommand(c.Service, "id", "ITS-ID")).
		And("Or remove the annotation, and the controller creates one: %s.", RemoveCommand(c.Service, "id"))
	if len(reusable) == 0 {
		ask = ask.And("No load balancer was found that can be reused.").
			And("It must be created by a person, have the right kind of address, be within reach of the cluster's VPC, and have the Service's ports free.")
	} else {
		var names []string
		for _, lb := range reusable {
			names = append(names, fmt.Sprintf("%s (%s)", strings.TrimSpace(lb.ID+" "+lb.Name), lb.Address))
		}
		ask = ask.And("These can be reused: %s.", say.List(names, offered))
	}
	if address := Address(c.Service); address != "" {
		ask = ask.And("Then delete the Service and create it again: it loses the address %s.", address)
	}
	return ask, nil
}

// DisownAdvice says how a load balancer that the controller created, for any Service, can be reused like a user's.
func (c *View) DisownAdvice(id string) say.Text {
	return say.F("Check whether another Service still uses %s.", id).
		And("If none does, remove its tags %s and %s: %s.", NameTag, ClusterTag, c.UntagCommand(id, NameTag, ClusterTag)).
		And("The controller then reuses it like one that a person created, and no longer deletes it with any Service.").
		And("If another Service uses it, name another load balancer and recreate this Service: its address changes.")
}
