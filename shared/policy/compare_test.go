package policy

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

func optIn(class string) bool { return class == "ram-permission" }

func TestLoosens(t *testing.T) {
	t.Parallel()
	low, medium, high := remedy.Low, remedy.Medium, remedy.High
	class := func(id string, c remedy.Class) map[string]remedy.Class { return map[string]remedy.Class{id: c} }
	prod, none, four := []string{"prod-*"}, int64(0), int64(4)
	rules := func(r ...remedy.Rule) remedy.Policy { return remedy.Policy{Mode: remedy.Fix, Risk: medium, Rules: r} }
	freeze := []remedy.Freeze{{Name: "n", Days: []time.Weekday{1}, From: time.Hour, Until: 2 * time.Hour}}
	later := []remedy.Freeze{{Name: "n", Days: []time.Weekday{1}, From: 2 * time.Hour, Until: 3 * time.Hour}}
	settings := func(s remedy.Settings) remedy.Policy { return remedy.Policy{Settings: s} }
	for name, tt := range map[string]struct {
		was, is    remedy.Policy
		want, back string // what the change loosens, and what its reversal loosens
	}{
		"nothing":  {remedy.Policy{Mode: remedy.Observe}, remedy.Policy{}, "", ""},
		"the mode": {remedy.Policy{}, remedy.Policy{Mode: remedy.Fix}, "mode", ""},
		"the risk": {remedy.Policy{Risk: low}, remedy.Policy{Risk: high}, "risk", ""},
		"oneWay":   {remedy.Policy{}, remedy.Policy{Classes: class("a", remedy.Class{OneWay: true})}, "classes.a.oneWay", ""},
		"both ways": {remedy.Policy{Mode: remedy.Fix, Risk: high}, remedy.Policy{Mode: remedy.Fix, Classes: class("a", remedy.Class{OneWay: true})},
			"classes.a.oneWay", "risk"},
		"a class that needs its name": {remedy.Policy{}, remedy.Policy{Classes: class("ram-permission", remedy.Class{})}, "classes.ram-permission", ""},
		"a class that does not":       {remedy.Policy{}, remedy.Policy{Classes: class("a", remedy.Class{})}, "", ""},
		"an exception goes": {remedy.Policy{Mode: remedy.Fix, Classes: class("a", remedy.Class{Mode: remedy.Observe})}, remedy.Policy{Mode: remedy.Fix},
			"classes.a.mode", ""},
		"a class's risk is the policy's": {remedy.Policy{Risk: medium, Classes: class("a", remedy.Class{})},
			remedy.Policy{Risk: medium, Classes: class("a", remedy.Class{Risk: &high})}, "classes.a.risk", ""},
		"a rule that observes goes": {rules(remedy.Rule{Namespaces: prod, Mode: remedy.Observe}), rules(), "rules", ""},
		"a rule that fixes":         {rules(), rules(remedy.Rule{Namespaces: prod, Mode: remedy.Fix, Risk: &low}), "rules", "rules"},
		"a rule of less risk goes":  {rules(remedy.Rule{Risk: &low}), rules(), "rules", ""},
		"a rule of the same risk":   {rules(), rules(remedy.Rule{Namespaces: prod, Risk: &medium}), "", "rules"},
		"a rule of more risk":       {rules(), rules(remedy.Rule{Namespaces: prod, Risk: &high}), "rules", "rules"},
		"a rule that says more":     {rules(remedy.Rule{Risk: &low}), rules(remedy.Rule{Risk: &high}), "rules", ""},
		"a rule before another one": {rules(remedy.Rule{Risk: &low}), rules(remedy.Rule{Namespaces: prod, Mode: remedy.Observe}, remedy.Rule{Risk: &low}), "",
			"rules"},
		"a rule about what needs its name": {rules(), rules(remedy.Rule{Classes: []string{"ram-permission"}, Risk: &low}), "rules",
			"rules"},
		"a rule about labels of Services": {rules(), rules(remedy.Rule{Labels: map[string]string{"x": "y"}, Classes: []string{"ram-permission"}, Risk: &high}), "",
			"rules"},
		"another order": {rules(remedy.Rule{Namespaces: prod, Mode: remedy.Fix}, remedy.Rule{Mode: remedy.Observe}),
			rules(remedy.Rule{Mode: remedy.Observe}, remedy.Rule{Namespaces: prod, Mode: remedy.Fix}), "rules", "rules"},
		"approvals": {remedy.Policy{Approvals: []remedy.ApprovalRule{{Needs: 2}}}, remedy.Policy{}, "approvals", ""},
		"a freeze":  {remedy.Policy{Freezes: freeze}, remedy.Policy{}, "freezes", ""},
		"its time":  {remedy.Policy{Freezes: freeze}, remedy.Policy{Freezes: later}, "freezes", "freezes"},
		"budgets": {remedy.Policy{}, remedy.Policy{Budgets: remedy.Budgets{Attempts: 9, Class: 9, Share: 10, Least: 4}},
			"budgets.attempts budgets.class budgets.least", "budgets.share"},
		"the defaults, written out": {remedy.Policy{}, remedy.Policy{Budgets: remedy.Budgets{Attempts: 3, Class: 5, Share: 20, Least: 3}}, "", ""},
		"undo":                      {remedy.Policy{}, remedy.Policy{TakeBack: true}, "unsettled", ""},
		"vSwitches": {remedy.Policy{}, settings(remedy.Settings{VSwitches: remedy.VSwitches{Allow: []string{"vsw-1"}, Reserve: &none, ReplaceMissing: true}}),
			"vswitches.allow vswitches.reserve vswitches.replaceMissing", ""},
		"a smaller reserve": {remedy.Policy{}, settings(remedy.Settings{VSwitches: remedy.VSwitches{Reserve: &four}}), "vswitches.reserve", ""},
		"the time of RAM":   {remedy.Policy{}, settings(remedy.Settings{RAMDelay: remedy.Duration(time.Second)}), "ramDelay", ""},
		"by spec":           {remedy.Policy{}, settings(remedy.Settings{PayBySpec: true}), "payBySpec", ""},
		"the doctor":        {remedy.Policy{}, remedy.Policy{Doctor: remedy.Doctor{Target: ccm.Version{Major: 2, Minor: 14}}}, "", ""},
	} {
		if got := strings.Join(Loosens(tt.was, tt.is, optIn), " "); got != tt.want {
			t.Errorf("%s loosens %q, not %q", name, got, tt.want)
		}
		if got := strings.Join(Loosens(tt.is, tt.was, optIn), " "); got != tt.back {
			t.Errorf("the way back of %s loosens %q, not %q", name, got, tt.back)
		}
	}
}

// No change that lets lbremedy write more anywhere goes unreported.
func TestLoosensAtAnyPlace(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	modes := []remedy.Mode{"", remedy.Observe, remedy.Fix}
	risk := func() *remedy.Risk {
		if n := remedy.Risk(r.IntN(4)); n <= remedy.High {
			return &n
		}
		return nil
	}
	some := func(list ...string) []string {
		if r.IntN(2) == 0 {
			return nil
		}
		return list[r.IntN(len(list)):][:1]
	}
	rule := func() remedy.Rule {
		rule := remedy.Rule{Namespaces: some("a", "*"), Classes: some("busy", "ram-permission"), Mode: modes[r.IntN(3)], Risk: risk()}
		if r.IntN(3) == 0 {
			rule.Labels = map[string]string{"tier": "gold"}
		}
		return rule
	}
	random := func() remedy.Policy {
		p := remedy.Policy{Mode: modes[r.IntN(3)], Risk: remedy.Risk(r.IntN(3)), Classes: map[string]remedy.Class{}}
		for _, id := range some("busy", "ram-permission") {
			p.Classes[id] = remedy.Class{Mode: modes[r.IntN(3)], Risk: risk(), OneWay: r.IntN(2) == 0}
		}
		for range r.IntN(3) {
			p.Rules = append(p.Rules, rule())
		}
		return p
	}
	var places []remedy.Place
	for _, namespace := range []string{"a", "b"} {
		for _, tier := range []string{"gold", "none"} {
			places = append(places, remedy.Place{Namespace: namespace, Labels: map[string]string{"tier": tier}, Around: map[string]string{}})
		}
	}
	told := 0
	for range 30_000 {
		was := random()
		is := random()
		if r.IntN(2) == 0 { // one thing changes
			is = was
			is.Rules = append([]remedy.Rule{}, was.Rules...)
			if i := r.IntN(len(is.Rules) + 1); i == len(is.Rules) || r.IntN(2) == 0 {
				is.Rules = append(append(is.Rules[:i:i], rule()), is.Rules[i:]...)
			} else {
				is.Rules[i].Mode, is.Rules[i].Risk = modes[r.IntN(3)], risk()
			}
		}
		if len(Loosens(was, is, optIn)) > 0 {
			told++
			continue
		}
		for _, class := range []string{"busy", "ram-permission"} {
			for _, at := range places {
				then, now := was.At(class, at), is.At(class, at)
				for _, needs := range []remedy.Risk{remedy.Low, remedy.Medium, remedy.High} {
					k := &remedy.Remedy{Class: class, OptIn: optIn(class)}
					before, _ := then.Allows(k, needs, nil)
					after, _ := now.Allows(k, needs, nil)
					if after && !before || after && now.OneWay && !then.OneWay {
						a, _ := json.Marshal(was)
						b, _ := json.Marshal(is)
						t.Fatalf("%s is applied at %+v with %s risk, and nothing is told:\n%s\n%s", class, at, needs, a, b)
					}
				}
			}
		}
	}
	if told < 1000 || told > 29_000 {
		t.Errorf("%d of 30,000 changes loosen", told)
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ was, is, want string }{
		{"mode: fix\n", "mode: fix", ""},
		{"mode: observe", "mode: fix\nrisk: low\n", "@@ -1 +1,2 @@\n-mode: observe\n+mode: fix\n+risk: low\n"},
		{"", "mode: fix\n", "@@ -1 +1 @@\n-\n+mode: fix\n"},
	} {
		if got, err := Diff(tt.was, tt.is); err != nil || got != tt.want {
			t.Errorf("got %q, %v, not %q", got, err, tt.want)
		}
	}
}
