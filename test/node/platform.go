package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

var knativeSettings = map[string]map[string]string{
	"config-network": {"ingress-class": ingressClass},
	// The tag resolver runs in a Pod, which cannot reach the node's registry.
	"config-deployment": {"registries-skipping-tag-resolving": "lbremedy.local," + registryAt, "queue-sidecar-image": "lbremedy.local/knative-queue:1"},
	// The defaults are too long for a test.
	"config-autoscaler": {"allow-zero-initial-scale": "true", "stable-window": "6s", "scale-to-zero-grace-period": "6s"},
}

func installKnative(ctx context.Context, dir string) error {
	kinds := filepath.Join(dir, "bin/knative-kinds.yaml")
	if _, err := os.Stat(kinds); err != nil {
		return fmt.Errorf("the node has no Knative: sandbox node --platform: %w", err)
	}
	if _, err := kubectl(ctx, "apply", "--server-side", "-f", kinds); err != nil {
		return err
	}
	if _, err := kubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s", "customresourcedefinitions", "--all"); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, "bin/knative.yaml"))
	if err != nil {
		return fmt.Errorf("read the objects of Knative: %w", err)
	}
	objects, err := settle(text)
	if err != nil {
		return err
	}
	if _, err := run(ctx, bytes.NewReader(objects), "kubectl", "apply", "--server-side", "-f", "-"); err != nil {
		return err
	}
	for _, name := range []string{"activator", "autoscaler", "controller", "webhook"} {
		if err := rollout(ctx, "knative-serving", "deployment/"+name); err != nil {
			return err
		}
	}
	// The webhook writes its certificate into its configuration after its start.
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		_, err := run(ctx, strings.NewReader(`
apiVersion: serving.knative.dev/v1
kind: Service
metadata: {name: probe, namespace: default}
spec: {template: {spec: {containers: [{image: lbremedy.local/pause:1}]}}}
`), "kubectl", "create", "--dry-run=server", "-f", "-")
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for Knative to take Services: %w", errors.Join(ctx.Err(), err))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func settle(text []byte) ([]byte, error) {
	var out bytes.Buffer
	for doc := range strings.SplitSeq(string(text), "\n---") {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			return nil, fmt.Errorf("read an object of Knative: %w", err)
		}
		if o == nil {
			continue // a license
		}
		meta, _ := o["metadata"].(map[string]any)
		name, _ := meta["name"].(string)
		if settings, ok := knativeSettings[name]; ok && o["kind"] == "ConfigMap" {
			o["data"] = settings
			delete(meta, "annotations") // checksum of the removed example
		}
		data, err := yaml.Marshal(o)
		if err != nil {
			return nil, fmt.Errorf("write an object of Knative: %w", err)
		}
		fmt.Fprintf(&out, "---\n%s", data)
	}
	return out.Bytes(), nil
}

func rollout(ctx context.Context, namespace, what string) error {
	_, err := kubectl(ctx, "-n", namespace, "rollout", "status", what, "--timeout=300s")
	if err == nil || ctx.Err() != nil {
		return err
	}
	pods, _ := kubectl(ctx, "-n", namespace, "describe", "pods")
	log, _ := kubectl(ctx, "-n", namespace, "logs", what, "--tail=20", "--all-containers")
	return fmt.Errorf("%w\n%s\n%s", err, pods, log)
}

// natsAddress is the address of NATS's Service. The certificate includes it, for programs on the node.
const natsAddress = "10.96.0.42"

// A natsValues is infra/nats/values.yaml, the values of NATS's chart. Unknown keys are errors, so that all values are respected.
type natsValues struct {
	TLSCA  enabled `json:"tlsCA"`
	Config struct {
		Cluster struct {
			Enabled  bool    `json:"enabled"`
			Replicas int     `json:"replicas"`
			TLS      enabled `json:"tls"`
		} `json:"cluster"`
		JetStream struct {
			Enabled   bool `json:"enabled"`
			FileStore struct {
				Enabled bool `json:"enabled"`
				PVC     struct {
					Enabled          bool   `json:"enabled"`
					Size             string `json:"size"`
					StorageClassName string `json:"storageClassName"`
				} `json:"pvc"`
			} `json:"fileStore"`
			MemoryStore enabled        `json:"memoryStore"`
			Merge       map[string]any `json:"merge"`
		} `json:"jetstream"`
		NATS struct {
			TLS enabled `json:"tls"`
		} `json:"nats"`
		Monitor enabled `json:"monitor"`
		Merge   struct {
			Include string `json:"00$include"`
		} `json:"merge"`
	} `json:"config"`
	Container struct {
		Env   map[string]string `json:"env"`
		Patch []patch           `json:"patch"`
		Merge map[string]any    `json:"merge"`
	} `json:"container"`
	Reloader    map[string]any `json:"reloader"` // a program of NATS that is not installed here
	PodTemplate struct {
		TopologySpreadConstraints map[string]map[string]any `json:"topologySpreadConstraints"`
		Patch                     []patch                   `json:"patch"`
		Merge                     struct {
			Spec map[string]any `json:"spec"`
		} `json:"merge"`
	} `json:"podTemplate"`
	PodDisruptionBudget enabled `json:"podDisruptionBudget"`
	NATSBox             enabled `json:"natsBox"`
}

type enabled struct {
	Enabled    bool   `json:"enabled"`
	SecretName string `json:"secretName"`
}

// A patch appends to a list; other operations are not supported.
type patch struct {
	Op    string         `json:"op"`
	Path  string         `json:"path"`
	Value map[string]any `json:"value"`
}

// natsObjects returns what NATS's chart, which is not available as a module, creates from the values according to its documentation.
func natsObjects(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, "infra/nats/values.yaml"))
	if err != nil {
		return nil, fmt.Errorf("read the values of NATS: %w", err)
	}
	var v natsValues
	if err := yaml.UnmarshalStrict(text, &v); err != nil {
		return nil, fmt.Errorf("read the values of NATS: %w", err)
	}
	for _, p := range append(v.Container.Patch, v.PodTemplate.Patch...) {
		if p.Op != "add" || !strings.HasSuffix(p.Path, "/-") {
			return nil, fmt.Errorf("the values of NATS have a patch that is not known here: %s %s", p.Op, p.Path)
		}
	}
	type object = map[string]any
	var routes []string
	for i := range v.Config.Cluster.Replicas {
		routes = append(routes, fmt.Sprintf("tls://nats-%d.nats-headless:6222", i))
	}
	stream := object{"store_dir": "/data", "max_file_store": v.Config.JetStream.FileStore.PVC.Size, "max_memory_store": 0}
	maps.Copy(stream, v.Config.JetStream.Merge)
	certificates := func(kind string) object {
		folder := "/etc/nats-certs/" + kind
		return object{"cert_file": folder + "/tls.crt", "key_file": folder + "/tls.key", "ca_file": "/etc/nats-ca-cert/ca.crt"}
	}
	mutual := certificates("cluster")
	mutual["verify"] = true
	// Variables and sizes are not quoted in NATS's configuration.
	file := fmt.Sprintf("server_name: $SERVER_NAME\nport: 4222\nhttp_port: 8222\ninclude %s\n", v.Config.Merge.Include)
	for _, section := range []struct {
		name string
		is   object
	}{
		{"jetstream", stream}, {"tls", certificates("nats")},
		{"cluster", object{"name": "nats", "port": 6222, "no_advertise": true, "routes": routes, "tls": mutual}},
	} {
		data, err := json.Marshal(section.is)
		if err != nil {
			return nil, fmt.Errorf("write the configuration of NATS: %w", err)
		}
		file += fmt.Sprintf("%s: %s\n", section.name, data)
	}
	size := v.Config.JetStream.FileStore.PVC.Size
	file = strings.ReplaceAll(file, `"`+size+`"`, size)

	labels := object{"app.kubernetes.io/name": "nats", "app.kubernetes.io/component": "nats", "app.kubernetes.io/instance": "nats"}
	env := []object{{"name": "SERVER_NAME", "valueFrom": object{"fieldRef": object{"fieldPath": "metadata.name"}}}}
	for k, x := range v.Container.Env {
		env = append(env, object{"name": k, "value": x})
	}
	mounts := []any{
		object{"name": "config", "mountPath": "/etc/nats-config"}, object{"name": "data", "mountPath": "/data"},
		object{"name": "ca", "mountPath": "/etc/nats-ca-cert"},
		object{"name": "nats-tls", "mountPath": "/etc/nats-certs/nats"}, object{"name": "cluster-tls", "mountPath": "/etc/nats-certs/cluster"},
	}
	for _, p := range v.Container.Patch {
		mounts = append(mounts, p.Value)
	}
	volumes := []any{
		object{"name": "config", "configMap": object{"name": "nats-config"}}, object{"name": "ca", "secret": object{"secretName": v.TLSCA.SecretName}},
		object{"name": "nats-tls", "secret": object{"secretName": v.Config.NATS.TLS.SecretName}},
		object{"name": "cluster-tls", "secret": object{"secretName": v.Config.Cluster.TLS.SecretName}},
	}
	for _, p := range v.PodTemplate.Patch {
		volumes = append(volumes, p.Value)
	}
	probe := func(path string, failures int) object {
		get := object{"path": path, "port": "monitor"}
		return object{"httpGet": get, "periodSeconds": 1, "timeoutSeconds": 5, "failureThreshold": failures}
	}
	container := object{
		"name": "nats", "image": "lbremedy.local/nats-server:1", "imagePullPolicy": "Never", "args": []string{"--config", "/etc/nats-config/nats.conf"},
		"env": env, "volumeMounts": mounts,
		"ports":        []object{{"name": "nats", "containerPort": 4222}, {"name": "cluster", "containerPort": 6222}, {"name": "monitor", "containerPort": 8222}},
		"startupProbe": probe("/healthz", 90), "readinessProbe": probe("/healthz?js-server-only=true", 3),
	}
	maps.Copy(container, v.Container.Merge)
	var spread []any
	for key, c := range v.PodTemplate.TopologySpreadConstraints {
		c["topologyKey"], c["labelSelector"] = key, object{"matchLabels": labels}
		spread = append(spread, c)
	}
	pod := object{"enableServiceLinks": false, "containers": []object{container}, "volumes": volumes, "topologySpreadConstraints": spread}
	maps.Copy(pod, v.PodTemplate.Merge.Spec)
	meta := func(name string) object { return object{"name": name, "namespace": namespace, "labels": labels} }
	pvc := v.Config.JetStream.FileStore.PVC
	var out bytes.Buffer
	for _, o := range []object{
		{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta("nats-config"), "data": object{"nats.conf": file}},
		{"apiVersion": "v1", "kind": "Service", "metadata": meta("nats"), "spec": object{
			"clusterIP": natsAddress, "selector": labels, "ports": []object{{"name": "nats", "port": 4222, "targetPort": "nats"}},
		}},
		{"apiVersion": "v1", "kind": "Service", "metadata": meta("nats-headless"), "spec": object{
			"clusterIP": "None", "publishNotReadyAddresses": true, "selector": labels,
			"ports": []object{{"name": "nats", "port": 4222, "targetPort": "nats"}, {"name": "cluster", "port": 6222, "targetPort": "cluster"}},
		}},
		{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta("nats"), "spec": object{
			"maxUnavailable": 1, "selector": object{"matchLabels": labels},
		}},
		{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta("nats"), "spec": object{
			"serviceName": "nats-headless", "replicas": v.Config.Cluster.Replicas, "podManagementPolicy": "Parallel",
			"selector": object{"matchLabels": labels},
			"template": object{"metadata": object{"labels": labels}, "spec": pod},
			"volumeClaimTemplates": []object{{"metadata": object{"name": "data"}, "spec": object{
				"accessModes": []string{"ReadWriteOnce"}, "storageClassName": pvc.StorageClassName,
				"resources": object{"requests": object{"storage": pvc.Size}},
			}}},
		}},
	} {
		data, err := yaml.Marshal(o)
		if err != nil {
			return nil, fmt.Errorf("write the objects of NATS: %w", err)
		}
		fmt.Fprintf(&out, "---\n%s", data)
	}
	return out.Bytes(), nil
}
