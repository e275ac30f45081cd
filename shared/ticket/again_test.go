package ticket

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/cluster"
)

// No event reports what a person fixes: a look finds out, the journal records it, and the ticket ends. Open failures stay unchanged.
func TestLookAgain(t *testing.T) {
	join := cluster.Join(t)
	ns := join.Namespace(t) // waits while another test has the cluster for itself
	w := newWorld(t)
	h := newHook(t)
	k, err := kube.New(join.Config)
	if err != nil {
		t.Fatal(err)
	}
	var asks, over int // over: how many looks find the failure over
	class := &remedy.Remedy{
		Class: "busy", Doc: "# Busy",
		Diagnose: func(context.Context, *remedy.Case) (remedy.Plan, error) {
			asks++
			return remedy.Plan{Finding: say.F("It is busy."), Cause: "slb", Ask: say.F("Wait.")}, nil
		},
		StillFails: func(context.Context, *remedy.Case) (remedy.Verdict, error) {
			over--
			return remedy.Is(over < 0), nil
		},
	}
	env := &engine.Env{
		Cluster: "c1", Stream: w.s, Kube: k, Hand: (&hand.Clients{Kube: k, Decode: step.Decode}).Hand, Decode: step.Decode, Who: "worker", Now: w.now,
		Log:    slog.New(slog.NewTextHandler(t.Output(), nil)),
		Policy: func(context.Context) (remedy.Policy, error) { return remedy.Policy{Mode: remedy.Observe}, nil },
	}
	services := join.Client().CoreV1().Services(ns)
	q := w.queue(w.follower(nil, h.sink("ops")), 0)
	for _, name := range []string{"stays", "goes"} {
		svc, err := services.Create(w.ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		f := event.Failure{
			Cluster: "c1", Class: "busy", Reason: "SyncLoadBalancerFailed", Type: "Warning", Component: "service-controller", Message: "It is busy.",
			Service: event.Service{Namespace: ns, Name: name, UID: string(svc.UID)}, Event: event.Reference{Name: name, UID: uid(1), ResourceVersion: "1"},
			First: w.now(), Last: w.now(),
		}
		e, err := event.NewFailed(f)
		if err != nil {
			t.Fatal(err)
		}
		header, data, err := event.EncodeNATS(e)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := w.s.PublishNewer(w.ctx, event.FailedSubject("c1", "busy", f.Service.UID), "", header, data,
			func(stream.Message) bool { return true }); err != nil {
			t.Fatal(err)
		}
		if rec, err := engine.Run(w.ctx, env, class, engine.Event{ID: e.ID(), Failure: f}); err != nil || rec.Result != event.Asked {
			t.Fatalf("got %+v, %v", rec, err)
		}
	}
	seen := uint64(0)
	feed := func() {
		t.Helper()
		err := w.s.Each(w.ctx, stream.Cases, event.CaseSubjects, time.Time{}, func(m stream.Message) error {
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
	standing := func(ctx context.Context) ([]event.Record, error) { return OpenFailures(ctx, w.s, "c1") }
	l := &host.Rechecker{Env: env, Remedies: []*remedy.Remedy{class}, OpenFailures: standing}
	look := func() {
		t.Helper()
		if err := l.Round(w.ctx); err != nil {
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
	gone, cancel := context.WithCancel(w.ctx)
	cancel()
	if _, err := l.Due(gone); err == nil { // a round that can't read the failures forgets no look
		t.Error("without NATS there is no error")
	}
	look()
	if asks != 1 {
		t.Errorf("what stands was looked at %d times", asks)
	}
	feed()
	same(t, h.told(), "updated slb: 1 fail, 1 over")
	if seen > before+2 {
		t.Errorf("looks left %d records", seen-before)
	}
	// It was over for the look, but not for the run after it.
	q.pass(time.Hour)
	asks, over = 0, 1
	look()
	if asks != 1 {
		t.Errorf("the failure came back, and its class was asked %d times", asks)
	}
	if err := services.Delete(w.ctx, "stays", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	q.pass(time.Hour)
	look()
	feed()
	same(t, h.told(), "closed slb: 0 fail, 2 over")
}

func TestLookPastTheDoctor(t *testing.T) {
	w := newWorld(t)
	h := newHook(t)
	q := w.queue(w.follower(nil, h.sink("ops")), 0)
	const looks = 30 // limit of one round
	for n := range looks + 1 {
		q.put(w.write(w.record(n, "doctor-room", event.Asked)))
	}
	q.pass(time.Minute)
	q.put(w.write(w.record(looks+1, "vswitch-ip-exhausted", event.Asked)))
	q.pass(2 * time.Hour)
	standing := func(ctx context.Context) ([]event.Record, error) { return OpenFailures(ctx, w.s, "c1") }
	l := &host.Rechecker{Env: &engine.Env{Cluster: "c1", Stream: w.s, Now: w.now}, OpenFailures: standing}
	due, err := l.Due(w.ctx)
	if err != nil || len(due) != 1 || due[0].Class != "vswitch-ip-exhausted" {
		t.Errorf("%d are due: %+v, %v", len(due), due, err)
	}
}

// A ticket of the doctor names the finding, and attributes nothing to the controller.
func TestTextOfDoctor(t *testing.T) {
	w := newWorld(t)
	h := newHook(t)
	q := w.queue(w.follower(nil, h.sink("ops")), 0)
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	q.o.since = at
	found := func(kind, name string) func(*event.Record) {
		return func(r *event.Record) {
			r.At, r.First, r.EventTime, r.Impact, r.Cause, r.Steps, r.Digest, r.Risk = at, at, at, "", "", nil, "", ""
			r.Message, r.Finding, r.Ask = "It is full.", say.Literal("It is full."), say.Literal("Make room.")
			if kind != "" {
				r.Service = event.Service{Kind: kind, Name: name, UID: r.Service.UID}
			}
		}
	}
	q.put(w.write(w.record(1, "doctor-room", event.Asked, found("load balancer", "lb-1"))))
	_, one := h.take()[0].notice(t)
	want := `The doctor finds it on 1 load balancer, since 2026-01-02 15:04 UTC.

Finding: It is full.

What to do: Make room.

About:
- load balancer lb-1 in cluster c1, case 00000000-20260102T150405: needs action by a person.

The journal tells the whole story: lbremedy show 00000000-20260102T150405
Reference: ` + one.Key
	if diff := cmp.Diff(want, one.Text); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if !strings.HasSuffix(one.Title, ", 1 load balancer") {
		t.Errorf("the title is %q", one.Title)
	}
	q.put(w.write(w.record(2, "doctor-room", event.Asked, found("", ""))))
	q.pass(time.Minute)
	_, two := h.take()[0].notice(t)
	if !strings.HasSuffix(two.Title, ", 2 things") || !strings.Contains(two.Text, "- shop/web-2 in cluster c1") {
		t.Errorf("of two kinds: %q, %s", two.Title, two.Text)
	}
	q.put(w.write(w.record(1, "doctor-room", event.Gone, found("load balancer", "lb-1"))))
	q.pass(time.Minute)
	_, three := h.take()[0].notice(t)
	if !strings.Contains(three.Text, "The doctor finds it on 1 thing, since 2026-01-02 15:04 UTC. 1 thing: it is over.") {
		t.Errorf("one of them over: %s", three.Text)
	}
}
