package safety

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/ticket"
	"github.com/lbremedy/lbremedy/test/forge"
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
		from                string // where show --patch says that the Service comes from
	}{
		"argo-server-side": {labels: map[string]string{"argocd.argoproj.io/instance": "shop"}, write: apply("argocd-controller"), result: asks,
			manager: "argocd-controller", from: `Application "shop"`},
		"argo-client-side": {
			annotations: map[string]string{"argocd.argoproj.io/tracking-id": "argocd_shop:/Service:NAMESPACE/web"}, write: lastApplied, result: asks,
			manager: "argocd.argoproj.io/tracking-id", from: `Application "argocd_shop"`,
		},
		"flux-kustomize": {
			labels: map[string]string{"kustomize.toolkit.fluxcd.io/name": "shop", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"},
			write:  apply("kustomize-controller"), result: asks, manager: "kustomize-controller", from: `Kustomization "flux-system/shop"`,
		},
		"flux-helm": {
			labels: map[string]string{"helm.toolkit.fluxcd.io/name": "shop", "helm.toolkit.fluxcd.io/namespace": "shop"},
			write:  update("helm-controller"), result: asks, manager: "helm-controller", from: `HelmRelease "shop/shop"`,
		},
		"helm": {
			labels:      map[string]string{"app.kubernetes.io/managed-by": "Helm"},
			annotations: map[string]string{"meta.helm.sh/release-name": "shop", "meta.helm.sh/release-namespace": "prod"},
			write:       update("helm"), result: asks, manager: "helm", from: `Release "prod/shop"`,
		},
		"argo-allowed": {
			labels: map[string]string{"argocd.argoproj.io/instance": "shop"}, drift: true, write: apply("argocd-controller"), result: fixes,
		},
		"argo-allowed-by-the-owner": {
			labels: map[string]string{"argocd.argoproj.io/instance": "shop", "lbremedy.io/allow-drift": "true"}, write: apply("argocd-controller"), result: asks,
			manager: "argocd-controller", from: `Application "shop"`,
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
			for key, value := range tt.annotations {
				svc.Annotations[key] = strings.ReplaceAll(value, "NAMESPACE", r.Testbed.Namespace)
			}
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
			_, patch, ok := strings.Cut(rec.Ask.String(), "Commit this patch to the source of the Service: ")
			if !ok || !json.Valid([]byte(patch)) {
				t.Fatalf("it asks %q", rec.Ask)
			}
			// When a person applies the patch that show prints, the failure ends.
			said := r.Says(0, "# By its labels and annotations, the Service comes from the "+tt.from, "", "show", rec.Case, "--patch")
			file := filepath.Join(t.TempDir(), "patch.yaml")
			r.Must(os.WriteFile(file, []byte(said.Out), 0o600))
			out, err := exec.CommandContext(r.Ctx, r.Testbed.Cluster.Kubectl(), "--kubeconfig="+r.Testbed.Cluster.Kubeconfig, "-n", r.Testbed.Namespace,
				"patch", "service", "web", "--patch-file="+file, "--field-manager="+strings.ReplaceAll(tt.manager, "/", "-")).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s\n%s", err, out, said.Out)
			}
			r.Must(r.Testbed.Until(r.Ctx, func() bool { return len(r.Service("web").Status.LoadBalancer.Ingress) > 0 }))
		})
	}
}

// TestMergeRequest checks that a change to the source becomes one merge request where the policy names the repository. Once it is merged and
// the tool has applied it, the failure ends, and so does the branch; a change that is not needed any more is closed.
func TestMergeRequest(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"github", "gitlab"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, testbed.Config{}, rig.Careful).Start()
			source := func(name string) string {
				svc := rig.Bare(name)
				svc.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}
				svc.Labels = map[string]string{"argocd.argoproj.io/instance": "shop"}
				data, err := yaml.Marshal(svc)
				r.Must(err)
				return string(data)
			}
			apply := func(text string) {
				r.Helper()
				for one := range strings.SplitSeq(text, "---\n") {
					var svc corev1.Service
					r.Must(yaml.Unmarshal([]byte(one), &svc))
					applyAs(r, &svc, "argocd-controller")
				}
			}
			const path = "apps/shop.yaml"
			before := "# The shop.\n" + source("web") + "---\n" + source("api")
			repository := forge.New(t, kind, map[string]string{path: before})
			repository.Called(r.Testbed.Wake)
			token := filepath.Join(t.TempDir(), "token")
			r.Must(os.WriteFile(token, []byte(forge.Token), 0o600))
			r.Policy(fmt.Sprintf("%stell:\n- {name: source, kind: %s, url: %q, secretFrom: {file: %q}, repository: %s, branch: main, "+
				"sources: [{application: shop, paths: [%s]}]}\n", rig.Careful, kind, repository.URL, token, repository.Repository(), path))
			r.Tell()
			state := func(want ...string) {
				r.Helper()
				r.Must(r.Testbed.Until(r.Ctx, func() bool {
					var got []string
					for _, one := range repository.Requests() {
						got = append(got, one.State)
					}
					slices.Sort(got)
					return slices.Equal(got, want) && len(repository.Branches()) == strings.Count(strings.Join(want, " "), "open")
				}))
			}
			apply(before)
			r.Ends("web", event.Asked)
			asked := r.Ends("api", event.Asked)
			state("open", "open")
			i := slices.IndexFunc(repository.Requests(), func(one forge.Request) bool { return strings.Contains(one.Title, "/web: ") })
			one := repository.Requests()[i]
			after := repository.File(one.Branch, path)
			if strings.Count(after, "\n") != strings.Count(before, "\n") || strings.Count(after, testbed.FullVSwitchH) != 1 {
				t.Errorf("the file is\n%s", after)
			}
			over := func(name string) {
				r.Helper()
				r.Must(r.Testbed.Until(r.Ctx, func() bool { return len(r.Service(name).Status.LoadBalancer.Ingress) > 0 }))
				standing := func(ctx context.Context) ([]event.Record, error) {
					return ticket.OpenFailures(ctx, r.Stream, testbed.ClusterID)
				}
				again := &host.Rechecker{Env: r.Env.Env, Remedies: functions.All, OpenFailures: standing}
				r.Must(r.Testbed.Until(r.Ctx, func() bool {
					r.Advance(time.Hour) // the failure is due for another look
					r.Must(again.Round(r.Ctx))
					return slices.ContainsFunc(r.Records(name), func(rec event.Record) bool { return rec.Result == event.Gone })
				}))
				r.Advance(time.Minute)
			}
			repository.End(one.Number, "merged")
			apply(after)
			over("web")
			state("merged", "open")
			r.Says(0, "source: open, ", "", "show", asked.Case)
			// The vSwitch has room again: the other change is not needed.
			r.Testbed.Cloud.SetFree(testbed.FullVSwitchH, 50)
			over("api")
			state("closed", "merged")
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
