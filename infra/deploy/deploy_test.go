package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/test/cluster"
)

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

// The manifests get the names of the installation, and nothing of the plain ones stays.
func TestObjects(t *testing.T) {
	base := options{root: "../..", registry: "registry.example/acme", tag: "v1", namespace: "heal", cluster: "c1", region: "cn-a", nats: "tls://nats:4222",
		delivery: "courier"}
	limited, broker, cron := base, base, base
	limited.only = "shop"
	broker.delivery = "broker"
	broker.doctor = "pingsource"
	cron.doctor, cron.schedule = "cronjob", "3 4 * * *"
	for name, o := range map[string]options{"courier": base, "limited": limited, "broker": broker, "cronjob": cron} {
		t.Run(name, func(t *testing.T) {
			all, err := o.objects()
			if err != nil {
				t.Fatal(err)
			}
			count := map[string]int{}
			for _, m := range all {
				count[m.text("kind")]++
				text := shown(m)
				for _, not := range []string{"registry.invalid", ":VERSION", `"namespace":"lbremedy"`, `"namespace":"default"`} {
					if strings.Contains(text, not) {
						t.Errorf("%s holds %s", m, not)
					}
				}
				if (m.text("kind") == "CronJob" || m.text("kind") == "PingSource") && strings.Contains(text, `"schedule":"3 4 * * *"`) != (o.schedule != "") {
					t.Errorf("%s has another schedule: %s", m, text)
				}
				ofDoctor := m.text("metadata", "labels", "lbremedy.io/class") == "doctor" || m.text("metadata", "name") == "lbremedy-doctor"
				if ofDoctor && o.doctor == "" {
					t.Errorf("%s is deployed, and nobody has asked for the doctor", m)
				}
				if m.text("kind") == "Service" && strings.Contains(text, "lbremedy-endpoint") != (o.delivery == "courier") {
					t.Errorf("%s with the %s: %s", m, o.delivery, text)
				}
				if m.pod() != nil && !strings.Contains(text, `"image":"registry.example/acme/`) {
					t.Errorf("%s has another image: %s", m, text)
				}
			}
			functions, classes := count["Service"]+count["CronJob"], count["Service"]-count["PingSource"]
			if classes < 30 || count["ServiceAccount"] != functions || count["Trigger"] != map[string]int{"broker": classes}[o.delivery] ||
				count["ClusterRoleBinding"] != functions || (count["RoleBinding"] > 0) != (o.only != "") ||
				count["CronJob"] != map[string]int{"cronjob": 1}[o.doctor] || count["PingSource"] != map[string]int{"pingsource": 1}[o.doctor] {
				t.Errorf("the objects are %v", count)
			}
		})
	}
	good := options{root: "../..", registry: "r", tag: "v1", cluster: "c", region: "r", delivery: "courier"}
	for want, alter := range map[string]func(*options){
		"registry of the images": func(o *options) { o.registry = "" },
		"name the tag":           func(o *options) { o.tag = "" },
		"name the ACK cluster":   func(o *options) { o.cluster = "" },
		"its region":             func(o *options) { o.region = "" },
		`not "pigeon"`:           func(o *options) { o.delivery = "pigeon" },
		`not by "bell"`:          func(o *options) { o.doctor = "bell" },
		"the schedule is":        func(o *options) { o.schedule = "1 * * * *" },
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
	o := options{root: "../..", registry: "registry.example/acme", tag: "v1", namespace: "heal", cluster: "c1", region: "cn-a", nats: "tls://nats:4222",
		delivery: "courier"}
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
