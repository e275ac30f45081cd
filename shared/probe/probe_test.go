package probe_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/events/exporter"
	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/event/table"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/probe"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/nats"
)

const clusterID = "c-probe"

func classes() []string {
	var ids []string
	for _, r := range functions.All {
		ids = append(ids, r.Class)
	}
	return ids
}

type rig struct {
	*testing.T
	join      *cluster.Cluster
	namespace string
	stream    *stream.Stream
	service   *corev1.Service
}

func build(t *testing.T) *rig {
	t.Helper()
	join := cluster.Alone(t) // the worker would fix failures of other tests
	r := &rig{T: t, join: join, namespace: join.Namespace(t), stream: nats.Streams(t, classes()...)}
	if _, err := r.stream.Setup(t.Context(), classes(), stream.Settings{Clusters: []string{clusterID}}); err != nil {
		t.Fatal(err)
	}
	k := r.kube()
	x, err := exporter.New(exporter.Config{Cluster: clusterID, Kube: k, Stream: r.stream, Classifier: event.NewClassifier(table.Table())})
	if err != nil {
		t.Fatal(err)
	}
	r.begin(x.Run)
	return r
}

func (r *rig) begin(run func(context.Context) error) (end func()) {
	ctx, cancel := context.WithCancel(r.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	var over atomic.Bool
	end = func() {
		if over.Swap(true) {
			return
		}
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			r.Error(err)
		}
	}
	r.Cleanup(end)
	return end
}

func (r *rig) kube() *kube.Cluster {
	r.Helper()
	k, err := kube.New(r.join.Config)
	if err != nil {
		r.Fatal(err)
	}
	return k
}

func (r *rig) work(remedies []*remedy.Remedy, seen func(event.Record, error)) (end func()) {
	r.Helper()
	account, writer, err := cloud.New(cloud.Config{Region: "cn-hangzhou", ClusterID: clusterID, Endpoint: "127.0.0.1:1", Scheme: "HTTP",
		Credentials: cloud.Static(cloud.Key{ID: "id", Secret: "secret"}), Meter: func(c cloud.Call) { r.Errorf("the cloud was asked %s", c.Action) }})
	if err != nil {
		r.Fatal(err)
	}
	k := r.kube()
	clients := &hand.Clients{Kube: k, KubeWriter: kube.NewWriter(k), Cloud: account, CloudWriter: writer, Decode: step.Decode}
	h := &host.Host{Remedies: remedies, OnRun: seen, Env: &engine.Env{
		Cluster: clusterID, Stream: r.stream, Kube: k, Hand: clients.Hand,
		Policy: func(context.Context) (remedy.Policy, error) {
			return remedy.Policy{Mode: remedy.Fix, Risk: remedy.High}, nil
		}, Decode: step.Decode, Who: "worker",
	}}
	return r.begin(func(ctx context.Context) error { return h.Work(ctx, 8) })
}

func (r *rig) create(kind corev1.ServiceType) {
	r.Helper()
	spec := corev1.ServiceSpec{Type: kind, ClusterIP: "None"}
	if kind == corev1.ServiceTypeLoadBalancer {
		spec = corev1.ServiceSpec{Type: kind, Ports: []corev1.ServicePort{{Port: 80}}}
	}
	var err error
	r.service, err = r.join.Client().CoreV1().Services(r.namespace).Create(r.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: event.ProbeService}, Spec: spec,
	}, metav1.CreateOptions{})
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) prober(patience time.Duration) *probe.Prober {
	r.Helper()
	var rules []rbacv1.PolicyRule
	for _, g := range probe.Grants {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{g.Group}, Resources: []string{g.Resource}, Verbs: []string{g.Verb}})
	}
	k, err := kube.New(r.join.As(r, "probe-"+r.namespace, rules))
	if err != nil {
		r.Fatal(err)
	}
	return &probe.Prober{
		Cluster: clusterID, Namespace: r.namespace, Classes: classes(), Kube: k, Writer: kube.NewWriter(k), Stream: r.stream, Patience: patience,
	}
}

// A probe of each class ends each time, and CASES does not grow. A class without a worker's handler gets no outcome.
func TestProbe(t *testing.T) {
	r := build(t)
	p := r.prober(2 * time.Minute)
	if _, err := p.Run(t.Context()); !errors.Is(err, probe.ErrNoService) || !strings.Contains(err.Error(), "kubectl create service") {
		t.Fatalf("without the Service it says %v", err)
	}
	r.create(corev1.ServiceTypeClusterIP)
	end := r.work(functions.All, nil)
	records := func() (n int) {
		if err := r.stream.Each(t.Context(), stream.Cases, event.CaseFilter(clusterID, "*"), time.Time{}, func(stream.Message) error {
			n++
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for range 3 {
		results, err := p.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, one := range results {
			if !one.Through() || one.Err != nil || one.Class != p.Classes[i] {
				t.Errorf("%+v did not come through", one)
			}
		}
		if got := records(); got != len(p.Classes) {
			t.Errorf("the journal has %d records, want one for each of %d classes", got, len(p.Classes))
		}
	}
	end()

	r.work(functions.All[1:], nil)
	p.Classes, p.Patience = p.Classes[:2], 10*time.Second
	results, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, one := range results {
		if one.Through() != (i > 0) || one.Err != nil {
			t.Errorf("%s: through %t, %v", one.Class, one.Through(), one.Err)
		}
	}
}

// Anyone who may create Events may make probes, even about a failing load balancer: the class is not asked, nothing is written, and an
// unanswered probe does not count. An Event about another Service is not a probe.
func TestForeign(t *testing.T) {
	r := build(t)
	r.create(corev1.ServiceTypeClusterIP)
	stranger := func(svc *corev1.Service, message string) {
		t.Helper()
		now := metav1.Now()
		if _, err := r.join.Client().CoreV1().Events(r.namespace).Create(t.Context(), &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{GenerateName: "x."},
			InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: svc.Namespace, Name: svc.Name, UID: svc.UID},
			Reason:         event.ProbeReason, Type: corev1.EventTypeWarning, Message: message, Count: 1, FirstTimestamp: now, LastTimestamp: now,
			Source: corev1.EventSource{Component: event.ProbeComponent},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	const class = "tag-missing"
	p := r.prober(3 * time.Second)
	p.Classes = []string{class}

	// The failure of a user's Service is not replaced.
	other, err := r.join.Client().CoreV1().Services(r.namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stranger(other, event.ProbeMessage(class))
	stranger(r.service, event.ProbeMessage("no-such-class"))
	stranger(r.service, "Error syncing load balancer []: Message: The specified VSwitch has no available ip.")

	// Without a worker, a stranger's probe does not help the prober's own.
	ran := make(chan event.Record, 16)
	results, err := p.Run(t.Context())
	if err != nil || results[0].Through() || results[0].Err != nil {
		t.Fatalf("without a worker it says %+v, %v", results, err)
	}
	if err := r.stream.Each(t.Context(), stream.Failed, ">", time.Time{}, func(m stream.Message) error {
		if want := event.FailedSubject(clusterID, class, string(r.service.UID)); m.Subject != want {
			t.Errorf("FAILED has %s, want %s alone", m.Subject, want)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}

	// The Service is a load balancer now. The newest, the stranger's probe, is answered without the class, and is not the awaited one.
	if err := r.join.Client().CoreV1().Services(r.namespace).Delete(t.Context(), event.ProbeService, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.create(corev1.ServiceTypeLoadBalancer)
	if _, err := p.Run(t.Context()); !errors.Is(err, probe.ErrNoService) {
		t.Errorf("of a load balancer it says %v", err)
	}
	stranger(r.service, event.ProbeMessage(class))
	asked := &remedy.Remedy{}
	*asked = *one(t, class)
	asked.StillFails = nil
	asked.Diagnose = func(context.Context, *remedy.Case) (remedy.Plan, error) {
		t.Error("the class was asked")
		return remedy.Plan{}, errors.New("asked")
	}
	r.work([]*remedy.Remedy{asked}, func(rec event.Record, err error) {
		if err == nil && rec.Service.UID == string(r.service.UID) {
			ran <- rec
		}
	})
	select {
	case rec := <-ran:
		if rec.Result != event.Gone || len(rec.Steps) > 0 || !rec.Probe() {
			t.Errorf("it ended as %s with %d steps", rec.Result, len(rec.Steps))
		}
	case <-time.After(time.Minute):
		t.Fatal("the probe of a stranger has no outcome")
	}
	now, err := r.join.Client().CoreV1().Services(r.namespace).Get(t.Context(), event.ProbeService, metav1.GetOptions{})
	if err != nil || now.ResourceVersion != r.service.ResourceVersion {
		t.Errorf("the Service was written to, from version %s to %s, %v", r.service.ResourceVersion, now.ResourceVersion, err)
	}
}

func one(t *testing.T, class string) *remedy.Remedy {
	t.Helper()
	for _, r := range functions.All {
		if r.Class == class {
			return r
		}
	}
	t.Fatalf("there is no class %s", class)
	return nil
}
