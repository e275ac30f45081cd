package machine

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A mutation removes one rule from next.go; exploring its scope must find what that breaks.
type mutation struct {
	name, scope string
	old, new    string
	breaks      string // the invariant
}

var mutations = []mutation{
	{
		"nothing is sent for a minute after an order without an answer", "a person stops",
		"over := o.Expires.Add(Quiet)", "over := o.Expires", "is made and forgotten",
	},
	{
		"an order without an answer may have written", "silence",
		"r.stuck(c, ForAnswer, o", "r.d.Order = nil\n\t\tr.stuck(c, ForAnswer, o", "is made and forgotten",
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
		"case g.Paused && !c.byPerson():", "case false:", "an order under a pause",
	},
	{
		"the policy or an approval permits each order", "policy",
		"!approved && (!permitted || c.Plan.Approved)", "false", "neither policy nor approval allows",
	},
	{
		"the policy alone does not repeat what a person has undone", "undo",
		"permitted := g.Permits && !c.Back", "permitted := g.Permits", "neither policy nor approval allows",
	},
	{
		"budgets and claims show a place", "budget",
		"case !o.Undo && !approved && !g.Place:", "case false:", "an order over the budget",
	},
	{
		"the order is stored before it leaves", "undo",
		"r.d.Active, r.d.Order, r.store = c.Class, &o, true", "r.d.Active, r.d.Order = c.Class, &o", "",
	},
	{
		"no order leaves while the outbox holds records", "journal",
		"case !g.Journaled:", "case false:", "an order that is not journaled",
	},
	{
		"an answer that fits no question is an error", "errors",
		"if len(r.effects) == 0 { //", "if false { //", "hangs",
	},
	{
		"an answer is stored before the journal has it", "silence",
		"r.d.Order, r.store = nil, true\n\tc.progress", "r.d.Order = nil\n\tc.progress", "a record is appended and not stored",
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
		"r.in.Now.Sub(since) >= cmp.Or(patience, lasting)", "since.IsZero()", "never ends while all calls fail",
	},
	{
		"an attempt that a person has undone does not count", "undo",
		"r.shorten(c, c.Undo == nil || c.Undo.Person)", "r.shorten(c, false)", "attempts are counted",
	},
	{
		"made steps of a plan that is over are kept", "attempts",
		"c.Done = append(c.Done, Attempt{Number: c.Attempt, Steps: c.Plan.Next, Maybe: maybe, Begun: c.Plan.Begun})", "", "",
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
		"r.do(Take{Attempt: c.Attempt})", "r.wait(c, ForPlace, afterStop)", "never ends while all goes well",
	},
	{
		"a question waits for a person after three crashes", "crashes",
		" || c.Outcome == Crashed && !r.due(c))", ")", "nobody has answered",
	},
	{
		"guards of a new plan that can't be read are a pause", "errors",
		"case !g.Readable:\n\t\tr.wait(c, ForGuards, later)", "case !g.Readable:\n\t\tr.stuck(c, ForErrors, 0, 0)", "guards that can't be read",
	},
	{
		"guards of an order that can't be read are a pause", "errors",
		"g.Revision != r.d.Revision:\n\t\tr.wait(c, ForGuards, later)", "g.Revision != r.d.Revision:\n\t\tr.ask(c, Lasts, ForGuards)",
		"guards that can't be read",
	},
	{
		"an approved plan takes no place", "approved without a place",
		"r.do(Take{c.Attempt + 1, plan.Approved})", "r.do(Take{Attempt: c.Attempt + 1})", "an approved plan is held by a budget",
	},
	{
		"an approved order needs no place", "approved without a place",
		"!approved && !g.Place", "!g.Place", "an approved plan is held by a budget",
	},
	{
		"no place for an hour becomes a question", "approved without a place",
		"r.stuck(c, ForPlace, cmp.Or(a.After, afterStop), 0)", "r.wait(c, ForPlace, cmp.Or(a.After, afterStop))", "never ends",
	},
	{
		"a plan that has begun is not asked for again", "approved without a place",
		"!a.OK && a.Again && !r.mayHaveWritten(c)", "!a.OK && a.Again", "is made and forgotten",
	},
	{
		"observe mode keeps back an approved plan", "observe",
		"case g.Outcome != \"\":", "case false:", "a plan that is kept back is no question",
	},
	{
		"observe mode keeps back an approved order", "observe",
		"(g.Outcome != \"\" || !approved", "(!approved", "neither policy nor approval allows",
	},
	{
		"the policy permits its own undo", "observe and undo",
		"case o.Undo && !g.Undoes && !c.byPerson():", "case false:", "neither policy nor approval allows",
	},
	{
		"the policy does not hold a person's undo", "a person stops",
		"case o.Undo && !g.Undoes && !c.byPerson():", "case o.Undo && !g.Undoes:", "held by a pause or the policy",
	},
	{
		"a pause does not hold a person's undo", "a person stops",
		"case g.Paused && !c.byPerson():", "case g.Paused:", "a person's undo waits: pause",
	},
	{
		"a person's undo that can't go on stops", "a person stops",
		" || c.byPerson() && why != ForOther {", " {", "a person's undo",
	},
	{
		"a person's undo that has stopped is over", "a person stops",
		"if c.byPerson() || o == Drift", "if o == Drift", "a person's undo is a question, and goes on",
	},
	{
		"a person's undo ends the plan at once", "a person stops",
		"r.archive(c) // what", "// what", "the plan would go on",
	},
	{
		"a request that finds nothing is noted", "undo",
		"c.Request, r.store = a.Request, true", "", "never ends",
	},
	{
		"an undo is of its own case", "cases",
		"c.Own = 0 //", "//", "an undo of an attempt of another case",
	},
	{
		"the policy undoes its own case", "cases and policy",
		"g.Undoes && c.Own > 0", "g.Undoes && len(c.Done) > 0", "guards end a case",
	},
	{
		"a failure from before the end is answered", "cases",
		"(known || a.Old)", "known", "that the end of its case has answered",
	},
	{
		"a step in doubt is kept when its plan is given up", "in doubt",
		"maybe := r.order(c) != nil", "maybe := false", "",
	},
	{
		"a step that may not be made does not stop an undo", "in doubt",
		"case !c.newest().Maybe:", "case true:", "an undo stops at a step that may not be made",
	},
	{
		"an order in doubt keeps other classes from writing", "classes and undo",
		"r.mayHaveWritten(c) || r.order(c) != nil || ", "r.mayHaveWritten(c) || ", "an order is stored over one that may be out",
	},
	{
		"a plan that is not due yet stays", "not due",
		"if why != ForStep {", "if true {", "a plan that is not due yet is dropped",
	},
	{
		"a plan that is not due yet keeps other classes from writing", "not due",
		"c.Plan != nil && c.Wait.Why == ForStep || ", "", "and the plan of one has begun",
	},
	{
		"a plan that was not due goes on", "not due",
		"c.Plan != nil && c.Wait.Why == ForStep:", "false:", "a plan of which nothing is made goes on: false",
	},
	{
		"a question is acknowledged", "approval",
		"!r.in.Person && c.State == Waiting:", "!r.in.Person && (c.State == Waiting || c.State == Asked):", "a question holds a delivery",
	},
	{
		"a newer failure is looked at, though there is a question", "approval",
		"c.State == Asked && (known ||", "c.State == Asked && (true ||", "a newer failure is not looked at",
	},
	{
		"a plan that was in doubt for too long is made anew", "a person stops",
		"case r.old(c): // the class finds what is made", "case false:", "a plan that began too long ago goes on",
	},
	{
		"an answer does not count for the crash that it finds", "answers and crashes",
		"if crashed == c || answered", "if crashed == c && false || answered", "a run begins after 3 that never ended",
	},
	{
		"a crash counts while its order is out", "answers and crashes",
		"if o := r.order(c); o != nil { //", "if o := r.order(c); false { _ = o //", "a run begins after 3 that never ended",
	},
	{
		"an answer does not begin a run while an order is out", "answers and crashes",
		"(!a.Again || c.State == Waiting && c.holds(false))", "!a.Again", "a run begins after 3 that never ended",
	},
	{
		"time without an engine does not count", "away",
		"if r.in.Now.Sub(c.Wait.Until) > stale {", "if false {", "in which no engine has tried",
	},
	{
		"orders without an answer for an hour become a question", "a person stops",
		"r.stuck(c, ForAnswer, o.Expires.Add(Quiet).Sub(r.in.Now), 0)", "r.wait(c, ForAnswer, o.Expires.Add(Quiet).Sub(r.in.Now))", "counts as progress",
	},
}

// TestMutations compiles a copy of next.go without each rule in its place, and shows that the exploration detects the loss.
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
