package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/test/cluster"
)

// engineKeys are two public keys of engines.
var engineKeys = strings.Repeat("A", 43) + "," + strings.Repeat("_", 42) + "8"

func settings(namespace, value string) object {
	return object{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "lbremedy", "namespace": namespace},
		"data": map[string]any{"LBREMEDY_REGION": value},
	}
}

// A dry run says what would change and changes nothing; applied, nothing is left to say.
func TestDeploy(t *testing.T) {
	c := cluster.Join(t)
	namespace := c.Namespace(t)
	s, err := connect(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	run := func(o object, doIt, force bool) (string, error) {
		var said strings.Builder
		err := deploy(t.Context(), s, []object{o}, doIt, force, &said)
		return said.String(), err
	}
	there := func() string {
		m, err := c.Client().CoreV1().ConfigMaps(namespace).Get(t.Context(), "lbremedy", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		return m.Data["LBREMEDY_REGION"]
	}
	for _, tt := range []struct {
		doing, value string
		apply        bool
		said, there  string
	}{
		{"ask for a new one", "cn-a", false, "+ ConfigMap " + namespace + "/lbremedy\n1 objects would change", "not found"},
		{"make it", "cn-a", true, "1 objects changed", "cn-a"},
		{"make it again", "cn-a", true, "0 objects changed, 1 were as they should be", "cn-a"},
		{"ask for another value", "cn-b", false, `data.LBREMEDY_REGION: "cn-a" -> "cn-b"`, "cn-a"},
		{"change it", "cn-b", true, "1 objects changed", "cn-b"},
	} {
		said, err := run(settings(namespace, tt.value), tt.apply, false)
		if err != nil || !strings.Contains(said, tt.said) || !strings.Contains(there(), tt.there) {
			t.Errorf("%s: it said %q, %v; there is %q", tt.doing, said, err, there())
		}
	}

	// What another has set stays, unless it is asked for.
	m, err := c.Client().CoreV1().ConfigMaps(namespace).Get(t.Context(), "lbremedy", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m.Data["LBREMEDY_REGION"] = "cn-person"
	if _, err := c.Client().CoreV1().ConfigMaps(namespace).Update(t.Context(), m, metav1.UpdateOptions{FieldManager: "a-person"}); err != nil {
		t.Fatal(err)
	}
	if _, err := run(settings(namespace, "cn-c"), true, false); err == nil || !strings.Contains(err.Error(), "a-person") || there() != "cn-person" {
		t.Errorf("over a person's: %v, and there is %q", err, there())
	}
	if _, err := run(settings(namespace, "cn-c"), true, true); err != nil || there() != "cn-c" {
		t.Errorf("with force: %v, and there is %q", err, there())
	}

	// One mistake, and nothing is changed.
	wrong := settings(namespace, "cn-d")
	wrong["date"] = map[string]any{}
	knative := object{"apiVersion": "nowhere.knative.dev/v1", "kind": "Service", "metadata": map[string]any{"name": "x", "namespace": namespace}}
	other := object{"apiVersion": "v1", "kind": "Servise", "metadata": map[string]any{"name": "x", "namespace": namespace}}
	for name, o := range map[string]object{"date": wrong, "install": knative, "Servise": other} {
		var said strings.Builder
		err := deploy(t.Context(), s, []object{settings(namespace, "cn-d"), o}, true, false, &said)
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "nothing was changed") || there() != "cn-c" {
			t.Errorf("%s: %v, and there is %q", name, err, there())
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := deploy(ended, s, []object{settings(namespace, "cn-d")}, true, false, new(strings.Builder)); err == nil {
		t.Error("without an answer there was no error")
	}
}

// A namespace that is not there yet takes what comes with it.
func TestNewNamespace(t *testing.T) {
	c := cluster.Join(t)
	name := c.Namespace(t) + "-new"
	s, err := connect(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	all := []object{{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}, settings(name, "cn-a")}
	var dry, applied strings.Builder
	if err := deploy(t.Context(), s, all, false, false, &dry); err != nil || !strings.Contains(dry.String(), "2 objects would change") {
		t.Errorf("it said %q, %v", dry.String(), err)
	}
	if err := deploy(t.Context(), s, all, true, false, &applied); err != nil || !strings.Contains(applied.String(), "2 objects changed") {
		t.Errorf("it said %q, %v", applied.String(), err)
	}
}

// Knative refuses a Service whose ServiceAccount is not there, in a dry run too: the first
// installation, one for a new class and one that fails midway get by all the same.
func TestServiceAccounts(t *testing.T) {
	c := cluster.Alone(t)
	knative(t, c)
	s, err := connect(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	namespace := c.Namespace(t)
	o := options{root: "../..", registry: "registry.example/acme", tag: "v1", namespace: namespace, cluster: "c1", region: "cn-a", engineKeys: engineKeys}
	objects := func(without string) []object {
		t.Helper()
		all, err := o.objects()
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(all, func(m object) bool {
			// Roles and policies would stay in the cluster of the tests.
			cluster := m.text("metadata", "namespace") == "" && m.text("kind") != "Namespace"
			return cluster || without != "" && m.text("metadata", "labels", "lbremedy.io/class") == without
		})
	}
	run := func(all []object, doIt bool) (string, error) {
		var said strings.Builder
		err := deploy(t.Context(), s, all, doIt, false, &said)
		return said.String(), err
	}
	count := func(resource schema.GroupVersionResource) int {
		t.Helper()
		all, err := c.Dynamic().Resource(resource).Namespace(o.namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return len(all.Items)
	}
	accounts := schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}

	all := objects("")
	classes := (len(all) - 2) / 2
	dry := fmt.Sprintf("About %d of them the cluster can be asked only when", classes)
	if said, err := run(all, false); err != nil || !strings.Contains(said, dry) || count(services)+count(accounts) > 0 {
		t.Errorf("a dry run says %q, %v; there are %d functions", said, err, count(services))
	}
	// A mistake in what nobody can be asked about at once.
	wrong := objects("")
	wrong[len(wrong)-1]["metadata"].(map[string]any)["name"] = "Wrong"
	want := fmt.Sprintf("made were %d namespaces and ServiceAccounts, which stay, and nothing else was changed; call again", classes)
	if _, err := run(wrong, true); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "Service "+namespace+"/Wrong") ||
		count(services) > 0 {
		t.Errorf("with a mistake: %v; there are %d functions", err, count(services))
	}
	for _, step := range []struct {
		doing, without, said string
		functions            int
	}{
		{"go on, without a class", "tag-missing", fmt.Sprintf("%d objects changed", classes+1), classes - 1},
		{"again", "tag-missing", "0 objects changed", classes - 1},
	} {
		if said, err := run(objects(step.without), true); err != nil || !strings.Contains(said, step.said) || count(services) != step.functions {
			t.Errorf("%s: it said %q, %v; there are %d functions", step.doing, said, err, count(services))
		}
	}
	if err := c.Dynamic().Resource(accounts).Namespace(namespace).Delete(t.Context(), "lbremedy-tag-missing", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if said, err := run(all, true); err != nil || !strings.Contains(said, "2 objects changed") || count(services) != classes {
		t.Errorf("a new class: it said %q, %v; there are %d functions", said, err, count(services))
	}

	// From nothing, with a namespace of its own.
	o.namespace += "-new"
	if said, err := run(objects(""), true); err != nil || !strings.Contains(said, fmt.Sprintf("%d objects changed", len(all))) || count(services) != classes {
		t.Errorf("from nothing: it said %q, %v; there are %d functions", said, err, count(services))
	}
}

var services = schema.GroupVersionResource{Group: "serving.knative.dev", Version: "v1", Resource: "services"}

// knative puts the kind of Knative's Services into a cluster, and a webhook that looks
// their ServiceAccounts up, as Knative's own does.
func knative(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			Request struct {
				UID       string `json:"uid"`
				Namespace string `json:"namespace"`
				Object    object `json:"object"`
			} `json:"request"`
		}
		answer := map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
		err := json.NewDecoder(r.Body).Decode(&review)
		if err == nil {
			name := object(review.Request.Object.pod()).text("serviceAccountName")
			_, err = c.Client().CoreV1().ServiceAccounts(review.Request.Namespace).Get(r.Context(), name, metav1.GetOptions{})
		}
		response := map[string]any{"uid": review.Request.UID, "allowed": err == nil}
		if err != nil {
			response["status"] = map[string]any{"message": err.Error()}
		}
		answer["response"] = response
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(hook.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})
	create := func(group, resource string, o object) {
		t.Helper()
		if _, err := c.Dynamic().Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}).
			Create(t.Context(), &unstructured.Unstructured{Object: o}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create("apiextensions.k8s.io", "customresourcedefinitions", object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "services.serving.knative.dev"},
		"spec": map[string]any{
			"group": "serving.knative.dev", "scope": "Namespaced",
			"names": map[string]any{"kind": "Service", "plural": "services", "singular": "service"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	})
	create("admissionregistration.k8s.io", "validatingwebhookconfigurations", object{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": map[string]any{"name": "lbremedy-deploy-test"},
		"webhooks": []any{map[string]any{
			"name": "accounts.lbremedy.test", "admissionReviewVersions": []any{"v1"}, "sideEffects": "None", "failurePolicy": "Fail",
			"clientConfig": map[string]any{"url": hook.URL, "caBundle": base64.StdEncoding.EncodeToString(authority)},
			"rules": []any{map[string]any{
				"apiGroups": []any{"serving.knative.dev"}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE", "UPDATE"}, "resources": []any{"services"},
			}},
		}},
	})
	// Both take a moment to be in force.
	without := &unstructured.Unstructured{Object: object{
		"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": map[string]any{"name": "x", "namespace": "default"},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"serviceAccountName": "nobody"}}},
	}}
	var err error
	for err == nil || !strings.Contains(err.Error(), `"nobody" not found`) {
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
		_, err = c.Dynamic().Resource(services).Namespace("default").Create(t.Context(), without.DeepCopy(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
}

// The manifests get the names of the installation, and nothing of the plain ones stays.
func TestObjects(t *testing.T) {
	base := options{root: "../..", registry: "registry.example/acme", tag: "v1", namespace: "heal", cluster: "c1", region: "cn-a", engineKeys: engineKeys}
	limited, scaled := base, base
	limited.only = "shop"
	scaled.initialScale = "0"
	for name, o := range map[string]options{"whole": base, "limited": limited, "scaled": scaled} {
		t.Run(name, func(t *testing.T) {
			all, err := o.objects()
			if err != nil {
				t.Fatal(err)
			}
			count := map[string]int{}
			for _, m := range all {
				count[m.text("kind")]++
				text := shown(m)
				for _, not := range []string{"registry.invalid", ":VERSION", "ENGINE-KEYS", "NATS", `"namespace":"lbremedy"`, `"namespace":"default"`} {
					if strings.Contains(text, not) {
						t.Errorf("%s holds %s", m, not)
					}
				}
				if m.text("kind") == "Service" && strings.Contains(text, `"autoscaling.knative.dev/initial-scale":"0"`) != (o.initialScale != "") {
					t.Errorf("%s starts with another scale: %s", m, text)
				}
				if m.text("kind") == "ClusterRole" && m.text("metadata", "name") != "" && slices.Contains(others, m.text("metadata", "name")) {
					t.Errorf("%s is deployed, and is no function's", m)
				}
				if m.text("kind") == "Service" && !strings.Contains(text, `{"name":"LBREMEDY_ENGINE_KEYS","value":"`+engineKeys+`"}`) {
					t.Errorf("%s accepts no engine: %s", m, text)
				}
				if m.text("kind") == "ConfigMap" && (m.text("data", "ALIBABA_CLOUD_VPC_ENDPOINT_ENABLED") != "true" ||
					m.text("data", "ALIBABA_CLOUD_STS_REGION") != "cn-a") {
					t.Errorf("STS is not asked inside the VPC: %s", text)
				}
				if m.pod() != nil && !strings.Contains(text, `"image":"registry.example/acme/`) {
					t.Errorf("%s has another image: %s", m, text)
				}
			}
			classes := count["Service"]
			if classes < 30 || count["ServiceAccount"] != classes || count["ClusterRoleBinding"] != classes || (count["RoleBinding"] > 0) != (o.only != "") {
				t.Errorf("the objects are %v", count)
			}
		})
	}
	good := options{root: "../..", registry: "r", tag: "v1", cluster: "c", region: "r", engineKeys: engineKeys}
	for want, alter := range map[string]func(*options){
		"registry of the images": func(o *options) { o.registry = "" },
		"name the tag":           func(o *options) { o.tag = "" },
		"name the ACK cluster":   func(o *options) { o.cluster = "" },
		"its region":             func(o *options) { o.region = "" },
		"engine's public keys":   func(o *options) { o.engineKeys = "" },
		"is not an Ed25519 key":  func(o *options) { o.engineKeys = "-----BEGIN" },
		`instances, not "none"`:  func(o *options) { o.initialScale = "none" },
		"read the manifests":     func(o *options) { o.root = "nowhere" },
	} {
		o := good
		alter(&o)
		if _, err := o.objects(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", o, err, want)
		}
	}
}

// With the digests of make images each image is named by its own; one that has none is
// an error.
func TestDigests(t *testing.T) {
	o := options{root: "../..", registry: "registry.example/acme", tag: "v1", namespace: "heal", cluster: "c1", region: "cn-a", engineKeys: engineKeys}
	classes, err := os.ReadFile("../cluster/classes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text, digests := "image:\n  tag: \"v1\"\n  digests:\n    exporter: sha256:00\n", map[string]string{}
	for line := range strings.Lines(string(classes)) {
		if class, ok := strings.CutPrefix(strings.TrimSpace(line), "- "); ok {
			digests[class] = fmt.Sprintf("sha256:%064x", len(digests))
			text += "    " + class + ": " + digests[class] + "\n"
		}
	}
	o.digests = filepath.Join(t.TempDir(), "digests.yaml")
	if err := os.WriteFile(o.digests, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	objects, err := o.objects()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range objects {
		if m.text("kind") != "Service" {
			continue
		}
		class := m.text("metadata", "labels", "lbremedy.io/class")
		all, err := yaml.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if want := "image: registry.example/acme/" + class + "@" + digests[class] + "\n"; !strings.Contains(string(all), want) {
			t.Errorf("%s has no %q", m, want)
		}
	}
	for name, text := range map[string]string{"no digest of": "image: {digests: {busy: 'sha256:00'}}",
		"line 1: images: there is no such field; there are image": "images: {}", "read the digests": ""} {
		if text == "" {
			o.digests = filepath.Join(t.TempDir(), "nowhere")
		} else if err := os.WriteFile(o.digests, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := o.objects(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("digests %q: got %v, want an error with %q", text, err, name)
		}
	}
}
