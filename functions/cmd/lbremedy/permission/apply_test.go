package permission_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/root"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/test/operator"
)

// at runs the program at a terminal, where a person types.
func at(t *testing.T, c operator.Call, typed string, args ...string) operator.Said {
	t.Helper()
	var out, errs bytes.Buffer
	c.In = typed
	p := c.Program(&out, &errs)
	p.Terminal = func(stream any) int {
		if stream == p.In {
			return 80
		}
		return 0
	}
	code := root.Run(t.Context(), p, args)
	return operator.Said{Code: code, Out: out.String(), Err: errs.String()}
}

// wants fails unless a call ended so, and said these in this order.
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

// A policy is put in force only once somebody has seen what it loosens; who did, why, and what
// was there before can be told and put back.
func TestApply(t *testing.T) {
	t.Parallel()
	c, s := operator.Embed(t)
	c = c.With("LBREMEDY_CLUSTER", "c1")
	run := func(args ...string) operator.Said { return c.Run(t.Context(), append([]string{"policy"}, args...)...) }
	inForce := func() remedy.Policy {
		t.Helper()
		p, err := policy.InForce(t.Context(), s, "c1")
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	wants(t, run("history"), 0, "No version of the policy in cluster c1.")

	observe := operator.Write(t, "observe.yaml", "mode: observe\nfreezes: [{name: night, from: '22:00', until: '06:00', zone: Europe/Berlin}]\n")
	wants(t, run("apply", observe, "--by", "ann", "--why", "start"), 0,
		"tightened  freezes night: (none) -> every day 22:00 until 06:00", "In force: observe", "version 1 of the policy in cluster c1")

	// Without a terminal, what loosens needs --yes; at one, y.
	fix := operator.Write(t, "fix.yaml", "mode: fix\nrisk: medium\nclasses: {tag-missing: {oneWay: true}, ram-permission: {}}\nbudgets: {attempts: 2}\n")
	wants(t, run("apply", fix, "--by", "bob"), command.CodeWrong, "loosened   mode: observe -> fix",
		"Plans are applied; before, they were only shown.", "risk: low -> medium", "classes.ram-permission: (none) -> named",
		"classes.tag-missing.oneWay: false -> true", "cannot be undone", "freezes night: ", "tightened  budgets.attempts: 3 -> 2", "give --yes")
	for _, typed := range []string{"", "\n", "n\n", "perhaps\n"} {
		wants(t, at(t, c, typed, "policy", "apply", fix, "--by", "bob"), command.CodeWrong, "loosened   mode",
			"Put it in force in cluster c1? [y/N]", "the policy in force stays")
	}
	if got := inForce(); got.Mode != remedy.Observe || len(got.Freezes) != 1 {
		t.Fatalf("in force is %+v", got)
	}
	wants(t, at(t, c, "y\n", "policy", "apply", fix, "--by", "bob", "--why", "sale is over"), 0, "[y/N]")
	if got := inForce(); got.Mode != remedy.Fix || got.Risk != remedy.Medium || len(got.Freezes) != 0 {
		t.Fatalf("in force is %+v", got)
	}
	wants(t, run("apply", fix), 0, "In force: fix", "version 2", "Nothing changes")
	wants(t, run("show"), 0, "In force: fix: plans up to medium risk", "Version 2, put in force at ", " by bob (", "on ", "): sale is over.")

	// Less risk, and no oneWay, are two sentences. Both only tighten.
	less := operator.Write(t, "less.yaml", "mode: fix\nrisk: low\nclasses: {tag-missing: {}, ram-permission: {}}\nbudgets: {attempts: 2}\n")
	wants(t, run("apply", less, "--by", "cat"), 0, "tightened  risk: medium -> low", "tightened  classes.tag-missing.oneWay: true -> false", "version 3")

	wants(t, run("history"), 0, "Version 3, put in force at ", " by cat", "It is in force.", "risk: medium -> low",
		"Version 2", " by bob", "sale is over", "loosened   mode", "Version 1", " by ann", "start", "freezes night")
	var list []struct {
		Version int
		InForce bool
		By, Why string
		Changes []policy.Change
	}
	if err := json.Unmarshal([]byte(run("history", "-o", "json").Out), &list); err != nil || len(list) != 3 || !list[0].InForce || list[1].Why != "sale is over" {
		t.Errorf("%v, %+v", err, list)
	}

	// A rollback is put in force as a file is.
	wants(t, run("rollback", "--by", "dan"), command.CodeWrong, "loosened   risk: low -> medium", "give --yes")
	wants(t, run("rollback", "9", "--yes"), command.CodeWrong, `there is no version "9"`)
	wants(t, run("rollback", "--by", "dan", "--yes"), 0, "version 4")
	wants(t, run("rollback", "1", "--by", "dan"), command.CodeWrong, "loosened   budgets.attempts: 2 -> 3", "tightened  mode: fix -> observe", "give --yes")
	wants(t, run("rollback", "1", "--by", "dan", "--yes"), 0, "version 5")
	wants(t, run("show"), 0, "rollback to version 1")
	if got := inForce(); got.Mode != remedy.Observe || len(got.Freezes) != 1 {
		t.Errorf("in force is %+v", got)
	}
	wants(t, run("history"), 0, "Version 5", "rollback to version 1", "Version 4", "rollback to version 2")

	// What is shown is a policy file again, with the name of the zone.
	shown := run("show", "-o", "yaml")
	wants(t, shown, 0, "mode: observe", "zone: Europe/Berlin")
	again := operator.Write(t, "again.yaml", shown.Out)
	wants(t, run("check", again), 0, "observe: plans are shown")
	wants(t, run("apply", again), 0, "version 5", "Nothing changes")
}

// A slow person types an answer after something else has happened.
type slow struct {
	happens func()
	io.Reader
}

func (s *slow) Read(to []byte) (int, error) {
	s.happens()
	return s.Reader.Read(to)
}

// What a person agreed to is what was shown: if another policy came in between, nothing is done.
func TestApplyMeanwhile(t *testing.T) {
	t.Parallel()
	c, s := operator.Embed(t)
	var errs bytes.Buffer
	p := c.Program(io.Discard, &errs)
	p.Terminal = func(any) int { return 80 }
	p.In = &slow{func() {
		if err := policy.Publish(t.Context(), s, "c1", remedy.Policy{Mode: remedy.Fix, Risk: remedy.High}); err != nil {
			t.Error(err)
		}
	}, strings.NewReader("y\n")}
	code := root.Run(t.Context(), p, []string{"policy", "apply", operator.Write(t, "fix.yaml", "mode: fix\n"), "--cluster", "c1", "--by", "ann"})
	wants(t, operator.Said{Code: code, Err: errs.String()}, command.CodeWrong, "[y/N]", "has changed meanwhile")
	if now, err := policy.InForce(t.Context(), s, "c1"); err != nil || now.Risk != remedy.High {
		t.Errorf("in force is %+v, %v", now, err)
	}
}

// A question ends with the call: who is asked may press Ctrl-C.
func TestApplyInterrupted(t *testing.T) {
	t.Parallel()
	c, s := operator.Embed(t)
	ctx, interrupt := context.WithCancel(t.Context())
	silent, end := io.Pipe()
	t.Cleanup(func() { end.Close() })
	defer time.AfterFunc(20*time.Second, func() { end.Close() }).Stop() // what waits for an answer fails then
	var errs bytes.Buffer
	p := c.Program(io.Discard, &errs)
	p.Terminal = func(any) int { return 80 }
	p.In = &slow{interrupt, silent}
	code := root.Run(ctx, p, []string{"policy", "apply", operator.Write(t, "fix.yaml", "mode: fix\n"), "--cluster", "c1", "--by", "ann"})
	wants(t, operator.Said{Code: code, Err: errs.String()}, command.CodeFailed, "[y/N]", "interrupted")
	if now, err := policy.InForce(t.Context(), s, "c1"); err != nil || now.Mode == remedy.Fix {
		t.Errorf("in force is %+v, %v", now, err)
	}
}

// What is in force and can't be read stops all writes: a file, or a version of the history,
// puts an end to it.
func TestApplyOverBroken(t *testing.T) {
	t.Parallel()
	c, s := operator.Embed(t)
	c = c.With("LBREMEDY_CLUSTER", "c1")
	file := operator.Write(t, "observe.yaml", "mode: observe\n")
	wants(t, c.Run(t.Context(), "policy", "apply", file), 0, "version 1")
	for text, says := range map[string]string{
		`{"mode":"fi`: "it is broken", `{"version":"1"}`: "its field version is of the kind string", `{"version":1,"rules":5}`: "of the kind number",
		`{"version":1,"curfew":1}`: `its field "curfew" is not known`,
	} {
		for _, args := range []string{"apply " + file, "rollback"} {
			if err := s.Put(t.Context(), "policy.c1", []byte(text)); err != nil {
				t.Fatal(err)
			}
			args := append([]string{"policy"}, strings.Fields(args)...)
			got := c.Run(t.Context(), args...)
			wants(t, got, command.CodeWrong, "loosened   version", "What changes is not known", "give --yes")
			if flat := strings.Join(strings.Fields(got.Out), " "); !strings.Contains(flat, says) || strings.Contains(flat, "Go ") {
				t.Errorf("%s: it says %s; want %s", text, flat, says)
			}
			wants(t, c.Run(t.Context(), append(args, "--yes")...), 0, "In force: observe")
			wants(t, c.Run(t.Context(), "policy", "history"), 0, "It is in force.")
		}
	}
}

// A cluster that NATS has never seen gets a policy only where that is said.
func TestApplyElsewhere(t *testing.T) {
	t.Parallel()
	c, s := operator.Embed(t)
	file := operator.Write(t, "fix.yaml", "mode: fix\n")
	wants(t, c.Run(t.Context(), "policy", "apply", file, "--yes", "--cluster", "c2"), command.CodeWrong,
		`NATS has never seen a cluster "c2": did you mean c1? It knows c1`, `"lbremedy setup --cluster c2"`, "--new-cluster")
	if keys, err := s.Keys(t.Context(), "policy.*"); err != nil || len(keys) > 0 {
		t.Errorf("%v, %v", keys, err)
	}
	wants(t, c.Run(t.Context(), "policy", "show", "--cluster", "c2"), 0, "In force: observe", `NATS has never seen a cluster "c2"`)
	wants(t, c.Run(t.Context(), "policy", "apply", file, "--yes", "--cluster", "c2", "--new-cluster"), 0, "version 1 of the policy in cluster c2")
	wants(t, c.Run(t.Context(), "policy", "apply", file, "--yes", "--cluster", "c2"), 0, "Nothing changes")
	wants(t, c.Run(t.Context(), "breaker", "close", "tag-missing", "--cluster", "c3"), command.CodeWrong,
		`NATS has never seen a cluster "c3": did you mean c1? It knows c1, c2`)
}

// An empty file is refused, and every mistake is told with rule, file, line and field.
func TestCheck(t *testing.T) {
	t.Parallel()
	c, _ := operator.Embed(t)
	run := func(args ...string) operator.Said { return c.Run(t.Context(), append([]string{"policy"}, args...)...) }
	for _, text := range []string{"", "\n# mode: fix\n"} {
		empty := operator.Write(t, "empty.yaml", text)
		wants(t, run("check", empty), command.CodeWrong, "empty.yaml: line 1: it is empty")
		wants(t, run("apply", empty, "--cluster", "c1"), command.CodeWrong, "empty.yaml: line 1: it is empty")
	}
	bad := operator.Write(t, "bad.yaml", "mode: fix\nrules:\n- {namespaces: [a], mode: fixx}\n- {namespaces: 5, risk: low}\nvswitches: {reserve: many}\n")
	wants(t, run("check", bad), command.CodeWrong,
		"bad.yaml: line 3: rules[0].mode: \"fixx\" is no mode", "bad.yaml: line 4: rules[1].namespaces: it must be a list",
		"bad.yaml: line 5: vswitches.reserve: it must be a whole number")
	good := operator.Write(t, "good.yaml", "mode: fix\nrules: [{namespaces: [a], mode: observe}, {namespaceLabels: {tier: test}, risk: high}, "+
		"{labels: {tier: gold}, mode: observe}]\npeople: [{dingtalk: \"1\", user: ann}]\n")
	wants(t, run("check", good), 0, "fix: plans up to low risk", "namespaces a: observe", "namespace label tier=test: plans up to high risk",
		"label tier=gold: observe")
	wants(t, run("apply", good, "--cluster", "c1", "--yes"), 0, "In force: fix", "The section people is not put in force")
	loose := operator.Write(t, "loose.yaml", "mode: fix\nrules: [{labels: {tier: test}, risk: medium}]\n")
	wants(t, run("check", loose), command.CodeWrong, "loose.yaml: line 2: rules[0].risk: it is medium, and without the rule it can be low",
		`write namespaceLabels: {tier: "test"} in place of labels`)
	told := operator.Write(t, "ops.tmpl", `{{define "text"}}It fails.{{end}}`)
	sink := operator.Write(t, "sink.yaml", "tell: [{name: ops, kind: event, template: '"+told+"'}]\n")
	wants(t, run("check", sink), command.CodeWrong, "tell.ops: template "+told, "does not lie below /etc/lbremedy/secrets")
	wants(t, run("check", sink, "--secrets", filepath.Dir(told)), 0, "observe: plans are shown")
}
