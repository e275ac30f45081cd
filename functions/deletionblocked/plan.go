package deletionblocked

import (
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

// decide returns the plan for a load balancer that the controller created, with these listeners.
func decide(c *remedy.Case, lb *ccm.Instance, listeners []ccm.Listener) remedy.Plan {
	finding := say.F("The Service is now of type %s.", c.Service.Spec.Type)
	if at := c.Service.DeletionTimestamp; at != nil {
		finding = say.F("The Service has been in deletion since %s.", at.UTC().Format(time.RFC3339))
	}
	ask := say.F("Find out who wants to keep it. To have it deleted, turn off the protection: %s.", lb.UnprotectCommand(c.Cloud.Region())).
		Then(ccm.ThenRetries())
	switch {
	case subscribed(lb):
		finding = finding.And("Its CLB %s (%s) is a subscription, which cannot be deleted before it ends.", lb.ID, lb.Address)
		ask = say.F("Request a refund of %s in the console, or wait until the subscription ends.", lb.ID)
	case lb.NLB != nil:
		finding = finding.And("Its NLB %s (%s) has deletion protection on.", lb.ID, lb.Address).
			And("Since v2.9.1, the controller turns that off before it deletes, so somebody or something turned it on again. Older versions leave it on.")
	default:
		finding = finding.And("Its CLB %s (%s) has deletion protection on.", lb.ID, lb.Address).
			And("The controller turns that off before it deletes, so somebody or something turned it on again.")
	}
	foreign := others(c, listeners)
	if len(foreign) > 0 {
		finding = finding.And("It has listeners that do not belong to this Service, whose traffic stops when it is deleted: %s.", say.Clauses(foreign, 5))
	}
	if !subscribed(lb) && len(foreign) == 0 && c.Service.DeletionTimestamp != nil && made(c, lb) {
		return remedy.Plan{
			Finding: finding.And("Its tags name this Service and this cluster, and it has no other listeners."),
			Cause:   lb.ID,
			Note: say.F("The controller then deletes %s. Neither the load balancer nor its address can be restored.", lb.ID).
				And("To keep it instead, reject the plan, and annotate the Service (CCM v2.10.0 or later): %s.", ccm.PreserveCommand(c.Service)),
			Steps: []remedy.Step{step.Unprotect{LB: lb.ID, Network: lb.NLB != nil}, step.Touch{}},
		}
	}
	return remedy.Plan{
		Finding: finding,
		Cause:   lb.ID,
		Ask: ask.And("Or keep it (CCM v2.10.0 or later): %s.", ccm.PreserveCommand(c.Service)).
			And("The controller then releases the Service, and %s stays, with its address and its cost.", lb.ID),
	}
}

// made reports whether the controller of this cluster made the load balancer for this Service, and for no other one.
func made(c *remedy.Case, lb *ccm.Instance) bool {
	return lb.Tags[ccm.NameTag] == ccm.DefaultName(c.Service) && lb.Tags[ccm.ClusterTag] == c.Cluster
}

// others describes the listeners of the load balancer that were not made for the Service.
func others(c *remedy.Case, listeners []ccm.Listener) []say.Text {
	var list []say.Text
	for _, l := range listeners {
		l.Protocol = strings.ToLower(l.Protocol)
		switch t, ok := ccm.ParseTrace(l.Description); {
		case !ok:
			list = append(list, say.F("%s was made by hand", l))
		case !t.Of(c.Service, c.Cluster):
			list = append(list, say.F("%s belongs to the Service %s", l, t))
		}
	}
	return list
}
