package doctor_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"

	checks "github.com/lbremedy/lbremedy/functions/doctor"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/test/sim"
)

// A size is the size of a cluster. Each load balancer serves as many Services as it can, each with that many Pods.
type size struct{ services, balancers, pods int }

func (z size) id(i int) string { return fmt.Sprintf("lb-%04d", i%z.balancers) }
func (z size) address(i int) string {
	return fmt.Sprintf("203.0.%d.%d", 100+i%z.balancers/250, i%z.balancers%250+1)
}
func (z size) pod(i, k int) string {
	n := i*z.pods + k
	return fmt.Sprintf("10.%d.%d.%d", 64+n>>16&63, n>>8&255, n&255)
}

func (z size) world() *sim.World {
	w := &sim.World{
		Cluster: sim.Cluster{ID: "c1", Network: "terway-eniip", Addons: map[string]string{"cloud-controller-manager": "v2.12.1"}},
		Quotas:  []sim.Quota{{Product: "slb", Name: "slb_quota_instances_num", Total: 1000, Max: 1000}},
	}
	for i := range z.balancers {
		w.LoadBalancers = append(w.LoadBalancers, sim.LoadBalancer{ID: z.id(i), Address: z.address(i), Tags: map[string]string{ccm.ReusedTag: "true"}})
	}
	for i := range z.services {
		lb := &w.LoadBalancers[i%z.balancers]
		g := sim.VGroup{ID: fmt.Sprintf("rsp-%05d", i), Name: fmt.Sprintf("k8s/8080/web-%05d/shop/c1", i)}
		for k := range z.pods {
			g.Backends = append(g.Backends, sim.Backend{Server: fmt.Sprintf("eni-%d", i), IP: z.pod(i, k), Type: "eni", Port: 8080, Description: g.Name})
		}
		lb.VGroups = append(lb.VGroups, g)
		lb.Listeners = append(lb.Listeners, sim.Listener{Port: 8000 + i/z.balancers, VGroup: g.ID, Description: fmt.Sprintf("k8s/%d/web-%05d/shop/c1",
			8000+i/z.balancers, i)})
	}
	return w
}

func (z size) meta(i int) metav1.ObjectMeta {
	fields := &metav1.FieldsV1{}
	fields.SetRawBytes([]byte(`{"f:metadata":{"f:annotations":{` + strings.Repeat(`"f:service.beta.kubernetes.io/alibaba-cloud-loadbalancer-scheduler":{},`,
		8) + `"f:last":{}}}}`))
	at := metav1.NewTime(time.Date(2026, 5, 4, 8, 0, 0, 0, time.UTC))
	return metav1.ObjectMeta{
		Namespace: "shop", Name: fmt.Sprintf("web-%05d", i), UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", i)), CreationTimestamp: at,
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl-client-side-apply", Operation: "Update", APIVersion: "v1", Time: &at,
			FieldsType: "FieldsV1", FieldsV1: fields}},
	}
}

func (z size) service(i int) any {
	svc := corev1.Service{ObjectMeta: z.meta(i), Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": fmt.Sprint("web-", i)}, ClusterIP: "172.16.0.1",
		Ports: []corev1.ServicePort{{Name: "http", Port: int32(8000 + i/z.balancers), Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(8080)}},
	}}
	svc.Annotations = map[string]string{ccm.Prefix + "id": z.id(i), "kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("x", 800)}
	svc.Finalizers = []string{ccm.CLBFinalizer}
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: z.address(i)}}
	v, _ := ccm.ParseVersion("v2.12.1")
	hash, _ := ccm.Hash(&svc, v)
	svc.Labels = map[string]string{ccm.HashLabel: hash, ccm.BalancerLabel: z.id(i)}
	return svc
}

func (z size) slice(i int) any {
	s := discoveryv1.EndpointSlice{ObjectMeta: z.meta(i), AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}}}
	s.Labels = map[string]string{discoveryv1.LabelServiceName: s.Name}
	for k := range z.pods {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{z.pod(i, k)}, Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
			NodeName: new(fmt.Sprint("node-", k)),
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: fmt.Sprintf("%s-7c5ddbdf54-%05d", s.Name, k),
				UID: types.UID(fmt.Sprintf("10000000-0000-4000-8000-%012x", i*z.pods+k))},
		})
	}
	return s
}

func node(i int) any {
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i)}, Spec: corev1.NodeSpec{ProviderID: fmt.Sprint("cn-hangzhou.i-", i)},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
}

func (z size) api() http.Handler { return z.serve(z.service) }

func (z size) serve(service func(int) any) http.Handler {
	mux := http.NewServeMux()
	list := func(path string, n int, item func(int) any) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
			from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
			to := min(n, from+limit)
			page := map[string]any{"kind": "List", "metadata": map[string]string{"resourceVersion": "7"}}
			if to < n {
				page["metadata"] = map[string]string{"resourceVersion": "7", "continue": strconv.Itoa(to)}
			}
			items := []any{}
			for i := from; i < to; i++ {
				items = append(items, item(i))
			}
			page["items"] = items
			_ = json.NewEncoder(w).Encode(page)
		})
	}
	list("/api/v1/services", z.services, service)
	list("/apis/discovery.k8s.io/v1/endpointslices", z.services, z.slice)
	list("/api/v1/nodes", 10, node)
	list("/api/v1/events", 0, nil)
	list("/apis/apps/v1/namespaces/kube-system/daemonsets", 0, nil)
	return mux
}

const bigEnv = "LBREMEDY_TEST_DOCTOR"

type bill struct {
	Took     time.Duration
	Peak     int // KiB resident, at most
	Findings []string
	Unknown  []doctor.Unknown
	Read     []doctor.Reading
}

func TestMain(m *testing.M) {
	if where := os.Getenv(bigEnv); where != "" {
		if err := child(strings.Fields(where)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func child(where []string) error {
	cluster, err := kube.New(&rest.Config{Host: where[0]})
	if err != nil {
		return err
	}
	reader, _, err := cloud.New(cloud.Config{Region: where[2], ClusterID: "c1", Endpoint: where[1], Scheme: "HTTP",
		Credentials: cloud.Static(cloud.Key{ID: where[3], Secret: where[4]})})
	if err != nil {
		return err
	}
	limit, err := time.ParseDuration(where[5])
	if err != nil {
		return err
	}
	var b bill
	_, r, err := doctor.Run(context.Background(), doctor.Source{
		Cluster: "c1", Kube: cluster, Cloud: reader, Now: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC), Limit: limit,
	}, checks.Checks())
	if err != nil {
		return err
	}
	b.Took, b.Unknown, b.Read = r.Took, r.Unknown, r.Read
	for _, f := range r.Findings {
		if f.Severity > doctor.Info && len(b.Findings) < 10 {
			b.Findings = append(b.Findings, f.ID()+": "+f.Text.String())
		}
	}
	status, err := os.Open("/proc/self/status")
	if err != nil {
		return err
	}
	defer status.Close()
	for lines := bufio.NewScanner(status); lines.Scan(); {
		_, _ = fmt.Sscanf(lines.Text(), "VmHWM: %d kB", &b.Peak)
	}
	return json.NewEncoder(os.Stdout).Encode(b)
}

func (z size) run(t testing.TB, delay time.Duration) (bill, *sim.Cloud) {
	t.Helper()
	account := sim.New(t, z.world())
	if delay > 0 {
		account.Fault(sim.Fault{Delay: delay})
	}
	return z.runOn(t, account, "0s"), account
}

func (z size) runOn(t testing.TB, account *sim.Cloud, limit string) bill {
	t.Helper()
	api := httptest.NewServer(z.api())
	t.Cleanup(api.Close)
	admin := account.Admin()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	where := []string{api.URL, account.Addr(), account.Region(), admin.AccessKeyID, admin.Secret, limit}
	cmd.Env = append(os.Environ(), "GOGC=100", bigEnv+"="+strings.Join(where, " "))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var b bill
	if err := json.Unmarshal(out, &b); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDoctor(t *testing.T) {
	z := size{services: 300, balancers: 30, pods: 10}
	b, account := z.run(t, 0)
	if len(b.Findings) > 0 || len(b.Unknown) > 0 {
		t.Errorf("found %q, unknown %+v", b.Findings, b.Unknown)
	}
	calls := map[string]int{}
	for _, c := range account.Calls() {
		calls[c.Action]++
	}
	for action, most := range map[string]int{
		"DescribeVServerGroupAttribute": z.services, "DescribeVServerGroups": z.balancers, "DescribeLoadBalancerListeners": z.balancers,
		"DescribeLoadBalancers": 1, "ListTagResources": 2, "DescribeClusterDetail": 1,
	} {
		if calls[action] != most {
			t.Errorf("%s was called %d times, want %d", action, calls[action], most)
		}
	}
	i := slices.IndexFunc(b.Read, func(r doctor.Reading) bool { return r.Part == doctor.Backends })
	if i < 0 || b.Read[i].Count != z.services*z.pods {
		t.Errorf("read %+v", b.Read)
	}
	if b.Peak > 150<<10 {
		t.Errorf("it took %d KiB", b.Peak)
	}
}

// A run out of time reports the unread as unknown and finds nothing wrong with it. Each run begins elsewhere, which covers all over time.
func TestTimeIsUp(t *testing.T) {
	z := size{services: 60, balancers: 60, pods: 2}
	asked, limit := map[string]bool{}, 2*time.Second
	for range 20 {
		account := sim.New(t, z.world())
		account.Fault(sim.Fault{Action: "DescribeVServerGroupAttribute", Hang: true})
		b := z.runOn(t, account, limit.String())
		if len(b.Findings) > 0 || len(b.Unknown) == 0 {
			t.Fatalf("it found %q, and %d things are unknown", b.Findings, len(b.Unknown))
		}
		before := len(asked)
		for _, c := range account.Calls() {
			if c.Action == "DescribeVServerGroupAttribute" {
				asked[c.Params["VServerGroupId"]] = true
			}
		}
		if len(asked) == z.services {
			return
		}
		if len(asked) == before {
			limit *= 2 // slow machine
		}
	}
	t.Errorf("in 20 runs %d of %d groups were asked for", len(asked), z.services)
}

// published returns an account with the published limits per minute of the doctor's most frequent calls
// (https://www.alibabacloud.com/help/en/slb/classic-load-balancer/developer-reference/api-slb-2014-05-15-quota).
func (z size) published() *sim.World {
	w := z.world()
	for _, action := range []string{
		"DescribeVServerGroupAttribute", "DescribeVServerGroups", "DescribeLoadBalancerListeners", "DescribeLoadBalancerAttribute", "ListTagResources",
	} {
		w.Quotas = append(w.Quotas, sim.Quota{Product: "slb", Category: "FlowControl", Name: action, Total: 3000, Period: sim.Duration(time.Minute)})
	}
	return w
}

// BenchmarkScale runs the doctor on 10,000 Services, or LBREMEDY_BENCH_DOCTOR, at 50 ms a call and with the published call limits.
func BenchmarkScale(b *testing.B) {
	n := 10_000
	if text := os.Getenv("LBREMEDY_BENCH_DOCTOR"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 500 {
			b.Fatalf("LBREMEDY_BENCH_DOCTOR: %q is not a number of Services from 500 on", text)
		}
	}
	z := size{services: n, balancers: 500, pods: 2}
	for b.Loop() {
		account := sim.New(b, z.published())
		account.Fault(sim.Fault{Delay: 50 * time.Millisecond})
		got := z.runOn(b, account, "8m")
		calls, throttled := 0, 0
		for _, c := range account.Calls() {
			if calls++; strings.HasPrefix(c.Code, "Throttling") {
				throttled++
			}
		}
		b.ReportMetric(got.Took.Seconds(), "s/run")
		b.ReportMetric(float64(calls), "calls")
		b.ReportMetric(float64(throttled), "throttled")
		b.ReportMetric(float64(len(got.Unknown)), "unknown")
		b.ReportMetric(float64(got.Peak)/1024, "MB-resident")
		if got.Peak > 300<<10 {
			b.Errorf("it took %d KiB", got.Peak)
		}
		for _, r := range got.Read {
			b.Logf("%-16s %6d in %.0f ms %s", r.Part, r.Count, r.TookMs, r.Error)
		}
	}
}

// BenchmarkRun runs the doctor on a cluster of the size that lbremedy is built for, at 50 ms a call.
func BenchmarkRun(b *testing.B) {
	for b.Loop() {
		got, _ := size{services: 5000, balancers: 500, pods: 10}.run(b, 50*time.Millisecond)
		b.ReportMetric(got.Took.Seconds(), "s/run")
		b.ReportMetric(float64(got.Peak)/1024, "MB-resident")
		if len(got.Unknown) > 0 || got.Took > time.Minute || got.Peak > 300<<10 {
			b.Errorf("took %s and %d KiB, unknown %+v", got.Took, got.Peak, got.Unknown)
		}
		for _, r := range got.Read {
			b.Logf("%-16s %6d in %.0f ms", r.Part, r.Count, r.TookMs)
		}
	}
}
