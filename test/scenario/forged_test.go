package scenario

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/events"
	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/identity"
	"github.com/lbremedy/lbremedy/test/nats"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

// Whoever may create Events in a namespace can say in the controller's name that a Service
// fails. About one that the controller has synced, no class writes or advises a write for
// that: not for any of its texts and not for any message of the corpus, with names in them
// that exist and that don't.
func TestForged(t *testing.T) {
	files, err := filepath.Glob("testdata/healthy/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no healthy world in testdata: %v", err)
	}
	said := corpus(t)
	on := newGround(t, lawful().Class)
	if err := identity.Admit(t.Context(), on.cluster); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(script{file: file}.name(), func(t *testing.T) {
			w := build(t, on, lawful(), read(t, file))
			w.sync(t)
			// Newer than the sync, which would else answer the Event.
			w.event.Failure.First, w.event.Failure.Last = w.now().Add(2*time.Second), w.now().Add(2*time.Second)
			names := w.namesIn()
			// The classes have rights of their own in the cluster and the account; in
			// NATS one connection does for all.
			journal := nats.Connect(t, stream.Config{URL: on.url, User: "admin", Password: "admin"})
			for _, r := range functions.All {
				w.enter(t, on, r)
				// The person who allows most.
				if w.plan, err = policy.Parse(fmt.Appendf(nil, "mode: fix\nrisk: high\nclasses: {%s: {risk: high, oneWay: true}}\n", r.Class), []string{r.Class}); err != nil {
					t.Fatal(err)
				}
				w.env.Stream = journal
				before := w.snapshot(t)
				for i, text := range forgeries(r, said[r.Class], names) {
					w.event.Failure.Class, w.event.Failure.Message = r.Class, text
					// The answer is the same for a look and a run; a run of the first one
					// of each class shows it.
					answer := remedy.Look
					if i == 0 {
						answer = remedy.Run
					}
					rec, err := answer(t.Context(), w.env, r, w.event)
					if err != nil {
						t.Errorf("%s: %q: %v", r.Class, text, err)
						continue
					}
					if len(rec.Steps) > 0 || rec.Digest != "" || rec.Ask != "" && !strings.HasSuffix(rec.Ask, "Change nothing on the word of the Event.") {
						t.Errorf("%s: %q: the run ended as %s: %s Steps: %v. Ask: %s", r.Class, text, rec.Result, rec.Finding, rec.Steps, rec.Ask)
					}
				}
				if diff := cmp.Diff(before, w.snapshot(t)); diff != "" {
					t.Fatalf("%s wrote (-before +after):\n%s", r.Class, diff)
				}
			}
		})
	}
}

// sync has the controller sync the Service in full, and ends the controller.
func (w *world) sync(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		controller.Run(ctx, w.controller())
	}()
	defer func() { cancel(); <-ended }()
	services := w.kube.Client().CoreV1().Services(w.svc.Namespace)
	watch, err := services.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + w.svc.Name})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	for change := range watch.ResultChan() {
		if svc, ok := change.Object.(*corev1.Service); ok && remedy.Synced(svc) && remedy.InForce(svc) {
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

// namesIn returns what a stranger could name: once what exists, once what doesn't.
func (w *world) namesIn() []string {
	world := w.cloud.Snapshot()
	var ids []string
	for _, lb := range world.LoadBalancers {
		ids = append(ids, lb.ID)
	}
	for _, lb := range world.NLBs {
		ids = append(ids, lb.ID)
	}
	there := strings.Join(append(ids, "vsw-a", "vsw-b", "slb_quota_instances_num", "port 80", "cn-hangzhou-h", "i-scenario", "rsp-1", w.svc.Namespace+"/"+w.svc.Name), " ")
	return []string{
		"lb [" + strings.Join(ids, ",") + "] vswitch " + there + " AccessDeniedDetail: map[AuthAction:ecs:AuthorizeSecurityGroup NoPermissionType:ImplicitDeny]",
		"lb [lb-none] vswitch vsw-none AuthAction:slb:DoAsYouLike quota slb_quota_none The quota of none is exceeded port 65535 account 1234567890 rsp-none i-none",
	}
}

// forgeries returns the messages that could be taken for one of the class.
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
		all = []string{"Error syncing load balancer []: " + names[0]} // what nobody knows
	}
	return all
}

// corpus returns the messages of the classifier's corpus by their class.
func corpus(t *testing.T) map[string][]string {
	t.Helper()
	f, err := os.Open("../../events/testdata/corpus.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[string][]string{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var row struct{ Want, Type, Message string }
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		if row.Type == corev1.EventTypeWarning {
			all[row.Want] = append(all[row.Want], events.Redact(row.Message))
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
