package permission_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/root"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/policy/policyfile"
	"github.com/lbremedy/lbremedy/test/operator"
)

func wants(t *testing.T, got operator.Said, code int, said ...string) {
	t.Helper()
	rest := got.Out + got.Err
	for _, want := range said {
		_, after, ok := strings.Cut(rest, want)
		if got.Code != code || !ok {
			t.Fatalf("it ends with %d and not %d, or lacks %q there:\n%s%s", got.Code, code, want, got.Out, got.Err)
		}
		rest = after
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	c, s := operator.Embed(t)
	at := c.With("LBREMEDY_CLUSTER", "c1")
	run := func(args ...string) operator.Said { return at.Run(t.Context(), append([]string{"policy"}, args...)...) }
	const observing = "mode: observe\nfreezes: [{name: night, from: '22:00', until: '06:00', zone: Europe/Berlin}]\n"
	observe := operator.Write(t, "observe.yaml", observing)
	wants(t, run("check", observe), 0, "observe: plans are shown", "It changes the policy in cluster c1:",
		"+freezes: [{name: night, ", "lbremedy can write no more by it than before.")

	operator.PutInForce(t, s, "c1", observing)
	wants(t, run("check", observe), 0, "It says the same as the policy in force in cluster c1.")
	fix := operator.Write(t, "fix.yaml", "mode: fix\nrisk: medium\nclasses: {tag-missing: {oneWay: true}, ram-permission: {}}\nbudgets: {attempts: 2}\n")
	wants(t, run("check", fix), 0, "fix: plans up to medium risk", "-mode: observe\n", "+mode: fix\n", "+risk: medium\n",
		"lbremedy could write more by it than before, because of mode, risk, classes.ram-permission,\nclasses.tag-missing.oneWay, freezes.")
	var screen bytes.Buffer
	terminal := at.Program(&screen, &screen)
	terminal.Terminal = func(any) int { return 80 }
	if code := root.Run(t.Context(), terminal, []string{"policy", "check", fix}); code != 0 ||
		!strings.Contains(screen.String(), "\x1b[33mlbremedy could write more") {
		t.Errorf("on a terminal: code %d, %q", code, screen.String())
	}
	var data struct {
		Version string
		InForce *policy.InForce
		Diff    string
		Loosens []string
		Policy  struct{ Mode string }
	}
	got := run("check", fix, "-o", "json")
	if err := json.Unmarshal([]byte(got.Out), &data); err != nil || got.Code != 0 || data.InForce.Version != policyfile.Digest([]byte(observing)) ||
		data.Policy.Mode != "fix" || data.Version == "" || len(data.Loosens) != 5 || !strings.Contains(data.Diff, "+mode: fix\n") {
		t.Errorf("%v: %+v", err, got)
	}
	wants(t, run("show"), 0, "In force: observe", "Version "+data.InForce.Version+" of policy.yaml, in force since ")
	wants(t, run("show", "-o", "yaml"), 0, observing)
	again := operator.Write(t, "again.yaml", run("show", "-o", "yaml").Out)
	wants(t, run("check", again), 0, "It says the same")

	for name, c := range map[string]operator.Call{"no cluster": c, "no NATS": at.With("LBREMEDY_NATS", "nats://127.0.0.1:1")} {
		got := c.Run(t.Context(), "policy", "check", fix)
		wants(t, got, 0, "fix: plans up to medium risk")
		if strings.Contains(got.Out, "It changes") || strings.Contains(got.Err, "It was not compared with the policy in force: ") != (name == "no NATS") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Without a usable policy, or one that this release can read, no older one is reported as in force: show fails, and check compares with nothing.
func TestUnusable(t *testing.T) {
	t.Parallel()
	c, s := operator.Embed(t)
	c = c.With("LBREMEDY_CLUSTER", "c1")
	fix := operator.Write(t, "fix.yaml", "mode: fix\n")
	operator.PutInForce(t, s, "c1", "mode: fix\n")
	tell := func(f policy.InForce) func() {
		return func() {
			f.Source, f.Since = "ConfigMap a/b", time.Now()
			if err := f.Put(t.Context(), s, "c1"); err != nil {
				t.Fatal(err)
			}
		}
	}
	for want, do := range map[string]func(){
		"nothing is written, because the policy cannot be used: ConfigMap a/b: not found": tell(policy.InForce{Wrong: "ConfigMap a/b: not found"}),
		"this release cannot read the policy in force, from ConfigMap a/b: line 1: curfew: the field is unknown": tell(policy.InForce{
			Version: "x", Text: "curfew: '22:00'\n"}),
		"read the policy in force": func() {
			if err := s.Put(t.Context(), "policy.c1", []byte("{")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		do()
		got := c.Run(t.Context(), "policy", "show")
		wants(t, got, command.CodeFailed, want)
		if got.Out != "" {
			t.Errorf("it shows %s", got.Out)
		}
		got = c.Run(t.Context(), "policy", "check", fix)
		wants(t, got, 0, "fix: plans up to low risk", "It was not compared with the policy in force: "+want)
		if strings.Contains(got.Out, "It says the same") {
			t.Errorf("it was compared: %+v", got)
		}
	}
}

func TestUnseen(t *testing.T) {
	t.Parallel()
	c, _ := operator.Embed(t)
	for _, args := range [][]string{{"show"}, {"check", operator.Write(t, "fix.yaml", "mode: fix\n")}} {
		wants(t, c.Run(t.Context(), append(append([]string{"policy"}, args...), "--cluster", "c2")...), 0, `NATS has never seen a cluster "c2": did you mean c1?`)
	}
	wants(t, c.Run(t.Context(), "policy", "show", "--cluster", "c2"), 0, "In force: observe")
	wants(t, c.Run(t.Context(), "policy", "show"), 0, "In force: observe") // the only one
	wants(t, c.Run(t.Context(), "breaker", "close", "tag-missing", "--cluster", "c3"), command.CodeWrong, `NATS has never seen a cluster "c3"`)
}

func TestCheck(t *testing.T) {
	t.Parallel()
	c, _ := operator.Embed(t)
	run := func(args ...string) operator.Said { return c.Run(t.Context(), append([]string{"policy"}, args...)...) }
	for _, text := range []string{"", "\n# mode: fix\n"} {
		empty := operator.Write(t, "empty.yaml", text)
		wants(t, run("check", empty), command.CodeWrong, "empty.yaml: line 1: it is empty")
	}
	bad := operator.Write(t, "bad.yaml", "mode: fix\nrules:\n- {namespaces: [a], mode: fixx}\n- {namespaces: 5, risk: low}\nvswitches: {reserve: many}\n")
	wants(t, run("check", bad), command.CodeWrong,
		"bad.yaml: line 3: rules[0].mode: \"fixx\" is not a mode", "bad.yaml: line 4: rules[1].namespaces: it must be a list",
		"bad.yaml: line 5: vswitches.reserve: it must be a whole number")
	good := operator.Write(t, "good.yaml", "mode: fix\nrules: [{namespaces: [a], mode: observe}, {namespaceLabels: {tier: test}, risk: high}, "+
		"{labels: {tier: gold}, mode: observe}]\npeople: [{dingtalk: \"1\", user: ann}]\n")
	wants(t, run("check", good), 0, "fix: plans up to low risk", "namespaces a: observe", "namespace label tier=test: plans up to high risk",
		"label tier=gold: observe")
	loose := operator.Write(t, "loose.yaml", "mode: fix\nrules: [{labels: {tier: test}, risk: medium}]\n")
	wants(t, run("check", loose), command.CodeWrong, "loose.yaml: line 2: rules[0].risk: it is medium, and without the rule it can be low",
		`write namespaceLabels: {tier: "test"} in place of labels`)
	told := operator.Write(t, "ops.tmpl", `{{define "text"}}It fails.{{end}}`)
	sink := operator.Write(t, "sink.yaml", "tell: [{name: ops, kind: event, template: '"+told+"'}]\n")
	wants(t, run("check", sink), command.CodeWrong, "tell.ops: template "+told, "does not lie below /etc/lbremedy/secrets")
	wants(t, run("check", sink, "--secrets", filepath.Dir(told)), 0, "observe: plans are shown")
}
