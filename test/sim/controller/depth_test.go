package controller_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

const gate corev1.PodConditionType = "service.readiness.alibabacloud.com/web"

func (r *rig) pod(name string, ready corev1.ConditionStatus) {
	r.Helper()
	pods := r.kube.CoreV1().Pods(r.ns)
	pod, err := pods.Create(r.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			Containers:     []corev1.Container{{Name: "web", Image: "web"}},
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: gate}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		r.Fatal(err)
	}
	r.ready(pod, ready)
}

func (r *rig) ready(pod *corev1.Pod, ready corev1.ConditionStatus) {
	r.Helper()
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.ContainersReady, Status: ready}}
	if _, err := r.kube.CoreV1().Pods(r.ns).UpdateStatus(r.Context(), pod, metav1.UpdateOptions{}); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) unready(service string) {
	r.Helper()
	slices := r.kube.DiscoveryV1().EndpointSlices(r.ns)
	s, err := slices.Get(r.Context(), service, metav1.GetOptions{})
	if err != nil {
		r.Fatal(err)
	}
	for i := range s.Endpoints {
		s.Endpoints[i].Conditions = discoveryv1.EndpointConditions{Ready: new(false)}
	}
	if _, err := slices.Update(r.Context(), s, metav1.UpdateOptions{}); err != nil {
		r.Fatal(err)
	}
}

// TestReadinessGate: a synced Service is queued again until a Pod's containers are ready; the Pod then joins and gets the condition.
func TestReadinessGate(t *testing.T) {
	t.Parallel()
	r := newRig(t, &sim.World{ENIs: []sim.ENI{{ID: "eni-1", IPs: []string{"10.1.5.8"}, VPC: "vpc-1"}}}, 0, func(r *rig) { r.opts.Speed = 200 })
	r.pod("pod-10-1-5-8", corev1.ConditionFalse)
	r.pods("web", "10.1.5.8")
	r.unready("web")
	r.service("web", nil, eni)
	id := r.synced("web", "").Labels[labelID]
	r.ensured("web", 3) // two because it was queued again
	if n := len(r.lb(id).VGroups[0].Backends); n != 0 {
		t.Fatalf("%d backends before the containers are ready", n)
	}
	pod, err := r.kube.CoreV1().Pods(r.ns).Get(r.Context(), "pod-10-1-5-8", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.ready(pod, corev1.ConditionTrue)
	w, err := r.kube.CoreV1().Pods(r.ns).Watch(r.Context(), metav1.ListOptions{TimeoutSeconds: new(int64(patience / time.Second))})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	opened := false
	for e := range w.ResultChan() {
		if pod, ok := e.Object.(*corev1.Pod); ok && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == gate && c.Status == corev1.ConditionTrue && c.Reason == "ServerRegistered"
		}) {
			opened = true
			break
		}
	}
	if !opened {
		t.Fatal("the pod was not told that it is a backend")
	}
	if got := r.lb(id).VGroups[0].Backends; len(got) != 1 || got[0].IP != "10.1.5.8" {
		t.Errorf("backends %+v", got)
	}
}

// TestVirtualNode: Pods on a virtual node are backends next to servers.
func TestVirtualNode(t *testing.T) {
	for _, c := range []struct {
		policy corev1.ServiceExternalTrafficPolicy
		want   []string // server, type and weight
	}{
		{corev1.ServiceExternalTrafficPolicyCluster, []string{"eni-1 eni 100", "eni-2 eni 100", "i-1 ecs 100"}},
		{corev1.ServiceExternalTrafficPolicyLocal, []string{"eni-1 eni 1", "eni-2 eni 1"}},
	} {
		t.Run(string(c.policy), func(t *testing.T) {
			t.Parallel()
			world := sim.World{ENIs: []sim.ENI{{ID: "eni-1", IPs: []string{"10.1.5.8"}, VPC: "vpc-1"}, {ID: "eni-2", IPs: []string{"10.1.5.9"}, VPC: "vpc-1"}}}
			r := newRig(t, &world, 1, func(r *rig) {
				r.node(r.ns+"-vk", "vk")
				r.label(r.ns+"-vk", "type", "virtual-kubelet")
			})
			r.pods("web", "10.1.5.8", "10.1.5.9")
			r.moveEndpoints("web", r.ns+"-vk")
			r.service("web", nil, func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = c.policy })
			lb := r.lb(r.synced("web", "").Labels[labelID])
			var got []string
			for _, b := range lb.VGroups[0].Backends {
				got = append(got, b.Server+" "+b.Type+" "+strconv.Itoa(*b.Weight))
			}
			slices.Sort(got)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestHybridNode: since v2.12.1, neither a node outside the cloud nor its Pod is a backend; before, the sync fails on the node.
func TestHybridNode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		version string
		change  []func(*corev1.Service)
		want    int // backends; negative: the sync fails
	}{
		{"v2.14.0", nil, 1},
		{"v2.12.1", nil, 1},
		{"v2.14.0", []func(*corev1.Service){func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal }}, 0},
		{"v2.11.2", nil, -1},
	} {
		t.Run(fmt.Sprint(c.version, len(c.change)), func(t *testing.T) {
			t.Parallel()
			const id = "ack-hybrid://123456"
			r := newRig(t, nil, 1, plays(c.version))
			_, err := r.kube.CoreV1().Nodes().Create(r.Context(), &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: r.ns + "-outside", Labels: map[string]string{"rig": r.ns}}, Spec: corev1.NodeSpec{ProviderID: id},
				Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
			}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			r.Cleanup(func() {
				_ = r.kube.CoreV1().Nodes().Delete(context.Background(), r.ns+"-outside", metav1.DeleteOptions{})
			})
			r.pods("web", "192.168.0.8")
			r.moveEndpoints("web", r.ns+"-outside")
			r.service("web", nil, c.change...)
			if c.want < 0 {
				r.saw("web", failed+"Error syncing load balancer []: build lb local model error: build vserver groups error: "+
					"build vgroup for port 80 error: build cluster backends error: normal parse providerid: "+id+
					". expected: ${regionid}.${nodeid}, alicloud: unable to split instanceid and region from providerID, error unexpected providerID="+id)
				return
			}
			if got := r.lb(r.synced("web", "").Labels[labelID]).VGroups[0].Backends; len(got) != c.want {
				t.Errorf("backends %+v", got)
			}
		})
	}
}

func TestDefaultWeight(t *testing.T) {
	for version, want := range map[string]int{"v2.14.0": 30, "v2.13.0": 100} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil, 1, func(r *rig) { r.opts.Version = version })
			r.service("web", map[string]string{"default-weight": "30"})
			lb := r.lb(r.synced("web", "").Labels[labelID])
			if got := *lb.VGroups[0].Backends[0].Weight; got != want {
				t.Errorf("weight %d, want %d", got, want)
			}
		})
	}
}

func TestVersions(t *testing.T) {
	const gone = "alicloud: can not find loadbalancer, but it's defined in service [IP] this may happen when you delete the loadbalancer"
	reused := sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Tags: map[string]string{"kubernetes.do.not.delete": "a1"}}}}
	for _, c := range []struct {
		name, version string
		world         sim.World
		annotations   map[string]string
		breaks        func(*rig) // breaks a synced Service; nil: the first sync fails
		want          string
	}{
		{"reused", "v2.14.0", reused, map[string]string{"id": "lb-1"}, nil,
			failed + "Error syncing load balancer [lb-1]: apply model error: update lb attribute error: alicloud: the loadbalancer lb-1 can not be reused, can " +
				"not reuse loadbalancer created by kubernetes."},
		{"reused, without ID", "v2.9.1", reused, map[string]string{"id": "lb-1"}, nil,
			failed + "Error syncing load balancer []: apply model error: alicloud: the loadbalancer lb-1 can not be reused, can not " +
				"reuse loadbalancer created by kubernetes."},
		{"reused, without bracket", "v2.1.0", reused, map[string]string{"id": "lb-1"}, nil,
			failed + "Error syncing load balancer: apply model error: update lb attribute error: alicloud: the loadbalancer lb-1 can not be reused, can not " +
				"reuse loadbalancer created by kubernetes."},
		{"no such load balancer", "v1.9.3.376", sim.World{}, map[string]string{"id": "lb-nope"}, nil,
			failed + "Error syncing load balancer: alicloud: user specified loadbalancer[lb-nope] does not exist. pls check"},
		{"gone", "v2.9.1", sim.World{}, nil, drop, failed + "Error syncing load balancer []: apply model error: " + gone},
		{"gone", "v2.1.0", sim.World{}, nil, drop, failed + "Error syncing load balancer: apply model error: update lb attribute error: " + gone},
		{"gone", "v1.9.3.376", sim.World{}, nil, drop, failed + "Error syncing load balancer: " +
			"alicloud: not able to find loadbalancer named [web] in openapi, but it's defined in service.loaderbalancer.ingress. this may happen when you " +
			"removed loadbalancerid annotation"},
		{"address type", "v2.9.1", sim.World{}, nil, func(r *rig) { r.annotate("web", "address-type", "intranet") },
			failed + "Error syncing load balancer [LB]: apply model error: update lb attribute error: alicloud: can not change LoadBalancer AddressType once " +
				"created. delete and retry"},
		{"network type", "v2.12.0", sim.World{}, nil, func(r *rig) { r.annotate("web", "network-type", "vpc") },
			failed + "Error syncing load balancer [LB]: apply model error: update lb attribute error: alicloud: can not change LoadBalancer network type once created"},
	} {
		t.Run(c.name+", "+c.version, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, &c.world, 1, func(r *rig) { r.opts.Version = c.version })
			r.service("web", c.annotations)
			want := c.want
			if c.breaks != nil {
				svc := r.synced("web", "")
				want = strings.NewReplacer("[LB]", "["+r.byName(ownName(svc)).ID+"]", "[IP]", "["+svc.Status.LoadBalancer.Ingress[0].IP+"]").Replace(want)
				c.breaks(r)
			}
			r.saw("web", want)
		})
	}
}

func drop(r *rig) {
	r.cloud.DropLoadBalancer(r.byName(ownName(r.get("web"))).ID)
	r.touch("web", "1")
}

// TestInTurn: in a release that works sequentially, a port without backends has no listener and no Event.
func TestInTurn(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, 1, func(r *rig) {
		r.opts.Version = "v2.9.1"
		r.cloud.Fault(sim.Fault{Action: "AddVServerGroupBackendServers", Code: "SystemBusy", Count: 1})
	})
	svc := r.service("web", nil)
	r.until("a failure", func() bool { return hasReason(r, "SyncLoadBalancerFailed") })
	id := r.byName(ownName(svc)).ID
	r.saw("web", failed+"Error syncing load balancer ["+id+"]: Message: The system is busy.")
	r.touch("web", "1")
	r.synced("web", "")
	if diff := cmp.Diff([]string{
		"DescribeLoadBalancers", "DescribeLoadBalancers", "CreateLoadBalancer", "TagResources", "DescribeLoadBalancerAttribute",
		"DescribeVServerGroups", "CreateVServerGroup", "AddVServerGroupBackendServers",
		"DescribeLoadBalancers", "ListTagResources", "DescribeVServerGroups", "DescribeVServerGroupAttribute", "AddVServerGroupBackendServers",
		"DescribeLoadBalancerListeners", "CreateLoadBalancerTCPListener", "StartLoadBalancerListener",
	}, r.actions()); diff != "" {
		t.Error(diff)
	}
}

// TestExpiredCertificate: an expired certificate does not replace another one, but a new listener uses it.
func TestExpiredCertificate(t *testing.T) {
	t.Parallel()
	r := newRig(t, &sim.World{Certificates: []sim.Certificate{
		{ID: "cert-good", Expires: time.Now().Add(time.Hour)}, {ID: "cert-old", Expires: time.Now().Add(-time.Hour)},
	}}, 1)
	r.service("web", map[string]string{"protocol-port": "https:80", "cert-id": "cert-good"})
	svc := r.synced("web", "")
	id := svc.Labels[labelID]
	r.annotate("web", "cert-id", "cert-old")
	r.saw("web", failed+"Error syncing load balancer ["+id+"]: apply model error: update listener error: can not update cert cert-old because it is expired")
	if got := r.lb(id).Listeners[0].Config["ServerCertificateId"]; got != "cert-good" {
		t.Errorf("the listener has %s", got)
	}
	r.service("new", map[string]string{"protocol-port": "https:80", "cert-id": "cert-old"})
	r.synced("new", "")
}

// reports captures the report of a dry run: it is about the whole cluster, and exporters of other tests would publish it.
type reports struct {
	next http.RoundTripper
	last *corev1.Event
}

func (k *reports) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost && r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/namespaces/kube-system/events") {
		return k.next.RoundTrip(r)
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	o, _, err := scheme.Codecs.UniversalDeserializer().Decode(b, nil, nil)
	if err != nil {
		return nil, err
	}
	if e, ok := o.(*corev1.Event); ok && e.Name == "CloudControllerManagerPrecheckResult" {
		k.last = e
		return &http.Response{StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": r.Header["Content-Type"]},
			Body: io.NopCloser(bytes.NewReader(b)), Request: r}, nil
	}
	r.Body = io.NopCloser(bytes.NewReader(b))
	return k.next.RoundTrip(r)
}

func (r *rig) rehearse() *corev1.Event {
	r.Helper()
	k := &reports{}
	o := r.opts
	o.DryRun, o.Kube = true, rest.CopyConfig(o.Kube)
	o.Kube.Wrap(func(next http.RoundTripper) http.RoundTripper {
		k.next = next
		return k
	})
	if err := controller.Run(r.Context(), o); err != nil {
		r.Fatal(err)
	}
	if k.last == nil {
		r.Fatal("the dry run stored no report")
	}
	return k.last
}

// TestDryRun tests the check before an upgrade: it only writes a report.
func TestDryRun(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, 1)
	r.service("web", nil)
	svc := r.synced("web", "")
	id := svc.Labels[labelID]
	r.stop()
	r.annotate("web", "name", "shop")
	made := r.service("new", nil)
	before := r.cloud.Snapshot()

	r.opts.Before = func(*corev1.Event) { // delay Events beyond the report
		for range 20 {
			if _, err := r.kube.CoreV1().Services(r.ns).Get(r.Context(), "web", metav1.GetOptions{}); err != nil {
				r.Error(err)
			}
		}
	}
	report := r.rehearse()
	r.saw("web", failed+"DryRun: Error syncing load balancer ["+id+
		"]: apply model error: update lb attribute error: SetLoadBalancerName: OpenAPI: SetLoadBalancerName, Message: loadbalancer "+id+" name should be shop")
	r.saw("new", failed+"DryRun: Error syncing load balancer []: apply model error: update lb attribute error: create lb error: create slb error: OpenAPI: "+
		"CreateLoadBalancer, Message: need to create loadbalancer")
	if diff := cmp.Diff(before, r.cloud.Snapshot()); diff != "" {
		t.Error("the dry run changed the cloud", diff)
	}
	if now := r.get("new"); len(now.Finalizers) > 0 || now.ResourceVersion != made.ResourceVersion {
		t.Error("the dry run changed a Service")
	}
	var got struct {
		State, Reason string
		CheckResults  []struct {
			Name            string
			InstanceResults map[string]struct{ Id, MessageLevel, MessageCode string }
			FailedCount     int
		}
	}
	if err := json.Unmarshal([]byte(report.Message), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.CheckResults) != 1 || got.State != "Success" || report.Reason != "Success" {
		t.Fatalf("report %+v", got)
	}
	check := got.CheckResults[0]
	if check.Name != "ccmSLB" || check.FailedCount != 2 || check.InstanceResults[r.ns+"/new"].MessageCode != "CreateSLB" ||
		check.InstanceResults[r.ns+"/web"].MessageCode != "SetSLBName" || check.InstanceResults[r.ns+"/web"].Id != id {
		t.Errorf("report %s", report.Message)
	}
}

func TestLateEvent(t *testing.T) {
	t.Parallel()
	held, free := make(chan struct{}), make(chan struct{})
	hold := sync.OnceFunc(func() { close(held) })
	release := sync.OnceFunc(func() { close(free) })
	defer release()
	r := newRig(t, nil, 1, func(r *rig) {
		r.opts.Before = func(e *corev1.Event) {
			if e.Reason == "SyncLoadBalancerFailed" {
				hold()
				<-free
			}
		}
		r.cloud.Fault(sim.Fault{Action: "CreateLoadBalancer", Code: "SystemBusy", Count: 1})
	})
	r.service("web", nil)
	select {
	case <-held:
	case <-time.After(patience):
		t.Fatal("no event of the failure was written")
	}
	r.touch("web", "1")
	r.synced("web", "")
	if got := r.events("web"); len(got) > 0 {
		t.Fatalf("events %v arrived early", got)
	}
	release()
	r.saw("web", failed+"Error syncing load balancer []: Message: The system is busy.")
	r.ensured("web", 1)
}

func TestSpeed(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, 1, func(r *rig) {
		r.opts.BackoffBase, r.opts.BackoffMax, r.opts.Speed = 0, 0, 5000
		r.cloud.Fault(sim.Fault{Action: "DescribeLoadBalancers", Code: "Throttling.User", Count: 8})
	})
	r.service("web", nil) // 5 s, 10 s, … 300 s: fifteen minutes
	r.synced("web", "")
}

func TestEndIsNoFailure(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, 1, func(r *rig) {
		r.cloud.Fault(sim.Fault{Action: "DescribeLoadBalancers", Hang: true})
	})
	r.service("web", nil)
	r.until("the sync to begin", func() bool {
		svc := r.services["web"]
		return svc != nil && len(svc.Finalizers) > 0
	})
	r.stop()
	all, err := r.kube.CoreV1().Events(r.ns).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=SyncLoadBalancerFailed"})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all.Items {
		t.Errorf("an event says %q", e.Message)
	}
}

func TestGitOps(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, 1)
	manifest := r.service("web", map[string]string{"name": "shop"})
	r.synced("web", "")
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := (controller.GitOps{Kube: r.opts.Kube, Want: []*corev1.Service{{
			ObjectMeta: metav1.ObjectMeta{Namespace: r.ns, Name: "web", Annotations: manifest.Annotations},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		}}, Strict: true}).Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer cancel()
	r.annotate("web", "name", "other")
	r.annotate("web", "spec", "slb.s1.small")
	r.touch("web", "stays")
	r.patch("web", `{"spec":{"ports":[{"port":81,"targetPort":8080,"protocol":"TCP"}]}}`)
	r.until("the change to be put back", func() bool {
		svc := r.services["web"]
		_, added := svc.Annotations[prefix+"spec"]
		return svc.Annotations[prefix+"name"] == "shop" && !added && svc.Spec.Ports[0].Port == 80 && svc.Annotations["touch"] == "stays"
	})
}
