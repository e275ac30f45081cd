package rampermission

import (
	"context"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

func (f facts) plan(c *remedy.Case) (remedy.Plan, error) {
	if !f.Comparable() {
		return f.incomparable(c), nil
	}
	return f.extend()
}

func (f facts) incomparable(c *remedy.Case) remedy.Plan {
	plan := remedy.Plan{Cause: f.Cluster.ID}
	check := say.F("Check the controller's log for the API that was refused: %s.", c.LogQuery())
	switch {
	case f.Cluster.Managed():
		plan.Finding = say.F("The controller of the managed cluster %s lacks a RAM permission.", f.Cluster.ID).
			And("It runs under service roles whose policies Alibaba Cloud maintains.")
		plan.Ask = say.F("Authorize the service roles of ACK again, on the authorization page of the ACK console.").Then(ccm.ThenRetries())
	case f.AccessKey:
		plan.Finding = say.F("The controller signs with its own access key, so the masters' RAM role does not apply.")
		plan.Ask = check.And("Allow that action to the user of the access key. Or remove the access key, and let the controller use the masters' RAM role.")
	case len(f.Doubt) > 0:
		plan.Finding = say.F("It is not known under which RAM role the controller runs: %s.", f.Doubt)
		plan.Ask = say.F("Find out under which RAM role CCM %s runs.", f.Version).Then(check).And("Allow that action to the role.")
	case f.Version == ccm.Version{}:
		plan.Finding = say.F("The version of the controller could not be determined, neither from its DaemonSet nor from the list of add-ons.").
			And("It is therefore unknown which permissions it needs.")
		plan.Ask = check.And("Add that action to a policy of the RAM role under which the controller runs.")
	default: // without a role
		plan.Finding = say.F("The cluster names no RAM role of its masters.")
		plan.Ask = say.F("Find out under which RAM role CCM %s runs.", f.Version).Then(check).And("Allow that action to the role.")
	}
	return plan
}

// extend plans a policy version with exactly the missing actions. It asks if that would change the rights of others.
func (f facts) extend() (remedy.Plan, error) {
	role, policy := f.Role.Name, f.policy.Name
	plan := remedy.Plan{
		Finding: f.lacking(),
		Cause:   role,
		Ask:     say.F("Allow the role these actions: %s.", f.Role.Allow(f.Missing)).Then(ccm.ThenRetries()),
		Note:    f.unproven(),
		Proven:  true,
	}
	apart := say.F("Give the role a policy with these actions: %s.", ccm.AllowCommand(role, f.Missing)).Then(ccm.ThenRetries())
	document, unfit := ccm.WithActions(f.policy.Document, f.Missing)
	switch {
	case len(f.Denied) > 0:
		denied := strings.Join(f.Denied, ", ")
		plan.Finding = plan.Finding.And("A Deny statement forbids %s. An Allow would not help.", denied)
		plan.Ask = say.F("Find out who wrote the Deny statement. Remove %s from it, or exempt the role %s.", denied, role)
		if len(f.Denied) < len(f.Missing) {
			plan.Ask = plan.Ask.And("Allow the other actions in a policy of the role. lbremedy names them when the Deny is gone.")
		}
	case len(f.Limited) > 0:
		plan.Finding = plan.Finding.And("The role allows %s only under conditions or for some resources. This looks intentional.", strings.Join(f.Limited, ", "))
		plan.Ask = say.F("Find out what the limits are for. If the controller may act without them, do the following.").Then(plan.Ask)
	case policy == "":
		plan.Finding = plan.Finding.And("The role has no policy named k8sMasterRolePolicy-* that could be extended.")
	case len(f.holders) > 0:
		plan.Finding = plan.Finding.And("The policy %s is also attached to %s, which would get the actions, too.", policy, strings.Join(f.holders, ", "))
		plan.Ask = apart
	case unfit != nil:
		plan.Finding = plan.Finding.And("The document of the policy %s cannot be extended: %v.", policy, unfit)
		plan.Ask = apart
	case len(document) > step.MaxDocument:
		plan.Finding = plan.Finding.And("The policy %s would have %d bytes, but RAM allows only %d.", policy, len(document), step.MaxDocument)
		plan.Ask = apart
	default:
		s, err := step.NewVersion(f.policy, document, f.Missing, f.versions)
		if err != nil {
			return remedy.Plan{}, err
		}
		plan.Ask, plan.Steps = nil, []remedy.Step{s}
	}
	return plan, nil
}

func (f facts) lacking() say.Text {
	lacks := say.F("The RAM role %s lacks actions that CCM %s needs: %s.", f.Role.Name, f.Version, strings.Join(f.Missing, ", "))
	if len(f.Role.By) > 0 {
		return lacks.And("The controller does not run under the role of the masters: %s.", f.Role.By)
	}
	return lacks
}

// nothingMissing plans for a sufficient role. If its policy changed after the failure, the controller has not retried yet.
func nothingMissing(c *remedy.Case, f facts) remedy.Plan {
	plan := remedy.Plan{Cause: f.Role.Name}
	changed, settle := ccm.ChangedAt(f.versions), c.Policy.Delay()
	settled := changed.Add(settle)
	if !changed.IsZero() && c.Event.Last.Before(settled) {
		plan.Finding = say.F("Since %s, the RAM role %s has allowed all that CCM %s needs.", changed.UTC().Format(time.RFC3339), f.Role.Name, f.Version).
			And("The controller has not retried since then.")
		plan.Steps = []remedy.Step{step.Resync{After: min(settle, max(0, settled.Sub(c.Now))).Round(time.Second)}}
		return plan
	}
	plan.Finding = say.F("The RAM role %s allows all %d actions that CCM %s is known to need here.", f.Role.Name, len(f.Needs), f.Version)
	if f.named != "" {
		plan.Finding = plan.Finding.Then(f.unproven())
		plan.Ask = say.F("Check the controller's log for a refusal of %s: %s.", f.named, c.LogQuery()).
			And("Allow it only if the log says so and the controller needs it here.")
		return plan
	}
	plan.Finding = plan.Finding.And("But the API still refuses a call.")
	plan.Ask = say.F("Check the controller's log for the API that was refused, and for whom: %s.", c.LogQuery()).
		And("The remaining causes are a control policy of the resource directory, a permission boundary or another role.")
	return plan
}

// unproven returns the action that only an Event names, if any. Anyone who may write an Event could have written it.
func (f facts) unproven() say.Text {
	if f.named == "" {
		return nil
	}
	return say.F("An Event alone names %s. The role does not allow it, and CCM %s is not known to need it here.", f.named, f.Version)
}

// ofNodes plans without a resync: the controller retries routes and Nodes automatically.
func ofNodes(ctx context.Context, c *remedy.Case, f facts, plan remedy.Plan) (remedy.Plan, error) {
	s, err := c.Stranded(ctx, node(c))
	if err != nil {
		return remedy.Plan{}, err
	}
	plan.Finding = plan.Finding.Then(s.Describe())
	if !s.Any() && !f.Comparable() {
		plan.Finding = plan.Finding.And("Only an Event says so: the nodes and their routes do not show it.")
	}
	if len(plan.Steps) == 1 && remedy.IsResync(plan.Steps[0]) { // the role is sufficient now
		plan.Steps, plan.Wait = nil, c.PollInterval()
		plan.Ask = say.F("Check the controller's log for what it does about the nodes: %s.", c.LogQuery())
	}
	return plan, nil
}

func node(c *remedy.Case) string {
	if c.Event.Service.Kind == remedy.KindNode {
		return c.Event.Service.Name
	}
	return ""
}
