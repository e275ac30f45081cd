package testbed

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/event/table"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

const patience = 5 * time.Minute

// TestFixtures: for every failure the controller's Event has the fixture's class, the Service fails, and the repair ends it.
func TestFixtures(t *testing.T) {
	c := cluster.Join(t)
	bin, version := controller.Real()
	if bin != "" {
		c.Exclusive(t) // it syncs all Services
	}
	fixtures := slices.DeleteFunc(All(), func(f Fixture) bool {
		if !f.Supported() {
			t.Logf("%s is left out: %s, a %s, does not fail so", f.Name, bin, version)
		}
		return !f.Supported()
	})
	classes := event.NewClassifier(table.Table())
	for _, fixtures := range ByConfig(fixtures) {
		t.Run(name(fixtures[0].Config), func(t *testing.T) {
			if bin == "" {
				t.Parallel()
			}
			failAndRepair(t, c, classes, fixtures)
		})
	}
}

// TestOthers does the same for nodes and the cluster.
func TestOthers(t *testing.T) {
	for _, f := range slices.DeleteFunc(Others(), func(f Fixture) bool { return !f.Supported() }) {
		t.Run(f.Name, func(t *testing.T) {
			failAndRepair(t, cluster.Alone(t), event.NewClassifier(table.Table()), []Fixture{f})
		})
	}
}

func name(c Config) string {
	n := fmt.Sprint(c.Own, c.Version)
	if c.Terway {
		n += " terway"
	}
	if c.NoPublic {
		n += " no public"
	}
	if n == "" {
		return "usual"
	}
	return n
}

func failAndRepair(t *testing.T, c *cluster.Cluster, classes *event.Classifier, fixtures []Fixture) {
	namespace := c.Namespace(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tb, err := Start(ctx, Options{Config: fixtures[0].Config, Cluster: c, Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	began := time.Now()
	if err := tb.Fail(ctx, fixtures...); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d fixtures in %v", len(fixtures), time.Since(began))
	for _, f := range fixtures {
		in, ok := tb.Event(f.Service)
		if got := classes.Classify(in); !ok || got.Class != f.Class {
			t.Errorf("%s: %+v is of class %s, want %s", f.Name, in, got.Class, f.Class)
		}
		if tb.Healed(f.Service) {
			t.Errorf("%s: it works all the same", f.Name)
		}
	}
	if err := tb.Repair(ctx, fixtures...); err != nil {
		t.Error(err)
	}
	t.Logf("%v", time.Since(began))
}

// TestRetry restores the tag and lets the controller's retry sync only backends: the Service is healed with an unchanged hash
// label. A forged Event in the controller's name heals nothing.
func TestRetry(t *testing.T) {
	t.Parallel()
	c := cluster.Join(t)
	namespace := c.Namespace(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tb, err := Start(ctx, Options{Cluster: c, Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	var fixtures []Fixture
	for _, f := range All() {
		if f.Name == "tag-lost" || f.Name == "drifted-lost-settings" || f.Name == "tag-lost-nlb" {
			fixtures = append(fixtures, f.As(f.Name))
		}
	}
	if err := tb.Fail(ctx, fixtures...); err != nil {
		t.Fatal(err)
	}
	for _, f := range fixtures {
		e := &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: f.Service + ".forged"},
			InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: namespace, Name: f.Service, UID: tb.watch.service(f.Service).UID},
			Reason:         event.Ensured, Type: corev1.EventTypeNormal, LastTimestamp: metav1.Now(), Source: corev1.EventSource{Component: "service-controller"},
		}
		if _, err := tb.kube.CoreV1().Events(namespace).Create(ctx, e, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := tb.Until(ctx, func() bool { _, ok := tb.watch.recovered(f.Service); return ok }); err != nil {
			t.Fatal(err)
		}
		if tb.Healed(f.Service) {
			t.Errorf("%s is healed by an Event", f.Name)
		}
		if err := f.repair(ctx, tb, f.Service); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range fixtures {
		if err := tb.Until(ctx, func() bool { return tb.Healed(f.Service) }); err != nil {
			t.Errorf("%s is not healed: %v%s", f.Name, err, tb.watch.said(f.Service))
		} else if hash := tb.watch.service(f.Service).Labels[hashLabel]; hash != tb.was[f.Service] {
			t.Errorf("%s has another hash label: a full sync healed it", f.Name)
		}
	}
}

// TestEviction: a Pod evicted from a master is restarted on a worker, as by a ReplicaSet and a scheduler.
func TestEviction(t *testing.T) {
	t.Parallel()
	c := cluster.Join(t)
	namespace := c.Namespace(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tb, err := Start(ctx, Options{Cluster: c, Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	i := slices.IndexFunc(All(), func(f Fixture) bool { return f.Name == "nodes-master" })
	if err := tb.Fail(ctx, All()[i].As("web")); err != nil {
		t.Fatal(err)
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: tb.Namespace}}
	if err := tb.kube.PolicyV1().Evictions(tb.Namespace).Evict(ctx, eviction); err != nil {
		t.Fatal(err)
	}
	if err := tb.Until(ctx, func() bool { return tb.Healed("web") }); err != nil {
		t.Error(err)
	}
}

// TestOtherFailure: an error contains the controller's message if that differs from the fixture's.
func TestOtherFailure(t *testing.T) {
	t.Parallel()
	c := cluster.Join(t)
	namespace := c.Namespace(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tb, err := Start(ctx, Options{Cluster: c, Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	f := FullVSwitch(FullVSwitchH)
	f.Says = "something else"
	failed := make(chan error)
	go func() { failed <- tb.Fail(ctx, f.As("web")) }()
	if err := tb.Until(ctx, func() bool { return tb.watch.hasFailed("web", saysFull) }); err != nil {
		t.Error(err)
	}
	cancel()
	err = <-failed
	for _, want := range []string{`to fail with "something else"`, "the controller says", saysFull, "context canceled"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

func TestComplete(t *testing.T) {
	has, names := map[string]bool{}, map[string]bool{}
	for _, f := range append(All(), Others()...) {
		has[f.Class] = true
		if names[f.Name] {
			t.Errorf("two fixtures are called %s", f.Name)
		}
		names[f.Name] = true
		if f.Story == "" || f.Says == "" || f.Ends == "" || f.inject == nil || f.Heals != f.Ends.Worked() {
			t.Errorf("the fixture %s is incomplete: %+v", f.Name, f)
		}
	}
	for _, r := range functions.All {
		if !has[r.Class] && r.Answers("") { // failures of nodes and of the cluster have scenarios, and Others
			t.Errorf("no fixture shows %s: write testdata/fixtures.yaml in its folder", r.Class)
		}
		delete(has, r.Class)
	}
	for class := range has {
		t.Errorf("there is no class %s", class)
	}
}

func TestFiles(t *testing.T) {
	for text, want := range map[string]string{
		"class: busy\nfixtures:\n- {name: a, inject: [{create: {}}]}\n": "",
		"class: quota\n":                                                                              "the class \"quota\" do not belong in the folder busy",
		"class: busy\nfixtures:\n- {name: a}\n":                                                       "the fixture injects nothing: a",
		"class: busy\nfixtures:\n- {name: a, tells: b}\n":                                             `unknown field "tells"`,
		"class: busy\nfixtures:\n- {name: a, inject: [{creates: {}}]}\n":                              `no operation "creates": there are accept, account, annotate,`,
		"class: busy\nfixtures:\n- {name: a, inject: [{create: {}, touch: {}}]}\n":                    "an operation has 2 names",
		"class: busy\nfixtures:\n- {name: a, inject: [{create: {nlbs: true}}]}\n":                     `read the operation create: json: unknown field "nlbs"`,
		"class: busy\nfixtures:\n- {name: a, inject: [{touch: {twice: true}}]}\n":                     `unknown field "twice"`,
		"class: busy\nfixtures:\n- {name: a, inject: [{nlb: {state: Configuring}}]}\n":                `read the operation nlb: json: unknown field "state"`,
		"class: busy\nfixtures:\n- {name: a, inject: [{account: {balance: 5}}]}\n":                    "cannot unmarshal number",
		"class: busy\nfixtures:\n- {name: a, testbed: {verson: v2.6.0}, inject: [{create: {}}]}\n":    `unknown field "verson"`,
		"class: busy\nfixtures:\n- {name: a, inject: [{refuse: {action: A, kode: B}}, {accept: {}}]}": `unknown field "kode"`,
	} {
		dir := filepath.Join(t.TempDir(), "busy", "testdata")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "fixtures.yaml")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := readFixtures(file)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestBulk(t *testing.T) {
	fixtures := Bulk(AnyVSwitch(), "web", 11)
	if first, last := fixtures[0].Service, fixtures[10].Service; first != "web-00" || last != "web-10" {
		t.Errorf("from %s to %s", first, last)
	}
}
