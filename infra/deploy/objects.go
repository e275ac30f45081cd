package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/shared/config"
	"github.com/lbremedy/lbremedy/shared/hand"
)

// options say what is deployed, and where.
type options struct {
	root, registry, tag, digests, namespace, cluster, region, engineKeys, only, initialScale string
	apply, force                                                                             bool
}

// An object is one of Kubernetes's.
type object map[string]any

// pod returns the spec of the Pods that the object makes; nil if it makes none.
func (o object) pod() map[string]any {
	if o.text("kind") != "Service" {
		return nil
	}
	return o["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
}

// text returns a field of the object that holds a text, or nothing.
func (o object) text(path ...string) string {
	var at any = map[string]any(o)
	for _, p := range path {
		m, ok := at.(map[string]any)
		if !ok {
			return ""
		}
		at = m[p]
	}
	s, _ := at.(string)
	return s
}

// needs returns what has to be in the cluster before the API server can be asked about
// the object: its namespace, and the ServiceAccount of its Pods, by their names.
func (o object) needs() []string {
	namespace := o.text("metadata", "namespace")
	if namespace == "" {
		return nil
	}
	all := []string{"Namespace " + namespace}
	if name := object(o.pod()).text("serviceAccountName"); name != "" {
		all = append(all, "ServiceAccount "+namespace+"/"+name)
	}
	return all
}

// waits reports whether something that the object needs is missing.
func (o object) waits(missing map[string]bool) bool {
	return slices.ContainsFunc(o.needs(), func(name string) bool { return missing[name] })
}

func (o object) String() string {
	name := o.text("metadata", "name")
	if ns := o.text("metadata", "namespace"); ns != "" {
		name = ns + "/" + name
	}
	return o.text("kind") + " " + name
}

// others are the ClusterRoles of the manifests that no function has.
var others = []string{"lbremedy-exporter", "lbremedy-up", "lbremedy-engine", "lbremedy-notifier", "lbremedy-doctor", "lbremedy-chat", "lbremedy-probe"}

// objects returns what is to be in the cluster, in the order in which it can be made.
func (o options) objects() ([]object, error) {
	var errs []error
	for _, need := range []struct{ what, value string }{
		{"the registry of the images with -registry", o.registry}, {"the ACK cluster with -cluster", o.cluster}, {"its region with -region", o.region},
		{"the engine's public keys with -engine-keys", o.engineKeys},
	} {
		if need.value == "" {
			errs = append(errs, fmt.Errorf("name %s", need.what))
		}
	}
	if o.tag == "" && o.digests == "" {
		errs = append(errs, errors.New("name the tag of the images with -tag, or the file of their digests with -digests"))
	}
	if n, err := strconv.Atoi(o.initialScale); o.initialScale != "" && (err != nil || n < 0) {
		errs = append(errs, fmt.Errorf("the initial scale is a number of instances, not %q", o.initialScale))
	}
	if o.engineKeys != "" {
		_, err := hand.ParsePublicKeys(o.engineKeys)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	named, err := o.named()
	if err != nil {
		return nil, err
	}
	all := []object{{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": o.namespace, "labels": map[string]any{"pod-identity.alibabacloud.com/injection": "on"}},
	}, {
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "lbremedy", "namespace": o.namespace, "labels": map[string]any{"app.kubernetes.io/part-of": "lbremedy"}},
		"data": map[string]any{
			"LBREMEDY_CLUSTER": o.cluster, "LBREMEDY_REGION": o.region, "LBREMEDY_CLOUD_VPC": "true",
			"ALIBABA_CLOUD_VPC_ENDPOINT_ENABLED": "true", "ALIBABA_CLOUD_STS_REGION": o.region, // for the SDK, which asks STS for the role
		},
	}}
	files := []string{"cluster/rbac.yaml", "cluster/admission.yaml", "knative/bindings.yaml", "knative/services.yaml"}
	if o.only != "" {
		files = []string{"cluster/rbac.yaml", "cluster/rbac-parts.yaml", "cluster/admission.yaml", "knative/namespaced.yaml", "knative/services.yaml"}
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(o.root, "infra", file))
		if err != nil {
			return nil, fmt.Errorf("read the manifests: %w", err)
		}
		for doc := range strings.SplitSeq(string(text), "\n---\n") {
			var m object
			if err := yaml.Unmarshal([]byte(doc), &m); err != nil {
				return nil, fmt.Errorf("read %s: %w", file, err)
			}
			role, _, _ := strings.Cut(m.text("metadata", "name"), ".")
			if len(m) == 0 || m.text("kind") == "ClusterRole" && slices.Contains(others, role) {
				continue // comments, and what no function has
			}
			if err := o.place(m, named); err != nil {
				return nil, fmt.Errorf("read %s: %w", file, err)
			}
			all = append(all, m)
		}
	}
	return all, nil
}

// named returns what names an image after its repository: its digest, if a file has
// them, and else the tag of all.
func (o options) named() (func(image string) (string, error), error) {
	if o.digests == "" {
		return func(string) (string, error) { return ":" + o.tag, nil }, nil
	}
	text, err := os.ReadFile(o.digests)
	if err != nil {
		return nil, fmt.Errorf("read the digests of the images: %w", err)
	}
	var values struct {
		Image struct {
			Tag     string            `json:"tag"`
			Digests map[string]string `json:"digests"`
		} `json:"image"`
	}
	doc, err := config.Decode(text, &values)
	if err == nil {
		err = doc.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("read the digests of the images in %s: %w", o.digests, err)
	}
	return func(image string) (string, error) {
		digest, ok := values.Image.Digests[image]
		if !ok {
			return "", fmt.Errorf("%s has no digest of %s: make images builds the images of all classes", o.digests, image)
		}
		return "@" + digest, nil
	}, nil
}

// place puts the names of this installation into an object.
func (o options) place(m object, named func(image string) (string, error)) error {
	meta := m["metadata"].(map[string]any)
	switch meta["namespace"] {
	case "lbremedy":
		meta["namespace"] = o.namespace
	case "default":
		meta["namespace"] = o.only
	}
	subjects, _ := m["subjects"].([]any)
	for _, s := range subjects {
		s.(map[string]any)["namespace"] = o.namespace
	}
	spec := m.pod()
	if spec == nil {
		return nil
	}
	if o.initialScale != "" {
		template := m["spec"].(map[string]any)["template"].(map[string]any)
		template["metadata"].(map[string]any)["annotations"].(map[string]any)["autoscaling.knative.dev/initial-scale"] = o.initialScale
	}
	for _, c := range spec["containers"].([]any) {
		container := c.(map[string]any)
		name, _, _ := strings.Cut(filepath.Base(container["image"].(string)), ":")
		version, err := named(name)
		if err != nil {
			return err
		}
		container["image"] = o.registry + "/" + name + version
		for _, v := range container["env"].([]any) {
			if variable := v.(map[string]any); variable["name"] == "LBREMEDY_ENGINE_KEYS" {
				variable["value"] = o.engineKeys
			}
		}
	}
	return nil
}
