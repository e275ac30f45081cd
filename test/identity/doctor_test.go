package identity_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	checks "github.com/lbremedy/lbremedy/functions/doctor"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/identity"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/testbed"
)

// users starts a server with these users of the doctor, by their cluster, and an
// administrator, and returns what connects as one of them.
func users(t *testing.T, may map[string]stream.Permissions) func(name string) *stream.Stream {
	t.Helper()
	all := []embedded.User{{Name: "admin", Password: "p"}}
	for _, name := range slices.Sorted(maps.Keys(may)) {
		all = append(all, embedded.User{Name: name, Password: "p", Publish: may[name].Publish, Subscribe: may[name].Subscribe})
	}
	server, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Port: -1, Users: all})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	as := func(name string) *stream.Stream {
		t.Helper()
		c := stream.Config{URL: server.URL(), User: name, Password: "p", Inbox: stream.InboxOf("doctor"), Cluster: name}
		if name == "admin" {
			c.Inbox, c.Cluster = "", ""
		}
		s, err := stream.Connect(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	admin := as("admin")
	if _, err := admin.Setup(t.Context(), nil, stream.Settings{}); err != nil {
		t.Fatal(err)
	}
	if err := admin.Put(t.Context(), "policy", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	return as
}

// permitted returns what the generated users of NATS let the doctor of a cluster do.
func permitted(t *testing.T, cluster string) stream.Permissions {
	t.Helper()
	var findings []string
	for _, r := range checks.Remedies() {
		findings = append(findings, r.Class)
	}
	all, err := stream.Users(cluster, nil, findings)
	if err != nil {
		t.Fatal(err)
	}
	return all["doctor"]
}

// scheduled runs the doctor once and returns what could not be done or told of it; nil: all could.
func scheduled(ctx context.Context, env *engine.Env, account *cloud.Reader, checks []*doctor.Check) (doctor.RunResult, error) {
	p := &doctor.ScheduledRun{Env: env, Cloud: account, Checks: checks}
	r, err := p.Run(ctx)
	if err == nil {
		_, err = p.Ended(ctx)
	}
	if err == nil && len(r.Result.Unknown) > 0 {
		u := r.Result.Unknown[0]
		err = fmt.Errorf("%s, %s: %s", u.Check, u.About, u.Why)
	}
	return r, err
}

// On a timer the doctor works with its ServiceAccount, its RAM role and its NATS user,
// as they are generated, and all of its checks can tell how things stand. Without any
// one of its verbs or actions one of them can't.
func TestDoctor(t *testing.T) {
	c := cluster.Alone(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	tb, err := testbed.Start(ctx, testbed.Options{Config: testbed.Config{Version: "v2.14.0"}, Cluster: c, Namespace: "shop", Room: 4000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tb.Close)
	tb.Cloud.Edit(func(st *sim.State) {
		for _, v := range st.VSwitches {
			v.Free = new(4000)
		}
		for _, p := range st.Policies { // the controller may make a security group, too
			for i := range p.Versions {
				p.Versions[i].Document = `{"Version":"1","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}`
			}
		}
	})
	services := c.Client().CoreV1().Services("shop")
	for name, class := range map[string]*string{"classic": nil, "network": new("alibabacloud.com/nlb")} {
		svc := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{ccm.Prefix + "bandwith": "5"}}, // there is something to find
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: class, Ports: []corev1.ServicePort{{Port: 80}}},
		}
		if class != nil {
			svc.Annotations[ccm.Prefix+"zone-maps"] = "cn-hangzhou-h:" + testbed.FullVSwitchH + ",cn-hangzhou-i:" + testbed.RoomyVSwitchI
			svc.Spec.LoadBalancerSourceRanges = []string{"203.0.113.0/24"} // of which v2.14.0 makes a security group
		}
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
			AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: new(int32(80)), Protocol: new(corev1.ProtocolTCP)}},
			Endpoints: []discoveryv1.Endpoint{},
		}
		if _, err := c.Client().DiscoveryV1().EndpointSlices("shop").Create(ctx, slice, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := services.Create(ctx, svc, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		err := tb.Until(ctx, func() bool {
			now, err := services.Get(t.Context(), name, metav1.GetOptions{})
			return err == nil && now.Labels[ccm.HashLabel] != ""
		})
		if err != nil {
			t.Fatalf("wait for %s: %v", name, err)
		}
	}

	// The load balancers of two more are gone, and of a managed controller the API says which it is.
	for name, class := range map[string]*string{"lb-nowhere": nil, "nlb-nowhere": new("alibabacloud.com/nlb")} {
		svc := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{ccm.Prefix + "id": name}},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: class, Ports: []corev1.ServicePort{{Port: 80}}},
		}
		if _, err := services.Create(ctx, svc, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Client().AppsV1().DaemonSets(metav1.NamespaceSystem).Delete(ctx, "cloud-controller-manager", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}

	fresh := func() *stream.Stream {
		return users(t, map[string]stream.Permissions{testbed.ClusterID: permitted(t, testbed.ClusterID)})(testbed.ClusterID)
	}
	env, err := tb.Env(ctx, fresh(), "doctor")
	if err != nil {
		t.Fatal(err)
	}
	rights, err := identity.Of("doctor")
	if err != nil {
		t.Fatal(err)
	}
	account, _, err := rights.Cloud(tb.Cloud, identity.Name("doctor"), testbed.ClusterID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(account.Close)
	if r, err := scheduled(ctx, env, account, checks.Checks()); err != nil || r.Opened == 0 {
		t.Fatalf("with all rights: %d cases opened, %v", r.Opened, err)
	}

	for i, g := range rights.Grants() {
		less, lacking := rights.Without(g), *env
		who := fmt.Sprintf("doctor-%d", i)
		config, err := less.Cluster(ctx, c, who)
		if err != nil {
			t.Fatal(err)
		}
		if lacking.Kube, err = kube.New(config); err != nil {
			t.Fatal(err)
		}
		account, _, err := less.Cloud(tb.Cloud, identity.Name(who), testbed.ClusterID)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(account.Close)
		if g == grant.GetNamespaces { // asked for what is told, and all stands in the other stream
			lacking.Stream = fresh()
		}
		if _, err := scheduled(ctx, &lacking, account, checks.Checks()); err == nil {
			t.Errorf("nothing fails without %q: it is not needed", g)
		}
	}
}

// The doctor's user of NATS has nothing that it does not need: without any one of its
// subjects a scheduled run fails, or a check can't tell. Each cluster lacks another one here.
func TestDoctorPermitNeeded(t *testing.T) {
	c := cluster.Join(t)
	rights, err := identity.Of("doctor")
	if err != nil {
		t.Fatal(err)
	}
	config, err := rights.Cluster(t.Context(), c, "doctor")
	if err != nil {
		t.Fatal(err)
	}
	reader, err := kube.New(config)
	if err != nil {
		t.Fatal(err)
	}
	// Of each check one finding, of a snapshot with what lies in the cluster and in the stream.
	var inStream []doctor.Part
	for _, p := range doctor.AllParts() {
		reads := (&doctor.Check{Needs: []doctor.Part{p}}).Reads()
		if !slices.ContainsFunc(reads, grant.Grant.RAM) {
			inStream = append(inStream, p)
		}
	}
	var inParts []*doctor.Check
	for _, check := range checks.Checks() {
		inParts = append(inParts, &doctor.Check{ID: check.ID, Doc: check.Doc, Needs: inStream, Find: func(s *doctor.Snapshot, r *doctor.Report) {
			r.Add(doctor.Finding{Severity: doctor.Warning, About: doctor.About{Kind: doctor.Cluster, Name: s.Cluster}, Text: say.F("It is so."),
				Do: say.F("Let it be.")})
		}})
	}
	// The cloud is asked for nothing.
	account, _, err := rights.Cloud(sim.New(t, nil), "doctor", "c-1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(account.Close)
	whole := permitted(t, "all")
	may := map[string]stream.Permissions{"all": whole}
	lacks := map[string]string{}
	for i := range len(whole.Publish) + len(whole.Subscribe) {
		name := fmt.Sprintf("c%d", i)
		p := permitted(t, name)
		if i < len(p.Publish) {
			lacks[name] = p.Publish[i]
			p.Publish = slices.Delete(slices.Clone(p.Publish), i, i+1)
		} else {
			lacks[name] = p.Subscribe[i-len(p.Publish)]
			p.Subscribe = []string{"nothing"} // none at all would be all
		}
		may[name] = p
	}
	as := users(t, may)
	// Of each cluster a failure lies there.
	const uid = "7f0c1c52-0f3c-4a8e-9d0e-0a1b2c3d4e5f"
	admin := as("admin")
	for name := range may {
		_, _, err := admin.PublishNewer(t.Context(), event.FailedSubject(name, "quota", uid), name, nil, []byte("{}"), func(stream.Message) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
	}
	var wait sync.WaitGroup
	var mu sync.Mutex
	for name := range may {
		own := engine.Env{Cluster: name, Who: "http", Kube: reader, Stream: as(name)}
		own.Policy = func(ctx context.Context) (remedy.Policy, error) { return policy.InForce(ctx, own.Stream, own.Cluster) }
		late := 10 * time.Second // the server does not answer who is refused
		if name == "all" {
			late = time.Minute
		}
		ctx, cancel := context.WithTimeout(t.Context(), late)
		defer cancel()
		do := func() {
			r, err := scheduled(ctx, &own, account, inParts)
			mu.Lock()
			defer mu.Unlock()
			switch lack, ok := lacks[name]; {
			case !ok && (err != nil || r.Opened != len(inParts)):
				t.Errorf("with all subjects: %d cases opened, %v", r.Opened, err)
			case ok && err == nil && r.Opened == len(inParts):
				t.Errorf("nothing fails without %q: it is not needed", lack)
			}
		}
		if name == "all" {
			do()
			continue
		}
		wait.Go(do)
	}
	wait.Wait()
}
