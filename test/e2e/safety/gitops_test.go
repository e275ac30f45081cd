package safety

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/rig"
	"github.com/lbremedy/lbremedy/test/sim/controller"
	"github.com/lbremedy/lbremedy/test/testbed"
)

// TestGitOps: lbremedy does not write to fields that a GitOps tool keeps, because the tool would revert it, and gives a person
// the patch to commit. The tools write as real ones do, so the API server records the owners of fields. A field that another
// program set on the tool's object does not belong to the tool.
func TestGitOps(t *testing.T) {
	t.Parallel()
	const asks, fixes = event.Asked, event.Fixed
	vswitch := rig.Prefix + "vswitch-id"
	apply := func(manager string) write {
		return func(r *rig.Rig, svc *corev1.Service) { applyAs(r, svc, manager) }
	}
	update := func(manager string) write {
		return func(r *rig.Rig, svc *corev1.Service) { updateAs(r, svc, manager) }
	}
	for name, tt := range map[string]struct {
		labels, annotations map[string]string
		drift               bool // the namespace has the label that allows it
		write               write
		result              event.Result
		manager             string // owner that the rule names
	}{
		"argo-server-side": {labels: map[string]string{"argocd.argoproj.io/instance": "shop"}, write: apply("argocd-controller"), result: asks,
			manager: "argocd-controller"},
		"argo-client-side": {
			annotations: map[string]string{"argocd.argoproj.io/tracking-id": "shop:/Service:shop/web"}, write: lastApplied, result: asks,
			manager: "argocd.argoproj.io/tracking-id",
		},
		"flux-kustomize": {labels: map[string]string{"kustomize.toolkit.fluxcd.io/name": "shop"}, write: apply("kustomize-controller"), result: asks,
			manager: "kustomize-controller"},
		"flux-helm": {labels: map[string]string{"helm.toolkit.fluxcd.io/name": "shop"}, write: update("helm-controller"), result: asks, manager: "helm-controller"},
		"helm": {
			labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"}, annotations: map[string]string{"meta.helm.sh/release-name": "shop"},
			write: update("helm"), result: asks, manager: "helm",
		},
		"argo-allowed": {
			labels: map[string]string{"argocd.argoproj.io/instance": "shop"}, drift: true, write: apply("argocd-controller"), result: fixes,
		},
		"argo-allowed-by-the-owner": {
			labels: map[string]string{"argocd.argoproj.io/instance": "shop", "lbremedy.io/allow-drift": "true"}, write: apply("argocd-controller"), result: asks,
			manager: "argocd-controller",
		},
		"helm-allowed": {drift: true, write: update("helm"), result: fixes},
		// Another program, or nobody, has set the field, not the chart. A person's edit also asks (TestRecentEdit).
		"helm-installed": {
			labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"}, annotations: map[string]string{"meta.helm.sh/release-name": "shop"},
			write: func(r *rig.Rig, svc *corev1.Service) {
				delete(svc.Annotations, vswitch)
				updateAs(r, svc, "helm")
				annotate(r, svc.Name, map[string]any{vswitch: testbed.FullVSwitchH}, "network-operator")
			}, result: fixes,
		},
		"helm-unset": {
			labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"}, annotations: map[string]string{"meta.helm.sh/release-name": "shop"},
			write: func(r *rig.Rig, svc *corev1.Service) {
				delete(svc.Annotations, vswitch)
				updateAs(r, svc, "helm")
			}, result: fixes,
		},
		"kubectl": {write: lastApplied, result: fixes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, testbed.Config{}, rig.Careful)
			svc := rig.Bare("web")
			svc.Labels = tt.labels
			maps.Copy(svc.Annotations, tt.annotations)
			if tt.drift {
				_, err := r.Testbed.Cluster.Client().CoreV1().Namespaces().Patch(r.Ctx, r.Testbed.Namespace, types.MergePatchType,
					[]byte(`{"metadata":{"labels":{"lbremedy.io/allow-drift":"true"}}}`), metav1.PatchOptions{})
				r.Must(err)
			}
			tt.write(r, svc)
			before := r.VSwitch("web")
			r.Start() // after the Service has its final form
			// The controller does not choose a full vSwitch.
			if before == "" && controller.Since(r.Testbed.Version(), "v2.13.0") {
				r.Must(r.Testbed.Until(r.Ctx, func() bool { return len(r.Service("web").Status.LoadBalancer.Ingress) > 0 }))
				if all := r.Records("web"); len(all) > 0 {
					t.Errorf("nothing failed, and the journal says %+v", all)
				}
				return
			}
			rec := r.Ends("web", tt.result)
			after := r.VSwitch("web")
			if tt.result == fixes {
				if after == before {
					t.Error("it was not moved")
				}
				if name == "kubectl" && !strings.Contains(rec.Note.String(), "The next kubectl apply reverts the write") {
					t.Errorf("the note is %q", rec.Note)
				}
				return
			}
			if after != before || rec.Next != 0 || rec.Digest != "" {
				t.Errorf("it was moved from %q to %q, and there is a plan %q to agree to", before, after, rec.Digest)
			}
			if rec.Rule.String() != tt.manager+" owns what the plan would write and would revert it." {
				t.Errorf("the rule is %q", rec.Rule)
			}
			// When a person applies the patch, the failure ends.
			_, patch, ok := strings.Cut(rec.Ask.String(), "Commit this patch to the source of the Service: ")
			if !ok || !json.Valid([]byte(patch)) {
				t.Fatalf("it asks %q", rec.Ask)
			}
			_, err := r.Testbed.Cluster.Client().CoreV1().Services(r.Testbed.Namespace).Patch(r.Ctx, "web", types.MergePatchType, []byte(patch),
				metav1.PatchOptions{FieldManager: tt.manager})
			r.Must(err)
			r.Must(r.Testbed.Until(r.Ctx, func() bool { return len(r.Service("web").Status.LoadBalancer.Ingress) > 0 }))
		})
	}
}

type write func(*rig.Rig, *corev1.Service)

func applyAs(r *rig.Rig, svc *corev1.Service, manager string) {
	r.Helper()
	svc.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}
	data, err := json.Marshal(svc)
	r.Must(err)
	_, err = r.Testbed.Cluster.Client().CoreV1().Services(r.Testbed.Namespace).Patch(r.Ctx, svc.Name, types.ApplyPatchType, data,
		metav1.PatchOptions{FieldManager: manager, Force: new(true)})
	r.Must(err)
}

func updateAs(r *rig.Rig, svc *corev1.Service, manager string) {
	r.Helper()
	of := r.Testbed.Cluster.Client().CoreV1().Services(r.Testbed.Namespace)
	_, err := of.Create(r.Ctx, svc, metav1.CreateOptions{FieldManager: manager})
	r.Must(err)
}

func lastApplied(r *rig.Rig, svc *corev1.Service) {
	r.Helper()
	data, err := json.Marshal(svc)
	r.Must(err)
	svc.Annotations[corev1.LastAppliedConfigAnnotation] = string(data)
	updateAs(r, svc, "kubectl-client-side-apply")
}

func annotate(r *rig.Rig, service string, change map[string]any, manager string) {
	r.Helper()
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": change}})
	r.Must(err)
	_, err = r.Testbed.Cluster.Client().CoreV1().Services(r.Testbed.Namespace).Patch(r.Ctx, service, types.MergePatchType, data,
		metav1.PatchOptions{FieldManager: manager})
	r.Must(err)
}
