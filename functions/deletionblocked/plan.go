package deletionblocked

import (
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

// tries is the time for about five retries of the controller, because anybody can write an Event about a failure.
const tries = 2 * time.Minute

// kept waits for the controller. Before FirstPreserve only the protection keeps it from deleting the load balancer; later it turns the
// protection off itself, and deletes nothing (deleteLoadBalancer in clbv1/model_applier.go, nlbv2/model_applier.go).
func kept(c *remedy.Case, lb *ccm.Instance) remedy.Plan {
	first := ccm.FirstPreserve()
	return remedy.Plan{
		Finding: ccm.WhyLeaving(c.Service).And("The annotation %s asks to keep its %s %s (%s).", ccm.Preserve, lb.Kind(), lb.ID, lb.Address).
			And("CCM %s and newer release the Service without deleting it. Older releases ignore the annotation, and only its protection keeps it.", first),
		Cause: lb.ID,
		Wait:  ccm.Retry,
		Ask: say.F("Leave the protection on. If the controller is older than %s, upgrade the add-on cloud-controller-manager.", first).
			And("Otherwise check its log for what keeps the Service: %s.", c.LogQuery()),
	}
}

func decide(c *remedy.Case, lb *ccm.Instance, listeners []ccm.Listener) remedy.Plan {
	plan := remedy.Plan{Finding: ccm.WhyLeaving(c.Service), Cause: lb.ID}
	if lb.Subscribed() {
		plan.Finding = plan.Finding.And("Its CLB %s (%s) is a subscription, which cannot be deleted before it ends.", lb.ID, lb.Address)
		plan.Ask = say.F("Request a refund of %s in the console, or wait until the subscription ends.", lb.ID)
	} else {
		plan.Finding = plan.Finding.Then(lb.WhyProtected())
		plan.Ask = say.F("Find out who wants to keep it. To have it deleted, turn off the protection: %s.", lb.UnprotectCommand(c.Cloud.Region())).
			Then(ccm.ThenRetries())
	}
	strangers, deleted := c.MadeForOthers(listeners), c.Service.DeletionTimestamp
	if len(strangers) > 0 {
		plan.Finding = plan.Finding.And("It has listeners that do not belong to this Service, whose traffic stops when it is deleted: %s.", say.Clauses(strangers, 5))
	}
	switch keep := ccm.PreserveCommand(c.Service); {
	case lb.Subscribed() || len(strangers) > 0 || deleted == nil || !lb.MadeFor(&c.View):
		plan.Ask = plan.Ask.And("Or keep it (CCM v2.10.0 or later): %s.", keep).
			And("The controller then releases the Service, and %s stays, with its address and its cost.", lb.ID)
	case c.Now.Sub(deleted.Time) < tries:
		plan.Finding = plan.Finding.And("lbremedy waits %s for the controller to delete it.", tries)
		plan.Ask, plan.Wait = nil, tries
	default:
		plan.Finding = plan.Finding.And("Its tags name this Service and this cluster, and it has no other listeners.")
		plan.Note = say.F("The controller then deletes %s. Neither the load balancer nor its address can be restored.", lb.ID).
			And("To keep it instead, reject the plan, and annotate the Service (CCM v2.10.0 or later): %s.", keep)
		plan.Ask, plan.Steps = nil, []remedy.Step{step.Unprotect{LB: lb.ID, Network: lb.NLB != nil}, step.Resync{}}
	}
	return plan
}
