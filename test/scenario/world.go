package scenario

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httputil"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/infra/ram"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/policy/policyfile"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/identity"
	"github.com/lbremedy/lbremedy/test/kubernetes"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

const clusterID = "c-scenario"

type world struct {
	script script
	class  *remedy.Remedy
	kube   *cluster.Cluster
	cloud  *sim.Cloud
	env    *engine.Env
	hands  *hand.Clients
	event  engine.Event
	svc    *corev1.Service
	calls  *recorder
	plan   remedy.Policy

	mu    sync.Mutex
	clock time.Duration // how far the run's clock is ahead
}

func build(t *testing.T, on *ground, r *remedy.Remedy, s script) *world {
	t.Helper()
	w := &world{script: s, kube: on.cluster}
	w.svc = w.createService(t, on)
	for _, doc := range strings.Split(w.fill(s.parts["cluster"]), "\n---\n") {
		w.createObject(t, on, doc)
	}
	start, err := sim.ParseWorld([]byte(w.fill(s.parts["cloud"])))
	if err != nil {
		t.Fatal(err)
	}
	start.Cluster.ID = clusterID
	if s.runs != "" {
		addons := maps.Clone(start.Cluster.Addons)
		if addons == nil {
			addons = map[string]string{}
		}
		addons[ccm.DaemonSet], start.Cluster.Addons = s.runs, addons
	}
	if len(start.Instances) == 0 {
		start.Instances = []sim.Instance{{ID: nodeInstance}}
	}
	w.cloud = sim.New(t, start)
	for _, action := range strings.Fields(s.parts["fault"]) {
		product, name, ok := strings.Cut(action, ":")
		if !ok {
			t.Fatalf("fault %q is not product:Action", action)
		}
		w.cloud.Fault(sim.Fault{Product: product, Action: name, Caller: r.Class, Status: http.StatusForbidden, Code: "NoPermission",
			Message: "You are not authorized to do this action. You should be authorized by RAM."})
	}

	w.enter(t, on, r)
	w.env.Stream = on.stream(t)
	w.claim(t)
	w.event = w.newEvent(t)
	w.wait(t)
	return w
}

// enter gives the world the class's own rights in the cluster and the account. The caller sets the stream.
func (w *world) enter(t *testing.T, on *ground, r *remedy.Remedy) {
	t.Helper()
	w.class, w.calls = r, &recorder{}
	rights, err := w.script.rights(r)
	if err != nil {
		t.Fatal(err)
	}
	config := on.config(t, r.Class, rights)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &tap{next, w.calls} })
	reads, err := kube.New(config)
	if err != nil {
		t.Fatal(err)
	}
	policyFile := w.script.parts["policy"]
	if policyFile == "" {
		policyFile = "mode: fix"
	}
	v, err := policyfile.Parse([]byte(policyFile), []string{r.Class})
	if err != nil {
		t.Fatal(err)
	}
	w.plan = v.Policy
	account, accountWriter := w.client(t, r.Class, rights)
	w.hands = &hand.Clients{Kube: reads, KubeWriter: kube.NewWriter(reads), Cloud: account, CloudWriter: accountWriter, Decode: w.decode}
	w.env = &engine.Env{
		Cluster: clusterID, Kube: reads, Hand: wired(w.hands),
		Policy: func(context.Context) (remedy.Policy, error) { return w.plan, nil },
		Decode: w.decode, Who: "scenario", Bound: time.Minute, Watch: 10 * time.Second, Now: w.now,
	}
}

func wired(of *hand.Clients) func(*remedy.Remedy) hand.Hand {
	return func(r *remedy.Remedy) hand.Hand {
		h, err := remote(of, clusterID, r)
		if err != nil {
			panic(err)
		}
		return h
	}
}

// decode decodes a step; a test may have replaced the class's step of that kind.
func (w *world) decode(kind string, data []byte) (remedy.Step, error) {
	made, err := step.Decode(kind, data)
	for _, s := range w.class.Steps {
		if as, ok := s.(interface{ as(remedy.Step) remedy.Step }); ok && err == nil && s.Kind() == kind {
			return as.as(made), nil
		}
	}
	return made, err
}

func (w *world) claim(t *testing.T) {
	t.Helper()
	for line := range strings.Lines(w.fill(w.script.parts["claims"])) {
		var key string
		var n int
		if _, err := fmt.Sscan(line, &key, &n); err != nil {
			t.Fatalf("section claims: %q is not a key and number: %v", line, err)
		}
		for i := range n {
			if ok, err := control.Claim(t.Context(), w.env.Stream, false, key, n, fmt.Sprintf("other-%d", i), time.Hour); err != nil || !ok {
				t.Fatalf("section claims: %s: %t, %v", key, ok, err)
			}
		}
	}
}

// The node that all scenarios have, and its ECS instance.
const (
	nodeName     = "node-1"
	nodeInstance = "i-scenario"
)

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.clock)
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock += d
}

func (w *world) client(t *testing.T, caller string, rights identity.Rights) (*cloud.Reader, *cloud.Writer) {
	t.Helper()
	account, writer, err := rights.Cloud(w.cloud, caller, clusterID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(account.Close)
	return account, writer
}

// A ground has the shared parts of a class's worlds, which are rebuilt: starting NATS for each would take longer than everything else.
type ground struct {
	cluster *cluster.Cluster
	url     string // of NATS

	who     string // user of the last granted rights
	granted []rbacv1.PolicyRule
	acts    *rest.Config // config of that user

	furnished map[string]bool // existing namespaces, and the node
}

func newGround(t *testing.T, class string) *ground {
	t.Helper()
	server := nats.Start(t, embedded.Options{})
	admin := nats.Connect(t, stream.Config{URL: server.URL()})
	if _, err := admin.Setup(t.Context(), []string{class}, stream.Settings{Clusters: []string{clusterID}}); err != nil {
		t.Fatal(err)
	}
	on := &ground{cluster: cluster.Alone(t), url: server.URL(), furnished: map[string]bool{}}
	t.Cleanup(func() { clean(t, on.cluster, "shop") })
	return on
}

func (g *ground) furnish(t *testing.T, namespace string) {
	t.Helper()
	ctx, client := t.Context(), g.cluster.Client()
	if !g.furnished[namespace] {
		create(t, ctx, client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		g.furnished[namespace] = true
	}
	if g.furnished[nodeName] {
		return
	}
	create(t, ctx, client, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}, Spec: corev1.NodeSpec{ProviderID: "cn-hangzhou." + nodeInstance}})
	node, err := client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if _, err := client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	g.furnished[nodeName] = true
}

// config returns a copy of a config with these rights in the cluster. A class's worlds have the same rights, which are granted once.
func (g *ground) config(t *testing.T, who string, rights identity.Rights) *rest.Config {
	t.Helper()
	if g.acts == nil || g.who != who || !equality.Semantic.DeepEqual(g.granted, rights.Rules) {
		acts, err := rights.Engine(t.Context(), g.cluster, who)
		if err != nil {
			t.Fatal(err)
		}
		g.who, g.granted, g.acts = who, rights.Rules, acts
	}
	return rest.CopyConfig(g.acts)
}

func (g *ground) stream(t *testing.T) *stream.Stream {
	t.Helper()
	nats.Empty(t, g.url)
	return nats.Connect(t, stream.Config{URL: g.url})
}

func (w *world) fill(text string) string {
	text = ago.ReplaceAllStringFunc(text, func(s string) string {
		d, err := time.ParseDuration(ago.FindStringSubmatch(s)[1])
		if err != nil {
			return s
		}
		return time.Now().Add(-d).UTC().Format(time.RFC3339)
	})
	return strings.NewReplacer("${uid}", string(w.svc.UID), "${name}", ccm.DefaultName(w.svc),
		"${namespace}", w.svc.Namespace, "${cluster}", clusterID).Replace(text)
}

var ago = regexp.MustCompile(`\$\{(\w+) ago\}`)

var timestamp = regexp.MustCompile(`\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z`)

var requestID = regexp.MustCompile(`\[request [0-9A-F-]{36}\]`)

var applicationID = regexp.MustCompile(`\bapplication [0-9a-f-]{36}\b`)

var caseName = regexp.MustCompile(`\b[0-9a-f]{8}-\d{8}T\d{6}\b`)

// unfill reverses fill for reports; times become ${time}, case IDs ${case}, and the simulator's numbers ${request} or ${application}.
func (w *world) unfill(text string) string {
	text = timestamp.ReplaceAllLiteralString(text, "${time}")
	text = caseName.ReplaceAllLiteralString(text, "${case}")
	text = requestID.ReplaceAllLiteralString(text, "[request ${request}]")
	text = applicationID.ReplaceAllLiteralString(text, "application ${application}")
	return strings.NewReplacer(string(w.svc.UID), "${uid}", ccm.DefaultName(w.svc), "${name}").Replace(text)
}

func (w *world) createService(t *testing.T, on *ground) *corev1.Service {
	t.Helper()
	ctx, client := t.Context(), w.kube.Client()
	var svc corev1.Service
	text := strings.ReplaceAll(w.script.parts["service"], "${huge}", strings.Repeat("x y;$(id),z:'", 16<<10))
	if err := yaml.UnmarshalStrict([]byte(text), &svc); err != nil {
		t.Fatalf("section service: %v", err)
	}
	svc.Namespace = cmp.Or(svc.Namespace, "shop")
	svc.Name = cmp.Or(svc.Name, "web")
	if svc.Spec.Type == "" {
		svc.Spec.Type = corev1.ServiceTypeLoadBalancer
	}
	if len(svc.Spec.Ports) == 0 {
		svc.Spec.Ports = []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}
	}
	deleting := svc.DeletionTimestamp != nil
	svc.DeletionTimestamp = nil
	clean(t, w.kube, svc.Namespace)
	on.furnish(t, svc.Namespace)
	// The controller writes the ID with the status. Without the hash label beside it, a person has written it.
	labels := maps.Clone(svc.Labels)
	if svc.Labels[ccm.HashLabel] != "" {
		delete(svc.Labels, ccm.BalancerLabel)
	}
	status := svc.Status
	made, err := client.CoreV1().Services(svc.Namespace).Create(ctx, &svc, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made.Status, made.Labels = status, labels
	if made, err = client.CoreV1().Services(svc.Namespace).UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if deleting {
		if err := client.CoreV1().Services(svc.Namespace).Delete(ctx, made.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return made
}

// clean deletes objects of previous scenarios: all Services except the API server's, and the DaemonSets of kube-system.
func clean(t *testing.T, c *cluster.Cluster, namespace string) {
	t.Helper()
	ctx, client := context.WithoutCancel(t.Context()), c.Client()
	all, err := client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, svc := range all.Items {
		if svc.Namespace == "default" && svc.Name == "kubernetes" {
			continue
		}
		if len(svc.Finalizers) > 0 {
			patch := []byte(`{"metadata":{"finalizers":null}}`)
			if _, err := client.CoreV1().Services(svc.Namespace).Patch(ctx, svc.Name, mergePatch, patch, metav1.PatchOptions{}); err != nil &&
				!apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
		}
		if err := client.CoreV1().Services(svc.Namespace).Delete(ctx, svc.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	if err := client.AppsV1().DaemonSets("kube-system").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().Events(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
}

const mergePatch = "application/merge-patch+json"

var kinds = map[string]schema.GroupVersionResource{
	"Service":        corev1.SchemeGroupVersion.WithResource("services"),
	"Node":           corev1.SchemeGroupVersion.WithResource("nodes"),
	"Pod":            corev1.SchemeGroupVersion.WithResource("pods"),
	"Event":          corev1.SchemeGroupVersion.WithResource("events"),
	"ServiceAccount": corev1.SchemeGroupVersion.WithResource("serviceaccounts"),
	"ConfigMap":      corev1.SchemeGroupVersion.WithResource("configmaps"),
	"EndpointSlice":  discoveryv1.SchemeGroupVersion.WithResource("endpointslices"),
	"DaemonSet":      appsv1.SchemeGroupVersion.WithResource("daemonsets"),
	"Deployment":     appsv1.SchemeGroupVersion.WithResource("deployments"),
	"ReplicaSet":     appsv1.SchemeGroupVersion.WithResource("replicasets"),
	"StatefulSet":    appsv1.SchemeGroupVersion.WithResource("statefulsets"),

	"ValidatingWebhookConfiguration": admissionv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations"),
	"MutatingWebhookConfiguration":   admissionv1.SchemeGroupVersion.WithResource("mutatingwebhookconfigurations"),
}

func (w *world) createObject(t *testing.T, on *ground, doc string) {
	t.Helper()
	if strings.TrimSpace(doc) == "" {
		return
	}
	var object unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(doc), &object.Object); err != nil {
		t.Fatalf("section cluster: %v", err)
	}
	if object.GetKind() == "ClusterRole" {
		w.permit(t, object)
		return
	}
	kind, ok := kinds[object.GetKind()]
	if !ok {
		t.Fatalf("section cluster: kind %q is not known to scenarios", object.GetKind())
	}
	if object.GetKind() == "Event" {
		w.about(t, object.Object)
	}
	if object.GetKind() == "DaemonSet" && object.GetName() == ccm.DaemonSet && w.script.runs != "" {
		w.upgrade(t, &object)
	}
	ctx, client := t.Context(), w.kube.Dynamic().Resource(kind).Namespace(object.GetNamespace())
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	// It replaces that of the previous law, and a scenario's own node-1 replaces the common one.
	if object.GetKind() == "Node" && object.GetName() == nodeName {
		t.Cleanup(func() { on.furnished[nodeName] = false })
	}
	if err := client.Delete(ctx, object.GetName(), now); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	made, err := client.Create(ctx, &object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Fatalf("section cluster: %v", err)
	}
	t.Cleanup(func() {
		if err := client.Delete(context.WithoutCancel(ctx), object.GetName(), now); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	status, ok := object.Object["status"]
	if !ok {
		return
	}
	made.Object["status"] = status
	if _, err := client.UpdateStatus(ctx, made, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
		t.Fatalf("section cluster: %v", err)
	}
}

// permit binds the controller's ClusterRole to its account until the end of the scenario, and waits until the API server has seen it.
func (w *world) permit(t *testing.T, object unstructured.Unstructured) {
	t.Helper()
	var role rbacv1.ClusterRole
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &role, true); err != nil {
		t.Fatalf("section cluster: %v", err)
	}
	if role.Name != ccm.ClusterRole {
		t.Fatalf("section cluster: the ClusterRole is %s, and not that of the controller, %s", role.Name, ccm.ClusterRole)
	}
	if _, err := w.kube.Impersonate(t.Context(), ccm.Account, role.Rules); err != nil {
		t.Fatalf("section cluster: %v", err)
	}
	t.Cleanup(func() {
		if _, err := w.kube.Impersonate(context.WithoutCancel(t.Context()), ccm.Account, nil); err != nil {
			t.Error(err)
		}
	})
}

var tagged = regexp.MustCompile(`:v\d[^@]*$`)

func (w *world) upgrade(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	at := []string{"spec", "template", "spec", "containers"}
	containers, _, err := unstructured.NestedSlice(object.Object, at...)
	if err != nil {
		t.Fatalf("section cluster: %v", err)
	}
	for _, c := range containers {
		if c, ok := c.(map[string]any); ok {
			c["image"] = tagged.ReplaceAllLiteralString(fmt.Sprint(c["image"]), ":"+w.script.runs)
		}
	}
	if err := unstructured.SetNestedSlice(object.Object, containers, at...); err != nil {
		t.Fatalf("section cluster: %v", err)
	}
}

func (w *world) about(t *testing.T, event map[string]any) {
	t.Helper()
	ref, ok := event["involvedObject"].(map[string]any)
	if !ok || ref["kind"] != "Service" || ref["uid"] != nil {
		return
	}
	svc, err := w.kube.Client().CoreV1().Services(fmt.Sprint(ref["namespace"])).Get(t.Context(), fmt.Sprint(ref["name"]), metav1.GetOptions{})
	if err != nil {
		t.Fatalf("section cluster: %v", err)
	}
	ref["uid"] = string(svc.UID)
}

func create(t *testing.T, ctx context.Context, c *kubernetes.Client, object any) {
	t.Helper()
	var err error
	opts := metav1.CreateOptions{}
	switch o := object.(type) {
	case *corev1.Namespace:
		_, err = c.CoreV1().Namespaces().Create(ctx, o, opts)
	case *corev1.Node:
		_, err = c.CoreV1().Nodes().Create(ctx, o, opts)
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

func (w *world) newEvent(t *testing.T) engine.Event {
	t.Helper()
	e, err := w.script.event()
	if err != nil {
		t.Fatalf("section event: %v", err)
	}
	ago, err := time.ParseDuration(e.Ago)
	if err != nil {
		t.Fatalf("section event: %v", err)
	}
	at := time.Now().Add(-ago).Truncate(time.Second)
	about := event.Service{Namespace: w.svc.Namespace, Name: w.svc.Name, UID: string(w.svc.UID)}
	if name, ok := strings.CutPrefix(e.About, event.KindNode+" "); ok {
		node, err := w.kube.Client().CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		about = event.Service{Kind: event.KindNode, Name: name, UID: string(node.UID)}
	} else if e.About == event.KindCluster {
		about = event.Thing(clusterID, event.KindCluster, clusterID)
	}
	return engine.Event{ID: "event-1.1.100", Failure: event.Failure{
		Cluster: clusterID, Class: w.class.Class, Reason: e.Reason, Type: e.Type, Component: e.Component,
		Message: strings.TrimSpace(w.fill(w.script.parts["message"])),
		Service: about,
		Event:   event.Reference{Name: w.svc.Name + ".1", UID: "11111111-1111-1111-1111-111111111111", ResourceVersion: "100"},
		Count:   1, First: at, Last: at,
	}}
}

// wait makes the case wait as long as the scenario says, and forgets the calls of that time.
func (w *world) wait(t *testing.T) {
	t.Helper()
	e, err := w.script.event()
	if err != nil {
		t.Fatalf("section event: %v", err)
	}
	long, err := time.ParseDuration(e.Waited)
	if err != nil {
		t.Fatalf("section event: %v", err)
	}
	for w.clock < long {
		rec, err := engine.Run(t.Context(), w.env, w.class, w.event)
		if err != nil || rec.Result != event.Waiting || len(rec.Steps) > 0 {
			t.Fatalf("after %s the case does not wait: it ended as %s, %v", w.clock, rec.Result, err)
		}
		w.advance(rec.Wait)
	}
	w.cloud.ResetCalls()
	w.calls.mu.Lock()
	defer w.calls.mu.Unlock()
	w.calls.made = nil
}

// run answers the event, repeatedly while the result is waiting and goOn allows it, and advances the clock by each wait.
func (w *world) run(t *testing.T, goOn func(event.Record) bool) (event.Record, error) {
	t.Helper()
	for range 20 {
		rec, err := engine.Run(t.Context(), w.env, w.class, w.event)
		if err != nil || rec.Result.Settled() || !goOn(rec) {
			return rec, err
		}
		w.advance(rec.Wait)
	}
	t.Fatal("the case still waits after 20 runs")
	return event.Record{}, nil
}

func (w *world) observe(t *testing.T) {
	t.Helper()
	w.plan.Mode, w.plan.Classes = remedy.Observe, nil
}

// undoEnv returns the environment of a person who undoes a fix: the class's rights and those that the steps' undo needs. The
// admission policy does not apply to people.
func (w *world) undoEnv(t *testing.T) (*engine.Env, *hand.Clients) {
	t.Helper()
	env, hands := *w.env, *w.hands
	rights, err := w.script.rights(w.class)
	if err != nil {
		t.Fatal(err)
	}
	grants := w.class.Grants()
	for _, s := range w.class.Steps {
		if back, ok := s.Undo(); ok {
			grants = append(grants, back.Grants()...)
		}
	}
	if rights.Policy, err = ram.Policy(grants); err != nil {
		t.Fatal(err)
	}
	config, err := w.kube.Impersonate(t.Context(), "operator", rights.Rules)
	if err != nil {
		t.Fatal(err)
	}
	if env.Kube, err = kube.New(config); err != nil {
		t.Fatal(err)
	}
	hands.Kube, hands.KubeWriter, env.Hand = env.Kube, kube.NewWriter(env.Kube), wired(&hands)
	hands.Cloud, hands.CloudWriter = w.client(t, w.class.Class+"-undo", rights)
	return &env, &hands
}

// controllerAfterWrite starts the controller once the Service has our mark, so it syncs the plan's result rather than the scenario's state.
func (w *world) controllerAfterWrite(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	t.Cleanup(func() { cancel(); wait.Wait() })
	opts := w.controller(t)
	wait.Go(func() {
		watch, err := w.kube.Client().CoreV1().Services(w.svc.Namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + w.svc.Name})
		if err != nil {
			return
		}
		defer watch.Stop()
		for change := range watch.ResultChan() {
			if svc, ok := change.Object.(*corev1.Service); ok && svc.Annotations[ccm.Resync] != "" {
				break
			}
		}
		if ctx.Err() == nil {
			controller.Run(ctx, opts)
		}
	})
}

func (w *world) routes(t *testing.T) {
	t.Helper()
	if err := controller.SyncRoutes(t.Context(), w.controller(t)); err != nil {
		t.Fatal(err)
	}
}

func (w *world) controller(t *testing.T) controller.Options {
	t.Helper()
	world := w.cloud.Snapshot()
	opts := controller.Options{
		Kube: rest.CopyConfig(w.kube.Config), Cloud: w.cloud.Addr(), Credentials: w.cloud.Admin(),
		Region: world.Region, ClusterID: clusterID, VPC: world.Cluster.VPC, Version: w.release(t),
	}
	if strings.HasPrefix(world.Cluster.Network, "terway") {
		opts.Backends = "eni"
	}
	for _, id := range world.Cluster.VSwitches {
		for _, v := range world.VSwitches {
			if v.ID == id {
				opts.VSwitches = append(opts.VSwitches, v.Zone+":"+v.ID)
			}
		}
	}
	return opts
}

// release returns the release of the controller that the scenario's cluster names, where the product looks for it; empty if none.
func (w *world) release(t *testing.T) string {
	t.Helper()
	reads, err := kube.New(w.kube.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctl, err := (&ccm.View{Kube: reads}).Deployed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if ctl.Version == (ccm.Version{}) {
		var ok bool
		if ctl.Version, ok = ccm.ParseVersion(w.cloud.Snapshot().Cluster.Addons[ccm.DaemonSet]); !ok {
			return ""
		}
	}
	return ctl.Version.String()
}

type snapshot struct {
	Service corev1.Service
	Pods    []string // namespace and name
	World   sim.World
}

func (w *world) snapshot(t *testing.T) snapshot {
	t.Helper()
	svc, err := w.kube.Client().CoreV1().Services(w.svc.Namespace).Get(t.Context(), w.svc.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		svc = &corev1.Service{} // its deletion is complete
	} else if err != nil {
		t.Fatal(err)
	}
	svc.ManagedFields = nil
	pods, err := w.kube.Client().CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	world := *w.cloud.Snapshot()
	world.Callers = nil // created by the test
	s := snapshot{Service: *svc, World: world}
	for _, p := range pods.Items {
		s.Pods = append(s.Pods, p.Namespace+"/"+p.Name)
	}
	return s
}

func (s snapshot) allow(steps []event.StepRecord) snapshot {
	s = s.clone()
	for _, rec := range steps {
		made, err := step.Decode(rec.Kind, rec.Step)
		if err != nil {
			panic(err)
		}
		switch st := made.(type) {
		case step.TagLB:
			s.dropTag(st.LB, st.Key)
		case step.UntagLB:
			s.dropTag(st.LB, st.Key)
		case step.Protect:
			s.dropProtection(st.LB)
		case step.Unprotect:
			s.dropProtection(st.LB)
		case step.MoveListener:
			for _, l := range s.listeners(st.LB, st.Port, st.Protocol) {
				l.VGroup = ""
			}
		case step.DeleteListener:
			s.dropListener(st.LB, st.Listener.Port, st.Listener.Protocol)
		case step.CreateListener:
			s.dropListener(st.LB, st.Listener.Port, st.Listener.Protocol)
		case step.PolicyVersion:
			for i := range s.World.Policies {
				if s.World.Policies[i].Name == st.Policy {
					s.World.Policies[i].Versions = nil
				}
			}
		case step.ClearStatus:
			s.Service.Status.LoadBalancer.Ingress = nil
		case step.ApplyQuota:
			s.World.QuotaApplications = slices.DeleteFunc(s.World.QuotaApplications, func(a sim.QuotaApplication) bool {
				return a.Code == st.Code && !slices.Contains(st.Known, a.ID)
			})
		case step.TargetPorts:
			for _, p := range st.Ports {
				for i := range s.Service.Spec.Ports {
					if of := &s.Service.Spec.Ports[i]; of.Port == p.Port && of.Protocol == p.Protocol {
						of.TargetPort = intstr.IntOrString{}
					}
				}
			}
		case step.Evict:
			s.Pods = slices.DeleteFunc(s.Pods, func(name string) bool { return name == st.Namespace+"/"+st.Pod })
		}
		if keyed, ok := made.(remedy.Keyed); ok {
			for _, k := range keyed.Keys() {
				delete(s.Service.Annotations, k)
			}
		}
	}
	if len(steps) > 0 {
		delete(s.Service.Annotations, ccm.Resync)
		s.Service.ResourceVersion = ""
	}
	if len(s.Service.Annotations) == 0 {
		s.Service.Annotations = nil
	}
	if len(s.Pods) == 0 {
		s.Pods = nil
	}
	if len(s.World.QuotaApplications) == 0 {
		s.World.QuotaApplications = nil
	}
	return s
}

func (s snapshot) listeners(lb string, port int, protocol string) (found []*sim.Listener) {
	for i := range s.World.LoadBalancers {
		if s.World.LoadBalancers[i].ID != lb {
			continue
		}
		for n := range s.World.LoadBalancers[i].Listeners {
			if l := &s.World.LoadBalancers[i].Listeners[n]; l.Port == port && l.Protocol == protocol {
				found = append(found, l)
			}
		}
	}
	return found
}

// likeListeners removes the listeners' settings that the same listener of another snapshot does not state. A recreated listener
// states values that were defaults before, and the cloud shows both alike.
func (s snapshot) likeListeners(other snapshot) {
	for i := range s.World.LoadBalancers {
		lb := &s.World.LoadBalancers[i]
		for n := range lb.Listeners {
			l := &lb.Listeners[n]
			for _, o := range other.listeners(lb.ID, l.Port, l.Protocol) {
				maps.DeleteFunc(l.Config, func(k, _ string) bool { _, stated := o.Config[k]; return !stated })
				if len(l.Config) == 0 {
					l.Config = o.Config
				}
			}
		}
	}
}

func (s snapshot) dropTag(lb, key string) {
	drop := func(tags map[string]string) map[string]string {
		if delete(tags, key); len(tags) == 0 {
			return nil
		}
		return tags
	}
	for i := range s.World.LoadBalancers {
		if b := &s.World.LoadBalancers[i]; b.ID == lb {
			b.Tags = drop(b.Tags)
		}
	}
	for i := range s.World.NLBs {
		if b := &s.World.NLBs[i]; b.ID == lb {
			b.Tags = drop(b.Tags)
		}
	}
}

func (s snapshot) dropProtection(lb string) {
	for i := range s.World.LoadBalancers {
		if b := &s.World.LoadBalancers[i]; b.ID == lb {
			b.DeleteProtection = false
		}
	}
	for i := range s.World.NLBs {
		if b := &s.World.NLBs[i]; b.ID == lb {
			b.DeletionProtection, b.DeletionReason = false, ""
		}
	}
}

func (s snapshot) dropListener(lb string, port int, protocol string) {
	for i := range s.World.LoadBalancers {
		if b := &s.World.LoadBalancers[i]; b.ID == lb {
			b.Listeners = slices.DeleteFunc(b.Listeners, func(l sim.Listener) bool { return l.Port == port && l.Protocol == protocol })
			if len(b.Listeners) == 0 {
				b.Listeners = nil
			}
		}
	}
}

// settled returns the snapshot without what undo leaves on purpose: the resync annotation, and policy versions that are not the default.
func (s snapshot) settled() snapshot {
	s = s.clone()
	delete(s.Service.Annotations, ccm.Resync)
	if len(s.Service.Annotations) == 0 {
		s.Service.Annotations = nil
	}
	s.Service.ResourceVersion = ""
	for i := range s.World.Policies {
		p := &s.World.Policies[i]
		p.Versions = slices.DeleteFunc(p.Versions, func(v sim.PolicyVersion) bool { return !v.Default })
	}
	return s
}

func (s snapshot) clone() snapshot {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	var out snapshot
	if err := json.Unmarshal(data, &out); err != nil {
		panic(err)
	}
	return out
}

func (w *world) reads() []string {
	used := map[string]bool{}
	for _, call := range w.cloud.CallsOf(w.class.Class) {
		used[call.Product+":"+call.Action] = true
	}
	w.calls.mu.Lock()
	defer w.calls.mu.Unlock()
	maps.Copy(used, w.calls.made)
	return slices.Sorted(maps.Keys(used))
}

func (w *world) record(used *usage, p phase) {
	for _, call := range w.reads() {
		used.add(p, w.script, call)
	}
}

func (w *world) refuse(call string) (heal func()) {
	if product, action, ok := strings.Cut(call, ":"); ok {
		return w.cloud.Fault(sim.Fault{Product: product, Action: action, Caller: w.class.Class, Status: http.StatusForbidden, Code: "NoPermission",
			Message: "You are not authorized to do this action. You should be authorized by RAM."})
	}
	w.calls.mu.Lock()
	w.calls.refused = call
	w.calls.mu.Unlock()
	return func() {
		w.calls.mu.Lock()
		w.calls.refused = ""
		w.calls.mu.Unlock()
	}
}

type recorder struct {
	mu      sync.Mutex
	made    map[string]bool
	refused string
	answers map[string][]byte // answers to reads, if kept; by request
}

// keep caches the answers to reads until forget, for a world that is looked at a thousand times.
func (r *recorder) keep() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers = map[string][]byte{}
}

func (r *recorder) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers = nil
}

type tap struct {
	next http.RoundTripper
	rec  *recorder
}

// RoundTrip records the request as its RBAC verb and resource.
func (t *tap) RoundTrip(r *http.Request) (*http.Response, error) {
	call := verb(r)
	t.rec.mu.Lock()
	if t.rec.made == nil {
		t.rec.made = map[string]bool{}
	}
	t.rec.made[call] = true
	refused, kept := t.rec.refused == call, t.rec.answers != nil
	answer := t.rec.answers[r.URL.String()]
	t.rec.mu.Unlock()
	if refused {
		return nil, fmt.Errorf("%s: refused by the test", call)
	}
	read := strings.HasPrefix(call, "get ") || strings.HasPrefix(call, "list ")
	if answer != nil && read {
		return http.ReadResponse(bufio.NewReader(bytes.NewReader(answer)), r)
	}
	response, err := t.next.RoundTrip(r)
	if err != nil || !kept || !read || response.StatusCode != http.StatusOK {
		return response, err
	}
	if answer, err = httputil.DumpResponse(response, true); err != nil {
		return nil, err
	}
	t.rec.mu.Lock()
	defer t.rec.mu.Unlock()
	if t.rec.answers != nil {
		t.rec.answers[r.URL.String()] = answer
	}
	return response, nil
}

func verb(r *http.Request) string {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	group := ""
	if path[0] == "apis" {
		group = "." + path[1]
		path = path[3:]
	} else {
		path = path[2:]
	}
	if path[0] == "namespaces" && len(path) > 2 {
		path = path[2:]
	}
	resource, name := path[0], len(path) > 1
	if len(path) > 2 {
		resource += "/" + path[2]
	}
	switch {
	case r.Method == http.MethodPatch:
		return "patch " + resource + group
	case r.Method == http.MethodPost:
		return "create " + resource + group
	case r.URL.Query().Get("watch") != "":
		return "watch " + resource + group
	case name:
		return "get " + resource + group
	}
	return "list " + resource + group
}
