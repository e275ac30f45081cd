package writerefused

import (
	"context"
	"fmt"
	"strings"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

const (
	byRole     = "role"
	byWebhook  = "webhook"
	unanswered = "webhook that does not answer"
	byPolicy   = "policy"
	hidden     = "hidden" // the message does not say
	transient  = "transient"
)

// causes are in the order in which they are tried. The API server's texts are from k8s.io/apimachinery/pkg/api/errors and
// k8s.io/apiserver/pkg/admission.
var causes = []remedy.Cause{
	{
		Name: unanswered, Texts: []string{"failed calling webhook"},
		Finding: say.F("The API server calls an admission webhook before it accepts a write of the controller, and the webhook does not answer."),
	},
	{
		Name: byWebhook, Texts: []string{"admission webhook"},
		Finding: say.F("An admission webhook denies a write of the controller."),
	},
	{
		Name: byPolicy, Texts: []string{"validatingadmissionpolicy '"},
		Finding: say.F("An admission policy denies a write of the controller."),
	},
	{
		Name: byRole, Texts: []string{"is forbidden: user "},
		Finding: say.F("The API server did not allow the controller to write."),
	},
	{
		Texts:   []string{"exceeded quota"},
		Finding: say.F("A quota of the namespace refuses a write of the controller."),
		Ask:     say.F("Raise the quota that the message names, or delete what it counts and nobody needs."),
	},
	{
		Texts:   []string{"status.loadbalancer.ingress[0].hostname"},
		Finding: say.F("The API server refuses the address of the Service as invalid, because the value of its annotation hostname is not a DNS name."),
		Ask:     say.F("Set the annotation hostname to a DNS name in lower case, or remove it."),
	},
	{
		Texts:   []string{" is invalid: ", "is too long", "request entity too large"},
		Finding: say.F("The API server refuses a write of the controller as invalid."),
		Ask:     say.F("Correct the field that the message names. If nobody has set it, report the message to Alibaba Cloud."),
	},
	{
		Name: hidden, Texts: []string{"timed out waiting for the condition"},
		Finding: say.F("The controller tried three times to clear the address of the Service and failed. Its Event does not say why."),
	},
	{
		Name: transient, Texts: []string{"the object has been modified", "already exists"},
		Finding: say.F("Somebody else changed the object while the controller wrote to it."),
		Ask:     say.F("Find out who else keeps changing the object: kubectl get with --show-managed-fields names the writers. Stop the one that is not needed."),
	},
	{
		Name: transient, Texts: []string{"not found"},
		Finding: say.F("The object that the controller wrote to was just deleted."),
		Ask:     say.F("Check whether something deletes the object and makes it again: kubectl get shows its age."),
	},
	{
		Name: transient, Texts: []string{
			"etcdserver", "timeout", "timed out", "deadline exceeded", "connection refused", "connection reset", "i/o timeout", "no route to host", ": eof",
			"internal error occurred", "too many requests", "leader changed", "unable to handle the request", "informer to sync",
		},
		Finding: say.F("The API server or its etcd does not answer the controller."),
		Ask: say.F("Check the API server and etcd: kubectl get --raw '/readyz?verbose'. On a managed cluster, open a ticket with Alibaba Cloud.").
			And("If they are well, check the way from the controller to the API server."),
	},
	{
		Finding: say.F("A write of the controller to Kubernetes failed for a reason that is not known."),
		Ask:     say.F("Find out what refuses the write."),
	},
}

var (
	userIn    = regex.New(`is forbidden: User "([^"]{1,253})"`)
	webhookIn = regex.New(`(?:admission|calling) webhook "([^"]{1,253})"`)
	policyIn  = regex.New(`ValidatingAdmissionPolicy '([a-z0-9][a-z0-9.-]{0,252})' with binding '([a-z0-9][a-z0-9.-]{0,252})'`)
)

func user(message string) string {
	if m := userIn().FindStringSubmatch(message); m != nil {
		return m[1]
	}
	return ""
}

// webhook plans for a webhook that refuses or does not answer. Only one that exists in the cluster is worth a check.
func webhook(ctx context.Context, c *remedy.Case, write ccm.KubeWrite, why remedy.Cause) (remedy.Plan, error) {
	name := ""
	if m := webhookIn().FindStringSubmatch(c.Event.Message); m != nil {
		name = m[1]
	}
	if wait := c.Settling(ccm.Retry); wait > 0 && why.Name == unanswered {
		return remedy.Plan{Finding: why.Finding.And("A webhook that restarts answers again soon."), Wait: wait}, nil
	}
	hooks, err := c.Kube.Webhooks(ctx, name)
	switch {
	case err != nil:
		return remedy.Plan{}, fmt.Errorf("look for the webhook: %w", err)
	case len(hooks) == 0 && !c.Lasts():
		return remedy.Plan{Finding: why.Finding.And("The cluster has no webhook %s by now.", ccm.Quote(name)).Then(ccm.Retries()), Wait: c.PollInterval()}, nil
	case len(hooks) == 0:
		why.Finding = why.Finding.And("The cluster has no webhook %s, and the failure has lasted more than 15 minutes.", ccm.Quote(name))
		why.Ask = say.F("Find out what refuses the write.")
		return asks(c, write, why), nil
	}
	var in, runs []string
	for _, h := range hooks {
		in = append(in, h.Resource+"/"+h.Configuration)
		if h.Service != "" {
			runs = append(runs, h.Service)
		}
	}
	plan := remedy.Plan{
		Finding: why.Finding.And("It is %s, registered in %s.", ccm.Quote(name), say.List(in, 3)).Then(write.Leaves).And("The message is %s.", c.Said()),
		Cause:   name,
	}
	if why.Name == byWebhook {
		plan.Ask = say.F("Ask those who run the webhook to let %s %s: kubectl get %s -o yaml shows what it looks at.", ccm.Account, write, strings.Join(in, " ")).
			Then(ccm.ThenRetries())
		return plan, nil
	}
	plan.Ask = say.F("Bring the webhook back. It is registered by: kubectl get %s -o yaml.", strings.Join(in, " "))
	for _, of := range runs {
		namespace, name, _ := strings.Cut(of, "/")
		plan.Ask = plan.Ask.And("Check its Pods: kubectl -n %s get endpointslices -l kubernetes.io/service-name=%s.", ccm.Shell(namespace), ccm.Shell(name))
	}
	plan.Ask = plan.Ask.And("If what it belongs to was removed, delete what registers it.").Then(ccm.ThenRetries())
	return plan, nil
}

func policy(c *remedy.Case, write ccm.KubeWrite, why remedy.Cause) remedy.Plan {
	m := policyIn().FindStringSubmatch(c.Event.Message)
	if m == nil {
		why.Ask = say.F("Find the policy that the message names: kubectl get validatingadmissionpolicies.")
		return asks(c, write, why)
	}
	return remedy.Plan{
		Finding: why.Finding.And("It is %s with the binding %s.", m[1], m[2]).Then(write.Leaves).And("The message is %s.", c.Said()),
		Cause:   m[1],
		Ask: say.F("Ask those who wrote the policy to let %s %s: kubectl get validatingadmissionpolicy %s -o yaml.", ccm.Account, write, m[1]).
			And("Its binding limits it: kubectl get validatingadmissionpolicybinding %s -o yaml.", m[2]).Then(ccm.ThenRetries()),
	}
}
