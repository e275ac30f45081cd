package step_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/step"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/sim"
)

type rig struct {
	testing.TB
	kube  *cluster.Cluster
	cloud *sim.Cloud
	c     *remedy.Case
	w     *remedy.Writers
}

func build(t *testing.T, w *sim.World, annotations map[string]string, ingress ...corev1.LoadBalancerIngress) *rig {
	t.Helper()
	r := &rig{TB: t, c: &remedy.Case{ID: "case", Attempt: 1}, w: &remedy.Writers{}}
	if w != nil {
		r.cloud = sim.New(t, w)
		k := r.cloud.Client("step", "*:*")
		var err error
		r.c.Cloud, r.w.Cloud, err = cloud.New(cloud.Config{Region: r.cloud.Region(), ClusterID: "c-1", Endpoint: r.cloud.Addr(), Scheme: "HTTP",
			Credentials: func(context.Context) (cloud.Key, error) {
				return cloud.Key{ID: k.AccessKeyID, Secret: k.Secret, Token: k.Token}, nil
			}})
		r.must(err)
		t.Cleanup(r.c.Cloud.Close)
		return r
	}
	r.kube = cluster.Join(t)
	ns := r.kube.Namespace(t)
	client := r.kube.Client().CoreV1().Services(ns)
	svc, err := client.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: annotations},
		Spec:       corev1.ServiceSpec{Type: "LoadBalancer", Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	r.must(err)
	svc.Status.LoadBalancer.Ingress = ingress
	_, err = client.UpdateStatus(t.Context(), svc, metav1.UpdateOptions{})
	r.must(err)
	r.c.Kube, err = kube.New(r.kube.Config)
	r.must(err)
	r.w.Kube = kube.NewWriter(r.c.Kube)
	r.c.Service, err = r.c.Kube.Service(t.Context(), ns, "web")
	r.must(err)
	return r
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) read() {
	r.Helper()
	svc, err := r.c.Kube.Service(r.Context(), r.c.Service.Namespace, "web")
	r.must(err)
	r.c.Service = svc
}

func (r *rig) patch(data string) {
	r.Helper()
	_, err := r.kube.Client().CoreV1().Services(r.c.Service.Namespace).Patch(r.Context(), "web", types.MergePatchType, []byte(data), metav1.PatchOptions{})
	r.must(err)
}

func (r *rig) is(s remedy.Step, want remedy.State) {
	r.Helper()
	if got, err := s.Check(r.Context(), r.c); err != nil || got != want {
		r.Errorf("%s is %s, %v; want %s", s.Says(), got, err, want)
	}
}

func (r *rig) does(s remedy.Step) {
	r.Helper()
	if err := s.Apply(r.Context(), r.c, r.w); err != nil {
		r.Fatalf("%s: %v", s.Says(), err)
	}
}

func (r *rig) undo(s remedy.Step) remedy.Step {
	r.Helper()
	back, ok := s.Undo()
	if !ok {
		r.Fatalf("%s has no way back", s.Says())
	}
	return back
}

func equal(t testing.TB, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnnotations(t *testing.T) {
	t.Parallel()
	before := map[string]string{"a/old": "1", "a/away": "x", "a/other": "z"}
	for _, tt := range []struct {
		name string
		step remedy.Step
		want map[string]string // after it
		odd  string            // patch that is neither before nor after
	}{
		{"set a new one", step.Annotate{Set: map[string]string{"a/new": "2"}},
			map[string]string{"a/old": "1", "a/away": "x", "a/other": "z", "a/new": "2"}, `{"a/new":"3"}`},
		{"set another value", step.Annotate{Set: map[string]string{"a/old": "2"}, Was: map[string]string{"a/old": "1"}},
			map[string]string{"a/old": "2", "a/away": "x", "a/other": "z"}, `{"a/old":null}`},
		{"set and remove", step.Annotate{Set: map[string]string{"a/old": "2"}, Remove: []string{"a/away"}, Was: map[string]string{"a/old": "1", "a/away": "x"}},
			map[string]string{"a/old": "2", "a/other": "z"}, `{"a/old":"2"}`},
		{"remove", step.RemoveAnnotation{Names: []string{"a/old", "a/away"}, Was: map[string]string{"a/old": "1", "a/away": "x"}},
			map[string]string{"a/other": "z"}, `{"a/old":null}`},
		{"set to nothing", step.Annotate{Set: map[string]string{"a/old": ""}, Was: map[string]string{"a/old": "1"}},
			map[string]string{"a/old": "", "a/away": "x", "a/other": "z"}, `{"a/old":null}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := build(t, nil, before)
			r.is(tt.step, remedy.Todo)
			back := r.undo(tt.step)
			r.is(back, remedy.Done)
			r.does(tt.step)
			if !r.c.Written() {
				t.Error("it left no mark: the controller isn't woken")
			}
			r.read()
			r.is(tt.step, remedy.Done)
			r.is(back, remedy.Todo)
			want := map[string]string{ccm.Resync: "case.1"}
			maps.Copy(want, tt.want)
			equal(t, r.c.Service.Annotations, want)

			r.does(back)
			r.read()
			r.is(back, remedy.Done)
			r.is(tt.step, remedy.Todo)
			want = map[string]string{ccm.Resync: "case.1"}
			maps.Copy(want, before)
			equal(t, r.c.Service.Annotations, want)
			again := r.undo(back)
			r.is(again, remedy.Todo)

			// A stale version is not written to.
			r.patch(`{"metadata":{"annotations":` + tt.odd + `}}`)
			for _, s := range []remedy.Step{tt.step, back, step.Resync{}} {
				if err := s.Apply(t.Context(), r.c, r.w); !errors.Is(err, kube.ErrConflict) {
					t.Errorf("%s on an old version: %v", s.Says(), err)
				}
			}
			r.read()
			r.is(tt.step, remedy.Conflict)
		})
	}
}

func TestByShortName(t *testing.T) {
	t.Parallel()
	c := &remedy.Case{View: ccm.View{Service: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		ccm.Prefix + "spec": "a", ccm.LegacyPrefix + "spec": "b", ccm.LegacyPrefix + "id": "c",
	}}}}}
	equal(t, step.Without(c.Service, "spec"), step.RemoveAnnotation{
		Names: []string{ccm.Prefix + "spec", ccm.LegacyPrefix + "spec"},
		Was:   map[string]string{ccm.Prefix + "spec": "a", ccm.LegacyPrefix + "spec": "b"},
	})
	equal(t, step.With(c.Service, "spec", "x"), step.Annotate{Set: map[string]string{ccm.Prefix + "spec": "x"}, Was: map[string]string{ccm.Prefix + "spec": "a"}})
	equal(t, step.With(c.Service, "id", "x"), step.Annotate{Set: map[string]string{ccm.Prefix + "id": "x"}})
	equal(t, string(step.Without(c.Service, "id").Patch(c)), `{"metadata":{"annotations":{"`+ccm.LegacyPrefix+`id":null}}}`)
	a := step.Annotate{Set: map[string]string{"b": "2", "a": "1"}, Remove: []string{"c"}}
	equal(t, string(a.Patch(c)), `{"metadata":{"annotations":{"a":"1","b":"2","c":null}}}`)
	equal(t, a.Keys(), []string{"a", "b", "c"})
	equal(t, step.Without(c.Service, "id").Keys(), []string{ccm.LegacyPrefix + "id"})
}

// A resync is done only by its own attempt.
func TestTouch(t *testing.T) {
	t.Parallel()
	r := build(t, nil, map[string]string{ccm.Resync: "case.0"})
	resync := step.Resync{After: time.Minute}
	r.is(resync, remedy.Todo)
	r.does(resync)
	r.read()
	r.is(resync, remedy.Done)
	equal(t, r.c.Service.Annotations, map[string]string{ccm.Resync: "case.1"})
	r.c.Attempt = 2
	r.is(resync, remedy.Todo)
	if _, ok := resync.Undo(); ok {
		t.Error("a resync has something to take back")
	}
	if resync.Settle() != time.Minute || resync.Pace() <= 0 {
		t.Errorf("settles in %s, paced at %s", resync.Settle(), resync.Pace())
	}
}

func TestClearStatus(t *testing.T) {
	t.Parallel()
	was := []corev1.LoadBalancerIngress{{IP: "10.0.0.1"}, {Hostname: "web.example.com"}}
	r := build(t, nil, nil, was...)
	clear := step.ClearStatus{Was: was}
	r.is(clear, remedy.Todo)
	r.is(step.ClearStatus{Was: was[:1]}, remedy.Conflict)
	old := r.c.Service
	r.patch(`{"metadata":{"annotations":{"a/b":"c"}}}`)
	if err := clear.Apply(t.Context(), r.c, r.w); !errors.Is(err, kube.ErrConflict) {
		t.Errorf("on an old version: %v", err)
	}
	r.read()
	r.does(clear)
	if r.c.Service.ResourceVersion == old.ResourceVersion {
		t.Error("the case still holds the Service of before")
	}
	r.read()
	r.is(clear, remedy.Done)
	if n := len(r.c.Service.Status.LoadBalancer.Ingress); n != 0 {
		t.Errorf("%d addresses are left", n)
	}
	if _, ok := clear.Undo(); ok {
		t.Error("an address that is gone comes back")
	}
}

// Tags are written and removed once, and never over another writer's.
func TestTags(t *testing.T) {
	t.Parallel()
	tags := map[string]string{"other": "x"}
	r := build(t, &sim.World{LoadBalancers: []sim.LoadBalancer{{ID: "lb-1", Tags: tags}}}, nil)
	tag := step.TagLB{LB: "lb-1", Key: "k", Value: "v"}
	untag := r.undo(tag)
	equal(t, r.undo(untag), remedy.Step(tag))
	writes := func() (n int) {
		for _, c := range r.cloud.CallsOf("step") {
			if c.Action == "TagResources" || c.Action == "UntagResources" {
				n++
			}
		}
		return n
	}
	r.is(tag, remedy.Todo)
	r.is(untag, remedy.Done)
	r.does(tag)
	r.does(tag) // already done: no second write
	r.is(tag, remedy.Done)
	r.is(untag, remedy.Todo)
	r.does(untag)
	r.does(untag)
	r.is(tag, remedy.Todo)
	if got := writes(); got != 2 {
		t.Errorf("%d writes, want 2", got)
	}

	r.cloud.Edit(func(s *sim.State) { s.LoadBalancers["lb-1"].Tags = map[string]string{"k": "theirs"} })
	for _, s := range []remedy.Step{tag, untag} {
		r.is(s, remedy.Conflict)
		if err := s.Apply(t.Context(), r.c, r.w); !errors.Is(err, remedy.ErrMoved) {
			t.Errorf("%s over another value: %v", s.Says(), err)
		}
	}

	// A load balancer has at most 20 tags.
	r.cloud.Edit(func(s *sim.State) {
		full := map[string]string{}
		for i := range 20 {
			full[fmt.Sprint("k", i)] = "v"
		}
		s.LoadBalancers["lb-1"].Tags = full
	})
	r.is(tag, remedy.Todo)
	if err := tag.Apply(t.Context(), r.c, r.w); !errors.As(err, new(*cloud.Error)) || errors.Is(err, remedy.ErrMoved) {
		t.Errorf("a 21st tag: %v", err)
	}
	r.is(tag, remedy.Todo)

	// After a failed read nothing is written; a refusal is an error.
	for _, s := range []remedy.Step{tag, step.UntagLB{LB: "lb-1", Key: "k1", Value: "v"}} {
		heal := r.cloud.Fault(sim.Fault{Product: "slb", Action: "ListTagResources", Status: 503, Code: "ServiceUnavailable"})
		n := writes()
		if err := s.Apply(t.Context(), r.c, r.w); err == nil {
			t.Errorf("%s: the tags can't be read, and it is no error", s.Says())
		}
		heal()
		if writes() != n {
			t.Errorf("%s wrote without having read", s.Says())
		}
		heal = r.cloud.Fault(sim.Fault{Product: "slb", Action: "*agResources", Status: 403, Code: "NoPermission"})
		if err := s.Apply(t.Context(), r.c, r.w); !errors.Is(err, cloud.ErrDenied) {
			t.Errorf("%s, refused: %v", s.Says(), err)
		}
		heal()
	}
	for _, s := range []remedy.Step{step.TagLB{LB: "lb-0", Key: "k", Value: "v"}, step.UntagLB{LB: "lb-1", Key: "k1", Value: "v"}} {
		heal := r.cloud.Fault(sim.Fault{Product: "slb", Action: map[string]string{"tag-lb": "TagResources", "untag-lb": "UntagResources"}[s.Kind()], Status: 403,
			Code: "NoPermission"})
		if err := s.Apply(t.Context(), r.c, r.w); err == nil {
			t.Errorf("%s is refused, and it is no error", s.Says())
		}
		heal()
	}
}

func document(actions ...string) string {
	data, err := json.Marshal(map[string]any{"Version": "1", "Statement": []any{map[string]any{"Effect": "Allow", "Action": actions, "Resource": "*"}}})
	if err != nil {
		panic(err)
	}
	return string(data)
}

func (r *rig) versions() string {
	r.Helper()
	all, err := r.c.Cloud.RAM.PolicyVersions(r.Context(), "p", step.Custom)
	r.must(err)
	var ids []string
	for _, v := range all {
		if v.Default {
			v.ID += "*"
		}
		ids = append(ids, v.ID)
	}
	return strings.Join(ids, " ")
}

func policy(n, current int) *sim.World {
	p := sim.Policy{Name: "p"}
	for i := 1; i <= n; i++ {
		p.Versions = append(p.Versions, sim.PolicyVersion{ID: fmt.Sprint("v", i), Default: i == current, Document: document(fmt.Sprint("slb:Do", i))})
	}
	return &sim.World{Policies: []sim.Policy{p}}
}

func TestPolicyVersion(t *testing.T) {
	t.Parallel()
	r := build(t, policy(1, 1), nil)
	add := step.PolicyVersion{Policy: "p", Document: document("slb:Do1", "slb:More"), Adds: []string{"slb:More"}, Was: "v1", Versions: []string{"v1"}}
	back := r.undo(add)
	r.is(add, remedy.Todo)
	r.is(back, remedy.Done)
	r.does(add)
	r.does(add) // already done: no second version
	equal(t, r.versions(), "v1 v2*")
	r.is(add, remedy.Done)
	r.is(back, remedy.Todo)
	r.does(back)
	r.does(back)
	equal(t, r.versions(), "v1* v2")
	r.is(back, remedy.Done)
	r.is(add, remedy.Conflict) // a version that is not in the plan exists
	if err := add.Apply(t.Context(), r.c, r.w); !errors.Is(err, remedy.ErrMoved) {
		t.Errorf("over an unknown version: %v", err)
	}
	if _, ok := back.Undo(); ok {
		t.Error("the way back has a way back")
	}

	r = build(t, policy(3, 3), nil)
	other := step.DefaultVersion{Policy: "p", Version: "v1", From: document("slb:Do2")}
	r.is(other, remedy.Conflict)
	if err := other.Apply(t.Context(), r.c, r.w); !errors.Is(err, remedy.ErrMoved) {
		t.Errorf("over somebody's default version: %v", err)
	}
	none := step.DefaultVersion{Policy: "p", Version: "v9", From: document("slb:Do3")}
	if err := none.Apply(t.Context(), r.c, r.w); err == nil {
		t.Error("a version that doesn't exist became the default")
	}
}

// A document that is not the default version's would take back what somebody has changed.
func TestNewVersion(t *testing.T) {
	t.Parallel()
	versions := []cloud.PolicyVersion{{ID: "v1"}, {ID: "v2", Default: true}}
	got, err := step.NewVersion(cloud.Policy{Name: "p", Version: "v2"}, document("slb:More"), []string{"slb:More"}, versions)
	want := step.PolicyVersion{Policy: "p", Document: document("slb:More"), Adds: []string{"slb:More"}, Was: "v2", Versions: []string{"v1", "v2"}}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v\n%s", err, d)
	}
	if got, err := step.NewVersion(cloud.Policy{Name: "p", Version: "v1"}, document("slb:More"), nil, versions); err == nil {
		t.Errorf("on a version that is not the default: %+v", got)
	}

	full := []cloud.PolicyVersion{{ID: "v1", Default: true}}
	for day := 4; day > 0; day-- {
		id := fmt.Sprint("v", 6-day)
		full = append(full, cloud.PolicyVersion{ID: id, Document: document("slb:Do" + id), Created: time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC)})
	}
	base := cloud.Policy{Name: "p", Version: "v1"}
	got, err = step.NewVersion(base, document("slb:More"), nil, full)
	if err != nil || got.Drop != "v5" || got.Dropped != document("slb:Dov5") {
		t.Errorf("of a full policy: %+v, %v", got, err)
	}
	full[2].Created = time.Time{}
	if got, err := step.NewVersion(base, document("slb:More"), nil, full); err == nil {
		t.Errorf("by an unknown date: %+v", got)
	}
	full[2].Created, full[4].Document = full[1].Created, ""
	if got, err := step.NewVersion(base, document("slb:More"), nil, full); err == nil {
		t.Errorf("with an unknown document: %+v", got)
	}
}

// The version that undo needs is never deleted.
func TestPolicyFull(t *testing.T) {
	t.Parallel()
	all := []string{"v1", "v2", "v3", "v4", "v5"}
	add := step.PolicyVersion{Policy: "p", Document: document("slb:More"), Was: "v4", Versions: all, Drop: "v1"}
	r := build(t, policy(5, 4), nil)
	r.is(add, remedy.Todo)
	r.does(add)
	equal(t, r.versions(), "v2 v3 v4 v5 v6*")
	r.does(r.undo(add))
	equal(t, r.versions(), "v2 v3 v4* v5 v6")

	r = build(t, policy(5, 4), nil)
	full := add
	full.Drop = ""
	if err := full.Apply(t.Context(), r.c, r.w); err == nil {
		t.Error("a sixth version was made")
	}
	equal(t, r.versions(), "v1 v2 v3 v4* v5")

	// After a crash between deletion and creation, no second version is deleted.
	r.cloud.Fault(sim.Fault{Product: "ram", Action: "CreatePolicyVersion", Status: 409, Code: "LimitExceeded.Policy.Version", Count: 1})
	heal := r.cloud.Fault(sim.Fault{Product: "ram", Action: "CreatePolicyVersion", CutBefore: true})
	if err := add.Apply(t.Context(), r.c, r.w); err == nil {
		t.Error("no answer came, and it is no error")
	}
	heal()
	equal(t, r.versions(), "v2 v3 v4* v5")
	r.is(add, remedy.Todo)
	r.does(add)
	equal(t, r.versions(), "v2 v3 v4 v5 v6*")

	// The write was made, and its answer was lost.
	r = build(t, policy(5, 4), nil)
	r.cloud.Fault(sim.Fault{Product: "ram", Action: "CreatePolicyVersion", Status: 409, Code: "LimitExceeded.Policy.Version", Count: 1})
	heal = r.cloud.Fault(sim.Fault{Product: "ram", Action: "CreatePolicyVersion", CutAfter: true})
	if err := add.Apply(t.Context(), r.c, r.w); err == nil {
		t.Error("no answer came, and it is no error")
	}
	heal()
	r.is(add, remedy.Done)
	r.does(add)
	equal(t, r.versions(), "v2 v3 v4 v5 v6*")

	// Each failed call is an error and loses nothing.
	for n, action := range []string{"ListPolicyVersions", "CreatePolicyVersion", "DeletePolicyVersion"} {
		r = build(t, policy(5, 4), nil)
		heal = r.cloud.Fault(sim.Fault{Product: "ram", Action: action, Status: 403, Code: "NoPermission"})
		for _, s := range []remedy.Step{add, step.DefaultVersion{Policy: "p", Version: "v4", From: add.Document}} {
			if err := s.Apply(t.Context(), r.c, r.w); !errors.Is(err, cloud.ErrDenied) && (n == 0 || s.Kind() == add.Kind()) {
				t.Errorf("%s without %s: %v", s.Says(), action, err)
			}
		}
		heal()
		equal(t, r.versions(), "v1 v2 v3 v4* v5")
	}
	heal = r.cloud.Fault(sim.Fault{Product: "ram", Action: "SetDefaultPolicyVersion", Status: 403, Code: "NoPermission"})
	if err := (step.DefaultVersion{Policy: "p", Version: "v1", From: document("slb:Do4")}).Apply(t.Context(), r.c, r.w); !errors.Is(err, cloud.ErrDenied) {
		t.Errorf("refused: %v", err)
	}
	heal()
}

// A step survives its record, and needs the same grants whatever its values.
func TestKinds(t *testing.T) {
	t.Parallel()
	filled := map[string]struct {
		step   remedy.Step
		text   string
		target string
		risk   remedy.Risk
	}{
		"annotate": {step.Annotate{Set: map[string]string{"b": "2", "a": "<1>"}, Remove: []string{"c"}, Was: map[string]string{"a": "0"}},
			"annotate a=<1> b=2 and remove c", "", remedy.Low},
		"remove-annotation": {step.RemoveAnnotation{Names: []string{"a", "b"}, Was: map[string]string{"a": "0"}}, "remove annotation a b", "", remedy.Low},
		"convert": {step.Convert{Annotate: step.Annotate{Set: map[string]string{"a": "1"}, Remove: []string{"b"}, Was: map[string]string{"b": "0"}}, LB: "lb-1"},
			"annotate a=1 and remove b, by which the controller changes lb-1 for good", "slb/lb-1", remedy.Medium},
		"resync": {step.Resync{After: time.Minute}, "trigger a resync after 1m", "", remedy.Low},
		"clear-status": {step.ClearStatus{Was: []corev1.LoadBalancerIngress{{IP: "10.0.0.1"}, {Hostname: "h"}}}, "clear the status, which lists 10.0.0.1, h", "",
			remedy.High},
		"tag-lb":    {step.TagLB{LB: "lb-1", Key: "k", Value: "v"}, "tag lb-1 with k=v", "slb/lb-1", remedy.High},
		"protect":   {step.Protect{LB: "nlb-1"}, "turn on the deletion protection of nlb-1", "nlb/nlb-1", remedy.Low},
		"unprotect": {step.Unprotect{LB: "nlb-1", Network: true}, "turn off the deletion protection of nlb-1", "nlb/nlb-1", remedy.High},
		"untag-lb":  {step.UntagLB{LB: "lb-1", Key: "k", Value: "v"}, "take the tag k off lb-1", "slb/lb-1", remedy.High},
		"policy-version": {step.PolicyVersion{Policy: "p", Document: "{}", Adds: []string{"a", "b"}, Was: "v2", Versions: []string{"v1", "v2"}, Drop: "v1"},
			"add a, b to the RAM policy p with a new default version, in place of its old version v1", "ram/p", remedy.Medium},
		"apply-quota": {step.ApplyQuota{Product: "slb", Name: "q", Code: "q_1", Dimensions: map[string]string{"regionId": "r"}, To: 250, Was: 200.5,
			Reason: "full", Known: []string{"app-1"}},
			"apply for 250 in place of 200.5 as the limit q", "quota/q", remedy.Medium},
		"target-ports": {step.TargetPorts{Ports: []step.TargetPort{
			{Port: 80, Protocol: "TCP", To: intstr.FromInt32(8080), Was: intstr.FromString("http")}, {Port: 443, Protocol: "TCP", To: intstr.FromString("https"),
				Was: intstr.FromInt32(0)}}},
			"set the targetPort of port 80 to 8080 in place of http, set the targetPort of port 443 to https in place of 0", "", remedy.Medium},
		"evict": {step.Evict{Namespace: "shop", Pod: "web-0", UID: "u", Node: "node-1"}, "evict the Pod shop/web-0 from the node node-1", "evict/shop",
			remedy.High},
		"move-listener": {step.MoveListener{LB: "lb-1", Port: 80, Protocol: "tcp", Group: "rsp-2", Was: "rsp-1"},
			"point the listener tcp:80 of lb-1 at the vServer group rsp-2 instead of rsp-1", "slb/lb-1", remedy.High},
		"delete-listener": {step.DeleteListener{LB: "lb-1", Listener: cloud.Listener{Port: 80, Protocol: "udp", Config: map[string]string{"a": "1"}}},
			"delete the listener udp:80 of lb-1", "slb/lb-1", remedy.High},
		"create-listener": {step.CreateListener{LB: "lb-1", Listener: cloud.Listener{Port: 80, Protocol: "udp"}}, "make the listener udp:80 of lb-1 again",
			"slb/lb-1", remedy.High},
		"default-version": {step.DefaultVersion{Policy: "p", Version: "v1", From: "{}"}, "make version v1 of the RAM policy p the default again", "ram/p",
			remedy.Medium},
	}
	for _, zero := range step.All() {
		want, ok := filled[zero.Kind()]
		if !ok {
			t.Errorf("kind %s has no example here", zero.Kind())
			continue
		}
		delete(filled, zero.Kind())
		s := want.step
		if s.Says().String() != want.text || s.Target() != want.target || s.Risk() != want.risk {
			t.Errorf("%s: %q on %q with %s risk", s.Kind(), s.Says(), s.Target(), s.Risk())
		}
		equal(t, s.Grants(), zero.Grants())
		if len(s.Grants()) == 0 {
			t.Errorf("%s needs no grants", s.Kind())
		}
		// The admission policy refuses other fields.
		patches := slices.Contains(s.Grants(), grant.PatchServices) || slices.Contains(s.Grants(), grant.PatchServicesStatus)
		c, ok := s.(remedy.Changer)
		if ok != patches || ok && len(c.Fields()) == 0 {
			t.Errorf("%s patches Services: %t, and names the fields: %t", s.Kind(), patches, ok)
		}
		if k, ok := s.(remedy.Keyed); ok {
			ports := slices.Contains(k.Keys(), remedy.PortsKey)
			if ports != slices.Contains(c.Fields(), remedy.PortsField) {
				t.Errorf("%s writes the keys %v, and the fields %v", s.Kind(), k.Keys(), c.Fields())
			}
		}
		data, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		back, err := step.Decode(s.Kind(), data)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, back, s)
		for _, garbage := range []string{"", "{", "[]", `"x"`, "null", string(data) + "{}", string(data) + "x"} {
			if got, err := step.Decode(s.Kind(), []byte(garbage)); err == nil {
				t.Errorf("%s became %s of %q", garbage, got.Says(), s.Kind())
			}
		}
	}
	for kind := range filled {
		t.Errorf("All leaves out %s", kind)
	}
	if _, err := step.Decode("reboot", []byte("{}")); err == nil || !strings.Contains(err.Error(), `kind "reboot" is not known`) {
		t.Errorf("a kind that nobody knows: %v", err)
	}
	if got := (step.Resync{}).Says().String(); got != "trigger a resync" {
		t.Errorf("got %q", got)
	}
}

// The refusal names the kind and the unknown field: without the field it could be another write.
func TestDecodeNewer(t *testing.T) {
	for _, zero := range step.All() {
		_, err := step.Decode(zero.Kind(), []byte(`{"unless":"night"}`))
		want := "decode step " + zero.Kind() + `: its field "unless" is not known: a newer release has journalled it`
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for kind, text := range map[string]string{
		"target-ports":    `{"ports":[{"port":80,"protocol":"TCP","to":8080,"was":80,"unless":1}]}`,
		"create-listener": `{"lb":"lb-1","listener":{"Port":80,"Protocol":"udp","unless":1}}`,
		"clear-status":    `{"was":[{"ip":"192.0.2.1","unless":1}]}`,
	} {
		if _, err := step.Decode(kind, []byte(text)); err == nil || !strings.Contains(err.Error(), `its field "unless" is not known`) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
