package safety

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/guard"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/identity"
	"github.com/lbremedy/lbremedy/test/rig"
	"github.com/lbremedy/lbremedy/test/testbed"
)

// TestGuarded: with the guard enforced, the controller still syncs Services, releases one whose type changes for a reason, and
// finishes a deletion; and lbremedy can correct an annotation that a person may not change.
func TestGuarded(t *testing.T) {
	t.Parallel()
	r := rig.New(t, testbed.Config{}, rig.Careful)
	services := r.Testbed.Cluster.Client().CoreV1().Services(r.Testbed.Namespace)
	patch := func(service string, change map[string]any, dry ...string) error {
		data, err := json.Marshal(change)
		r.Must(err)
		_, err = services.Patch(r.Ctx, service, types.MergePatchType, data, metav1.PatchOptions{DryRun: dry})
		return err
	}
	annotated := func(pairs map[string]any) map[string]any {
		return map[string]any{"metadata": map[string]any{"annotations": pairs}}
	}
	until := func(service string, so func(*corev1.Service, error) bool) {
		t.Helper()
		r.Must(r.Testbed.Until(r.Ctx, func() bool { return so(services.Get(r.Ctx, service, metav1.GetOptions{})) }))
	}
	judged := types.NamespacedName{Namespace: r.Testbed.Namespace, Name: "kept"}
	identity.Guard(t, r.Testbed.Cluster, metav1.LabelSelectorOpIn, r.Testbed.Namespace, judged, nil, admissionv1.Deny, admissionv1.Audit)
	for _, service := range []string{"kept", "gone", "released"} {
		r.Create(service, func(svc *corev1.Service) { svc.Annotations[rig.Prefix+"vswitch-id"] = testbed.RoomyVSwitchI })
		until(service, func(svc *corev1.Service, err error) bool {
			return err == nil && svc.Labels[ccm.BalancerLabel] != "" && ccm.Synced(svc)
		})
	}
	away := map[string]any{"spec": map[string]any{"type": "ClusterIP"}}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ; !apierrors.IsForbidden(patch("released", away, metav1.DryRunAll)); <-tick.C {
		r.Must(r.Ctx.Err())
	}

	r.Must(patch("released", annotated(map[string]any{guard.Allow: "it is inside only"})))
	r.Must(patch("released", away))
	until("released", func(svc *corev1.Service, err error) bool {
		return err == nil && len(svc.Finalizers) == 0 && svc.Labels[ccm.BalancerLabel] == ""
	})
	r.Must(services.Delete(r.Ctx, "gone", metav1.DeleteOptions{}))
	until("gone", func(_ *corev1.Service, err error) bool { return apierrors.IsNotFound(err) })

	wrong, back := map[string]any{rig.Prefix + "address-type": "internet"}, map[string]any{rig.Prefix + "address-type": "intranet"}
	if err := patch("kept", annotated(wrong)); !apierrors.IsForbidden(err) {
		t.Fatalf("another address type: %v", err)
	}
	wrong[guard.Allow] = "a test"
	r.Must(patch("kept", annotated(wrong)))
	r.Must(patch("kept", annotated(map[string]any{guard.Allow: nil})))
	if err := patch("kept", annotated(back), metav1.DryRunAll); !apierrors.IsForbidden(err) {
		t.Fatalf("a person puts the address type back: %v", err)
	}

	other := rig.New(t, testbed.Config{}, rig.Careful) // without an engine
	other.Create("web", nil)
	r.Must(other.Testbed.Until(r.Ctx, func() bool {
		events, err := other.Testbed.Cluster.Client().CoreV1().Events(other.Testbed.Namespace).List(r.Ctx, metav1.ListOptions{})
		return err == nil && len(events.Items) > 0
	}))
	as, err := r.Testbed.Env(r.Ctx, r.Stream, "up", new(cli.Program).ParsePolicy)
	r.Must(err)
	as.Policy, as.Now = r.Env.Policy, r.Env.Now
	r.Env.Env = as
	r.Start()
	r.Ends("kept", event.Fixed)
	if got := r.Service("kept").Annotations[rig.Prefix+"address-type"]; got != "intranet" {
		t.Errorf("the address type is %q", got)
	}
	failed, err := r.Stream.Subjects(r.Ctx, stream.Failed, event.FailedSubjects)
	r.Must(err)
	uid := string(other.Service("web").UID)
	if slices.ContainsFunc(failed, func(subject string) bool { return strings.Contains(subject, uid) }) {
		t.Errorf("another test's Service is a failure here: %v", failed)
	}
}
