package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// A class may handle Nodes. The case ends when the Node is gone or replaced. An Approval, which needs a namespace, is not asked for.
func TestNode(t *testing.T) {
	t.Parallel()
	r := build(t)
	nodes, name := r.kube.Client().CoreV1().Nodes(), "n-"+r.svc.Namespace
	node, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	r.must(err)
	t.Cleanup(func() { _ = nodes.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}) })
	ev := r.event
	ev.Failure.Service = event.Service{Kind: event.KindNode, Name: name, UID: string(node.UID)}
	ev.Failure.Reason = "CreateRouteFailed"

	if _, err := engine.Run(t.Context(), r.env, r.class, ev); !errors.Is(err, engine.ErrForeign) {
		t.Errorf("a class for Services answers for a node: %v", err)
	}
	r.class.Kinds = []string{event.KindNode}
	r.class.StillFails = func(context.Context, *remedy.Case) (remedy.Verdict, error) { return remedy.Yes, nil }
	r.class.Diagnose = func(_ context.Context, c *remedy.Case) (remedy.Plan, error) {
		return remedy.Plan{Finding: say.F("It is %s.", c.Event.Service), Steps: []remedy.Step{
			act{Name: "1", At: "ram/p", How: remedy.High, Annotate: set(key, "new", "old")}}}, nil
	}
	r.policy.Risk = remedy.Low
	rec, err := engine.Run(t.Context(), r.env, r.class, ev)
	if err != nil || rec.Result != event.Asked || rec.Service != ev.Failure.Service || rec.Finding.String() != "It is node "+name+"." {
		t.Fatalf("got %+v, %v", rec, err)
	}
	if strings.Contains(rec.Ask.String(), "lbremedy approve") || rec.Status() == event.NeedsApproval {
		t.Errorf("it asks for an Approval: %s", rec.Ask)
	}

	other := ev
	other.Failure.Service.UID = "11111111-1111-4111-8111-111111111111"
	rec, err = engine.Look(t.Context(), r.env, r.class, other)
	if err != nil || rec.Result != event.Gone || rec.Finding.String() != "The node was deleted. Another one has its name now." {
		t.Errorf("of a node with another UID: %s, %s, %v", rec.Result, rec.Finding, err)
	}
	r.must(nodes.Delete(t.Context(), name, metav1.DeleteOptions{}))
	if rec, err := engine.Look(t.Context(), r.env, r.class, ev); err != nil || rec.Result != event.Gone || rec.Finding.String() != "The node no longer exists." {
		t.Errorf("of a node that is gone: %s, %s, %v", rec.Result, rec.Finding, err)
	}
}

func TestNodeUnknown(t *testing.T) {
	t.Parallel()
	r := build(t)
	nodes, name := r.kube.Client().CoreV1().Nodes(), "n-"+r.svc.Namespace
	node, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	r.must(err)
	t.Cleanup(func() { _ = nodes.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}) })
	ev := r.event
	ev.Failure.Service = event.Service{Kind: event.KindNode, Name: name, UID: string(node.UID)}
	ev.Failure.Reason = "CreateRouteFailed"
	r.class.Kinds = []string{event.KindNode}
	r.class.StillFails = func(context.Context, *remedy.Case) (remedy.Verdict, error) { return remedy.Unknown, nil }
	if rec, err := engine.Run(t.Context(), r.env, r.class, ev); err != nil || rec.Result != event.Waiting {
		t.Fatalf("at first: %s, %v", rec.Result, err)
	}
	r.advance(time.Hour)
	rec, err := engine.Run(t.Context(), r.env, r.class, ev)
	if err != nil || rec.Result != event.Asked || rec.Ask.String() != "Check the nodes and their routes by hand." {
		t.Errorf("in the end: %s, %q, %v", rec.Result, rec.Ask, err)
	}
}
