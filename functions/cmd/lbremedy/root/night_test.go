package root_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/test/identity"
	"github.com/lbremedy/lbremedy/test/operator"
	"github.com/lbremedy/lbremedy/test/shell"
)

// Fixes are paused, frozen, stopped by the class's breaker, approved by a person, and undone, while the policy file changes.
func TestNight(t *testing.T) {
	t.Parallel()
	sc := operator.NewTestbed(t)
	web := sc.Namespace + "/web"
	file := filepath.Join(sc.Env["HOME"], "policy.yaml")
	policy := func(text string) { sc.Policy(t, text) }
	untouched := func() {
		t.Helper()
		if got := sc.Annotations(t)[operator.Annotation+"vswitch-id"]; got != "vsw-a" {
			t.Fatalf("something wrote: the Service is in %s", got)
		}
	}
	held := func(by event.Hold) func(event.Record) bool {
		return func(r event.Record) bool { return r.Result == event.Waiting && r.Held == by }
	}
	u := sc.Up(t)
	id := u.Until(t, func(r event.Record) bool { return r.Result == event.Planned }).Case
	sc.Wants(t, command.CodeWrong, "", "is only observed", "approve", id)

	sc.Wants(t, 0, "All clusters: Paused by ann", "", "pause", "--all-clusters", "--by", "ann", "--why", "network change")
	sc.Wants(t, 0, "Cluster c-cli: Paused by bob", "", "pause", "--by", "bob")
	policy(sc.Fixes() + "freezes: [{name: sale, from: 2020-01-01T00:00:00Z, until: 2100-01-01T00:00:00Z}]\n")
	if r := u.Until(t, held(event.HeldByPause)); !strings.Contains(r.Rule.String(), "Paused by ann") {
		t.Errorf("the rule is %q", r.Rule)
	}
	sc.Wants(t, 0, "Cluster c-cli: Paused by bob", "", "policy", "show")
	sc.Wants(t, 0, "network change", "Already paused, and this pause stays", "pause", "--all-clusters", "--by", "cat")
	sc.Wants(t, 0, id, "Writes are paused. All clusters: Paused by ann", "show", web)
	sc.Wants(t, 0, "Still in force. All clusters: Paused by ann", "", "resume")
	sc.Wants(t, 0, "Ended. All clusters: Paused by ann", "", "resume")
	sc.Wants(t, 0, "There was no pause to end.", "", "resume")

	u.Until(t, held(event.HeldByFreeze))
	policy("mode: fixx\n")
	shell.Until(t, "a run does not write", func() bool {
		return strings.Contains(u.Errs.String(), "read the policy: policy file "+file+": line 1: mode: ")
	})
	shell.Until(t, "the pause is told", func() bool {
		got := sc.Run(t.Context(), "policy", "show")
		return got.Code == command.CodeFailed && strings.Contains(got.Err, `nothing is written, because the policy cannot be used: policy file `+file)
	})
	if n := strings.Count(u.Errs.String(), "Mode: paused (policy file "); n != 1 {
		t.Errorf("up says %d times that it is paused: %s", n, u.Errs)
	}
	sc.Wants(t, command.CodeWrong, "", `"fixx" is not a mode`, "policy", "check", file)
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("tell: [{name: ops, kind: event, template: /none.tmpl}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sc.Wants(t, command.CodeWrong, "", "tell.ops: template /none.tmpl", "policy", "check", bad)
	sc.Wants(t, 0, "waiting", "", "ls", "--namespace", sc.Namespace)
	untouched()

	s := sc.Stream(t)
	if _, err := control.RecordFailedFix(t.Context(), s, "c-cli", "vswitch-ip-exhausted", "test.1", 1, say.F("It is a test.")); err != nil {
		t.Fatal(err)
	}
	sc.Wants(t, 0, "vswitch-ip-exhausted", "", "breaker", "ls")
	policy(sc.Fixes())
	asked := u.Until(t, func(r event.Record) bool { return r.Result == event.Asked })
	if !strings.Contains(asked.Rule.String(), "The breaker of the class vswitch-ip-exhausted has been open since") {
		t.Errorf("the rule is %q", asked.Rule)
	}
	untouched()
	sc.Wants(t, command.CodeWrong, "", "look at it again", "approve", asked.Case, "--digest", "0000")
	identity.Answerable(t, sc.Kube)
	me := identity.Admin(t, sc.Kube)
	sc.Wants(t, 0, me+" approved the plan "+asked.Digest, "The answer is the Approval "+sc.Namespace+"/", "approve", asked.Case)
	u.Until(t, func(r event.Record) bool { return r.Result == event.Fixed })
	if got := sc.Annotations(t)[operator.Annotation+"vswitch-id"]; got != "vsw-b" {
		t.Errorf("after the fix the Service is in %s", got)
	}
	sc.Wants(t, 0, me+" approved this plan at", "", "show", web)
	sc.Wants(t, 0, "vswitch-ip-exhausted may write again", "", "breaker", "close", "vswitch-ip-exhausted")
	sc.Wants(t, 0, "No breaker is open in cluster c-cli.", "", "breaker", "ls")
	sc.Wants(t, command.CodeWrong, "", "has no plan that waits for an approval", "approve", asked.Case)
	u.End(t)
}
