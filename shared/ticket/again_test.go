package ticket

import (
	"context"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/events"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/cluster"
)

// A person sets right what lbremedy asked about, and no event tells of it: a look finds
// out, the journal says so, and the ticket ends. What still fails is left alone.
func TestLookAgain(t *testing.T) {
	w := newWorld(t)
	h := newHook(t)
	join := cluster.Join(t)
	ns := join.Namespace(t)
	k, err := kube.New(join.Config)
	if err != nil {
		t.Fatal(err)
	}
	var asks int
	class := &remedy.Remedy{Class: "busy", Doc: "# Busy", Diagnose: func(context.Context, *remedy.Case) (remedy.Plan, error) {
		asks++
		return remedy.Plan{Finding: "It is busy.", Cause: "slb", Ask: "Wait."}, nil
	}}
	env := &remedy.Env{
		Cluster: "c1", Stream: w.s, Kube: k, KubeWriter: kube.NewWriter(k), Decode: step.Decode, Who: "worker", Now: w.now, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Policy: func(context.Context) (remedy.Policy, error) { return remedy.Policy{Mode: remedy.Observe}, nil },
	}
	services := join.Client().CoreV1().Services(ns)
	q := w.queue(w.follower(nil, h.sink("desk")), 0)
	for _, name := range []string{"stays", "goes"} {
		svc, err := services.Create(w.ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		f := events.Failure{
			Cluster: "c1", Class: "busy", Reason: "SyncLoadBalancerFailed", Type: "Warning", Component: "service-controller", Message: "It is busy.",
			Service: events.Service{Namespace: ns, Name: name, UID: string(svc.UID)}, Event: events.Reference{Name: name, UID: uid(1), ResourceVersion: "1"}, First: w.now(), Last: w.now(),
		}
		e, err := events.NewFailed(f)
		if err != nil {
			t.Fatal(err)
		}
		header, data, err := events.EncodeNATS(e)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := w.s.PublishNewer(w.ctx, events.FailedSubject("c1", "busy", f.Service.UID), "", header, data, func(stream.Message) bool { return true }); err != nil {
			t.Fatal(err)
		}
		if rec, err := remedy.Run(w.ctx, env, class, remedy.Event{ID: e.ID(), Failure: f}); err != nil || rec.Result != events.Asked {
			t.Fatalf("got %+v, %v", rec, err)
		}
	}
	seen := uint64(0)
	feed := func() {
		t.Helper()
		err := w.s.Each(w.ctx, stream.Cases, events.CaseSubjects, time.Time{}, func(m stream.Message) error {
			if m.Sequence > seen {
				seen = m.Sequence
				q.put(m)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		q.pass(10 * time.Second)
	}
	feed()
	same(t, h.told(), "opened slb: 1 fail, 0 over", "updated slb: 2 fail, 0 over")
	l := &Looker{Env: env, Remedies: []*remedy.Remedy{class}}
	look := func() {
		t.Helper()
		if err := l.round(w.ctx); err != nil {
			t.Fatal(err)
		}
	}
	asks = 0
	look() // too soon
	if asks != 0 {
		t.Errorf("it was looked at %d times at once", asks)
	}
	if err := services.Delete(w.ctx, "goes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	before := seen
	q.pass(6 * time.Minute)
	look()
	look()
	if asks != 1 {
		t.Errorf("what stands was looked at %d times", asks)
	}
	feed()
	same(t, h.told(), "updated slb: 1 fail, 1 over")
	if seen > before+2 {
		t.Errorf("looks left %d records", seen-before)
	}
	if err := services.Delete(w.ctx, "stays", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	q.pass(time.Hour)
	look()
	feed()
	same(t, h.told(), "closed slb: 0 fail, 2 over")
}
