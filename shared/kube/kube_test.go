package kube_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/test/cluster"
)

func open(t testing.TB, config *rest.Config) *kube.Cluster {
	t.Helper()
	c, err := kube.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func limited(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func makeService(t testing.TB, j *cluster.Cluster, namespace, name string) *corev1.Service {
	t.Helper()
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"old": "1", "kept": "2"}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
	s, err := j.Client().CoreV1().Services(namespace).Create(t.Context(), s, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestServicesAreReadAndPatched(t *testing.T) {
	ctx := limited(t)
	j := cluster.Join(t)
	ns := j.Namespace(t)
	made := makeService(t, j, ns, "web")
	c := open(t, j.Config)

	got, err := c.Service(ctx, ns, "web")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(made.Spec, got.Spec); diff != "" {
		t.Errorf("the spec that was read differs (-made +read):\n%s", diff)
	}

	fresh := "yes"
	patched, err := kube.NewWriter(c).PatchService(ctx, ns, "web", got.ResourceVersion, kube.ServicePatch{
		Annotations: map[string]*string{"new": &fresh, "old": nil},
		Spec:        json.RawMessage(`{"externalTrafficPolicy":"Local"}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"kept": "2", "new": "yes"}, patched.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if patched.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal || len(patched.Spec.Ports) != 1 {
		t.Errorf("the spec became %+v", patched.Spec)
	}
	if !slices.ContainsFunc(patched.ManagedFields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == kube.Manager }) {
		t.Errorf("no managed field of %q in %+v", kube.Manager, patched.ManagedFields)
	}

	_, err = kube.NewWriter(c).PatchService(ctx, ns, "web", got.ResourceVersion, kube.ServicePatch{Annotations: map[string]*string{"new": nil}})
	if !errors.Is(err, kube.ErrConflict) {
		t.Errorf("a patch of an old version ended with %v, want ErrConflict", err)
	}
	_, err = kube.NewWriter(c).PatchService(ctx, ns, "web", "", kube.ServicePatch{})
	if !errors.Is(err, kube.ErrInvalid) {
		t.Errorf("a patch without a version ended with %v, want ErrInvalid", err)
	}
	_, err = kube.NewWriter(c).PatchService(ctx, ns, "web", patched.ResourceVersion, kube.ServicePatch{Spec: json.RawMessage(`{"type":"Nonsense"}`)})
	if !errors.Is(err, kube.ErrInvalid) {
		t.Errorf("a patch that makes no sense ended with %v, want ErrInvalid", err)
	}
	_, err = kube.NewWriter(c).PatchService(ctx, ns, "web", patched.ResourceVersion, kube.ServicePatch{Spec: json.RawMessage(`{`)})
	if !errors.Is(err, kube.ErrInvalid) {
		t.Errorf("a patch that is not JSON ended with %v, want ErrInvalid", err)
	}

	list, err := c.Services(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(list, func(s corev1.Service) bool { return s.UID == made.UID }) {
		t.Error("the list of Services lacks the one that was made")
	}
}

// Every write is reported, whatever its result. A dry run is not, leaves nothing behind, and answers each patch as after those before it.
func TestWritesAreToldAndTried(t *testing.T) {
	ctx := limited(t)
	j := cluster.Join(t)
	ns := j.Namespace(t)
	made := makeService(t, j, ns, "web")
	c := open(t, j.Config)
	var told []event.Call
	w := kube.NewWriter(c).OnWrite(func(c event.Call) { told = append(told, c) })

	dry, one, two := w.Dry(), "1", "2"
	for i, step := range []kube.ServicePatch{
		{Annotations: map[string]*string{"a": &one, "old": nil}},
		{Annotations: map[string]*string{"b": &two}, Spec: json.RawMessage(`{"externalTrafficPolicy":"Local"}`)},
		{Annotations: map[string]*string{"a": nil}},
	} {
		s, err := dry.PatchService(ctx, ns, "web", made.ResourceVersion, step)
		if err != nil {
			t.Fatal(err)
		}
		_, old := s.Annotations["old"]
		if old || (s.Annotations["a"] == "1") != (i < 2) || (s.Annotations["b"] == "2") != (i > 0) || s.ResourceVersion != made.ResourceVersion {
			t.Errorf("patch %d is answered with %v of version %s", i, s.Annotations, s.ResourceVersion)
		}
	}
	if _, err := dry.PatchService(ctx, ns, "web", "1", kube.ServicePatch{}); !errors.Is(err, kube.ErrConflict) {
		t.Errorf("a dry run of an old version ended with %v", err)
	}
	if now, err := c.Service(ctx, ns, "web"); err != nil || now.ResourceVersion != made.ResourceVersion || len(told) > 0 {
		t.Errorf("the dry run left version %s, was %s, and told %v: %v", now.ResourceVersion, made.ResourceVersion, told, err)
	}

	s, err := w.PatchService(ctx, ns, "web", made.ResourceVersion, kube.ServicePatch{Annotations: map[string]*string{"a": &one}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.PatchStatus(ctx, ns, "web", made.ResourceVersion, corev1.LoadBalancerStatus{}); !errors.Is(err, kube.ErrConflict) {
		t.Errorf("got %v", err)
	}
	want := []event.Call{
		{Action: "patch services", Resource: ns + "/web", Version: s.ResourceVersion}, {Action: "patch services/status", Resource: ns + "/web", Error: "Conflict"},
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if who, err := c.Me(ctx); err != nil || who.Name == "" || len(who.Groups) == 0 {
		t.Errorf("we are %q, %v", who, err)
	}
}

func TestDryRunOfAWebhook(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"BadRequest","code":400,` +
			`"message":"admission webhook \"a.example.com\" does not support dry run"}`))
	}))
	t.Cleanup(server.Close)
	w := kube.NewWriter(open(t, &rest.Config{Host: server.URL}))
	if _, err := w.Dry().PatchService(t.Context(), "shop", "web", "1", kube.ServicePatch{}); !errors.Is(err, kube.ErrNoDryRun) {
		t.Errorf("got %v", err)
	}
	if _, err := w.PatchService(t.Context(), "shop", "web", "1", kube.ServicePatch{}); !errors.Is(err, kube.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

// The API server's cache may be old: it proves only the expected UID.
func TestServiceUID(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		uid := "now"
		if r.URL.Query().Get("resourceVersion") == "0" {
			uid = "before"
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"Service","apiVersion":"v1","metadata":{"namespace":"shop","name":"web","uid":"` + uid + `"}}`))
	}))
	t.Cleanup(server.Close)
	c := open(t, &rest.Config{Host: server.URL})
	for _, tt := range []struct {
		expected, want string
		requests       int
	}{{"before", "before", 1}, {"now", "now", 2}, {"another", "now", 2}} {
		asked = 0
		if uid, err := c.ServiceUID(t.Context(), "shop", "web", tt.expected); err != nil || uid != tt.want || asked != tt.requests {
			t.Errorf("where %q is expected: got %q and %v after %d requests, want %q after %d", tt.expected, uid, err, asked, tt.want, tt.requests)
		}
	}
	// A server that does not answer is asked once: each call takes the whole patience.
	server.Close()
	if _, err := c.ServiceUID(t.Context(), "shop", "web", "now"); !errors.Is(err, kube.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	gone := 0
	absent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		gone++
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(absent.Close)
	if _, err := open(t, &rest.Config{Host: absent.URL}).ServiceUID(t.Context(), "shop", "web", "now"); err == nil || gone != 1 {
		t.Errorf("got %v after %d requests, want an error after one", err, gone)
	}
}

func TestStatusIsReplaced(t *testing.T) {
	ctx := limited(t)
	j := cluster.Join(t)
	ns := j.Namespace(t)
	s := makeService(t, j, ns, "web")
	w := kube.NewWriter(open(t, j.Config))

	status := corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "203.0.113.1"}, {IP: "203.0.113.2"}}}
	s, err := w.PatchStatus(ctx, ns, "web", s.ResourceVersion, status)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Status.LoadBalancer.Ingress) != 2 {
		t.Fatalf("the status became %+v", s.Status)
	}
	old := s.ResourceVersion
	s, err = w.PatchStatus(ctx, ns, "web", old, corev1.LoadBalancerStatus{})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Status.LoadBalancer.Ingress) != 0 || len(s.Annotations) != 2 {
		t.Errorf("after the clearing the Service is %+v", s)
	}
	if _, err := w.PatchStatus(ctx, ns, "web", old, status); !errors.Is(err, kube.ErrConflict) {
		t.Errorf("a status for an old version ended with %v, want ErrConflict", err)
	}
}

func TestOtherReads(t *testing.T) {
	ctx := limited(t)
	j := cluster.Join(t)
	ns := j.Namespace(t)
	c := open(t, j.Config)

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: corev1.NodeSpec{ProviderID: "cn-hangzhou.i-1"}}
	if _, err := j.Client().CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pods := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "x"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "ccm:v2.14.0"}}},
	}
	selector := &metav1.LabelSelector{MatchLabels: pods.Labels}
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "terway"}, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: pods}}
	ds, err := j.Client().AppsV1().DaemonSets(ns).Create(ctx, ds, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ds.Status.NumberReady = 4
	if _, err := j.Client().AppsV1().DaemonSets(ns).UpdateStatus(ctx, ds, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}

	nodes, err := c.Nodes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Name == ns && n.Spec.ProviderID == "cn-hangzhou.i-1" }) {
		t.Errorf("%d nodes, and none is the one that was made", len(nodes))
	}
	sets, err := c.DaemonSets(ctx, ns)
	if err != nil {
		t.Fatal(err)
	}
	if len(sets) != 1 || sets[0].Name != "terway" || sets[0].Status.Ready != 4 || sets[0].Spec.Template.Spec.Containers[0].Image != "ccm:v2.14.0" {
		t.Errorf("DaemonSets: %+v", sets)
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "ingress"}, Spec: appsv1.DeploymentSpec{Selector: selector, Template: pods}}
	deployment, err = j.Client().AppsV1().Deployments(ns).Create(ctx, deployment, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	deployment.Status.Replicas, deployment.Status.ReadyReplicas = 3, 2
	if _, err := j.Client().AppsV1().Deployments(ns).UpdateStatus(ctx, deployment, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Deployment(ctx, ns, "ingress"); err != nil || got.Name != "ingress" || got.Status.Ready != 2 {
		t.Errorf("Deployment: %+v, %v", got, err)
	}
	if _, err := c.Deployment(ctx, ns, "other"); !errors.Is(err, kube.ErrNotFound) {
		t.Errorf("a Deployment that does not exist: %v", err)
	}
	if v, err := c.Version(ctx); err != nil || !strings.HasPrefix(v, "v1.") {
		t.Errorf("the version is %q, %v", v, err)
	}
}

func makeEvent(t testing.TB, j *cluster.Cluster, namespace, name string, uid types.UID, message string) *corev1.Event {
	t.Helper()
	now := metav1.Now().Rfc3339Copy()
	e := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: name},
		InvolvedObject: corev1.ObjectReference{Kind: "Service", APIVersion: "v1", Namespace: namespace, Name: "web", UID: uid},
		Reason:         "SyncLoadBalancerFailed",
		Type:           corev1.EventTypeWarning,
		Message:        message,
		Source:         corev1.EventSource{Component: "service-controller"},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	e, err := j.Client().CoreV1().Events(namespace).Create(t.Context(), e, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Only Events with the controller's name, in either component field, are evidence.
func TestEvidence(t *testing.T) {
	ctx := limited(t)
	j := cluster.Join(t)
	ns := j.Namespace(t)
	c := open(t, j.Config)
	mine := types.UID("11111111-1111-1111-1111-111111111111")
	client := j.Client().CoreV1().Events(ns)
	at := func(n int) metav1.Time { return metav1.NewTime(time.Date(2026, 11, 20, 12, n, 0, 0, time.UTC)) }
	for n, e := range []corev1.Event{
		{Reason: "EnsuredLoadBalancer", Source: corev1.EventSource{Component: "service-controller"}},
		{Reason: "EnsuredLoadBalancer", ReportingController: "nlb-controller", ReportingInstance: "x"},
		{Reason: "EnsuredLoadBalancer", Source: corev1.EventSource{Component: "my-operator"}},
		{Reason: "EnsuredLoadBalancer", ReportingController: "my-operator", ReportingInstance: "x"},
		{Reason: "EnsuredLoadBalancer", Source: corev1.EventSource{Component: "my-operator"}, ReportingController: "service-controller", ReportingInstance: "x"},
		{Reason: "EnsuredLoadBalancer"},
		{Reason: "SyncLoadBalancerFailed", Source: corev1.EventSource{Component: "service-controller"}},
		{Reason: "SyncLoadBalancerFailed", Source: corev1.EventSource{Component: "my-operator"}},
	} {
		e.Name, e.FirstTimestamp, e.LastTimestamp = fmt.Sprint("e", n), at(n), at(n)
		e.InvolvedObject = corev1.ObjectReference{Kind: "Service", Namespace: ns, Name: "web", UID: mine}
		if _, err := client.Create(ctx, &e, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	makeEvent(t, j, ns, "c", "22222222-2222-2222-2222-222222222222", "of another")

	var names []string
	if err := c.Evidence(ctx, kube.Selection{Namespace: ns, Fields: "involvedObject.uid=" + string(mine)}, func(e kube.Event) error {
		names = append(names, e.Name)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"e0", "e1", "e6"}, names); diff != "" {
		t.Errorf("evidence (-want +got):\n%s", diff)
	}
	got, err := c.Successes(ctx, ns, string(mine))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(got, time.Time.Compare)
	if len(got) != 2 || !got[0].Equal(at(0).Time) || !got[1].Equal(at(1).Time) {
		t.Errorf("successes at %v", got)
	}
	// A UID from outside must not become part of the selector.
	got, err = c.Successes(ctx, ns, "x,reason!=y")
	if err != nil || len(got) != 0 {
		t.Errorf("a hostile UID found %d Events, error %v", len(got), err)
	}
}

func TestPutEvent(t *testing.T) {
	ctx := limited(t)
	join := cluster.Join(t)
	ns := join.Namespace(t)
	c := open(t, join.As(t, "kube-test-notifier", []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"events"},
		Verbs: []string{"create", "patch", "list"}}}))
	w := kube.NewWriter(c)
	began := metav1.Now().Rfc3339Copy()
	e := corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: ns, Name: "web.1"},
		InvolvedObject: corev1.ObjectReference{Kind: "Service", APIVersion: "v1", Namespace: ns, Name: "web", UID: "u-1"},
		Reason:         "LBRemedyAsked", Type: "Warning", Message: "one", Count: 1, FirstTimestamp: began, LastTimestamp: began,
		Source: corev1.EventSource{Component: kube.Manager},
	}
	read := func() corev1.Event {
		t.Helper()
		all, err := join.Client().CoreV1().Events(ns).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=u-1"})
		if err != nil || len(all.Items) != 1 {
			t.Fatalf("got %d Events, %v", len(all.Items), err)
		}
		return all.Items[0]
	}
	if err := w.PutEvent(ctx, e); err != nil {
		t.Fatal(err)
	}
	uid := read().UID
	e.Message, e.Reason, e.Count, e.FirstTimestamp = "two", "LBRemedyFixed", 2, metav1.Time{}
	if err := w.PutEvent(ctx, e); err != nil {
		t.Fatal(err)
	}
	got := read()
	if got.UID != uid || got.Message != "two" || got.Reason != "LBRemedyFixed" || got.Count != 2 || !got.FirstTimestamp.Equal(&began) ||
		got.Source.Component != "lbremedy" {
		t.Errorf("got %+v", got)
	}
	if err := join.Client().CoreV1().Events(ns).Delete(ctx, e.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := w.PutEvent(ctx, e); err != nil {
		t.Fatal(err)
	}
	if got := read(); got.UID == uid || got.Message != "two" {
		t.Errorf("after it was forgotten: got %+v", got)
	}
	e.Namespace, e.InvolvedObject.Namespace = ns+"-gone", ns+"-gone"
	if err := w.PutEvent(ctx, e); !errors.Is(err, kube.ErrNotFound) {
		t.Errorf("in no namespace: got %v", err)
	}
	e.Name = "a?b"
	if err := w.PutEvent(ctx, e); !errors.Is(err, kube.ErrNotFound) {
		t.Errorf("under no name: got %v", err)
	}
}

func TestListAndWatchEvents(t *testing.T) {
	ctx := limited(t)
	j := cluster.Alone(t)
	ns := j.Namespace(t)
	c := open(t, j.Config)
	services := kube.Selection{Namespace: ns, Fields: "involvedObject.kind=Service"}

	const many = 260 // more than a page
	for i := range many {
		makeEvent(t, j, ns, fmt.Sprintf("e%d", i), "11111111-1111-1111-1111-111111111111", "text")
	}
	pod := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "pod"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: ns, Name: "p"},
	}
	if _, err := j.Client().CoreV1().Events(ns).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	names := map[string]bool{}
	version, err := c.ListEvents(ctx, services, func(e kube.Event) error {
		names[e.Name] = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != many || names["pod"] {
		t.Errorf("the list has %d Events, want %d", len(names), many)
	}
	now, err := c.EventsVersion(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if kube.Later(version, now) {
		t.Errorf("the list's version %s is later than the present one %s", version, now)
	}
	stop := errors.New("stop")
	if _, err := c.ListEvents(ctx, services, func(kube.Event) error { return stop }); err != stop {
		t.Errorf("the list ended with %v, want the reader's own error", err)
	}

	e := makeEvent(t, j, ns, "watched", "11111111-1111-1111-1111-111111111111", "again")
	e.Count = 2
	e.LastTimestamp = metav1.NewTime(e.LastTimestamp.Add(time.Minute))
	if _, err := j.Client().CoreV1().Events(ns).Update(ctx, e, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	at := metav1.NowMicro()
	if _, err := j.Client().EventsV1().Events(ns).Create(ctx, &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "modern"}, EventTime: at, Reason: "Other", Action: "Do", Type: "Normal", Note: "note",
		ReportingController: "example.com/controller", ReportingInstance: "one",
		Regarding: corev1.ObjectReference{Kind: "Service", Namespace: ns, Name: "web"},
		Series:    &eventsv1.EventSeries{Count: 7, LastObservedTime: metav1.NewMicroTime(at.Add(time.Second))},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := j.Client().CoreV1().Events(ns).Delete(ctx, "watched", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}

	type row struct {
		Kind, Name, Component, Message string
		Count                          int
		Later                          bool // Last is after First
	}
	var got []row
	last := version
	err = c.WatchEvents(ctx, services, version, time.Minute, func(ch kube.Change) error {
		if !kube.Later(ch.Event.ResourceVersion, last) {
			t.Errorf("version %s came after %s", ch.Event.ResourceVersion, last)
		}
		last = ch.Event.ResourceVersion
		if ch.Kind == kube.Bookmark {
			return nil
		}
		got = append(got, row{ch.Kind, ch.Event.Name, ch.Event.Component, ch.Event.Message, ch.Event.Count, ch.Event.Last.After(ch.Event.First)})
		if ch.Kind == kube.Deleted {
			return stop
		}
		return nil
	})
	if err != stop {
		t.Errorf("the watch ended with %v, want the reader's own error", err)
	}
	want := []row{
		{kube.Added, "watched", "service-controller", "again", 1, false},
		{kube.Modified, "watched", "service-controller", "again", 2, true},
		{kube.Added, "modern", "example.com/controller", "note", 7, true},
		{kube.Deleted, "watched", "service-controller", "again", 2, true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}

	if err := c.WatchEvents(ctx, services, last, time.Second, func(kube.Change) error { return nil }); err != nil {
		t.Errorf("a watch that the server ended returned %v, want nil", err)
	}
	j.Compact(t)
	if err := c.WatchEvents(ctx, services, version, time.Minute, func(kube.Change) error { return nil }); !errors.Is(err, kube.ErrGone) {
		t.Errorf("a watch from a version that was compacted returned %v, want ErrGone", err)
	}
}

type proxy struct {
	mu    sync.Mutex
	conns []net.Conn
}

func through(t testing.TB, config *rest.Config) (*rest.Config, *proxy) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p := &proxy{}
	target := strings.TrimPrefix(config.Host, "https://")
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", target)
			if err != nil {
				in.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, in, out)
			p.mu.Unlock()
			go io.Copy(out, in)
			go io.Copy(in, out)
		}
	}()
	c := rest.CopyConfig(config)
	c.Host = "https://" + l.Addr().String()
	return c, p
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

func TestWatchServiceThroughCuts(t *testing.T) {
	ctx := limited(t)
	j := cluster.Join(t)
	ns := j.Namespace(t)
	s := makeService(t, j, ns, "web")
	config, p := through(t, j.Config)
	c := open(t, config)
	admin := kube.NewWriter(open(t, j.Config))

	states := 0
	err := c.WatchService(ctx, ns, "web", "", func(s *corev1.Service) bool {
		states++
		if s.Annotations["step"] == "3" {
			return true
		}
		p.cut()
		next := fmt.Sprint(states)
		if _, err := admin.PatchService(ctx, ns, "web", s.ResourceVersion, kube.ServicePatch{Annotations: map[string]*string{"step": &next}}); err != nil {
			t.Errorf("write step %s: %v", next, err)
			return true
		}
		return false
	})
	if err != nil {
		t.Fatal(err)
	}
	if states != 4 {
		t.Errorf("%d states were seen, want 4", states)
	}

	if err := j.Client().CoreV1().Services(ns).Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// From an old version the watch contains the deletion.
	for _, version := range []string{s.ResourceVersion, ""} {
		err := c.WatchService(ctx, ns, "web", version, func(*corev1.Service) bool { return false })
		if !errors.Is(err, kube.ErrNotFound) {
			t.Errorf("the watch from version %q of a deleted Service ended with %v, want ErrNotFound", version, err)
		}
	}
}

func TestWatchServiceEndsWithItsContext(t *testing.T) {
	j := cluster.Join(t)
	ns := j.Namespace(t)
	makeService(t, j, ns, "web")
	c := open(t, j.Config)
	ctx, cancel := context.WithCancel(limited(t))
	err := c.WatchService(ctx, ns, "web", "", func(*corev1.Service) bool {
		cancel()
		return false
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the watch ended with %v, want the context's error", err)
	}
}

func TestWatchServiceFromAForgottenVersion(t *testing.T) {
	ctx := limited(t)
	j := cluster.Join(t)
	ns := j.Namespace(t)
	made := makeService(t, j, ns, "web")
	c := open(t, j.Config)
	err := c.WatchService(ctx, ns, "web", "1", func(s *corev1.Service) bool { return s.UID == made.UID })
	if err != nil {
		t.Error(err)
	}
}

func TestErrorsHaveKinds(t *testing.T) {
	ctx := limited(t)
	j := cluster.Join(t)
	ns := j.Namespace(t)
	makeService(t, j, ns, "web")
	admin := open(t, j.Config)
	reader := open(t, j.As(t, "kube-test-reader", []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"services"}, Verbs: []string{"get"}}}))
	stranger := rest.AnonymousClientConfig(j.Config)
	stranger.BearerToken = "s3cr3t-t0ken"
	nowhere := rest.CopyConfig(j.Config)
	nowhere.Host = "https://user:s3cr3t@127.0.0.1:1"
	bad := rest.AnonymousClientConfig(j.Config)
	bad.TLSClientConfig = rest.TLSClientConfig{}
	ended, cancel := context.WithCancel(ctx)
	cancel()

	get := func(ctx context.Context, c *kube.Cluster, namespace, name string) func() error {
		return func() error { _, err := c.Service(ctx, namespace, name); return err }
	}
	for name, tt := range map[string]struct {
		call func() error
		kind error
		text string
	}{
		"no such Service":  {get(ctx, admin, ns, "none"), kube.ErrNotFound, `get Service ` + ns + `/none: not found: services "none" not found`},
		"a path as a name": {get(ctx, admin, ns, "../nodes"), kube.ErrNotFound, `get Service: not found: no object can have the name "../nodes"`},
		"dots as a name":   {get(ctx, admin, ns, ".."), kube.ErrNotFound, "no object can have the name"},
		"a bad namespace":  {get(ctx, admin, "a/b", "x"), kube.ErrNotFound, "no object can have the namespace"},
		"no name":          {get(ctx, admin, ns, ""), kube.ErrNotFound, "no object can have the name"},
		"may get":          {get(ctx, reader, ns, "web"), nil, ""},
		"may not list": {func() error { _, err := reader.Services(ctx); return err }, kube.ErrDenied,
			`list Services: not allowed: services is forbidden: User "kube-test-reader" cannot list`},
		"may not watch": {func() error { return reader.WatchService(ctx, ns, "web", "1", nil) }, kube.ErrDenied, "watch"},
		"may not patch": {func() error {
			_, err := kube.NewWriter(reader).PatchService(ctx, ns, "web", "1", kube.ServicePatch{})
			return err
		}, kube.ErrDenied, "patch"},
		"unknown token":      {get(ctx, open(t, stranger), ns, "web"), kube.ErrDenied, "not allowed"},
		"no server":          {get(ctx, open(t, nowhere), ns, "web"), kube.ErrUnavailable, "connection refused"},
		"unknown authority":  {get(ctx, open(t, bad), ns, "web"), kube.ErrUnavailable, "certificate"},
		"an ended context":   {get(ended, admin, ns, "web"), context.Canceled, "get Service " + ns + "/web: context canceled"},
		"Events of nowhere":  {func() error { _, err := admin.Successes(ctx, "..", "x"); return err }, kube.ErrNotFound, "namespace"},
		"sets of nowhere":    {func() error { _, err := admin.DaemonSets(ctx, ""); return err }, kube.ErrNotFound, "namespace"},
		"a watch of nowhere": {func() error { return admin.WatchService(ctx, ns, "a/b", "", nil) }, kube.ErrNotFound, "no object can have"},
		"a patch of nowhere": {func() error {
			_, err := kube.NewWriter(admin).PatchStatus(ctx, ns, "a?b", "1", corev1.LoadBalancerStatus{})
			return err
		}, kube.ErrNotFound, "no object can have"},
		"a selection of nowhere": {func() error {
			_, err := admin.ListEvents(ctx, kube.Selection{Namespace: "a b"}, nil)
			return err
		}, kube.ErrNotFound, "namespace"},
		"a bad selector": {func() error {
			return admin.WatchEvents(ctx, kube.Selection{Fields: "nosuchfield=1"}, "1", time.Second, nil)
		}, kube.ErrInvalid, "watch Events: refused as invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			err := tt.call()
			if !errors.Is(err, tt.kind) {
				t.Fatalf("got %v, want the kind %v", err, tt.kind)
			}
			if err == nil {
				return
			}
			if !strings.Contains(err.Error(), tt.text) {
				t.Errorf("the error is %q, want it to hold %q", err, tt.text)
			}
			if strings.Contains(err.Error(), "s3cr3t") || strings.Contains(err.Error(), "https://") {
				t.Errorf("the error %q tells a secret or a URL", err)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	for name, config := range map[string]*rest.Config{
		"nothing":       nil,
		"a broken host": {Host: "https://user:s3cr3t@%%"},
		"a missing CA":  {Host: "https://127.0.0.1:1", TLSClientConfig: rest.TLSClientConfig{CAFile: "nowhere.crt"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := kube.New(config)
			if err == nil {
				t.Fatalf("New returned %v", c)
			}
			if strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("the error %q tells a secret", err)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	good := write("good", `{apiVersion: v1, kind: Config, current-context: a, users: [{name: u, user: {token: t}}],
clusters: [{name: c, cluster: {server: "https://one:6443"}}, {name: d, cluster: {server: "https://two:6443"}}],
contexts: [{name: a, context: {cluster: c, user: u}}, {name: b, context: {cluster: d, user: u}}]}`)
	unset := write("unset", `{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: "https://one:6443"}}], contexts: [{name: a, context: `+
		`{cluster: c}}]}`)
	empty := write("empty", `{apiVersion: v1, kind: Config}`)
	broken := write("broken", `{`)
	dangling := write("dangling", `{apiVersion: v1, kind: Config, current-context: a, clusters: [{name: c, cluster: {server: "https://one:6443"}}], `+
		`contexts: [{name: a, context: {cluster: x}}]}`)

	for name, tt := range map[string]struct {
		file, context, env string
		host, text         string
	}{
		"the current context":    {file: good, host: "https://one:6443"},
		"another context":        {file: good, context: "b", host: "https://two:6443"},
		"the environment":        {env: good, context: "b", host: "https://two:6443"},
		"a context that is not":  {file: good, context: "z", text: `the kubeconfig has no context "z": it has a, b`},
		"no current context":     {file: unset, text: "the kubeconfig has no current context: name one of a with --context"},
		"no cluster in the file": {file: empty, text: "names no cluster"},
		"no YAML":                {file: broken, text: "read the kubeconfig"},
		"a dangling context":     {file: dangling, text: "read the kubeconfig"},
		"no such file":           {file: filepath.Join(dir, "none"), text: "there is no kubeconfig " + filepath.Join(dir, "none")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBECONFIG", tt.env)
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			config, err := kube.Load(tt.file, tt.context)
			if tt.text != "" {
				if err == nil || !strings.Contains(err.Error(), tt.text) {
					t.Fatalf("got %v, want an error with %q", err, tt.text)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if config.Host != tt.host {
				t.Errorf("the host is %s, want %s", config.Host, tt.host)
			}
		})
	}
	t.Run("a pod without a token", func(t *testing.T) {
		t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
		t.Setenv("KUBERNETES_SERVICE_PORT", "443")
		if _, err := kube.Load("", ""); err == nil || !strings.Contains(err.Error(), "service account") {
			t.Errorf("got %v, want an error about the service account", err)
		}
	})
}

func TestLater(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"2", "1", true},
		{"1", "2", false},
		{"1", "1", false},
		{"10", "9", true},
		{"9", "10", false},
		{"100000000000000000000", "99999999999999999999", true},
		{"1", "", true},
		{"", "1", false},
		{"", "", false},
		{"x", "1", false},
		{"1", "x", true},
		{"01", "1", false},
		{"-1", "1", false},
	} {
		if got := kube.Later(tt.a, tt.b); got != tt.want {
			t.Errorf("Later(%q, %q) = %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
}
