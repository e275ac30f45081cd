package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/pages"
)

const root = "../.."

// What the pages show makes keys.
func TestPages(t *testing.T) {
	for _, c := range pages.Of(t, root, "infra/keys") {
		dir := filepath.Join(t.TempDir(), "keys")
		set := strings.NewReplacer("-dir keys ", "-dir "+dir+" ", "$LBREMEDY_CLUSTER", "c1234", "$CLUSTER", "c1234", "$NATS_HOST", "nats.example.com")
		text, _, _ := strings.Cut(set.Replace(c.Text), " #")
		cmd := exec.CommandContext(t.Context(), "go", strings.Fields(text)[1:]...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", c, err, out)
		}
		files := []string{"secrets.yaml"}
		if strings.Contains(text, " -tls") {
			files = append(files, "ca.yaml", "tls.yaml", "ca.crt")
		}
		for _, file := range files {
			if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
				t.Errorf("%s: %v", c, err)
			}
		}
	}
}

// Keys that are there stay; what Kubernetes gets names each user once, and nobody but
// the owner reads any of it.
func TestKeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	if err := run(dir, []string{"c1"}, "lbremedy", io.Discard); err != nil {
		t.Fatal(err)
	}
	first := read(t, dir, "keys.conf")
	var said strings.Builder
	if err := os.Remove(filepath.Join(dir, "viewer.seed")); err != nil {
		t.Fatal(err)
	}
	if err := run(dir, []string{"c1"}, "lbremedy", &said); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said.String(), " 1 with a new key") {
		t.Errorf("it said %q", said.String())
	}
	differ := 0
	second := strings.Split(read(t, dir, "keys.conf"), "\n")
	for i, line := range strings.Split(first, "\n") {
		if second[i] != line {
			differ++
		}
	}
	if differ != 1 {
		t.Errorf("%d keys changed, want that of the viewer alone", differ)
	}
	names := namesOf(t, "c1")
	secrets := read(t, dir, "secrets.yaml")
	for _, name := range append(names, "users") {
		if n := strings.Count(secrets, "name: lbremedy-nats-"+name+"\n"); n != 1 {
			t.Errorf("%d Secrets for %s, want 1", n, name)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %v, %v", e.Name(), info.Mode(), err)
		}
	}
	for what, text := range map[string]string{"no seed": "a secret that is no seed",
		"another kind of key": "SOAH6T3UXVBJHYAJB3DSZS5YGWHGAHMZJTYMQHVOUALV2OZQX2T6FDWOZI"} {
		if err := os.WriteFile(filepath.Join(dir, "viewer.seed"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := run(dir, []string{"c1"}, "lbremedy", io.Discard)
		if err == nil || !strings.Contains(err.Error(), "viewer") || strings.Contains(err.Error(), text) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if conf := read(t, dir, "accounts.conf"); strings.Contains(conf, stream.ThisCluster) ||
		!strings.Contains(conf, `"$JS.API.CONSUMER.MSG.NEXT.FAILED.quota_c1"`) {
		t.Error("the configuration does not name the cluster")
	}
	for want, clusters := range map[string][]string{
		"no cluster is named: set -cluster":                  nil,
		"-cluster: invalid event: the cluster ID is empty":   {"c1", ""},
		"-cluster: c1 is named twice":                        {"c1", "c2", "c1"},
		`cluster ID "c.1" is not 1 to 64 letters`:            {"c.1"},
		"account-gate.seed is of a folder for one cluster: ": {"c1", "c2"},
	} {
		if err := run(dir, clusters, "lbremedy", io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", clusters, err, want)
		}
	}
}

// The certificate of the nodes is for all names by which they are reached, as servers and
// as clients of each other. It and its authority stay as they are, and it is made again
// before it ends, and when a name comes.
func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	now := time.Now().Truncate(time.Second) // a certificate has no smaller unit
	names := []string{"nats", "nats.heal.svc", "nats-2.nats-headless", "localhost", "127.0.0.1"}
	step := func(doing string, at time.Time, isNew bool, more ...string) {
		t.Helper()
		before, _ := os.ReadFile(filepath.Join(dir, "tls.crt"))
		authority, _ := os.ReadFile(filepath.Join(dir, "ca.crt"))
		var said strings.Builder
		if err := certify(dir, "heal", more, at, &said); err != nil {
			t.Fatalf("%s: %v", doing, err)
		}
		if text := read(t, dir, "tls.crt"); (text != string(before)) != isNew || strings.Contains(said.String(), "is new") != isNew {
			t.Errorf("%s: the certificate is new: %v, want %v; it said %q", doing, text != string(before), isNew, said.String())
		}
		if text := read(t, dir, "ca.crt"); len(authority) > 0 && text != string(authority) {
			t.Errorf("%s: the authority is another", doing)
		}
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
		if err != nil {
			t.Fatal(err)
		}
		trusted := x509.NewCertPool()
		trusted.AppendCertsFromPEM([]byte(read(t, dir, "ca.crt")))
		for _, name := range append(names, more...) {
			for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
				o := x509.VerifyOptions{DNSName: name, Roots: trusted, CurrentTime: at.Add(renewal - time.Minute), KeyUsages: []x509.ExtKeyUsage{usage}}
				if _, err := pair.Leaf.Verify(o); err != nil {
					t.Errorf("%s: %s: %v", doing, name, err)
				}
			}
		}
	}
	step("the first time", now, true)
	step("again", now, false)
	step("60 days before its end", now.Add(ofNodes-renewal), false)
	step("a day later", now.Add(ofNodes-renewal+24*time.Hour), true)
	step("with a name", now.Add(ofNodes), true, "nats.example.com", "10.0.0.10")
	step("without it", now.Add(ofNodes), false)
	for _, name := range []string{"ca.crt", "ca.key", "tls.key", "tls.yaml", "ca.yaml"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if text := read(t, dir, "tls.yaml") + read(t, dir, "ca.yaml"); strings.Contains(text, strings.Split(read(t, dir, "ca.key"), "\n")[1]) {
		t.Error("the key of the authority would go to the cluster")
	}
	if err := os.Remove(filepath.Join(dir, "ca.key")); err != nil {
		t.Fatal(err)
	}
	if err := certify(dir, "heal", nil, now, io.Discard); err == nil || !strings.Contains(err.Error(), "ca.key is missing") {
		t.Errorf("without the key of the authority: %v", err)
	}
}

// namesOf returns the names of the users of clusters.
func namesOf(t *testing.T, clusters ...string) (names []string) {
	t.Helper()
	all, _, err := users(clusters)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range all {
		names = append(names, u.Name)
	}
	return names
}

// Several clusters have users of their own, in folders of their own, and share those that
// are no cluster's. A cluster that comes changes no key, and none is forgotten by mistake.
func TestKeysOfClusters(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	var said strings.Builder
	if err := run(dir, []string{"c1", "C1-b_2"}, "lbremedy", &said); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said.String(), "In cluster C1-b_2: kubectl apply --server-side -f "+dir+"/C1-b_2/secrets.yaml") {
		t.Errorf("it said %q", said.String())
	}
	first := map[string]string{}
	for _, name := range namesOf(t, "c1") {
		common := slices.Contains([]string{"operator", "viewer", "system"}, name)
		for _, folder := range []string{"", "c1", "C1-b_2"} {
			seed, err := os.ReadFile(filepath.Join(dir, folder, name+".seed"))
			if (err == nil) != (common == (folder == "")) {
				t.Errorf("the key of %s in folder %q: %v", name, folder, err)
			}
			first[folder+"/"+name] = string(seed)
			if n := strings.Count(read(t, filepath.Join(dir, folder), "secrets.yaml"), "name: lbremedy-nats-"+name+"\n"); (n == 1) != (err == nil) {
				t.Errorf("%d Secrets for %s in folder %q", n, name, folder)
			}
		}
	}
	for _, folder := range []string{"c1", "C1-b_2"} {
		if strings.Contains(read(t, filepath.Join(dir, folder), "secrets.yaml"), "lbremedy-nats-users") {
			t.Errorf("the folder of %s has the configuration of the server", folder)
		}
	}
	if err := run(dir, []string{"C1-b_2", "c3", "c1"}, "lbremedy", io.Discard); err != nil {
		t.Fatal(err)
	}
	for at, seed := range first {
		if text, _ := os.ReadFile(filepath.Join(dir, at+".seed")); string(text) != seed {
			t.Errorf("the key of %s has changed", at)
		}
	}
	before := read(t, dir, "accounts.conf")
	if err := run(dir, []string{"c1", "c3"}, "lbremedy", io.Discard); err == nil ||
		!strings.Contains(err.Error(), "C1-b_2 holds keys of a cluster that is not named") {
		t.Errorf("a cluster that is not named: %v", err)
	}
	if read(t, dir, "accounts.conf") != before {
		t.Error("the configuration has changed")
	}
	for _, of := range []string{"C1-b_2", "c3"} {
		if err := os.RemoveAll(filepath.Join(dir, of)); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(dir, []string{"c1"}, "lbremedy", io.Discard); err != nil {
		t.Fatal(err)
	}
	if text := read(t, filepath.Join(dir, "c1"), "courier.seed"); text != first["c1/courier"] {
		t.Error("the last cluster's key has changed")
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Three nodes with the shipped values and the generated accounts let each user do its
// work, and nobody anything else.
func TestAccounts(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "lbremedy")
	const mine, theirs, cluster, elsewhere, uid = "tag-missing", "quota", "c1", "C1-b_2", "7f0c1c52-0f3c-4a8e-9d0e-0a1b2c3d4e5f"
	if err := run(keys, []string{cluster, elsewhere}, "lbremedy", io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := certify(keys, "lbremedy", nil, time.Now(), io.Discard); err != nil {
		t.Fatal(err)
	}
	nodes, ca := start(t, keys)
	of := func(cluster, user, inbox string) *stream.Stream {
		t.Helper()
		seed := filepath.Join(keys, cluster, user+".seed")
		if slices.Contains(stream.Common, user) {
			seed = filepath.Join(keys, user+".seed")
		}
		var urls []string
		for _, n := range nodes {
			urls = append(urls, "tls://"+n.Addr().String())
		}
		s, err := stream.Connect(t.Context(), stream.Config{
			URL: strings.Join(urls, ","), NKey: seed, Inbox: stream.InboxOf(inbox), Cluster: cluster, CA: ca,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	as := func(user, inbox string) *stream.Stream { t.Helper(); return of(cluster, user, inbox) }
	url := "tls://" + nodes[0].Addr().String()
	// What connects as a user does without package stream, as the command nats.
	key := func(user string) []natsgo.Option {
		t.Helper()
		seed, inbox := filepath.Join(keys, user+".seed"), stream.InboxOf(user)
		if !slices.Contains(stream.Common, user) {
			seed, inbox = filepath.Join(keys, cluster, user+".seed"), inbox+"."+cluster
		}
		option, err := natsgo.NkeyOptionFromSeed(seed)
		if err != nil {
			t.Fatal(err)
		}
		return []natsgo.Option{option, natsgo.CustomInboxPrefix(inbox), natsgo.RootCAs(ca)}
	}
	classes := []string{mine, theirs} // a consumer takes each node some work, and all are alike
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	operator := as("operator", "operator")
	for { // a cluster that has just come up has no leader for a moment
		_, err := operator.Setup(ctx, classes, stream.Settings{Replicas: 3, Clusters: []string{cluster, elsewhere}})
		if err == nil {
			break
		}
		if !errors.Is(err, stream.ErrUnavailable) || ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	listener := as(mine, theirs) // who would hear what another is answered
	exporter, worker, viewer, class := as("exporter", "exporter"), as("worker", "worker"), as("viewer", "viewer"), as(mine, mine)
	notifier := as("notifier", "notifier")
	courier := as("courier", "courier")
	neighbour := of(elsewhere, "worker", "worker")
	// Who has another cluster's key hears no answers of this one.
	eavesdropper, err := stream.Connect(ctx, stream.Config{
		URL: "tls://" + nodes[0].Addr().String(), NKey: filepath.Join(keys, elsewhere, "worker.seed"), Inbox: stream.InboxOf("worker"), Cluster: cluster, CA: ca,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(eavesdropper.Close)

	newer := func(stream.Message) bool { return true }
	failure := func(s *stream.Stream, class string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, _, err := s.PublishNewer(ctx, event.FailedSubject(cluster, class, uid), time.Now().String(), nil, []byte("{}"), newer)
			return err
		}
	}
	put := func(s *stream.Stream, key string) func(context.Context) error {
		return func(ctx context.Context) error { return s.Put(ctx, key, []byte("{}")) }
	}
	record := func(s *stream.Stream, class string) func(context.Context) error {
		return func(ctx context.Context) error {
			j := s.Journal(cluster, uid, class)
			if _, err := j.Load(ctx); err != nil {
				return err
			}
			return j.Append(ctx, time.Now().String(), nil, []byte("{}"))
		}
	}
	consumeIn := func(s *stream.Stream, cluster, class string) func(context.Context) error {
		return func(ctx context.Context) error {
			in, stop := context.WithCancel(ctx)
			defer stop()
			got := false
			err := s.Consume(in, cluster, class, 1, func(context.Context, stream.Message) stream.Reply {
				got = true
				stop()
				return stream.Reply{}
			})
			if err == nil && !got {
				return errors.New("nothing came")
			}
			return err
		}
	}
	consume := func(s *stream.Stream, class string) func(context.Context) error { return consumeIn(s, cluster, class) }
	setup := func(s *stream.Stream) func(context.Context) error {
		return func(ctx context.Context) error {
			changed, err := s.Setup(ctx, classes, stream.Settings{Clusters: []string{cluster}})
			if len(changed) > 0 {
				return fmt.Errorf("it changed %v", changed)
			}
			return err
		}
	}
	follow := func(s *stream.Stream, cluster, name string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := s.SetupFollower(ctx, name, cluster)
			return err
		}
	}
	// That there is nothing is an answer as well.
	heard := func(s *stream.Stream, from, filter string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := s.Last(ctx, from, filter)
			if errors.Is(err, stream.ErrNotFound) {
				return nil
			}
			return err
		}
	}
	lookAt := func(s *stream.Stream) func(context.Context) error {
		return func(ctx context.Context) error {
			_, queues := s.Queues(ctx, cluster)
			_, fills := s.Fills(ctx)
			_, ledger := s.Ledger(ctx, cluster, time.Now(), stream.Late)
			_, keys := s.Entries(ctx, ">")
			return errors.Join(queues, fills, ledger, keys, s.Each(ctx, stream.Cases, event.CaseSubjects, time.Time{}, func(stream.Message) error { return nil }))
		}
	}
	type attempt struct {
		doing string
		do    func(context.Context) error
	}
	for _, d := range []attempt{
		{"exporter sees that all is set up", setup(exporter)},
		{"exporter starts where the journal was raised and a class is new", func(ctx context.Context) error {
			if _, err := operator.Setup(ctx, classes, stream.Settings{Clusters: []string{cluster}, CasesBytes: 1<<30 + 1<<20}); err != nil {
				return err
			}
			done, lacking, err := exporter.SetupOrUse(ctx, append([]string{"busy"}, classes...), stream.Settings{Clusters: []string{cluster}})
			if err == nil && (len(done) > 0 || len(lacking) != 1 || !strings.Contains(lacking[0], "consumer busy")) {
				err = fmt.Errorf("it did %q and lacks %q", done, lacking)
			}
			return err
		}},
		{"exporter publishes a failure", failure(exporter, mine)},
		{"exporter publishes another", failure(exporter, theirs)},
		{"exporter sends what is none to DEAD", func(ctx context.Context) error {
			return exporter.Dead(ctx, "it is a test", "exporter."+cluster, nil, []byte("x"))
		}},
		{"exporter saves its progress", func(ctx context.Context) error { return exporter.SaveProgress(ctx, cluster, "17") }},
		{"exporter forgets its progress", func(ctx context.Context) error { return exporter.ResetProgress(ctx, cluster) }},
		{"exporter keeps its page", func(ctx context.Context) error {
			return exporter.SavePage(ctx, cluster, stream.Page{Exporter: "e1", At: time.Now()})
		}},
		{"exporter counts the Services", put(exporter, event.CountKey(cluster))},
		{"class takes its failure", consume(class, mine)},
		{"class writes its record", record(class, mine)},
		{"viewer looks at all", lookAt(viewer)},
		{"worker sets up", setup(worker)},
		{"worker follows the journal", follow(worker, cluster, "notifier")},
		{"worker takes a failure", consume(worker, theirs)},
		{"worker writes a record", record(worker, theirs)},
		{"worker publishes a failure", failure(worker, theirs)},
		{"worker puts a policy in force", put(worker, "policy."+cluster)},
		{"worker keeps a ticket", put(worker, "incident.head.x")},
		{"notifier follows the journal", follow(notifier, cluster, "tell-ops")},
		{"notifier looks at all", lookAt(notifier)},
		{"notifier puts a policy in force", put(notifier, "policy."+cluster)},
		{"notifier keeps a ticket", put(notifier, "ticket.ops.x")},
		{"notifier delivers a failure again", failure(notifier, mine)},
		{"notifier brings an answer", put(notifier, "answer."+cluster+"."+uid+"."+mine+".0")},
		{"operator pauses", put(operator, "pause")},
		{"operator looks at all", lookAt(operator)},
		{"operator approves", put(operator, "approval."+cluster+"."+uid+"."+mine)},
		{"operator backs up", func(ctx context.Context) error { return nats.Backup(ctx, url, stream.Cases, key("operator")...) }},
		{"operator removes what is dead", func(ctx context.Context) error { _, err := operator.Remove(ctx, stream.Dead, 1); return err }},
	} {
		if err := d.do(ctx); err != nil {
			t.Errorf("%s: %v", d.doing, err)
		}
	}

	// Keys of one cluster, which its worker writes.
	own := []string{
		"policy." + cluster, "tell." + cluster, "breaker." + cluster + "." + mine, "answer." + cluster + "." + uid + "." + mine + ".0",
		event.RunKey(cluster, uid, mine), "claim.budget." + cluster + ".0", "claim.budget." + cluster + "." + mine + ".0",
		"claim.unsettled." + cluster + "." + mine + ".0",
		"claim.evict." + cluster + ".shop.web.0", "lock.doctor." + cluster, event.DoctorKey(cluster), "lock.again." + cluster, "pace.touch." + cluster,
		"progress." + cluster, "ledger." + cluster + ".e1", event.CountKey(cluster),
	}
	// There is something of the other cluster to take.
	if _, _, err := operator.PublishNewer(ctx, event.FailedSubject(elsewhere, mine, uid), "elsewhere", nil, []byte("{}"), newer); err != nil {
		t.Fatal(err)
	}
	refused := []attempt{
		{"exporter writes a record", record(exporter, mine)},
		{"exporter consumes", consume(exporter, mine)},
		{"exporter follows the journal", follow(exporter, cluster, "x")},
		{"exporter says that a message of a class is dead", func(ctx context.Context) error {
			return exporter.Dead(ctx, "it is a test", event.FailedSubject(cluster, mine, uid), nil, []byte("x"))
		}},
		{"class publishes a failure", failure(class, mine)},
		{"class uses another cluster's breaker", put(class, "breaker.c2."+mine)},
		{"exporter publishes a failure of another cluster", func(ctx context.Context) error {
			_, _, err := exporter.PublishNewer(ctx, event.FailedSubject("c2", mine, uid), time.Now().String(), nil, []byte("{}"), newer)
			return err
		}},
		{"exporter forgets another cluster's progress", func(ctx context.Context) error { return exporter.ResetProgress(ctx, "c2") }},
		{"class consumes another's", consume(class, theirs)},
		{"class writes another's record", record(class, theirs)},
		{"class follows the journal", follow(class, cluster, "x")},
		{"viewer publishes a failure", failure(viewer, mine)},
		{"viewer consumes", consume(viewer, mine)},
		{"viewer writes a record", record(viewer, mine)},
		{"viewer follows the journal", follow(viewer, cluster, "x")},
		{"viewer backs up", func(ctx context.Context) error { return nats.Backup(ctx, url, stream.Cases, key("viewer")...) }},
		{"notifier writes a record", record(notifier, mine)},
		{"notifier publishes another cluster's failure", func(ctx context.Context) error {
			_, _, err := notifier.PublishNewer(ctx, event.FailedSubject(elsewhere, mine, uid), time.Now().String(), nil, []byte("{}"), newer)
			return err
		}},
		{"notifier consumes", consume(notifier, mine)},
		{"notifier puts another cluster's policy in force", put(notifier, "policy."+elsewhere)},
		{"notifier follows the journal of another cluster", follow(notifier, elsewhere, "x")},
		{"worker sets a stream up", func(ctx context.Context) error {
			_, err := worker.Setup(ctx, classes, stream.Settings{CasesBytes: 2 << 30})
			return err
		}},
		{"worker follows the journal of another cluster", follow(worker, elsewhere, "x")},
		{"worker consumes another cluster", consumeIn(worker, elsewhere, mine)},
		{"worker writes another cluster's record", func(ctx context.Context) error {
			return worker.Journal(elsewhere, uid, mine).Append(ctx, "1", nil, []byte("{}"))
		}},
		{"worker writes another cluster's snapshot", func(ctx context.Context) error {
			return worker.Snapshot(ctx, elsewhere, uid, mine, nil, []byte("{}"))
		}},
		{"worker publishes another cluster's failure", func(ctx context.Context) error {
			_, _, err := worker.PublishNewer(ctx, event.FailedSubject(elsewhere, mine, uid), time.Now().String(), nil, []byte("{}"), newer)
			return err
		}},
		{"worker says that another cluster's message is dead", func(ctx context.Context) error {
			return worker.Dead(ctx, "it is a test", event.FailedSubject(elsewhere, mine, uid), nil, []byte("x"))
		}},
		{"another cluster's worker hears the answers of this one's", func(ctx context.Context) error {
			_, err := eavesdropper.Get(ctx, "policy."+elsewhere)
			if errors.Is(err, stream.ErrNotFound) {
				return nil // an answer
			}
			return err
		}},
		{"exporter reads another cluster's failures", heard(exporter, stream.Failed, event.FailedSubject(elsewhere, mine, uid))},
		{"exporter reads all failures", heard(exporter, stream.Failed, event.FailedSubjects)},
		{"exporter reads the journal", heard(exporter, stream.Cases, event.CaseSubjects)},
		{"courier reads another cluster's dead letters", heard(courier, stream.Dead, "lbremedy.dead.failed."+elsewhere+".x")},
		{"courier reads all dead letters", heard(courier, stream.Dead, stream.DeadSubjects)},
		{"courier reads the failures", heard(courier, stream.Failed, event.FailedSubjects)},
		{"courier consumes another cluster", consumeIn(courier, elsewhere, mine)},
		{"notifier pauses", put(notifier, "pause")},
		{"notifier approves", put(notifier, "approval."+cluster+"."+uid+"."+mine)},
		{"notifier brings an answer of another cluster", put(notifier, "answer."+elsewhere+"."+uid+"."+mine+".0")},
		{"worker approves", put(worker, "approval."+cluster+"."+uid+"."+mine)},
		{"operator brings an answer", put(operator, "answer."+cluster+"."+uid+"."+mine+".0")},
		{"worker discards the journal", func(ctx context.Context) error { return nats.Delete(ctx, url, stream.Cases, key("worker")...) }},
		{"worker removes a record", func(ctx context.Context) error { _, err := worker.Remove(ctx, stream.Cases, 1); return err }},
		{"class reads another's answers", func(ctx context.Context) error { _, err := listener.Get(ctx, "policy"); return err }},
	}
	for user, s := range map[string]*stream.Stream{"exporter": exporter, "viewer": viewer, "class": class} {
		for _, key := range []string{"policy", "policy." + cluster, "tell." + cluster, "pause", "breaker." + cluster + "." + theirs,
			"approval." + cluster + "." + uid + "." + theirs, "answer." + cluster + "." + uid + "." + mine + ".0"} {
			refused = append(refused, attempt{user + " writes " + key, put(s, key)})
		}
	}
	for _, key := range own {
		if err := put(worker, key)(ctx); err != nil {
			t.Errorf("worker writes %s: %v", key, err)
		}
	}
	for _, key := range append(own, "policy", "tell", "pause", "pause."+cluster, "closed.cluster-"+cluster+".quota.0") {
		refused = append(refused, attempt{"the worker of another cluster writes " + key, put(neighbour, key)})
	}
	// The server does not answer whom it refuses, so that each takes its time.
	var wait sync.WaitGroup
	for _, d := range refused {
		wait.Go(func() {
			in, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			if err := d.do(in); err == nil {
				t.Errorf("%s: it was allowed", d.doing)
			}
		})
	}
	wait.Wait()
	if _, err := operator.First(ctx, stream.Cases); err != nil {
		t.Errorf("the journal: %v", err)
	}
	if _, err := stream.Connect(ctx, stream.Config{URL: "tls://" + nodes[0].Addr().String(), CA: ca}); err == nil {
		t.Error("who shows no key was let in")
	}
}

// values are those of infra/nats/values.yaml that end in the server's configuration.
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

// A tlsOf is a place in the values that names a Secret with certificates.
type tlsOf struct {
	Enabled    bool   `json:"enabled"`
	SecretName string `json:"secretName"`
}

// tls returns the section tls of a server's configuration, as the chart makes it: of the
// Secret, as it is in the folder, and of the authorities in the values.
func (v values) tls(t *testing.T, keys string, of tlsOf) map[string]any {
	t.Helper()
	if !of.Enabled || !strings.Contains(read(t, keys, "tls.yaml"), "name: "+of.SecretName+"\n") {
		t.Errorf("the values have the Secret %q, and -tls makes another", of.SecretName)
	}
	out := map[string]any{"cert_file": filepath.Join(keys, "tls.crt"), "key_file": filepath.Join(keys, "tls.key")}
	if v.TLSCA.Enabled && strings.Contains(read(t, keys, "ca.yaml"), "name: "+v.TLSCA.SecretName+"\n") {
		out["ca_file"] = filepath.Join(keys, "ca.crt")
	}
	return out
}

// start starts the nodes that the values ask for. Their configuration is what the
// NATS chart makes of the values, but for addresses and folders. It returns them with
// the file of their root certificate.
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
		held = append(held, l) // until all are chosen, so that none is chosen twice
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

// Nobody is called as a class is, and nothing of one user's is another's.
func TestUsers(t *testing.T) {
	if _, err := stream.Users("c1", []string{"exporter"}); err == nil {
		t.Error("a class took the exporter's name")
	}
	if _, err := stream.Users("c1", []string{"a.b"}); err == nil {
		t.Error("a class that is several tokens got permissions")
	}
	names := namesOf(t, "c1")
	seen := map[string]string{}
	for _, n := range names {
		if other, ok := seen[stream.KeyName(n)]; ok {
			t.Errorf("%s and %s have the key %s", n, other, stream.KeyName(n))
		}
		seen[stream.KeyName(n)] = n
	}
	if !slices.Contains(names, "system") {
		t.Error("nobody looks after the server")
	}
}
