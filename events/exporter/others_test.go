package exporter

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/cluster"
)

func (w *world) about(kind, name, uid, component, reason, message string) {
	w.Helper()
	now := metav1.Now()
	e := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: name + ".", Namespace: metav1.NamespaceDefault},
		InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name, UID: types.UID(uid)},
		Reason:         reason, Message: message, Type: corev1.EventTypeWarning, Source: corev1.EventSource{Component: component},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	made, err := w.join.Client().CoreV1().Events(e.Namespace).Create(w.ctx, e, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		_ = w.join.Client().CoreV1().Events(made.Namespace).Delete(w.ctx, made.Name, metav1.DeleteOptions{})
	})
}

// A Node's failures are published under its UID, although the controller writes its name. Unknown Nodes and a tenant's Events are not.
func TestOtherObjects(t *testing.T) {
	w := worldOn(t, cluster.Alone(t)) // exporters of other tests would publish its Events
	name := "n-" + w.ns
	node, err := w.join.Client().CoreV1().Nodes().Create(w.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.join.Client().CoreV1().Nodes().Delete(w.ctx, name, metav1.DeleteOptions{}) })
	const said = "Error creating route entry in vtb-1: Message: odd"
	w.about("Node", name, name, "route-controller", "CreateRouteFailed", said)
	w.about("Node", name, "11111111-1111-1111-1111-111111111111", "node-controller", "SyncNodeFailed", "forged")
	w.about("Node", "gone-"+name, "gone-"+name, "node-controller", "SyncNodeFailed", "forged")
	w.about("Node", name, string(node.UID), "kubelet", "CreateRouteFailed", "another component")
	w.about("Event", event.RouteObject, "", "route-controller", "SyncRouteFailed", "Reconciling route error: odd")
	for _, forged := range []*corev1.Event{
		{Reason: "SyncRouteFailed", Source: corev1.EventSource{Component: "route-controller"}},
		{ObjectMeta: metav1.ObjectMeta{Name: event.Precheck}, Reason: event.Precheck},
	} {
		forged.Namespace, forged.Name = w.ns, cmp.Or(forged.Name, "forged")
		forged.InvolvedObject = corev1.ObjectReference{Kind: "Service", Namespace: w.ns, Name: event.RouteObject}
		forged.Message, forged.Type, forged.LastTimestamp = "forged", corev1.EventTypeWarning, metav1.Now()
		w.make(forged)
	}
	e := w.exporter(nil)
	w.run(e)
	of := event.Thing(w.id, event.KindCluster, w.id)
	stored := func(uid string) bool {
		_, err := w.s.Last(w.ctx, stream.Failed, event.FailedSubject(w.id, event.Unclassified, uid))
		return err == nil
	}
	w.await("the failures of the node and the cluster, and two that are about nothing", func() bool {
		return stored(string(node.UID)) && stored(of.UID) && e.Stats().Strange.Load() >= 2 && e.Stats().Ignored.Load() >= 2
	})
	f, _ := w.last(event.Unclassified, string(node.UID))
	want := event.Service{Kind: event.KindNode, Name: name, UID: string(node.UID)}
	if f.Service != want || f.Message != said || f.Reason != "CreateRouteFailed" {
		t.Errorf("got %+v, want one about %+v", f, want)
	}
	if f, _ := w.last(event.Unclassified, of.UID); f.Service != of || f.Reason != "SyncRouteFailed" || f.Message == "forged" {
		t.Errorf("got %+v, want the controller's about %+v", f, of)
	}
}

// TestListedFloodOfNodes proves that Events about Nodes without room in the queue of the namespace default are read again.
func TestListedFloodOfNodes(t *testing.T) {
	w := worldOn(t, cluster.Alone(t)) // exporters of other tests would publish its Events
	name := "zz-" + w.ns              // listed last, after the room is used up
	node, err := w.join.Client().CoreV1().Nodes().Create(w.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.join.Client().CoreV1().Nodes().Delete(w.ctx, name, metav1.DeleteOptions{}) })
	const many = 300
	for i := range many {
		gone := fmt.Sprintf("gone-%s-%d", w.ns, i)
		w.about("Node", gone, gone, "node-controller", "SyncNodeFailed", "forged"+strings.Repeat(" long", 800))
	}
	w.about("Node", name, name, "route-controller", "CreateRouteFailed", "Error creating route entry in vtb-1: Message: odd")
	e := w.budgeted(nil, 1000, 10)
	w.run(e)
	w.await("the failure of the node is published", func() bool {
		_, err := w.s.Last(w.ctx, stream.Failed, event.FailedSubject(w.id, event.Unclassified, string(node.UID)))
		return err == nil && e.Stats().Strange.Load() >= many
	})
}

// A passed check before an upgrade is published too: it ends the case of a failed one. A tenant's Event of that name is not.
func TestPrecheckResult(t *testing.T) {
	s := &Exporter{c: Config{Classifier: event.NewClassifier(table), Now: time.Now, Cluster: "c1"}, log: slog.New(slog.DiscardHandler), queues: newQueues(0, 0)}
	for _, failed := range []int{1, 0} {
		ev := kube.Event{Namespace: metav1.NamespaceSystem, Name: event.Precheck, Reason: "Success", Type: corev1.EventTypeNormal,
			Message: fmt.Sprintf(`{"State":"Success","CheckResults":[{"Name":"ccmSLB","FailedCount":%d}]}`, failed)}
		if o, ok := s.classify(ev); !ok || o.kind != event.KindCluster || o.Reason != event.Precheck {
			t.Errorf("with %d items: published %v, %+v", failed, ok, o)
		}
		ev.Namespace = "shop"
		if _, ok := s.classify(ev); ok {
			t.Error("a tenant's is published")
		}
	}
}
