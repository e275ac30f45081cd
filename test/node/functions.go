package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/test/pages"
)

var chosen = []string{"busy", "tag-missing", "throttling", "vswitch-ip-exhausted", "vswitch-not-found"}

type platformNode struct {
	*node
	keys    string // folder of the NATS users' keys
	program string // the operator's
	ingress *ingress
	key     string // the engine's public key
	closers []io.Closer
}

// joinPlatform returns the node, with Knative, NATS and its streams, and a registry with the release. It reports how long each took.
func joinPlatform(ctx context.Context, s *screen) (*platformNode, error) {
	n, err := join(ctx)
	if err != nil {
		return nil, err
	}
	p := &platformNode{node: n, keys: filepath.Join(n.dir, "run/keys"), program: filepath.Join(n.root, "bin/lbremedy")}
	n.lbremedy = p.asOperator
	if p.ingress, err = openIngress(ctx, n.kube); err != nil {
		return nil, err
	}
	identity, err := openPodIdentity(ctx, n.dir, n.kube)
	if err != nil {
		return nil, err
	}
	p.closers = append(p.closers, identity)
	for _, part := range []struct {
		name, what string
		do         func(context.Context) error
	}{
		{"Registry", images + ": images and chart, pushed", func(ctx context.Context) error { return n.push(ctx, "") }},
		{"Knative", "Serving v0.50.0, ready for Services", func(ctx context.Context) error { return installKnative(ctx, n.dir) }},
		{"NATS", "three Pods with TLS and accounts, ready", p.installNATS},
		{"Streams", "made by lbremedy up --setup", p.setup},
	} {
		began := time.Now()
		if err := part.do(ctx); err != nil {
			return nil, err
		}
		s.fact(part.name, "%s in %.1f s", part.what, time.Since(began).Seconds())
	}
	return p, nil
}

func (p *platformNode) Close() {
	for _, c := range p.closers {
		c.Close()
	}
	p.ingress.Close()
	p.node.Close()
}

// asOperator runs the operator's program as infra/knative/README.md describes: with the operator's key, and NATS by its Service's address.
func (p *platformNode) asOperator(ctx context.Context, args ...string) (string, error) {
	var out, log bytes.Buffer
	cmd := exec.CommandContext(ctx, p.program, append(args, "--cluster", clusterID)...)
	cmd.Env = append(os.Environ(), "LBREMEDY_NATS=tls://"+natsAddress+":4222", "LBREMEDY_NATS_CA="+filepath.Join(p.keys, "ca.crt"),
		"LBREMEDY_NATS_NKEY="+filepath.Join(p.keys, "operator.seed"), "LBREMEDY_LANGUAGE=en")
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("lbremedy %s: %w\n%s", strings.Join(args, " "), err, strings.TrimSpace(log.String()+"\n"+out.String()))
	}
	return out.String(), nil
}

func (p *platformNode) inRepository(ctx context.Context, name string, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = p.root
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out.String())
	}
	return out.String(), nil
}

// installNATS creates the namespace, which enforces the strictest Pod security standard, the engine's key, the NATS keys and
// certificates (infra/keys), and NATS (infra/nats/values.yaml).
func (p *platformNode) installNATS(ctx context.Context) error {
	if err := prepare(ctx, p.dir, 3); err != nil {
		return err
	}
	if _, err := kubectl(ctx, "label", "namespace", namespace, "pod-identity.alibabacloud.com/injection=on"); err != nil {
		return err
	}
	if _, err := p.inRepository(ctx, "go", "run", "./infra/keys", "-dir", p.keys, "-cluster", clusterID); err != nil {
		return err
	}
	if err := p.certify(ctx); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"-n", namespace, "create", "secret", "generic", "lbremedy-nats-users", "--from-file=" + filepath.Join(p.keys, "accounts.conf"),
			"--from-file=" + filepath.Join(p.keys, "keys.conf")},
		{"-n", namespace, "create", "secret", "generic", "lbremedy-nats-engine", "--from-file=seed=" + filepath.Join(p.keys, "engine.seed")},
		{"-n", namespace, "create", "secret", "generic", "lbremedy-nats-console", "--from-file=seed=" + filepath.Join(p.keys, "console.seed")},
		{"-n", namespace, "create", "secret", "generic", "lbremedy-nats-exporter", "--from-file=seed=" + filepath.Join(p.keys, "exporter-"+clusterID+".seed")},
		{"-n", namespace, "create", "secret", "generic", "lbremedy-nats-ca", "--from-file=" + filepath.Join(p.keys, "ca.crt")},
		{"-n", namespace, "create", "secret", "tls", "lbremedy-nats-tls", "--cert=" + filepath.Join(p.keys, "tls.crt"), "--key=" + filepath.Join(p.keys, "tls.key")},
	} {
		if _, err := kubectl(ctx, args...); err != nil {
			return err
		}
	}
	file := filepath.Join(p.keys, "engine.pem")
	public, err := run(ctx, nil, p.program, "keys", file)
	if err != nil {
		return err
	}
	p.key = strings.TrimSpace(public)
	if _, err := kubectl(ctx, "-n", namespace, "create", "secret", "generic", "lbremedy-engine", "--from-file="+file); err != nil {
		return err
	}
	objects, err := natsObjects(p.root)
	if err != nil {
		return err
	}
	if _, err := run(ctx, bytes.NewReader(objects), "kubectl", "apply", "-f", "-"); err != nil {
		return err
	}
	return rollout(ctx, namespace, "statefulset/nats")
}

func (p *platformNode) certify(ctx context.Context) error {
	const page = "infra/nats/README.md"
	text, err := os.ReadFile(filepath.Join(p.root, page))
	if err != nil {
		return fmt.Errorf("read how certificates are made: %w", err)
	}
	commands, _ := pages.Read(page, string(text))
	for _, c := range commands {
		if !strings.HasPrefix(c.Text, "openssl ") {
			continue
		}
		if _, err := p.inRepository(ctx, "sh", "-c", strings.NewReplacer(" keys/", " "+p.keys+"/", "IP:127.0.0.1", "IP:"+natsAddress).Replace(c.Text)); err != nil {
			return err
		}
	}
	return nil
}

// setup creates the streams once NATS is available: its Pods can be ready before kube-proxy knows them, and before they have a leader.
func (p *platformNode) setup(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		_, err := p.asOperator(ctx, "up", "--setup", "--replicas", "3")
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// withFunctions writes chart values with functions on Knative and two Pods of lbremedy up, and further values of knative, to a file.
func (p *platformNode) withFunctions(name string, knative map[string]any) (string, error) {
	type object = map[string]any
	f := object{
		"engineKeys": []string{p.key}, "classes": chosen,
		// The default of two minutes is too long for a test.
		"scaling": object{"autoscaling.knative.dev/scale-to-zero-pod-retention-period": "0s"},
	}
	maps.Copy(f, knative)
	data, err := json.Marshal(object{
		"cluster": clusterID, "region": region, "image": object{"registry": images},
		"nats":                   object{"url": "tls://nats." + namespace + ".svc:4222"},
		"certificateAuthorities": object{"configMap": "kube-root-ca.crt"},
		"functions":              "knative",
		"knative":                f,
		"up":                     object{"replicas": 2},
		"policy": object{
			"mode": "fix", "risk": "low", "budgets": object{"class": 1000, "share": "100%", "least": 1000},
			"tell": []object{{"name": "events", "kind": "event"}},
		},
	})
	if err != nil {
		return "", err
	}
	file := filepath.Join(p.dir, "run", name+".json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return "", fmt.Errorf("write the values: %w", err)
	}
	return file, nil
}

func (p *platformNode) installFunctions(ctx context.Context, values string) error {
	if err := install(ctx, p.chart(), values); err != nil {
		return err
	}
	return p.functionsReady(ctx)
}

func (p *platformNode) functionsReady(ctx context.Context) error {
	_, err := kubectl(ctx, "-n", namespace, "wait", "services.serving.knative.dev", "--all", "--for=condition=Ready", "--timeout=300s")
	if err == nil || ctx.Err() != nil {
		return err
	}
	services, _ := kubectl(ctx, "-n", namespace, "get", "-o", "yaml", "services.serving.knative.dev,podautoscalers")
	pods, _ := kubectl(ctx, "-n", namespace, "describe", "pods", "-l", "app.kubernetes.io/component=function")
	return fmt.Errorf("%w\n%s\n%s", err, services, pods)
}

func (p *platformNode) instances(ctx context.Context, class string) (int, error) {
	out, err := kubectl(ctx, "-n", namespace, "get", "pods", "-l", "serving.knative.dev/service=lbremedy-"+class, "-o",
		`jsonpath={range .items[*]}{.metadata.deletionTimestamp}{"\n"}{end}`)
	count := 0
	for line := range strings.Lines(out) {
		if strings.TrimSpace(line) == "" {
			count++
		}
	}
	return count, err
}

func (p *platformNode) asleep(ctx context.Context, class string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		// A terminating instance still answers.
		out, err := kubectl(ctx, "-n", namespace, "get", "pods", "-l", "serving.knative.dev/service=lbremedy-"+class, "-o", "name")
		if err == nil && strings.TrimSpace(out) == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s has no instance: %w: %s", class, errors.Join(ctx.Err(), err), out)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
