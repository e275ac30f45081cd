package safety

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/test/testbed"
)

// A situation is one in which somebody on call looks, and runs each command that the screens print, as they print it.
type situation struct {
	policy  string
	on      testbed.Config
	prepare func(r *rig) string // returns the case to look at; empty: none
	looks   []string            // what is typed; CASE is the case
	prints  []string            // commands that must be among those printed, by how they begin
	after   func(r *rig)        // what must hold when all have run; nil: nothing has changed
}

// failsWith returns a preparation: a failure ends with a result, and something is done then.
func failsWith(f testbed.Fixture, result event.Result, then func(*rig, event.Record)) func(*rig) string {
	return func(r *rig) string {
		r.start()
		r.must(r.testbed.Fail(r.ctx, f.As("web")))
		rec := r.ends("web", result)
		if then != nil {
			then(r, rec)
		}
		return rec.Case
	}
}

// heldBy returns a preparation: something that has been brought about holds the fix of a Service back.
func heldBy(by event.Hold, bring func(*rig)) func(*rig) string {
	return func(r *rig) string {
		r.start()
		bring(r)
		r.create("web", nil)
		return r.held("web", by).Case
	}
}

func heals(r *rig) { r.ends("web", event.Fixed) }

// situations are those of a night.
var situations = map[string]situation{
	"a plan asks": {
		policy: careful, prepare: failsWith(testbed.LostTag(), event.Asked, nil),
		looks: []string{"show CASE"}, prints: []string{"lbremedy approve "}, after: heals,
	},
	"a plan asks, and ls is looked at": {
		policy: careful, prepare: failsWith(testbed.LostTag(), event.Asked, nil),
		looks: []string{"status", "ls --open"}, prints: []string{"lbremedy ls --result needs-approval"},
	},
	"a plan was rejected by the same person": {
		policy: careful, prepare: failsWith(testbed.LostTag(), event.Asked, func(r *rig, rec event.Record) {
			r.says(0, "", "", "reject", rec.Case)
			r.must(r.testbed.Until(r.ctx, func() bool { return strings.Contains(r.call("status").out, "rejected by a person") }))
		}),
		looks: []string{"status", "show CASE"}, prints: []string{"lbremedy ls --result rejected", "lbremedy approve "}, after: heals,
	},
	"a person is needed": {
		policy: careful, prepare: failsWith(testbed.Unheard(), event.Asked, nil),
		looks: []string{"status", "show CASE"}, prints: []string{"lbremedy ls --result needs-action,failed", "kubectl ", "lbremedy plan "},
	},
	"the load balancer is gone": {
		policy: careful, prepare: failsWith(testbed.Gone(), event.Asked, nil),
		looks: []string{"show CASE", "plan NAMESPACE/web"}, prints: []string{"kubectl ", "lbremedy approve "},
	},
	"it only observes": {
		policy: "mode: observe\n", prepare: failsWith(testbed.FullVSwitch(testbed.FullVSwitchH), event.Planned, nil),
		looks:  []string{"status", "show CASE"},
		prints: []string{"lbremedy ls --result planned", "lbremedy policy check FILE", "lbremedy run NAMESPACE/web --policy FILE --apply"}, after: heals,
	},
	"it is fixed": {
		policy: careful, prepare: failsWith(testbed.FullVSwitch(testbed.FullVSwitchH), event.Fixed, nil), looks: []string{"status", "ls", "show CASE"},
	},
	"it was undone": {
		policy: careful, prepare: failsWith(testbed.FullVSwitch(testbed.FullVSwitchH), event.Fixed, func(r *rig, rec event.Record) {
			r.must(r.testbed.Halt(r.ctx))
			r.says(0, "", "", "undo", rec.Case, "--apply")
		}),
		looks: []string{"status", "show CASE"},
	},
	"writes are paused": {
		policy: careful, prepare: heldBy(event.HeldByPause, func(r *rig) { r.says(0, "", "", "pause", "--by", "ann", "--why", "network change") }),
		looks: []string{"show CASE"}, prints: []string{"lbremedy resume"}, after: heals,
	},
	"writes are paused, and status is looked at": {
		policy: careful, prepare: heldBy(event.HeldByPause, func(r *rig) { r.says(0, "", "", "pause", "--by", "ann") }),
		looks: []string{"status"}, prints: []string{"lbremedy resume", "lbremedy ls --result waiting,unsettled"}, after: heals,
	},
	"a freeze is in force": {
		policy:  careful + "freezes:\n- {name: year end, from: \"2026-01-01T00:00:00Z\", until: \"2099-01-01T00:00:00Z\"}\n",
		prepare: heldBy(event.HeldByFreeze, func(*rig) {}),
		looks:   []string{"status", "show CASE"}, prints: []string{"lbremedy policy show"},
	},
	"the budget is spent": {
		policy: careful + "budgets: {class: 1, least: 100}\n", prepare: heldBy(event.HeldByBudget, func(r *rig) {
			r.create("first", nil)
			r.ends("first", event.Fixed)
		}),
		looks: []string{"status", "show CASE"}, prints: []string{"lbremedy ls --result waiting,unsettled"},
	},
	"a class is stopped": {
		policy: careful + "budgets: {class: 100, least: 100}\n",
		prepare: func(r *rig) string {
			r.start()
			r.must(r.testbed.Halt(r.ctx))
			for _, name := range []string{"one", "two", "three"} {
				r.create(name, nil)
				r.complain(name, fullMessage)
				r.until(name, "written", func(rec event.Record) bool { return rec.Next == 1 })
				r.advance(8 * time.Minute)
				r.ends(name, event.Unsettled)
			}
			r.create("web", nil)
			r.complain("web", fullMessage)
			return r.ends("web", event.Asked).Case
		},
		looks: []string{"status", "show CASE"}, prints: []string{"lbremedy breaker close vswitch-ip-exhausted"},
		after: func(r *rig) { r.testbed.Resume(r.ctx); heals(r) },
	},
	"nothing exports": {
		policy: careful, looks: []string{"status", "ls", "doctor", "preflight"},
	},
	"the name of a case is wrong": {
		policy: careful, prepare: failsWith(testbed.LostTag(), event.Asked, nil),
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
			r := newRig(t, s.on, s.policy)
			r.answerable()
			id := ""
			if s.prepare != nil {
				id = s.prepare(r)
			}
			plain := strings.NewReplacer("CASE", id, "NAMESPACE", r.testbed.Namespace)
			var printed []string
			for _, look := range s.looks {
				got := r.call(strings.Fields(plain.Replace(look))...)
				for line := range strings.Lines(got.out + "\n" + got.err) {
					for _, p := range say.Pieces(strings.TrimSpace(line)) {
						if p.Command && !slices.Contains(printed, p.Text) {
							printed = append(printed, p.Text)
						}
					}
				}
				t.Logf("%s\n%s%s", look, got.out, got.err)
			}
			for _, want := range s.prints {
				want = plain.Replace(want)
				if !slices.ContainsFunc(printed, func(text string) bool { return strings.HasPrefix(text, want) }) {
					t.Errorf("of %q, none begins with %q", printed, want)
				}
			}
			dir := r.shelf()
			for _, text := range printed {
				if strings.HasPrefix(text, "lbremedy ") {
					r.paste(dir, text)
				}
			}
			if s.after != nil {
				s.after(r)
			}
		})
	}
}

// shelf returns a folder in which what a person pastes is run: bin has the program, and FILE is a policy that fixes.
func (r *rig) shelf() string {
	r.Helper()
	file, err := program()
	r.must(err)
	dir := r.TempDir()
	r.must(os.Mkdir(filepath.Join(dir, "bin"), 0o755))
	r.must(os.Symlink(file, filepath.Join(dir, "bin", "lbremedy")))
	r.must(os.WriteFile(filepath.Join(dir, "FILE"), []byte(careful), 0o600))
	return dir
}

// paste runs a command of the shell as somebody does who copies it.
func (r *rig) paste(dir, text string) {
	r.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(r.ctx, "sh", "-c", text)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	cmd.Env = append(r.command().Env, "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		r.Fatal(err)
	}
	r.Logf("$ %s\n%s%s", text, out.String(), errs.String())
	if code := cmd.ProcessState.ExitCode(); code == command.CodeFailed || code == command.CodeWrong {
		r.Errorf("%s: exit code %d\n%s%s", text, code, out.String(), errs.String())
	}
}
