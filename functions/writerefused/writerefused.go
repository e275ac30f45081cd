// Package writerefused asks about a controller whose writes to Kubernetes are refused.
package writerefused

import (
	"context"
	_ "embed"
	"slices"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed doc.md
var doc string

// Remedy asks: the people who run a cluster decide about its permissions.
//
// It reads the rights of the controller's account and the webhooks instead of repeating the write as a dry run: RBAC has no right for dry runs
// only, so the class could write every Service's status; webhooks with side effects reject dry runs; and a webhook may treat lbremedy differently.
var Remedy = &remedy.Remedy{
	Class: "write-refused",
	Doc:   doc,
	Texts: []string{
		"Error adding finalizer:", "Error updating pod readiness gates for service", "Error adding service hash:", "Error updating load balancer status:",
		"Error removing service hash:", "Error removing load balancer status:", "Error removing load balancer finalizer:",
	},
	Reads:    slices.Concat(ccm.WebhookReads, []grant.Grant{grant.ReviewAccess}),
	Deleting: true,
	Diagnose: diagnose,
}

func diagnose(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
	write, _ := ccm.KubeWriteOf(c.Event.Message) // all texts of the class are about a write
	why := remedy.CauseOf(causes, c.Event.Message)
	switch {
	case why.Name == byRole && ccm.Account != user(c.Event.Message):
		return another(c, write), nil
	case why.Name == byRole || why.Name == hidden:
		return access(ctx, c, write, why)
	case why.Name == byWebhook || why.Name == unanswered:
		return webhook(ctx, c, write, why)
	case why.Name == byPolicy:
		return policy(c, write, why), nil
	case why.Name == transient && !c.Lasts():
		return passes(c, why), nil
	}
	return asks(c, write, why), nil
}

func asks(c *remedy.Case, write ccm.KubeWrite, why remedy.Cause) remedy.Plan {
	return remedy.Plan{
		Finding: why.Finding.Then(write.Leaves).And("The message is %s.", c.Said()),
		Ask:     why.Ask.And("The controller's log has the whole error: %s.", c.LogQuery()).Then(ccm.ThenRetries()),
	}
}

func passes(c *remedy.Case, why remedy.Cause) remedy.Plan {
	return remedy.Plan{Finding: why.Finding.And("This usually passes by itself, and the controller retries."), Wait: c.PollInterval()}
}

// another plans for a refused user that may not be the controller. It suggests no right for it: anybody who may write Events can choose its name.
func another(c *remedy.Case, write ccm.KubeWrite) remedy.Plan {
	return remedy.Plan{
		Finding: say.F("The API server refused a write of the user %s, and %s is the account that the controller is known to have.",
			ccm.Quote(user(c.Event.Message)), ccm.Account).Then(write.Leaves),
		Ask: say.F("Find out as whom the controller runs: kubectl -n kube-system get daemonset %s -o yaml.", ccm.DaemonSet).
			And("If that is the user of the message, allow it to %s. If not, a second controller syncs the Service: stop it.", write),
	}
}

func access(ctx context.Context, c *remedy.Case, write ccm.KubeWrite, why remedy.Cause) (remedy.Plan, error) {
	has, err := c.Access(ctx, write)
	switch {
	case err != nil:
		return remedy.Plan{}, err
	case has == ccm.Granted && !c.Lasts():
		return remedy.Plan{
			Finding: why.Finding.And("Meanwhile, the API server allows the controller's account to %s.", write).Then(ccm.Retries()), Wait: c.PollInterval(),
		}, nil
	case has == ccm.Granted:
		return asks(c, write, remedy.Cause{
			Finding: why.Finding.And("The API server allows the controller's account to %s, and the failure has lasted more than 15 minutes.", write),
			Ask:     say.F("Find out what else refuses: an admission webhook, an admission policy, or another authorizer of the API server."),
		}), nil
	}
	plan := remedy.Plan{
		Finding: say.F("The API server does not allow the controller's account %s to %s in the namespace %s.", ccm.Account, write, c.Service.Namespace).
			Then(write.Leaves),
		Cause: write.String(),
		Ask: say.F("Find out who changed the ClusterRole %s, and give it the rule again: %s.", ccm.ClusterRole, ccm.RoleCommand(write)).
			And("On a managed cluster, the add-on %s brings its role: an upgrade of it restores the role.", ccm.DaemonSet).Then(ccm.ThenRetries()),
		// Every controller needs these, and the account is the controller's, because it may list Services.
		Proven: has == ccm.Lacking && write.Always(),
	}
	if !write.Always() {
		plan.Ask = say.F("Add the rule, which the controller's own manifest does not have, to the ClusterRole: %s.", ccm.RoleCommand(write)).Then(ccm.ThenRetries())
	}
	if has == ccm.NoAccess {
		plan.Finding = plan.Finding.And("It may not list Services either: its role is gone, or not bound to it, or the controller has another account here.")
		plan.Ask = say.F("Check the role: kubectl get clusterrole,clusterrolebinding %s -o yaml.", ccm.ClusterRole).
			And("If only the binding is missing, create it: %s.", ccm.BindCommand()).
			And("If the role is missing, install the add-on %s again.", ccm.DaemonSet).Then(ccm.ThenRetries())
	}
	return plan, nil
}
