package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	checks "github.com/lbremedy/lbremedy/functions/doctor"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/policy/policyfile"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/shell"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/controller/standin"
	"github.com/lbremedy/lbremedy/test/testbed"
)

func TestMain(m *testing.M) {
	standin.Main()
	if os.Getenv(roundVariable) != "" {
		if err := onTimer(); err != nil {
			log.Fatal(err)
		}
		return
	}
	shell.Tests(m, &built)
}

const (
	prefix    = ccm.Prefix
	namespace = "shop"
	caller    = "lbremedy-doctor" // the doctor's name in the simulated cloud
	apiServer = "lb-api"
	token     = "doctor"
	room      = 4000 // free addresses of a vSwitch that has 4,092

	limit = 8 * time.Minute
	// later is how far the doctor's clock is ahead: beyond every waiting time of the checks, within the hour that Events are kept.
	later = 20 * time.Minute
)

type rig struct {
	*testing.T
	ctx     context.Context
	testbed *testbed.Testbed
	env     *host.Connection
	nats    string       // URL of JetStream
	ahead   atomic.Int64 // how far the doctor's clock is ahead
	pods    int          // number of assigned Pod addresses
	rules   string       // path of the policy file
}

func newRig(t *testing.T) *rig {
	t.Helper()
	c := cluster.Alone(t)
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, fmt.Errorf("the test takes more than %s", limit))
	t.Cleanup(cancel)
	r := &rig{T: t, ctx: ctx}
	var err error
	r.testbed, err = testbed.Start(ctx, testbed.Options{
		Config:  testbed.Config{Version: standin.Version}, // the first that limits the clients of NLBs
		Cluster: c, Namespace: namespace, Room: room, BackoffBase: 100 * time.Millisecond, BackoffMax: 5 * time.Minute,
	})
	r.must(err)
	t.Cleanup(r.testbed.Close)
	server, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Port: -1, Token: token})
	r.must(err)
	t.Cleanup(server.Close)
	r.nats = server.URL()
	st, err := stream.Connect(ctx, stream.Config{URL: r.nats, Token: token, Grace: time.Second})
	r.must(err)
	t.Cleanup(st.Close)
	_, err = st.Setup(ctx, nil, stream.Settings{})
	r.must(err)
	r.env = r.as(caller, scheduledGrants())
	r.env.Stream = st
	r.rules = shell.File(t, "policy.yaml", "mode: observe\n")
	r.env.Policy = reads(r.rules)
	r.measured(2 * time.Second)
	return r
}

func (r *rig) as(name string, grants []grant.Grant) *host.Connection {
	r.Helper()
	config, err := r.testbed.Cluster.Impersonate(r.ctx, name, rules(grants))
	r.must(err)
	reader, err := kube.New(config)
	r.must(err)
	key := r.testbed.Cloud.Client(name, grant.Actions(grants)...)
	account, _, err := cloud.New(cloud.Config{
		Region: r.testbed.Cloud.Region(), ClusterID: testbed.ClusterID, Endpoint: r.testbed.Cloud.Addr(), Scheme: "HTTP",
		Credentials: cloud.Static(cloud.Key{ID: key.AccessKeyID, Secret: key.Secret, Token: key.Token}),
	})
	r.must(err)
	r.Cleanup(account.Close)
	return &host.Connection{
		Env:     &engine.Env{Cluster: testbed.ClusterID, Who: "worker", Kube: reader, Now: r.now},
		Clients: &hand.Clients{Kube: reader, Cloud: account},
	}
}

func rules(grants []grant.Grant) []rbacv1.PolicyRule {
	var all []rbacv1.PolicyRule
	for _, g := range grants {
		if !g.RAM() {
			all = append(all, rbacv1.PolicyRule{APIGroups: []string{g.Group}, Resources: []string{g.Resource}, Verbs: []string{g.Verb}})
		}
	}
	return all
}

func (r *rig) now() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) run(env *host.Connection) doctor.Result {
	r.Helper()
	_, result, err := doctor.Run(r.ctx, doctor.Source{Cluster: env.Cluster, Kube: env.Kube, Cloud: env.Clients.Cloud, Now: r.now(), Policy: env.Policy,
		Stream: func(context.Context) (*stream.Stream, error) { return cmp.Or(env.Stream, r.env.Stream), nil }}, checks.Checks())
	r.must(err)
	return result
}

// lines returns findings as lines of severity, check, object and key. A load balancer has the name of its Service.
func lines(result doctor.Result, least doctor.Severity) []string {
	var all []string
	for _, f := range result.AtLeast(least).Findings {
		about := strings.TrimPrefix(f.About.String(), namespace+"/")
		if f.About.Kind == doctor.Balancer {
			about = "of/" + strings.Join(f.Services, "+")
		}
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", f.Severity, f.Check, about, f.Key)))
	}
	slices.Sort(all)
	return all
}

func unknowns(result doctor.Result) []string {
	var all []string
	for _, u := range result.Unknown {
		all = append(all, fmt.Sprintf("%s %s: %s", u.Check, u.About, u.Why))
	}
	return all
}

type change func(*corev1.Service)

func with(pairs ...string) change {
	return func(svc *corev1.Service) {
		for i := 0; i < len(pairs); i += 2 {
			svc.Annotations[long(pairs[i])] = pairs[i+1]
		}
	}
}

func long(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return prefix + name
}

func nlb(svc *corev1.Service) {
	svc.Spec.LoadBalancerClass = new("alibabacloud.com/nlb")
	if svc.Annotations[prefix+"id"] == "" {
		svc.Annotations[prefix+"zone-maps"] = "cn-hangzhou-h:" + testbed.FullVSwitchH + ",cn-hangzhou-i:" + testbed.RoomyVSwitchI
	}
}

func ranged(svc *corev1.Service) {
	svc.Spec.LoadBalancerSourceRanges = []string{"203.0.113.0/24", "198.51.100.7/32"}
}

func local(svc *corev1.Service) {
	svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
}

func port(n int32) change {
	return func(svc *corev1.Service) { svc.Spec.Ports[0].Port = n }
}

func onNode(n int32) change {
	return func(svc *corev1.Service) {
		svc.Spec.Type, svc.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, n
		clear(svc.Annotations)
	}
}

func (r *rig) create(name string, workers []int, changes ...change) {
	r.Helper()
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}},
		Spec: corev1.ServiceSpec{
			Type:  corev1.ServiceTypeLoadBalancer,
			Ports: []corev1.ServicePort{{Name: "web", Port: 80, TargetPort: intstr.FromInt32(8080), Protocol: corev1.ProtocolTCP}},
		},
	}
	with("remove-unscheduled-backend", "on")(svc)
	for _, c := range changes {
		c(svc)
	}
	r.staff(name, workers)
	r.protectedInACK(namespace + "/" + name)
	_, err := r.testbed.Cluster.Client().CoreV1().Services(namespace).Create(r.ctx, svc, metav1.CreateOptions{})
	r.must(err)
}

func (r *rig) staff(service string, workers []int) {
	r.Helper()
	slice := &discoveryv1.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"},
		ObjectMeta:  metav1.ObjectMeta{Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("web"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
		Endpoints:   []discoveryv1.Endpoint{},
	}
	for _, w := range workers {
		r.pods++
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{fmt.Sprintf("172.20.%d.%d", r.pods/250, r.pods%250+2)},
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
			NodeName:   new(worker(w)), TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: fmt.Sprintf("%s-%d", service, r.pods)},
		})
	}
	r.apply(slice)
}

func (r *rig) apply(slice *discoveryv1.EndpointSlice) {
	r.Helper()
	_, err := r.testbed.Cluster.Client().DiscoveryV1().EndpointSlices(namespace).Patch(r.ctx, slice.Name, types.ApplyPatchType, r.json(slice),
		metav1.PatchOptions{FieldManager: "testbed", Force: new(true)})
	r.must(err)
}

func worker(n int) string { return fmt.Sprintf("%s-worker-%d", namespace, n) }

func (r *rig) patch(service, text string, subresources ...string) {
	r.Helper()
	_, err := r.testbed.Cluster.Client().CoreV1().Services(namespace).Patch(r.ctx, service, types.MergePatchType, []byte(text), metav1.PatchOptions{},
		subresources...)
	r.must(err)
}

func (r *rig) annotate(service, name, value string) {
	r.Helper()
	said := "null"
	if value != "" {
		said = fmt.Sprintf("%q", value)
	}
	r.patch(service, fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, long(name), said))
}

func (r *rig) service(name string) *corev1.Service {
	r.Helper()
	svc, err := r.testbed.Cluster.Client().CoreV1().Services(namespace).Get(r.ctx, name, metav1.GetOptions{})
	r.must(err)
	return svc
}

func (r *rig) until(what string, ok func() bool) {
	r.Helper()
	if err := r.testbed.Until(r.ctx, ok); err != nil {
		r.Fatalf("%s: %v", what, err)
	}
}

func (r *rig) synced(services ...string) {
	r.Helper()
	for _, name := range services {
		r.until("wait for "+name+" to be synced", func() bool {
			svc := r.service(name)
			return len(svc.Status.LoadBalancer.Ingress) > 0 && svc.Labels[ccm.HashLabel] != ""
		})
	}
}

func (r *rig) failed(service string) {
	r.Helper()
	r.until("wait for "+service+" to fail", func() bool { return r.counted(service, "SyncLoadBalancerFailed") > 0 })
}

func (r *rig) counted(service, reason string) int {
	r.Helper()
	list, err := r.testbed.Cluster.Client().CoreV1().Events(namespace).
		List(r.ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + service + ",reason=" + reason})
	r.must(err)
	n := 0
	for _, e := range list.Items {
		n += max(1, int(e.Count))
	}
	return n
}

// aged adds an Event like the controller's of this reason, as if written for two hours. The controller may still be writing its own Events.
func (r *rig) aged(service, reason string) {
	r.Helper()
	events := r.testbed.Cluster.Client().CoreV1().Events(namespace)
	list, err := events.List(r.ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + service + ",reason=" + reason})
	r.must(err)
	if len(list.Items) == 0 {
		r.Fatalf("there is no Event %s about %s", reason, service)
	}
	e := list.Items[0]
	e.ObjectMeta = metav1.ObjectMeta{Name: service + ".for-two-hours"}
	e.FirstTimestamp, e.LastTimestamp, e.Count = metav1.NewTime(time.Now().Add(-2*time.Hour)), metav1.Now(), 20
	_, err = events.Create(r.ctx, &e, metav1.CreateOptions{})
	r.must(err)
}

func (r *rig) balancer(service string, change func(*sim.LoadBalancer)) {
	r.Helper()
	id := r.balancerOf(service)
	r.testbed.Cloud.Edit(func(st *sim.State) { change(st.LoadBalancers[id]) })
}

func (r *rig) balancerOf(service string) string {
	r.Helper()
	id := r.service(service).Labels[ccm.BalancerLabel]
	if id == "" {
		r.Fatalf("%s has no load balancer", service)
	}
	return id
}

func (r *rig) json(v any) []byte {
	r.Helper()
	data, err := json.Marshal(v)
	r.must(err)
	return data
}

func (r *rig) policy(text string) {
	r.Helper()
	r.must(os.WriteFile(r.rules, []byte(text), 0o600))
}

func reads(file string) func(context.Context) (remedy.Policy, error) {
	source := policyfile.FromFile(file, new(cli.Program).ParsePolicy)
	return func(ctx context.Context) (remedy.Policy, error) {
		v, err := source.Read(ctx)
		return v.Policy, err
	}
}
