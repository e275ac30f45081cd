package night

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/test/rig"
	"github.com/lbremedy/lbremedy/test/testbed"
)

type situation struct {
	policy  string
	on      testbed.Config
	prepare func(r *rig.Rig) string // returns the case to look at; empty: none
	looks   []string                // typed commands; CASE is the case
	prints  []string                // beginnings of commands that must be among those printed
	after   func(r *rig.Rig)        // checks the state when all commands have run; nil: nothing has changed
	moves   bool                    // the cases change meanwhile, so screens are not compared with files
}

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

func heldBy(by event.Hold, bring func(*rig.Rig)) func(*rig.Rig) string {
	return func(r *rig.Rig) string {
		r.Start()
		bring(r)
		r.Create("web", nil)
		return r.Held("web", by).Case
	}
}

func asks(fixture string, after func(*rig.Rig), prints ...string) situation {
	all := testbed.All()
	f := all[slices.IndexFunc(all, func(f testbed.Fixture) bool { return f.Name == fixture })]
	return situation{
		on: f.Config, policy: rig.Careful, prepare: failsWith(f, event.Asked, nil), looks: []string{"show CASE"}, prints: prints, after: after,
	}
}

func heals(r *rig.Rig) { r.Ends("web", event.Fixed) }

var situations = map[string]situation{
	"a plan asks": {
		policy: rig.Careful, prepare: failsWith(testbed.LostTag(), event.Asked, nil),
		looks: []string{"show CASE"}, prints: []string{"lbremedy approve "}, after: heals,
	},
	"a plan asks and ls is looked at": {
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
	"writes are paused and status is looked at": {
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
		looks: []string{"status", "show CASE"}, prints: []string{"lbremedy breaker close vswitch-ip-exhausted"}, moves: true,
		after: func(r *rig.Rig) { r.Testbed.Resume(r.Ctx); heals(r) },
	},
	"a person has just edited what the plan changes": {
		policy: rig.Careful + "tell: [{name: ops, kind: event}]\n", prepare: edited,
		looks: []string{"show CASE"}, prints: []string{"lbremedy approve "}, after: func(r *rig.Rig) { r.Testbed.Resume(r.Ctx); heals(r) },
	},
	"nothing exports": {
		policy: rig.Careful, looks: []string{"status", "ls", "doctor", "preflight"},
	},
	"the vSwitch is gone":                     asks("vswitch-gone", works, "kubectl -n NAMESPACE annotate service web "),
	"public load balancers are forbidden":     asks("public-denied", works, "kubectl -n NAMESPACE annotate service web "),
	"no vSwitch has IPv6":                     asks("family-vswitch-nlb", works, "kubectl -n NAMESPACE annotate service web "),
	"a listener is of somebody else":          asks("listener-taken", nil, "kubectl -n NAMESPACE annotate service web "),
	"a load balancer is of another Service":   asks("reuse-other", works, "kubectl -n NAMESPACE annotate service web "),
	"a load balancer that is named is absent": asks("balancer-none", works, "kubectl -n NAMESPACE annotate service web "),
	"nodes are of another cloud":              asks("node-unknown", nil, "kubectl label node ", "kubectl delete node "),
	"an address is taken":                     asks("vswitch-address", nil, "kubectl -n NAMESPACE annotate service web "),
	"a load balancer may not be deleted":      asks("deletion-subscribed", nil, "kubectl -n NAMESPACE annotate service web "),
	"a quota is reached":                      asks("quota-balancers", nil, "kubectl -n NAMESPACE annotate service web "),
	"the account is in arrears":               asks("unpaid", nil),
	"an annotation is wrong":                  asks("words-bandwidth", works, "kubectl -n NAMESPACE annotate service web "),
	"a certificate has expired":               asks("cert-expired", nil),
	"a RAM role lacks an action": {
		on: testbed.NoListener().Config, policy: rig.Careful, prepare: failsWith(testbed.NoListener(), event.Asked, nil),
		looks: []string{"show CASE"}, prints: []string{"lbremedy approve "}, after: heals,
	},
	"the name of a case is wrong": {
		policy: rig.Careful, prepare: failsWith(testbed.LostTag(), event.Asked, nil),
		looks: []string{"show nothing", "approve nothing", "approve CASE --digest 0000", "undo CASE", "run NAMESPACE/nothing"},
	},
}

// edited is a preparation in which a person annotates a Service at least a second after its creation, and its sync then fails.
// The Event on the Service also states the question and the person's change.
func edited(r *rig.Rig) string {
	r.Start()
	r.Tell()
	r.Must(r.Testbed.Halt(r.Ctx))
	r.Create("web", nil)
	dir := r.Shelf(nil)
	annotate := func(vswitch string) {
		run(r, dir, "kubectl -n "+r.Testbed.Namespace+" annotate service web "+rig.Prefix+"vswitch-id="+vswitch+" --overwrite")
	}
	later := func() bool {
		svc := r.Service("web")
		return slices.ContainsFunc(svc.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
			return f.Manager == "kubectl-annotate" && f.Time.After(svc.CreationTimestamp.Time)
		})
	}
	for n := 0; !later(); n++ {
		annotate(fmt.Sprint("vsw-", n))
	}
	annotate(testbed.FullVSwitchH)
	r.Complain("web", rig.FullMessage)
	rec := r.Ends("web", event.Asked)
	said := ""
	r.Must(r.Testbed.Until(r.Ctx, func() bool {
		list, err := r.Testbed.Cluster.Client().CoreV1().Events(r.Testbed.Namespace).List(r.Ctx, metav1.ListOptions{})
		r.Must(err)
		for _, e := range list.Items {
			if e.InvolvedObject.Name == "web" && e.Reason == "LBRemedyNeedsApproval" {
				said = e.Message
			}
		}
		return said != ""
	}))
	if !strings.Contains(said, "kubectl-annotate\" changed "+rig.Prefix+"vswitch-id on the Service at 20") {
		r.Errorf("the Event does not say who changed what: %s", said)
	}
	return rec.Case
}

func works(r *rig.Rig) {
	r.Must(r.Testbed.Until(r.Ctx, func() bool { return r.Testbed.Healed("web") }))
}

// TestSituations plays each situation, compares the screens with a file of testdata/situations, and runs each printed command as printed.
// No command is a usage error; exit codes of lbremedy above 2 report findings. At most 60 words precede the first command of a case.
func TestSituations(t *testing.T) {
	t.Parallel()
	for name, s := range situations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, s.on, s.policy)
			r.Answerable()
			pairs := ofRun(r)
			id := ""
			if s.prepare != nil {
				id = s.prepare(r)
				pairs = append(pairs, id, "CASE", id[:8]+" ", "CASE ")
			}
			typed := strings.NewReplacer("CASE", id, "NAMESPACE", r.Testbed.Namespace)
			plain := strings.NewReplacer(pairs...)
			var printed []string
			screens := ""
			for _, look := range s.looks {
				args := strings.Fields(typed.Replace(look))
				got := r.Call(args...)
				fits(t, got, args...)
				before, commands := commandsOf(got)
				screen := shown(plain, got, args...)
				words := fmt.Sprint(len(strings.Fields(screen)))
				if len(commands) > 0 {
					words = fmt.Sprintf("%d before the first command, of %s", before, words)
					if args[0] == "show" && before > 60 {
						t.Errorf("%s: %d words come before the first command", look, before)
					}
				}
				screens += screen + "[words: " + words + "]\n\n"
				for _, text := range commands {
					if !slices.Contains(printed, text) {
						printed = append(printed, text)
					}
				}
			}
			if !s.moves {
				compare(t, filepath.Join("testdata", "situations", strings.ReplaceAll(name, " ", "_")+".txt"), screens)
			}
			for _, want := range s.prints {
				want = typed.Replace(want)
				if !slices.ContainsFunc(printed, func(text string) bool { return strings.HasPrefix(text, want) }) {
					t.Errorf("of %q, none begins with %q", printed, want)
				}
			}
			dir := r.Shelf(map[string]string{"FILE": rig.Careful})
			slices.SortStableFunc(printed, func(a, b string) int { return cmp.Compare(turn(a), turn(b)) })
			for _, text := range printed {
				run(r, dir, text)
			}
			if s.after != nil {
				s.after(r)
			}
		})
	}
}

// turn returns the order of a command: reads first and deletions last, since other commands use what they delete.
func turn(text string) int {
	switch {
	case strings.HasPrefix(text, "lbremedy plan "):
		return 0
	case strings.Contains(text, " delete "):
		return 2
	}
	return 1
}

func commandsOf(got rig.Said) (before int, commands []string) {
	for line := range strings.Lines(got.Out + "\n" + got.Err) {
		for _, p := range say.Segments(strings.TrimSpace(line)) {
			switch {
			case p.Command:
				commands = append(commands, p.Text)
			case len(commands) == 0:
				before += len(strings.Fields(p.Text))
			}
		}
	}
	return before, commands
}

// run runs a command as printed. A kubectl command has to succeed and to have changed the Service.
func run(r *rig.Rig, dir, text string) {
	r.Helper()
	program, _, _ := strings.Cut(text, " ")
	if program != "lbremedy" && program != "kubectl" {
		return // aliyun and others are not installed here
	}
	got := r.Paste(dir, text)
	r.Logf("%s $ %s\n%s%s", time.Now().Format(time.TimeOnly), text, got.Out, got.Err)
	bad := got.Code == command.CodeFailed || got.Code == command.CodeWrong
	if program == "kubectl" {
		// grep exits with 1 if it finds nothing, as in the log of a controller that is not a Pod.
		bad = got.Code != 0 && !strings.Contains(text, " | grep ") || strings.HasPrefix(strings.ToLower(got.Err), "error")
	}
	if bad {
		r.Errorf("%s: exit code %d\n%s%s", text, got.Code, got.Out, got.Err)
	}
	if m := annotates.FindStringSubmatch(text); m != nil {
		has, there := r.Service("web").Annotations[m[1]]
		if there == (m[2] == "-") || there && "="+has != m[2] && !strings.Contains(m[2], "$(") {
			r.Errorf("%s: the annotation is %q", text, has)
		}
	}
}

var annotates = regexp.MustCompile(`^kubectl -n \S+ annotate service web ([a-z./-]*[a-z])(-|=\S*)(?: --overwrite)?$`)

func TestMain(m *testing.M) { rig.Tests(m) }
