// Keys makes the NATS users' keys, and the server's configuration from them. It keeps existing keys in the folder, and the clusters of
// existing exporters' keys. "lbremedy keys" makes an engine's key pair for calls of functions.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nkeys"

	"github.com/lbremedy/lbremedy/infra/nats"
	"github.com/lbremedy/lbremedy/shared/event"
)

func main() {
	dir := flag.String("dir", "keys", "folder that keeps the keys; keep it out of the repository")
	clusters := flag.String("cluster", "", "IDs of ACK clusters that share the NATS, with commas between; required")
	flag.Parse()
	if err := run(*dir, strings.Split(*clusters, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "keys:", err)
		os.Exit(1)
	}
}

func run(dir string, clusters []string) error {
	old, err := filepath.Glob(filepath.Join(dir, nats.Exporter("*")+".seed"))
	for _, file := range old {
		clusters = append(clusters, strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), nats.Exporter("")), ".seed"))
	}
	slices.Sort(clusters)
	clusters = slices.Compact(clusters)
	for _, cluster := range clusters {
		err = errors.Join(err, event.ValidCluster(cluster))
	}
	if err := errors.Join(err, os.MkdirAll(dir, 0o700)); err != nil {
		return err
	}
	public := ""
	for _, user := range nats.Users(clusters...) {
		key, err := keyOf(filepath.Join(dir, user+".seed"))
		if err != nil {
			return err
		}
		public += fmt.Sprintf("%s: %q\n", nats.Key(user), key)
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "accounts.conf"), nats.Accounts(clusters...), 0o600),
		os.WriteFile(filepath.Join(dir, "keys.conf"), []byte(public), 0o600),
	)
}

func keyOf(file string) (string, error) {
	seed, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		pair, _ := nkeys.CreateUser() // crashes without random numbers
		seed, _ = pair.Seed()
		err = os.WriteFile(file, seed, 0o600)
	}
	if err != nil {
		return "", err
	}
	pair, err := nkeys.ParseDecoratedUserNKey(seed)
	if err != nil {
		return "", fmt.Errorf("%s holds no seed of a user: remove it, and it is made anew", file) // nkeys may quote the content
	}
	return pair.PublicKey()
}
