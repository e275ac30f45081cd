package policy

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/stream/embedded"
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
		{"all fields", "mode: fix\nrisk: high\nattempts: 5\nramDelay: 2s\npayBySpec: true\nvswitches: {allow: [vsw-1], reserve: 0, replaceMissing: true}\nclasses: {tag-missing: {mode: observe}}",
			remedy.Policy{Mode: remedy.Fix, Risk: remedy.High, Attempts: 5, RAMDelay: 2 * time.Second, PayBySpec: true,
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
		"payBySpec: perhaps":                    "payBySpec",
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

func TestLoad(t *testing.T) {
	name := t.TempDir() + "/policy.yaml"
	for text, want := range map[string]string{"mode: fix": "", "mode: fixx": "policy.yaml: mode"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := Load(name, classes)
		if want == "" && (err != nil || p.Mode != remedy.Fix) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %+v, %v", text, p, err)
		}
	}
}

// What is published is what is in force, whole; without any, lbremedy observes;
// what can't be read is an error, and no policy.
func TestInForce(t *testing.T) {
	server, err := embedded.Start(embedded.Options{Dir: t.TempDir(), Port: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	s, err := stream.Connect(t.Context(), stream.Config{URL: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if _, err := s.Setup(t.Context(), nil, stream.Settings{}); err != nil {
		t.Fatal(err)
	}
	check := func(want remedy.Policy) {
		t.Helper()
		got, err := InForce(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	check(remedy.Policy{Mode: remedy.Observe})
	high, reserve := remedy.High, int64(0)
	full := remedy.Policy{
		Mode: remedy.Fix, Risk: remedy.Medium, Attempts: 5, RAMDelay: time.Second, PayBySpec: true, VSwitches: remedy.VSwitches{Allow: []string{"vsw-1"}, Reserve: &reserve, ReplaceMissing: true},
		Classes: map[string]remedy.Class{"tag-missing": {Mode: remedy.Observe, Risk: &high}, "ram-permission": {}},
	}
	if err := Publish(t.Context(), s, full); err != nil {
		t.Fatal(err)
	}
	check(full)
	if err := Publish(t.Context(), s, remedy.Policy{}); err != nil {
		t.Fatal(err)
	}
	check(remedy.Policy{})

	if err := s.Put(t.Context(), "policy", []byte("{")); err != nil {
		t.Fatal(err)
	}
	if p, err := InForce(t.Context(), s); err == nil {
		t.Errorf("garbage is the policy %+v", p)
	}
	if err := s.Put(t.Context(), "policy", []byte(`{"Risk":"huge"}`)); err != nil {
		t.Fatal(err)
	}
	if p, err := InForce(t.Context(), s); err == nil {
		t.Errorf("a risk that nobody knows is the policy %+v", p)
	}
	s.Close()
	if _, err := InForce(t.Context(), s); !errors.Is(err, stream.ErrUnavailable) {
		t.Errorf("without NATS: %v", err)
	}
	if err := Publish(t.Context(), s, full); !errors.Is(err, stream.ErrUnavailable) {
		t.Errorf("without NATS: %v", err)
	}
	if err := Publish(t.Context(), s, remedy.Policy{Risk: 7}); err == nil {
		t.Error("a risk that nobody knows is published")
	}
}
