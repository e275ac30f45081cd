package step_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
)

func TestEvict(t *testing.T) {
	t.Parallel()
	r := build(t, nil, nil)
	ns := r.c.Service.Namespace
	pods := r.kube.Client().CoreV1().Pods(ns)
	pod := func(finalizers ...string) *corev1.Pod {
		p, err := pods.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "web-0", Labels: map[string]string{"app": "web"}, Finalizers: finalizers},
			Spec:       corev1.PodSpec{NodeName: "node-1", TerminationGracePeriodSeconds: new(int64), Containers: []corev1.Container{{Name: "x", Image: "x"}}},
		}, metav1.CreateOptions{})
		r.must(err)
		return p
	}
	of := func(p *corev1.Pod) step.Evict {
		return step.Evict{Namespace: ns, Pod: p.Name, UID: p.UID, Node: "node-1"}
	}
	first := of(pod())
	r.is(first, remedy.Todo)
	r.does(first)
	r.is(first, remedy.Done)
	r.does(first)

	kept := pod("example.com/f")
	r.is(first, remedy.Done)
	r.does(first)
	second := of(kept)
	r.is(second, remedy.Todo)
	r.does(second)
	r.is(second, remedy.Done) // it is terminating
	_, err := pods.Patch(t.Context(), "web-0", "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	r.must(err)

	_, err = r.kube.Client().PolicyV1().PodDisruptionBudgets(ns).Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}, metav1.CreateOptions{})
	r.must(err)
	p := pod()
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	_, err = pods.UpdateStatus(t.Context(), p, metav1.UpdateOptions{})
	r.must(err)
	if err := of(p).Apply(t.Context(), r.c, r.w); !errors.Is(err, kube.ErrBlocked) {
		t.Errorf("against a budget: %v", err)
	}
	r.is(of(p), remedy.Todo)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := of(p).Apply(ctx, r.c, r.w); !errors.Is(err, context.Canceled) {
		t.Errorf("a Pod that can't be read: %v", err)
	}
	if _, ok := first.Undo(); ok {
		t.Error("an eviction has a way back")
	}
}
