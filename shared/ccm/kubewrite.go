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

// Account is the user that the controller is in the cluster, and ClusterRole its role, as its
// manifests have them (deploy/v2/cloud-controller-manager.yaml). The role of the manifest of
// v2.14.0 has no rule for pods/status, which the controller writes since v2.10.0.
const (
	Account     = "system:serviceaccount:kube-system:" + DaemonSet
	ClusterRole = "system:" + DaemonSet
)

// A KubeWrite is one of the controller's requests to Kubernetes of which an Event says that
// it was refused.
type KubeWrite struct {
	Verb, Resource string
	Leaves         say.Text // what the refusal leaves behind
}

// String returns the request as a person writes it: "patch services/status".
func (w KubeWrite) String() string { return w.Verb + " " + w.Resource }

// Always reports whether the controller makes the request for every Service: that of Pods is
// for those with a readiness gate alone.
func (w KubeWrite) Always() bool { return strings.HasPrefix(w.Resource, "services") }

// kubeWrites are the writes by what the controller begins its Event with. Labels go through
// services/status (pkg/controller/service/clbv1/service_controller.go:297-400, 542-575;
// pkg/controller/service/nlbv2/nlb_controller.go:206-310, 432-489; pkg/controller/helper/finalizer.go).
var kubeWrites = []struct {
	begins, resource string
	leaves           say.Text
}{
	{"Error adding finalizer", "services", say.F("Nothing of the Service is synced before it has the finalizer.")},
	{"Error updating pod readiness gates", "pods/status",
		say.F("The load balancer is synced, but Pods are not told that they serve it, and rollouts that wait for that stop.")},
	{"Error adding service hash", "services/status",
		say.F("The load balancer is synced, but the Service gets neither the labels nor a new address.")},
	{"Error updating load balancer status", "services/status", say.F("The load balancer is synced, but the Service does not get its address.")},
	{"Error removing service hash", "services/status", hangs},
	{"Error removing load balancer status", "services/status", hangs},
	{"Error removing load balancer finalizer", "services", hangs},
}

var hangs = say.F("The controller has cleaned up the load balancer, but the Service keeps the finalizer, so a deletion of it does not end.")

// unauthorized finds the request in what the API server says of one that RBAC does not allow.
var unauthorized = regex.New(`cannot (get|list|watch|patch|update) resource "(services|services/status|pods|pods/status)" in API group ""`)

// KubeWriteOf returns the request that the Event's message is about; false if it is about none.
// A write needs reads, too: the one that was refused counts, if it is one of the controller's.
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

// An Access is what the API server lets the controller's account do.
type Access int

// The accesses.
const (
	Stranger Access = iota // not even list Services: the cluster has no such account, or nothing is bound to it
	Lacking                // list Services, and not what was asked
	Granted                // what was asked
)

// Access asks the API server whether the controller's account may make the request in the
// namespace of the Service. It needs grant.ReviewAccess.
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
		return Stranger, err
	}
	return Lacking, nil
}

// WebhookReads is what Kube.Webhooks reads. A class that calls it declares it.
var WebhookReads = []grant.Grant{grant.ListValidating, grant.ListMutating}

// RoleCommand returns the command by which a person adds the request to the controller's role.
func RoleCommand(w KubeWrite) string {
	rule := fmt.Sprintf(`{"apiGroups":[""],"resources":["%s"],"verbs":["%s"]}`, w.Resource, w.Verb)
	return fmt.Sprintf(`kubectl patch clusterrole %s --type=json -p '[{"op":"add","path":"/rules/-","value":%s}]'`, ClusterRole, rule)
}

// BindCommand returns the command by which a person binds the controller's account to its role.
func BindCommand() string {
	return fmt.Sprintf("kubectl create clusterrolebinding %[1]s --clusterrole=%[1]s --serviceaccount=kube-system:%[2]s", ClusterRole, DaemonSet)
}
