package remedy

import (
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
)

// RequireEvidence returns the plan, unless only an Event reports the failure: every user who may create Events can write one in the
// controller's name. For a Service that the controller has synced in its present form (see InForce), a class acts and advises only on
// what it has read: Plan.Proven. Any other plan becomes the question who wrote the Event.
func (c *Case) RequireEvidence(p Plan) Plan {
	svc := c.Service
	switch {
	case c.Event.Service.Kind != "", p.Proven, c.Remedy.IgnoresEvent, len(p.Steps) == 0 && len(p.Ask) == 0:
		return p
	case !ccm.Synced(svc), !ccm.InForce(svc):
		return p
	}
	return Plan{
		Finding: say.F("An Event alone says that the Service fails: %s.", c.Remedy.Title()).
			And("The controller has synced the Service in its current state, and nothing in the cluster or the cloud shows this failure."),
		Cause: eventAloneCause,
		Ask: say.F("Check who wrote the Event: kubectl -n %s get events --field-selector involvedObject.name=%s -o yaml --show-managed-fields.",
			svc.Namespace, svc.Name).
			And("If it was the controller, check its log: %s.", c.LogQuery()).
			And("Do not change anything because of this Event alone."),
		Wait:     p.Wait,
		Patience: p.Patience,
	}
}

// eventAloneCause separates such failures from incidents that were seen.
const eventAloneCause = "an Event alone"

// FailedPrecheck reports whether the failure is from a check before an upgrade.
func (c *Case) FailedPrecheck() bool { return event.FailedPrecheck(c.Event.Message) }
