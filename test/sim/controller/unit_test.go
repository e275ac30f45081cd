package controller

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/lbremedy/lbremedy/test/sim"
)

func mustVersion(t *testing.T, s string) version {
	t.Helper()
	v, err := parseVersion(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestVersion(t *testing.T) {
	for _, c := range []struct {
		version, release string
		want             bool
	}{
		{"", "v2.14.0", true}, {"v2.14.0", "v2.14.0", true}, {"v2.13.0", "v2.14.0", false}, {"v2.9.1", "v2.12.0", false},
		{"v1.9.3.376", "v1.9.3.372", true}, {"v1.9.3.376-abc", "v2.1.0", false}, {"v2.12", "v2.12.1", false},
	} {
		if got := mustVersion(t, c.version).since(c.release); got != c.want {
			t.Errorf("%q since %q: %v", c.version, c.release, got)
		}
	}
	for _, bad := range []string{"latest", "v2.x", "v1.9.3.81", "v2.-1"} {
		if _, err := parseVersion(bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestMessages(t *testing.T) {
	sdk := func(m string) string {
		return "[SDKError] API: CreateLoadBalancer, ErrorCode: X, RequestId: 1, Message: " + m
	}
	two := errors.New("apply model error: [a: " + sdk("first.") + ", b: " + sdk("second.") + "]")
	own := errors.New("apply model error: alicloud: own words")
	type texts struct{ Sync, Clean, None, Ensured string }
	say := func(n note) string { return n.kind + " " + n.reason + " " + n.message }
	for _, c := range []struct {
		version string
		err     error
		want    texts
	}{
		{"v2.14.0", two, texts{
			"Warning SyncLoadBalancerFailed Error syncing load balancer [lb-1]: Message: first., b: ",
			"Warning CleanLoadBalancerFailed Error deleting load balancer [lb-1]: Message: first., b: ",
			"Normal UnAvailableLoadBalancer There are no available nodes for LoadBalancer",
			"Normal EnsuredLoadBalancer Ensured load balancer [lb-1]",
		}},
		{"v2.5.0", two, texts{
			"Warning SyncLoadBalancerFailed Error syncing load balancer [lb-1]: Message: second.]",
			"Warning CleanLoadBalancerFailed Error deleting load balancer [lb-1]: Message: second.]",
			"Normal UnAvailableLoadBalancer There are no available nodes for LoadBalancer",
			"Normal EnsuredLoadBalancer Ensured load balancer [lb-1]",
		}},
		{"v2.1.0", own, texts{
			"Warning SyncLoadBalancerFailed Error syncing load balancer: apply model error: alicloud: own words",
			"Warning CleanLoadBalancerFailed Error deleting load balancer: apply model error: alicloud: own words",
			"Normal UnAvailableLoadBalancer There are no available nodes for LoadBalancer",
			"Normal EnsuredLoadBalancer Ensured load balancer",
		}},
		{"v1.9.3.376", two, texts{
			"Warning SyncLoadBalancerFailed Error syncing load balancer: Message: second.]",
			"Warning DeleteLoadBalancerFailed Error deleting load balancer: Message: second.]",
			"Warning UnAvailableLoadBalancer There are no available nodes for LoadBalancer",
			"Normal EnsuredLoadBalancer Ensured load balancer",
		}},
		{"v1.9.3.316", two, texts{
			"Warning Failed Fail to ensure loadbalancer, error Message: second.]",
			"Warning Failed Fail to delete loadbalancer, error Message: second.]",
			"Warning NoBackend There are no available nodes for loadbalancer",
			"Normal EnsuredLoadBalancer Ensured load balancer",
		}},
		{"v1.9.3.239", own, texts{
			"  ", // becomes none
			"Warning DeletingLoadBalancerFailed Error deleting: apply model error: alicloud: own words",
			"Warning UnAvailableLoadBalancer There are no available backend loadbalancer nodes for service shop/web",
			"Normal EnsuredLoadBalancer Finished ensured loadbalancer, shop/web",
		}},
		{"v1.9.3.101", own, texts{
			"Warning CreatingLoadBalancerFailed Error creating load balancer (will retry): apply model error: alicloud: own words",
			"Warning DeletingLoadBalancerFailed Error deleting load balancer (will retry): apply model error: alicloud: own words",
			"Warning UnAvailableLoadBalancer There are no available nodes for LoadBalancer service shop/web",
			"Normal EnsuredLoadBalancer Ensured load balancer",
		}},
	} {
		v := mustVersion(t, c.version)
		got := texts{say(v.syncFailed("lb-1", c.err)), say(v.cleanFailed("lb-1", c.err)), say(v.noBackends("shop/web")), say(v.ensured("lb-1", "shop/web"))}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.version, diff)
		}
	}
	raw := errors.New("call X: SDK.ServerError\nErrorCode: Y\nMessage: whole")
	if got := mustVersion(t, "").reduce(raw); got != raw.Error() {
		t.Errorf("an error that is not marked was reduced to %q", got)
	}
}

func TestHash(t *testing.T) {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"k": "v", "none": ""}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: "Cluster", ClusterIP: "172.16.0.9", Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt(8080), NodePort: 30080, Protocol: "TCP"}},
		},
	}
	const text = "- - nodePort: 30080\n    port: 80\n    protocol: TCP\n    targetPort: 8080\n- LoadBalancer\n- Cluster\n- k: v\n"
	sum := sha256.Sum224([]byte(text))
	v := mustVersion(t, "")
	before := v.hash(svc)
	if want := hex.EncodeToString(sum[:]); before != want {
		t.Errorf("hash %s, want %s", before, want)
	}
	for _, c := range []struct {
		what   string
		change func(*corev1.Service)
		moves  bool
	}{
		{"label", func(s *corev1.Service) { s.Labels["c"] = "d" }, false},
		{"selector", func(s *corev1.Service) { s.Spec.Selector["x"] = "y" }, false},
		{"status", func(s *corev1.Service) { s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "1.2.3.4"}} }, false},
		{"annotation", func(s *corev1.Service) { s.Annotations["touch"] = "1" }, true},
		{"port", func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }, true},
		{"traffic policy", func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = "Local" }, true},
		{"deletion", func(s *corev1.Service) { s.DeletionTimestamp = new(metav1.Now()) }, true},
		{"source ranges", func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"} }, true},
	} {
		changed := svc.DeepCopy()
		c.change(changed)
		if moved := v.hash(changed) != before; moved != c.moves {
			t.Errorf("%s: hash changed: %v", c.what, moved)
		}
	}
	ranges := svc.DeepCopy()
	ranges.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"}
	if mustVersion(t, "v2.13.0").hash(ranges) != before {
		t.Error("source ranges are in the hash before v2.14.0")
	}
	old := mustVersion(t, "v2.6.0")
	selector := svc.DeepCopy()
	selector.Spec.Selector["x"] = "y"
	if old.hash(svc) == mustVersion(t, "v2.7.0").hash(svc) || old.hash(svc) == old.hash(selector) {
		t.Error("before v2.7.0 the hash is over all of the spec")
	}
}

func TestOptions(t *testing.T) {
	good := Options{Kube: &rest.Config{}, Cloud: "127.0.0.1:1", ClusterID: "c1", VPC: "vpc-1", Credentials: sim.Credentials{AccessKeyID: "k"}}
	if _, err := good.check(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change func(*Options)
		want   string
	}{
		{func(o *Options) { o.Kube = nil }, "Kube"},
		{func(o *Options) { o.Cloud = "" }, "Cloud"},
		{func(o *Options) { o.ClusterID = "" }, "ClusterID"},
		{func(o *Options) { o.VPC = "" }, "VPC"},
		{func(o *Options) { o.Credentials = sim.Credentials{} }, "AccessKeyID"},
		{func(o *Options) { o.VSwitches = []string{"vsw-1"} }, "vsw-1"},
		{func(o *Options) { o.Version = "new" }, "new"},
		{func(o *Options) { o.Backends = "pod" }, "pod"},
		{func(o *Options) { o.Speed = -1 }, "speed"},
	} {
		o := good
		c.change(&o)
		if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want an error about %s, got %v", c.want, err)
		}
	}
}

// TestDelays compares the delays of retries with the real ones, on a clock that is a thousand times as fast.
func TestDelays(t *testing.T) {
	c := &controller{Options: Options{BackoffBase: 5 * time.Second, BackoffMax: 300 * time.Second, Speed: 1000}}
	limiter, name := c.backoff(), cache.NewObjectName("shop", "web")
	for i, want := range []int{5, 10, 20, 40, 80, 160, 300, 300, 300} {
		if got := limiter.When(name); got != time.Duration(want)*time.Millisecond {
			t.Errorf("retry %d after %v, want %d ms", i+1, got, want)
		}
	}
	limiter.Forget(name)
	if got := limiter.When(name); got != 5*time.Millisecond {
		t.Errorf("after a success the delay is %v", got)
	}
	// For all Services together, a hundred retries are immediate, then ten a second.
	c.Speed = 1
	limiter = c.backoff()
	var last time.Duration
	for i := range 200 {
		last = limiter.When(cache.NewObjectName("shop", fmt.Sprint(i)))
	}
	if last < 9*time.Second || last > 10*time.Second {
		t.Errorf("the two hundredth Service comes back after %v", last)
	}
}

func TestPick(t *testing.T) {
	o := Options{Kube: &rest.Config{}, Cloud: "127.0.0.1:1", ClusterID: "c1", VPC: "vpc-1", Credentials: sim.Credentials{AccessKeyID: "k"}}
	if _, err := o.check(); err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for range 200 {
		seen[o.Pick(3)] = true
	}
	if len(seen) != 3 {
		t.Errorf("of 3 vSwitches %d were chosen", len(seen))
	}
}

func TestChange(t *testing.T) {
	l := &loop{kind: kind{wants: wantsCLB}}
	svc := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
	for _, c := range []struct {
		what   string
		change func(*corev1.Service)
		reason string
		wakes  bool
	}{
		{"nothing", func(*corev1.Service) {}, "", false},
		{"label", func(s *corev1.Service) { s.Labels = map[string]string{"a": "b"} }, "", false},
		{"status", func(s *corev1.Service) { s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "1.2.3.4"}} }, "", false},
		{"finalizer", func(s *corev1.Service) { s.Finalizers = []string{finalizerCLB} }, "", false},
		{"annotation", func(s *corev1.Service) { s.Annotations = map[string]string{"a": "b"} }, "AnnotationChanged", true},
		{"spec", func(s *corev1.Service) { s.Spec.Ports = []corev1.ServicePort{{Port: 80}} }, "ServiceSpecChanged", true},
		{"deletion", func(s *corev1.Service) { s.DeletionTimestamp = new(metav1.Now()) }, "DeleteTimestampChanged", true},
		{"type", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }, "TypeChanged", true},
		{"class", func(s *corev1.Service) { s.Annotations = map[string]string{annotationClass: "other"} }, "", false},
		{"recreated", func(s *corev1.Service) { s.UID = "other" }, "", true},
	} {
		now := svc.DeepCopy()
		c.change(now)
		n, wakes := l.change(svc, now)
		if n.reason != c.reason || wakes != c.wakes {
			t.Errorf("%s: reason %q, wakes %v", c.what, n.reason, wakes)
		}
	}
}

func TestWantsCLB(t *testing.T) {
	for _, c := range []struct {
		what   string
		change func(*corev1.Service)
		want   bool
	}{
		{"plain", func(*corev1.Service) {}, true},
		{"another type", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }, false},
		{"NLB", func(s *corev1.Service) { s.Spec.LoadBalancerClass = new("alibabacloud.com/nlb") }, false},
		{"class annotation", func(s *corev1.Service) { s.Annotations = map[string]string{annotationClass: "x"} }, false},
		{"tunnel", func(s *corev1.Service) { s.Annotations = map[string]string{annotationTunnel: "x"} }, false},
	} {
		svc := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
		c.change(svc)
		if got := wantsCLB(svc); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

func TestGroupsPlan(t *testing.T) {
	b := func(id string, weight int) backend {
		return backend{ServerID: id, Weight: weight, Port: 30080, Type: backendECS, Description: "k8s/30080/web/shop/c1"}
	}
	theirs := backend{ServerID: "i-user", Port: 1, Type: backendECS, foreign: true}
	want := &group{name: "g", backends: []backend{b("i-1", 100), b("i-2", 50), b("i-3", 100)}}
	moves := planGroups(groups{want, {name: "new"}}, groups{{id: "rsp-1", name: "g", backends: []backend{b("i-2", 100), b("i-3", 100), b("i-4", 100), theirs}}})
	if len(moves) != 2 || want.id != "rsp-1" || moves[1].have != nil {
		t.Fatalf("moves %+v", moves)
	}
	ids := func(all []backend) (s string) {
		for _, b := range all {
			s += " " + b.ServerID
		}
		return s
	}
	if got := fmt.Sprintf("add%s drop%s amend%s", ids(moves[0].add), ids(moves[0].drop), ids(moves[0].amend)); got != "add i-1 drop i-4 amend i-2" {
		t.Error(got)
	}
	want.keepWeights = true
	if _, _, amend := diff(want, moves[0].have); amend != nil {
		t.Errorf("weights are changed although they shall stay: %v", amend)
	}
}

func TestShare(t *testing.T) {
	for _, c := range []struct {
		weights       []int
		total, normal int
		want          []int
	}{
		{[]int{0, 0}, -1, 100, []int{100, 100}}, {[]int{3, 1}, -1, 100, []int{3, 1}},
		{[]int{0, 0, 0}, 60, 100, []int{20, 20, 20}}, {[]int{3, 1}, 40, 100, []int{30, 10}},
		{[]int{0, 0, 0}, 2, 100, []int{1, 1, 1}}, {[]int{3, 1}, 0, 100, []int{0, 0}},
		{[]int{0, 0}, -1, 50, []int{50, 50}}, {[]int{0, 0}, -1, 0, []int{0, 0}}, {[]int{0, 0}, 60, 50, []int{30, 30}}, {[]int{2, 1}, -1, 50, []int{2, 1}},
	} {
		var all []backend
		for _, w := range c.weights {
			all = append(all, backend{Weight: w})
		}
		share(all, c.total, c.normal)
		var got []int
		for _, b := range all {
			got = append(got, b.Weight)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%v of %d: %s", c.weights, c.total, diff)
		}
	}
}

func TestAnnotations(t *testing.T) {
	port := corev1.ServicePort{Port: 443, Protocol: "TCP"}
	for _, c := range []struct{ annotation, want, err string }{
		{"", "tcp", ""}, {"https:443,http:80", "https", ""}, {"http:80", "tcp", ""},
		{"https", "", "port and protocol format must be like 'https:443' with colon separated. got=[[https]]"},
		{"ftp:443", "", "port protocol format must be either [http|https|tcp|udp], protocol not supported wit [ftp]\n"},
	} {
		got, err := protocolOf(c.annotation, port)
		if got != c.want || message(err) != c.err {
			t.Errorf("protocol in %q: %q, %q", c.annotation, got, message(err))
		}
	}
	for _, c := range []struct {
		annotation string
		want       int
		err        string
	}{
		{"80:443", 443, ""}, {"81:444,80:443", 443, ""}, {"81:444", 0, ""},
		{"80", 0, "forward port format error: 80, expect 80:443,88:6443"}, {"80:x", 0, "forward port is not an integer, x"},
	} {
		got, err := forwardOf(c.annotation, 80)
		if got != c.want || message(err) != c.err {
			t.Errorf("forward in %q: %d, %q", c.annotation, got, message(err))
		}
	}
	if diff := cmp.Diff(map[string]string{"a": "1", "b": "2", "c": "", "d": "4"}, pairs("a=1, b=2,c,=3,d=4=5")); diff != "" {
		t.Error(diff)
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestServes(t *testing.T) {
	p := &pass{
		controller: &controller{version: mustVersion(t, "")},
		svc:        &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{prefix + "remove-unscheduled-backend": "on"}}},
	}
	for _, c := range []struct {
		what   string
		change func(*corev1.Node)
		want   bool
	}{
		{"ready", func(*corev1.Node) {}, true},
		{"not ready", func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }, false},
		{"silent", func(n *corev1.Node) { n.Status.Conditions = nil }, false},
		{"master", func(n *corev1.Node) { n.Labels[labelMaster] = "" }, false},
		{"control plane", func(n *corev1.Node) { n.Labels["node-role.kubernetes.io/control-plane"] = "" }, true},
		{"about to go", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: taintToBeGone}} }, false},
		{"cordoned", func(n *corev1.Node) { n.Spec.Unschedulable = true }, false},
	} {
		n := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		}
		c.change(n)
		if got := p.serves(n); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}}
	if ready(n) != corev1.ConditionFalse {
		t.Error("a node without conditions counts as ready")
	}
	if _, err := hasLabels(n, "a"); err == nil {
		t.Error("a malformed label list is no error")
	}
	for want, ok := range map[string]bool{"": true, "a=b": true, "a=c": false, "a=b,c=d": false} {
		if got, err := hasLabels(n, want); err != nil || got != ok {
			t.Errorf("labels %q: %v, %v", want, got, err)
		}
	}
}
