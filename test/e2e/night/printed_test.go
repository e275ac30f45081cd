package night

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/test/rig"
	"github.com/lbremedy/lbremedy/test/testbed"
)

// A situation is one in which somebody on call looks, and runs each command that the screens print, as they print it.
type situation struct {
	policy  string
	on      testbed.Config
	prepare func(r *rig.Rig) string // returns the case to look at; empty: none
	looks   []string                // what is typed; CASE is the case
	prints  []string                // commands that must be among those printed, by how they begin
	after   func(r *rig.Rig)        // what must hold when all have run; nil: nothing has changed
}

// failsWith returns a preparation: a failure ends with a result, and something is done then.
func failsWith(f testbed.Fixture, result event.Result, then func(*rig.Rig, event.Record)) func(*rig.Rig) string {
	return func(r *rig.Rig) string {
		r.Start()
		r.Must(r.Testbed.Fail(r.Ctx, f.As("web")))
		rec := r.Ends("web", result)
		if then != nil {
			then(r, rec)
		}
		return rec.Case
	}
}

// heldBy returns a preparation: something that has been brought about holds the fix of a Service back.
func heldBy(by event.Hold, bring func(*rig.Rig)) func(*rig.Rig) string {
	return func(r *rig.Rig) string {
		r.Start()
		bring(r)
		r.Create("web", nil)
		return r.Held("web", by).Case
	}
}

func heals(r *rig.Rig) { r.Ends("web", event.Fixed) }

// situations are those of a night.
var situations = map[string]situation{
	"a plan asks": {
		policy: rig.Careful, prepare: failsWith(testbed.LostTag(), event.Asked, nil),
		looks: []string{"show CASE"}, prints: []string{"lbremedy approve "}, after: heals,
	},
	"a plan asks, and ls is looked at": {
		policy: rig.Careful, prepare: failsWith(testbed.LostTag(), event.Asked, nil),
		looks: []string{"status", "ls --open"}, prints: []string{"lbremedy ls --result needs-approval"},
	},
	"a plan was rejected by the same person": {
		policy: rig.Careful, prepare: failsWith(testbed.LostTag(), event.Asked, func(r *rig.Rig, rec event.Record) {
			r.Says(0, "", "", "reject", rec.Case)
			r.Must(r.Testbed.Until(r.Ctx, func() bool { return strings.Contains(r.Call("status").Out, "rejected by a person") }))
		}),
		looks: []string{"status", "show CASE"}, prints: []string{"lbremedy ls --result rejected", "lbremedy approve "}, after: heals,
	},
	"a person is needed": {
		policy: rig.Careful, prepare: failsWith(testbed.Unheard(), event.Asked, nil),
		looks: []string{"status", "show CASE"}, prints: []string{"lbremedy ls --result needs-action,failed", "kubectl ", "lbremedy plan "},
	},
	"the load balancer is gone": {
		policy: rig.Careful, prepare: failsWith(testbed.Gone(), event.Asked, nil),
		looks: []string{"show CASE", "plan NAMESPACE/web"}, prints: []string{"kubectl ", "lbremedy approve "},
	},
	"it only observes": {
		policy: "mode: observe\n", prepare: failsWith(testbed.FullVSwitch(testbed.FullVSwitchH), event.Planned, nil),
		looks:  []string{"status", "show CASE"},
		prints: []string{"lbremedy ls --result planned", "lbremedy policy check FILE", "lbremedy run NAMESPACE/web --policy FILE --apply"}, after: heals,
	},
	"it is fixed": {
		policy: rig.Careful, prepare: failsWith(testbed.FullVSwitch(testbed.FullVSwitchH), event.Fixed, nil), looks: []string{"status", "ls", "show CASE"},
	},
	"it was undone": {
		policy: rig.Careful, prepare: failsWith(testbed.FullVSwitch(testbed.FullVSwitchH), event.Fixed, func(r *rig.Rig, rec event.Record) {
			r.Must(r.Testbed.Halt(r.Ctx))
			r.Says(0, "", "", "undo", rec.Case, "--apply")
		}),
		looks: []string{"status", "show CASE"},
	},
	"writes are paused": {
		policy: rig.Careful, prepare: heldBy(event.HeldByPause, func(r *rig.Rig) { r.Says(0, "", "", "pause", "--by", "ann", "--why", "network change") }),
		looks: []string{"show CASE"}, prints: []string{"lbremedy resume"}, after: heals,
	},
	"writes are paused, and status is looked at": {
		policy: rig.Careful, prepare: heldBy(event.HeldByPause, func(r *rig.Rig) { r.Says(0, "", "", "pause", "--by", "ann") }),
		looks: []string{"status"}, prints: []string{"lbremedy resume", "lbremedy ls --result waiting,unsettled"}, after: heals,
	},
	"a freeze is in force": {
		policy:  rig.Careful + "freezes:\n- {name: year end, from: \"2026-01-01T00:00:00Z\", until: \"2099-01-01T00:00:00Z\"}\n",
		prepare: heldBy(event.HeldByFreeze, func(*rig.Rig) {}),
		looks:   []string{"status", "show CASE"}, prints: []string{"lbremedy policy show"},
	},
	"the budget is spent": {
		policy: rig.Careful + "budgets: {class: 1, least: 100}\n", prepare: heldBy(event.HeldByBudget, func(r *rig.Rig) {
			r.Create("first", nil)
			r.Ends("first", event.Fixed)
		}),
		looks: []string{"status", "show CASE"}, prints: []string{"lbremedy ls --result waiting,unsettled"},
	},
	"a class is stopped": {
		policy: rig.Careful + "budgets: {class: 100, least: 100}\n",
		prepare: func(r *rig.Rig) string {
			r.Start()
			r.Must(r.Testbed.Halt(r.Ctx))
			for _, name := range []string{"one", "two", "three"} {
				r.Create(name, nil)
				r.Complain(name, rig.FullMessage)
				r.Until(name, "written", func(rec event.Record) bool { return rec.Next == 1 })
				r.Advance(8 * time.Minute)
				r.Ends(name, event.Unsettled)
			}
			r.Create("web", nil)
			r.Complain("web", rig.FullMessage)
			return r.Ends("web", event.Asked).Case
		},
		looks: []string{"status", "show CASE"}, prints: []string{"lbremedy breaker close vswitch-ip-exhausted"},
		after: func(r *rig.Rig) { r.Testbed.Resume(r.Ctx); heals(r) },
	},
	"nothing exports": {
		policy: rig.Careful, looks: []string{"status", "ls", "doctor", "preflight"},
	},
	"the name of a case is wrong": {
		policy: rig.Careful, prepare: failsWith(testbed.LostTag(), event.Asked, nil),
		looks: []string{"show nothing", "approve nothing", "approve CASE --digest 0000", "undo CASE", "run NAMESPACE/nothing"},
	},
}

// TestPrinted runs each command that lbremedy prints as it prints it, in the situation in which it prints it. None of them is a
// mistake: an exit code above 2 tells what was found. Of kubectl's commands none is run, since nothing here needs kubectl.
func TestPrinted(t *testing.T) {
	t.Parallel()
	for name, s := range situations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, s.on, s.policy)
			r.Answerable()
			id := ""
			if s.prepare != nil {
				id = s.prepare(r)
			}
			plain := strings.NewReplacer("CASE", id, "NAMESPACE", r.Testbed.Namespace)
			var printed []string
			for _, look := range s.looks {
				got := r.Call(strings.Fields(plain.Replace(look))...)
				for line := range strings.Lines(got.Out + "\n" + got.Err) {
					for _, p := range say.Pieces(strings.TrimSpace(line)) {
						if p.Command && !slices.Contains(printed, p.Text) {
							printed = append(printed, p.Text)
						}
					}
				}
				t.Logf("%s\n%s%s", look, got.Out, got.Err)
			}
			for _, want := range s.prints {
				want = plain.Replace(want)
				if !slices.ContainsFunc(printed, func(text string) bool { return strings.HasPrefix(text, want) }) {
					t.Errorf("of %q, none begins with %q", printed, want)
				}
			}
			dir := r.Shelf(map[string]string{"FILE": rig.Careful})
			for _, text := range printed {
				got := r.Paste(dir, text)
				t.Logf("$ %s\n%s%s", text, got.Out, got.Err)
				if got.Code == command.CodeFailed || got.Code == command.CodeWrong {
					t.Errorf("%s: exit code %d\n%s%s", text, got.Code, got.Out, got.Err)
				}
			}
			if s.after != nil {
				s.after(r)
			}
		})
	}
}

func TestMain(m *testing.M) { rig.Tests(m) }
