package machine

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A mutation takes one rule out of next.go. The exploration of its scope must find what that breaks.
type mutation struct {
	name, scope string
	old, new    string
	breaks      string // the invariant
}

var mutations = []mutation{
	{
		"nothing is sent for a minute after an order without an answer", "silence",
		"over := o.Expires.Add(quiet)", "over := o.Expires", "an order is stored over one that may be out",
	},
	{
		"an order without an answer may have written", "silence",
		"r.wait(c, ForAnswer, o.Expires.Add(quiet))", "r.d.Order = nil\n\t\tr.wait(c, ForAnswer, o.Expires.Add(quiet))", "is made and forgotten",
	},
	{
		"a step that may be made is checked before its plan is dropped", "silence",
		"(c.Plan.Next > 0 || r.order(c) != nil)", "c.Plan.Next > 0", "its plan is dropped",
	},
	{
		"the guards show the document's own revision", "pause",
		"case !g.Readable, g.Revision != r.d.Revision:", "case !g.Readable:", "an order under a pause",
	},
	{
		"a pause holds each order", "pause",
		"case g.Paused:\n\t\tr.wait(c, ForPause, r.in.Now.Add(afterStop))\n\tcase o.Undo", "case o.Undo", "an order under a pause",
	},
	{
		"the policy or an approval permits each order", "policy",
		"case !o.Undo && !permitted && !g.Approved && !(c.Plan.Approved && c.Plan.Next > 0):", "case false:", "neither policy nor approval allows",
	},
	{
		"the policy alone does not repeat what a person has undone", "undo",
		"permitted := g.Permits && !c.Back", "permitted := g.Permits", "neither policy nor approval allows",
	},
	{
		"budgets and claims show a place", "budget",
		"case !o.Undo && !g.Place:", "case false:", "an order over the budget",
	},
	{
		"the order is stored before it leaves", "pause",
		"r.d.Active, r.d.Order, r.store = c.Class, &o, true", "r.d.Active, r.d.Order = c.Class, &o", "",
	},
	{
		"no order leaves while the outbox holds records", "audit",
		"if len(r.d.Outbox) > 0 {\n\t\tr.do(Flush{})\n\t\treturn\n\t}\n\tif o :=", "if o :=", "",
	},
	{
		"an answer that fits no question is an error", "errors",
		"if len(r.effects) == 0 { //", "if false { //", "hangs",
	},
	{
		"an answer is stored before the next order", "silence",
		"r.d.Order, r.store = nil, true\n\tc.Since", "r.d.Order = nil\n\tc.Since", "an order is stored over one that may be out",
	},
	{
		"an answer is for the order with its ID", "late answers",
		"if o == nil || o.ID != a.ID {", "if o == nil {", "",
	},
	{
		"a living holder is left alone", "crash",
		"func (r *run) delivered(a Delivered) {\n\tif r.d.Holder != \"\" && a.Lives {",
		"func (r *run) delivered(a Delivered) {\n\tif false {", "which lives",
	},
	{
		"three crashes become a question", "crashes",
		"if c.Crashes++; c.Crashes >= maxCrashes {", "if c.Crashes++; false {", "a run begins after 3 that never ended",
	},
	{
		"an hour without progress becomes a question", "errors",
		"if r.in.Now.Sub(c.Since) >= max(lasting, patience) {", "if false {", "never ends while all calls fail",
	},
	{
		"an attempt that a person has undone does not count", "undo",
		"if c.Undo.Person { //", "if false { //", "attempts are counted",
	},
	{
		"made steps of a plan that is over are kept", "attempts",
		"c.Done = append(c.Done, Attempt{Number: c.Attempt, Steps: c.Plan.Next, Begun: c.Plan.Begun})", "", "is made and forgotten",
	},
	{
		"one class writes at a time", "classes",
		"case r.d.Active != \"\" && r.d.Active != c.Class:", "case false:", "an order is stored over one that may be out",
	},
	{
		"an undo waits for another class's plan", "classes and undo",
		"if r.d.Active != \"\" && r.d.Active != c.Class {", "if false {", "an order is stored over one that may be out",
	},
	{
		"all targets are checked before an undo begins", "undo",
		"case !c.Undo.Begun:", "case false:", "not all targets were checked",
	},
	{
		"a place that has lapsed is taken again", "budget",
		"r.do(Take{c.Attempt})", "r.wait(c, ForPlace, r.in.Now.Add(afterStop))", "never ends while all goes well",
	},
	{
		"a question waits for a person after three crashes", "crashes",
		" || c.Outcome == Crashed)", ")", "a run begins after 3 that never ended",
	},
}

// TestMutations shows that the exploration finds the loss of each rule, in a copy of next.go that is compiled in its place.
func TestMutations(t *testing.T) {
	source, err := os.ReadFile("next.go")
	if err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs("next.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			if n := strings.Count(string(source), m.old); n != 1 {
				t.Fatalf("%q is %d times in next.go: change the mutation with the code", m.old, n)
			}
			dir := t.TempDir()
			mutant, overlay := filepath.Join(dir, "next.go"), filepath.Join(dir, "overlay.json")
			if err := os.WriteFile(mutant, []byte(strings.Replace(string(source), m.old, m.new, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			files, err := json.Marshal(map[string]map[string]string{"Replace": {here: mutant}})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(overlay, files, 0o600); err != nil {
				t.Fatal(err)
			}
			run := "^TestExplore$/^" + m.scope + "$"
			out, err := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-overlay", overlay, "-run", run, ".").CombinedOutput()
			found, what := "", ""
			if _, rest, ok := strings.Cut(string(out), "violated: "); ok {
				found, _, _ = strings.Cut(rest, "\n")
			}
			switch {
			case err == nil:
				what = "nothing"
			case found == "":
				what = string(out)
			case !strings.Contains(found, m.breaks):
				what = found
			default:
				t.Log(found)
				return
			}
			t.Errorf("without this rule the exploration of %q finds %s, want %q", m.scope, what, m.breaks)
		})
	}
}
