package policy

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/shared/remedy"
)

var classes = []string{"ram-permission", "tag-missing"}

func TestParse(t *testing.T) {
	medium, reserve := remedy.Medium, int64(0)
	tests := []struct {
		name, file string
		want       remedy.Policy
	}{
		{"an empty file observes", "", remedy.Policy{Mode: remedy.Observe}},
		{"fix without more applies low risk", "mode: fix", remedy.Policy{Mode: remedy.Fix}},
		{"a class of its own", "mode: fix\nclasses: {ram-permission: {risk: medium}}",
			remedy.Policy{Mode: remedy.Fix, Classes: map[string]remedy.Class{"ram-permission": {Risk: &medium}}}},
		{"all fields", "mode: fix\nrisk: high\nattempts: 5\nramDelay: 2s\nvswitches: {allow: [vsw-1], reserve: 0, replaceMissing: true}\nclasses: {tag-missing: {mode: observe}}",
			remedy.Policy{Mode: remedy.Fix, Risk: remedy.High, Attempts: 5, RAMDelay: 2 * time.Second,
				VSwitches: remedy.VSwitches{Allow: []string{"vsw-1"}, Reserve: &reserve, ReplaceMissing: true},
				Classes:   map[string]remedy.Class{"tag-missing": {Mode: remedy.Observe}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse([]byte(tt.file), classes)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A typo must not loosen a rule: each is refused, and the sentence names it.
func TestParseRefuses(t *testing.T) {
	for file, want := range map[string]string{
		"mod: fix":                              `"mod"`,
		"mode: fixx":                            `mode: "fixx" is no mode`,
		"risk: lowish":                          `risk: "lowish" is no risk`,
		"classes: {tag-mising: {}}":             "classes.tag-mising: there is no such class",
		"classes: {tag-missing: {rsk: low}}":    `"rsk"`,
		"classes: {tag-missing: {mode: never}}": "classes.tag-missing.mode",
		"attempts: -1":                          "attempts: -1 is negative",
		"attempts: many":                        "attempts",
		"ramDelay: soon":                        `ramDelay: "soon" is no duration`,
		"ramDelay: -3s":                         "ramDelay",
		"vswitches: {reserve: -2}":              "vswitches.reserve: -2 is negative",
		"mode: [":                               "line 1",
		"mode: fix\nmode: observe":              "mode",
	} {
		_, err := Parse([]byte(file), classes)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want it to say %s", file, err, want)
		}
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	_, err := Load("no/such/policy.yaml", classes)
	if err == nil || !strings.Contains(err.Error(), "no/such/policy.yaml") {
		t.Errorf("got %v", err)
	}
}
