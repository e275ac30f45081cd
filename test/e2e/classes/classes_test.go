// Package classes plays a scene of every class against the whole of lbremedy.
package classes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/events"
	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/scene"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

// TestClasses plays the scenes of every class on a real API server, with the
// exporter and a worker that have the rights of the classes and no others. The
// controller's own event starts each case. A class that can fix ends with the
// Service synced again, a class that asks with one question; and nothing is
// written, in cluster or cloud, that the journal does not name.
func TestClasses(t *testing.T) {
	text, err := os.ReadFile("../../demo/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := policy.Parse(text, (&host.Host{Remedies: functions.All}).Classes())
	if err != nil {
		t.Fatal(err)
	}
	var roles []scene.Role
	for _, s := range scene.All() {
		if !slices.ContainsFunc(functions.All, func(r *remedy.Remedy) bool { return r.Class == s.Class }) {
			t.Logf("%s: there is no class %s yet", s.Name, s.Class)
			continue
		}
		if os.Getenv(controller.BinaryVariable) != "" && (s.On.Version != "" || s.On.Speed != 0) {
			t.Logf("%s needs a controller %s, which is simulated only", s.Name, s.On.Version)
			continue
		}
		roles = append(roles, s.As(s.Name))
	}
	for _, cast := range scene.Casts(roles) {
		t.Run(cast[0].Name, func(t *testing.T) { playClasses(t, cast, rules) })
	}
}

func playClasses(t *testing.T, cast []scene.Role, rules remedy.Policy) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	stage, err := scene.Start(ctx, scene.Options{Setting: cast[0].On, Cluster: cluster.Alone(t), Namespace: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	defer stage.Close()
	h, end := lbremedy(t, ctx, stage, rules)
	defer end()
	if err := stage.Prepare(ctx, cast...); err != nil {
		t.Fatal(err)
	}
	j := &journal{wake: stage.Wake, last: map[string]events.Record{}, asks: map[string][]string{}}
	following, quiet := context.WithCancel(ctx)
	var wait sync.WaitGroup
	wait.Go(func() {
		if err := h.Env.Stream.Tail(following, stream.Cases, ">", 0, j.see); err != nil && following.Err() == nil {
			t.Errorf("read the journal: %v", err)
		}
	})
	defer wait.Wait()
	defer quiet()
	if err := stage.Spoil(ctx, cast...); err != nil {
		t.Fatal(err)
	}
	ended := func(r scene.Role) bool {
		rec := j.of(r)
		return rec.Result == r.Ends && (!r.Heals || stage.Healed(r.Service))
	}
	err = stage.Until(ctx, func() bool {
		return !slices.ContainsFunc(cast, func(r scene.Role) bool { return !ended(r) })
	})
	for _, r := range cast {
		rec := j.of(r)
		if !ended(r) {
			t.Errorf("%s (%s) ended as %q and should have ended as %s (healed: %t): %s %s %s", r.Name, r.Class, rec.Result, r.Ends, stage.Healed(r.Service), rec.Finding, rec.Rule, rec.Error)
			continue
		}
		if asks := j.asksOf(r); r.Ends == events.Asked && len(asks) != 1 {
			t.Errorf("%s (%s) asked %d questions: %q", r.Name, r.Class, len(asks), asks)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	j.onlyWhatIsJournalled(t, stage, cast)
	if _, err := h.Env.Stream.Last(ctx, stream.Dead, "lbremedy.dead.>"); !errors.Is(err, stream.ErrNotFound) {
		t.Errorf("something could not be handled: %v", err)
	}
}

// lbremedy starts exporter and worker on the stage. end ends them.
func lbremedy(t *testing.T, ctx context.Context, stage *scene.Stage, rules remedy.Policy) (_ *host.Host, end func()) {
	t.Helper()
	server, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Port: -1})
	if err != nil {
		t.Fatal(err)
	}
	st, err := stream.Connect(ctx, stream.Config{URL: server.URL(), Grace: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	h := &host.Host{Remedies: functions.All}
	if _, err := st.Setup(ctx, h.Classes(), stream.Settings{}); err != nil {
		t.Fatal(err)
	}
	if err := policy.Publish(ctx, st, rules); err != nil {
		t.Fatal(err)
	}
	if h.Env, err = stage.Env(ctx, st, h.Remedies); err != nil {
		t.Fatal(err)
	}
	x, err := stage.Exporter(ctx, st)
	if err != nil {
		t.Fatal(err)
	}
	running, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	for name, run := range map[string]func(context.Context) error{
		"exporter": x.Run, "worker": func(ctx context.Context) error { return h.Work(ctx, 16) },
	} {
		wait.Go(func() {
			if err := run(running); err != nil && running.Err() == nil {
				t.Errorf("the %s has ended: %v", name, err)
			}
		})
	}
	return h, func() { cancel(); wait.Wait(); st.Close(); server.Close() }
}

// A journal is what the stream of cases has said so far.
type journal struct {
	wake func()

	mu   sync.Mutex
	last map[string]events.Record // of settled runs, by Service and class
	asks map[string][]string      // different findings of questions, by Service and class
	did  []events.StepRecord      // steps that were applied
}

func key(service, class string) string { return service + " " + class }

func (j *journal) see(m stream.Message) error {
	e, err := events.DecodeNATS(m.Header, m.Data)
	if err != nil {
		return err
	}
	rec, err := events.ReadRecord(e)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	k := key(rec.Service.Name, rec.Class)
	switch {
	case rec.Phase == events.Step:
		j.did = append(j.did, rec.Steps[rec.Next-1])
	case rec.Phase == events.Settled && rec.Result != events.Superseded:
		j.last[k] = rec
		if ask := changing.ReplaceAllString(rec.Finding, ""); rec.Result == events.Asked && !slices.Contains(j.asks[k], ask) {
			j.asks[k] = append(j.asks[k], ask)
		}
	}
	j.wake()
	return nil
}

// changing is what a finding may say in other words from one look to the next.
var changing = regexp.MustCompile(`\d+`)

func (j *journal) of(r scene.Role) events.Record {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last[key(r.Service, r.Class)]
}

func (j *journal) asksOf(r scene.Role) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.asks[key(r.Service, r.Class)]
}

// onlyWhatIsJournalled holds all that the worker wrote to the journal: Services
// carry our mark only where a step names them, and the cloud got no other writes
// than those of steps.
func (j *journal) onlyWhatIsJournalled(t *testing.T, stage *scene.Stage, cast []scene.Role) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	cloudSteps := 0
	for _, s := range j.did {
		if s.Target != "" && !strings.HasPrefix(s.Target, "service/") && !strings.HasPrefix(s.Target, "evict/") {
			cloudSteps++
		}
	}
	writes := stage.WorkerWrites()
	if len(writes) > 0 && cloudSteps == 0 || len(writes) > 2*cloudSteps {
		t.Errorf("the worker wrote to the cloud %v, and the journal has %d steps there", writes, cloudSteps)
	}
	services, err := stage.Cluster.Client().CoreV1().Services(stage.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, svc := range services.Items {
		if svc.Annotations[remedy.Resync] == "" {
			continue
		}
		wrote := slices.ContainsFunc(functions.All, func(r *remedy.Remedy) bool { return !j.last[key(svc.Name, r.Class)].Written.IsZero() })
		if !wrote {
			t.Errorf("%s carries our mark, and no case of it says that it was written: %s", svc.Name, fmt.Sprint(cast))
		}
	}
}
