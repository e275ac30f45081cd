package policyfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/test/cluster"
)

func parse(text []byte) (policy.Version, error) { return Parse(text, classes) }

// An empty wrong means a policy of this mode.
func reads(t *testing.T, doing string, s *Source, mode remedy.Mode, wrong string) {
	t.Helper()
	v, err := s.Read(t.Context())
	switch {
	case wrong == "" && (err != nil || v.Policy.Mode != mode || v.Digest != Digest([]byte(v.Text))):
		t.Errorf("%s: got %+v, %v", doing, v, err)
	case wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong) || v.Digest != "" || v.Policy.Mode != "" || len(v.Sinks) > 0):
		t.Errorf("%s: got %+v, %v; want %s", doing, v, err, wrong)
	}
}

// The content on disk counts at once. An unusable file is an error that names it, and the previous policy is not used.
func TestFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "policy.yaml")
	s := FromFile(file, parse)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(text string) func() { return func() { must(os.WriteFile(file, []byte(text), 0o600)) } }
	remove := func() { must(os.RemoveAll(file)) }
	reads(t, "before", s, "", "policy file "+file+": no such file")
	for _, tt := range []struct {
		doing string
		do    func()
		wrong string
	}{
		{"an empty one, as it begins to be written", write(""), "line 1: it is empty"},
		{"half of it", write("mode: fi"), `line 1: mode: "fi" is not a mode`},
		{"half of a word in quotes", write("mode: \"fi"), "line 1"},
		{"garbage", write("\x00\xff{"), "line 1"},
		{"a longer one than may be", write("mode: fix\n" + strings.Repeat("#", 256<<10)), "it is longer than 256 KiB"},
		{"one of 1 GiB", func() { must(os.Truncate(file, 1<<30)) }, "it is longer than 256 KiB"},
		{"a release to come", write("mode: fix\ncurfew: '22:00'\n"), "line 2: curfew: the field is unknown"},
		{"removed", remove, "no such file"},
		{"a directory", func() { remove(); must(os.Mkdir(file, 0o700)) }, "it is not a regular file"},
		{"a pipe that nobody writes to", func() { remove(); must(syscall.Mkfifo(file, 0o600)) }, "it is not a regular file"},
		{"a link to nowhere", func() { remove(); must(os.Symlink(filepath.Join(dir, "none"), file)) }, "no such file"},
		{"a link around", func() { remove(); must(os.Symlink(file, file)) }, "too many levels"},
		{"no directory", func() { remove(); must(os.RemoveAll(dir)) }, "no such file"},
	} {
		tt.do()
		reads(t, tt.doing, s, "", tt.wrong)
		must(os.MkdirAll(dir, 0o700))
		remove()
		write("mode: fix\n")()
		reads(t, "after "+tt.doing, s, remedy.Fix, "")
	}
	other := filepath.Join(dir, "other")
	for range 3 {
		for _, mode := range []remedy.Mode{remedy.Observe, remedy.Fix} {
			must(os.WriteFile(other, fmt.Appendf(nil, "mode: %s\n", mode), 0o600))
			must(os.Rename(other, file))
			reads(t, "replaced by "+string(mode), s, mode, "")
		}
	}
	if v, err := s.Read(t.Context()); err != nil || v.Text != "mode: fix\n" || v.Digest != Digest([]byte(v.Text)) || len(v.Digest) != 12 {
		t.Errorf("got %+v, %v", v, err)
	}
}

// A ConfigMap counts as the API server has it. Any failure is an error that names it, and the previous policy is not used. Permission
// to read this ConfigMap is enough.
func TestConfigMap(t *testing.T) {
	j := cluster.Join(t)
	ns := j.Namespace(t)
	maps := j.Client().CoreV1().ConfigMaps(ns)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	user := "policy-reader-" + ns
	may := func(rules ...rbacv1.PolicyRule) *rest.Config { return j.As(t, user, rules) }
	one := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"p"}, Verbs: []string{"get"}}
	c, err := kube.New(may(one))
	must(err)
	s := FromConfigMap(c, ns, "p", parse)
	put := func(data map[string]string, binary map[string][]byte) func() {
		return func() {
			m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Data: data, BinaryData: binary}
			_, err := maps.Update(t.Context(), m, metav1.UpdateOptions{})
			must(err)
		}
	}
	text := func(text string) map[string]string { return map[string]string{Key: text} }
	remove := func() { must(maps.Delete(t.Context(), "p", metav1.DeleteOptions{})) }
	create := func() {
		_, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Data: text("mode: observe\n")}, metav1.CreateOptions{})
		must(err)
	}
	reads(t, "before", s, "", "ConfigMap "+ns+"/p: get ConfigMap "+ns+"/p: not found")
	create()
	reads(t, "created", s, remedy.Observe, "")
	for _, tt := range []struct {
		doing      string
		do, repair func()
		wrong      string
	}{
		{"garbage", put(text("\x01{"), nil), nil, "line 1"},
		{"a typo", put(text("mode: fix\nrisk: hihg\n"), nil), nil, `ConfigMap ` + ns + `/p: line 2: risk: "hihg"`},
		{"an empty text", put(text(""), nil), nil, "line 1: it is empty"},
		{"nothing", put(nil, nil), nil, "it is empty: put the policy under the key policy.yaml"},
		{"1 MiB", put(text("mode: fix\n"+strings.Repeat("#", 1<<20-100)), nil), nil, "it is longer than 256 KiB"},
		{"several keys", put(map[string]string{Key: "mode: fix\n", "policy.yml": "mode: observe\n"}, nil), nil,
			"its keys are policy.yaml, policy.yml: the policy must be under policy.yaml, and nothing else in it"},
		{"another key", put(map[string]string{"policy.yml": "mode: fix\n"}, nil), nil, "its keys are policy.yml"},
		{"bytes", put(nil, map[string][]byte{Key: []byte("mode: fix\n")}), nil, "its keys are policy.yaml: "},
		{"bytes beside it", put(text("mode: fix\n"), map[string][]byte{"x": []byte("mode: fix\n")}), nil, "its keys are policy.yaml, x"},
		{"removed", remove, create, "not found"},
		{"no right", func() { may() }, func() { may(one) }, "not allowed"},
		{"a right to another one", func() {
			other := one
			other.ResourceNames = []string{"q"}
			may(other)
		}, func() { may(one) }, "not allowed"},
	} {
		tt.do()
		reads(t, tt.doing, s, "", tt.wrong)
		if tt.repair != nil {
			tt.repair()
		}
		put(text("mode: fix\n"), nil)()
		reads(t, "after "+tt.doing, s, remedy.Fix, "")
	}
	for range 3 {
		for _, mode := range []remedy.Mode{remedy.Observe, remedy.Fix} {
			put(text("mode: "+string(mode)+"\n"), nil)()
			reads(t, "as it becomes "+string(mode), s, mode, "")
		}
	}
	nowhere, err := kube.New(&rest.Config{Host: "http://127.0.0.1:1"})
	must(err)
	if _, err := FromConfigMap(nowhere, ns, "p", parse).Read(t.Context()); !errors.Is(err, kube.ErrUnavailable) {
		t.Errorf("without an API server: %v", err)
	}
}

func TestNothing(t *testing.T) {
	t.Parallel()
	reads(t, "nothing", FromNothing(parse), remedy.Observe, "")
}

// No caller shares a read that began before its call.
func TestFresh(t *testing.T) {
	t.Parallel()
	var at, began int // the policy's number, and how often it was read
	var mu sync.Mutex
	entered, goOn := make(chan struct{}), make(chan struct{})
	s := FromNothing(parse)
	s.read = func(context.Context) ([]byte, error) {
		mu.Lock()
		now, first := at, began == 0
		began++
		mu.Unlock()
		if first {
			close(entered)
			<-goOn
		}
		return fmt.Appendf(nil, "mode: fix\nbudgets: {attempts: %d}\n", now+1), nil
	}
	var all sync.WaitGroup
	all.Go(func() {
		if v, err := s.Read(t.Context()); err != nil || v.Policy.Budgets.Attempts != 1 {
			t.Errorf("the first got %+v, %v", v, err)
		}
	})
	<-entered
	mu.Lock()
	at = 1
	mu.Unlock()
	for range 100 {
		all.Go(func() {
			if v, err := s.Read(t.Context()); err != nil || v.Policy.Budgets.Attempts != 2 {
				t.Errorf("a later one got %+v, %v", v, err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		if _, err := s.Read(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("a call that has ended got %v", err)
		}
	}
	mu.Lock()
	if began != 1 {
		t.Errorf("%d readings are under way at once", began)
	}
	mu.Unlock()
	close(goOn)
	all.Wait()
	t.Logf("it was read %d times", began)
}

func TestChanged(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	s := FromFile(file, parse)
	changed := func() bool {
		_, _ = s.Read(t.Context())
		select {
		case <-s.Changed():
			return true
		default:
			return false
		}
	}
	for _, text := range []string{"mode: fix", "mode: observe", "mode: fixx", "mode: fixy", "mode: observe"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if !changed() || changed() {
			t.Errorf("%s: it is not told once", text)
		}
	}
}
