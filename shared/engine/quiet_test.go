package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/test/fixture"
)

// A sync that reports skipped backends succeeds all the same: only the class's own cause tells whether the failure is over.
func TestQuietReasons(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		reason string
		want   event.Result
	}{
		{"SyncLoadBalancerFailed", event.Gone},
		{"UnAvailableLoadBalancer", event.Asked},
		{"NoBackend", event.Asked},
		{"SkipSyncBackends", event.Asked},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			t.Parallel()
			r := build(t, fixture.Ingress("192.168.0.9"))
			r.sync("h1", "192.168.0.9")
			r.event.Failure.Reason = tt.reason
			r.class.Diagnose = remedy.Always(remedy.Plan{Finding: say.F("f"), Ask: say.F("a")})
			r.ends(tt.want)
			r.on("still fails", nil)
			r.class.StillFails = func(context.Context, *remedy.Case) (remedy.Verdict, error) { return remedy.No, nil }
			r.event.Again = true
			r.ends(event.Gone)
		})
	}
}

func TestWaited(t *testing.T) {
	t.Parallel()
	r := build(t)
	var waited time.Duration
	r.class.Diagnose = func(_ context.Context, c *remedy.Case) (remedy.Plan, error) {
		waited = c.Waited()
		return remedy.Plan{Finding: say.F("f"), Wait: time.Minute}, nil
	}
	about := func(want time.Duration) {
		t.Helper()
		r.ends(event.Waiting)
		if waited < want || waited > want+20*time.Second {
			t.Errorf("it has waited %s, want %s", waited, want)
		}
	}
	about(10 * time.Second)
	r.advance(5 * time.Minute)
	about(5 * time.Minute)
	r.event = r.failure(class, r.now())
	about(5 * time.Minute)
	r.event.Failure.Last = time.Time{}
	about(5 * time.Minute)
}

func TestPatience(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.class.Diagnose = remedy.Always(remedy.Plan{Finding: say.F("f"), Wait: time.Hour, Patience: 48 * time.Hour})
	for range 47 {
		r.ends(event.Waiting)
		r.advance(time.Hour)
	}
	r.ends(event.Waiting)
	r.advance(2 * time.Hour)
	if rec := r.ends(event.Asked); !strings.Contains(rec.Rule.String(), "has lasted 49h") {
		t.Errorf("the rule is %q", rec.Rule)
	}
}

// A plan that writes nothing to the Service leaves no mark there: while the class finds its cause, the case is diagnosed afresh.
func TestByCause(t *testing.T) {
	t.Parallel()
	r := build(t, fixture.Labels(map[string]string{ccm.HashLabel: "h1"}), fixture.Ingress("192.168.0.9"), func(svc *corev1.Service) {
		svc.Labels[ccm.BalancerLabel] = "lb-" + svc.Namespace
	})
	r.policy.Classes = map[string]remedy.Class{class: {OneWay: true}}
	far, made, gone := elsewhere{At: "quota/x"}, 0, false
	r.class.Steps = append(r.class.Steps, elsewhere{})
	far.did = &made
	r.kinds[far.Kind()] = func([]byte) (remedy.Step, error) { return far, nil }
	r.class.StillFails = func(context.Context, *remedy.Case) (remedy.Verdict, error) { return remedy.Is(!gone), nil }
	r.class.Diagnose = func(context.Context, *remedy.Case) (remedy.Plan, error) {
		if made == 0 {
			return remedy.Plan{Finding: say.F("It is too little."), Steps: []remedy.Step{far}}, nil
		}
		return remedy.Plan{Finding: say.F("Somebody decides about it."), Wait: time.Minute, Patience: time.Hour}, nil
	}
	rec := r.ends(event.Waiting)
	if made != 1 || !rec.Done() || rec.Reason != event.ByCause || rec.Wait != 30*time.Second {
		t.Fatalf("made %d times, then %+v", made, rec)
	}
	r.advance(rec.Wait)
	r.advance(r.ends(event.Waiting).Wait)
	rec = r.ends(event.Waiting)
	if made != 1 || len(rec.Steps) != 0 || rec.Finding.String() != "Somebody decides about it." {
		t.Errorf("made %d times, then %+v", made, rec)
	}
	gone = true
	r.advance(rec.Wait)
	if rec := r.ends(event.Fixed); made != 1 {
		t.Errorf("made %d times, then %+v", made, rec)
	}
	r.wrote(0)

	made, gone = 0, false
	r.event = r.failure(class, r.now().Add(time.Minute))
	r.advance(2 * time.Minute)
	r.class.StillFails = func(context.Context, *remedy.Case) (remedy.Verdict, error) {
		return remedy.Yes, r.hit(t.Context(), "verdict")
	}
	asked := 0
	r.on("verdict", func(ctx context.Context) error {
		if asked++; asked == 2 {
			return kill(ctx)
		}
		return nil
	})
	r.dies()
	r.advance(3 * time.Minute)
	r.class.StillFails = func(context.Context, *remedy.Case) (remedy.Verdict, error) { return remedy.No, nil }
	if r.ends(event.Fixed); made != 1 {
		t.Errorf("made %d times", made)
	}

	for _, tt := range []struct {
		name  string
		write func()
		want  event.Result
		err   string
	}{
		{"an error", func() {
			r.class.StillFails = func(context.Context, *remedy.Case) (remedy.Verdict, error) { return remedy.Unknown, errBoom }
		}, "", "ask whether it still fails: boom"},
		{"unknown", func() {
			r.class.StillFails = func(context.Context, *remedy.Case) (remedy.Verdict, error) { return remedy.Unknown, nil }
		}, event.Waiting, ""},
	} {
		made = 0
		r.class.StillFails = func(context.Context, *remedy.Case) (remedy.Verdict, error) { return remedy.Yes, nil }
		r.event = r.failure(class, r.now().Add(time.Minute))
		r.advance(2 * time.Minute)
		far.then = tt.write
		if tt.err != "" {
			r.fails(tt.err)
		} else {
			r.ends(tt.want)
		}
		far.then = nil
	}
}

type elsewhere struct {
	act
	At  string `json:"at"`
	did *int

	then func() // happens right after the write
}

func (elsewhere) Kind() string     { return "elsewhere" }
func (e elsewhere) Target() string { return e.At }
func (elsewhere) Says() say.Text   { return say.F("write elsewhere") }

func (e elsewhere) Check(context.Context, *remedy.Case) (remedy.State, error) {
	if *e.did > 0 {
		return remedy.Done, nil
	}
	return remedy.Todo, nil
}

func (e elsewhere) Apply(context.Context, *remedy.Case, *remedy.Writers) error {
	*e.did++
	if e.then != nil {
		e.then()
	}
	return nil
}

func (elsewhere) Undo() (remedy.Step, bool) { return nil, false }

func TestOwnedPorts(t *testing.T) {
	t.Parallel()
	applied := func(svc *corev1.Service) {
		svc.Annotations["kubectl.kubernetes.io/last-applied-configuration"] = `{"metadata":{"annotations":{}},"spec":{"ports":[{"port":80,"targetPort":"http"}]}}`
	}
	for _, tt := range []struct {
		name    string
		edit    func(*corev1.Service)
		manager string
		owner   string
		note    string
	}{
		{name: "nobody's"},
		{name: "Argo CD's", manager: "argocd-controller", owner: "argocd-controller"},
		{name: "another program's", manager: "network-operator"}, // a person's recent edit asks (TestRecentEdit)
		{name: "last applied", edit: applied, note: "next kubectl apply reverts"},
		{name: "last applied on an object with a mark", edit: fixture.Edits(applied, fixture.Labels(map[string]string{"argocd.argoproj.io/instance": "shop"})),
			owner: "argocd.argoproj.io/instance"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.edit == nil {
				tt.edit = func(*corev1.Service) {}
			}
			r := build(t, tt.edit)
			r.policy.Classes = map[string]remedy.Class{class: {OneWay: true}}
			if tt.manager != "" {
				force := true
				_, err := r.kube.Client().CoreV1().Services(r.svc.Namespace).Patch(t.Context(), "web", types.ApplyPatchType,
					[]byte(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"web"},"spec":{"ports":[{"port":80,"protocol":"TCP","targetPort":"http"}]}}`),
					metav1.PatchOptions{FieldManager: tt.manager, Force: &force})
				r.must(err)
			}
			r.steps = []remedy.Step{ports{act{Name: "1", Annotate: set(key, "new", "old")}}}
			r.kinds["ports"] = func([]byte) (remedy.Step, error) { return r.steps[0], nil }
			r.class.Steps = append(r.class.Steps, ports{})
			r.class.Diagnose = func(context.Context, *remedy.Case) (remedy.Plan, error) {
				return remedy.Plan{Finding: say.F("f"), Steps: r.steps}, nil
			}
			rec, err := engine.Look(t.Context(), r.env, r.class, r.event)
			r.must(err)
			if tt.owner == "" {
				if rec.Result != event.Planned || !strings.Contains(rec.Note.String(), tt.note) || (tt.note == "") != (len(rec.Note) == 0) {
					t.Errorf("ended as %q, note %q", rec.Result, rec.Note)
				}
				return
			}
			if rec.Result != event.Asked || !strings.Contains(rec.Rule.String(), tt.owner) || !strings.Contains(rec.Ask.String(), "Commit this patch") {
				t.Errorf("ended as %q, rule %q, ask %q", rec.Result, rec.Rule, rec.Ask)
			}
		})
	}
}

type ports struct{ act }

func (ports) Kind() string              { return "ports" }
func (ports) Keys() []string            { return []string{remedy.PortsKey} }
func (ports) Patch(*remedy.Case) []byte { return []byte(`{"spec":{"ports":[]}}`) }
func (ports) Undo() (remedy.Step, bool) { return nil, false }

// A failure that ends in two ways in turn, as strangers' Events can make it, leaves some records and then one an hour, which keeps it from
// filling the journal. A person's question is answered all the same, and so is a plan.
func TestRecordsWithoutAPlan(t *testing.T) {
	t.Parallel()
	r := build(t)
	n := 0
	turn := func(context.Context, *remedy.Case) (remedy.Plan, error) {
		n++
		return remedy.Plan{Finding: say.F("f"), Ask: []say.Text{say.F("a"), say.F("b")}[n%2]}, nil
	}
	plans := r.class.Diagnose
	r.class.Diagnose = turn
	comes := func() event.Record {
		t.Helper()
		r.advance(time.Second)
		r.event = r.failure(class, r.now())
		return r.run()
	}
	for range 30 {
		comes()
	}
	if records := len(r.journal()); records != 8 {
		t.Errorf("%d records of 30 runs", records)
	}
	if rec := comes(); rec.Result != event.Waiting || rec.Wait != 10*time.Minute {
		t.Errorf("ended as %q, wait %s", rec.Result, rec.Wait)
	}
	r.class.Diagnose = remedy.Always(remedy.Plan{Finding: say.F("f"), Ask: say.F("c")})
	for range 6 { // the run that was held back is repeated until it leaves its record
		r.advance(10 * time.Minute)
		if r.run().Result == event.Asked {
			break
		}
	}
	if records := len(r.journal()); records != 9 {
		t.Errorf("%d records after the run that was held back", records)
	}
	r.class.Diagnose = turn
	r.advance(time.Hour)
	for range 3 {
		comes()
	}
	if records := len(r.journal()); records != 10 {
		t.Errorf("%d records after an hour", records)
	}
	r.event.Again = true
	if rec := r.run(); rec.Result != event.Asked {
		t.Errorf("a person is told %q", rec.Result)
	}
	r.class.Diagnose = func(context.Context, *remedy.Case) (remedy.Plan, error) {
		n++
		return remedy.Plan{}, errors.New([]string{"it is away", "it is late"}[n%2])
	}
	for range 12 { // errors have a pace of their own
		r.advance(time.Minute)
		r.event = r.failure(class, r.now())
		if rec, err, _ := r.try(r.event); err == nil || rec.Wait > time.Minute+time.Minute/2 {
			t.Errorf("an error comes back after %s: %v", rec.Wait, err)
		}
	}
	r.class.Diagnose = plans
	comes()
	r.wrote(1)
}
