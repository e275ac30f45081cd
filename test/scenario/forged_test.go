package scenario

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/policy/policyfile"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/corpus"
	"github.com/lbremedy/lbremedy/test/identity"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

// TestForged checks forged Events: everybody who may create Events in a namespace can write one in the controller's name. For a
// Service that the controller has synced, no class writes or suggests a write: for any of its texts or any message of the corpus,
// with existing or invented names, and without any one of its rights. For a Service being deleted, no class writes.
func TestForged(t *testing.T) {
	files, err := filepath.Glob("testdata/healthy/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no healthy world in testdata: %v", err)
	}
	said := messages(t)
	on := newGround(t, lawful().Class)
	if err := identity.Admit(t.Context(), on.cluster); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(script{file: file}.name(), func(t *testing.T) {
			w := build(t, on, lawful(), read(t, file))
			w.sync(t)
			if w.event.Failure.Reason == "DeleteLoadBalancerFailed" {
				w.leave(t)
			}
			w.forge(t, on, said)
			if script := (script{file: file}); !testing.Short() && (script.name() == "clb" || script.name() == "nlb") {
				w.lack(t, on, said)
			}
		})
	}
}

// TestForgedOthers checks forged Events about healthy Nodes and the cluster, in the namespaces default and kube-system: for every reason,
// its texts and each message of the corpus, no class writes or plans a write, and no class that reads the cause suggests anything.
func TestForgedOthers(t *testing.T) {
	files, err := filepath.Glob("testdata/healthy_others/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no healthy world in testdata: %v", err)
	}
	said := messages(t)
	lawful := lawful()
	lawful.Kinds = []string{event.KindNode, event.KindCluster}
	on := newGround(t, lawful.Class)
	if err := identity.Admit(t.Context(), on.cluster); err != nil {
		t.Fatal(err)
	}
	reasons := map[string][]string{}
	for _, warning := range event.Warnings {
		if warning.Failure {
			reasons[warning.Kind] = append(reasons[warning.Kind], warning.Reason)
		}
	}
	told := map[string]bool{}
	for _, file := range files {
		t.Run(script{file: file}.name(), func(t *testing.T) {
			w := build(t, on, lawful, read(t, file))
			kind, journal := w.event.Failure.Service.Kind, nats.Connect(t, stream.Config{URL: on.url})
			for _, r := range functions.All {
				if !r.Answers(kind) {
					continue
				}
				told[r.Class] = true
				before := w.snapshot(t)
				texts := forgeries(r, said[r.Class], w.namesIn())
				if testing.Short() {
					texts = texts[:1]
				}
				nats.Empty(t, on.url)
				w.as(t, on, r, journal)
				for i, text := range texts {
					under := reasons[kind]
					if i > 0 { // of the others, each under one
						under = under[i%len(under):][:1]
					}
					for _, reason := range under {
						w.forgeOther(t, r, reason, text, i == 0)
					}
				}
				if diff := cmp.Diff(before, w.snapshot(t)); diff != "" {
					t.Fatalf("%s wrote (-before +after):\n%s", r.Class, diff)
				}
			}
		})
	}
	for _, r := range functions.All {
		if (r.Answers(event.KindNode) || r.Answers(event.KindCluster)) && !told[r.Class] {
			t.Errorf("no forged Event was told to %s", r.Class)
		}
	}
}

func (w *world) forgeOther(t *testing.T, r *remedy.Remedy, reason, text string, run bool) {
	t.Helper()
	w.event.Failure.Class, w.event.Failure.Reason, w.event.Failure.Message = r.Class, reason, text
	answer := engine.Look
	if run {
		answer = engine.Run
	}
	rec, err := answer(t.Context(), w.env, r, w.event)
	if err != nil || len(rec.Steps) > 0 || rec.Digest != "" || len(rec.Ask) > 0 && len(r.Reads) > 0 {
		t.Errorf("%s: %s %q: the run ended as %s, %v: %s Steps: %v. Ask: %s", r.Class, reason, text, rec.Result, err, rec.Finding, rec.Steps, rec.Ask)
	}
}

func (w *world) lack(t *testing.T, on *ground, said map[string][]string) {
	t.Helper()
	before, names := w.snapshot(t), w.namesIn()
	journal := nats.Connect(t, stream.Config{URL: on.url})
	defer func() { w.script.without = nil }()
	denied := 0
	for _, r := range functions.All {
		if !r.Answers("") {
			continue
		}
		text := forgeries(r, said[r.Class], names)[0]
		for _, g := range r.Grants() {
			w.script.without = []grant.Grant{g}
			w.as(t, on, r, journal)
			switch err := w.tell(t, r, text, engine.Look); {
			case errors.Is(err, kube.ErrDenied), errors.Is(err, hand.ErrDenied):
				denied++
			case err != nil:
				t.Errorf("%s, without %s: %q: %v", r.Class, g, text, err)
			}
		}
	}
	if diff := cmp.Diff(before, w.snapshot(t)); diff != "" {
		t.Fatalf("somebody wrote (-before +after):\n%s", diff)
	}
	if denied < len(functions.All) { // each reads its Service
		t.Errorf("the classes were refused %d reads", denied)
	}
}

func (w *world) forge(t *testing.T, on *ground, said map[string][]string) {
	t.Helper()
	// Newer than the sync, which would otherwise answer the Event.
	w.event.Failure.First, w.event.Failure.Last = w.now().Add(2*time.Second), w.now().Add(2*time.Second)
	names := w.namesIn()
	// The classes have separate rights in the cluster and the account; one connection to NATS serves all.
	journal := nats.Connect(t, stream.Config{URL: on.url})
	for _, r := range functions.All {
		if !r.Answers("") { // its failures are not about Services; see TestForgedOthers
			continue
		}
		before := w.snapshot(t)
		texts := forgeries(r, said[r.Class], names)
		if testing.Short() {
			texts = texts[:1]
		}
		nats.Empty(t, on.url)
		w.as(t, on, r, journal)
		w.calls.keep()
		for i, text := range texts {
			// A look and a run give the same answer, so only the first failure of each class is run.
			answer := engine.Look
			if i == 0 {
				answer = engine.Run
			}
			if err := w.tell(t, r, text, answer); err != nil {
				t.Errorf("%s: %q: %v", r.Class, text, err)
			}
		}
		if diff := cmp.Diff(before, w.snapshot(t)); diff != "" {
			t.Fatalf("%s wrote (-before +after):\n%s", r.Class, diff)
		}
	}
}

func (w *world) as(t *testing.T, on *ground, r *remedy.Remedy, journal *stream.Stream) {
	t.Helper()
	w.enter(t, on, r)
	v, err := policyfile.Parse(fmt.Appendf(nil, "mode: fix\nrisk: high\nclasses: {%s: {risk: high, oneWay: true}}\n", r.Class), []string{r.Class})
	if err != nil {
		t.Fatal(err)
	}
	w.plan = v.Policy
	w.env.Stream = journal
}

// tell hands the class a forged failure. It returns read errors, and reports writes and suggestions as failures of the test.
func (w *world) tell(t *testing.T, r *remedy.Remedy, text string, answer func(context.Context, *engine.Env, *remedy.Remedy, engine.Event) (event.Record,
	error)) error {
	t.Helper()
	w.event.Failure.Class, w.event.Failure.Message = r.Class, text
	rec, err := answer(t.Context(), w.env, r, w.event)
	if err != nil {
		return err
	}
	// Only an Event shows whether the controller has tried to clean up after a Service.
	leaves := w.svc.DeletionTimestamp != nil
	if len(rec.Steps) > 0 || rec.Digest != "" || len(rec.Ask) > 0 && !leaves &&
		!strings.HasSuffix(rec.Ask.String(), "Do not change anything because of this Event alone.") {
		t.Errorf("%s: %q: the run ended as %s: %s Steps: %v. Ask: %s", r.Class, text, rec.Result, rec.Finding, rec.Steps, rec.Ask)
	}
	return nil
}

func (w *world) leave(t *testing.T) {
	t.Helper()
	services := w.kube.Client().CoreV1().Services(w.svc.Namespace)
	if err := services.Delete(t.Context(), w.svc.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	svc, err := services.Get(t.Context(), w.svc.Name, metav1.GetOptions{})
	if err != nil || svc.DeletionTimestamp == nil {
		t.Fatalf("the Service is not being deleted: %v", err)
	}
	w.svc = svc
}

func (w *world) sync(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan struct{})
	opts := w.controller(t)
	go func() {
		defer close(ended)
		controller.Run(ctx, opts)
	}()
	defer func() { cancel(); <-ended }()
	services := w.kube.Client().CoreV1().Services(w.svc.Namespace)
	watch, err := services.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + w.svc.Name})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	for change := range watch.ResultChan() {
		if svc, ok := change.Object.(*corev1.Service); ok && ccm.Synced(svc) && ccm.InForce(svc) {
			w.svc = svc
			return
		}
	}
	happened, err := w.kube.Client().CoreV1().Events(w.svc.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range happened.Items {
		t.Log(e.Reason, e.Message)
	}
	t.Fatal("the controller has not synced the Service within a minute")
}

func (w *world) namesIn() []string {
	world := w.cloud.Snapshot()
	var ids []string
	for _, lb := range world.LoadBalancers {
		ids = append(ids, lb.ID)
	}
	for _, lb := range world.NLBs {
		ids = append(ids, lb.ID)
	}
	there := strings.Join(append(ids, "vsw-a", "vsw-b", "slb_quota_instances_num", "port 80", "cn-hangzhou-h", "i-scenario", "rsp-1",
		w.svc.Namespace+"/"+w.svc.Name), " ")
	return []string{
		"lb [" + strings.Join(ids, ",") + "] vswitch " + there + " AccessDeniedDetail: map[AuthAction:ecs:AuthorizeSecurityGroup NoPermissionType:ImplicitDeny]",
		"lb [lb-none] vswitch vsw-none AuthAction:slb:DoAsYouLike quota slb_quota_none The quota of none is exceeded port 65535 account 1234567890 rsp-none i-none",
	}
}

func forgeries(r *remedy.Remedy, said, names []string) []string {
	var all []string
	for _, code := range r.Codes {
		all = append(all, "Error syncing load balancer []: ErrorCode: "+code+" Message: "+names[0])
	}
	for _, text := range r.Texts {
		for _, name := range names {
			all = append(all, "Error syncing load balancer [lb-1]: Message: "+strings.ReplaceAll(text, "*", "x")+" "+name)
		}
	}
	for i, text := range said {
		all = append(all, text, text+" "+names[i%len(names)])
	}
	if len(all) == 0 {
		all = []string{"Error syncing load balancer []: " + names[0]} // an unknown message
	}
	return all
}

func messages(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, row := range corpus.Rows(t) {
		if row.Type == corev1.EventTypeWarning {
			all[row.Want] = append(all[row.Want], event.Redact(row.Message))
		}
	}
	return all
}
