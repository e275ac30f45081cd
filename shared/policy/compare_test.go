package policy

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

var what = What{
	Sections: []remedy.Section{
		remedy.VSwitchRules,
		&remedy.Setting[remedy.Duration]{Key: "ramDelay", Doc: "x", Default: remedy.Duration(time.Minute)},
		&remedy.Setting[bool]{Key: "payBySpec", Doc: "x"},
	},
	OptIn: func(class string) bool { return class == "ram-permission" },
}

// lines returns the changes as a person sees them.
func lines(all []Change) string {
	var out []string
	for _, c := range all {
		out = append(out, string(c.Effect)+" "+c.Field+": "+c.Was+" -> "+c.Is)
	}
	return strings.Join(out, "\n")
}

// What is loosened comes first, and what could loosen a rule somewhere counts as that.
func TestCompare(t *testing.T) {
	t.Parallel()
	low, medium, high := remedy.Low, remedy.Medium, remedy.High
	class := func(id string, c remedy.Class) map[string]remedy.Class { return map[string]remedy.Class{id: c} }
	prod := []string{"prod-*"}
	for name, tt := range map[string]struct {
		was, is remedy.Policy
		want    string
	}{
		"nothing":        {remedy.Policy{Mode: remedy.Observe}, remedy.Policy{}, ""},
		"the mode":       {remedy.Policy{}, remedy.Policy{Mode: remedy.Fix}, "loosened mode: observe -> fix"},
		"the mode back":  {remedy.Policy{Mode: remedy.Fix}, remedy.Policy{}, "tightened mode: fix -> observe"},
		"the risk":       {remedy.Policy{Risk: low}, remedy.Policy{Risk: high}, "loosened risk: low -> high"},
		"the risk lower": {remedy.Policy{Mode: remedy.Fix, Risk: high}, remedy.Policy{Mode: remedy.Fix, Risk: low}, "tightened risk: high -> low"},
		"oneWay goes": {remedy.Policy{Classes: class("a", remedy.Class{OneWay: true})}, remedy.Policy{Classes: class("a", remedy.Class{})},
			"tightened classes.a.oneWay: true -> false"},
		"both, the looser first": {remedy.Policy{Mode: remedy.Fix, Risk: high}, remedy.Policy{Mode: remedy.Fix, Classes: class("a", remedy.Class{OneWay: true})},
			"loosened classes.a.oneWay: false -> true\ntightened risk: high -> low\nchanged classes.a:  -> named"},
		"a class that needs its name": {remedy.Policy{}, remedy.Policy{Classes: class("ram-permission", remedy.Class{})},
			"loosened classes.ram-permission:  -> named"},
		"an exception goes": {remedy.Policy{Mode: remedy.Fix, Classes: class("a", remedy.Class{Mode: remedy.Observe})}, remedy.Policy{Mode: remedy.Fix},
			"loosened classes.a.mode: observe -> \nchanged classes.a: named -> "},
		"a class's risk is the policy's": {remedy.Policy{Risk: medium, Classes: class("a", remedy.Class{Risk: &high})},
			remedy.Policy{Risk: medium, Classes: class("a", remedy.Class{})}, "tightened classes.a.risk: high -> "},
		"a rule that observes": {remedy.Policy{Mode: remedy.Fix}, remedy.Policy{Mode: remedy.Fix, Rules: []remedy.Rule{{Namespaces: prod, Mode: remedy.Observe}}},
			"tightened rules[0]:  -> observe"},
		"and its end": {remedy.Policy{Mode: remedy.Fix, Rules: []remedy.Rule{{Namespaces: prod, Mode: remedy.Observe}}}, remedy.Policy{Mode: remedy.Fix},
			"loosened rules[0]: observe -> "},
		"a rule that fixes": {remedy.Policy{}, remedy.Policy{Rules: []remedy.Rule{{Namespaces: prod, Mode: remedy.Fix, Risk: &low}}},
			"loosened rules[0]:  -> fix, plans up to low risk"},
		"a rule of less risk": {remedy.Policy{Mode: remedy.Fix, Risk: high}, remedy.Policy{Mode: remedy.Fix, Risk: high, Rules: []remedy.Rule{{Risk: &low}}},
			"tightened rules[0]:  -> plans up to low risk"},
		"and its end too": {remedy.Policy{Mode: remedy.Fix, Risk: high, Rules: []remedy.Rule{{Risk: &low}}}, remedy.Policy{Mode: remedy.Fix, Risk: high},
			"loosened rules[0]: plans up to low risk -> "},
		"a rule that says more": {remedy.Policy{Mode: remedy.Fix, Rules: []remedy.Rule{{Risk: &low}}},
			remedy.Policy{Mode: remedy.Fix, Rules: []remedy.Rule{{Risk: &high}}},
			"loosened rules[0]: plans up to low risk -> plans up to high risk"},
		"a rule about what needs its name": {remedy.Policy{Mode: remedy.Fix},
			remedy.Policy{Mode: remedy.Fix, Rules: []remedy.Rule{{Classes: []string{"ram-permission"}, Risk: &low}}}, "loosened rules[0]:  -> plans up to low risk"},
		"a rule about labels of Services": {remedy.Policy{Mode: remedy.Fix, Risk: high, Classes: class("a", remedy.Class{Risk: &low})},
			remedy.Policy{Mode: remedy.Fix, Risk: high, Classes: class("a", remedy.Class{Risk: &low}),
				Rules: []remedy.Rule{{Labels: map[string]string{"x": "y"}, Classes: []string{"ram-permission"}, Risk: &medium}}},
			"tightened rules[0]:  -> plans up to medium risk"},
		"the same about namespaces": {remedy.Policy{Mode: remedy.Fix}, remedy.Policy{Mode: remedy.Fix,
			Rules: []remedy.Rule{{NamespaceLabels: map[string]string{"x": "y"}, Risk: &medium}}}, "loosened rules[0]:  -> plans up to medium risk"},
		"another order": {remedy.Policy{Rules: []remedy.Rule{{Namespaces: prod, Mode: remedy.Fix}, {Mode: remedy.Observe}}},
			remedy.Policy{Rules: []remedy.Rule{{Mode: remedy.Observe}, {Namespaces: prod, Mode: remedy.Fix}}},
			"loosened rules: namespaces prod-* | all -> all | namespaces prod-*"},
		"a freeze": {remedy.Policy{}, remedy.Policy{Freezes: []remedy.Freeze{{Name: "n", Days: []time.Weekday{1}, From: time.Hour, Until: 2 * time.Hour}}},
			"tightened freezes n:  -> mon 01:00 until 02:00"},
		"and its end, again": {remedy.Policy{Freezes: []remedy.Freeze{{Name: "n", Days: []time.Weekday{1}, From: time.Hour, Until: 2 * time.Hour}}}, remedy.Policy{},
			"loosened freezes n: mon 01:00 until 02:00 -> "},
		"budgets": {remedy.Policy{}, remedy.Policy{Budgets: remedy.Budgets{Attempts: 9, Share: 10}},
			"loosened budgets.attempts: 3 -> 9\ntightened budgets.share: 20% -> 10%"},
		"the defaults, written out": {remedy.Policy{}, remedy.Policy{Budgets: remedy.Budgets{Attempts: 3, Class: 5, Share: 20, Least: 3}}, ""},
		"undo":                      {remedy.Policy{}, remedy.Policy{TakeBack: true}, "loosened unsettled: leave -> undo"},
		"a section": {remedy.Policy{}, remedy.Policy{Sections: map[string]json.RawMessage{"vswitches": json.RawMessage(`{"allow":["vsw-1"],"reserve":0}`)}},
			"loosened vswitches.allow: [] -> [\"vsw-1\"]\nloosened vswitches.reserve: 8 -> 0"},
		"a section that is one value": {remedy.Policy{}, remedy.Policy{Sections: map[string]json.RawMessage{"ramDelay": json.RawMessage("120000000000")}},
			"tightened ramDelay: 1m0s -> 2m0s"},
		"the doctor": {remedy.Policy{}, remedy.Policy{Doctor: remedy.Doctor{Target: ccm.Version{Major: 2, Minor: 14}}}, "changed doctor.target:  -> v2.14.0"},
	} {
		all := Compare(Version{Policy: tt.was}, Version{Policy: tt.is}, what)
		if got := lines(all); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, tt.want)
		}
		for _, c := range all {
			if !strings.HasSuffix(c.Text, ".") || strings.ContainsAny(c.Text, "\n") || strings.Contains(c.Text, "%!") {
				t.Errorf("%s: %q is no sentence", name, c.Text)
			}
		}
	}
}

// The sinks are compared, too; none of them allows a write.
func TestCompareSinks(t *testing.T) {
	t.Parallel()
	was := []Sink{{Name: "a", Kind: Event}, {Name: "b", Kind: Webhook, URL: "https://x"}}
	is := []Sink{{Name: "b", Kind: Webhook, URL: "https://y", Classes: []string{"quota"}}, {Name: "c", Kind: Event}}
	const want = "changed tell a: event -> \nchanged tell b.url: https://x -> https://y\nchanged tell b.classes:  -> [\"quota\"]\nchanged tell c:  -> event"
	if got := lines(Compare(Version{Sinks: was}, Version{Sinks: is}, what)); got != want {
		t.Errorf("got %s", got)
	}
}

// No field of a policy or a sink can change unseen.
func TestCompareSeesAll(t *testing.T) {
	t.Parallel()
	high := remedy.High
	full := func() *Version {
		return &Version{
			Policy: remedy.Policy{
				Mode: remedy.Fix, Risk: remedy.Medium, Classes: map[string]remedy.Class{"a": {Mode: remedy.Fix, Risk: &high}},
				Rules:   []remedy.Rule{{Clusters: []string{"c"}, Namespaces: []string{"n"}, Classes: []string{"a"}, Mode: remedy.Fix, Risk: &high}},
				Freezes: []remedy.Freeze{{Name: "n", Days: []time.Weekday{1}, From: 1, Until: 2, Zone: []remedy.Offset{{Seconds: 1}}}},
			},
			Sinks: []Sink{{Name: "s", Kind: Event}},
		}
	}
	n := 0
	var walk func(at string, v reflect.Value, changed func() []Change)
	walk = func(at string, v reflect.Value, changed func() []Change) {
		seen := func() {
			n++
			if len(changed()) == 0 {
				t.Errorf("%s can change unseen", at)
			}
		}
		switch v.Kind() {
		case reflect.Struct:
			if at, ok := v.Addr().Interface().(*time.Time); ok {
				was := *at
				*at = at.Add(time.Hour)
				seen()
				*at = was
				return
			}
			for i := range v.NumField() {
				walk(at+"."+v.Type().Field(i).Name, v.Field(i), changed)
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(at+"[]", v.Index(i), changed)
			}
			if v.Len() == 0 && v.Type().Elem().Kind() == reflect.String {
				v.Set(reflect.Append(v, reflect.ValueOf("x").Convert(v.Type().Elem())))
				seen()
				v.SetZero()
			}
		case reflect.Pointer:
			walk(at, v.Elem(), changed)
		case reflect.String:
			was := v.String()
			v.SetString(was + "x")
			seen()
			v.SetString(was)
		case reflect.Bool:
			v.SetBool(!v.Bool())
			seen()
			v.SetBool(!v.Bool())
		case reflect.Int, reflect.Int32, reflect.Int64:
			was := v.Int()
			by := int64(1)
			if _, ok := v.Interface().(remedy.Risk); ok {
				by = -1
			}
			v.SetInt(was + by*100)
			if by < 0 {
				v.SetInt(was + by)
			}
			seen()
			v.SetInt(was)
		}
	}
	is := full()
	changed := func() []Change { return Compare(*full(), *is, what) }
	if all := changed(); len(all) > 0 {
		t.Fatalf("nothing changed: %s", lines(all))
	}
	high2 := high // what is changed must not be what it is compared with
	is.Policy.Rules[0].Risk = &high2
	walk("policy", reflect.ValueOf(&is.Policy).Elem(), changed)
	walk("sink", reflect.ValueOf(&is.Sinks[0]).Elem(), changed)
	if n < 40 {
		t.Errorf("only %d fields were changed", n)
	}
}
