package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/test/fixture"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	medium, high := remedy.Medium, remedy.High
	fix := remedy.Policy{Mode: remedy.Fix}
	for _, tt := range []struct {
		name   string
		policy remedy.Policy
		risk   remedy.Risk // of the step
		raised remedy.Risk // of the plan
		optIn  bool
		want   event.Result
		rule   string
	}{
		{name: "no policy", want: event.Planned, rule: "Observe mode"},
		{name: "observe", policy: remedy.Policy{Mode: remedy.Observe, Risk: high}, want: event.Planned, rule: "Observe mode"},
		{name: "a mode that nobody knows", policy: remedy.Policy{Mode: "banana"}, want: event.Planned, rule: "Observe mode"},
		{name: "fix, low", policy: fix, want: event.Waiting, rule: "Applied"},
		{name: "fix, medium", policy: fix, risk: medium, want: event.Asked, rule: "risk of the plan is medium"},
		{name: "fix, raised by the plan", policy: fix, raised: high, want: event.Asked, rule: "risk of the plan is high"},
		{name: "fix up to medium", policy: remedy.Policy{Mode: remedy.Fix, Risk: medium}, risk: medium, want: event.Waiting, rule: "Applied"},
		{name: "the class up to medium", policy: remedy.Policy{Mode: remedy.Fix, Classes: map[string]remedy.Class{class: {Risk: &medium}}}, risk: medium,
			want: event.Waiting, rule: "Applied"},
		{name: "the class observes", policy: remedy.Policy{Mode: remedy.Fix, Classes: map[string]remedy.Class{class: {Mode: remedy.Observe}}},
			want: event.Planned, rule: "Observe mode"},
		{name: "the class alone fixes", policy: remedy.Policy{Classes: map[string]remedy.Class{class: {Mode: remedy.Fix}}}, want: event.Waiting, rule: "Applied"},
		{name: "another class is named", policy: remedy.Policy{Mode: remedy.Fix, Classes: map[string]remedy.Class{"other": {}}}, optIn: true, want: event.Asked,
			rule: "only if the policy file names the class"},
		{name: "opted in", policy: remedy.Policy{Mode: remedy.Fix, Classes: map[string]remedy.Class{class: {}}}, optIn: true, want: event.Waiting, rule: "Applied"},
		{name: "not opted in, observe", optIn: true, want: event.Planned, rule: "Observe mode"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			r.policy, r.class.OptIn = tt.policy, tt.optIn
			r.class.Diagnose = func(context.Context, *remedy.Case) (remedy.Plan, error) {
				return remedy.Plan{Finding: say.F("f"), Risk: tt.raised, Steps: r.bind([]remedy.Step{act{Name: "1", How: tt.risk, Annotate: set(key, "new", "old")}})}, nil
			}
			look, err := engine.Look(t.Context(), r.env, r.class, r.event)
			r.must(err)
			rec := r.ends(tt.want)
			if !strings.Contains(rec.Rule.String(), tt.rule) {
				t.Errorf("the rule is %q, want %q", rec.Rule, tt.rule)
			}
			if want := max(tt.risk, tt.raised).String(); rec.Risk != want {
				t.Errorf("the risk is %q, want %q", rec.Risk, want)
			}
			if tt.want == event.Waiting {
				r.wrote(1)
				return
			}
			r.wrote(0)
			if len(rec.Steps) != 1 || rec.Digest == "" || rec.Digest != look.Digest {
				t.Errorf("%d steps with digest %q; a look has %q", len(rec.Steps), rec.Digest, look.Digest)
			}
			if (len(rec.Ask) > 0) != (tt.want == event.Asked) {
				t.Errorf("asks %q", rec.Ask)
			}
		})
	}
}

func TestPlansWithoutSteps(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		plan remedy.Plan
		want event.Result
	}{
		{remedy.Plan{Finding: say.F("f"), Ask: say.F("a"), Note: say.F("n"), Cause: "c"}, event.Asked},
		{remedy.Plan{Finding: say.F("f"), Wait: time.Minute}, event.Waiting},
		{remedy.Plan{Finding: say.F("f"), Wait: time.Minute, Ask: say.F("a")}, event.Waiting},
	} {
		r := build(t)
		r.class.Diagnose = remedy.Always(tt.plan)
		rec := r.ends(tt.want)
		if rec.Finding.String() != tt.plan.Finding.String() || rec.Ask.String() != tt.plan.Ask.String() ||
			rec.Note.String() != tt.plan.Note.String() || rec.Cause != tt.plan.Cause ||
			rec.Wait != tt.plan.Wait || rec.Digest != "" {
			t.Errorf("the record is %+v", rec)
		}
		r.class.Diagnose = remedy.Always(remedy.Plan{Finding: say.F("g"), Ask: say.F("b")})
		if tt.want == event.Waiting {
			r.ends(event.Asked)
		}
		r.wrote(0)
	}
}

func TestGitOps(t *testing.T) {
	t.Parallel()
	argo := fixture.Labels(map[string]string{"argocd.argoproj.io/instance": "shop"})
	applied := func(svc *corev1.Service) {
		last, _ := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{key: "old"}}})
		svc.Annotations["kubectl.kubernetes.io/last-applied-configuration"] = string(last)
	}
	for _, tt := range []struct {
		name    string
		edit    []func(*corev1.Service)
		manager string // the field manager of the annotation, by server-side apply
		step    step.Annotate
		around  string // the value of the namespace's label
		owner   string // the expected owner; empty: nobody
		note    string
	}{
		{name: "nobody", step: set(key, "new", "old")},
		{name: "Argo CD", manager: "argocd-controller", owner: "argocd-controller"},
		{name: "Flux", manager: "kustomize-controller", owner: "kustomize-controller"},
		{name: "Helm", manager: "helm", owner: "helm"},
		{name: "another tool", manager: "tool"},
		{name: "another tool, on an object with a mark", edit: []func(*corev1.Service){argo}, manager: "tool"},
		{name: "a mark, and the last applied has the key", edit: []func(*corev1.Service){argo, applied}, owner: "argocd.argoproj.io/instance"},
		{name: "a mark as an annotation", edit: []func(*corev1.Service){applied,
			func(svc *corev1.Service) { svc.Annotations["meta.helm.sh/release-name"] = "shop" }}, owner: "meta.helm.sh/release-name"},
		{name: "Helm's label", edit: []func(*corev1.Service){applied, fixture.Labels(map[string]string{"app.kubernetes.io/managed-by": "Helm"})},
			owner: "managed-by=Helm"},
		{name: "somebody's label", edit: []func(*corev1.Service){fixture.Labels(map[string]string{"app.kubernetes.io/managed-by": "me"})}},
		{name: "a mark, and a new key", edit: []func(*corev1.Service){argo}, step: step.Annotate{Set: map[string]string{"a/b": "c"}}},
		{name: "drift is allowed", edit: []func(*corev1.Service){argo, applied}, around: "true"},
		{name: "drift is not quite allowed", edit: []func(*corev1.Service){argo, applied}, around: "yes", owner: "argocd"},
		{name: "drift is allowed by the owner of the Service", owner: "argocd",
			edit: []func(*corev1.Service){argo, applied, fixture.Labels(map[string]string{"lbremedy.io/allow-drift": "true"})}},
		{name: "kubectl apply", edit: []func(*corev1.Service){applied}, note: "next kubectl apply reverts"},
		{name: "a last applied that nobody can read", edit: []func(*corev1.Service){func(svc *corev1.Service) {
			svc.Annotations["kubectl.kubernetes.io/last-applied-configuration"] = "{"
		}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := build(t, tt.edit...)
			if tt.around != "" {
				r.label("lbremedy.io/allow-drift", tt.around)
			}
			if tt.manager != "" {
				force := true
				_, err := r.kube.Client().CoreV1().Services(r.svc.Namespace).Patch(t.Context(), "web", types.ApplyPatchType,
					[]byte(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"web","annotations":{"`+key+`":"old"}}}`), metav1.PatchOptions{FieldManager: tt.manager,
						Force: &force})
				r.must(err)
			}
			if tt.step.Set == nil {
				tt.step = set(key, "new", "old")
			}
			r.steps = []remedy.Step{act{Name: "1", Annotate: tt.step}}
			rec := r.run()
			if tt.owner != "" {
				if rec.Result != event.Asked || !strings.Contains(rec.Rule.String(), tt.owner) || !strings.Contains(rec.Ask.String(), `"`+key+`":"new"`) {
					t.Errorf("ended as %q, rule %q, ask %q; want %s to own it", rec.Result, rec.Rule, rec.Ask, tt.owner)
				}
				r.wrote(0)
				return
			}
			if !rec.Done() || !strings.Contains(rec.Note.String(), tt.note) {
				t.Errorf("ended as %q with %d steps, rule %q, note %q", rec.Result, rec.Next, rec.Rule, rec.Note)
			}
			r.wrote(1)
		})
	}
}

// A plan that changes what a person has changed within the last hour asks, whatever the policy allows, and names the edit.
func TestRecentEdit(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		manager string
		key     string // the edited annotation
		later   time.Duration
		asks    bool
	}{
		"a person":            {"kubectl-annotate", key, 0, true},
		"a person, long ago":  {"kubectl-annotate", key, 2 * time.Hour, false},
		"another annotation":  {"kubectl-annotate", "example.com/other", 0, false},
		"a tool":              {"operator", key, 0, false},
		"lbremedy":            {"lbremedy", key, 0, false},
		"the console of a UI": {"k9s", key, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := build(t)
			for n := 0; ; n++ { // both times are in whole seconds
				svc, err := r.kube.Client().CoreV1().Services(r.svc.Namespace).Patch(t.Context(), "web", types.MergePatchType,
					fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%d"}}}`, tt.key, n), metav1.PatchOptions{FieldManager: tt.manager})
				r.must(err)
				if slices.ContainsFunc(svc.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
					return f.Manager == tt.manager && f.Time.After(svc.CreationTimestamp.Time)
				}) {
					break
				}
			}
			_, err := r.kube.Client().CoreV1().Services(r.svc.Namespace).Patch(t.Context(), "web", types.MergePatchType,
				fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"old"}}}`, tt.key), metav1.PatchOptions{FieldManager: tt.manager})
			r.must(err)
			r.advance(tt.later)
			r.event = r.failure(class, r.now())
			rec := r.run()
			if !tt.asks {
				if !rec.Done() || strings.Contains(rec.Note.String(), "changed") {
					t.Errorf("ended as %q, note %q", rec.Result, rec.Note)
				}
				return
			}
			if rec.Status() != event.NeedsApproval || rec.Risk != "medium" ||
				!strings.Contains(rec.Note.String(), tt.manager+"\" changed "+key+" on the Service at 20") {
				t.Errorf("ended as %q of %s risk, note %q", rec.Status(), rec.Risk, rec.Note)
			}
			r.wrote(0)
			r.approve(rec, "ann")
			if rec := r.run(); !rec.Done() {
				t.Errorf("approved, it ended as %q, rule %q", rec.Result, rec.Rule)
			}
			r.wrote(1)
		})
	}
}

// A digest covers the writes, the Service, and what the sync after them takes down or overwrites; nothing else.
func TestDigest(t *testing.T) {
	t.Parallel()
	plan := func(steps ...remedy.Step) remedy.Plan { return remedy.Plan{Finding: say.F("f"), Steps: steps} }
	base := plan(step.Annotate{Set: map[string]string{"a": "1", "b": "2"}, Was: map[string]string{"a": "0"}}, step.Resync{})
	digest := base.Digest(class, "uid")
	if len(digest) != 32 || strings.Trim(digest, "0123456789abcdef") != "" {
		t.Errorf("the digest is %q", digest)
	}
	same := plan(step.Annotate{Set: map[string]string{"b": "2", "a": "1"}, Was: map[string]string{"a": "0"}}, step.Resync{})
	same.Finding, same.Note, same.Ask = say.F("another"), say.F("n"), say.F("a")
	same.Changes = []event.Change{{Balancer: "lb-1", What: "group g", How: say.Literal("the group g gets i-1:30080")}}
	if same.Digest(class, "uid") != digest {
		t.Error("the digest depends on the words")
	}
	with := func(changes ...event.Change) string {
		p := base
		p.Changes = changes
		return p.Digest(class, "uid")
	}
	if with(event.Change{What: "a", Down: true}, event.Change{What: "b", Sets: true}) != with(event.Change{What: "b", Sets: true, How: say.Literal("h")},
		event.Change{What: "a", Down: true}, event.Change{What: "a", Down: true}) {
		t.Error("the digest depends on the order or the words of changes")
	}
	seen := map[string]string{digest: "base"}
	for name, d := range map[string]string{
		"class":       base.Digest("other", "uid"),
		"UID":         base.Digest(class, "uid2"),
		"value":       plan(step.Annotate{Set: map[string]string{"a": "1", "b": "3"}, Was: map[string]string{"a": "0"}}, step.Resync{}).Digest(class, "uid"),
		"Was":         plan(step.Annotate{Set: map[string]string{"a": "1", "b": "2"}, Was: map[string]string{"a": "x"}}, step.Resync{}).Digest(class, "uid"),
		"down":        with(event.Change{Balancer: "lb-1", What: "listener tcp:80", Down: true}),
		"sets":        with(event.Change{Balancer: "lb-1", What: "listener tcp:80", Sets: true}),
		"sets more":   with(event.Change{Balancer: "lb-1", What: "listener tcp:80", Sets: true}, event.Change{Balancer: "lb-1", What: "spec", Sets: true}),
		"sets others": with(event.Change{Balancer: "lb-2", What: "listener tcp:80", Sets: true}),
		"fewer":       plan(base.Steps[0]).Digest(class, "uid"),
		"order":       plan(base.Steps[1], base.Steps[0]).Digest(class, "uid"),
		"kind":        plan(step.TagLB{LB: "lb", Key: "k", Value: "v"}).Digest(class, "uid"),
		"kind 2":      plan(step.UntagLB{LB: "lb", Key: "k", Value: "v"}).Digest(class, "uid"),
	} {
		if other, ok := seen[d]; ok {
			t.Errorf("%s and %s have one digest", name, other)
		}
		seen[d] = name
	}

	r := build(t)
	r.policy = remedy.Policy{}
	first := r.ends(event.Planned).Digest
	r.patch("", `{"metadata":{"annotations":{"a/b":"c","`+ccm.Resync+`":"x"}}}`)
	r.event.Again = true
	if got := r.ends(event.Planned).Digest; got != first {
		t.Errorf("the digest changed from %s to %s", first, got)
	}

	defer func() {
		if recover() == nil {
			t.Error("a step that doesn't encode has a digest")
		}
	}()
	plan(garbled{}).Digest(class, "uid")
}

// A look writes nothing, not even into the journal, and needs no stream.
func TestLook(t *testing.T) {
	t.Parallel()
	r := build(t)
	env := *r.env
	env.Stream = nil
	rec, err := engine.Look(t.Context(), &env, r.class, r.event)
	if err != nil || rec.Result != event.Planned || len(rec.Steps) != 1 {
		t.Errorf("ended as %q, %v", rec.Result, err)
	}
	r.wrote(0)
	if len(r.journal()) != 0 {
		t.Error("it wrote to the journal")
	}
	r.class.Diagnose = remedy.Always(remedy.Plan{Finding: say.F("f"), Steps: []remedy.Step{garbled{}}})
	if _, err := engine.Look(t.Context(), &env, r.class, r.event); err == nil {
		t.Error("a step that doesn't encode is no error")
	}
	r.class.Diagnose = remedy.Always(remedy.Plan{})
	if _, err := engine.Look(t.Context(), &env, r.class, r.event); err == nil {
		t.Error("an empty plan is no error")
	}
}

func TestDeclaration(t *testing.T) {
	t.Parallel()
	r := &remedy.Remedy{Class: class, Doc: "\n# A title\n\nMore.", Diagnose: remedy.Always(remedy.Plan{}), Reads: []grant.Grant{grant.DescribeVSwitches}}
	if r.Title() != "A title" {
		t.Errorf("the title is %q", r.Title())
	}
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
	names := func() string {
		var all []string
		for _, g := range r.Grants() {
			all = append(all, g.String())
		}
		return strings.Join(all, ", ")
	}
	fixture.Equal(t, names(), "get namespaces, get services, list events, nlb:ListListeners, slb:DescribeLoadBalancerListeners, vpc:DescribeVSwitches")
	r.Steps = []remedy.Step{step.TagLB{}}
	fixture.Equal(t, names(), "cs:DescribeClusterAddonsVersion, get namespaces, get services, list daemonsets.apps, list events, "+
		"nlb:GetLoadBalancerAttribute, nlb:ListListeners, nlb:ListLoadBalancers, "+
		"nlb:ListServerGroupServers, nlb:ListTagResources, nlb:TagResources, "+
		"slb:DescribeLoadBalancerAttribute, slb:DescribeLoadBalancerListeners, slb:DescribeLoadBalancers, slb:DescribeVServerGroupAttribute, "+
		"slb:DescribeVServerGroups, slb:ListTagResources, slb:TagResources, vpc:DescribeVSwitches")
	if err := r.Validate(); err == nil || !strings.Contains(err.Error(), "no StillFails") {
		t.Errorf("got %v", err)
	}
	err := (&remedy.Remedy{}).Validate()
	for _, want := range []string{"no class ID", "Doc is empty", "no Diagnose"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	got := []any{remedy.Unknown, remedy.Yes, remedy.No, remedy.Is(true), remedy.Is(false), remedy.Todo, remedy.Done, remedy.Conflict}
	var words []string
	for _, w := range got {
		words = append(words, w.(interface{ String() string }).String())
	}
	fixture.Equal(t, words, []string{"unknown", "yes", "no", "yes", "no", "todo", "done", "conflict"})
	for _, risk := range []remedy.Risk{remedy.Low, remedy.Medium, remedy.High} {
		data, err := json.Marshal(risk)
		var back remedy.Risk
		if err != nil || json.Unmarshal(data, &back) != nil || back != risk {
			t.Errorf("%s became %s", risk, data)
		}
	}
	var risk remedy.Risk
	if data, err := json.Marshal(remedy.Risk(7)); err == nil || remedy.Risk(7).String() != "risk(7)" {
		t.Errorf("a risk that nobody knows became %s", data)
	}
	if err := json.Unmarshal([]byte(`"huge"`), &risk); err == nil {
		t.Error("a risk that nobody knows is read")
	}
}

func TestPolicyValues(t *testing.T) {
	t.Parallel()
	usual, none := remedy.VSwitches{}, int64(0)
	for _, tt := range []struct {
		v    remedy.VSwitches
		free int64
		want int
	}{{usual, 20, 12}, {usual, 8, 0}, {usual, 3, 0}, {remedy.VSwitches{Reserve: &none}, 3, 3}} {
		if got := tt.v.Room(tt.free); got != tt.want {
			t.Errorf("%d free are room for %d, want %d", tt.free, got, tt.want)
		}
	}
	v := remedy.VSwitches{Allow: []string{"vsw-1"}}
	if !v.Allowed("vsw-1") || v.Allowed("vsw-2") {
		t.Error("the wrong vSwitch is allowed")
	}

	r := build(t)
	r.policy.Budgets.Attempts = 1
	r.ends(event.Waiting)
	r.advance(8 * time.Minute)
	r.ends(event.Failed)
}

func TestFields(t *testing.T) {
	r := &remedy.Remedy{
		Steps:       []remedy.Step{step.TagLB{}, step.Resync{}, step.ClearStatus{}, step.RemoveAnnotation{}},
		Annotations: []string{"spec", ccm.BackendType},
	}
	if d := cmp.Diff([]remedy.Field{remedy.MarkField, remedy.RemoveField, remedy.StatusField}, r.Fields()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{ccm.Prefix + "spec", ccm.LegacyPrefix + "spec", ccm.BackendType}, r.Keys()); d != "" {
		t.Error(d)
	}
}
