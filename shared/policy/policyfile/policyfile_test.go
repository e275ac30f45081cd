package policyfile

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

var classes = []string{"ram-permission", "tag-missing"}

func TestParse(t *testing.T) {
	medium, high, none := remedy.Medium, remedy.High, int64(0)
	tests := []struct {
		name, file string
		want       remedy.Policy
	}{
		{"a file that says nothing observes", "{}", remedy.Policy{Mode: remedy.Observe}},
		{"fix without more applies low risk", "mode: fix", remedy.Policy{Mode: remedy.Fix}},
		{"a class of its own", "mode: fix\nclasses: {ram-permission: {risk: medium}}",
			remedy.Policy{Mode: remedy.Fix, Classes: map[string]remedy.Class{"ram-permission": {Risk: &medium}}}},
		{"all fields", "mode: fix\nrisk: high\nbudgets: {attempts: 5}\nramDelay: 2s\npayBySpec: true\nvswitches: {allow: [vsw-1], reserve: 0, replaceMissing: " +
			"true}\nclasses: {tag-missing: {mode: observe}}",
			remedy.Policy{Mode: remedy.Fix, Risk: remedy.High, Budgets: remedy.Budgets{Attempts: 5},
				Settings: remedy.Settings{RAMDelay: remedy.Duration(2 * time.Second), PayBySpec: true,
					VSwitches: remedy.VSwitches{Allow: []string{"vsw-1"}, Reserve: &none, ReplaceMissing: true}},
				Classes: map[string]remedy.Class{"tag-missing": {Mode: remedy.Observe}}}},
		{"rules in their order", "mode: fix\nrules: [{namespaces: ['prod-*'], risk: low}, {clusters: [c1], labels: {tier: gold}, classes: [tag-missing], " +
			"mode: observe}]",
			remedy.Policy{Mode: remedy.Fix, Rules: []remedy.Rule{
				{Namespaces: []string{"prod-*"}, Risk: new(remedy.Risk)},
				{Clusters: []string{"c1"}, Labels: map[string]string{"tier": "gold"}, Classes: []string{"tag-missing"}, Mode: remedy.Observe},
			}}},
		{"a freeze each week, and one once", "freezes: [{name: day, days: [mon, fri], from: '09:00', until: '18:30', zone: Asia/Shanghai}, {name: sale, from: " +
			"2026-11-10T20:00:00+08:00, until: 2026-11-12T02:00:00+08:00}]",
			remedy.Policy{Mode: remedy.Observe, Freezes: []remedy.Freeze{
				{Name: "day", Days: []time.Weekday{time.Monday, time.Friday}, From: 9 * time.Hour, Until: 18*time.Hour + 30*time.Minute,
					Zone: remedy.Zone{Location: time.FixedZone("Asia/Shanghai", 0)}},
				{Name: "sale", Start: time.Date(2026, 11, 10, 12, 0, 0, 0, time.UTC), End: time.Date(2026, 11, 11, 18, 0, 0, 0, time.UTC)},
			}}},
		{"budgets", "budgets: {attempts: 1, class: 50, share: 100%, least: 10}\nunsettled: undo\nclasses: {tag-missing: {mode: fix, risk: high, oneWay: true}}",
			remedy.Policy{Mode: remedy.Observe, TakeBack: true, Budgets: remedy.Budgets{Attempts: 1, Class: 50, Share: 100, Least: 10},
				Classes: map[string]remedy.Class{"tag-missing": {Mode: remedy.Fix, Risk: &high, OneWay: true}}}},
		{"a setting alone", "vswitches: {allow: [vsw-1]}\npayBySpec: false",
			remedy.Policy{Mode: remedy.Observe, Settings: remedy.Settings{VSwitches: remedy.VSwitches{Allow: []string{"vsw-1"}}}}},
		{"empty texts say nothing", "mode: ''\nrisk: ''\nramDelay: ''\nbudgets: {share: ''}\nclasses: {tag-missing: {mode: '', risk: ''}}",
			remedy.Policy{Mode: remedy.Observe, Classes: map[string]remedy.Class{"tag-missing": {}}}},
		{"what the doctor compares with", "doctor: {protect: ['prod-*'], target: v2.14.0, localPorts: 20000-60999}",
			remedy.Policy{Mode: remedy.Observe, Doctor: remedy.Doctor{Protect: []string{"prod-*"}, Target: ccm.Version{Major: 2, Minor: 14},
				LocalPorts: remedy.Ports{First: 20000, Last: 60999}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse([]byte(tt.file), classes)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got.Policy, cmp.Comparer(remedy.Freeze.Same)); diff != "" {
				t.Error(diff)
			}
			frozen := func(at time.Time) bool { why, _ := got.Policy.Frozen(at); return why != nil }
			// 09:00 in Shanghai, on a Monday.
			if at := time.Date(2026, 11, 16, 1, 0, 0, 0, time.UTC); len(tt.want.Freezes) > 0 && (!frozen(at) || frozen(at.Add(-time.Second))) {
				t.Error("the freeze does not begin at 09:00 of its zone")
			}
		})
	}
}

// A typo must not loosen a rule.
func TestParseRefuses(t *testing.T) {
	for file, want := range map[string]string{
		"":                                       "line 1: it is empty",
		"# rules: []\n\n":                        "line 1: it is empty",
		"---\n":                                  "line 1: it is empty",
		"null":                                   "line 1: it is empty",
		"mod: fix":                               "line 1: mod: the field is unknown; the fields are mode, risk",
		"mode: fixx":                             `mode: "fixx" is not a mode`,
		"risk: lowish":                           `risk: "lowish" is not a risk`,
		"classes: {tag-mising: {}}":              `classes.tag-mising: unknown class "tag-mising": the nearest are tag-missing, `,
		"classes: {tag-missing: {rsk: low}}":     "classes.tag-missing.rsk: the field is unknown; the fields are mode, risk, oneWay",
		"classes: {tag-missing: {mode: never}}":  "classes.tag-missing.mode",
		"budgets: {attempts: -1}":                "budgets.attempts: -1 is negative",
		"budgets: {attempts: many}":              "line 1: budgets.attempts: it must be a whole number",
		"ramDelay: soon":                         `ramDelay: "soon" is not a duration`,
		"ramDelay: -3s":                          "ramDelay",
		"rules: [{namespaces: [a]}]":             "rules[0]: it changes nothing",
		"rules: [{mode: observe, risk: low}]":    "rules[0]: it observes",
		"rules: [{classes: [x], mode: fix}]":     `rules[0].classes: unknown class "x"`,
		"rules: [{namespaces: ['[']}]":           `rules[0].namespaces: "[" is not a pattern`,
		"rules: [{namespaces: [''], risk: low}]": `rules[0].namespaces: "" is not a pattern`,
		"rules: [{namespaces: [a], mode: fix}, {namespaces: [a], mode: observe}]":                    "rules[1]: it is about the same as rules[0]",
		"rules: [{labels: {'': a}, mode: fix}]":                                                      "rules[0].labels",
		"classes: {tag-missing: {mode: observe, risk: low}}":                                         "classes.tag-missing: it observes",
		"freezes: [{from: '09:00', until: '10:00'}]":                                                 "freezes[0]: it has no name",
		"freezes: [{name: a, from: '9', until: '10:00'}]":                                            `freezes[0].from: "9" is neither a time of day`,
		"freezes: [{name: a, from: '09:00', until: '09:00'}]":                                        "begins and ends at 09:00",
		"freezes: [{name: a, days: [monday], from: '09:00', until: '10:00'}]":                        `"monday" is not a day`,
		"freezes: [{name: a, days: [mon, mon], from: '09:00', until: '10:00'}]":                      "mon is there twice",
		"freezes: [{name: a, zone: Mars/Base, from: '09:00', until: '10:00'}]":                       `zone: "Mars/Base" is not known`,
		"freezes: [{name: a, from: 2026-01-02T00:00:00Z, until: 2026-01-01T00:00:00Z}]":              "not after its beginning",
		"freezes: [{name: a, from: 2026-01-02T00:00:00Z, until: '10:00'}]":                           `freezes[0].until: "10:00" is not a time such as`,
		"freezes: [{name: a, days: [mon], from: 2026-01-02T00:00:00Z, until: 2026-01-03T00:00:00Z}]": "days and zone are for times of day",
		"budgets: {share: 20}":                       "line 1: budgets.share: it must be a text: put it in quotes",
		"budgets: {share: 120%}":                     `budgets.share: "120%" is not a share`,
		"budgets: {class: -1}":                       "budgets.class: -1 is negative",
		"budgets: {attempts: 0}":                     "line 1: budgets.attempts: 0 is not a budget: want at least 1",
		"mode: fix\nbudgets:\n  class: 0":            "line 3: budgets.class: 0 is not a budget: want at least 1; to write nothing, say mode: observe",
		"budgets: {share: 10%, least: 0}":            "line 1: budgets.least: 0 is not a budget: want at least 1",
		"rules: [{mode: never}]":                     `line 1: rules[0].mode: "never" is not a mode`,
		"vswitches: {reserved: 2}":                   "line 1: vswitches.reserved: the field is unknown; the fields are allow, reserve, replaceMissing",
		"vswitches: {reserve: some}":                 "line 1: vswitches.reserve: it must be a whole number",
		"vswitch: {}":                                "line 1: vswitch: the field is unknown; the fields are mode, risk",
		"ramDelay: 60":                               "line 1: ramDelay: it must be a text: put it in quotes",
		"takeBack: true":                             "line 1: takeBack: the field is unknown",
		"unsettled: undoo":                           `unsettled: "undoo" is unknown`,
		"payBySpec: perhaps":                         "line 1: payBySpec: it must be true or false",
		"vswitches: {reserve: -2}":                   "vswitches.reserve: -2 is negative",
		"doctor: {protect: ['[']}":                   `doctor.protect[0]: "[" is neither a name nor a pattern`,
		"doctor: {target: newest}":                   `doctor.target: "newest" is not a version`,
		"doctor: {localPorts: 9}":                    "doctor.localPorts: it must be a text: put it in quotes",
		"doctor: {localPorts: '9-'}":                 `doctor.localPorts: "9-" is not a range`,
		"doctor: {localPorts: 20-10}":                `doctor.localPorts: "20-10" is not a range`,
		"doctor: {localPorts: 1-70000}":              `doctor.localPorts: "1-70000" is not a range`,
		"doctor: {protekt: [shop]}":                  "doctor.protekt: the field is unknown; the fields are protect, target, localPorts",
		"mode: [":                                    "line 1",
		"mode: fix\n---\nmode: observe":              "line 2: a second document begins here",
		"risk: low\n\nmode:":                         "line 3: mode: it must be a text",
		"mode: &a fix":                               "line 1: mode: anchors are not read",
		"Mode: fix":                                  "line 1: Mode: the field is unknown",
		"\nfreezes:\n- name: a\n  from: '9'":         "line 4: freezes[0].from:",
		"classes:\n  tag-missing:\n    risk: lowish": "line 3: classes.tag-missing.risk:",
		"mode: fix\nmode: observe":                   "line 2: mode: it is there twice",
	} {
		_, err := Parse([]byte(file), classes)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want it to say %s", file, err, want)
		}
	}
}

func TestLoadTellsAll(t *testing.T) {
	name := t.TempDir() + "/policy.yaml"
	const text = `mode: fixx
rules:
- {namespaces: [a], rsk: low}
freezes:
- name: a
  from: 9
  until: "25:00"
budgets:
  share: 120%
tell:
- name: e
  kind: beeper
`
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := FromFile(name, parse).Read(t.Context())
	if err == nil {
		t.Fatal("it is right")
	}
	kinds := "alibaba, event, dingtalk, dingtalk-app, feishu-app, wecom, slack, mail, webhook, alertmanager, pagerduty, github, gitlab, codeup"
	want := `line 1: mode: "fixx" is not a mode: want observe or fix
line 3: rules[0].rsk: the field is unknown; the fields are clusters, namespaces, namespaceLabels, labels, classes, mode, risk
line 6: freezes[0].from: it must be a text: put it in quotes
line 9: budgets.share: "120%" is not a share from 1% to 100%
line 3: rules[0]: it changes nothing: it has neither mode nor risk
line 7: freezes[0].until: "25:00" is neither a time of day such as 18:30 nor a time such as 2006-01-02T15:04:05+08:00
line 12: tell[0].kind: the kind "beeper" is unknown; the kinds are ` + kinds
	said := "policy file " + name + ": "
	want = said + strings.ReplaceAll(want, "\n", "\n"+said)
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
