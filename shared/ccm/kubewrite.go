package ccm

import (
	"context"
	"fmt"
	"strings"

	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/say"
)

// Account is the controller's user in the cluster, and ClusterRole its role (deploy/v2/cloud-controller-manager.yaml). The role of v2.14.0
// has no rule for pods/status, which the controller writes since v2.10.0.
const (
	Account     = "system:serviceaccount:kube-system:" + DaemonSet
	ClusterRole = "system:" + DaemonSet
)

// A KubeWrite is a request of the controller to Kubernetes that was refused according to an Event.
type KubeWrite struct {
	Verb, Resource string
	Leaves         say.Text // the state that the refusal leaves
}

// String returns the request as a person writes it: "patch services/status".
func (w KubeWrite) String() string { return w.Verb + " " + w.Resource }

// Always reports whether the controller makes the request for every Service; it writes Pods only if they have a readiness gate.
func (w KubeWrite) Always() bool { return strings.HasPrefix(w.Resource, "services") }

// kubeWrites lists the writes by the beginning of their Events. Labels go through services/status (clbv1/service_controller.go:297-400,
// 542-575; nlbv2/nlb_controller.go:206-310, 432-489; helper/finalizer.go).
var kubeWrites = []struct {
	begins, resource string
	leaves           say.Text
}{
	{"Error adding finalizer", "services", say.F("Nothing of the Service is synced before it has the finalizer.")},
	{"Error updating pod readiness gates", "pods/status",
		say.F("The load balancer is synced, but the readiness gates of the Pods are not set, so rollouts that wait for them stall.")},
	{"Error adding service hash", "services/status",
		say.F("The load balancer is synced, but the Service gets neither the labels nor a new address.")},
	{"Error updating load balancer status", "services/status", say.F("The load balancer is synced, but the Service does not get its address.")},
	{"Error removing service hash", "services/status", hangs},
	{"Error removing load balancer status", "services/status", hangs},
	{"Error removing load balancer finalizer", "services", hangs},
}

var hangs = say.F("The controller has cleaned up the load balancer, but the Service keeps the finalizer, so a deletion of it does not end.")

var unauthorized = regex.New(`cannot (get|list|watch|patch|update) resource "(services|services/status|pods|pods/status)" in API group ""`)

// KubeWriteOf returns the request that the Event's message is about, or false. A refused read that a write needs counts, too.
func KubeWriteOf(message string) (KubeWrite, bool) {
	for _, w := range kubeWrites {
		if !strings.Contains(message, w.begins) {
			continue
		}
		out := KubeWrite{Verb: "patch", Resource: w.resource, Leaves: w.leaves}
		if m := unauthorized().FindStringSubmatch(message); m != nil {
			out.Verb, out.Resource = m[1], m[2]
		}
		return out, true
	}
	return KubeWrite{}, false
}

// An Access is what the API server allows the controller's account.
type Access int

const (
	NoAccess Access = iota // it may not even list Services: the account does not exist, or nothing is bound to it
	Lacking                // it may list Services, but not make the request
	Granted                // it may make the request
)

// Access asks the API server whether the controller's account may make the request in the Service's namespace. It needs grant.ReviewAccess.
func (c *View) Access(ctx context.Context, w KubeWrite) (Access, error) {
	may := func(verb, resource string) (bool, error) {
		main, sub, _ := strings.Cut(resource, "/")
		ok, err := c.Kube.Allowed(ctx, kube.Review{
			User: Account, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"},
			Namespace: c.Service.Namespace, Resource: main, Subresource: sub, Verb: verb,
		})
		if err != nil {
			return false, fmt.Errorf("ask what the controller may do: %w", err)
		}
		return ok, nil
	}
	if ok, err := may(w.Verb, w.Resource); err != nil || ok {
		return Granted, err
	}
	ok, err := may("list", "services")
	if err != nil || !ok {
		return NoAccess, err
	}
	return Lacking, nil
}

// WebhookReads is what Kube.Webhooks reads; a class that calls it declares it.
var WebhookReads = []grant.Grant{grant.ListValidating, grant.ListMutating}

// RoleCommand returns the command that adds the request to the controller's role.
func RoleCommand(w KubeWrite) string {
	rule := fmt.Sprintf(`{"apiGroups":[""],"resources":["%s"],"verbs":["%s"]}`, w.Resource, w.Verb)
	return fmt.Sprintf(`kubectl patch clusterrole %s --type=json -p '[{"op":"add","path":"/rules/-","value":%s}]'`, ClusterRole, rule)
}

// BindCommand returns the command that binds the controller's account to its role.
func BindCommand() string {
	return fmt.Sprintf("kubectl create clusterrolebinding %[1]s --clusterrole=%[1]s --serviceaccount=kube-system:%[2]s", ClusterRole, DaemonSet)
}
