// Package classes plays a scene of every class against the whole of lbremedy.
package classes

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/policy/policyfile"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/shared/ticket"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/scene"
	"github.com/lbremedy/lbremedy/test/snapshot"
)

// listed are the scenes whose load balancer somebody has changed, and what their records
// say of it: part of the record of what the sync will change, and whether that takes
// traffic down.
var listed = map[string]struct {
	what string
	down bool
}{
	"drifted-redirect": {"listener http:80", true}, "drifted-group": {"listener tcp:80", false}, "drifted-nlb": {"listener TCP:8080", true},
	"drifted-lost-redirect": {"listener http:80", true}, "drifted-lost-group": {"listener tcp:80", false}, "drifted-lost-nlb": {"listener TCP:8080", true},
	"drifted-lost-settings": {"listener tcp:80", false}, "drifted-lost-nlb-settings": {"listener TCPSSL:80", false},
}

// noWayBack are the scenes whose fix can't be taken back, which their plans say
// themselves: what there was before does not exist any more.
var noWayBack = []string{"balancer-gone"}

// TestClasses plays the scenes of every class on a real API server, with the
// exporter and a worker for each class that has its generated rights and no others. The
// controller's own event starts each case. Whole snapshots of cluster and cloud
// are compared, in four acts:
//
//   - The worker answers while no controller runs. Only what the journalled steps
//     name has changed. A class that asks has asked one question.
//   - The controller syncs. What was fixed works again. What has changed in the cloud
//     besides is what the journal's record said that the sync would change.
//   - The clock is put forward. A class that waits asks in the end, in one ticket, and
//     nothing has changed.
//   - What was fixed is taken back. All is as it was before, but for what the
//     controller has made in between.
func TestClasses(t *testing.T) {
	text, err := os.ReadFile("../../demo/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := policyfile.Parse(text, (&host.Host{Remedies: functions.All}).Classes())
	if err != nil {
		t.Fatal(err)
	}
	var roles []scene.Role
	for _, s := range scene.All() {
		if !s.Playable() {
			t.Logf("%s is not played: the controller does not fail so", s.Name)
			continue
		}
		roles = append(roles, s.As(s.Name))
	}
	for _, cast := range scene.Casts(roles) {
		t.Run(cast[0].Name, func(t *testing.T) { playClasses(t, cast, rules) })
	}
}

func playClasses(t *testing.T, cast []scene.Role, rules remedy.Policy) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	stage, err := scene.Start(ctx, scene.Options{Setting: cast[0].On, Cluster: cluster.Alone(t), Namespace: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	defer stage.Close()
	r := newRig(t, ctx, stage, rules)
	if err := stage.Play(ctx, cast...); err != nil {
		t.Fatal(err)
	}
	if err := stage.Halt(ctx); err != nil {
		t.Fatal(err)
	}
	broken := snapshot.Look(t, stage)

	end := r.start(t, ctx)
	r.until(t, ctx, cast, func(role scene.Role) bool {
		if role.Ends == event.Fixed {
			return r.written(role).Done()
		}
		return r.ended(role).Result == role.Ends
	})
	written := snapshot.Look(t, stage)
	var steps []snapshot.Allowance
	for _, role := range cast {
		steps = append(steps, snapshot.BySteps(t, r.written(role))...)
		rec := r.ended(role)
		if role.Ends == event.Fixed {
			rec = r.written(role)
		}
		if want, ok := listed[role.Name]; ok {
			named := slices.ContainsFunc(rec.Changes, func(c event.Change) bool { return c.What == want.what && c.Down == want.down })
			if !named || rec.Risk != "high" || !strings.Contains(rec.Note, want.what) {
				t.Errorf("%s is of %s risk, says %q and lists %v", role.Name, rec.Risk, rec.Note, rec.Changes)
			}
		}
		if asked := r.asked(role); role.Ends == event.Asked && len(asked) != 1 || role.Ends != event.Asked && len(asked) > 0 {
			t.Errorf("%s (%s) has asked %d questions: %q", role.Name, role.Class, len(asked), asked)
		}
	}
	same(t, "no step names this, and the worker has changed it", snapshot.Compare(broken, written, steps))
	r.cloudWrites(t, cast)
	r.tickets(t, ctx, cast, func(role scene.Role) bool { return role.Ends == event.Asked })
	writes := stage.WorkerWrites()

	stage.Resume(ctx)
	r.until(t, ctx, cast, func(role scene.Role) bool {
		return !role.Heals || r.ended(role).Result == role.Ends && stage.Healed(role.Service)
	})
	end()
	if err := stage.Halt(ctx); err != nil {
		t.Fatal(err)
	}
	healed := snapshot.Look(t, stage)
	var synced []event.Service
	for _, role := range cast {
		if rec := r.written(role); role.Heals && rec.Next > 0 {
			synced = append(synced, rec.Service)
		}
	}
	syncs := snapshot.ByNodes(synced, written.World, healed.World)
	for _, role := range cast {
		// The failure goes on, with a controller that is new: the question is the same.
		if asked := r.asked(role); len(slices.Compact(slices.Sorted(slices.Values(asked)))) > 1 {
			t.Errorf("%s (%s) has asked different questions: %q", role.Name, role.Class, asked)
		}
		if rec := r.written(role); role.Heals && rec.Next > 0 {
			syncs = append(syncs, snapshot.ByChanges(t, written, healed, rec)...)
			continue
		}
		// This reason is that of a sync that succeeds.
		if in, _ := stage.Event(role.Service); role.Heals || in.Reason == "UnAvailableLoadBalancer" {
			syncs = append(syncs, snapshot.ByController(written, healed, r.ended(role).Service)...)
		}
	}
	same(t, "no record says that the sync changes this", snapshot.Compare(written, healed, syncs))

	r.later(t, ctx, cast)
	r.tickets(t, ctx, cast, func(role scene.Role) bool { return role.Ends == event.Asked || role.Ends == event.Waiting })
	same(t, "a class that waits has changed this", snapshot.Compare(healed, snapshot.Look(t, stage)))
	if all := stage.WorkerWrites(); len(all) != len(writes) {
		t.Errorf("the worker has written to the cloud once more: %v, after %v", all, writes)
	}

	var fixes []event.Record
	var stays []snapshot.Allowance
	for _, role := range cast {
		if role.Ends == event.Fixed {
			fixes = append(fixes, r.written(role))
			stays = append(stays, r.undo(t, ctx, stage, role)...)
		}
	}
	restored := snapshot.Look(t, stage)
	for _, rec := range fixes {
		stays = append(stays, snapshot.ByUndo(t, restored, rec)...)
	}
	same(t, "this is not as it was before the fix", snapshot.Compare(broken, restored, syncs, stays))
	if _, err := r.stream.Last(ctx, stream.Dead, "lbremedy.dead.>"); !errors.Is(err, stream.ErrNotFound) {
		t.Errorf("something could not be handled: %v", err)
	}
}

// same fails the test for what differs, of which it shows some.
func same(t *testing.T, what string, diff []string) {
	t.Helper()
	const shown = 40
	if n := len(diff); n > 0 {
		t.Errorf("%s: %d values\n%s", what, n, strings.Join(diff[:min(n, shown)], "\n"))
	}
}

// A rig is lbremedy on a stage, and what its journal has said so far.
type rig struct {
	stage  *scene.Stage
	stream *stream.Stream
	hosts  map[string]*host.Host // of each class, with its own rights
	ahead  atomic.Int64          // how far the engine's clock is put forward

	mu      sync.Mutex
	settled map[string]event.Record // the last of each Service and class
	steps   map[string]event.Record // the last of each that tells of a step that was applied
	asks    map[string][]string     // findings of questions, without their figures
	opened  map[string]int          // by ticket: how often somebody was told that there is one
}

// newRig sets lbremedy up on the stage. Nothing of it runs yet.
func newRig(t *testing.T, ctx context.Context, stage *scene.Stage, rules remedy.Policy) *rig {
	t.Helper()
	st := nats.Connect(t, stream.Config{URL: nats.Start(t, embedded.Options{}).URL(), Grace: time.Second})
	r := &rig{
		stage: stage, stream: st, hosts: map[string]*host.Host{},
		settled: map[string]event.Record{}, steps: map[string]event.Record{}, asks: map[string][]string{}, opened: map[string]int{},
	}
	if _, err := st.Setup(ctx, (&host.Host{Remedies: functions.All}).Classes(), stream.Settings{Clusters: []string{scene.ClusterID}}); err != nil {
		t.Fatal(err)
	}
	if err := policy.Publish(ctx, st, scene.ClusterID, rules); err != nil {
		t.Fatal(err)
	}
	for _, class := range functions.All {
		env, err := stage.Env(ctx, st, class.Class)
		if err != nil {
			t.Fatal(err)
		}
		env.Now = r.now
		r.hosts[class.Class] = &host.Host{Env: env, Remedies: []*remedy.Remedy{class}}
	}
	receiver := httptest.NewServer(http.HandlerFunc(r.told))
	t.Cleanup(receiver.Close)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("c2l4dGVlbiBieXRlcyBvciBtb3Jl"), 0o600); err != nil {
		t.Fatal(err)
	}
	tells, err := ticket.New(ticket.Config{
		Stream: st, Remedies: functions.All, Cluster: scene.ClusterID, Now: r.now,
		Sinks: []policy.Sink{{
			Name: "ops", Kind: policy.Webhook, URL: receiver.URL, SecretFrom: policy.Reference{File: secret}, Results: []string{string(event.Asked)},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	following, quiet := context.WithCancel(context.WithoutCancel(ctx))
	var wait sync.WaitGroup
	wait.Go(func() {
		if err := tells.Run(following); err != nil && following.Err() == nil {
			t.Errorf("tell of questions: %v", err)
		}
	})
	wait.Go(func() {
		if err := st.Tail(following, stream.Cases, event.CaseSubjects, 0, r.see); err != nil && following.Err() == nil {
			t.Errorf("read the journal: %v", err)
		}
	})
	t.Cleanup(func() { quiet(); wait.Wait() })
	return r
}

// now is the engine's clock.
func (r *rig) now() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }

// start starts the exporter and a worker for each class. end ends them.
func (r *rig) start(t *testing.T, ctx context.Context) (end func()) {
	t.Helper()
	x, err := r.stage.Exporter(ctx, r.stream)
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

// see takes in a record of the journal.
func (r *rig) see(m stream.Message) error {
	rec, err := event.DecodeRecord(m.Header, m.Data)
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
			r.asks[k] = append(r.asks[k], figures.ReplaceAllString(rec.Finding, ""))
		}
	}
	r.stage.Wake()
	return nil
}

// told takes in what the tickets' webhook gets.
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
	r.stage.Wake()
}

// tickets waits until each of the roles that ask is in one open ticket, which was opened
// once, and none of the others is.
func (r *rig) tickets(t *testing.T, ctx context.Context, cast []scene.Role, asks func(scene.Role) bool) {
	t.Helper()
	in := func(role scene.Role) (open []string) {
		all, err := ticket.Of(ctx, r.stream, role.Class, r.ended(role).Service.UID)
		if err != nil {
			return nil // it is asked again
		}
		for _, told := range all {
			if told.Status == ticket.Open {
				open = append(open, told.Key)
			}
		}
		return open
	}
	// That somebody was told is noted after it, which nobody is woken for.
	waiting, end := context.WithCancel(ctx)
	defer end()
	go func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r.stage.Wake()
			case <-waiting.Done():
				return
			}
		}
	}()
	err := r.stage.Until(ctx, func() bool {
		return !slices.ContainsFunc(cast, func(role scene.Role) bool { return asks(role) && len(in(role)) == 0 })
	})
	for _, role := range cast {
		open := in(role)
		if want := asks(role); want != (len(open) == 1) || len(open) > 1 {
			t.Errorf("%s (%s) is in the open tickets %v, and that it asks is %t", role.Name, role.Class, open, want)
		}
		r.mu.Lock()
		for _, key := range open {
			if n := r.opened[key]; n != 1 {
				t.Errorf("%s (%s): its ticket was opened %d times", role.Name, role.Class, n)
			}
		}
		r.mu.Unlock()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func key(role scene.Role) string { return role.Service + " " + role.Class }

// ended returns how the last run on the role's failure ended.
func (r *rig) ended(role scene.Role) event.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.settled[key(role)]
}

// written returns the last record of the role's failure that tells of steps which
// were applied.
func (r *rig) written(role scene.Role) event.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.steps[key(role)]
}

// asked returns the findings of the questions that were asked about the role's
// failure, without the figures in them.
func (r *rig) asked(role scene.Role) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.asks[key(role)])
}

// figures are what a finding may say otherwise from one look to the next.
var figures = regexp.MustCompile(`\d+`)

// until waits until ok of all roles, and says of which it is not if that does not
// come about.
func (r *rig) until(t *testing.T, ctx context.Context, cast []scene.Role, ok func(scene.Role) bool) {
	t.Helper()
	err := r.stage.Until(ctx, func() bool {
		return !slices.ContainsFunc(cast, func(role scene.Role) bool { return !ok(role) })
	})
	if err == nil {
		return
	}
	for _, role := range cast {
		if rec := r.ended(role); !ok(role) {
			t.Errorf("%s (%s) ended as %q and should have ended as %s (healed: %t): %s %s %s",
				role.Name, role.Class, rec.Result, role.Ends, r.stage.Healed(role.Service), rec.Finding, rec.Rule, rec.Error)
		}
	}
	t.Fatal(err)
}

// cloudWrites holds the worker's calls that wrote to the cloud to the journal: a
// write that another one has taken back would show in no snapshot.
func (r *rig) cloudWrites(t *testing.T, cast []scene.Role) {
	t.Helper()
	steps := 0
	for _, role := range cast {
		rec := r.written(role)
		for _, s := range rec.Steps[:rec.Next] {
			if s.Target != "" {
				steps++
			}
		}
	}
	if writes := r.stage.WorkerWrites(); len(writes) > steps {
		t.Errorf("the worker wrote to the cloud %v, and the journal has %d steps there", writes, steps)
	}
}

// later lets time pass for those who wait, and sees each of them ask in the end,
// once.
func (r *rig) later(t *testing.T, ctx context.Context, cast []scene.Role) {
	t.Helper()
	for _, role := range cast {
		if role.Ends != event.Waiting {
			continue
		}
		rec := r.ended(role)
		m, err := r.stream.Last(ctx, stream.Failed, event.FailedSubject(scene.ClusterID, role.Class, rec.Service.UID))
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
			reply := r.hosts[role.Class].Handle(ctx, e)
			if reply.Err != nil || reply.Dead != "" {
				t.Fatalf("%s (%s): %v %s", role.Name, role.Class, reply.Err, reply.Dead)
			}
			rec = reply.Record
		}
		if rec.Result != event.Asked || rec.Ask == "" {
			t.Errorf("%s (%s) has waited long and is %s: %s", role.Name, role.Class, rec.Result, rec.Finding)
		}
		if again := r.hosts[role.Class].Handle(ctx, e); again.Record.Result != event.Asked || !again.Record.At.Equal(rec.At) {
			t.Errorf("%s (%s) has asked, and then ended as %s at %v", role.Name, role.Class, again.Record.Result, again.Record.At)
		}
	}
}

// lasts is more than a quarter of an hour, after which what was to pass by itself
// becomes a question.
const lasts = 16 * time.Minute

// undo takes back what was done for a role, and returns what can't be.
func (r *rig) undo(t *testing.T, ctx context.Context, stage *scene.Stage, role scene.Role) []snapshot.Allowance {
	t.Helper()
	i := slices.IndexFunc(functions.All, func(c *remedy.Remedy) bool { return c.Class == role.Class })
	rec := r.written(role)
	back := slices.ContainsFunc(rec.Steps, func(s event.StepRecord) bool { return s.Undo != nil })
	stuck := slices.ContainsFunc(rec.Steps, func(s event.StepRecord) bool { return s.Undo == nil && !s.Wakes })
	if stuck != slices.Contains(noWayBack, role.Name) {
		t.Errorf("%s: the steps are %v, and that some have no way back is %t", role.Name, rec.Steps, stuck)
	}
	out, err := engine.Undo(ctx, r.person(t, ctx, stage), functions.All[i], []event.Record{rec})
	switch {
	case stuck && !errors.Is(err, engine.ErrNoUndo):
		t.Errorf("%s: what has no way back was taken back: %+v, %v", role.Name, out, err)
	case stuck || !back:
		return snapshot.BySteps(t, rec)
	case err != nil:
		t.Errorf("%s: %v", role.Name, err)
	case out.Result != event.Undone:
		t.Errorf("%s: it was taken back and ended as %s", role.Name, out.Result)
	}
	return nil
}

// person returns the environment of somebody who takes fixes back: what that
// writes is not among the rights of the classes.
func (r *rig) person(t *testing.T, ctx context.Context, stage *scene.Stage) *engine.Env {
	t.Helper()
	env, err := stage.Person(ctx, r.stream, functions.All)
	if err != nil {
		t.Fatal(err)
	}
	env.Now = r.now
	return env
}
