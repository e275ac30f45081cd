package engine_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/approval"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/ledger"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/test/fixture"
	"github.com/lbremedy/lbremedy/test/identity"
	"github.com/lbremedy/lbremedy/test/shell"
)

func TestPolicyAt(t *testing.T) {
	t.Parallel()
	medium, high := remedy.Medium, remedy.High
	policy := remedy.Policy{
		Mode: remedy.Fix,
		Classes: map[string]remedy.Class{
			"a": {Risk: &high, OneWay: true},
			"b": {Mode: remedy.Observe},
		},
		Rules: []remedy.Rule{
			{Namespaces: []string{"prod-*", "db"}, Mode: remedy.Observe},
			{Namespaces: []string{"prod-eu"}, Classes: []string{"a", "c"}, Mode: remedy.Fix, Risk: &medium},
			{Clusters: []string{"c2"}, Labels: map[string]string{"tier": "gold"}, Mode: remedy.Observe},
			{Namespaces: []string{"eu"}, Labels: map[string]string{"tier": "test"}, Classes: []string{"a", "b", "c"}, Mode: remedy.Fix, Risk: &medium},
			{NamespaceLabels: map[string]string{"tier": "test"}, Mode: remedy.Fix, Risk: &high},
			{NamespaceLabels: map[string]string{"tier": "gold"}, Mode: remedy.Observe},
		},
	}
	label := func(k, v string) map[string]string { return map[string]string{k: v} }
	for _, tt := range []struct {
		name  string
		class string
		at    remedy.Place
		want  remedy.Permission
		why   string
	}{
		{"anywhere", "c", remedy.Place{}, remedy.Permission{Mode: remedy.Fix}, ""},
		{"the class", "a", remedy.Place{}, remedy.Permission{Mode: remedy.Fix, Risk: high, OneWay: true, Named: true}, ""},
		{"a class that observes", "b", remedy.Place{}, remedy.Permission{Mode: remedy.Observe, Named: true}, ""},
		{"a namespace", "c", remedy.Place{Namespace: "db", Around: label("", "")}, remedy.Permission{Mode: remedy.Observe},
			"Rule 1 of the policy (namespaces prod-*, db) says so."},
		{"the later rule", "a", remedy.Place{Namespace: "prod-eu", Around: label("", "")},
			remedy.Permission{Mode: remedy.Fix, Risk: medium, OneWay: true, Named: true},
			"Rule 2 of the policy (namespaces prod-eu; classes a, c) says so."},
		{"a rule that names the class", "c", remedy.Place{Namespace: "prod-eu", Around: label("", "")},
			remedy.Permission{Mode: remedy.Fix, Risk: medium, Named: true},
			"Rule 2 of the policy (namespaces prod-eu; classes a, c) says so."},
		{"half of a rule", "c", remedy.Place{Cluster: "c2", Labels: label("tier", "iron")}, remedy.Permission{Mode: remedy.Fix}, ""},
		{"a whole rule", "c", remedy.Place{Cluster: "c2", Labels: label("tier", "gold")}, remedy.Permission{Mode: remedy.Observe},
			"Rule 3 of the policy (clusters c2; label tier=gold) says so."},
		{"the Service observes", "a", remedy.Place{Labels: label(remedy.ModeLabel, "observe")}, remedy.Permission{Mode: remedy.Observe, Risk: high, OneWay: true,
			Named: true}, "The Service has the label lbremedy.io/mode=observe."},
		{"the namespace observes", "a", remedy.Place{Around: label(remedy.ModeLabel, "observe"), Labels: label(remedy.ModeLabel, "fix")},
			remedy.Permission{Mode: remedy.Observe, Risk: high, OneWay: true, Named: true}, "The namespace has the label lbremedy.io/mode=observe."},
		{"a label does not loosen", "b", remedy.Place{Labels: label(remedy.ModeLabel, "fix")}, remedy.Permission{Mode: remedy.Observe, Named: true}, ""},
		{"a word that nobody knows", "c", remedy.Place{Labels: label(remedy.ModeLabel, "fixx")}, remedy.Permission{Mode: remedy.Observe},
			"The Service has the label lbremedy.io/mode=fixx."},
		{"the Service's owner wants more", "c", remedy.Place{Namespace: "eu", Labels: label("tier", "test"), Around: label("", "")},
			remedy.Permission{Mode: remedy.Fix}, ""},
		{"and of a class that observes", "b", remedy.Place{Namespace: "eu", Labels: label("tier", "test"), Around: label("", "")},
			remedy.Permission{Mode: remedy.Observe, Named: true}, ""},
		{"and less", "a", remedy.Place{Namespace: "eu", Labels: label("tier", "test"), Around: label("", "")},
			remedy.Permission{Mode: remedy.Fix, Risk: medium, OneWay: true, Named: true},
			"Rule 4 of the policy (namespaces eu; classes a, b, c; label tier=test) says so."},
		{"the namespace has more", "b", remedy.Place{Namespace: "eu", Around: label("tier", "test")},
			remedy.Permission{Mode: remedy.Fix, Risk: high, Named: true}, "Rule 5 of the policy (namespace label tier=test) says so."},
		{"the namespace has less", "a", remedy.Place{Namespace: "eu", Around: label("tier", "gold")},
			remedy.Permission{Mode: remedy.Observe, Risk: high, OneWay: true, Named: true}, "Rule 6 of the policy (namespace label tier=gold) says so."},
		{"what the namespace has is not known", "a", remedy.Place{Namespace: "eu"},
			remedy.Permission{Mode: remedy.Observe, Risk: high, OneWay: true, Named: true}, "The labels of the namespace are not known."},
		{"muted", "c", remedy.Place{Around: label(remedy.MuteLabel, "true")}, remedy.Permission{Mode: remedy.Observe, Muted: true},
			"The namespace has the label lbremedy.io/mute=true."},
		{"not muted", "c", remedy.Place{Labels: label(remedy.MuteLabel, "false")}, remedy.Permission{Mode: remedy.Fix}, ""},
	} {
		got := policy.At(tt.class, tt.at)
		why := got.Why.String()
		if got.Why = nil; !reflect.DeepEqual(got, tt.want) || why != tt.why {
			t.Errorf("%s: got %+v, %q, want %+v, %q", tt.name, got, why, tt.want, tt.why)
		}
	}
}

func TestFrozen(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	policy := remedy.Policy{Freezes: []remedy.Freeze{
		{Name: "day", Days: []time.Weekday{time.Monday}, From: 9 * time.Hour, Until: 18 * time.Hour, Zone: remedy.Zone{Location: time.FixedZone("", 8*3600)}},
		{Name: "night", Days: []time.Weekday{time.Saturday}, From: 22 * time.Hour, Until: 2 * time.Hour},
		{Name: "sale", Start: time.Date(2026, 11, 11, 0, 0, 0, 0, time.UTC), End: time.Date(2026, 11, 12, 0, 0, 0, 0, time.UTC)},
		{Name: "summer", Days: []time.Weekday{time.Thursday}, From: 12 * time.Hour, Until: 13 * time.Hour, Zone: remedy.Zone{Location: berlin}},
		{Name: "change", Days: []time.Weekday{time.Sunday}, From: 9 * time.Hour, Until: 10 * time.Hour, Zone: remedy.Zone{Location: berlin}},
	}}
	for at, want := range map[string]string{
		"2026-11-16T00:59:59Z": "",
		"2026-11-16T01:00:00Z": `"day" blocks all writes until 2026-11-16T18:00:00+08:00.`,
		"2026-11-16T09:59:59Z": `"day"`,
		"2026-11-16T10:00:00Z": "",
		"2026-11-14T21:59:59Z": "",
		"2026-11-14T23:00:00Z": `"night" blocks all writes until 2026-11-15T02:00:00Z.`,
		"2026-11-15T01:59:59Z": `"night"`,
		"2026-11-15T02:00:00Z": "",
		"2026-11-15T22:30:00Z": "",
		"2026-11-11T12:00:00Z": `"sale"`,
		"2026-11-12T00:00:00Z": "",
		"2026-07-02T10:30:00Z": `"summer"`, // two hours ahead of UTC
		"2026-12-03T10:30:00Z": "",
		"2026-12-03T11:30:00Z": `"summer"`, // one hour
		"2026-03-29T08:30:00Z": "",         // the day on which summer time begins: 10:30
		"2026-03-29T07:30:00Z": `"change" blocks all writes until 2026-03-29T10:00:00+02:00.`,
	} {
		now, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		if text, end := policy.Frozen(now); (want == "") != (len(text) == 0) || !strings.Contains(text.String(), want) || len(text) > 0 && !end.After(now) {
			t.Errorf("at %s: %q until %s, want %q", at, text, end, want)
		}
	}
}

func (r *rig) spend() {
	r.Helper()
	room, err := control.Spend(r.Context(), r.env.Stream, false, r.env.Cluster, class, "another", 1, 100)
	if r.must(err); !room.Cluster {
		r.Fatal("there is no place for another Service")
	}
}

// held answers the rig's event and wants it held back with nothing written.
func (r *rig) held(by event.Hold, rule string) event.Record {
	r.Helper()
	wrote := r.patches.Load()
	rec := r.ends(event.Waiting)
	if rec.Held != by || !strings.Contains(rec.Rule.String(), rule) || rec.Wait <= 0 || rec.Next != 0 {
		r.Errorf("held by %q (%s) for %s, want %q (%s)", rec.Held, rec.Rule, rec.Wait, by, rule)
	}
	r.wrote(wrote)
	return rec
}

func (r *rig) annotate(value string) {
	r.Helper()
	r.patch("", fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value))
}

// A case held by a pause is not taken for lost, however long, and the end of the pause is noticed.
func TestPauseLong(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.publish(r.event)
	r.must(control.SetPause(t.Context(), r.env.Stream, control.Pause{Cluster: r.env.Cluster, By: "ann"}, false))
	for range 20 {
		r.held(event.HeldByPause, "Paused by ann")
		r.advance(time.Minute)
	}
	if n := r.hits["diagnose"]; n < 3 || n > 5 {
		t.Errorf("in 20 minutes it was diagnosed %d times", n)
	}
	l, err := ledger.Draw(t.Context(), r.env.Stream, r.env.Cluster, r.now(), ledger.Late)
	if r.must(err); len(l.Lost) > 0 {
		t.Errorf("lost: %+v", l.Lost)
	}
	r.annotate("new")
	r.advance(5 * time.Minute)
	r.ends(event.Gone)
}

func TestPause(t *testing.T) {
	t.Parallel()
	r := build(t)
	ctx, s := t.Context(), r.env.Stream
	r.must(control.SetPause(ctx, s, control.Pause{Cluster: r.env.Cluster, By: "ann", At: time.Now(), Why: "night"}, false))
	r.must(control.SetPause(ctx, s, control.Pause{Cluster: r.env.Cluster, By: "bob"}, false))
	rec := r.held(event.HeldByPause, "Paused by ann")
	if rec.Wait > 10*time.Second || !strings.HasSuffix(rec.Rule.String(), ": night.") {
		t.Errorf("held for %s: %s", rec.Wait, rec.Rule)
	}
	if was, err := control.Resume(ctx, s, r.env.Cluster); err != nil || was == nil || was.By != "ann" {
		t.Errorf("resumed %+v, %v", was, err)
	}
	if was, err := control.Resume(ctx, s, r.env.Cluster); err != nil || was != nil {
		t.Errorf("resumed again %+v, %v", was, err)
	}
	before := r.hits["diagnose"]
	r.advance(rec.Wait)
	r.ends(event.Waiting)
	if r.wrote(1); r.hits["diagnose"] != before+1 {
		t.Error("it was not diagnosed afresh")
	}

	// A document that can't be read is a pause and asks nobody.
	r = build(t)
	r.must(r.env.Stream.Put(ctx, control.Key(r.env.Cluster), []byte("{")))
	r.held(event.HeldByPause, "Paused by somebody")

	r = build(t)
	r.steps = []remedy.Step{act{Name: "1", Annotate: set(key, "new", "old")}, act{Name: "2", Annotate: step.Annotate{Set: map[string]string{"a/b": "c"}}}}
	r.on("after 1", func(ctx context.Context) error {
		return r.env.Stream.Put(ctx, control.Key(r.env.Cluster), []byte("{"))
	})
	rec = r.ends(event.Waiting)
	if r.wrote(1); rec.Next != 1 || !strings.Contains(rec.Rule.String(), "Paused by somebody") {
		t.Errorf("%d steps are written: %s", rec.Next, rec.Rule)
	}
	r.on("after 1", nil)
	_, err := control.Resume(ctx, r.env.Stream, r.env.Cluster)
	r.must(err)
	r.advance(rec.Wait)
	if rec := r.ends(event.Waiting); rec.Next != 2 {
		t.Errorf("%d steps are written", rec.Next)
	}
	r.wrote(2)
}

func TestUnreadablePolicy(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.on("policy", func(context.Context) error { return errors.New("garbage") })
	for range 200 {
		rec := r.fails("read the policy: garbage")
		if rec.Result != event.Waiting || rec.Errors != 0 {
			t.Fatalf("ended as %q after %d errors", rec.Result, rec.Errors)
		}
		r.advance(rec.Wait)
	}
	r.on("policy", nil)
	r.ends(event.Waiting)
	r.wrote(1)
}

func TestFreeze(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.policy.Freezes = []remedy.Freeze{{Name: "sale", Start: r.now().Add(-time.Hour), End: r.now().Add(2 * time.Minute)}}
	rec := r.held(event.HeldByFreeze, `The freeze "sale"`)
	if rec.Wait > 2*time.Minute {
		t.Errorf("waits %s", rec.Wait)
	}
	before := r.hits["diagnose"]
	r.advance(rec.Wait)
	if rec := r.ends(event.Waiting); rec.Wait <= 0 || r.hits["diagnose"] != before {
		t.Errorf("diagnosed %d times, and waits %s", r.hits["diagnose"]-before, rec.Wait)
	}
	r.advance(2 * time.Minute)
	r.ends(event.Waiting)
	r.wrote(1)
}

// A budget limits to how many Services lbremedy writes. After an hour the case becomes a question; a person's approval overrides the budget.
func TestBudgets(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		budgets remedy.Budgets
		count   string // of LoadBalancer Services, as the exporter says
		most    int
		rule    string
	}{
		"of the class":                    {remedy.Budgets{Class: 2, Least: 100}, "", 2, "The budget of the class is spent: 2 Services in 10 minutes."},
		"of the cluster, not counted yet": {remedy.Budgets{Class: 100}, "", 3, "writes to 3 of its 0 LoadBalancer Services in an hour."},
		"of the cluster":                  {remedy.Budgets{Class: 100}, "16", 4, "writes to 4 of its 16 LoadBalancer Services in an hour."},
		"half of the cluster":             {remedy.Budgets{Class: 100, Share: 50, Least: 1}, "3", 2, "writes to 2 of its 3 LoadBalancer Services"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var first *rig
			for n := range tt.most + 1 {
				r := build(t)
				if r.policy.Budgets = tt.budgets; first == nil {
					first = r
				} else { // one cluster for all
					r.env.Cluster, r.event.Failure.Cluster = first.env.Cluster, first.env.Cluster
				}
				if tt.count != "" {
					r.must(r.env.Stream.Put(t.Context(), event.CountKey(r.env.Cluster), []byte(tt.count)))
				}
				class := r.class.Class
				left, err := control.PlacesLeft(t.Context(), r.env.Stream, r.env.Cluster, []string{class, "busy"}, tt.budgets.OfClass(), tt.budgets.OfCluster)
				r.must(err)
				if got := min(left.Class[class], left.Cluster); got != tt.most-n || left.Class["busy"] < 2 || (got > 0) != (len(left.Free) == 0) {
					t.Errorf("after %d Services the places left are %+v", n, left)
				}
				if n < tt.most {
					r.ends(event.Waiting)
					r.wrote(1)
					continue
				}
				rec := r.held(event.HeldByBudget, tt.rule)
				for range 400 { // the clock of NATS, by which places end, does not move
					if r.advance(rec.Wait); rec.Result == event.Waiting {
						rec = r.run()
					}
				}
				if rec.Result != event.Asked || !strings.Contains(rec.Ask.String(), "lbremedy approve "+rec.Case) {
					t.Fatalf("ended as %q: %s", rec.Result, rec.Ask)
				}
				r.approve(rec, "ann")
				if rec := r.ends(event.Waiting); rec.Approved == nil || rec.Approved.By != "ann" {
					t.Errorf("approved by %+v", rec.Approved)
				}
				r.wrote(1)
			}
			first.advance(8 * time.Minute)
			first.ends(event.Unsettled)
			first.advance(6 * time.Second)
			first.annotate("old")
			if rec := first.ends(event.Waiting); rec.Held != "" {
				t.Errorf("held by %q: %s", rec.Held, rec.Rule)
			}
		})
	}
}

// Three fixes of low risk that do not work, or one of high risk, open the class's breaker, which a person closes. Other classes go on.
func TestBreaker(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		risk  remedy.Risk
		bears int
		why   string
	}{
		"low":    {remedy.Low, 3, "3 fixes did not work within 10 minutes"},
		"medium": {remedy.Medium, 3, "3 fixes did not work within 10 minutes"},
		"high":   {remedy.High, 1, "A fix of high risk did not work"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var first *rig
			next := func() *rig {
				r := build(t)
				r.steps = []remedy.Step{act{Name: "1", How: tt.risk, Annotate: set(key, "new", "old")}}
				if first == nil {
					first = r
				}
				r.env.Cluster, r.event.Failure.Cluster = first.env.Cluster, first.env.Cluster
				return r
			}
			for range tt.bears {
				r := next()
				r.ends(event.Waiting)
				r.advance(8 * time.Minute)
				r.ends(event.Unsettled)
			}
			r := next()
			rec := r.ends(event.Asked)
			if r.wrote(0); !strings.Contains(rec.Rule.String(), "The breaker of the class fake has been open since") || !strings.Contains(rec.Rule.String(), tt.why) {
				t.Errorf("the rule is %q", rec.Rule)
			}
			open, err := control.Breakers(t.Context(), r.env.Stream, r.env.Cluster)
			if err != nil || len(open) != 1 || open[0].Class != class || open[0].Cluster != r.env.Cluster {
				t.Fatalf("open are %+v, %v", open, err)
			}
			other := next()
			other.class.Class = "another"
			other.event = other.failure("another", other.now())
			other.event.Failure.Cluster = other.env.Cluster
			other.ends(event.Waiting)
			other.wrote(1)
			closed, err := control.CloseBreaker(t.Context(), r.env.Stream, r.env.Cluster, class)
			if err != nil || !closed {
				t.Fatalf("closed: %t, %v", closed, err)
			}
			if closed, err := control.CloseBreaker(t.Context(), r.env.Stream, r.env.Cluster, class); err != nil || closed {
				t.Errorf("closed again: %t, %v", closed, err)
			}
			r = next()
			r.ends(event.Waiting)
			r.wrote(1)
		})
	}
}

// A plan parked with nothing written meets breaker and budgets again, and later changes hold it back like a new one.
func TestParkedMeetsTheGuards(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		since func(*rig)
		held  event.Hold
		want  event.Result
	}{
		"the breaker is open": {func(r *rig) {
			_, err := control.RecordFailedFix(r.Context(), r.env.Stream, r.env.Cluster, class, "test.1", 1, say.F("Now."))
			r.must(err)
		}, "", event.Asked},
		"its place is another's": {func(r *rig) {
			r.must(r.env.Stream.Delete(r.Context(), control.BudgetKey(r.env.Cluster)))
			r.spend()
		}, event.HeldByBudget, event.Waiting},
		"nothing": {func(*rig) {}, "", event.Waiting},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			r.policy.Budgets = remedy.Budgets{Class: 1, Least: 100}
			r.steps = []remedy.Step{settling{act{Name: "1", Annotate: set(key, "new", "old")}}}
			if rec := r.ends(event.Waiting); rec.Reason != event.ForStep {
				t.Fatalf("parked as %q: %s", rec.Reason, rec.Rule)
			}
			tt.since(r)
			r.advance(61 * time.Second)
			rec := r.ends(event.Waiting)
			if name == "nothing" {
				r.wrote(1)
				return
			}
			r.wrote(0)
			if len(rec.Attempts) != 0 || rec.Wait > 2*time.Minute {
				t.Errorf("%d attempts, waits %s: %s", len(rec.Attempts), rec.Wait, rec.Note)
			}
			r.advance(rec.Wait)
			if rec := r.ends(tt.want); rec.Held != tt.held {
				t.Errorf("held by %q: %s", rec.Held, rec.Rule)
			}
			r.wrote(0)
		})
	}
}

func TestApprove(t *testing.T) {
	t.Parallel()
	ask := func(t *testing.T) (*rig, event.Record) {
		r := build(t)
		rec := r.consent()
		if !strings.Contains(rec.Ask.String(), "lbremedy approve "+rec.Case) {
			t.Errorf("asks %q", rec.Ask)
		}
		return r, rec
	}
	// asksAgain shows that the approval is used up: the failure that comes back asks again.
	asksAgain := func(r *rig) {
		r.Helper()
		r.advance(8 * time.Minute)
		r.ends(event.Unsettled)
		r.annotate("old")
		r.advance(6 * time.Second)
		r.ends(event.Asked)
		r.wrote(1)
	}
	t.Run("applied, once", func(t *testing.T) {
		t.Parallel()
		r, rec := ask(t)
		r.ends(event.Asked)
		if first, again := r.approve(rec, "ann"), r.approve(rec, "ann"); first.UID != again.UID {
			t.Errorf("the first word is %s, and the second %s", first.Name, again.Name)
		}
		rec = r.ends(event.Waiting)
		if r.wrote(1); rec.Approved == nil || rec.Approved.By != "ann" || rec.Attempt != 1 {
			t.Errorf("the record is %+v", rec)
		}
		for _, in := range r.journal() {
			if in.Phase == event.Intent && (in.Approved == nil || !strings.Contains(in.Rule.String(), "ann approved this plan")) {
				t.Errorf("the intent says %q", in.Rule)
			}
		}
		asksAgain(r)
	})
	t.Run("a word that comes too late leaves nothing", func(t *testing.T) {
		t.Parallel()
		r, rec := ask(t)
		r.approve(rec, "ann")
		r.ends(event.Waiting)
		r.approve(rec, "bob") // as the console does from an old page
		asksAgain(r)
	})
	t.Run("a word beside an attempt leaves its own", func(t *testing.T) {
		t.Parallel()
		r, rec := ask(t)
		r.approve(rec, "ann")
		r.once("before 1", kill)
		r.dies()
		all := r.journal()
		if _, err := r.answer(all[len(all)-1], approval.Reply{Verdict: kube.Approve}, "bob"); !errors.Is(err, approval.ErrNotAsked) ||
			!strings.Contains(err.Error(), "being worked on") {
			t.Errorf("bob agreed to a plan that is being applied: %v", err)
		}
		r.advance(3 * time.Minute)
		if rec := r.ends(event.Waiting); rec.Approved == nil || rec.Approved.By != "ann" {
			t.Errorf("approved by %+v", rec.Approved)
		}
		r.wrote(1)
	})
	t.Run("killed before and after the intent", func(t *testing.T) {
		t.Parallel()
		for _, point := range []string{"diagnose", "before 1", "after 1"} {
			r, rec := ask(t)
			r.approve(rec, "ann")
			r.once(point, kill)
			r.dies()
			r.advance(3 * time.Minute)
			for range 3 {
				r.run()
			}
			r.wrote(1)
		}
	})
	t.Run("the plan has changed", func(t *testing.T) {
		t.Parallel()
		r, rec := ask(t)
		r.approve(rec, "ann")
		r.steps = []remedy.Step{act{Name: "1", How: remedy.Medium, Annotate: set(key, "newer", "old")}}
		now := r.ends(event.Asked)
		if r.wrote(0); now.Digest == rec.Digest || !strings.Contains(now.Note.String(), "ann approved another plan ("+rec.Digest+")") {
			t.Errorf("the note is %q", now.Note)
		}
		r.approve(now, "bob")
		if rec := r.ends(event.Waiting); rec.Approved == nil || rec.Approved.By != "bob" {
			t.Errorf("approved by %+v", rec.Approved)
		}
		r.wrote(1)
	})
	t.Run("too late", func(t *testing.T) {
		t.Parallel()
		r, rec := ask(t)
		r.approve(rec, "ann")
		r.advance(25 * time.Hour)
		r.ends(event.Asked)
		r.wrote(0)
	})
	t.Run("not against a pause", func(t *testing.T) {
		t.Parallel()
		r, rec := ask(t)
		r.approve(rec, "ann")
		r.must(control.SetPause(t.Context(), r.env.Stream, control.Pause{Cluster: r.env.Cluster, By: "bob"}, false))
		rec = r.held(event.HeldByPause, "Paused by bob")
		_, err := control.Resume(t.Context(), r.env.Stream, r.env.Cluster)
		r.must(err)
		r.advance(rec.Wait)
		r.ends(event.Waiting)
		r.wrote(1)
	})
	t.Run("nothing to agree to", func(t *testing.T) {
		t.Parallel()
		r := build(t)
		r.policy.Mode = remedy.Observe
		for rec, want := range map[*event.Record]string{
			new(r.ends(event.Planned)): "only observed",
			{Origin: event.Origin{Case: "c"}, Run: event.Run{Result: event.Fixed}, Outcome: event.Outcome{Digest: "d"}}:                       "has no plan that waits",
			{Origin: event.Origin{Case: "c"}, Run: event.Run{Result: event.Asked}, Decision: event.Decision{Rule: say.Literal("Ask first.")}}: "Ask first.",
		} {
			if err := approval.Asks(*rec); !errors.Is(err, approval.ErrNotAsked) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
	})
}

// The policy says how many people have to approve, and which ones. Only people whose identity the cluster proves count, each once.
func TestConsent(t *testing.T) {
	t.Parallel()
	high := remedy.Medium
	ask := func(t *testing.T, rule remedy.ApprovalRule) (*rig, event.Record) {
		r := build(t)
		r.policy.Risk, r.policy.Approvals = remedy.Low, []remedy.ApprovalRule{rule}
		r.steps = []remedy.Step{act{Name: "1", How: remedy.Medium, Annotate: set(key, "new", "old")}}
		return r, r.ends(event.Asked)
	}
	t.Run("two people", func(t *testing.T) {
		t.Parallel()
		r, rec := ask(t, remedy.ApprovalRule{Risk: &high, Needs: 2})
		if !strings.Contains(rec.Ask.String(), "The policy wants the approvals of 2 people. To approve the plan: lbremedy approve "+rec.Case) {
			t.Errorf("it asks %q", rec.Ask)
		}
		first := r.approve(rec, "ann")
		r.must(r.again(rec, "ann", nil)) // by another object
		rec = r.ends(event.Asked)
		if !strings.Contains(rec.Note.String(), "ann approved this plan at") {
			t.Errorf("the note is %q", rec.Note)
		}
		r.wrote(0)
		r.later(first.CreationTimestamp.Time)
		_, err := r.answer(rec, approval.Reply{Verdict: kube.Approve, Comment: "CHG-2"}, "bob")
		r.must(err)
		rec = r.ends(event.Waiting)
		r.wrote(1)
		if rec.Approved == nil || rec.Approved.By != "ann" || rec.Approved.Object == "" || len(rec.Seconded) != 1 || rec.Seconded[0].By != "bob" ||
			rec.Seconded[0].Comment != "CHG-2" {
			t.Errorf("approved by %+v and %+v", rec.Approved, rec.Seconded)
		}
	})
	t.Run("of a group", func(t *testing.T) {
		t.Parallel()
		r, rec := ask(t, remedy.ApprovalRule{From: []string{"group:network", "user:cat"}})
		r.approve(rec, "ann", "web")
		if rec = r.ends(event.Asked); !strings.Contains(rec.Note.String(), "but only these approvals count: group:network, user:cat") {
			t.Errorf("the note is %q", rec.Note)
		}
		r.wrote(0)
		r.approve(rec, "bob", "web", "network")
		if rec = r.ends(event.Waiting); rec.Approved == nil || rec.Approved.By != "bob" || len(rec.Seconded) > 0 {
			t.Errorf("approved by %+v and %+v", rec.Approved, rec.Seconded)
		}
		r.wrote(1)
	})
	t.Run("for what was named", func(t *testing.T) {
		t.Parallel()
		for what, change := range map[string]func(*kube.Approval){
			"another Service": func(a *kube.Approval) { a.Spec.Service = "theirs" },
			"another case":    func(a *kube.Approval) { a.Spec.Case = "ffffffff-20260102T150405" },
			"another plan":    func(a *kube.Approval) { a.Spec.Plan = strings.Repeat("0", 32) },
			"another attempt": func(a *kube.Approval) { a.Spec.Attempt = 2 },
			"another cluster": func(a *kube.Approval) { a.Spec.Cluster = "c2" },
		} {
			r, rec := ask(t, remedy.ApprovalRule{})
			identity.Answerable(t, r.kube)
			r.must(r.again(rec, "bob", change))
			if rec = r.ends(event.Asked); what == "another cluster" && !strings.Contains(rec.Note.String(), "does not count: it is about the cluster c2") {
				t.Errorf("%s: the note is %q", what, rec.Note)
			}
			r.wrote(0)
		}
		r, rec := ask(t, remedy.ApprovalRule{})
		told := rec
		told.Service.Namespace = r.kube.Namespace(t)
		identity.Answerable(t, r.kube)
		r.must(r.again(told, "bob", nil))
		r.ends(event.Asked)
		r.wrote(0)
	})
	t.Run("a rejection taken back", func(t *testing.T) {
		t.Parallel()
		r, rec := ask(t, remedy.ApprovalRule{})
		no := r.reject(rec, "ann")
		if rec = r.ends(event.Planned); rec.Status() != event.Rejected {
			t.Fatalf("it is %s", rec.Status())
		}
		if _, err := r.answer(rec, approval.Reply{Verdict: kube.Approve}, "bob"); !errors.Is(err, approval.ErrNotAsked) {
			t.Errorf("by somebody else: %v", err)
		}
		if _, err := r.answer(rec, approval.Reply{Verdict: kube.Reject}, "ann"); !errors.Is(err, approval.ErrNotAsked) {
			t.Errorf("once more: %v", err)
		}
		r.must(r.again(rec, "bob", nil))
		// Deleting the object does not revoke the rejection either.
		r.must(r.kube.Client().CoreV1().RESTClient().Delete().AbsPath("/apis/lbremedy.io/v1beta1/namespaces/" + no.Namespace + "/approvals/" + no.Name).
			Do(t.Context()).Error())
		if again := r.ends(event.Planned); again.Status() != event.Rejected || again.Rejected.By != "ann" {
			t.Errorf("it is %s", again.Status())
		}
		r.wrote(0)
		r.later(no.CreationTimestamp.Time)
		_, err := r.answer(rec, approval.Reply{Verdict: kube.Approve, Comment: "I was wrong"}, "ann")
		r.must(err)
		rec = r.ends(event.Waiting)
		r.wrote(1)
		if rec.Rejected != nil || rec.Approved == nil {
			t.Errorf("rejected by %+v, approved by %+v", rec.Rejected, rec.Approved)
		}
	})
	t.Run("rejected", func(t *testing.T) {
		t.Parallel()
		r, rec := ask(t, remedy.ApprovalRule{})
		r.reject(rec, "ann")
		r.approve(rec, "bob")
		for range 3 {
			rec = r.ends(event.Planned)
			if rec.Status() != event.Rejected || rec.Rejected == nil || rec.Rejected.By != "ann" || !strings.Contains(rec.Rule.String(), "Comment: it is to go") {
				t.Errorf("it is %s: %s", rec.Status(), rec.Rule)
			}
			r.advance(time.Minute)
			r.event = r.failure(class, r.now())
		}
		r.policy.Risk = remedy.High
		r.ends(event.Planned)
		r.wrote(0)
		r.policy.Risk = remedy.Low
		r.steps = []remedy.Step{act{Name: "1", How: remedy.Medium, Annotate: set(key, "newer", "old")}}
		r.advance(time.Minute)
		r.event = r.failure(class, r.now())
		if rec = r.ends(event.Asked); rec.Rejected != nil {
			t.Errorf("rejected by %+v", rec.Rejected)
		}
	})
	t.Run("the first answer stays", func(t *testing.T) {
		t.Parallel()
		r, rec := ask(t, remedy.ApprovalRule{})
		yes := r.approve(rec, "ann")
		if _, err := r.answer(rec, approval.Reply{Verdict: kube.Reject}, "ann"); !errors.As(err, new(approval.Answered)) {
			t.Errorf("ann rejects what she has approved: %v", err)
		}
		r.later(yes.CreationTimestamp.Time)
		r.must(r.again(rec, "ann", func(a *kube.Approval) { a.Spec.Verdict = kube.Reject }))
		r.ends(event.Waiting)
		r.wrote(1)
	})
	t.Run("an approval that was deleted", func(t *testing.T) {
		t.Parallel()
		r, rec := ask(t, remedy.ApprovalRule{})
		yes := r.approve(rec, "ann")
		r.must(r.kube.Client().CoreV1().RESTClient().Delete().AbsPath("/apis/lbremedy.io/v1beta1/namespaces/" + yes.Namespace + "/approvals/" + yes.Name).
			Do(t.Context()).Error())
		r.ends(event.Asked)
		r.wrote(0)
	})
}

// again creates another Approval of a person, with a change, without the function that answers plans.
func (r *rig) again(rec event.Record, name string, change func(*kube.Approval)) error {
	r.Helper()
	by := identity.Person(r, r.kube, name)
	me, err := by.Me(r.Context())
	r.must(err)
	a := approval.To(rec, me, approval.Reply{Verdict: kube.Approve})
	a.Name = "again"
	if change != nil {
		change(&a)
	}
	_, err = by.CreateApproval(r.Context(), a)
	return err
}

func (r *rig) later(than time.Time) {
	r.Helper()
	shell.Until(r, "a second passes", func() bool {
		now, err := r.env.Kube.Clock(r.Context())
		r.must(err)
		return now.After(than)
	})
}

// If people's answers can't be read, nothing is written and the case has not failed, even for a plan that the policy allows.
func TestAnswersUnreadable(t *testing.T) {
	t.Parallel()
	for _, nth := range []int{1, 2} {
		t.Run(fmt.Sprint("read ", nth), func(t *testing.T) {
			t.Parallel()
			r := build(t)
			away := errors.New("the API server is away")
			r.on("approvals", func(context.Context) error {
				if r.count("approvals") >= nth {
					return away
				}
				return nil
			})
			for range 3 {
				rec := r.fails("read the Approvals")
				if rec.Result != event.Waiting || rec.Errors != 0 {
					t.Errorf("it ends as %s with %d errors", rec.Result, rec.Errors)
				}
				r.advance(rec.Wait)
				r.on("approvals", func(context.Context) error { return away })
			}
			r.wrote(0)
			r.on("approvals", nil)
			r.ends(event.Waiting)
			r.wrote(1)
		})
	}
}

func TestUnguarded(t *testing.T) {
	t.Parallel()
	r := build(t)
	rec := r.consent()
	r.approve(rec, "ann")
	r.on("guard", func(context.Context) error { return errNotFound })
	if rec = r.ends(event.Asked); !strings.Contains(rec.Note.String(), "does not count: nothing proves who created an Approval: the admission policy") {
		t.Errorf("the note is %q", rec.Note)
	}
	r.wrote(0)
	r.on("guard", func(context.Context) error { return errors.New("away") })
	r.fails("look at the admission policy of Approvals")
	r.wrote(0)
	r.on("guard", nil)
	r.advance(time.Minute)
	r.ends(event.Waiting)
	r.wrote(1)
}

// An approval by --approve is valid for one plan and one attempt, in one process, and only if the policy counts it.
func TestAgreed(t *testing.T) {
	t.Parallel()
	r := build(t)
	rec := r.consent()
	r.env.Agreed = &approval.Agreement{Digest: strings.Repeat("0", 32), By: kube.User{Name: "ann"}}
	r.ends(event.Asked)
	r.env.Agreed = &approval.Agreement{Digest: rec.Digest, By: kube.User{Name: "ann"}, Host: "laptop"}
	r.policy.Approvals = []remedy.ApprovalRule{{From: []string{"group:network"}}}
	r.ends(event.Asked)
	r.policy.Approvals = []remedy.ApprovalRule{{Needs: 2}}
	if rec = r.ends(event.Asked); !strings.Contains(rec.Note.String(), "ann approved this plan at") {
		t.Errorf("the note is %q", rec.Note)
	}
	r.wrote(0)
	r.policy.Approvals = nil
	if rec = r.ends(event.Waiting); rec.Approved == nil || rec.Approved.By != "ann" || rec.Approved.Host != "laptop" || rec.Approved.Object != "" {
		t.Errorf("approved by %+v", rec.Approved)
	}
	r.wrote(1)
	r.advance(8 * time.Minute)
	r.ends(event.Unsettled)
	r.annotate("old")
	r.advance(6 * time.Second)
	r.ends(event.Asked) // about the next attempt
	r.wrote(1)
}

func TestApprovedRest(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]time.Duration{"in time": 3 * time.Minute, "too late": 25 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			r.policy.Risk = remedy.Low
			r.steps = []remedy.Step{act{Name: "1", Annotate: set("a/b", "x", "")}, act{Name: "2", How: remedy.Medium, Annotate: set(key, "new", "old")}}
			r.approve(r.ends(event.Asked), "ann")
			r.once("before 2", kill)
			r.dies()
			r.wrote(1)
			r.restart()
			r.advance(3 * time.Minute)
			if meanwhile > time.Hour {
				r.policy.Mode = remedy.Observe // which holds it back until then
				r.run()
				r.policy.Mode = remedy.Fix
				r.advance(meanwhile)
			}
			rec := r.run()
			if meanwhile > time.Hour {
				r.wrote(1)
				return
			}
			if r.wrote(2); rec.Approved == nil || rec.Approved.By != "ann" {
				t.Errorf("approved by %+v", rec.Approved)
			}
		})
	}
}

func TestStricterMeanwhile(t *testing.T) {
	t.Parallel()
	medium := remedy.Medium
	two := func(p *remedy.Policy) { p.Approvals = []remedy.ApprovalRule{{Risk: &medium, Needs: 2}} }
	approved := func(r *rig) {
		r.policy.Risk = remedy.Low
		rec := r.ends(event.Asked)
		r.approve(rec, "ann")
	}
	for name, tt := range map[string]struct {
		before   func(*rig)
		read     int // reads of the policy in the run
		stricter func(*remedy.Policy)
		ends     event.Result
		held     event.Hold
	}{
		"consent":                 {approved, 2, two, event.Asked, ""},
		"consent, at its last":    {approved, 3, two, event.Waiting, ""},
		"the mode, at its last":   {approved, 3, func(p *remedy.Policy) { p.Mode = remedy.Observe }, event.Waiting, ""},
		"a risk that was allowed": {func(*rig) {}, 2, func(p *remedy.Policy) { p.Risk = remedy.Low }, event.Asked, ""},
		"attempts": {func(r *rig) {
			r.ends(event.Waiting)
			r.advance(8 * time.Minute)
			rec := r.ends(event.Unsettled)
			r.advance(rec.Wait)
			r.annotate("old")
		}, 2, func(p *remedy.Policy) { p.Budgets.Attempts = 1 }, event.Failed, ""},
		"the budget": {func(r *rig) {
			r.spend()
		}, 2, func(p *remedy.Policy) { p.Budgets.Class = 1 }, event.Waiting, event.HeldByBudget},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			r.steps = []remedy.Step{act{Name: "1", How: remedy.Medium, Annotate: set(key, "new", "old")}}
			tt.before(r)
			wrote, reads := r.patches.Load(), r.count("policy")
			r.on("policy", func(context.Context) error {
				if r.count("policy") == reads+tt.read {
					r.mu.Lock()
					defer r.mu.Unlock()
					tt.stricter(&r.policy)
				}
				return nil
			})
			if rec := r.ends(tt.ends); rec.Held != tt.held {
				t.Errorf("held by %q: %s", rec.Held, rec.Rule)
			}
			r.wrote(wrote)
			if name == "consent, at its last" {
				r.advance(time.Second)
				r.ends(event.Asked)
				r.wrote(wrote)
			}
		})
	}
}

// A rejection counts until the plan is recorded as being applied.
func TestRejectedMeanwhile(t *testing.T) {
	t.Parallel()
	r := build(t)
	rec := r.consent()
	r.approve(rec, "ann")
	reads := r.count("approvals")
	r.on("approvals", func(context.Context) error {
		if r.count("approvals") == reads+2 { // before the first step
			r.reject(rec, "bob")
		}
		return nil
	})
	rec = r.ends(event.Waiting)
	r.wrote(0)
	r.advance(rec.Wait)
	if rec = r.ends(event.Planned); rec.Rejected == nil || rec.Rejected.By != "bob" {
		t.Errorf("rejected by %+v: %s", rec.Rejected, rec.Rule)
	}
	r.wrote(0)
}

func TestOneWay(t *testing.T) {
	t.Parallel()
	r := build(t)
	far, made := elsewhere{At: "quota/x"}, 0
	far.did = &made
	r.kinds[far.Kind()] = func([]byte) (remedy.Step, error) { return far, nil }
	r.class.Steps = append(r.class.Steps, elsewhere{})
	r.steps = nil
	r.class.Diagnose = remedy.Always(remedy.Plan{Finding: say.F("f"), Steps: []remedy.Step{far}})
	if rec := r.ends(event.Asked); made != 0 || !strings.Contains(rec.Rule.String(), "The plan has a step that cannot be undone: write elsewhere.") {
		t.Errorf("made %d times: %s", made, rec.Rule)
	}
	r = build(t)
	r.steps = []remedy.Step{step.Resync{}}
	r.ends(event.Waiting)
	r.wrote(1)
}

func TestLabels(t *testing.T) {
	t.Parallel()
	r := build(t, fixture.Labels(map[string]string{remedy.ModeLabel: "observe"}))
	if rec := r.ends(event.Planned); rec.Mode != "observe" || !strings.Contains(rec.Rule.String(), "lbremedy.io/mode=observe") {
		t.Errorf("mode %q: %s", rec.Mode, rec.Rule)
	}
	r.wrote(0)

	r = build(t)
	r.label(remedy.MuteLabel, "true")
	if rec := r.ends(event.Planned); !rec.Muted || !strings.Contains(rec.Rule.String(), "The namespace has the label lbremedy.io/mute=true") {
		t.Errorf("muted: %t, %s", rec.Muted, rec.Rule)
	}
	r.class.Diagnose = remedy.Always(remedy.Plan{Finding: say.F("f"), Ask: say.F("a")})
	r.event.Again = true
	if rec := r.ends(event.Planned); !rec.Muted || !strings.Contains(rec.Rule.String(), "Nobody is asked.") {
		t.Errorf("muted: %t, %s", rec.Muted, rec.Rule)
	}
	r.wrote(0)
}

// A label that allows more counts on the namespace; a Service's labels are set by its owner.
func TestNamespaceLabels(t *testing.T) {
	t.Parallel()
	tier := map[string]string{"tier": "test"}
	r := build(t, fixture.Labels(tier))
	r.setPolicy(remedy.Policy{Risk: remedy.High, Budgets: plenty, Rules: []remedy.Rule{{Labels: tier, Mode: remedy.Fix}}})
	r.ends(event.Planned)
	r.setPolicy(remedy.Policy{Risk: remedy.High, Budgets: plenty, Rules: []remedy.Rule{{NamespaceLabels: tier, Mode: remedy.Fix}}})
	r.event.Again = true
	r.ends(event.Planned)
	r.wrote(0)
	r.label("tier", "test")
	if rec := r.ends(event.Waiting); rec.Mode != "fix" {
		t.Errorf("mode %q: %s", rec.Mode, rec.Rule)
	}
	r.wrote(1)
}

func (r *rig) label(key, value string) {
	r.Helper()
	_, err := r.kube.Client().CoreV1().Namespaces().Patch(r.Context(), r.svc.Namespace, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, key, value), metav1.PatchOptions{})
	r.must(err)
}

func TestTakenBackAsks(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.ends(event.Waiting)
	r.advance(3 * time.Minute)
	applied, back := r.applied()
	if len(applied) != 1 || !back.IsZero() {
		t.Fatalf("applied are %+v, back at %s", applied, back)
	}
	_, err := engine.Undo(t.Context(), r.env, r.class, applied)
	r.must(err)
	if applied, back := r.applied(); applied != nil || back.IsZero() {
		t.Errorf("applied are %+v, back at %s", applied, back)
	}
	r.advance(3 * time.Minute)
	for range 2 {
		r.event = r.failure(class, r.now())
		rec := r.ends(event.Asked)
		if !strings.Contains(rec.Rule.String(), "was undone at") {
			t.Errorf("the rule is %q", rec.Rule)
		}
		r.advance(time.Minute)
	}
	r.wrote(2)
	rec := r.journal()[len(r.journal())-1]
	r.approve(rec, "ann")
	r.ends(event.Waiting)
	r.wrote(3)
}

func TestUndoOfSeveralAttempts(t *testing.T) {
	t.Parallel()
	r, values := build(t), []string{"b", "c"}
	r.class.StillFails = func(context.Context, *remedy.Case) (remedy.Verdict, error) { return remedy.Yes, nil }
	r.class.Diagnose = func(_ context.Context, c *remedy.Case) (remedy.Plan, error) {
		was := c.Service.Annotations[key]
		return remedy.Plan{Finding: say.F("f"), Steps: r.bind([]remedy.Step{act{Name: "1", Annotate: set(key, values[c.Attempt-1], was)}})}, nil
	}
	for range values {
		r.ends(event.Waiting)
		r.advance(8 * time.Minute)
		r.ends(event.Unsettled)
		r.advance(6 * time.Second)
	}
	if got := r.live().Annotations[key]; got != "c" {
		t.Fatalf("the annotation is %q", got)
	}
	applied, _ := r.applied()
	if len(applied) != 2 {
		t.Fatalf("%d attempts", len(applied))
	}
	_, err := engine.LookUndo(t.Context(), r.env, r.class, applied)
	r.must(err)
	_, err = engine.Undo(t.Context(), r.env, r.class, applied)
	r.must(err)
	if got := r.live().Annotations[key]; got != "old" {
		t.Errorf("the annotation is %q", got)
	}
}

// If the policy says so, a fix that did not work is undone when the attempts are spent, even by a run that finds the undo left open.
func TestTakeBack(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		r := build(t)
		r.policy.TakeBack, r.policy.Budgets.Attempts = true, 1
		r.ends(event.Waiting)
		r.advance(8 * time.Minute)
		rec := r.ends(event.Waiting)
		if rec.Held != event.TakenBack {
			t.Fatalf("held by %q", rec.Held)
		}
		if killed {
			r.restart()
		}
		r.advance(rec.Wait)
		r.ends(event.Undone)
		if got := r.live().Annotations[key]; got != "old" {
			t.Errorf("the annotation is %q", got)
		}
		r.wrote(2)
		r.advance(time.Minute)
		r.event = r.failure(class, r.now())
		r.ends(event.Asked)
		r.wrote(2)
	}
	r := build(t)
	r.policy.TakeBack, r.policy.Budgets.Attempts = true, 1
	r.must(r.clients.CloudWriter.SLB.Tag(t.Context(), r.lb, "k", "v"))
	r.class.Steps = append(r.class.Steps, step.Resync{})
	r.steps = []remedy.Step{step.TagLB{LB: r.lb, Key: "k", Value: "v"}, step.Resync{}}
	r.ends(event.Waiting)
	r.advance(8 * time.Minute)
	r.advance(r.ends(event.Waiting).Wait)
	if rec := r.ends(event.Failed); !strings.Contains(rec.Note.String(), "The fix was not undone") || len(rec.Ask) == 0 {
		t.Errorf("note %q, ask %q", rec.Note, rec.Ask)
	}
	r = build(t)
	r.policy.TakeBack, r.policy.Budgets.Attempts = true, 1
	r.ends(event.Waiting)
	r.advance(8 * time.Minute)
	rec := r.ends(event.Waiting)
	r.annotate("mine")
	r.advance(rec.Wait)
	if rec := r.ends(event.Failed); !strings.Contains(rec.Note.String(), "The fix was not undone") || len(rec.Ask) == 0 {
		t.Errorf("note %q, ask %q", rec.Note, rec.Ask)
	}
	r.wrote(1)
}

// A pause, a freeze and observe mode also hold the automatic undo before and between its steps. A paused undo goes on afterwards.
func TestTakeBackHeld(t *testing.T) {
	t.Parallel()
	pause := func(r *rig) {
		r.must(control.SetPause(r.Context(), r.env.Stream, control.Pause{Cluster: r.env.Cluster, By: "ann"}, false))
	}
	resume := func(r *rig) {
		_, err := control.Resume(r.Context(), r.env.Stream, r.env.Cluster)
		r.must(err)
	}
	change := func(edit func(*remedy.Policy)) func(*rig) {
		return func(r *rig) {
			r.mu.Lock()
			defer r.mu.Unlock()
			edit(&r.policy)
		}
	}
	freeze := change(func(p *remedy.Policy) {
		p.Freezes = []remedy.Freeze{{Name: "sale", Start: time.Now().Add(-time.Hour), End: time.Now().Add(1000 * time.Hour)}}
	})
	for name, tt := range map[string]struct {
		stop, goOn func(*rig)
		held       event.Hold
		says       string // about what is left to a person
	}{
		"pause":   {pause, resume, event.HeldByPause, ""},
		"freeze":  {freeze, change(func(p *remedy.Policy) { p.Freezes = nil }), event.HeldByFreeze, ""},
		"observe": {change(func(p *remedy.Policy) { p.Mode = remedy.Observe }), nil, "", "Observe mode"},
		"label":   {func(r *rig) { r.patch("", `{"metadata":{"labels":{"lbremedy.io/mode":"observe"}}}`) }, nil, "", "Observe mode"},
		"risk":    {change(func(p *remedy.Policy) { p.Risk = remedy.Low }), nil, "", "risk of the plan is medium"},
		"no more": {change(func(p *remedy.Policy) { p.TakeBack = false }), nil, "", "The policy does not undo fixes"},
	} {
		for point, done := range map[string]int{"": 0, "check 2 back": 0, "after 2 back": 1} { // steps undone before
			t.Run(fmt.Sprint(name, " ", point), func(t *testing.T) {
				t.Parallel()
				r := build(t, func(svc *corev1.Service) { svc.Annotations["example.com/second"] = "no" })
				r.steps = append(r.steps, act{Name: "2", How: remedy.Medium, Annotate: set("example.com/second", "yes", "no")})
				if done == 1 { // the remaining step must be the one too many
					r.steps = []remedy.Step{act{Name: "1", How: remedy.Medium, Annotate: set(key, "new", "old")},
						act{Name: "2", Annotate: set("example.com/second", "yes", "no")}}
				}
				r.policy.TakeBack, r.policy.Budgets.Attempts = true, 1
				r.ends(event.Waiting)
				r.advance(20 * time.Minute)
				r.advance(r.ends(event.Waiting).Wait)
				if point == "" {
					tt.stop(r)
				} else {
					r.once(point, func(context.Context) error { tt.stop(r); return nil })
				}
				before := func() int { return r.count("after 2 back") + r.count("after 1 back") }
				if tt.held == "" {
					rec := r.ends(event.Failed)
					if before() != done || len(rec.Ask) == 0 || !strings.Contains(rec.Rule.String(), tt.says) {
						t.Errorf("%d steps were taken back: rule %q, ask %q", before(), rec.Rule, rec.Ask)
					}
					return
				}
				rec := r.ends(event.Waiting)
				if rec.Held != tt.held || rec.Wait <= 0 || before() != done {
					t.Errorf("held by %q for %s, %d steps were taken back", rec.Held, rec.Wait, before())
				}
				records := len(r.journal())
				for range 3 {
					r.advance(rec.Wait)
					rec = r.ends(event.Waiting)
				}
				if got := len(r.journal()); got != records || before() != done {
					t.Errorf("while it lasts %d records were written, and %d steps taken back", got-records, before())
				}
				r.restart()
				tt.goOn(r)
				r.advance(rec.Wait)
				r.ends(event.Undone)
				if svc := r.live(); svc.Annotations[key] != "old" || svc.Annotations["example.com/second"] != "no" {
					t.Errorf("it is left with %v", svc.Annotations)
				}
				r.wrote(4)
			})
		}
	}
}

// An undo that goes on after a pause locks its targets again.
func TestTakeBackLocks(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.steps = []remedy.Step{act{Name: "1", At: "slb/" + r.lb, Annotate: set(key, "new", "old")}}
	r.policy.TakeBack, r.policy.Budgets.Attempts = true, 1
	r.ends(event.Waiting)
	r.advance(20 * time.Minute)
	r.advance(r.ends(event.Waiting).Wait)
	r.must(control.SetPause(t.Context(), r.env.Stream, control.Pause{Cluster: r.env.Cluster, By: "ann"}, false))
	r.advance(r.ends(event.Waiting).Wait)
	_, err := control.Resume(t.Context(), r.env.Stream, r.env.Cluster)
	r.must(err)
	unlock, held, err := control.Lock(t.Context(), r.env.Stream, "target.slb/"+r.lb, "test", time.Minute)
	if err != nil || !held {
		t.Fatalf("lock: %t, %v", held, err)
	}
	rec := r.fails("another case is writing to the same target")
	r.wrote(1)
	unlock()
	r.advance(rec.Wait)
	r.ends(event.Undone)
	r.wrote(2)
}

// An undo that goes on after a pause ends if its Service was deleted or replaced meanwhile. A person's undo says so.
func TestTakeBackDeleted(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]func(*rig){"deleted": (*rig).remove, "replaced": (*rig).replace} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			r.policy.TakeBack, r.policy.Budgets.Attempts = true, 1
			rec := r.ends(event.Waiting)
			r.advance(20 * time.Minute)
			r.advance(r.ends(event.Waiting).Wait)
			r.must(control.SetPause(t.Context(), r.env.Stream, control.Pause{Cluster: r.env.Cluster, By: "ann"}, false))
			r.advance(r.ends(event.Waiting).Wait)
			gone(r)
			for _, undo := range []func(context.Context, *engine.Env, *remedy.Remedy, []event.Record) (event.Record, error){engine.LookUndo, engine.Undo} {
				if _, err := undo(t.Context(), r.env, r.class, []event.Record{rec}); err == nil || !strings.Contains(err.Error(), "the Service was deleted since") {
					t.Errorf("a person's undo ends with %v", err)
				}
			}
			_, err := control.Resume(t.Context(), r.env.Stream, r.env.Cluster)
			r.must(err)
			r.ends(event.Gone)
			r.wrote(1)
		})
	}
}

// A pause counts that is set while the last look before an undo's step is made.
func TestTakeBackPausedLate(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.policy.TakeBack, r.policy.Budgets.Attempts = true, 1
	r.ends(event.Waiting)
	r.advance(8 * time.Minute)
	r.advance(r.ends(event.Waiting).Wait)
	r.sync("h2", "192.168.0.9")
	looks := 0
	r.class.StillFails = func(ctx context.Context, _ *remedy.Case) (remedy.Verdict, error) {
		if looks++; looks < 2 {
			return remedy.Yes, nil
		}
		return remedy.Yes, control.SetPause(ctx, r.env.Stream, control.Pause{Cluster: r.env.Cluster, By: "ann"}, false)
	}
	if rec := r.ends(event.Waiting); rec.Held != event.HeldByPause || looks != 2 {
		t.Errorf("after %d looks it is held by %q", looks, rec.Held)
	}
	r.wrote(1)
}

func TestTakeBackLost(t *testing.T) {
	t.Parallel()
	for point, done := range map[string]int{"check 2 back": 0, "after 2 back": 1} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			r := build(t, func(svc *corev1.Service) { svc.Annotations["example.com/second"] = "no" })
			r.steps = append(r.steps, act{Name: "2", Annotate: set("example.com/second", "yes", "no")})
			r.policy.TakeBack, r.policy.Budgets.Attempts = true, 1
			r.ends(event.Waiting)
			r.advance(20 * time.Minute)
			r.advance(r.ends(event.Waiting).Wait)
			r.once(point, func(context.Context) error {
				defer time.Sleep(1100 * time.Millisecond) // the document is not written twice within a second
				return r.stolen(r.Context())
			})
			rec, _, _ := r.try(r.event)
			if got := r.count("before 2 back") + r.count("before 1 back"); rec.Result != event.Waiting || got != done {
				t.Errorf("it ends as %q, and %d steps are taken back, want %d", rec.Result, got, done)
			}
			if d := r.document(); d.State.Holder != "another" {
				t.Errorf("the object is held by %q", d.State.Holder)
			}
			r.wrote(2 + int64(done))
		})
	}
}

// A fix that works only once its attempts are spent stays, even half undone: the controller may be slower than a run waits.
func TestTakeBackWorks(t *testing.T) {
	t.Parallel()
	verdict := func(v remedy.Verdict) func(*rig) {
		return func(r *rig) {
			r.class.StillFails = func(context.Context, *remedy.Case) (remedy.Verdict, error) { return v, nil }
		}
	}
	pause := func(r *rig) func(context.Context) error {
		return func(ctx context.Context) error {
			return control.SetPause(ctx, r.env.Stream, control.Pause{Cluster: r.env.Cluster, By: "ann"}, false)
		}
	}
	resume := func(r *rig) {
		_, err := control.Resume(r.Context(), r.env.Stream, r.env.Cluster)
		r.must(err)
	}
	for _, tt := range []struct {
		name   string
		before func(*rig) // the sync
		point  string     // of the sync; empty: before the run
		fails  string     // a run before the last one
		held   bool       // so is that run
		heal   func(*rig) // between them
		want   event.Result
		writes int64
	}{
		{name: "it works", want: event.Fixed, writes: 2},
		{name: "since it was asked first", point: "check 2 back", want: event.Fixed, writes: 2},
		{name: "it failed again since", heal: func(r *rig) { r.event = r.failure(class, time.Now().Add(2*time.Second)) }, want: event.Undone, writes: 4},
		{name: "it failed again since, and an older event comes", heal: func(r *rig) {
			r.publish(r.failure(class, time.Now().Add(2*time.Second)))
		}, want: event.Undone, writes: 4},
		{name: "the cause stands", before: verdict(remedy.Yes), want: event.Undone, writes: 4},
		{name: "nobody knows", before: verdict(remedy.Unknown), fails: "could not be determined", heal: verdict(remedy.No), want: event.Fixed, writes: 2},
		{name: "the class can't tell", before: func(r *rig) { r.on("still fails after", boom) }, fails: "boom",
			heal: func(r *rig) { r.on("still fails after", nil) }, want: event.Fixed, writes: 2},
		{name: "not its load balancer", before: func(r *rig) { r.cloud.DropLoadBalancer(r.lb) }, fails: "could not be determined",
			want: event.Waiting, writes: 2},
		{name: "half undone", before: func(r *rig) {
			r.once("after 2 back", pause(r))
			r.advance(r.ends(event.Waiting).Wait)
			resume(r)
		}, want: event.Fixed, writes: 3},
		{name: "before it was half undone", before: func(r *rig) {
			verdict(remedy.Yes)(r)
			r.once("after 2 back", func(ctx context.Context) error {
				verdict(remedy.No)(r)
				return pause(r)(ctx)
			})
		}, held: true, heal: resume, want: event.Undone, writes: 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := build(t, func(svc *corev1.Service) { svc.Annotations["example.com/second"] = "no" })
			r.steps = append(r.steps, act{Name: "2", Annotate: set("example.com/second", "yes", "no")})
			r.policy.TakeBack, r.policy.Budgets.Attempts = true, 1
			r.ends(event.Waiting)
			r.advance(8 * time.Minute)
			r.advance(r.ends(event.Waiting).Wait)
			if tt.before != nil {
				tt.before(r)
			}
			if tt.point == "" {
				r.sync("h2", "192.168.0.9")
			} else {
				r.once(tt.point, r.syncs)
			}
			if tt.held {
				r.advance(r.ends(event.Waiting).Wait)
			}
			if tt.fails != "" {
				r.advance(r.fails(tt.fails).Wait)
			}
			if tt.heal != nil {
				tt.heal(r)
			}
			rec, _, _ := r.try(r.event)
			if rec.Result != tt.want {
				t.Fatalf("it ends as %q: %s, %s", rec.Result, rec.Finding, rec.Error)
			}
			r.wrote(tt.writes)
			if tt.want == event.Fixed && (!strings.Contains(rec.Finding.String(), "works by now") || rec.Undoing || rec.Held != "" || len(rec.Steps) > 0) {
				t.Errorf("finds %q, held by %q, with %d steps", rec.Finding, rec.Held, len(rec.Steps))
			}
		})
	}
}

// An Event about a sync does not keep a fix that did not work: anyone who may create Events can write one.
func TestTakeBackTold(t *testing.T) {
	t.Parallel()
	r := build(t, func(svc *corev1.Service) {
		svc.Labels = map[string]string{ccm.HashLabel: "h1"}
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.168.0.9"}}
	})
	r.policy.TakeBack, r.policy.Budgets.Attempts = true, 1
	r.ends(event.Waiting)
	r.advance(8 * time.Minute)
	r.advance(r.ends(event.Waiting).Wait)
	_, err := r.kube.Client().CoreV1().Events(r.svc.Namespace).Create(r.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: r.svc.Namespace, Name: "web.ok"},
		InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: r.svc.Namespace, Name: "web", UID: r.svc.UID},
		Reason:         "EnsuredLoadBalancer", Type: "Normal", LastTimestamp: metav1.NewTime(r.now()),
		Source: corev1.EventSource{Component: "service-controller"},
	}, metav1.CreateOptions{})
	r.must(err)
	r.ends(event.Undone)
	r.wrote(2)
}

func TestHeldBetweenSteps(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		stop func(*rig)
		says string
	}{
		"pause": {func(r *rig) {
			r.must(control.SetPause(r.Context(), r.env.Stream, control.Pause{Cluster: r.env.Cluster, By: "ann"}, false))
		}, "Paused by ann"},
		"freeze": {func(r *rig) {
			p := r.policy
			p.Freezes = []remedy.Freeze{{Name: "sale", Start: time.Now().Add(-time.Hour), End: time.Now().Add(1000 * time.Hour)}}
			r.setPolicy(p)
		}, "sale"},
		"observe": {func(r *rig) {
			p := r.policy
			p.Mode = remedy.Observe
			r.setPolicy(p)
		}, "Observe mode"},
		"a label of the Service": {func(r *rig) { r.patch("", `{"metadata":{"labels":{"lbremedy.io/mode":"observe"}}}`) }, "Observe mode"},
		"a label of the namespace": {func(r *rig) {
			_, err := r.kube.Client().CoreV1().Namespaces().Patch(r.Context(), r.svc.Namespace, types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"lbremedy.io/mode":"observe"}}}`), metav1.PatchOptions{})
			r.must(err)
		}, "Observe mode"},
	} {
		for _, left := range []remedy.Step{act{Name: "2", Annotate: set("example.com/second", "yes", "")}, step.TagLB{Key: "k", Value: "v"}} {
			t.Run(fmt.Sprintf("%s before %s", name, left.Kind()), func(t *testing.T) {
				t.Parallel()
				r := build(t)
				if tag, ok := left.(step.TagLB); ok {
					tag.LB = r.lb
					left = tag
				}
				r.steps = append(r.steps, left)
				r.once("after 1", func(context.Context) error { tt.stop(r); return nil })
				for range 3 {
					rec := r.ends(event.Waiting)
					if rec.Next != 1 || !strings.Contains(rec.Rule.String(), tt.says) {
						t.Errorf("%d steps were made: %s", rec.Next, rec.Rule)
					}
					r.advance(rec.Wait)
				}
				r.wrote(1)
				if _, ok := r.tags()["k"]; ok {
					t.Error("the tag was written")
				}
			})
		}
	}
}

// A case held by a spent budget says when a place is free, is not diagnosed meanwhile, and goes on within a minute of a raised budget.
func TestSpentBudget(t *testing.T) {
	t.Parallel()
	r := build(t)
	r.policy.Budgets = remedy.Budgets{Class: 1, Least: 1}
	r.spend()
	rec := r.held(event.HeldByBudget, "The next place is free at 20")
	for range 3 {
		if rec.Wait > time.Minute {
			t.Errorf("it waits %s", rec.Wait)
		}
		r.advance(rec.Wait)
		rec = r.held(event.HeldByBudget, "The budget of the class is spent: 1 Service in 10 minutes.")
	}
	if n := r.hits["diagnose"]; n != 1 {
		t.Errorf("it was diagnosed %d times", n)
	}
	r.policy.Budgets = plenty
	r.advance(rec.Wait)
	r.ends(event.Waiting)
	r.wrote(1)
}
