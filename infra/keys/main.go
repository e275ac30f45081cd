// Keys makes the keys of the users of NATS, and the Secrets that Kubernetes needs of them. Keys that are in the folder stay. "lbremedy keys" makes
// the key pair with which an engine signs calls of functions.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nkeys"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/infra/nats"
	"github.com/lbremedy/lbremedy/shared/event"
)

func main() {
	dir := flag.String("dir", "keys", "folder that keeps the keys; keep it out of the repository")
	clusters := flag.String("cluster", "", "IDs of all ACK clusters that share the NATS, with commas between; first that where NATS runs; required")
	namespace := flag.String("namespace", "lbremedy", "namespace of lbremedy and of NATS")
	flag.Parse()
	if err := run(*dir, strings.Split(*clusters, ","), *namespace, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "keys:", err)
		os.Exit(1)
	}
}

// run makes the keys that the folder lacks, and writes the Secrets of each cluster.
func run(dir string, clusters []string, namespace string, out io.Writer) error {
	for i, cluster := range clusters {
		if err := event.ValidCluster(cluster); err != nil {
			return fmt.Errorf("-cluster: %w", err)
		}
		if slices.Contains(clusters[:i], cluster) {
			return fmt.Errorf("-cluster: %s is named twice", cluster)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	seeds, public, err := users(dir, nats.Users(clusters...))
	if err != nil {
		return err
	}
	server := map[string]string{"accounts.conf": string(nats.Accounts(clusters...)), "keys.conf": public}
	files := maps.Clone(server)
	for i, cluster := range clusters {
		secrets := map[string]map[string]string{
			"lbremedy-nats-engine": {"seed": seeds[nats.Engine]}, "lbremedy-nats-console": {"seed": seeds[nats.Console]},
			"lbremedy-nats-exporter": {"seed": seeds[nats.Exporter(cluster)]},
		}
		name := "secrets-" + cluster + ".yaml"
		if i == 0 {
			name, secrets["lbremedy-nats-users"] = "secrets.yaml", server
		}
		for _, secret := range slices.Sorted(maps.Keys(secrets)) {
			text, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "stringData": secrets[secret],
				"metadata": map[string]any{"name": secret, "namespace": namespace, "labels": map[string]string{"app.kubernetes.io/part-of": "lbremedy"}}})
			if err != nil {
				return err
			}
			files[name] += "---\n" + string(text)
		}
		fmt.Fprintf(out, "In cluster %s: kubectl apply --server-side -f %s\n", cluster, filepath.Join(dir, name))
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// users returns the seeds of users, and the public keys as a NATS server reads them.
func users(dir string, names []string) (seeds map[string]string, public string, err error) {
	old, err := filepath.Glob(filepath.Join(dir, "*.seed"))
	for _, file := range old {
		if !slices.Contains(names, strings.TrimSuffix(filepath.Base(file), ".seed")) {
			return nil, "", fmt.Errorf("NATS would forget the user of %s: name its cluster with -cluster, or remove the file", file)
		}
	}
	seeds = map[string]string{}
	for _, user := range names {
		seed, fault := kept(filepath.Join(dir, user+".seed"), newSeed)
		if fault != nil {
			return nil, "", fault
		}
		pair, fault := nkeys.FromSeed([]byte(seed))
		if fault != nil || !strings.HasPrefix(seed, "SU") {
			return nil, "", fmt.Errorf("%s.seed holds no seed of a user: remove it, and it is made anew", user) // nkeys may quote what it holds
		}
		key, fault := pair.PublicKey()
		seeds[user], public, err = seed, public+fmt.Sprintf("%s: %q\n", nats.Key(user), key), errors.Join(err, fault)
	}
	return seeds, public, err
}

// kept returns what a file holds, which is created if it is not there.
func kept(file string, create func() ([]byte, error)) (string, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		if text, err = create(); err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
	}
	return strings.TrimSpace(string(text)), err
}

func newSeed() ([]byte, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, err
	}
	return pair.Seed()
}
