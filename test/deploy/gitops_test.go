package deploy

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	_ "github.com/fluxcd/helm-controller/api/v2"   // its definitions
	_ "github.com/fluxcd/source-controller/api/v1" // its definitions
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"
)

const argoCD = "github.com/argoproj/argo-cd/v3@v3.1.8"

func examples(t *testing.T, file string) (out []*unstructured.Unstructured) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "infra/gitops", file))
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range documents(text) {
		o := new(unstructured.Unstructured)
		if err := strict(doc, &o.Object); err != nil {
			t.Fatal(err)
		}
		out = append(out, o)
	}
	return out
}

func rendered(t *testing.T, o *unstructured.Unstructured, path ...string) {
	t.Helper()
	values, found, err := unstructured.NestedMap(o.Object, path...)
	if err != nil || !found {
		t.Fatalf("%s has no values: %v", o.GetKind(), err)
	}
	values["image"].(map[string]any)["tag"] = "v0.1.0" // a release has digests in the chart
	if files, err := render(values, "lbremedy"); err != nil || len(files) == 0 {
		t.Errorf("the chart does not take the values: %v", err)
	}
}

func (c *server) define(t *testing.T, kind *unstructured.Unstructured) *server {
	t.Helper()
	kinds := c.dynamic.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if _, err := kinds.Create(t.Context(), kind, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		o, err := kinds.Get(ctx, kind.GetName(), metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions") // an error: it has none yet
		return slices.ContainsFunc(conditions, func(c any) bool {
			condition, ok := c.(map[string]any)
			return ok && condition["type"] == "Established" && condition["status"] == "True"
		}), nil
	})
	if err != nil {
		t.Fatalf("%s is not served: %v", kind.GetName(), err)
	}
	return join(t)
}

// A real API server with Argo CD's own definition accepts the example, and the chart its values.
func TestArgoCD(t *testing.T) {
	c := join(t)
	said, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", argoCD).Output()
	var module struct{ Dir string }
	if err != nil || json.Unmarshal(said, &module) != nil {
		t.Fatalf("get %s: %v: %s", argoCD, err, said)
	}
	text, err := os.ReadFile(filepath.Join(module.Dir, "manifests/crds/application-crd.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	kind := new(unstructured.Unstructured)
	if err := yaml.Unmarshal(text, &kind.Object); err != nil {
		t.Fatal(err)
	}
	c = c.define(t, kind)
	app := examples(t, "argocd.yaml")[0]
	rendered(t, app, "spec", "source", "helm", "valuesObject")
	app.SetNamespace(c.namespace(t))
	if err := c.dryRun(t.Context(), app); err != nil {
		t.Error(err)
	}
	app.Object["spec"].(map[string]any)["destinations"] = "x"
	if err := c.dryRun(t.Context(), app); err == nil {
		t.Error("an unknown field was taken")
	}
}

// A real API server with the definitions of Flux's own types accepts the example, and the chart its values.
func TestFlux(t *testing.T) {
	c := join(t)
	for _, kind := range slices.Concat(definitions(t, "github.com/fluxcd/source-controller/api/v1", "OCIRepository"),
		definitions(t, "github.com/fluxcd/helm-controller/api/v2", "HelmRelease")) {
		c = c.define(t, kind)
	}
	all := examples(t, "flux.yaml")
	rendered(t, all[1], "spec", "values")
	namespace := c.namespace(t)
	for _, o := range all {
		o.SetNamespace(namespace)
		if err := c.dryRun(t.Context(), o); err != nil {
			t.Error(err)
		}
		o.Object["spec"].(map[string]any)["intervall"] = "10m"
		if err := c.dryRun(t.Context(), o); err == nil {
			t.Errorf("%s: an unknown field was taken", o.GetKind())
		}
	}
}
