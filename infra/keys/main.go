// Keys makes the keys by which NATS knows lbremedy's users, and what Kubernetes needs
// of them: a Secret with the seed of each user, and one with the configuration of the
// server, which holds public keys alone and lets the users at what is their cluster's.
//
// Of one cluster all lies in one folder. Where several clusters share a NATS, each has a
// folder of its own in it, with its keys and secrets.yaml; in the folder itself remain
// the users that are no cluster's, and the configuration of the server for all.
//
// A key that is in the folder already stays, so that it may be called again after a
// class or a cluster has come; one that is removed there is made anew. With -tls it makes
// the certificates of NATS, too, and again before they end. Nothing is written anywhere
// but in the folder, which nobody else can read.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nkeys"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/infra/nats"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
)

func main() {
	dir := flag.String("dir", "keys", "folder that keeps the keys; keep it out of the repository")
	var clusters []string
	flag.Func("cluster", "ID of an ACK cluster whose users to make; several are separated by commas, or the flag is given again; required",
		func(list string) error {
			clusters = append(clusters, strings.Split(list, ",")...)
			return nil
		})
	namespace := flag.String("namespace", "lbremedy", "namespace of lbremedy and of NATS")
	secure := flag.Bool("tls", false, "make the certificates of NATS, too; made again 60 days before their end")
	var names []string
	flag.Func("names", "with -tls: a name or address outside the cluster by which NATS is reached; several are separated by commas",
		func(list string) error {
			names = append(names, strings.Split(list, ",")...)
			return nil
		})
	flag.Parse()
	err := run(*dir, clusters, *namespace, os.Stdout)
	if err == nil && *secure {
		err = certify(*dir, *namespace, names, time.Now(), os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "keys:", err)
		os.Exit(1)
	}
}

// users returns the users of these clusters, with the one that looks after the server.
func users(clusters []string) (all []nats.User, accounts []byte, err error) {
	var classes []string
	for _, r := range functions.All {
		classes = append(classes, r.Class)
	}
	if all, err = nats.Users(clusters, classes); err != nil {
		return nil, nil, err
	}
	if accounts, err = nats.Accounts(all); err != nil {
		return nil, nil, err
	}
	return append(all, nats.User{Name: nats.System, Key: stream.KeyName(nats.System)}), accounts, nil
}

// run makes the keys that the folder lacks, and writes what is for Kubernetes.
func run(dir string, clusters []string, namespace string, out io.Writer) error {
	if len(clusters) == 0 {
		return errors.New("no cluster is named: set -cluster to the ID of the ACK cluster")
	}
	for i, cluster := range clusters {
		if err := event.ValidCluster(cluster); err != nil {
			return fmt.Errorf("-cluster: %w", err)
		}
		if slices.Contains(clusters[:i], cluster) {
			return fmt.Errorf("-cluster: %s is named twice", cluster)
		}
	}
	all, accounts, err := users(clusters)
	if err != nil {
		return err
	}
	apart, err := layout(dir, clusters)
	if err != nil {
		return err
	}
	var public bytes.Buffer
	secrets := map[string]*bytes.Buffer{} // by the folder that they are for
	folder := func(u nats.User) (string, error) {
		of := dir
		if apart && u.Cluster != "" {
			of = filepath.Join(dir, u.Cluster)
		}
		if secrets[of] == nil {
			secrets[of] = &bytes.Buffer{}
		}
		return of, os.MkdirAll(of, 0o700)
	}
	made := 0
	for _, u := range all {
		of, err := folder(u)
		if err != nil {
			return fmt.Errorf("make the folder of the keys: %w", err)
		}
		seed, isNew, err := seedOf(filepath.Join(of, u.Name+".seed"))
		if err != nil {
			return err
		}
		if isNew {
			made++
		}
		pair, err := nkeys.FromSeed(seed)
		if err != nil {
			return fmt.Errorf("read the key of %s: %s.seed holds no seed: remove it, and it is made anew", u.Name, u.Name)
		}
		key, err := pair.PublicKey()
		if err != nil {
			return fmt.Errorf("read the key of %s: %w", u.Name, err)
		}
		if !nkeys.IsValidPublicUserKey(key) {
			return fmt.Errorf("read the key of %s: %s.seed is not a user's: remove it, and it is made anew", u.Name, u.Name)
		}
		fmt.Fprintf(&public, "%s: %q\n", u.Key, key)
		if err := secret(secrets[of], namespace, "lbremedy-nats-"+u.Name, map[string]string{"seed": string(seed)}); err != nil {
			return err
		}
	}
	if err := secret(secrets[dir], namespace, "lbremedy-nats-users", map[string]string{"accounts.conf": string(accounts),
		"keys.conf": public.String()}); err != nil {
		return err
	}
	files := map[string][]byte{filepath.Join(dir, "keys.conf"): public.Bytes(), filepath.Join(dir, "accounts.conf"): accounts}
	for of, text := range secrets {
		files[filepath.Join(of, "secrets.yaml")] = text.Bytes()
	}
	for file, text := range files {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return fmt.Errorf("write the keys: %w", err)
		}
	}
	fmt.Fprintf(out, "%d users, %d with a new key. Now, where NATS runs: kubectl apply --server-side -f %s\n", len(all), made, filepath.Join(dir, "secrets.yaml"))
	if apart {
		for _, cluster := range clusters {
			fmt.Fprintf(out, "In cluster %s: kubectl apply --server-side -f %s\n", cluster, filepath.Join(dir, cluster, "secrets.yaml"))
		}
	}
	return nil
}

// layout reports whether each cluster has a folder of its own. What lies there for others
// is an error: the server would forget users that still work, or know one of their keys
// by another's name.
func layout(dir string, clusters []string) (apart bool, err error) {
	seeds, err := filepath.Glob(filepath.Join(dir, "*", "*.seed"))
	if err != nil {
		return false, fmt.Errorf("look at the keys: %w", err)
	}
	for _, file := range seeds {
		apart = true
		if of := filepath.Base(filepath.Dir(file)); !slices.Contains(clusters, of) {
			return false, fmt.Errorf("%s holds keys of a cluster that is not named, whose users NATS would forget: name it with -cluster, or remove the folder",
				filepath.Join(dir, of))
		}
	}
	if apart = apart || len(clusters) > 1; !apart {
		return false, nil
	}
	flat, err := filepath.Glob(filepath.Join(dir, "*.seed"))
	if err != nil {
		return false, fmt.Errorf("look at the keys: %w", err)
	}
	for _, file := range flat {
		if name := strings.TrimSuffix(filepath.Base(file), ".seed"); name != nats.System && !slices.Contains(stream.Common, name) {
			return false, fmt.Errorf("%s is of a folder for one cluster: move all seeds but those of %s and %s to %s", file, strings.Join(stream.Common, ", "),
				nats.System, filepath.Join(dir, "<its ID>"))
		}
	}
	return true, nil
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
