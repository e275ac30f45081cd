package nats

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	accounts "github.com/lbremedy/lbremedy/infra/nats"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// An Installation is a NATS server with an installation's accounts, and each user's key.
type Installation struct {
	t   testing.TB
	dir string
	URL string
}

// Install starts a server with the accounts that infra/nats generates for these clusters. It runs until the test ends.
func Install(t testing.TB, clusters ...string) *Installation {
	t.Helper()
	return InstallWith(t, string(accounts.Accounts(clusters...)), clusters...)
}

// InstallWith is Install with other accounts of the same users.
func InstallWith(t testing.TB, conf string, clusters ...string) *Installation {
	t.Helper()
	i := &Installation{t: t, dir: t.TempDir()}
	var public strings.Builder
	for _, user := range accounts.Users(clusters...) {
		pair, err := nkeys.CreateUser()
		i.must(err)
		seed, err := pair.Seed()
		i.must(err)
		key, err := pair.PublicKey()
		i.must(err)
		fmt.Fprintf(&public, "%s: %q\n", accounts.Key(user), key)
		i.must(os.WriteFile(i.Seed(user), seed, 0o600))
	}
	i.must(os.WriteFile(filepath.Join(i.dir, "keys.conf"), []byte(public.String()), 0o600))
	conf += fmt.Sprintf("listen: \"127.0.0.1:-1\"\njetstream: {store_dir: %q}\n", filepath.Join(i.dir, "data"))
	file := filepath.Join(i.dir, "nats.conf")
	i.must(os.WriteFile(file, []byte(conf), 0o600))
	options, err := server.ProcessConfigFile(file)
	i.must(err)
	options.NoSigs, options.NoLog = true, true
	s, err := server.NewServer(options)
	i.must(err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(30 * time.Second) {
		t.Fatal("the server is not ready")
	}
	i.URL = s.ClientURL()
	return i
}

// Seed returns the path of a user's key.
func (i *Installation) Seed(user string) string { return filepath.Join(i.dir, user+".seed") }

// As connects as a user until the test ends.
func (i *Installation) As(user string) *stream.Stream {
	i.t.Helper()
	return Connect(i.t, stream.Config{URL: i.URL, NKey: i.Seed(user)})
}

// Plain connects as a user without package stream.
func (i *Installation) Plain(user string) *natsgo.Conn {
	i.t.Helper()
	key, err := natsgo.NkeyOptionFromSeed(i.Seed(user))
	i.must(err)
	conn, err := natsgo.Connect(i.URL, key, natsgo.ErrorHandler(func(*natsgo.Conn, *natsgo.Subscription, error) {})) // about rejected operations
	i.must(err)
	i.t.Cleanup(conn.Close)
	return conn
}

func (i *Installation) must(err error) {
	i.t.Helper()
	if err != nil {
		i.t.Fatal(err)
	}
}
