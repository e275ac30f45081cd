package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/policy/policyfile"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/test/sim/controller"
	"github.com/lbremedy/lbremedy/test/testbed"
)

func TestPolicy(t *testing.T) {
	v, err := policyfile.Parse(policyText, (&host.Host{Remedies: functions.All}).Classes())
	if err != nil {
		t.Fatal(err)
	}
	p := v.Policy
	for _, r := range functions.All {
		highest := map[string]remedy.Risk{"tag-missing": remedy.High, "ram-permission": remedy.Medium, "vswitch-not-found": remedy.Medium,
			"zone-shortage": remedy.Medium}[r.Class]
		for _, risk := range []remedy.Risk{remedy.Low, remedy.Medium, remedy.High} {
			_, named := p.Classes[r.Class]
			if got, why := p.At(r.Class, remedy.Place{}).Allows(r, risk, nil); got != (risk <= highest && (named || !r.OptIn)) {
				t.Errorf("%s with %s risk: %v, %s", r.Class, risk, got, why)
			}
		}
	}
}

func TestChoose(t *testing.T) {
	t.Setenv(controller.BinaryVariable, "")
	counts := map[string]int{}
	var names []string
	for _, f := range usual().fixtures {
		counts[f.Class]++
		names = append(names, f.Service)
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != len(usual().fixtures) {
		t.Errorf("two failures have the same Service: %v", names)
	}
	if n := counts["vswitch-ip-exhausted"] + counts["tag-missing"] + counts["ram-permission"]; n < 12 || counts["unclassified"] != 1 {
		t.Errorf("%d known failures and %d unknown ones", n, counts["unclassified"])
	}
	all, err := choose("all")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, a := range all {
		for _, f := range a.fixtures {
			shown[f.Class] = true
			if f.Config != a.config {
				t.Errorf("%s is on the wrong testbed", f.Service)
			}
		}
	}
	for _, r := range functions.All {
		if !shown[r.Class] && r.Answers("") { // failures of nodes are in scenarios
			t.Errorf("nothing shows %s", r.Class)
		}
	}
	some, err := choose("tag-missing, unclassified")
	count := 0
	for _, a := range some {
		count += len(a.fixtures)
	}
	if err != nil || count != len(testbed.Of("tag-missing", "unclassified")) {
		t.Errorf("%d fixtures in %d groups, %v", count, len(some), err)
	}
	if _, err := choose("tag-mising"); err == nil || !strings.Contains(err.Error(), `"tag-mising"`) {
		t.Errorf("got %v", err)
	}
}

// TestBecomesQuestion: a Service that waits as expected counts as such, even if it becomes a question while others have not
// ended. One that should wait but asks at once is wrong.
func TestBecomesQuestion(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for _, tt := range []struct {
		results []event.Result
		want    event.Result
	}{
		{[]event.Result{event.Waiting, event.Asked}, event.Waiting},
		{[]event.Result{event.Asked}, event.Asked},
	} {
		p := newProgress(newScreen(out), &testbed.Testbed{}, []testbed.Fixture{{Class: "c", Ends: event.Waiting}})
		for _, result := range tt.results {
			rec := event.Record{Origin: event.Origin{Class: "c"}}
			rec.Result = result
			p.settled(p.services[0], rec)
		}
		if got := p.services[0].result; got != tt.want {
			t.Errorf("after %q it is %q, want %q", tt.results, got, tt.want)
		}
	}
}

func TestMarkdown(t *testing.T) {
	plan := func(risk string, steps ...string) event.Record {
		rec := event.Record{Plan: event.Plan{Risk: risk}}
		for _, s := range steps {
			kind, text, _ := strings.Cut(s, ": ")
			rec.Steps = append(rec.Steps, event.StepRecord{Kind: kind, Text: say.Literal(text)})
		}
		return rec
	}
	classes := []*remedy.Remedy{
		{Class: "both", Doc: "# It is a | b"}, {Class: "fixes", Doc: "# It breaks\n\nMore."}, {Class: "unseen", Doc: "# Nobody sees it"},
		{Class: "asks", Doc: "# It can't"}, {Class: "may", Doc: "# It may not"}, {Class: "waits", Doc: "# It lasts"},
	}
	got := markdown(classes, []outcome{
		{class: "fixes", result: event.Fixed, plan: plan("low", "annotate: annotate service.beta.kubernetes.io/alibaba-cloud-loadbalancer-id=lb-1"), seconds: 2.04},
		{class: "both", result: event.Fixed, plan: plan("high", "tag-lb: tag lb-1", "touch: trigger a resync"), seconds: 4},
		{class: "both", result: event.Fixed, plan: plan("high", "tag-lb: tag lb-2", "touch: trigger a resync"), seconds: 0.31},
		{class: "both", result: event.Fixed, plan: plan("low", "annotate: annotate a"), seconds: 1},
		{class: "both", result: event.Asked},
		{class: "both", result: event.Waiting},
		{class: "asks", result: event.Asked},
		{class: "may", result: event.Asked, plan: plan("medium", "convert: convert it")},
		{class: "waits", result: event.Waiting},
	})
	const want = `| class | cause | what is done | risk | seconds to healed |
|---|---|---|---|---|
| ` + "`both`" + ` | It is a \| b | tag lb-1, trigger a resync; annotate a; asks; waits | high, low | 0.3 to 4.0, asks, waits |
| ` + "`fixes`" + ` | It breaks | annotate id=lb-1 | low | 2.0 |
| ` + "`asks`" + ` | It can't | asks | – | asks |
| ` + "`may`" + ` | It may not | asks whether to convert it | medium | asks |
| ` + "`waits`" + ` | It lasts | waits | – | waits |
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWords(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{gist("One."), "One."},
		{gist("One. Two."), "One. Two."},
		{gist("One. Two of v2.12.1. Three."), "One. … Three."},
		{cut("as it is", 8), "as it is"},
		{cut("ends at a word", 10), "ends at…"},
		{cut("ends at … words", 10), "ends at…"},
		{cut("übergroß", 5), "über…"},
		{brief("annotate service.beta.kubernetes.io/alibaba-cloud-loadbalancer-id=lb-1"), "annotate id=lb-1"},
		{brief("tag lb-1 with kubernetes.do.not.delete=aba68bf8626b543e394f88905821a25c"), "tag lb-1 with kubernetes.do.not.delete=…"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
