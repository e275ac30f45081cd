package operator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/test/sim"
)

// An API serves Services and namespaces by name and lists by path, in pages like an API server, for clusters that a shared server cannot have,
// such as one without Services or one with 5,000. Unknown lists are empty; other objects do not exist.
type API struct {
	Lists  map[string][]any
	Denied bool   // all reads are denied
	User   string // the caller; empty: unknown
}

// ServeHTTP answers like an API server.
func (a API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	no := func(code int, reason, text string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code, "message": text})
	}
	all, has := a.Lists[r.URL.Path]
	switch {
	case a.Denied:
		no(http.StatusForbidden, "Forbidden", `User "ann" cannot list resource "services" in API group "" at the cluster scope`)
		return
	case a.User != "" && path.Base(r.URL.Path) == "selfsubjectreviews":
		_ = json.NewEncoder(w).Encode(map[string]any{"status": map[string]any{"userInfo": map[string]any{"username": a.User}}})
		return
	case strings.Count(r.URL.Path, "/") == 6 && path.Base(path.Dir(r.URL.Path)) == "services":
		is := func(one any) bool {
			svc, ok := one.(corev1.Service)
			return ok && r.URL.Path == "/api/v1/namespaces/"+svc.Namespace+"/services/"+svc.Name
		}
		if i := slices.IndexFunc(a.Lists["/api/v1/services"], is); i >= 0 {
			svc := a.Lists["/api/v1/services"][i].(corev1.Service)
			svc.UID = cmp.Or(svc.UID, types.UID(svc.Name))
			_ = json.NewEncoder(w).Encode(svc)
			return
		}
		no(http.StatusNotFound, "NotFound", "it is not there")
		return
	case path.Dir(r.URL.Path) == "/api/v1/namespaces":
		all := a.Lists["/api/v1/namespaces"]
		i := slices.IndexFunc(all, func(one any) bool { ns, ok := one.(corev1.Namespace); return ok && ns.Name == path.Base(r.URL.Path) })
		if i >= 0 {
			ns := all[i].(corev1.Namespace)
			ns.UID = cmp.Or(ns.UID, types.UID(ns.Name))
			_ = json.NewEncoder(w).Encode(ns)
			return
		}
		no(http.StatusNotFound, "NotFound", "it is not there")
		return
	case !has && !slices.Contains([]string{"services", "nodes", "events", "endpointslices", "daemonsets", "pods"}, path.Base(r.URL.Path)):
		no(http.StatusNotFound, "NotFound", "it is not there")
		return
	}
	if name, ok := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name="); ok {
		all = slices.DeleteFunc(slices.Clone(all), func(one any) bool { svc, is := one.(corev1.Service); return !is || svc.Name != name })
	}
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil {
		limit = len(all)
	}
	from, err := strconv.Atoi(r.URL.Query().Get("continue"))
	if err != nil {
		from = 0
	}
	to := min(len(all), from+limit)
	meta := map[string]string{"resourceVersion": "7"}
	if to < len(all) {
		meta["continue"] = strconv.Itoa(to)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "List", "metadata": meta, "items": append([]any{}, all[from:to]...)})
}

// Against returns calls of the program with a cluster and an account.
func (a API) Against(t testing.TB, world *sim.World) (Call, *sim.Cloud) {
	t.Helper()
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	account := sim.New(t, world)
	admin := account.Admin()
	return Call{Env: map[string]string{
		"HOME": t.TempDir(), "LBREMEDY_STATE_DIR": t.TempDir(), "LBREMEDY_CLUSTER": world.Cluster.ID, "LBREMEDY_REGION": account.Region(),
		"LBREMEDY_CLOUD_ENDPOINT": account.Addr(), "LBREMEDY_CLOUD_SCHEME": "HTTP",
		KeyID: admin.AccessKeyID, KeySecret: admin.Secret,
		"LBREMEDY_KUBECONFIG": Write(t, "kubeconfig", fmt.Sprintf(
			`{kind: Config, clusters: [{name: a, cluster: {server: %q}}], contexts: [{name: a, context: {cluster: a}}], current-context: a}`, server.URL)),
	}}, account
}

// ServiceOn returns a Service of type LoadBalancer with the load balancer in a label or the annotation id, if any.
func ServiceOn(name, label, id string) corev1.Service {
	svc := corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", len(name)+1000*len(label)))},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}},
	}
	if label != "" {
		svc.Labels = map[string]string{ccm.BalancerLabel: label}
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.9"}}
	}
	if id != "" {
		svc.Annotations = map[string]string{ccm.Prefix + "id": id}
	}
	return svc
}

// Small returns a cluster with a Service for each possible statement about a load balancer.
func Small(t *testing.T) (Call, *sim.Cloud) {
	t.Helper()
	own := ServiceOn("own", "lb-own", "")
	return API{Lists: map[string][]any{"/api/v1/services": {
		own, ServiceOn("lent", "lb-lent", "lb-lent"), ServiceOn("nowhere", "lb-nowhere", "lb-nowhere"), ServiceOn("lost-it", "lb-lost", ""),
		ServiceOn("untagged", "lb-untagged", ""), ServiceOn("young", "", ""),
	}}}.Against(t, &sim.World{
		Cluster: sim.Cluster{ID: "c1"},
		LoadBalancers: []sim.LoadBalancer{
			{ID: "lb-own", Address: "203.0.113.9", Tags: map[string]string{ccm.NameTag: ccm.DefaultName(&own)}, Listeners: []sim.Listener{{Port: 80}}},
			{ID: "lb-lent", Address: "203.0.113.10", AddressType: "intranet"},
			{ID: "lb-untagged", Address: "203.0.113.11"},
		},
	})
}
