package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// The node's registry, and its names of a release. It uses HTTP, which containerd accepts on loopback.
const (
	registryAt = "127.0.0.1:5000"
	images     = registryAt + "/acme"
	charts     = "oci://" + images + "/charts/lbremedy"
)

type registry struct {
	crane   string // program that is the registry, and pushes to it
	store   string // of the images
	version string
	digests map[string]string // by image name
	process *exec.Cmd
}

// openRegistry starts an empty registry. It ends with the node at the latest.
func openRegistry(dir, root string) (*registry, error) {
	r := &registry{crane: filepath.Join(root, "bin/crane"), store: filepath.Join(root, "bin/release-node/images")}
	text, err := os.ReadFile(filepath.Join(r.store, "digests.yaml"))
	if err != nil {
		return nil, fmt.Errorf("read the digests of the release: make node builds it: %w", err)
	}
	var values struct {
		Image struct {
			Tag     string            `json:"tag"`
			Digests map[string]string `json:"digests"`
		} `json:"image"`
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		return nil, fmt.Errorf("read the digests of the release: %w", err)
	}
	r.version, r.digests = values.Image.Tag, values.Image.Digests
	if r.digests["lbremedy"] == "" {
		return nil, errors.New("the release has no image of lbremedy: make node builds it")
	}
	log, err := os.Create(filepath.Join(dir, "registry.log"))
	if err != nil {
		return nil, fmt.Errorf("start the registry: %w", err)
	}
	r.process = exec.Command(r.crane, "registry", "serve", "--address", registryAt)
	says, err := r.process.StderrPipe()
	if err == nil {
		err = r.process.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the registry: %w", err), log.Close())
	}
	// Its first line reports that it listens; later lines log requests.
	in := bufio.NewReader(says)
	if _, err := in.ReadString('\n'); err != nil {
		return nil, fmt.Errorf("start the registry: it ended: %w", errors.Join(err, r.process.Wait(), log.Close()))
	}
	go func() {
		io.Copy(log, in)
		log.Close()
	}()
	return r, nil
}

func (r *registry) Close() {
	r.process.Process.Signal(os.Interrupt)
	r.process.Wait()
}

func (r *registry) push(ctx context.Context, tag string) error {
	for name := range r.digests {
		if _, err := run(ctx, nil, r.crane, "push", filepath.Join(r.store, "oci", name), images+"/"+name+":"+cmp.Or(tag, r.version)); err != nil {
			return err
		}
	}
	packed := filepath.Join(r.store, "..", "lbremedy-"+r.chartVersion()+".tgz")
	_, err := run(ctx, nil, "helm", "push", packed, "oci://"+images+"/charts", "--plain-http")
	return err
}

func (r *registry) chartVersion() string { return strings.TrimPrefix(r.version, "v") }

func (r *registry) chart() []string { return chartOf(r.chartVersion()) }

func chartOf(version string) []string { return []string{charts, "--version", version, "--plain-http"} }

func (r *registry) has(ctx context.Context, name, tag string) (string, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodHead, "http://"+registryAt+"/v2/acme/"+name+"/manifests/"+tag, nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return "", fmt.Errorf("ask the registry for %s: %w", name, err)
	}
	defer answer.Body.Close()
	io.Copy(io.Discard, answer.Body)
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("ask the registry for %s:%s: %s", name, tag, answer.Status)
	}
	return answer.Header.Get("Docker-Content-Digest"), nil
}
