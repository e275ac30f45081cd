package identity_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"

	"github.com/lbremedy/lbremedy/functions"
	checks "github.com/lbremedy/lbremedy/functions/doctor"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/identity"
	"github.com/lbremedy/lbremedy/test/kubernetes"
)

// wide are RBAC rules that allow everything that the admission policy is to reject.
var wide = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"services", "services/status"}, Verbs: []string{"*"}}}

type change struct {
	name   string
	status bool // of the status subresource
	patch  string
	field  remedy.Field // field that allows a class to make it; empty: none does
	says   string       // end of the rejection
}

var changes = []change{
	{name: "mark", patch: `{"metadata":{"annotations":{"lbremedy.io/resync":"1"}}}`, field: remedy.MarkField, says: "change the annotation lbremedy.io/resync"},
	{name: "remove the mark", patch: `{"metadata":{"annotations":{"lbremedy.io/resync":null}}}`, says: "change the annotation lbremedy.io/resync"},
	{name: "other annotation", patch: `{"metadata":{"annotations":{"example.com/other":"2"}}}`, says: "change the annotation example.com/other"},
	{name: "new annotation", patch: `{"metadata":{"annotations":{"example.com/new":"2"}}}`, says: "change the annotation example.com/new"},
	{name: "remove an annotation", patch: `{"metadata":{"annotations":{"example.com/other":null}}}`, says: "change the annotation example.com/other"},
	{name: "remove all annotations", patch: `{"metadata":{"annotations":null}}`, says: "change the annotation "},
	{name: "label", patch: `{"metadata":{"labels":{"app":"other"}}}`, says: "change metadata.labels"},
	{name: "new label", patch: `{"metadata":{"labels":{"new":"1"}}}`, says: "change metadata.labels"},
	{name: "remove labels", patch: `{"metadata":{"labels":null}}`, says: "change metadata.labels"},
	{name: "finalizer", patch: `{"metadata":{"finalizers":["example.com/a"]}}`, says: "change metadata.finalizers"},
	{name: "remove finalizers", patch: `{"metadata":{"finalizers":null}}`, says: "change metadata.finalizers"},
	{name: "owner", patch: `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"b"}]}}`, says: "change metadata.ownerReferences"},
	{name: "selector", patch: `{"spec":{"selector":{"app":"other"}}}`, says: "change spec.selector"},
	{name: "traffic policy", patch: `{"spec":{"externalTrafficPolicy":"Local"}}`, says: "change spec."},
	{name: "type", patch: `{"spec":{"type":"ClusterIP"}}`, says: "change spec."},
	{name: "source ranges", patch: `{"spec":{"loadBalancerSourceRanges":["10.0.0.0/8"]}}`, says: "change spec.loadBalancerSourceRanges"},
	{name: "target port", patch: `{"spec":{"ports":[{"name":"a","port":80,"protocol":"TCP","targetPort":8080,"nodePort":31980},{"name":"b","port":443,` +
		`"protocol":"TCP","targetPort":"tls","nodePort":31943}]}}`, field: remedy.PortsField, says: "change spec.ports so"},
	{name: "port", patch: `{"spec":{"ports":[{"name":"a","port":81,"protocol":"TCP","targetPort":"web","nodePort":31980},{"name":"b","port":443,` +
		`"protocol":"TCP","targetPort":"tls","nodePort":31943}]}}`, says: "change spec.ports so"},
	{name: "node port", patch: `{"spec":{"ports":[{"name":"a","port":80,"protocol":"TCP","targetPort":"web","nodePort":31981},{"name":"b","port":443,` +
		`"protocol":"TCP","targetPort":"tls","nodePort":31943}]}}`, says: "change spec.ports so"},
	{name: "name of a port", patch: `{"spec":{"ports":[{"name":"c","port":80,"protocol":"TCP","targetPort":8080,"nodePort":31980},{"name":"b","port":443,` +
		`"protocol":"TCP","targetPort":"tls","nodePort":31943}]}}`, says: "change spec.ports so"},
	{name: "application protocol", patch: `{"spec":{"ports":[{"name":"a","appProtocol":"http","port":80,"protocol":"TCP","targetPort":"web",` +
		`"nodePort":31980},{"name":"b","port":443,"protocol":"TCP","targetPort":"tls","nodePort":31943}]}}`, says: "change spec.ports so"},
	{name: "one port less", patch: `{"spec":{"ports":[{"name":"a","port":80,"protocol":"TCP","targetPort":"web","nodePort":31980}]}}`,
		says: "change spec.ports so"},
	{name: "clear the status", status: true, patch: `{"status":{"loadBalancer":{"ingress":null}}}`, field: remedy.StatusField,
		says: "change status.loadBalancer so"},
	{name: "address", status: true, patch: `{"status":{"loadBalancer":{"ingress":[{"ip":"10.0.0.2"}]}}}`, says: "change status.loadBalancer so"},
	{name: "condition", status: true, patch: `{"status":{"conditions":[{"type":"A","status":"True","reason":"A","message":"",` +
		`"lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, says: "change status.conditions"},
	{name: "annotation beside the status", status: true, patch: `{"metadata":{"annotations":{"example.com/other":"2"}}}`,
		says: "change the annotation example.com/other"},
	{name: "label beside the status", status: true, patch: `{"metadata":{"labels":{"app":"other"}}}`, says: "change metadata.labels"},
	{name: "finalizer beside the status", status: true, patch: `{"metadata":{"finalizers":null}}`, says: "change metadata.finalizers"},
}

func annotated(value any, keys ...string) string {
	change := map[string]any{}
	for _, k := range keys {
		change[k] = value
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": change}})
	if err != nil {
		panic(err) // strings can always be encoded
	}
	return string(data)
}

// TestAdmission: with wide RBAC the admission policy alone lets each class change what it declares, and rejects everything else,
// including other classes' annotations. Other users are exempt.
func TestAdmission(t *testing.T) {
	c := cluster.Alone(t)
	ctx := t.Context()
	if err := identity.Admit(ctx, c); err != nil {
		t.Fatal(err)
	}
	ns := c.Namespace(t)
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"app": "web"}, Finalizers: []string{"service.k8s.alibaba/resources"},
			Annotations: map[string]string{"example.com/other": "1", ccm.Resync: "0"}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{
				{Name: "a", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("web"), NodePort: 31980},
				{Name: "b", Port: 443, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString("tls"), NodePort: 31943},
			},
		},
	}
	for _, r := range functions.All {
		for _, key := range r.Keys() {
			svc.Annotations[key] = "old"
		}
	}
	keys := slices.Sorted(maps.Keys(svc.Annotations))
	svc, err := c.Client().CoreV1().Services(ns).Create(ctx, svc, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "10.0.0.1"}}
	if _, err := c.Client().CoreV1().Services(ns).UpdateStatus(ctx, svc, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}

	others := map[string]*kubernetes.Client{"an administrator": c.Client()}
	for who, user := range map[string]string{
		"another ServiceAccount":                    "system:serviceaccount:kube-system:cloud-controller-manager",
		"one of a namespace that is called like us": "system:serviceaccount:lbremedy-quota:web",
		"a user that is called like us":             "lbremedy-quota",
	} {
		others[who] = as(t, c, user)
	}
	for who, client := range others {
		for _, ch := range changes {
			if err := apply(ctx, client, ns, ch); err != nil {
				t.Errorf("%s: %s: %v", who, ch.name, err)
			}
		}
		if err := client.CoreV1().Services(ns).Delete(ctx, "web", dryDelete); err != nil {
			t.Errorf("%s: delete: %v", who, err)
		}
	}

	refused := func(t *testing.T, class, doing, says string, err error) {
		t.Helper()
		want := "the class " + class + " may not " + says
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", doing, err, want)
		}
	}
	up := &remedy.Remedy{Class: "up"}
	for _, r := range functions.All {
		up.Steps, up.Annotations = append(up.Steps, r.Steps...), append(up.Annotations, r.Annotations...)
	}
	for _, r := range append(slices.Clone(functions.All), &remedy.Remedy{Class: "exporter"}, &remedy.Remedy{Class: "doctor"}, up) {
		t.Run(r.Class, func(t *testing.T) {
			client := as(t, c, identity.User(r.Class))
			tried := changes
			if len(r.Fields()) == 0 && r.Class != "exporter" {
				tried = changes[:4] // one identity without changes tries all
			}
			for _, ch := range tried {
				err := apply(ctx, client, ns, ch)
				if !slices.Contains(r.Fields(), ch.field) {
					refused(t, r.Class, ch.name, ch.says, err)
				} else if err != nil {
					t.Errorf("%s: %v", ch.name, err)
				}
			}
			// The rejection names exactly the annotations that are not the class's.
			for field, value := range map[remedy.Field]any{remedy.SetField: "new", remedy.RemoveField: nil} {
				var mine []string
				if slices.Contains(r.Fields(), field) {
					mine = r.Keys()
				}
				if err := apply(ctx, client, ns, change{patch: annotated(value, mine...)}); err != nil {
					t.Errorf("%s its own annotations: %v", field, err)
				}
				if field == remedy.SetField && slices.Contains(r.Fields(), remedy.MarkField) {
					mine = append(mine, ccm.Resync)
				}
				theirs := slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return slices.Contains(mine, k) })
				err := apply(ctx, client, ns, change{patch: annotated(value, keys...)})
				refused(t, r.Class, string(field)+" all annotations", "change the annotation ", err)
				_, said, _ := strings.Cut(err.Error(), "change the annotation ")
				if d := cmp.Diff(theirs, slices.Sorted(strings.SplitSeq(said, ", "))); d != "" {
					t.Errorf("%s all annotations: the refused ones (-want +got):\n%s", field, d)
				}
			}
			services := client.CoreV1().Services(ns)
			refused(t, r.Class, "delete", "delete a Service", services.Delete(ctx, "web", dryDelete))
			made := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "made"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
			_, err := services.Create(ctx, made, metav1.CreateOptions{DryRun: dry})
			refused(t, r.Class, "create", "make a Service", err)
			now, err := services.Get(ctx, "web", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			now.Spec.Selector = nil
			_, err = services.Update(ctx, now, metav1.UpdateOptions{DryRun: dry})
			refused(t, r.Class, "replace", "change spec.selector", err)
		})
	}
}

// TestAdmissionCost: with the maximum size of annotations, the policy's evaluation stays within the API server's cost limit.
func TestAdmissionCost(t *testing.T) {
	c := cluster.Alone(t)
	ctx := t.Context()
	if err := identity.Admit(ctx, c); err != nil {
		t.Fatal(err)
	}
	client := as(t, c, identity.User("vswitch-not-found"))
	set := change{patch: annotated("new", ccm.Prefix+"vswitch-id")}
	ns := c.Namespace(t)
	many, large := map[string]string{}, map[string]string{"example.com/large": strings.Repeat("x", 250<<10)}
	for i := range 20_000 {
		many[fmt.Sprintf("k%d", i)] = "v"
	}
	for what, annotations := range map[string]map[string]string{"20,000 annotations": many, "one of 250 KiB": large} {
		svc := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: annotations},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
		}
		for i := range int32(100) {
			svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("p%d", i), Port: 1000 + i})
		}
		svc, err := c.Client().CoreV1().Services(ns).Create(ctx, svc, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := apply(ctx, client, ns, set); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		svc.Spec.Ports[99].TargetPort = intstr.FromString("other")
		spec, err := json.Marshal(map[string]any{"spec": map[string]any{"ports": svc.Spec.Ports}})
		if err != nil {
			t.Fatal(err)
		}
		if err := apply(ctx, as(t, c, identity.User("named-target-port")), ns, change{patch: string(spec)}); err != nil {
			t.Errorf("%s and 100 ports: %v", what, err)
		}
		if err := c.Client().CoreV1().Services(ns).Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRights: Without removes exactly one grant, and the files grant what the classes declare.
func TestRights(t *testing.T) {
	for _, r := range functions.All {
		all, err := identity.Of(r.Class)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(r.Grants(), all.Grants()); d != "" {
			t.Errorf("%s (-declared +granted):\n%s", r.Class, d)
		}
		for _, g := range r.Grants() {
			rest := slices.DeleteFunc(r.Grants(), func(o grant.Grant) bool { return o == g })
			if d := cmp.Diff(rest, all.Without(g).Grants(), cmpopts.EquateEmpty()); d != "" {
				t.Errorf("%s without %s:\n%s", r.Class, g, d)
			}
		}
	}
	all, err := identity.Of("doctor")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(checks.Grants(), all.Grants()); d != "" {
		t.Errorf("the doctor (-declared +granted):\n%s", d)
	}
	for _, g := range all.Grants() {
		_, action, _ := strings.Cut(g.Action, ":")
		if reads := []string{"get", "list"}; !g.RAM() && !slices.Contains(reads, g.Verb) || g.RAM() && !strings.HasPrefix(action, "Describe") &&
			!strings.HasPrefix(action, "List") && !strings.HasPrefix(action, "Get") {
			t.Errorf("the doctor may %s, and is to read alone", g)
		}
	}
	if _, err := identity.Of("no-such-class"); err == nil {
		t.Error("a class that there is not has rights")
	}
}

var (
	dry       = []string{metav1.DryRunAll}
	dryDelete = metav1.DeleteOptions{DryRun: dry}
)

func apply(ctx context.Context, client *kubernetes.Client, ns string, ch change) error {
	var sub []string
	if ch.status {
		sub = []string{"status"}
	}
	_, err := client.CoreV1().Services(ns).Patch(ctx, "web", types.MergePatchType, []byte(ch.patch), metav1.PatchOptions{DryRun: dry}, sub...)
	return err
}

func as(t *testing.T, c *cluster.Cluster, user string) *kubernetes.Client {
	t.Helper()
	client, err := kubernetes.New(quiet(c.As(t, user, wide)))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func quiet(config *rest.Config) *rest.Config {
	config.WarningHandler = rest.NoWarnings{}
	return config
}
