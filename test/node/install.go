package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Where the chart is installed, as in infra/cluster/README.md.
const (
	namespace = "lbremedy"
	release   = "lbremedy"
)

func run(ctx context.Context, stdin io.Reader, name string, args ...string) (string, error) {
	var out, log bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &log
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, strings.TrimSpace(log.String()+"\n"+out.String()))
	}
	return out.String(), nil
}

func kubectl(ctx context.Context, args ...string) (string, error) {
	return run(ctx, nil, "kubectl", args...)
}

func apply(ctx context.Context, objects string) error {
	_, err := run(ctx, strings.NewReader(objects), "kubectl", "apply", "-f", "-")
	return err
}

// prepare creates the chart's prerequisites: a namespace that enforces the strictest Pod security standard, and disks.
func prepare(ctx context.Context, dir string, disks int) error {
	objects := `
apiVersion: v1
kind: Namespace
metadata: {name: ` + namespace + `, labels: {pod-security.kubernetes.io/enforce: restricted}}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: alicloud-disk-topology-alltype}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
`
	for i := range disks {
		name := fmt.Sprintf("disk-%d", i)
		disk := filepath.Join(dir, "run", name)
		if err := os.Mkdir(disk, 0o755); err != nil {
			return fmt.Errorf("make a disk: %w", err)
		}
		objects += `---
apiVersion: v1
kind: PersistentVolume
metadata: {name: ` + name + `}
spec:
  capacity: {storage: 20Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: alicloud-disk-topology-alltype
  local: {path: ` + disk + `}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node]}]}]}}
`
	}
	return apply(ctx, objects)
}

// values returns a file of chart values for a release. The cluster's certificate authority signs for the simulated Alibaba Cloud.
func values(dir string) (string, error) {
	type object = map[string]any
	data, err := json.Marshal(object{
		"cluster": clusterID, "region": region, "image": object{"registry": images},
		"rrsa":                   object{"provider": "acs:ram::" + accountID + ":oidc-provider/" + provider, "account": accountID},
		"certificateAuthorities": object{"configMap": "kube-root-ca.crt"},
		// Here a whole cluster fails on purpose; by default lbremedy writes to at most three Services of so few in an hour.
		"policy": object{"mode": "fix", "risk": "low", "budgets": object{"class": 1000, "share": "100%", "least": 1000}},
	})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "run", "values.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return "", fmt.Errorf("write the values: %w", err)
	}
	return file, nil
}

// helm installs or upgrades a chart with these values. A chart in a registry includes its version.
func helm(ctx context.Context, chart []string, files ...string) error {
	args := append([]string{"upgrade", "--install", release, "--namespace", namespace}, chart...)
	for _, f := range files {
		args = append(args, "-f", f)
	}
	_, err := run(ctx, nil, "helm", args...)
	return err
}

func install(ctx context.Context, chart []string, files ...string) error {
	if err := helm(ctx, chart, files...); err != nil {
		return err
	}
	return rolledOut(ctx)
}

func rolledOut(ctx context.Context) error { return rollout(ctx, namespace, "deployment/lbremedy-up") }

func inPod(ctx context.Context, args ...string) (string, error) {
	return kubectl(ctx, append([]string{"-n", namespace, "exec", "deployment/lbremedy-up", "-c", "up", "--", "lbremedy"}, args...)...)
}
