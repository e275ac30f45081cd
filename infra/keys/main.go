// Keys makes the keys by which NATS knows lbremedy's users, and what Kubernetes needs
// of them: a Secret with the seed of each user, and one with the configuration of the
// server, which holds public keys alone and lets the users at what is their cluster's.
//
// A key that is in the folder already stays, so that it may be called again after a
// class has come; one that is removed there is made anew. Nothing is written anywhere
// but in the folder, which nobody else can read.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/nats-io/nkeys"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/functions/survey"
	"github.com/lbremedy/lbremedy/shared/stream"
)

func main() {
	dir := flag.String("dir", "keys", "folder that keeps the keys; keep it out of the repository")
	accounts := flag.String("accounts", "infra/nats/accounts.conf", "the generated configuration")
	cluster := flag.String("cluster", "", "ID of the ACK cluster whose subjects and keys the users may use; required")
	namespace := flag.String("namespace", "lbremedy", "namespace of lbremedy and of NATS")
	flag.Parse()
	if err := run(*dir, *accounts, *cluster, *namespace, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "keys:", err)
		os.Exit(1)
	}
}

// users returns the names of all users, with the one that looks after the server.
func users(cluster string) ([]string, error) {
	var classes []string
	for _, r := range functions.All {
		classes = append(classes, r.Class)
	}
	var findings []string
	for _, r := range survey.Remedies() {
		findings = append(findings, r.Class)
	}
	all, err := stream.Users(cluster, classes, findings)
	if err != nil {
		return nil, err
	}
	return append(slices.Sorted(maps.Keys(all)), "system"), nil
}

// run makes the keys that the folder lacks, and writes what is for Kubernetes.
func run(dir, accounts, cluster, namespace string, out io.Writer) error {
	if cluster == "" {
		return errors.New("no cluster is named: set -cluster to the ID of the ACK cluster")
	}
	names, err := users(cluster)
	if err != nil {
		return err
	}
	configuration, err := os.ReadFile(accounts)
	if err != nil {
		return fmt.Errorf("read the generated configuration: %w", err)
	}
	configuration = bytes.ReplaceAll(configuration, []byte(stream.ThisCluster), []byte(cluster))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of the keys: %w", err)
	}
	var public, secrets bytes.Buffer
	made := 0
	for _, name := range names {
		seed, isNew, err := seedOf(filepath.Join(dir, name+".seed"))
		if err != nil {
			return err
		}
		if isNew {
			made++
		}
		pair, err := nkeys.FromSeed(seed)
		if err != nil {
			return fmt.Errorf("read the key of %s: %s.seed holds no seed: remove it, and it is made anew", name, name)
		}
		key, err := pair.PublicKey()
		if err != nil {
			return fmt.Errorf("read the key of %s: %w", name, err)
		}
		if !nkeys.IsValidPublicUserKey(key) {
			return fmt.Errorf("read the key of %s: %s.seed is not a user's: remove it, and it is made anew", name, name)
		}
		fmt.Fprintf(&public, "%s: %q\n", stream.KeyName(name), key)
		if err := secret(&secrets, namespace, "lbremedy-nats-"+name, map[string]string{"seed": string(seed)}); err != nil {
			return err
		}
	}
	if err := secret(&secrets, namespace, "lbremedy-nats-users", map[string]string{"accounts.conf": string(configuration), "keys.conf": public.String()}); err != nil {
		return err
	}
	for name, text := range map[string][]byte{"keys.conf": public.Bytes(), "accounts.conf": configuration, "secrets.yaml": secrets.Bytes()} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return fmt.Errorf("write the keys: %w", err)
		}
	}
	fmt.Fprintf(out, "%d users, %d with a new key. Now: kubectl apply -f %s\n", len(names), made, filepath.Join(dir, "secrets.yaml"))
	return nil
}

// seedOf returns the seed of a file, which is made if it is not there.
func seedOf(file string) (seed []byte, isNew bool, err error) {
	text, err := os.ReadFile(file)
	if err == nil {
		return bytes.TrimSpace(text), false, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, false, fmt.Errorf("read a key: %w", err)
	}
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, false, fmt.Errorf("make a key: %w", err)
	}
	if seed, err = pair.Seed(); err != nil {
		return nil, false, fmt.Errorf("make a key: %w", err)
	}
	if err := os.WriteFile(file, append(seed, '\n'), 0o600); err != nil {
		return nil, false, fmt.Errorf("keep a key: %w", err)
	}
	return seed, true, nil
}

// secret writes a Secret of Kubernetes as YAML.
func secret(to *bytes.Buffer, namespace, name string, data map[string]string) error {
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "stringData": data,
		"metadata": map[string]any{"name": name, "namespace": namespace, "labels": map[string]string{"app.kubernetes.io/part-of": "lbremedy"}},
	})
	if err != nil {
		return fmt.Errorf("write the Secret %s: %w", name, err)
	}
	to.WriteString("---\n")
	to.Write(text)
	return nil
}
