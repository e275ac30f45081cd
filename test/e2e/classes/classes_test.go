// Package classes injects every failure of every class into a cluster that the whole of lbremedy watches.
package classes

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/shared/ticket"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/shell"
	"github.com/lbremedy/lbremedy/test/statediff"
	"github.com/lbremedy/lbremedy/test/testbed"
)

// listed are the fixtures whose load balancer somebody has changed. Their record says what else the sync will change, and whether
// that interrupts traffic.
var listed = map[string]struct {
	what string
	down bool
}{
	"drifted-redirect": {"listener http:80", true}, "drifted-group": {"listener tcp:80", false}, "drifted-nlb": {"listener TCP:8080", true},
	"drifted-lost-redirect": {"listener http:80", true}, "drifted-lost-group": {"listener tcp:80", false}, "drifted-lost-nlb": {"listener TCP:8080", true},
	"drifted-lost-settings": {"listener tcp:80", false}, "drifted-lost-nlb-settings": {"listener TCPSSL:80", false},
}

// noWayBack are the fixtures whose plan says that its fix cannot be undone: the previous state no longer exists.
var noWayBack = []string{"balancer-gone", "deletion-protected", "deletion-protected-nlb"}

// inTheWay are the fixtures whose fix cannot be undone after the sync: an object that the controller then made is in the way.
var inTheWay = []string{"listener-left"}

// ruledOut are the fixtures whose fix cannot be undone after the sync: the new load balancer cannot have the previous settings.
var ruledOut = []string{"zone-sold-out"}

// TestClasses injects the failures of every class on a real API server, with the exporter and one worker for each class, which
// has only its generated rights. The controller's own Event starts each case. Each of the four phases compares the whole state of
// cluster and cloud:
//
//   - The worker acts while no controller runs. Only what the journalled steps name changes. A class that asks has asked one
//     question.
//   - The controller syncs. Fixed Services work. Other changes in the cloud are those that the journal's record predicted.
//   - The clock is advanced. A class that waits asks in the end, in one ticket, and nothing changes.
//   - The fixes are undone. The state is as before, except for what the controller made in between.
func TestClasses(t *testing.T) {
	rules := demonstration(t)
	var fixtures []testbed.Fixture
	for _, f := range testbed.All() {
		if !f.Supported() {
			t.Logf("%s is left out: the controller does not fail so", f.Name)
			continue
		}
		fixtures = append(fixtures, f)
	}
	for _, fixtures := range testbed.ByConfig(fixtures) {
		t.Run(fixtures[0].Name, func(t *testing.T) { runClasses(t, fixtures, rules, 0) })
	}
}

// allowed are fixtures whose plans exceed the risk in the demonstration's policy, with their results under a policy that allows it.
var allowed = map[string]event.Result{
	"cert-expired": event.Fixed, "balancer-two": event.Fixed, "balancer-two-nlb": event.Fixed, "eni-lent": event.Synced, "listener-left": event.Fixed,
	"deletion-protected": event.Fixed, "deletion-protected-nlb": event.Fixed, "nodes-cordoned": event.Fixed,
}

// patience is longer than any class waits before it plans.
const patience = 3 * time.Minute

// TestAllowed injects these failures under a policy that allows their plans: they are fixed and undone.
func TestAllowed(t *testing.T) {
	var file map[string]any
	if err := yaml.Unmarshal(demonstration(t), &file); err != nil {
		t.Fatal(err)
	}
	classes, _ := file["classes"].(map[string]any)
	if classes == nil {
		classes = map[string]any{}
		file["classes"] = classes
	}
	var fixtures []testbed.Fixture
	for _, f := range testbed.All() {
		if ends, ok := allowed[f.Name]; ok && f.Supported() {
			f.Ends, f.Heals = ends, true
			fixtures = append(fixtures, f)
			classes[f.Class] = map[string]any{"risk": "high", "oneWay": true}
		}
	}
	rules, err := yaml.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, fixtures := range testbed.ByConfig(fixtures) {
		t.Run(fixtures[0].Name, func(t *testing.T) { runClasses(t, fixtures, rules, patience) })
	}
}

func demonstration(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile("../../demo/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func runClasses(t *testing.T, fixtures []testbed.Fixture, rules []byte, ahead time.Duration) {
	c := cluster.Alone(t) // may wait for other tests
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	tb, err := testbed.Start(ctx, testbed.Options{Config: fixtures[0].Config, Cluster: c, Namespace: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	r := newRig(t, ctx, tb, rules)
	r.ahead.Store(int64(ahead))
	if err := tb.Fail(ctx, fixtures...); err != nil {
		t.Fatal(err)
	}
	if err := tb.Halt(ctx); err != nil {
		t.Fatal(err)
	}
	broken := statediff.Read(t, tb)

	end := r.start(t, ctx)
	r.until(t, ctx, fixtures, func(f testbed.Fixture) bool {
		if f.Ends.Worked() {
			return r.written(f).Done()
		}
		return r.ended(f).Result == f.Ends
	})
	written := statediff.Read(t, tb)
	var steps []statediff.Allowance
	for _, f := range fixtures {
		steps = append(steps, statediff.BySteps(t, r.written(f))...)
		rec := r.ended(f)
		if f.Ends.Worked() {
			rec = r.written(f)
		}
		if want, ok := listed[f.Name]; ok {
			named := slices.ContainsFunc(rec.Changes, func(c event.Change) bool { return c.What == want.what && c.Down == want.down })
			if !named || rec.Risk != "high" || !strings.Contains(rec.Note.String(), want.what) {
				t.Errorf("%s is of %s risk, says %q and lists %v", f.Name, rec.Risk, rec.Note, rec.Changes)
			}
		}
		if asked := r.asked(f); f.Ends == event.Asked && len(asked) != 1 || f.Ends != event.Asked && len(asked) > 0 {
			t.Errorf("%s (%s) has asked %d questions: %q", f.Name, f.Class, len(asked), asked)
		}
	}
	same(t, "no step names this, and the worker has changed it", statediff.Compare(broken, written, steps))
	r.cloudWrites(t, fixtures)
	r.tickets(t, ctx, fixtures, func(f testbed.Fixture) bool { return f.Ends == event.Asked })
	writes := tb.WorkerWrites()

	tb.Resume(ctx)
	r.until(t, ctx, fixtures, func(f testbed.Fixture) bool {
		return !f.Heals || r.ended(f).Result == f.Ends && tb.Healed(f.Service)
	})
	end()
	if err := tb.Halt(ctx); err != nil {
		t.Fatal(err)
	}
	for _, f := range fixtures {
		if f.Ends == event.Fixed && !tb.Listens(f.Service) {
			t.Errorf("%s (%s) is fixed, and not each of its ports has a running listener", f.Name, f.Class)
		}
	}
	healed := statediff.Read(t, tb)
	var synced []event.Service
	for _, f := range fixtures {
		if rec := r.written(f); f.Heals && rec.Next > 0 {
			synced = append(synced, rec.Service)
		}
	}
	syncs := statediff.ByNodes(synced, written.World, healed.World)
	for _, f := range fixtures {
		// The failure continues under a new controller, with the same question.
		if asked := r.asked(f); len(slices.Compact(slices.Sorted(slices.Values(asked)))) > 1 {
			t.Errorf("%s (%s) has asked different questions: %q", f.Name, f.Class, asked)
		}
		if rec := r.written(f); f.Heals && rec.Next > 0 {
			syncs = append(syncs, statediff.ByChanges(t, written, healed, rec)...)
			syncs = append(syncs, statediff.ByDeletion(t, written, rec)...)
			continue
		}
		// A successful sync has this reason.
		if in, _ := tb.Event(f.Service); f.Heals || in.Reason == "UnAvailableLoadBalancer" {
			syncs = append(syncs, statediff.ByController(written, healed, r.ended(f).Service)...)
		}
	}
	same(t, "no record says that the sync changes this", statediff.Compare(written, healed, syncs))

	r.later(t, ctx, fixtures)
	r.tickets(t, ctx, fixtures, func(f testbed.Fixture) bool { return f.Ends == event.Asked || f.Ends == event.Waiting })
	same(t, "a class that waits has changed this", statediff.Compare(healed, statediff.Read(t, tb)))
	if all := tb.WorkerWrites(); len(all) != len(writes) {
		t.Errorf("the worker has written to the cloud once more: %v, after %v", all, writes)
	}

	var fixes []event.Record
	var stays []statediff.Allowance
	for _, f := range fixtures {
		if f.Ends.Worked() {
			fixes = append(fixes, r.written(f))
			stays = append(stays, r.undo(t, ctx, tb, f)...)
		}
	}
	restored := statediff.Read(t, tb)
	for _, rec := range fixes {
		stays = append(stays, statediff.ByUndo(t, restored, rec)...)
	}
	same(t, "this is not as it was before the fix", statediff.Compare(broken, restored, syncs, stays))
	if _, err := r.stream.Last(ctx, stream.Dead, "lbremedy.dead.>"); !errors.Is(err, stream.ErrNotFound) {
		t.Errorf("something could not be handled: %v", err)
	}
}

func same(t *testing.T, what string, diff []string) {
	t.Helper()
	const shown = 40
	if n := len(diff); n > 0 {
		t.Errorf("%s: %d values\n%s", what, n, strings.Join(diff[:min(n, shown)], "\n"))
	}
}

type rig struct {
	testbed *testbed.Testbed
	stream  *stream.Stream
	hosts   map[string]*host.Host // by class, with its own rights
	ahead   atomic.Int64          // how far the engine's clock is advanced

	mu      sync.Mutex
	settled map[string]event.Record // last record of each Service and class
	steps   map[string]event.Record // last record with an applied step
	asks    map[string][]string     // findings of questions, without their numbers
	opened  map[string]int          // notifications that it was opened, by ticket
}

func newRig(t *testing.T, ctx context.Context, tb *testbed.Testbed, rules []byte) *rig {
	t.Helper()
	st := nats.Connect(t, stream.Config{URL: nats.Start(t, embedded.Options{}).URL(), Grace: time.Second})
	r := &rig{
		testbed: tb, stream: st, hosts: map[string]*host.Host{},
		settled: map[string]event.Record{}, steps: map[string]event.Record{}, asks: map[string][]string{}, opened: map[string]int{},
	}
	if _, err := st.Setup(ctx, (&host.Host{Remedies: functions.All}).Classes(), stream.Settings{Clusters: []string{testbed.ClusterID}}); err != nil {
		t.Fatal(err)
	}
	if err := tb.Allow(ctx, string(rules)); err != nil {
		t.Fatal(err)
	}
	for _, class := range functions.All {
		env, err := tb.Env(ctx, st, class.Class, new(cli.Program).ParsePolicy)
		if err != nil {
			t.Fatal(err)
		}
		env.Now = r.now
		r.hosts[class.Class] = &host.Host{Env: env, Remedies: []*remedy.Remedy{class}}
	}
	receiver := httptest.NewServer(http.HandlerFunc(r.told))
	t.Cleanup(receiver.Close)
	secret := shell.File(t, "secret", "c2l4dGVlbiBieXRlcyBvciBtb3Jl")
	tells, err := ticket.New(ticket.Config{
		Stream: st, Remedies: functions.All, Cluster: testbed.ClusterID, Now: r.now,
		Sinks: []policy.Sink{{
			Name: "ops", Kind: policy.Webhook, URL: receiver.URL, SecretFrom: policy.Reference{File: secret}, Results: []string{string(event.Asked)},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	shell.Beside(t, ctx, "the sinks", func(ctx context.Context) error { tells.Run(ctx); return nil })
	shell.Beside(t, ctx, "the journal", func(ctx context.Context) error { return st.Tail(ctx, stream.Cases, event.CaseSubjects, 0, r.see) })
	return r
}

func (r *rig) now() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }

func (r *rig) start(t *testing.T, ctx context.Context) (end func()) {
	t.Helper()
	x, err := r.testbed.Exporter(ctx, r.stream)
	if err != nil {
		t.Fatal(err)
	}
	running, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	all := map[string]func(context.Context) error{"exporter": x.Run}
	for class, h := range r.hosts {
		all["worker of "+class] = func(ctx context.Context) error { return h.Work(ctx, 16) }
	}
	for name, run := range all {
		wait.Go(func() {
			if err := run(running); err != nil && running.Err() == nil {
				t.Errorf("the %s has ended: %v", name, err)
			}
		})
	}
	end = sync.OnceFunc(func() { cancel(); wait.Wait() })
	t.Cleanup(end)
	return end
}

func (r *rig) see(m stream.Message) error {
	rec, err := event.DecodeRecord(m.Subject, m.Header, m.Data)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	k := rec.Service.Name + " " + rec.Class
	if rec.Next > 0 {
		r.steps[k] = rec
	}
	if rec.Phase == event.Settled && rec.Result != event.Superseded {
		r.settled[k] = rec
		if rec.Result == event.Asked {
			r.asks[k] = append(r.asks[k], figures.ReplaceAllString(rec.Finding.String(), ""))
		}
	}
	r.testbed.Wake()
	return nil
}

func (r *rig) told(w http.ResponseWriter, req *http.Request) {
	var e struct {
		Type string
		Data ticket.Facts
	}
	if err := json.NewDecoder(req.Body).Decode(&e); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	if e.Type == ticket.TypeOpened {
		r.opened[e.Data.Key]++
	}
	r.mu.Unlock()
	r.testbed.Wake()
}

func (r *rig) tickets(t *testing.T, ctx context.Context, fixtures []testbed.Fixture, asks func(testbed.Fixture) bool) {
	t.Helper()
	in := func(f testbed.Fixture) (open []string) {
		all, err := ticket.Of(ctx, r.stream, f.Class, r.ended(f).Service.UID)
		if err != nil {
			return nil // called again after each notification
		}
		for _, told := range all {
			if told.Status == ticket.Open {
				open = append(open, told.Key)
			}
		}
		return open
	}
	// The notification is recorded after it was sent, and that record wakes nobody.
	waiting, end := context.WithCancel(ctx)
	defer end()
	go func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r.testbed.Wake()
			case <-waiting.Done():
				return
			}
		}
	}()
	err := r.testbed.Until(ctx, func() bool {
		return !slices.ContainsFunc(fixtures, func(f testbed.Fixture) bool { return asks(f) && len(in(f)) == 0 })
	})
	for _, f := range fixtures {
		open := in(f)
		if want := asks(f); want != (len(open) == 1) || len(open) > 1 {
			t.Errorf("%s (%s) is in the open tickets %v, and that it asks is %t", f.Name, f.Class, open, want)
		}
		r.mu.Lock()
		for _, key := range open {
			if n := r.opened[key]; n != 1 {
				t.Errorf("%s (%s): its ticket was opened %d times", f.Name, f.Class, n)
			}
		}
		r.mu.Unlock()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func key(f testbed.Fixture) string { return f.Service + " " + f.Class }

func (r *rig) ended(f testbed.Fixture) event.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.settled[key(f)]
}

func (r *rig) written(f testbed.Fixture) event.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.steps[key(f)]
}

func (r *rig) asked(f testbed.Fixture) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.asks[key(f)])
}

var figures = regexp.MustCompile(`\d+`)

func (r *rig) until(t *testing.T, ctx context.Context, fixtures []testbed.Fixture, ok func(testbed.Fixture) bool) {
	t.Helper()
	err := r.testbed.Until(ctx, func() bool {
		return !slices.ContainsFunc(fixtures, func(f testbed.Fixture) bool { return !ok(f) })
	})
	if err == nil {
		return
	}
	for _, f := range fixtures {
		if rec := r.ended(f); !ok(f) {
			t.Errorf("%s (%s) ended as %q and should have ended as %s (healed: %t): %s %s %s",
				f.Name, f.Class, rec.Result, f.Ends, r.testbed.Healed(f.Service), rec.Finding, rec.Rule, rec.Error)
		}
	}
	t.Fatal(err)
}

// cloudWrites compares the worker's writes to the cloud with the journal: a write that was reverted shows in no state diff.
func (r *rig) cloudWrites(t *testing.T, fixtures []testbed.Fixture) {
	t.Helper()
	steps := 0
	for _, f := range fixtures {
		rec := r.written(f)
		for _, s := range rec.Steps[:rec.Next] {
			if s.Target != "" {
				steps++
			}
		}
	}
	if writes := r.testbed.WorkerWrites(); len(writes) > steps {
		t.Errorf("the worker wrote to the cloud %v, and the journal has %d steps there", writes, steps)
	}
}

func (r *rig) later(t *testing.T, ctx context.Context, fixtures []testbed.Fixture) {
	t.Helper()
	for _, f := range fixtures {
		if f.Ends != event.Waiting {
			continue
		}
		rec := r.ended(f)
		m, err := r.stream.Last(ctx, stream.Failed, event.FailedSubject(testbed.ClusterID, f.Class, rec.Service.UID))
		if err != nil {
			t.Fatal(err)
		}
		e, err := event.DecodeNATS(m.Header, m.Data)
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if rec.Result == event.Asked {
				break
			}
			r.ahead.Add(int64(rec.Wait + lasts))
			reply := r.hosts[f.Class].Handle(ctx, e)
			if reply.Err != nil || reply.Dead != "" {
				t.Fatalf("%s (%s): %v %s", f.Name, f.Class, reply.Err, reply.Dead)
			}
			rec = reply.Record
		}
		if rec.Result != event.Asked || len(rec.Ask) == 0 {
			t.Errorf("%s (%s) has waited long and is %s: %s", f.Name, f.Class, rec.Result, rec.Finding)
		}
		// The same event gets the same answer, also if the class asked before the clock was advanced because the test was slow.
		again := r.hosts[f.Class].Handle(ctx, e).Record
		if again.Result != event.Asked || !again.At.Equal(rec.At) && !again.Repeats && again.Ask.String() != rec.Ask.String() {
			t.Errorf("%s (%s) has asked %q, and then ended as %s at %v: %s", f.Name, f.Class, rec.Ask, again.Result, again.At, again.Ask)
		}
	}
}

// lasts is longer than the quarter of an hour after which a failure that was to pass becomes a question.
const lasts = 16 * time.Minute

func (r *rig) undo(t *testing.T, ctx context.Context, tb *testbed.Testbed, f testbed.Fixture) []statediff.Allowance {
	t.Helper()
	i := slices.IndexFunc(functions.All, func(c *remedy.Remedy) bool { return c.Class == f.Class })
	rec := r.written(f)
	// A step that found its change already made is undone by the case that made it.
	back := slices.ContainsFunc(rec.Steps, func(s event.StepRecord) bool { return s.Undo != nil && !s.Found })
	stuck := slices.ContainsFunc(rec.Steps, func(s event.StepRecord) bool { return s.Undo == nil && !s.ResyncOnly })
	if stuck != slices.Contains(noWayBack, f.Name) {
		t.Errorf("%s: the steps are %v, and that some have no way back is %t", f.Name, rec.Steps, stuck)
	}
	out, err := engine.Undo(ctx, r.person(t, ctx, tb), functions.All[i], []event.Record{rec})
	switch {
	case stuck && !errors.Is(err, engine.ErrNoUndo):
		t.Errorf("%s: what has no way back was taken back: %+v, %v", f.Name, out, err)
	case stuck || !back:
		return statediff.BySteps(t, rec)
	case slices.Contains(inTheWay, f.Name):
		if !errors.Is(err, remedy.ErrMoved) {
			t.Errorf("%s: it was taken back although something stands in its place: %+v, %v", f.Name, out, err)
		}
		return statediff.BySteps(t, rec)
	case slices.Contains(ruledOut, f.Name):
		if !errors.Is(err, engine.ErrNoUndo) {
			t.Errorf("%s: it was taken back although the load balancer rules it out: %+v, %v", f.Name, out, err)
		}
		return statediff.BySteps(t, rec)
	case err != nil:
		t.Errorf("%s: %v", f.Name, err)
	case out.Result != event.Undone:
		t.Errorf("%s: it was taken back and ended as %s", f.Name, out.Result)
	}
	return nil
}

// person returns the environment of a person who undoes fixes: the classes have no right to those writes.
func (r *rig) person(t *testing.T, ctx context.Context, tb *testbed.Testbed) *engine.Env {
	t.Helper()
	env, err := tb.Person(ctx, r.stream, functions.All, new(cli.Program).ParsePolicy)
	if err != nil {
		t.Fatal(err)
	}
	env.Now = r.now
	return env
}
