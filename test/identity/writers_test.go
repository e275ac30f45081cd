package identity_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/kubernetes"
)

var writing = []rbacv1.PolicyRule{{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "update", "patch"}}}

type warnings struct {
	mu  sync.Mutex
	all []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, text)
}

func (w *warnings) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := strings.Join(w.all, "\n")
	w.all = nil
	return all
}

func bindWriters(t *testing.T, c *cluster.Cluster, actions ...admissionv1.ValidationAction) {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "infra/cluster/event-writers.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var policy admissionv1.ValidatingAdmissionPolicy
	if err := yaml.UnmarshalStrict(text, &policy); err != nil {
		t.Fatal(err)
	}
	for i, v := range policy.Spec.Variables {
		policy.Spec.Variables[i].Expression = map[string]string{
			"lbremedy_users": `["ccm","system:serviceaccount:kube-system:cloud-controller-manager"]`, "lbremedy_groups": `["controllers"]`,
		}[v.Expression]
	}
	binding := admissionv1.ValidatingAdmissionPolicyBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: policy.APIVersion, Kind: "ValidatingAdmissionPolicyBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: actions,
		},
	}
	registration, force := c.Client().AdmissionregistrationV1(), metav1.PatchOptions{FieldManager: "test", Force: new(true)}
	for _, object := range []any{policy, binding} {
		data, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := object.(admissionv1.ValidatingAdmissionPolicy); ok {
			_, err = registration.ValidatingAdmissionPolicies().Patch(t.Context(), policy.Name, types.ApplyPatchType, data, force)
		} else {
			_, err = registration.ValidatingAdmissionPolicyBindings().Patch(t.Context(), policy.Name, types.ApplyPatchType, data, force)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestEventWriters: only the named users can write Events in the controller's name, in either API and in any field for a
// component: rejected in one mode, warned of in the other. Events in other names are not affected.
func TestEventWriters(t *testing.T) {
	c := cluster.Alone(t)
	ctx := t.Context()
	ns := c.Namespace(t)
	t.Cleanup(func() {
		// The next test starts without the policy.
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		registration := c.Client().AdmissionregistrationV1()
		binding := registration.ValidatingAdmissionPolicyBindings().Delete(ctx, "lbremedy-event-writers", metav1.DeleteOptions{})
		policy := registration.ValidatingAdmissionPolicies().Delete(ctx, "lbremedy-event-writers", metav1.DeleteOptions{})
		if err := errors.Join(binding, policy); err != nil {
			t.Error(err)
		}
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for ; ; <-tick.C {
			_, err := c.Client().CoreV1().Events(ns).Create(ctx, &corev1.Event{
				ObjectMeta: metav1.ObjectMeta{Name: "after"}, InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: ns, Name: "web"},
				Source: corev1.EventSource{Component: "service-controller"},
			}, metav1.CreateOptions{DryRun: dry})
			if err == nil {
				return
			}
			if ctx.Err() != nil {
				t.Errorf("the policy is still in force: %v", err)
				return
			}
		}
	})
	heard := &warnings{}
	client := func(user string, groups ...string) *kubernetes.Client {
		t.Helper()
		config := c.As(t, user, writing)
		config.Impersonate.Groups = append(config.Impersonate.Groups, groups...)
		config.WarningHandler = heard
		made, err := kubernetes.New(config)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	stranger := client("stranger")

	const message = "Error syncing load balancer []: Message: The specified VSwitch has no available ip."
	about := corev1.ObjectReference{Kind: "Service", APIVersion: "v1", Namespace: ns, Name: "web", UID: "11111111-2222-3333-4444-555555555555"}
	number := 0
	create := func(by *kubernetes.Client, change func(*corev1.Event)) (*corev1.Event, error) {
		number++
		e := &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("e", number)}, InvolvedObject: about,
			Reason: "SyncLoadBalancerFailed", Type: "Warning", Message: message,
		}
		change(e)
		return by.CoreV1().Events(ns).Create(ctx, e, metav1.CreateOptions{})
	}
	createNew := func(by *kubernetes.Client, change func(*eventsv1.Event)) (*eventsv1.Event, error) {
		number++
		e := &eventsv1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("e", number)}, Regarding: about, EventTime: metav1.NowMicro(),
			Reason: "SyncLoadBalancerFailed", Type: "Warning", Note: message, Action: "Sync", ReportingInstance: "i", ReportingController: "other",
		}
		change(e)
		return by.EventsV1().Events(ns).Create(ctx, e, metav1.CreateOptions{})
	}
	source := func(component string) func(*corev1.Event) {
		return func(e *corev1.Event) { e.Source.Component = component }
	}
	forged := map[string]func(*kubernetes.Client) error{
		"a source":        func(by *kubernetes.Client) error { _, err := create(by, source("service-controller")); return err },
		"a source of NLB": func(by *kubernetes.Client) error { _, err := create(by, source("nlb-controller")); return err },
		"a reporting component": func(by *kubernetes.Client) error {
			_, err := create(by, func(e *corev1.Event) { e.ReportingController = "nlb-controller" })
			return err
		},
		"one of two": func(by *kubernetes.Client) error {
			_, err := create(by, func(e *corev1.Event) { e.Source.Component, e.ReportingController = "service-controller", "my-operator" })
			return err
		},
		"no component": func(by *kubernetes.Client) error { _, err := create(by, source("")); return err },
		"a success": func(by *kubernetes.Client) error {
			_, err := create(by, func(e *corev1.Event) {
				e.Source.Component, e.Reason, e.Type = "service-controller", event.Ensured, "Normal"
			})
			return err
		},
		"a success of nobody": func(by *kubernetes.Client) error {
			_, err := create(by, func(e *corev1.Event) { e.Reason, e.Type = event.Ensured, "Normal" })
			return err
		},
		"a reporting controller": func(by *kubernetes.Client) error {
			_, err := createNew(by, func(e *eventsv1.Event) { e.ReportingController = "service-controller" })
			return err
		},
	}
	allowed := map[string]func(*kubernetes.Client) error{
		"another component's success": func(by *kubernetes.Client) error {
			_, err := create(by, func(e *corev1.Event) { e.Source.Component, e.Reason, e.Type = "my-operator", event.Ensured, "Normal" })
			return err
		},
		"a success of a Pod, without a component": func(by *kubernetes.Client) error {
			_, err := create(by, func(e *corev1.Event) { e.InvolvedObject.Kind, e.Reason, e.Type = "Pod", event.Ensured, "Normal" })
			return err
		},
		"another component": func(by *kubernetes.Client) error { _, err := create(by, source("my-operator")); return err },
		"another controller": func(by *kubernetes.Client) error {
			_, err := createNew(by, func(*eventsv1.Event) {})
			return err
		},
		"of a Pod, without a component": func(by *kubernetes.Client) error {
			_, err := create(by, func(e *corev1.Event) { e.InvolvedObject.Kind = "Pod" })
			return err
		},
	}
	real, err := create(c.Client(), source("service-controller")) // before the policy exists
	if err != nil {
		t.Fatal(err)
	}
	forged["the text of an Event that is there"] = func(by *kubernetes.Client) error {
		patch := []byte(`{"message":"Error syncing load balancer []: forged"}`)
		_, err := by.CoreV1().Events(ns).Patch(ctx, real.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	// In the other API its component is a deprecated source.
	marks := 0
	forged["an Event that is there, by the other API"] = func(by *kubernetes.Client) error {
		marks++
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"mark":"%d"}}}`, marks)
		_, err := by.EventsV1().Events(ns).Patch(ctx, real.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	guard, err := kube.New(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := guard.BoundPolicy(ctx, doctor.WritersPolicy); !errors.Is(err, kube.ErrNotFound) {
		t.Errorf("before the policy is there it is read: %v", err)
	}
	const says = "stranger may not write Events in the name of the cloud controller manager"

	for _, mode := range []admissionv1.ValidationAction{admissionv1.Warn, admissionv1.Deny} {
		actions := []admissionv1.ValidationAction{mode}
		if mode == admissionv1.Warn {
			actions = append(actions, admissionv1.Audit)
		}
		bindWriters(t, c, actions...)
		// The server uses a policy some time after it was written.
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(30 * time.Second); ; <-tick.C {
			err := forged["a source"](stranger)
			warned := heard.take()
			if mode == admissionv1.Deny && apierrors.IsForbidden(err) || mode == admissionv1.Warn && strings.Contains(warned, says) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: the policy is not in force: %v, %q", mode, err, warned)
			}
		}
		var want []string
		for _, a := range actions {
			want = append(want, string(a))
		}
		if bound, err := guard.BoundPolicy(ctx, doctor.WritersPolicy); err != nil || bound.Limited || !slices.Equal(bound.Actions, want) {
			t.Errorf("%s: the policy is read as in force by %+v: %v", mode, bound, err)
		}
		for _, name := range slices.Sorted(func(yield func(string) bool) {
			for n := range forged {
				if !yield(n) {
					return
				}
			}
		}) {
			err := forged[name](stranger)
			warned := heard.take()
			switch {
			case mode == admissionv1.Deny && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), says)):
				t.Errorf("%s: %s of a stranger's: %v", mode, name, err)
			case mode == admissionv1.Warn && (err != nil || !strings.Contains(warned, says)):
				t.Errorf("%s: %s of a stranger's: %v, warned %q", mode, name, err, warned)
			}
			for who, by := range map[string]*kubernetes.Client{
				"a named user": client("ccm"), "a named ServiceAccount": client("system:serviceaccount:kube-system:cloud-controller-manager"),
				"one of a named group": client("anybody", "controllers"),
			} {
				if err := forged[name](by); err != nil {
					t.Errorf("%s: %s of %s: %v", mode, name, who, err)
				}
				if warned := heard.take(); strings.Contains(warned, "may not write") {
					t.Errorf("%s: %s of %s: warned %q", mode, name, who, warned)
				}
			}
		}
		for name, do := range allowed {
			before := number
			if err := do(stranger); err != nil {
				t.Errorf("%s: %s of a stranger's: %v", mode, name, err)
			}
			// Events that the policy lets pass are not evidence.
			err := guard.Evidence(ctx, kube.Selection{Namespace: ns}, func(e kube.Event) error {
				if n, err := strconv.Atoi(strings.TrimPrefix(e.Name, "e")); err == nil && n > before {
					t.Errorf("%s: %s of a stranger's is evidence", mode, name)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if warned := heard.take(); warned != "" {
				t.Errorf("%s: %s of a stranger's: warned %q", mode, name, warned)
			}
		}
	}
}
