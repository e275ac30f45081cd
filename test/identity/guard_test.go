package identity_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/guard"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/identity"
	"github.com/lbremedy/lbremedy/test/kubernetes"
)

var editing = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"services", "services/status"}, Verbs: []string{"*"}}}

type guardedEdit struct {
	name   string
	made   func(*corev1.Service) // changes a Service with a CLB of the controller's own
	patch  string                // a merge patch; empty: delete it
	status bool                  // through the status subresource
	by     string                // user; empty: a person
	says   string
}

const (
	typeGone      = "The controller deletes the load balancer of the Service"
	otherBalancer = "The controller lets go of the load balancer"
	finalizerGone = "Nothing deletes the load balancer when the Service goes"
	labelGone     = "Until the next full sync nothing on the Service says"
	protected     = "The Service is protected."
)

func fixedSays(short string) string { return "The annotation " + short + " sets the " }

func annotations(pairs ...string) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		for i := 0; i < len(pairs); i += 2 {
			metav1.SetMetaDataAnnotation(&svc.ObjectMeta, pairs[i], pairs[i+1])
		}
	}
}

func network(more ...string) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		svc.Spec.LoadBalancerClass, svc.Finalizers = new(ccm.NLBClass), []string{ccm.NLBFinalizer}
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "nlb-1.example.com"}}
		annotations(more...)(svc)
	}
}

func bare(svc *corev1.Service) {
	delete(svc.Labels, ccm.BalancerLabel)
	svc.Status.LoadBalancer.Ingress = nil
}

const away = `{"spec":{"type":"ClusterIP"}}`

func guardedEdits() []guardedEdit {
	set := func(short string, value any) string { return annotated(value, ccm.Prefix+short) }
	reused := annotations(ccm.Prefix+"id", "lb-1")
	lostFinalizer, lostLabel := `{"metadata":{"finalizers":null}}`, `{"metadata":{"labels":{"`+ccm.BalancerLabel+`":null}}}`
	list := []guardedEdit{
		{name: "another type", patch: away, says: typeGone},
		{name: "another type, of an NLB", made: network(), patch: `{"spec":{"type":"NodePort","loadBalancerClass":null}}`, says: typeGone},
		{name: "another type, and the load balancer is kept", made: annotations(ccm.Prefix+ccm.Preserve, "true"), patch: away},
		{name: "another type, of one that reuses", made: reused, patch: away},
		{name: "another type, before the first sync", made: bare, patch: away},
		{name: "another ID", patch: set("id", "lb-2"), says: otherBalancer},
		{name: "another ID, by the legacy key", patch: annotated("lb-2", ccm.LegacyPrefix+"id"), says: otherBalancer},
		{name: "from one ID to another", made: reused, patch: set("id", "lb-2"), says: otherBalancer},
		{name: "an ID away", made: reused, patch: set("id", nil), says: otherBalancer},
		{name: "the ID that it has", patch: set("id", "lb-1")},
		{name: "a wrong ID away", made: annotations(ccm.Prefix+"id", "lb-2"), patch: set("id", nil)},
		{name: "a wrong ID put right", made: annotations(ccm.Prefix+"id", "lb-2"), patch: set("id", "lb-1")},
		{name: "an ID, before the first sync", made: bare, patch: set("id", "lb-2")},
		{name: "the finalizer away", patch: lostFinalizer, says: finalizerGone},
		{name: "the finalizer of an NLB away", made: network(), patch: lostFinalizer, says: finalizerGone},
		{name: "the finalizer away, by the controller when it is done", made: bare, patch: lostFinalizer},
		{name: "another's finalizer away", made: func(svc *corev1.Service) { svc.Finalizers = append(svc.Finalizers, "example.com/a") },
			patch: `{"metadata":{"finalizers":["` + ccm.CLBFinalizer + `"]}}`},
		{name: "another's finalizer on top", patch: `{"metadata":{"finalizers":["` + ccm.CLBFinalizer + `","example.com/a"]}}`},
		{name: "the label away", patch: lostLabel, says: labelGone},
		{name: "another label value", patch: `{"metadata":{"labels":{"` + ccm.BalancerLabel + `":"lb-2"}}}`, says: labelGone},
		{name: "all labels away", patch: `{"metadata":{"labels":null}}`, says: labelGone},
		{name: "the label away, by the controller", patch: lostLabel, status: true},
		{name: "the address away, by the controller", patch: `{"status":{"loadBalancer":{"ingress":null}}}`, status: true},
		// Changes that do not concern the load balancer, or remove nothing.
		{name: "a label", patch: `{"metadata":{"labels":{"app":"other"}}}`},
		{name: "an annotation", patch: annotated("2", "example.com/other")},
		{name: "the bandwidth", patch: set("bandwidth", "20")},
		{name: "a port", patch: `{"spec":{"ports":[{"name":"a","port":81,"protocol":"TCP","targetPort":8080}]}}`},
		{name: "the selector", patch: `{"spec":{"selector":{"app":"other"}}}`},
		{name: "nothing", patch: `{}`},
		{name: "the address type that it has", patch: set("address-type", "internet")},
		{name: "the address type, before the first sync", made: bare, patch: set("address-type", "intranet")},
		{name: "the address type away", made: annotations(ccm.Prefix+"address-type", "intranet"), patch: set("address-type", nil)},
		{name: "the same under the other key", made: annotations(ccm.LegacyPrefix+"address-type", "intranet"),
			patch: `{"metadata":{"annotations":{"` + ccm.Prefix + `address-type":"intranet","` + ccm.LegacyPrefix + `address-type":null}}}`},
		{name: "the address type of an NLB", made: network(), patch: set("address-type", "intranet")},
		{name: "the IP version of an NLB in other letters", made: network(ccm.Prefix+"ip-version", "DualStack"), patch: set("ip-version", "dualstack")},
		{name: "IPv6 away", made: annotations(ccm.Prefix+"ip-version", "ipv6"), patch: set("ip-version", nil), says: fixedSays("ip-version")},
		{name: "a zone on top", made: network(ccm.Prefix+"zone-maps", "h:vsw-1,i:vsw-2"), patch: set("zone-maps", "h:vsw-1,i:vsw-2,j:vsw-3")},
		{name: "zones in another order", made: network(ccm.Prefix+"zone-maps", "h:vsw-1,i:vsw-2"), patch: set("zone-maps", "i:vsw-2, h:vsw-1")},
		{name: "another vSwitch of a zone", made: network(ccm.Prefix+"zone-maps", "h:vsw-1,i:vsw-2"), patch: set("zone-maps", "h:vsw-9,i:vsw-2")},
		{name: "all zones away", made: network(ccm.Prefix+"zone-maps", "h:vsw-1,i:vsw-2"), patch: set("zone-maps", nil), says: fixedSays("zone-maps")},
		// Exempt users, and edits with a stated reason.
		{name: "the address type, by lbremedy", patch: set("address-type", "intranet"), by: identity.User("address-type-immutable")},
		{name: "another type, with a reason", made: annotations(guard.Allow, "moves to the NLB"), patch: away},
		{name: "another type, with a reason in the same edit",
			patch: `{"metadata":{"annotations":{"` + guard.Allow + `":"搬到 NLB"}},"spec":{"type":"ClusterIP"}}`},
		{name: "another type, with a blank reason", made: annotations(guard.Allow, "  "), patch: away, says: typeGone},
		{name: "another type, with a reason that is too long", made: annotations(guard.Allow, strings.Repeat("a", 257)), patch: away, says: typeGone},
		{name: "a deletion"},
		{name: "a deletion of a labelled one", made: func(svc *corev1.Service) { svc.Labels[guard.Protect] = "true" }, says: protected},
		{name: "a deletion of a labelled one, with a reason", made: func(svc *corev1.Service) {
			svc.Labels[guard.Protect] = "true"
			annotations(guard.Allow, "the shop has closed")(svc)
		}},
		{name: "a deletion of a labelled one, before the first sync", made: func(svc *corev1.Service) {
			bare(svc)
			svc.Labels[guard.Protect] = "true"
		}},
		{name: "a deletion of a labelled one, by the garbage collector", made: func(svc *corev1.Service) { svc.Labels[guard.Protect] = "true" },
			by: "system:serviceaccount:kube-system:generic-garbage-collector"},
	}
	for _, kind := range []struct {
		network bool
		made    func(...string) func(*corev1.Service)
	}{{false, annotations}, {true, network}} {
		for _, f := range ccm.FixedAnnotations(kind.network) {
			key := ccm.Prefix + f.Name
			list = append(list, guardedEdit{
				name: fmt.Sprintf("another %s, NLB %t", f.Name, kind.network), made: kind.made(key, "a:1,b:2"), patch: annotated("b:2", key), says: fixedSays(f.Name),
			})
		}
	}
	return list
}

// TestGuard: each rule rejects, or in the other mode warns of, exactly its edits, on a Service with 100 ports. The controller,
// lbremedy, unrelated edits and edits with a stated reason pass.
func TestGuard(t *testing.T) {
	c := cluster.Alone(t)
	ctx := t.Context()
	ns, free := c.Namespace(t), c.Namespace(t)
	heard := &warnings{}
	clients := map[string]*kubernetes.Client{}
	client := func(user string) *kubernetes.Client {
		t.Helper()
		if clients[user] == nil {
			config := c.As(t, user, editing)
			config.WarningHandler = heard
			made, err := kubernetes.New(config)
			if err != nil {
				t.Fatal(err)
			}
			clients[user] = made
		}
		return clients[user]
	}
	number := 0
	create := func(ns string, change func(*corev1.Service)) *corev1.Service {
		t.Helper()
		number++
		svc := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprint("web-", number), Finalizers: []string{ccm.CLBFinalizer}, Labels: map[string]string{"app": "web", ccm.BalancerLabel: "lb-1"},
			},
			Spec:   corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, AllocateLoadBalancerNodePorts: new(false), Selector: map[string]string{"app": "web"}},
			Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "203.0.113.1"}}}},
		}
		for p := range int32(100) {
			svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("p", p), Port: 1000 + p, Protocol: corev1.ProtocolTCP})
		}
		if change != nil {
			change(svc)
		}
		status := svc.Status
		made, err := c.Client().CoreV1().Services(ns).Create(ctx, svc, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		made.Status = status
		if made, err = c.Client().CoreV1().Services(ns).UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		return made
	}
	edit := func(svc *corev1.Service, e guardedEdit) (warned string, err error) {
		t.Helper()
		by := "person"
		if e.by != "" {
			by = e.by
		}
		heard.take()
		services := client(by).CoreV1().Services(svc.Namespace)
		if e.patch == "" {
			err = services.Delete(ctx, svc.Name, metav1.DeleteOptions{DryRun: dry})
		} else {
			var sub []string
			if e.status {
				sub = []string{"status"}
			}
			_, err = services.Patch(ctx, svc.Name, types.MergePatchType, []byte(e.patch), metav1.PatchOptions{DryRun: dry}, sub...)
		}
		return heard.take(), err
	}
	judge := func(mode string, svc *corev1.Service, e guardedEdit, says string) {
		t.Helper()
		warned, err := edit(svc, e)
		switch {
		case mode == "deny" && says != "":
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), guard.Allow) {
				t.Errorf("%s: %s: got %v, want %q", mode, e.name, err, says)
			}
		case mode == "warn" && says != "":
			if err != nil || !strings.Contains(warned, says) || strings.Count(warned, "Validation failed") != 1 {
				t.Errorf("%s: %s: got %v, warned %q, want %q", mode, e.name, err, warned, says)
			}
		case err != nil || strings.Contains(warned, guard.Policy):
			t.Errorf("%s: %s: got %v, warned %q, want neither", mode, e.name, err, warned)
		}
	}
	// A GitOps tool applies the current Service; a person replaces it by a file without the controller's additions.
	files := func(mode string, svc *corev1.Service) {
		t.Helper()
		data, err := json.Marshal(map[string]any{
			"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": svc.Name, "labels": map[string]any{"app": "web"}},
			"spec": map[string]any{"type": svc.Spec.Type, "selector": svc.Spec.Selector, "ports": svc.Spec.Ports, "allocateLoadBalancerNodePorts": false},
		})
		if err != nil {
			t.Fatal(err)
		}
		services := client("person").CoreV1().Services(svc.Namespace)
		heard.take()
		_, err = services.Patch(ctx, svc.Name, types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: "argocd-controller", Force: new(true), DryRun: dry})
		if warned := heard.take(); err != nil || strings.Contains(warned, guard.Policy) {
			t.Errorf("%s: the same is applied: %v, warned %q", mode, err, warned)
		}
		file := svc.DeepCopy()
		file.Finalizers, file.Labels = nil, map[string]string{"app": "web"}
		_, err = services.Update(ctx, file, metav1.UpdateOptions{DryRun: dry})
		if warned := heard.take(); mode == "deny" && !apierrors.IsForbidden(err) || mode == "warn" && !strings.Contains(warned, finalizerGone) {
			t.Errorf("%s: it is replaced: %v, warned %q", mode, err, warned)
		}
	}
	edits := guardedEdits()
	made := make([]*corev1.Service, len(edits))
	for i, e := range edits {
		made[i] = create(ns, e.made)
	}
	elsewhere := create(free, nil)
	admin, err := kube.New(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.BoundPolicy(ctx, guard.Policy); !errors.Is(err, kube.ErrNotFound) {
		t.Errorf("before the guard is there it is read: %v", err)
	}
	judge("off", made[0], edits[0], "")

	for _, mode := range []string{"warn", "deny"} {
		actions := map[string][]admissionv1.ValidationAction{"warn": {admissionv1.Warn, admissionv1.Audit}, "deny": {admissionv1.Deny, admissionv1.Audit}}[mode]
		identity.Guard(t, c, metav1.LabelSelectorOpNotIn, free, named(made[0]), nil, actions...)
		await(t, func() bool {
			warned, err := edit(made[0], edits[0])
			return mode == "warn" && strings.Contains(warned, typeGone) || mode == "deny" && apierrors.IsForbidden(err)
		})
		for i, e := range edits {
			judge(mode, made[i], e, e.says)
		}
		judge(mode, elsewhere, edits[0], "")
		files(mode, made[0])
		if bound, err := admin.BoundPolicy(ctx, guard.Policy); err != nil || !bound.Limited || !slices.Contains(bound.Actions, "Audit") {
			t.Errorf("%s: the guard is read as in force by %+v: %v", mode, bound, err)
		}
	}

	// In a namespace of doctor.protect each Service with a load balancer is protected, until the namespace itself is deleted.
	identity.Guard(t, c, metav1.LabelSelectorOpNotIn, ns, named(elsewhere), []string{"^" + free[:len(free)-1] + ".$"}, admissionv1.Deny, admissionv1.Audit)
	gone := guardedEdit{name: "a deletion in a protected namespace"}
	await(t, func() bool { _, err := edit(elsewhere, gone); return apierrors.IsForbidden(err) })
	judge("deny", elsewhere, gone, protected)
	if err := c.Client().CoreV1().Namespaces().Delete(ctx, free, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { _, err := edit(elsewhere, gone); return err == nil })
}

func named(svc *corev1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}
}

// await waits until so returns true: the API server uses a policy some time after it was written.
func await(t *testing.T, so func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); !so(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("the guard is not in force")
		}
	}
}
