package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

func (r *rig) tell(svc *corev1.Service, reason, typ, message string, count int, ago time.Duration) {
	r.Helper()
	r.tellAs("service-controller", svc, reason, typ, message, count, ago)
}

func (r *rig) tellAs(component string, svc *corev1.Service, reason, typ, message string, count int, ago time.Duration) {
	r.Helper()
	at := metav1.NewTime(time.Now().Add(-ago))
	_, err := r.kube.Client().CoreV1().Events(svc.Namespace).Create(r.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: svc.Name + "."},
		InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: svc.Namespace, Name: svc.Name, UID: svc.UID},
		Reason:         reason, Type: typ, Message: message, Source: corev1.EventSource{Component: component},
		Count: int32(count), FirstTimestamp: at, LastTimestamp: at,
	}, metav1.CreateOptions{})
	r.must(err)
}

// The newest Event of each Service shows which Services fail like the one in hand.
func TestPeers(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.class.Texts = []string{"it is old"}
	const same = "Error syncing load balancer []: Message: It is old."
	const other = "Error syncing load balancer []: Message: It is something else."
	service := func(name string) *corev1.Service {
		return r.create(&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: r.svc.Namespace, Name: name},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
		})
	}
	failed := func(svc *corev1.Service, message string, count int, ago time.Duration) {
		r.tell(svc, "SyncLoadBalancerFailed", "Warning", message, count, ago)
	}
	good := func(svc *corev1.Service, count int, ago time.Duration) {
		r.tell(svc, "EnsuredLoadBalancer", "Normal", "Ensured load balancer [lb-1]", count, ago)
	}
	failed(r.svc, same, 4, time.Minute)
	a := service("a")
	failed(a, same, 20, time.Minute)
	good(a, 3, time.Hour)
	r.tellAs("my-operator", a, "EnsuredLoadBalancer", "Normal", "Ensured load balancer [lb-1]", 9, time.Second) // no evidence
	r.tellAs("my-operator", a, "CleanLoadBalancer", "Normal", "Clean load balancer", 1, time.Second)
	r.tellAs("", a, "EnsuredLoadBalancer", "Normal", "Ensured load balancer [lb-1]", 9, time.Second)
	for _, component := range []string{"my-operator", ""} {
		r.tellAs(component, service("stranger"+component), "SyncLoadBalancerFailed", "Warning", same, 99, time.Second)
	}
	b := service("b")
	failed(b, same, 30, time.Hour)
	good(b, 1, time.Minute)
	c := service("c")
	failed(c, same, 10, time.Hour)
	failed(c, other, 1, time.Minute)
	d := service("d")
	r.tell(d, "CleanLoadBalancerFailed", "Warning", "Error deleting load balancer [lb-1]: Message: It is old.", 2, time.Minute)
	r.tell(service("written"), "FailedAddHash", "Warning", "Error adding service hash: x", 5, time.Minute)
	failed(service("e"), "DryRun: "+same, 7, time.Minute)
	r.tell(service("f"), "UnAvailableLoadBalancer", "Normal", "There are no available nodes for LoadBalancer", 9, time.Minute)
	gone := service("gone")
	failed(gone, same, 50, time.Minute)
	r.must(r.kube.Client().CoreV1().Services(gone.Namespace).Delete(t.Context(), gone.Name, metav1.DeleteOptions{}))
	cleaned := service("cleaned")
	failed(cleaned, same, 1, time.Hour)
	r.tell(cleaned, "CleanLoadBalancer", "Normal", "Clean load balancer", 1, time.Minute)

	var peers remedy.Peers
	r.class.Diagnose = func(ctx context.Context, c *remedy.Case) (remedy.Plan, error) {
		var err error
		peers, err = c.Peers(ctx)
		return remedy.Plan{Finding: say.F("f"), Ask: say.F("a")}, err
	}
	r.ends(event.Asked)
	var (
		isWeb     = remedy.Peer{Namespace: "ns", Name: "web", Failed: 4, Fails: true, Same: true}
		isA       = remedy.Peer{Namespace: "ns", Name: "a", Failed: 20, Good: 3, Fails: true, Same: true}
		isB       = remedy.Peer{Namespace: "ns", Name: "b", Failed: 30, Good: 1}
		isC       = remedy.Peer{Namespace: "ns", Name: "c", Failed: 11, Fails: true}
		isWritten = remedy.Peer{Namespace: "ns", Name: "written", Failed: 5, Fails: true}
		isD       = remedy.Peer{Namespace: "ns", Name: "d", Failed: 2, Fails: true, Same: true}
		isCleaned = remedy.Peer{Namespace: "ns", Name: "cleaned", Failed: 1}
	)
	for _, list := range []struct {
		name string
		ask  func(limit int) ([]remedy.Peer, int)
		want []remedy.Peer
	}{
		{"alike", peers.Alike, []remedy.Peer{isWeb, isA, isD}},
		{"others", peers.Others, []remedy.Peer{isC, isWritten}},
		{"busiest", peers.Busiest, []remedy.Peer{isB, isA, isC, isWritten, isWeb, isD, isCleaned}},
	} {
		var got []remedy.Peer
		all, n := list.ask(10_000)
		for _, p := range all {
			n--
			if p.Namespace == r.svc.Namespace { // others use the cluster, too
				p.Namespace = "ns"
				got = append(got, p)
			}
		}
		if diff := cmp.Diff(list.want, got); diff != "" || n != 0 {
			t.Errorf("%s (-want +got), with a number that is off by %d:\n%s", list.name, n, diff)
		}
	}
}

// Services that fail together read their peers once, each with itself first. A failed read is an error to all of them and is repeated.
func TestCrowd(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.class.Texts = []string{"it is old"}
	const many = 20
	services := make([]*corev1.Service, many)
	for i := range services {
		services[i] = r.create(&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: r.svc.Namespace, Name: fmt.Sprintf("s%02d", i)},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
		})
		r.tell(services[i], "SyncLoadBalancerFailed", "Warning", "Error syncing load balancer []: Message: It is old.", i+1, time.Minute)
	}
	crowd := remedy.NewPeerCache(time.Hour)
	var lists atomic.Int32
	count := func(fails error) {
		r.on("GET", func(context.Context) error {
			lists.Add(1)
			return fails
		})
	}
	ask := func() (failed int32) {
		var wait sync.WaitGroup
		var errs atomic.Int32
		for _, svc := range services {
			wait.Go(func() {
				c := &remedy.Case{View: ccm.View{Kube: r.env.Kube, Service: svc}, Remedy: r.class, PeerCache: crowd}
				reads := 0
				peers, err := c.Peers(event.WithReads(t.Context(), func(event.Read) { reads++ }))
				if err != nil {
					errs.Add(1)
					return
				}
				var same []string
				alike, _ := peers.Alike(10_000)
				for _, p := range alike {
					if p.Namespace == svc.Namespace {
						same = append(same, p.Name)
					}
				}
				if same[0] != svc.Name || len(same) != many || reads == 0 {
					t.Errorf("%s is first, of %d that fail, with %d reads; want %s, %d and some", same[0], len(same), reads, svc.Name, many)
				}
			})
		}
		wait.Wait()
		return errs.Load()
	}
	count(errors.New("connection refused"))
	if got := ask(); got != many {
		t.Errorf("%d of %d were told of an error", got, many)
	}
	lists.Store(0)
	count(nil)
	// Reading separately would take two lists a Service.
	if failed, n := ask(), lists.Load(); failed != 0 || n >= many {
		t.Errorf("%d failed, and %d requests were made for the lists of %d Services, want fewer", failed, n, many)
	}
}

// A failure expected to pass is looked at less and less often, until a person is asked. The question is repeated while the failure comes back.
func TestPauses(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.class.Diagnose = func(_ context.Context, c *remedy.Case) (remedy.Plan, error) {
		if c.Lasts() {
			return remedy.Plan{Finding: say.F("It lasts."), Ask: say.F("Look why.")}, nil
		}
		return remedy.Plan{Finding: say.F("It is busy."), Wait: c.PollInterval()}, nil
	}
	look := func(want event.Result) {
		t.Helper()
		if rec, err := engine.Look(t.Context(), r.env, r.class, r.event); err != nil || rec.Result != want {
			t.Errorf("a look ends as %s, %v, want %s", rec.Result, err, want)
		}
	}
	look(event.Waiting)
	var pauses []time.Duration
	for range 8 {
		rec := r.ends(event.Waiting)
		pauses = append(pauses, rec.Wait.Round(10*time.Second))
		r.advance(rec.Wait)
	}
	const s, m = time.Second, time.Minute
	if diff := cmp.Diff([]time.Duration{30 * s, 30 * s, m, 2 * m, 3 * m, 3 * m, 3 * m, 3 * m}, pauses); diff != "" {
		t.Errorf("pauses (-want +got):\n%s", diff)
	}
	look(event.Asked)
	r.ends(event.Asked)
	look(event.Asked)
	r.advance(5 * m)
	r.event = r.failure(class, r.now())
	r.ends(event.Asked)
	r.advance(time.Hour)
	r.event = r.failure(class, r.now())
	r.ends(event.Waiting)
	r.wrote(0)
}

func TestSaid(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"Error syncing load balancer [lb-1]: Message: The system is busy.":                                   `"The system is busy"`,
		"Error syncing load balancer []: Message: code: 400, The Lock [x] is conflict. ":                     `"The Lock [x] is conflict"`,
		"Error syncing load balancer []: apply model error:\n\tnlb n is in creating status":                  `"apply model error: nlb n is in creating status"`,
		"Error syncing load balancer []: Message: A thing., there are unprocessed listeners in reconcile]":   `"A thing"`,
		"Fail to ensure loadbalancer, error Message: A thing.. k8s/80/web/shop/c1":                           `"A thing"`,
		"Error syncing load balancer []: expect [lb-1], actual [lb-2]":                                       `"expect [lb-1], actual [lb-2]"`,
		"Error deleting load balancer: a thing., ":                                                           `"a thing"`,
		"Error syncing load balancer []: Message: " + strings.Repeat("é", 300):                               `"` + strings.Repeat("é", 100) + `"…`,
		"Error syncing load balancer []: Message: The \"name\" is \x00odd.":                                  `"The \"name\" is \x00odd"`,
		"call DescribeX: SDK.ServerError\nErrorCode: X\nMessage: No such thing.\nMore: map[]":                `"No such thing"`,
		"Error adding service hash: shop/web failed to add service hash:, error: services \"web\" not found": `"services \"web\" not found"`,
		"Error updating pod readiness gates for service [shop/web]: [a thing, another]":                      `"[a thing, another]"`,
		"": `""`,
	} {
		c := remedy.Case{Event: event.Failure{Message: message}}
		if got := c.Said(); got != want {
			t.Errorf("of %q it said %s, want %s", message, got, want)
		}
	}
}
