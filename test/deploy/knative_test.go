// Package deploy checks that platforms accept what is generated for them: Knative's own types decode and validate the manifests,
// Helm's library renders the chart, and a real API server accepts the objects of kinds that it knows. It is a separate module,
// which keeps the libraries of two platforms out of lbremedy's dependencies.
package deploy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/apis"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const root = "../.."

func documents(text []byte) [][]byte {
	var out [][]byte
	for doc := range bytes.SplitSeq(append([]byte("\n"), text...), []byte("\n---\n")) {
		var any map[string]any
		if yaml.Unmarshal(doc, &any) == nil && len(any) == 0 {
			continue // only comments
		}
		out = append(out, doc)
	}
	return out
}

// strict decodes an object like an API server in strict mode: unknown or duplicate fields, or those in another case, are errors.
func strict(doc []byte, o any) error {
	data, err := yaml.YAMLToJSONStrict(doc)
	if err != nil {
		return err
	}
	mistakes, err := json.UnmarshalStrict(data, o)
	return errors.Join(append(mistakes, err)...)
}

func checkKnative(doc []byte) (known bool, err error) {
	return checkKnativeIn(context.Background(), doc)
}

func checkKnativeIn(ctx context.Context, doc []byte) (known bool, err error) {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(doc, &kind); err != nil {
		return false, err
	}
	var o interface {
		apis.Defaultable
		apis.Validatable
	}
	switch kind.APIVersion + " " + kind.Kind {
	case "serving.knative.dev/v1 Service":
		o = new(servingv1.Service)
	default:
		if strings.Contains(kind.APIVersion, "knative") {
			return true, fmt.Errorf("%s %s is no kind that is checked here", kind.APIVersion, kind.Kind)
		}
		return false, nil
	}
	if err := strict(doc, o); err != nil {
		return true, err
	}
	ctx = apis.WithinCreate(ctx)
	o.SetDefaults(ctx)
	// Ignore warnings, which reject nothing.
	if err := o.Validate(ctx).Filter(apis.ErrorLevel); err != nil {
		return true, err
	}
	if err := o.Validate(ctx); err != nil {
		return true, fmt.Errorf("Knative warns: %w", err)
	}
	return true, nil
}

func manifest(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func functions(t *testing.T) [][]byte {
	t.Helper()
	files, err := render(readValues(t, "testdata/knative.yaml"), "lbremedy")
	if err != nil {
		t.Fatal(err)
	}
	return documents([]byte(files["lbremedy/templates/functions.yaml"]))
}

func TestKnative(t *testing.T) {
	checked := 0
	for _, doc := range functions(t) {
		known, err := checkKnative(doc)
		if err != nil {
			t.Errorf("%v\n%s", err, doc)
		}
		if known {
			checked++
		}
	}
	if checked < 30 {
		t.Errorf("there are %d objects of Knative, want at least 30", checked)
	}
}

// TestKnativeMistakes checks that mistakes in a manifest are found: in a name, in a value, in values that belong together.
func TestKnativeMistakes(t *testing.T) {
	service := functions(t)[1]
	for _, tt := range []struct {
		old, with string
		want      string
	}{
		{"containerConcurrency: 32", "containerConcurency: 32", `unknown field "spec.template.spec.containerConcurency"`},
		{"containerConcurrency: 32", "containerConcurrency: 1001", "containerConcurrency"},
		{"timeoutSeconds: 90", "timeoutSeconds: 601", "timeoutSeconds"},
		{`min-scale":"0"`, `min-scale":"-1"`, "min-scale"},
		{`max-scale":"5"`, `max-scale":"five"`, "max-scale"},
		{"{name: LBREMEDY_ENGINE_KEYS,", "{name: PORT,", "PORT"},
		{"readOnlyRootFilesystem", "readonlyRootFilesystem", "unknown field"},
		{"runAsNonRoot: true", "privileged: true", "privileged"},
		{"name: http1", "name: grpc", "grpc"},
		{"securityContext:", "volumeMounts: [{name: secret, mountPath: /a}]\n        securityContext:", "volume"},
		{"serviceAccountName: ", "serviceAccountName: -", "serviceAccountName"},
	} {
		t.Run(tt.with, func(t *testing.T) {
			wrong := bytes.Replace(service, []byte(tt.old), []byte(tt.with), 1)
			if bytes.Equal(wrong, service) {
				t.Fatalf("the manifest has no %q", tt.old)
			}
			if _, err := checkKnative(wrong); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
