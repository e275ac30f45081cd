package controller_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

// rules returns the controller's rules without some verbs on resources, written as "patch services/status".
func rules(without ...string) []rbacv1.PolicyRule {
	var all []rbacv1.PolicyRule
	for _, r := range []struct{ group, resource, verbs string }{
		{"", "services", "get list watch patch"}, {"", "services/status", "patch"}, {"", "nodes", "get list watch"},
		{"", "pods", "get list watch"}, {"", "pods/status", "patch"}, {"", "events", "create patch"}, {"discovery.k8s.io", "endpointslices", "get list watch"},
	} {
		verbs := slices.DeleteFunc(strings.Fields(r.verbs), func(v string) bool { return slices.Contains(without, v+" "+r.resource) })
		if len(verbs) > 0 {
			all = append(all, rbacv1.PolicyRule{APIGroups: []string{r.group}, Resources: []string{r.resource}, Verbs: verbs})
		}
	}
	return all
}

func as(r *rig, rules []rbacv1.PolicyRule) (user string) {
	user = "ccm-" + r.ns
	r.opts.Kube = cluster.Join(r.T).As(r.T, user, rules)
	return user
}

func TestKubernetesRefuses(t *testing.T) {
	t.Run("finalizer", func(t *testing.T) {
		t.Parallel()
		user := ""
		r := newRig(t, nil, 1, func(r *rig) { user = as(r, rules("patch services")) })
		r.service("web", nil)
		r.saw("web", fmt.Sprintf("Warning FailedAddFinalizer Error adding finalizer: services \"web\" is forbidden: User %q cannot patch resource "+
			"\"services\" in API group \"\" in the namespace %q", user, r.ns))
		if got := r.actions(); len(got) > 0 {
			t.Errorf("called %v", got)
		}
	})
	t.Run("hash", func(t *testing.T) {
		t.Parallel()
		user := ""
		r := newRig(t, nil, 1, func(r *rig) { user = as(r, rules("patch services/status")) })
		r.service("web", nil)
		r.saw("web", fmt.Sprintf("Warning FailedAddHash Error adding service hash: %s/web failed to add service hash:, error: services \"web\" is forbidden: "+
			"User %q cannot patch resource \"services/status\" in API group \"\" in the namespace %q", r.ns, user, r.ns))
		if lb := r.byName(ownName(r.get("web"))); len(lb.Listeners) != 1 {
			t.Errorf("the cloud is not synced: %+v", lb)
		}
	})
	t.Run("end", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, nil, 1)
		r.service("web", nil)
		r.synced("web", "")
		r.stop()
		user := as(r, rules("patch services/status"))
		r.start()
		r.ensured("web", 1)
		r.delete("web")
		r.saw("web", fmt.Sprintf("Warning FailedRemoveHash Error removing service hash: %s/web failed to remove service hash:, error: services \"web\" is "+
			"forbidden: "+
			"User %q cannot patch resource \"services/status\" in API group \"\" in the namespace %q", r.ns, user, r.ns))
	})
	t.Run("end of the finalizer", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, nil, 1)
		r.service("web", nil)
		r.synced("web", "")
		r.ensured("web", 1)
		r.stop()
		user := as(r, rules("patch services"))
		r.start()
		r.delete("web")
		r.saw("web", fmt.Sprintf("Warning FailedRemoveFinalizer Error removing load balancer finalizer: services \"web\" is forbidden: "+
			"User %q cannot patch resource \"services\" in API group \"\" in the namespace %q", user, r.ns))
	})
}

type recorder struct {
	next   http.RoundTripper
	refuse func(body string) bool

	mu     sync.Mutex
	writes []string // path and body
}

func (k *recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPatch || strings.Contains(r.URL.Path, "/events/") {
		return k.next.RoundTrip(r)
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(b))
	k.mu.Lock()
	k.writes = append(k.writes, r.URL.Path[strings.LastIndex(r.URL.Path, "/services/")+len("/services/"):]+" "+string(b))
	k.mu.Unlock()
	if k.refuse != nil && k.refuse(string(b)) {
		const status = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","message":"etcd is slow","code":500}`
		return &http.Response{
			StatusCode: http.StatusInternalServerError, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(status)),
		}, nil
	}
	return k.next.RoundTrip(r)
}

func (k *recorder) count(part string) (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range k.writes {
		if strings.Contains(w, part) {
			n++
		}
	}
	return n
}

func recorded(k *recorder) func(*rig) {
	return func(r *rig) {
		r.opts.Kube = rest.CopyConfig(r.opts.Kube)
		r.opts.Kube.Wrap(func(next http.RoundTripper) http.RoundTripper {
			k.next = next
			return k
		})
	}
}

// TestOrderOfWrites: finalizer, labels, status; on deletion labels, status, finalizer.
func TestOrderOfWrites(t *testing.T) {
	t.Parallel()
	k := &recorder{}
	r := newRig(t, nil, 1, recorded(k))
	r.service("web", nil)
	r.synced("web", "")
	r.ensured("web", 1)
	r.delete("web")
	r.gone("web")
	k.mu.Lock()
	defer k.mu.Unlock()
	var got []string
	for _, w := range k.writes {
		path, body, _ := strings.Cut(w, " ")
		for _, part := range []string{"finalizers", labelHash, labelID, "ingress"} {
			if strings.Contains(body, part) {
				path += " " + part
			}
		}
		got = append(got, path)
	}
	want := []string{
		"web finalizers", "web/status " + labelHash + " " + labelID, "web/status ingress",
		"web/status " + labelHash + " " + labelID, "web/status ingress", "web finalizers",
	}
	// A write with a conflict is repeated.
	if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
		t.Error(diff)
	}
}

// TestStatusRetries: writing the status is tried three times before an Event reports the failure.
func TestStatusRetries(t *testing.T) {
	t.Run("set", func(t *testing.T) {
		t.Parallel()
		k := &recorder{refuse: func(body string) bool { return strings.Contains(body, "ingress") }}
		r := newRig(t, nil, 1, recorded(k), func(r *rig) { r.opts.Speed = 1000 })
		r.service("web", nil)
		r.saw("web", "Warning FailedUpdateStatus Error updating load balancer status: etcd is slow")
		if n := k.count("ingress"); n != 3 {
			t.Errorf("%d attempts", n)
		}
		if svc := r.get("web"); svc.Labels[labelHash] == "" {
			t.Error("the labels are not written before the status")
		}
	})
	t.Run("removed", func(t *testing.T) {
		t.Parallel()
		k := &recorder{refuse: func(body string) bool { return strings.Contains(body, `"ingress":null`) }}
		r := newRig(t, nil, 1, recorded(k), func(r *rig) { r.opts.Speed = 1000 })
		r.service("web", nil)
		r.synced("web", "")
		r.delete("web")
		r.saw("web", "Warning FailedUpdateStatus Error removing load balancer status: timed out waiting for the condition")
	})
}

func TestReadinessRefused(t *testing.T) {
	t.Parallel()
	user := ""
	r := newRig(t, &sim.World{ENIs: []sim.ENI{{ID: "eni-1", IPs: []string{"10.1.5.8"}}}}, 0, func(r *rig) { user = as(r, rules("patch pods/status")) })
	r.pod("pod-10-1-5-8", corev1.ConditionTrue)
	r.pods("web", "10.1.5.8")
	r.unready("web")
	r.service("web", nil, eni)
	r.saw("web", fmt.Sprintf("Warning FailedUpdateReadinessGate Error updating pod readiness gates for service [%s/web]: pods \"pod-10-1-5-8\" is forbidden: "+
		"User %q cannot patch resource \"pods/status\" in API group \"\" in the namespace %q", r.ns, user, r.ns))
	if svc := r.get("web"); len(svc.Labels) > 0 {
		t.Errorf("labels %v", svc.Labels)
	}
}

// TestCombinedEvents: from the tenth on, errors with varying texts become one Event.
func TestCombinedEvents(t *testing.T) {
	t.Parallel()
	const combined = "(combined from similar events): "
	r := newRig(t, nil, 0, func(r *rig) { r.cloud.Revoke("ccm", "ecs:DescribeNetworkInterfaces") })
	r.pods("web", "10.1.5.9")
	r.service("web", nil, eni)
	distinct := func() (n int, last *corev1.Event) {
		for _, e := range r.all {
			if e.Reason == "SyncLoadBalancerFailed" {
				n++
				if strings.HasPrefix(e.Message, combined) {
					last = e
				}
			}
		}
		return n, last
	}
	for i := range 12 {
		r.until(fmt.Sprintf("failure %d", i+1), func() bool {
			n, last := distinct()
			count := 0
			if last != nil {
				count = int(last.Count) - 1
			}
			return n+count >= i+1
		})
		if i < 11 {
			r.touch("web", fmt.Sprint(i))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n, last := distinct()
	if n != 10 || last == nil || last.Count != 3 || !strings.HasPrefix(last.Message, combined+"Error syncing load balancer []: build lb local model error: ") {
		t.Errorf("%d events, the last of them %+v", n, last)
	}
}

// TestRevivedEvent tests two alternating errors: the Event of the first continues its count.
func TestRevivedEvent(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, 1, func(r *rig) { r.cloud.Fault(sim.Fault{Action: "CreateLoadBalancer", Code: "SystemBusy"}) })
	r.service("web", nil)
	first := r.saw("web", failed+"Error syncing load balancer []: Message: The system is busy.")
	r.annotate("web", "bandwidth", "much")
	r.saw("web", failed+`Error syncing load balancer []: build lb local model error: build lb attribute error: bandwidth must be integer, got [much], `+
		`error: strconv.Atoi: parsing "much": invalid syntax`)
	r.annotate("web", "bandwidth", "5")
	r.until("the first event again", func() bool {
		e := r.all[first.Name]
		return e.Count == 2 && !e.LastTimestamp.Before(&first.LastTimestamp)
	})
}

// TestSilentRetry: without a network interface for its Pod, the Service is retried with the back-off, without an Event.
func TestSilentRetry(t *testing.T) {
	t.Parallel()
	r := newRig(t, &sim.World{ENIs: []sim.ENI{{ID: "eni-1", IPs: []string{"10.1.5.8"}}, {ID: "eni-2", IPs: []string{"10.1.5.9"}, Status: "Creating"}}}, 0,
		func(r *rig) { r.opts.BackoffBase, r.opts.Speed = 0, 200 })
	r.pods("web", "10.1.5.8", "10.1.5.9")
	r.service("web", nil, eni)
	r.until("a second attempt", func() bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(r.all)), func(e *corev1.Event) bool { return e.Reason == "SkipSyncBackends" && e.Count >= 2 })
	})
	svc := r.synced("web", "")
	if got := r.events("web"); len(got) != 1 {
		t.Errorf("events %v", got)
	}
	r.cloud.Edit(func(s *sim.State) { s.ENIs["eni-2"].Status = "InUse" })
	r.ensured("web", 1)
	if n := len(r.lb(svc.Labels[labelID]).VGroups[0].Backends); n != 2 {
		t.Errorf("%d backends", n)
	}
}

// TestHashOfTheStart: after a change during a sync, the hash is that of the sync's start, and the change is synced next.
func TestHashOfTheStart(t *testing.T) {
	t.Parallel()
	k := &recorder{}
	r := newRig(t, nil, 1, recorded(k))
	var meanwhile sync.Once
	k.refuse = func(body string) bool {
		if strings.Contains(body, labelHash) {
			meanwhile.Do(func() { r.annotate("web", "name", "shop") })
		}
		return false
	}
	svc := r.service("web", nil)
	first, err := controller.Hash(svc, "")
	if err != nil {
		t.Fatal(err)
	}
	r.until("a sync of the change", func() bool {
		svc = r.services["web"]
		return svc != nil && svc.Labels[labelHash] != "" && svc.Labels[labelHash] != first && len(svc.Status.LoadBalancer.Ingress) > 0
	})
	if n := k.count(first); n != 1 {
		t.Errorf("the hash of the start was written %d times", n)
	}
	if last, err := controller.Hash(svc, ""); err != nil || svc.Labels[labelHash] != last || r.lb(svc.Labels[labelID]).Name != "shop" {
		t.Errorf("hash %s, want %s, %v", svc.Labels[labelHash], last, err)
	}
}

// TestPublicRefused: if the cluster forbids public load balancers, the Service is not retried before it changes.
func TestPublicRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, 1, func(r *rig) { r.opts.NoPublic, r.opts.BackoffBase, r.opts.Speed = true, 0, 1000 })
	r.service("web", nil)
	e := r.saw("web", failed+"create public address slb is not allowed")
	r.annotate("web", "address-type", "intranet")
	r.synced("web", "")
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.all[e.Name].Count; n != 1 {
		t.Errorf("it was refused %d times", n)
	}
}

func TestIgnored(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, 1, func(r *rig) { r.opts.Workers = 1 })
	for name, change := range map[string]func(*corev1.Service){
		"class":      func(s *corev1.Service) { s.Annotations["service.beta.kubernetes.io/class"] = "other" },
		"tunnel":     func(s *corev1.Service) { s.Annotations[prefix+"tunnel-type"] = "x" },
		"load-class": func(s *corev1.Service) { s.Spec.LoadBalancerClass = new("example.com/other") },
		"nodeport":   func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort },
	} {
		r.service(name, nil, change)
	}
	r.service("marker", nil)
	r.synced("marker", "")
	all, err := r.kube.CoreV1().Services(r.ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, svc := range all.Items {
		if svc.Name != "marker" && (len(svc.Finalizers) > 0 || len(r.events(svc.Name)) > 0) {
			t.Errorf("%s: finalizers %v, events %v", svc.Name, svc.Finalizers, r.events(svc.Name))
		}
	}
	if n := len(r.cloud.Snapshot().LoadBalancers); n != 1 {
		t.Errorf("%d load balancers", n)
	}
}
