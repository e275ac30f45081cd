package scene

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/event/table"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/sim/controller"
)

// patience is far more than a stage takes, even on a machine with other things to do.
const patience = 5 * time.Minute

// TestScenes plays every scene, several to a stage, and looks whether the
// controller's own event is of the scene's class, whether the Service fails
// then, and whether that ends when its cause is taken away.
func TestScenes(t *testing.T) {
	c := cluster.Join(t)
	bin, version := controller.Real()
	if bin != "" {
		c.Exclusive(t) // it syncs all Services
	}
	roles := slices.DeleteFunc(everyone(), func(r Role) bool {
		if !r.Playable() {
			t.Logf("%s is not played: %s, a %s, does not fail so", r.Name, bin, version)
		}
		return !r.Playable()
	})
	classes := event.NewClassifier(table.Table())
	for _, cast := range Casts(roles) {
		t.Run(name(cast[0].On), func(t *testing.T) {
			if bin == "" {
				t.Parallel()
			}
			play(t, c, classes, cast)
		})
	}
}

// everyone returns a role of each scene.
func everyone() []Role {
	var roles []Role
	for _, s := range All() {
		roles = append(roles, s.As(s.Name))
	}
	return roles
}

func name(on Setting) string {
	n := fmt.Sprint(on.Own, on.Version)
	if on.Terway {
		n += " terway"
	}
	if on.NoPublic {
		n += " no public"
	}
	if n == "" {
		return "usual"
	}
	return n
}

func play(t *testing.T, c *cluster.Cluster, classes *event.Classifier, cast []Role) {
	namespace := c.Namespace(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := Start(ctx, Options{Setting: cast[0].On, Cluster: c, Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	began := time.Now()
	if err := s.Play(ctx, cast...); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d scenes in %v", len(cast), time.Since(began))
	for _, r := range cast {
		in, ok := s.Event(r.Service)
		if got := classes.Classify(in); !ok || got.Class != r.Class {
			t.Errorf("%s: %+v is of class %s, want %s", r.Name, in, got.Class, r.Class)
		}
		if s.Healed(r.Service) {
			t.Errorf("%s: it works all the same", r.Name)
		}
	}
	if err := s.Mend(ctx, cast...); err != nil {
		t.Error(err)
	}
	t.Logf("%v", time.Since(began))
}

// TestEviction shows that a Pod which is evicted from a master runs again on a
// worker, as a ReplicaSet and a scheduler see to it.
func TestEviction(t *testing.T) {
	t.Parallel()
	c := cluster.Join(t)
	namespace := c.Namespace(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := Start(ctx, Options{Cluster: c, Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	i := slices.IndexFunc(All(), func(s Scene) bool { return s.Name == "nodes-master" })
	if err := s.Play(ctx, All()[i].As("web")); err != nil {
		t.Fatal(err)
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: s.Namespace}}
	if err := s.kube.PolicyV1().Evictions(s.Namespace).Evict(ctx, eviction); err != nil {
		t.Fatal(err)
	}
	if err := s.Until(ctx, func() bool { return s.Healed("web") }); err != nil {
		t.Error(err)
	}
}

// TestOtherFailure looks whether an error tells what the controller says, where
// that is not what the scene expects.
func TestOtherFailure(t *testing.T) {
	t.Parallel()
	c := cluster.Join(t)
	namespace := c.Namespace(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := Start(ctx, Options{Cluster: c, Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	scene := FullVSwitch(FullVSwitchH)
	scene.Says = "something else"
	played := make(chan error)
	go func() { played <- s.Play(ctx, scene.As("web")) }()
	if err := s.Until(ctx, func() bool { return s.watch.hasFailed("web", saysFull) }); err != nil {
		t.Error(err)
	}
	cancel()
	err = <-played
	for _, want := range []string{`to fail with "something else"`, "the controller says", saysFull, "context canceled"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

// TestComplete holds the scenes to the list of classes, and each to what a scene
// has to say of itself.
func TestComplete(t *testing.T) {
	has, names := map[string]bool{}, map[string]bool{}
	for _, s := range All() {
		has[s.Class] = true
		if names[s.Name] {
			t.Errorf("two scenes are called %s", s.Name)
		}
		names[s.Name] = true
		if s.Story == "" || s.Says == "" || s.Ends == "" || s.spoil == nil || s.Heals != (s.Ends == event.Fixed) {
			t.Errorf("the scene %s is incomplete: %+v", s.Name, s)
		}
	}
	for _, r := range functions.All {
		if !has[r.Class] {
			t.Errorf("no scene shows %s: write testdata/scenes.yaml in its folder", r.Class)
		}
		delete(has, r.Class)
	}
	for class := range has {
		t.Errorf("there is no class %s", class)
	}
}

// TestScripts looks at what a file of scenes may not hold.
func TestScripts(t *testing.T) {
	for text, want := range map[string]string{
		"class: busy\nscenes:\n- {name: a, spoil: [{create: {}}]}\n": "",
		"class: quota\n":                                                                           "the class \"quota\" do not belong into the folder busy",
		"class: busy\nscenes:\n- {name: a}\n":                                                      "nothing goes wrong in the scene a",
		"class: busy\nscenes:\n- {name: a, tells: b}\n":                                            `unknown field "tells"`,
		"class: busy\nscenes:\n- {name: a, spoil: [{creates: {}}]}\n":                              `no deed "creates": there are accept, account, annotate, create,`,
		"class: busy\nscenes:\n- {name: a, spoil: [{create: {}, touch: {}}]}\n":                    "a deed has 2 names",
		"class: busy\nscenes:\n- {name: a, spoil: [{create: {nlbs: true}}]}\n":                     `read the deed create: json: unknown field "nlbs"`,
		"class: busy\nscenes:\n- {name: a, spoil: [{touch: {twice: true}}]}\n":                     `unknown field "twice"`,
		"class: busy\nscenes:\n- {name: a, spoil: [{nlb: {state: Configuring}}]}\n":                `read the deed nlb: json: unknown field "state"`,
		"class: busy\nscenes:\n- {name: a, spoil: [{account: {balance: 5}}]}\n":                    "cannot unmarshal number",
		"class: busy\nscenes:\n- {name: a, stage: {verson: v2.6.0}, spoil: [{create: {}}]}\n":      `unknown field "verson"`,
		"class: busy\nscenes:\n- {name: a, spoil: [{refuse: {action: A, kode: B}}, {accept: {}}]}": `unknown field "kode"`,
	} {
		dir := filepath.Join(t.TempDir(), "busy", "testdata")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "scenes.yaml")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := readScripts(file)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestBulk(t *testing.T) {
	roles := Bulk(AnyVSwitch(), "web", 11)
	if first, last := roles[0].Service, roles[10].Service; first != "web-00" || last != "web-10" {
		t.Errorf("from %s to %s", first, last)
	}
}
