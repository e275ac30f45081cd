package kube_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/test/cluster"
)

func makePod(t testing.TB, j *cluster.Cluster, namespace, name string, labels map[string]string) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: corev1.PodSpec{
			NodeName: "nowhere", TerminationGracePeriodSeconds: new(int64), Containers: []corev1.Container{{Name: "x", Image: "x"}},
		},
	}
	p, err := j.Client().CoreV1().Pods(namespace).Create(t.Context(), p, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPods(t *testing.T) {
	ctx := limited(t)
	j := cluster.Join(t)
	ns := j.Namespace(t)
	c := open(t, j.Config)
	makePod(t, j, ns, "a", map[string]string{"app": "web", "tier": "front"})
	makePod(t, j, ns, "b", map[string]string{"app": "web"})
	makePod(t, j, ns, "c", map[string]string{"app": "db"})
	for _, tt := range []struct {
		selector map[string]string
		want     string
	}{
		{nil, "a b c"},
		{map[string]string{"app": "web"}, "a b"},
		{map[string]string{"app": "web", "tier": "front"}, "a"},
		{map[string]string{"app": "none"}, ""},
	} {
		pods, err := c.Pods(ctx, ns, tt.selector)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range pods {
			names = append(names, p.Name)
		}
		if got := strings.Join(names, " "); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.selector, got, tt.want)
		}
	}
	for what, err := range map[string]error{
		"Pods":                     second(c.Pods(ctx, "../x", nil)),
		"EndpointSlices":           second(c.EndpointSlices(ctx, "../x", "web")),
		"EndpointSlices, Service":  second(c.EndpointSlices(ctx, ns, "web,app!=x")),
		"an eviction":              kube.NewWriter(c).Evict(ctx, ns, "../x", "1"),
		"an eviction of no Pod":    kube.NewWriter(c).Evict(ctx, ns, "none", "1"),
		"an eviction with no name": kube.NewWriter(c).Evict(ctx, ns, "", "1"),
	} {
		if !errors.Is(err, kube.ErrNotFound) {
			t.Errorf("%s: got %v, want ErrNotFound", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestEndpointSlices(t *testing.T) {
	ctx := limited(t)
	j := cluster.Join(t)
	ns := j.Namespace(t)
	for name, service := range map[string]string{"web-1": "web", "other-1": "other"} {
		if _, err := j.Client().DiscoveryV1().EndpointSlices(ns).Create(ctx, &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.2.4"}, NodeName: new("node-1"),
				Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
			Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := open(t, j.Config).EndpointSlices(ctx, ns, "web")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Name != "web-1" {
		t.Fatalf("got %+v", got)
	}
	want := []discoveryv1.Endpoint{{Addresses: []string{"10.0.2.4"}, NodeName: new("node-1"), Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}}
	if diff := cmp.Diff(want, got[0].Endpoints); diff != "" {
		t.Errorf("endpoints (-want +got):\n%s", diff)
	}
}

func TestEvict(t *testing.T) {
	ctx := limited(t)
	j := cluster.Join(t)
	ns := j.Namespace(t)
	c := open(t, j.Config)
	w := kube.NewWriter(c)
	free := makePod(t, j, ns, "free", nil)
	kept := makePod(t, j, ns, "kept", map[string]string{"app": "kept"})
	pods := j.Client().CoreV1().Pods(ns)
	kept.Status.Phase = corev1.PodRunning
	kept.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if _, err := pods.UpdateStatus(ctx, kept, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Client().PolicyV1().PodDisruptionBudgets(ns).Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "all"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: kept.Labels}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	if err := w.Dry().Evict(ctx, ns, "free", free.UID); err != nil {
		t.Errorf("a dry run: %v", err)
	}
	if p, err := c.Pod(ctx, ns, "free"); err != nil || p.DeletionTimestamp != nil {
		t.Errorf("after a dry run: %v, %v", p, err)
	}
	if err := w.Dry().Evict(ctx, ns, "kept", kept.UID); !errors.Is(err, kube.ErrBlocked) {
		t.Errorf("a dry run against a budget: %v", err)
	}
	for _, tt := range []struct {
		name string
		pod  string
		uid  types.UID
		want error
	}{
		{"another Pod of the name", "free", "11111111-1111-1111-1111-111111111111", kube.ErrConflict},
		{"no UID", "free", "", kube.ErrInvalid},
		{"a budget", "kept", kept.UID, kube.ErrBlocked},
		{"free to go", "free", free.UID, nil}, // also after a dry run
		{"gone", "free", free.UID, kube.ErrNotFound},
	} {
		if err := w.Evict(ctx, ns, tt.pod, tt.uid); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		}
	}
	if p, err := c.Pod(ctx, ns, "kept"); err != nil || p.UID != kept.UID {
		t.Errorf("got Pod %v, %v", p, err)
	}
	left, err := c.Pods(ctx, ns, nil)
	if err != nil || len(left) != 1 || left[0].Name != "kept" {
		t.Errorf("%d Pods are left, error %v", len(left), err)
	}
}
