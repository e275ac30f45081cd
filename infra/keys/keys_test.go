package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/infra/nats"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/pages"
)

const root = "../.."

func shown(t *testing.T, dir string, commands []pages.Command) {
	t.Helper()
	for _, c := range commands {
		set := strings.NewReplacer("-dir keys ", "-dir "+dir+" ", " keys/", " "+dir+"/", "$LBREMEDY_CLUSTER", "c1234", "$CLUSTER", "c1234")
		cmd := exec.CommandContext(t.Context(), "sh", "-c", set.Replace(c.Text))
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", c, err, out)
		}
	}
}

func TestPages(t *testing.T) {
	dirs := map[string]string{}
	for _, c := range pages.Of(t, root, "infra/keys") {
		if dirs[c.Page] == "" {
			dirs[c.Page] = filepath.Join(t.TempDir(), "keys")
		}
		shown(t, dirs[c.Page], []pages.Command{c})
		if _, err := os.Stat(filepath.Join(dirs[c.Page], "accounts.conf")); err != nil {
			t.Errorf("%s: %v", c, err)
		}
	}
	for _, file := range regexp.MustCompile(`--from-file=(?:seed=)?keys/(\S+(?:seed|conf))`).FindAllStringSubmatch(read(t, root+"/infra/nats", "README.md"), -1) {
		read(t, dirs["infra/nats/README.md"], strings.NewReplacer("$CLUSTER", "c1234").Replace(file[1]))
	}
}

func certify(t *testing.T, dir string) {
	t.Helper()
	var commands []pages.Command
	for _, c := range pages.Of(t, root, "infra/keys") {
		if c.Page == "infra/nats/README.md" && strings.HasPrefix(c.Text, "openssl ") {
			commands = append(commands, c)
		}
	}
	shown(t, dir, commands)
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// Existing keys and clusters are kept, each user has its own key, and only the owner can read the files.
func TestKeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	if err := run(dir, []string{"c1", "C1-b_2", "c1"}); err != nil {
		t.Fatal(err)
	}
	before := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		before[e.Name()] = read(t, dir, e.Name())
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %v, %v", e.Name(), info.Mode(), err)
		}
	}
	users := nats.Users("C1-b_2", "c1")
	if n := len(before) - len(users); n != 2 || before["accounts.conf"] != strings.TrimSpace(string(nats.Accounts("C1-b_2", "c1"))) {
		t.Errorf("beside the keys there are %d files; the accounts are %s", n, before["accounts.conf"])
	}
	if err := os.Remove(filepath.Join(dir, "console.seed")); err != nil {
		t.Fatal(err)
	}
	if err := run(dir, []string{"c3"}); err != nil {
		t.Fatal(err)
	}
	for name, text := range before {
		if kept := read(t, dir, name) == text; kept != (strings.HasSuffix(name, ".seed") && name != "console.seed") {
			t.Errorf("%s is as it was: %v", name, kept)
		}
	}
	public := map[string]bool{}
	for _, user := range nats.Users("C1-b_2", "c1", "c3") {
		pair, err := nkeys.FromSeed([]byte(read(t, dir, user+".seed")))
		if err != nil {
			t.Fatal(err)
		}
		key, err := pair.PublicKey()
		if err != nil || public[key] || !strings.Contains(read(t, dir, "keys.conf"), nats.Key(user)+": \""+key+"\"") {
			t.Errorf("the server does not know %s by its own key: %v", user, err)
		}
		public[key] = true
	}
	for want, clusters := range map[string][]string{
		"the cluster ID is empty":                 {""},
		`cluster ID "c.1" is not 1 to 64 letters`: {"c.1"},
	} {
		if err := run(dir, clusters); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", clusters, err, want)
		}
	}
	for what, text := range map[string]string{
		"no seed": "a secret, not a seed", "another kind of key": "SOAH6T3UXVBJHYAJB3DSZS5YGWHGAHMZJTYMQHVOUALV2OZQX2T6FDWOZI",
	} {
		if err := os.WriteFile(filepath.Join(dir, "console.seed"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run(dir, []string{"c1"}); err == nil || !strings.Contains(err.Error(), "console.seed") || strings.Contains(err.Error(), text) {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

// Three nodes with the shipped values, keys and certificates admit each user: the engine sets up, the exporter publishes, and the console reads.
func TestNodes(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "lbremedy")
	const class, cluster, uid = "tag-missing", "c1", "7f0c1c52-0f3c-4a8e-9d0e-0a1b2c3d4e5f"
	if err := run(keys, []string{cluster, "C1-b_2"}); err != nil {
		t.Fatal(err)
	}
	certify(t, keys)
	nodes, ca := start(t, keys)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	on := func(node *server.Server, user string) *stream.Stream {
		t.Helper()
		s, err := stream.Connect(ctx, stream.Config{URL: "tls://" + node.Addr().String(), NKey: filepath.Join(keys, user+".seed"), CA: ca})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	for { // a cluster that has just started has no leader for a moment
		_, err := on(nodes[0], nats.Engine).Setup(ctx, []string{class}, stream.Settings{Replicas: 3, Clusters: []string{cluster}})
		if err == nil {
			break
		}
		if !errors.Is(err, stream.ErrUnavailable) || ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	for i, node := range nodes {
		exporter, console := on(node, nats.Exporter(cluster)), on(node, nats.Console)
		if done, lacking, err := exporter.SetupOrUse(ctx, []string{class}, stream.Settings{Clusters: []string{cluster}}); err != nil || len(done)+len(lacking) > 0 {
			t.Errorf("the exporter sees %v and lacks %v: %v", done, lacking, err)
		}
		subject := event.FailedSubject(cluster, class, uid)
		_, _, err := exporter.PublishNewer(ctx, subject, fmt.Sprint(i), nil, fmt.Append(nil, i), func(stream.Message) bool { return true })
		if err != nil {
			t.Errorf("the exporter publishes: %v", err)
		}
		_, queues := console.Queues(ctx, cluster)
		all, lasts := console.Lasts(ctx, stream.Failed, event.FailedOf(cluster, class))
		if err := errors.Join(queues, lasts); err != nil || len(all) != 1 {
			t.Errorf("the console reads %v: %v", all, err)
		}
		if err := on(node, nats.Operator).Put(ctx, "control", []byte("{}")); err != nil {
			t.Errorf("the operator pauses: %v", err)
		}
	}
	if _, err := stream.Connect(ctx, stream.Config{URL: "tls://" + nodes[0].Addr().String(), CA: ca}); err == nil {
		t.Error("a client without a key was let in")
	}
}

type values struct {
	TLSCA  tlsOf `json:"tlsCA"`
	Config struct {
		Cluster struct {
			Replicas int   `json:"replicas"`
			TLS      tlsOf `json:"tls"`
		} `json:"cluster"`
		NATS struct {
			TLS tlsOf `json:"tls"`
		} `json:"nats"`
		JetStream struct {
			Merge map[string]any `json:"merge"`
		} `json:"jetstream"`
		Merge map[string]string `json:"merge"`
	} `json:"config"`
}

type tlsOf struct {
	Enabled    bool   `json:"enabled"`
	SecretName string `json:"secretName"`
}

func (v values) tls(t *testing.T, keys string, of tlsOf) map[string]any {
	t.Helper()
	page := read(t, root+"/infra/nats", "README.md")
	if !of.Enabled || !strings.Contains(page, "create secret tls "+of.SecretName+" --cert=keys/tls.crt --key=keys/tls.key") {
		t.Errorf("the values have the Secret %q, and the page makes another", of.SecretName)
	}
	out := map[string]any{"cert_file": filepath.Join(keys, "tls.crt"), "key_file": filepath.Join(keys, "tls.key")}
	if v.TLSCA.Enabled && strings.Contains(page, "create secret generic "+v.TLSCA.SecretName+" --from-file=keys/ca.crt") {
		out["ca_file"] = filepath.Join(keys, "ca.crt")
	}
	return out
}

// start configures the nodes as the NATS chart does, apart from addresses and folders. It returns them with their root certificate's file.
func start(t *testing.T, keys string) ([]*server.Server, string) {
	t.Helper()
	var v values
	if err := yaml.Unmarshal([]byte(read(t, root+"/infra/nats", "values.yaml")), &v); err != nil {
		t.Fatal(err)
	}
	if v.Config.JetStream.Merge["sync_interval"] != "always" {
		t.Errorf("the values of JetStream are %v: what is acknowledged has to be on disk", v.Config.JetStream.Merge)
	}
	ports := make([]int, v.Config.Cluster.Replicas)
	var routes []string
	var held []net.Listener
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, l) // held until all are chosen: each is chosen once
		ports[i] = l.Addr().(*net.TCPAddr).Port
		routes = append(routes, fmt.Sprintf("tls://127.0.0.1:%d", ports[i]))
	}
	for _, l := range held {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var nodes []*server.Server
	for i, port := range ports {
		dir := filepath.Join(filepath.Dir(keys), fmt.Sprint("node", i))
		jetstream := map[string]any{"store_dir": filepath.Join(dir, "data"), "max_memory_store": 0}
		maps.Copy(jetstream, v.Config.JetStream.Merge)
		text, err := json.MarshalIndent(map[string]any{
			"server_name": fmt.Sprint("nats-", i), "listen": "127.0.0.1:-1", "tls": v.tls(t, keys, v.Config.NATS.TLS), "jetstream": jetstream,
			"cluster": map[string]any{"name": "nats", "listen": fmt.Sprintf("127.0.0.1:%d", port), "routes": routes, "no_advertise": true,
				"tls": v.tls(t, keys, v.Config.Cluster.TLS)},
		}, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		include := v.Config.Merge["00$include"]
		if include == "" {
			t.Fatal("the values don't include the accounts")
		}
		file := filepath.Join(dir, "nats.conf")
		body := strings.TrimSuffix(string(text), "}") + "  include " + include + ";\n}\n"
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(file, []byte(body), 0o600)); err != nil {
			t.Fatal(err)
		}
		options, err := server.ProcessConfigFile(file)
		if err != nil {
			t.Fatalf("the configuration: %v", err)
		}
		if !options.SyncAlways {
			t.Error("the server does not write to disk before it acknowledges")
		}
		options.NoSigs, options.NoLog = true, true
		node, err := server.NewServer(options)
		if err != nil {
			t.Fatal(err)
		}
		node.Start()
		t.Cleanup(func() {
			node.Shutdown()
			node.WaitForShutdown()
		})
		nodes = append(nodes, node)
	}
	for _, node := range nodes {
		if !node.ReadyForConnections(30 * time.Second) {
			t.Fatalf("%s is not ready", node.Name())
		}
	}
	if len(nodes) != 3 {
		t.Errorf("%d nodes, want 3", len(nodes))
	}
	return nodes, filepath.Join(keys, "ca.crt")
}
