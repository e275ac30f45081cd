// Package clusters runs two clusters that share one NATS. Each has an API server, a simulated cloud, an exporter, "lbremedy up"
// and two function programs. Exporters and engines use the NATS users that infra/keys makes.
package clusters

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	accounts "github.com/lbremedy/lbremedy/infra/nats"
	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/ledger"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/identity"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/shell"
	"github.com/lbremedy/lbremedy/test/testbed"
)

var built string

func TestMain(m *testing.M) {
	shell.Tests(m, &built)
}

// The ID of one cluster is a prefix of the other's, and they share a namespace and the names of Services and vSwitches.
const (
	one = "c1"
	two = "c1-b_2"

	full = "vswitch-ip-exhausted"
	lost = "tag-missing"
)

const limit = 12 * time.Minute

type rig struct {
	*testing.T
	ctx      context.Context
	keys     string // folder of the keys
	url      string // of NATS
	operator *stream.Stream
	places   map[string]*place

	mu      sync.Mutex
	records []event.Record
}

type place struct {
	testbed  *testbed.Testbed
	receiver *receiver
	key      hand.Key // of its engine
}

type receiver struct {
	url  string
	wake func() // called after each notification
	mu   sync.Mutex
	of   []string // clusters of the notifications
}

func (d *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var e struct{ Data struct{ Clusters []string } }
	if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	d.mu.Lock()
	d.of = append(d.of, e.Data.Clusters...)
	d.mu.Unlock()
	d.wake()
}

func (d *receiver) told() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(d.of)))
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func newRig(t *testing.T) *rig {
	first := cluster.Alone(t) // waits for other tests
	second := first.Another(t)
	for _, c := range []*cluster.Cluster{first, second} {
		c.Namespace(t)
		identity.Answerable(t, c)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, fmt.Errorf("the test takes more than %s", limit))
	t.Cleanup(cancel)
	r := &rig{T: t, ctx: ctx, keys: filepath.Join(t.TempDir(), "keys"), places: map[string]*place{}}
	r.must(shell.Build(built, []string{
		"./functions/cmd/lbremedy", "./functions/tagmissing/cmd/tagmissing", "./functions/vswitchipexhausted/cmd/vswitchipexhausted", "./infra/keys",
	}))
	if out, err := exec.CommandContext(ctx, filepath.Join(built, "keys"), "-dir", r.keys, "-cluster", one+","+two).CombinedOutput(); err != nil {
		t.Fatalf("make the keys: %v\n%s", err, out)
	}
	r.serve()
	for id, c := range map[string]*cluster.Cluster{one: first, two: second} {
		key, err := hand.NewKey()
		r.must(err)
		p := &place{receiver: &receiver{}, key: key}
		p.testbed, err = testbed.Start(ctx, testbed.Options{Cluster: c, ID: id, Namespace: "shop", BackoffBase: time.Second, BackoffMax: 3 * time.Second})
		r.must(err)
		t.Cleanup(p.testbed.Close)
		at := httptest.NewServer(p.receiver)
		t.Cleanup(at.Close)
		p.receiver.url, p.receiver.wake = at.URL, p.testbed.Wake
		r.places[id] = p
	}
	for _, id := range []string{one, two} {
		r.says(id, "Created consumer "+stream.ConsumerOf(id, full)+".", "up", "--setup", "--cluster", id)
	}
	r.operator = r.as(accounts.Operator)
	shell.Beside(r, r.ctx, "the journal", func(ctx context.Context) error {
		return r.operator.Tail(ctx, stream.Cases, event.CaseSubjects, 0, r.see)
	})
	return r
}

func (r *rig) serve() {
	r.Helper()
	file := filepath.Join(r.keys, "nats.conf")
	text := fmt.Sprintf("listen: \"127.0.0.1:-1\"\njetstream: {store_dir: %q}\ninclude accounts.conf\n", r.TempDir())
	r.must(os.WriteFile(file, []byte(text), 0o600))
	options, err := server.ProcessConfigFile(file)
	r.must(err)
	options.NoSigs, options.NoLog = true, true
	s, err := server.NewServer(options)
	r.must(err)
	s.Start()
	r.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(time.Minute) {
		r.Fatal("NATS is not ready")
	}
	r.url = s.ClientURL()
}

func (r *rig) seed(user string) string { return filepath.Join(r.keys, user+".seed") }

func (r *rig) as(user string) *stream.Stream {
	r.Helper()
	return nats.Connect(r, stream.Config{URL: r.url, NKey: r.seed(user), Grace: time.Second})
}

func (r *rig) environ(cluster, user string) []string {
	return append(r.places[cluster].testbed.Environ(r.url, ""),
		"LBREMEDY_NATS_NKEY="+r.seed(user), "HOME="+r.TempDir(), "PATH="+os.Getenv("PATH"))
}

func (r *rig) says(cluster, want string, args ...string) {
	r.Helper()
	cmd := exec.CommandContext(r.ctx, filepath.Join(built, "lbremedy"), args...)
	cmd.Env = r.environ(cluster, accounts.Operator)
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte(want)) {
		r.Fatalf("%v: %v, %s; want %q", args, err, out, want)
	}
}

func (r *rig) policy(cluster, rules string) {
	r.Helper()
	key := shell.File(r, "key", "c2l4dGVlbiBieXRlcyBvciBtb3Jl")
	tell := fmt.Sprintf("tell: [{name: ops, kind: webhook, url: %q, secretFrom: {file: %q}}]\n", r.places[cluster].receiver.url, key)
	r.must(r.places[cluster].testbed.Allow(r.ctx, rules+tell))
}

func (r *rig) start(env []string, name string, args ...string) (end func()) {
	r.Helper()
	var said shell.Log
	cmd := exec.Command(filepath.Join(built, name), args...)
	cmd.Env, cmd.Stderr = env, &said
	r.must(cmd.Start())
	end = sync.OnceFunc(func() {
		if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
			r.Errorf("%s %v: %v", name, args, err)
		}
		if r.Failed() {
			r.Logf("%s %v said\n%s", name, args, said.String())
		}
	})
	r.Cleanup(end)
	return end
}

func (r *rig) see(m stream.Message) error {
	rec, err := event.DecodeRecord(m.Subject, m.Header, m.Data)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.records = append(r.records, rec)
	r.mu.Unlock()
	for _, p := range r.places {
		p.testbed.Wake()
	}
	return nil
}

func (r *rig) of(cluster, service string) []event.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.records), func(rec event.Record) bool {
		return rec.Cluster != cluster || service != "" && rec.Service.Name != service
	})
}

func (r *rig) ends(cluster, service, what string, wanted func(event.Record) bool) event.Record {
	r.Helper()
	var found event.Record
	err := r.places[cluster].testbed.Until(r.ctx, func() bool {
		all := r.of(cluster, service)
		i := slices.IndexFunc(all, func(rec event.Record) bool { return rec.Phase == event.Settled && wanted(rec) })
		if i >= 0 {
			found = all[i]
		}
		return i >= 0
	})
	if err != nil {
		for _, rec := range r.of(cluster, service) {
			r.Logf("%s %s: %s %s %s %s %s %s", rec.Class, rec.Phase, rec.Result, rec.Held, rec.Rule, rec.Finding, rec.Note, rec.Error)
		}
		r.Fatalf("%s in %s: it never was %s: %v", service, cluster, what, err)
	}
	return found
}

func (r *rig) fixed(cluster, service string) event.Record {
	r.Helper()
	rec := r.ends(cluster, service, "fixed", func(rec event.Record) bool { return rec.Result == event.Fixed })
	r.must(r.places[cluster].testbed.Until(r.ctx, func() bool { return r.places[cluster].testbed.Healed(service) }))
	return rec
}

func (r *rig) fail(cluster, class, service string) {
	r.Helper()
	f := testbed.LostTag().As(service)
	if class == full {
		all := testbed.All()
		f = all[slices.IndexFunc(all, func(f testbed.Fixture) bool {
			return f.Class == full && f.Ends == event.Fixed && f.Config == testbed.Config{} && f.Supported()
		})].As(service)
	}
	r.must(r.places[cluster].testbed.Fail(r.ctx, f))
}

var programs = map[string]string{full: "vswitchipexhausted", lost: "tagmissing"}

// functions starts the functions of a cluster, which accept calls signed with its key, and returns a routes file for them.
func (r *rig) functions(cluster string) (routes string) {
	r.Helper()
	text := "routes:\n"
	for class, program := range programs {
		port, err := strconv.Atoi(shell.Port(r))
		r.must(err)
		env, err := r.places[cluster].testbed.Function(r.ctx, class, r.TempDir(), r.places[cluster].key.Public(), port)
		r.must(err)
		r.start(append(env, "HOME="+r.TempDir(), "PATH="+os.Getenv("PATH")), program)
		text += fmt.Sprintf("  %s: {url: 'http://127.0.0.1:%d'}\n", class, port)
	}
	return shell.File(r, "routes.yaml", text)
}

func (r *rig) engine(cluster, routes string) (end func()) {
	r.Helper()
	key := filepath.Join(r.TempDir(), "engine.pem")
	r.must(os.WriteFile(key, r.places[cluster].key.PEM(), 0o600))
	return r.start(r.environ(cluster, accounts.Engine), "lbremedy", "up", "--parts", "worker,notifier", "--secrets", os.TempDir(),
		"--policy", r.places[cluster].testbed.PolicyFlag(), "--routes", routes, "--engine-key", key)
}

// TestClusters: each cluster is repaired by its own engine and functions, and a limit of one does not affect the other.
func TestClusters(t *testing.T) {
	r := newRig(t)
	const narrow = "mode: fix\nramDelay: 1s\nbudgets: {class: 1, least: 100}\n"
	const careful = "mode: fix\nramDelay: 1s\nbudgets: {class: 100, least: 100}\n"
	r.policy(one, narrow)
	r.policy(two, narrow+"classes: {tag-missing: {risk: high}}\n")
	for id, p := range r.places {
		x, err := p.testbed.Exporter(r.ctx, r.as(accounts.Exporter(id)))
		r.must(err)
		shell.Beside(r, r.ctx, "the exporter of "+id, x.Run)
	}
	first := r.functions(one)
	r.engine(one, first)
	// The routes of the second cluster lead to the functions of the first, which reject its calls.
	wrong := r.engine(two, first)

	r.fail(two, lost, "web")
	r.fail(one, full, "web")
	if rec := r.fixed(one, "web"); rec.Class != full {
		t.Errorf("web in %s is of class %s", one, rec.Class)
	}
	r.ends(two, "web", "refused", func(rec event.Record) bool {
		return strings.Contains(rec.Error, "the signature of the call is not accepted")
	})
	if writes := r.places[two].testbed.WorkerWrites(); len(writes) > 0 {
		t.Errorf("in %s, whose functions are not called, %v was written", two, writes)
	}
	wrong()
	r.engine(two, r.functions(two))
	if rec := r.fixed(two, "web"); rec.Class != lost {
		t.Errorf("web in %s is of class %s", two, rec.Class)
	}

	// A budget's place that one cluster has taken remains free in the other.
	r.fail(one, full, "budget")
	r.ends(one, "budget", "held by the budget", held(event.HeldByBudget))
	r.fail(two, full, "budget")
	r.fixed(two, "budget")
	r.policy(one, careful)
	r.fixed(one, "budget")
	r.fail(two, full, "budget-2")
	r.ends(two, "budget-2", "held by the budget", held(event.HeldByBudget))
	r.policy(two, careful+"classes: {tag-missing: {risk: high}}\n")
	r.fixed(two, "budget-2")

	// The second cluster continues while each limit holds the first one.
	rule := func(text string) func(event.Record) bool {
		return func(rec event.Record) bool { return strings.Contains(rec.Rule.String(), text) }
	}
	freeze := careful + fmt.Sprintf("freezes: [{name: office, from: %q, until: %q}]\n", time.Now().Add(-time.Hour).Format(time.RFC3339), time.Now().
		Add(time.Hour).Format(time.RFC3339))
	for _, tt := range []struct {
		name      string
		hold, end func()
		held      func(event.Record) bool
	}{
		{"pause",
			func() { r.says(one, "Cluster "+one+": Paused by ann", "pause", "--by", "ann") },
			func() { r.says(one, "Ended. Cluster "+one, "resume") },
			held(event.HeldByPause)},
		{"freeze", func() { r.policy(one, freeze) }, func() { r.policy(one, careful) }, held(event.HeldByFreeze)},
		{"observe", func() { r.policy(one, "mode: observe\n") }, func() { r.policy(one, careful) },
			func(rec event.Record) bool { return rec.Result == event.Planned }},
		{"breaker",
			func() {
				_, err := control.RecordFailedFix(r.ctx, r.operator, one, full, "test.1", 1, say.F("It is a test."))
				r.must(err)
			},
			func() { r.says(one, full+" may write again in cluster "+one+".", "breaker", "close", full) },
			rule("The breaker of the class " + full + " has been open since")},
	} {
		tt.hold()
		r.fail(one, full, tt.name)
		r.fail(two, full, tt.name)
		r.ends(one, tt.name, "held", tt.held)
		r.fixed(two, tt.name)
		if r.places[one].testbed.Healed(tt.name) {
			t.Errorf("%s: the Service of %s was healed all the same", tt.name, one)
		}
		tt.end()
		r.fixed(one, tt.name)
	}

	// The policy of one cluster allows a fix that needs an approval in the other.
	r.fail(one, lost, "approval")
	r.fail(two, lost, "approval")
	r.fixed(two, "approval")
	asked := r.ends(one, "approval", "asked", func(rec event.Record) bool { return rec.Result == event.Asked && rec.Digest != "" })
	r.policy(two, careful)
	r.fail(two, lost, "approval-2")
	alike := r.ends(two, "approval-2", "asked", func(rec event.Record) bool { return rec.Result == event.Asked && rec.Digest != "" })
	me := identity.Admin(t, r.places[one].testbed.Cluster)
	r.says(one, me+" approved", "approve", asked.Case)
	if rec := r.fixed(one, "approval"); rec.Approved == nil || rec.Approved.By != me {
		t.Errorf("approved by %+v", rec.Approved)
	}
	written := func(rec event.Record) bool { return rec.Phase == event.Intent || rec.Next > 0 }
	if slices.ContainsFunc(r.of(two, "approval-2"), written) || r.places[two].testbed.Healed("approval-2") {
		t.Errorf("the Service of %s, whose case is %s, was written to", two, alike.Case)
	}

	// Each receiver was notified of its own cluster only. No message is dead, and only cases that ask are waiting.
	for id, p := range r.places {
		r.must(p.testbed.Until(r.ctx, func() bool { return len(p.receiver.told()) > 0 }))
		if told := p.receiver.told(); !slices.Equal(told, []string{id}) {
			t.Errorf("the receiver of %s was told of %v", id, told)
		}
		l, err := ledger.Draw(r.ctx, r.operator, id, time.Now(), ledger.Late)
		r.must(err)
		if len(l.Lost) > 0 {
			t.Errorf("lost in %s: %v", id, l.Lost)
		}
	}
	if m, err := r.operator.Last(r.ctx, stream.Dead, stream.DeadSubjects); !errors.Is(err, stream.ErrNotFound) {
		t.Errorf("something is dead: %s %v %v", m.Subject, m.Header, err)
	}
}

func held(by event.Hold) func(event.Record) bool {
	return func(rec event.Record) bool { return rec.Held == by }
}
