package up_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/up"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/policy/policyfile"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/operator"
	"github.com/lbremedy/lbremedy/test/shell"
)

func begun(t *testing.T, text string) (c operator.Call, u *up.UpRun, put func(string), said *shell.Log) {
	t.Helper()
	c, s := operator.Embed(t)
	said = new(shell.Log)
	u = &up.UpRun{Program: c.Program(io.Discard, said)}
	u.Cluster = "c1"
	file := operator.Write(t, "policy.yaml", text)
	u.Policy(file)
	if err := u.Begin(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- u.Follow(ctx, s) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return c, u, func(text string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}, said
}

// The engine reports its policy and source at the start and on changes. Without a usable policy it says so once and is not ready; commands say why.
func TestTold(t *testing.T) {
	c, u, put, said := begun(t, "mode: fix\nrisk: medium\n# people ask why\n")
	s := c.Stream(t)
	show := func(args ...string) operator.Said {
		return c.Run(t.Context(), append([]string{"policy", "show", "--cluster", "c1"}, args...)...)
	}
	first, err := policy.Get(t.Context(), s, "c1")
	if err != nil || first.Version != policyfile.Digest([]byte(first.Text)) || first.Source != u.Source().Name || first.Since.IsZero() {
		t.Fatalf("told is %+v, %v", first, err)
	}
	if got := show(); got.Code != 0 || !strings.HasPrefix(got.Out, "In force: fix: plans up to medium risk are applied.\nVersion ") ||
		!strings.Contains(strings.Join(strings.Fields(got.Out), " "), "Version "+first.Version+" of "+first.Source+", in force since ") {
		t.Errorf("policy show: %+v", got)
	}
	if got := show("-o", "yaml"); got.Code != 0 || got.Out != "mode: fix\nrisk: medium\n# people ask why\n" {
		t.Errorf("policy show: %+v", got)
	}
	// Another engine that starts with the same policy is not a change.
	again := &up.UpRun{Program: c.Program(io.Discard, io.Discard)}
	again.Cluster = "c1"
	again.Policy(u.Source().Name)
	if err := again.Begin(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if now, err := policy.Get(t.Context(), s, "c1"); err != nil || !reflect.DeepEqual(now, first) {
		t.Errorf("told is %+v, %v", now, err)
	}

	ready := func() error { return up.Ready(nil, s, u.Source())(t.Context()) }
	if err := ready(); err != nil {
		t.Error(err)
	}
	for _, wrong := range []string{"mode: fixx\n", "", "mode: fix\ncurfew: '22:00'\n"} {
		put(wrong)
		var got operator.Said
		shell.Until(t, "commands know that it is paused", func() bool {
			got = show()
			return got.Code == command.CodeFailed && got.Out == ""
		})
		if !strings.Contains(got.Err, "nothing is written, because the policy cannot be used: policy file "+u.Source().Name+": line ") {
			t.Errorf("policy show: %+v", got)
		}
		if now, err := policy.Get(t.Context(), s, "c1"); err != nil || now.Version != "" || now.Text != "" {
			t.Errorf("an older one is told: %+v, %v", now, err)
		}
		if err := ready(); err == nil {
			t.Error("it is ready")
		}
		if got := c.Run(t.Context(), "status", "--cluster", "c1"); !strings.Contains(got.Out, "cannot be used") {
			t.Errorf("status: %+v", got)
		}
		put("mode: observe\n")
		shell.Until(t, "commands know that it goes on", func() bool { return show().Code == 0 })
	}
	put("mode: fix\n")
	shell.Until(t, "commands know the change", func() bool { return strings.Contains(show().Out, "In force: fix") })
	text := said.String()
	for want, n := range map[string]int{
		"Mode: fix: plans up to medium risk are applied (policy of ": 1, "Mode: paused (policy file ": 3, "Mode: observe": 3,
		"nothing is written: the policy cannot be used": 3, "policy.yaml has changed)": 1,
	} {
		if got := strings.Count(text, want); got != n {
			t.Errorf("up says %q %d times, want %d: %s", want, got, n, text)
		}
	}
}

// The policy decides whose clicks count and who is notified, not write access to NATS. Without a usable policy nobody is, and up says so once.
func TestPeople(t *testing.T) {
	c, u, put, said := begun(t, "mode: observe\n")
	s := c.Stream(t)
	for _, key := range []string{"tell.c1", "policy.c1"} {
		const evil = `{"version":"1","text":"people: [{dingtalk: '1', user: eve}]\ntell: [{name: e, kind: event}]","sinks":[{"name":"e","kind":"event"}]}`
		if err := s.Put(t.Context(), key, []byte(evil)); err != nil {
			t.Fatal(err)
		}
	}
	told, err := u.Notifier(t.Context(), connection(&engine.Env{Cluster: "c1", Stream: s}))
	if err != nil {
		t.Fatal(err)
	}
	check := func(doing string, sinks int, people ...policy.Person) {
		t.Helper()
		if diff := cmp.Diff(people, told.People()); diff != "" || len(told.Sinks()) != sinks {
			t.Errorf("%s: %+v, -want +got\n%s", doing, told.Sinks(), diff)
		}
	}
	check("by what NATS says", 0)
	ann, bob := policy.Person{DingTalk: "1", User: "ann"}, policy.Person{DingTalk: "2", User: "bob"}
	for _, tt := range []struct {
		text   string
		sinks  int
		people []policy.Person
	}{
		{"people: [{dingtalk: '1', user: ann}]\ntell: [{name: e, kind: event}]\n", 1, []policy.Person{ann}},
		{"people: [{dingtalk: '2', user: bob}]\ntell: [{name: e, kind: event}]\n", 1, []policy.Person{bob}},
		{"people: [{dingtalk: '2', user: bob}]\ntell: [{name: e, kind: event, quiet: '22:00'}]\n", 0, nil},
		{"people: [{dingtalk: '2', user: bob}]\ntell: [{name: e, kind: event}, {name: f, kind: event}]\n", 2, []policy.Person{bob}},
	} {
		put(tt.text)
		told = told.Change(t.Context())
		check(tt.text, tt.sinks, tt.people...)
	}
	if n := strings.Count(said.String(), "Notified: nobody (policy file "); n != 1 {
		t.Errorf("up says it %d times: %s", n, said)
	}
	if err := os.Remove(u.Source().Name); err != nil {
		t.Fatal(err)
	}
	if told, err = u.Notifier(t.Context(), connection(&engine.Env{Cluster: "c1", Stream: s})); err != nil {
		t.Fatal(err)
	}
	check("without a policy from the start", 0)
	if n := strings.Count(said.String(), "Notified: nobody (policy file "); n != 2 {
		t.Errorf("up says it %d times: %s", n, said)
	}
}

// A ConfigMap that is missing, wrong or unreadable stops all writes, even at the start; up says why, once, and continues when it is repaired.
func TestConfigMap(t *testing.T) {
	t.Parallel()
	c := cluster.Alone(t)
	sc := operator.NewTestbedOn(t, c)
	ns := c.Namespace(t)
	maps := c.Client().CoreV1().ConfigMaps(ns)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	create := func(data map[string]string) {
		_, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Data: data}, metav1.CreateOptions{})
		must(err)
	}
	update := func(data map[string]string) {
		_, err := maps.Update(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Data: data}, metav1.UpdateOptions{})
		must(err)
	}
	all := rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{
		"services", "services/status", "events", "approvals", "validatingadmissionpolicies", "validatingadmissionpolicybindings", "nodes", "namespaces",
		"daemonsets", "pods", "endpointslices", "serviceaccounts", "deployments",
	}, Verbs: []string{"*"}}
	one := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"p"}, Verbs: []string{"get"}}
	engineOf := *sc
	engineOf.Call = sc.As(t, "engine", []rbacv1.PolicyRule{all, one})
	u := engineOf.Up(t, "--policy", "configmap:"+ns+"/p")
	says := func(want string, n int) {
		t.Helper()
		shell.Until(t, "up says "+want, func() bool { return strings.Count(u.Errs.String(), want) == n })
	}
	untouched := func() {
		t.Helper()
		if got := sc.Annotations(t)[operator.Annotation+"vswitch-id"]; got != "vsw-a" {
			t.Fatalf("the Service is in %s", got)
		}
	}
	waits := func(why string) {
		t.Helper()
		run := "read the policy: ConfigMap " + ns + "/p: " + why
		shell.Until(t, "a run does not write: "+why, func() bool { return strings.Contains(u.Errs.String(), run) })
		untouched()
	}
	text := func(text string) map[string]string { return map[string]string{policyfile.Key: text} }
	of := "Mode: paused (ConfigMap " + ns + "/p: "
	says(of+"get ConfigMap "+ns+"/p: not found", 1)
	waits("get ConfigMap " + ns + "/p: not found")
	create(text(sc.Fixes() + "risk: hihg\n"))
	says(of+"line 2: risk:", 1)
	waits("line 2: risk: ")
	update(map[string]string{policyfile.Key: sc.Fixes(), "old.yaml": sc.Fixes()})
	says(of+"its keys are old.yaml, policy.yaml", 1)
	update(text(sc.Fixes() + strings.Repeat("#", 1<<20-200)))
	says(of+"it is longer than 256 KiB", 1)
	waits("it is longer than 256 KiB")
	c.As(t, "engine", []rbacv1.PolicyRule{all})
	says(of+"get ConfigMap "+ns+"/p: not allowed", 1)
	update(text("mode: observe\n"))
	waits("get ConfigMap " + ns + "/p: not allowed")
	if n := strings.Count(u.Errs.String(), "Mode: "); n != 5 {
		t.Errorf("up says %d times what applies: %s", n, u.Errs)
	}
	c.As(t, "engine", []rbacv1.PolicyRule{all, one})
	says("Mode: observe", 1)
	u.Until(t, func(r event.Record) bool { return r.Result == event.Planned })
	untouched()
	update(text(sc.Fixes()))
	u.Until(t, func(r event.Record) bool { return r.Result == event.Fixed })
	sc.Wants(t, 0, "of ConfigMap "+ns+"/p, in force since ", "", "policy", "show")
	u.End(t)
}

func TestPolicyMistakes(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"configmap:p": `--policy: "configmap:p" names no ConfigMap: write configmap:NAMESPACE/NAME`, "configmap:a/b/c": "names no ConfigMap",
		"configmap:/p": "names no ConfigMap", "configmap:A/p": "names no ConfigMap", filepath.Join(t.TempDir(), "none"): "no such file",
		t.TempDir(): "it is not a regular file",
	} {
		c := operator.Call{Env: operator.Home(t)}
		for _, args := range [][]string{{"up", "--cluster", "c1", "--region", "cn-hangzhou"}, {"policy", "check"}} {
			if args[0] == "up" {
				args = append(args, "--policy")
			}
			if got := c.Run(t.Context(), append(args, value)...); got.Code != command.CodeWrong || !strings.Contains(got.Err, want) {
				t.Errorf("%v %s: %+v", args, value, got)
			}
		}
	}
}
