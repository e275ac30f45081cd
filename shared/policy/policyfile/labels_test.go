package policyfile

import (
	"encoding/json"
	"flag"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

var seed = flag.Uint64("labels", uint64(time.Now().UnixNano()), "seed of TestLabelLaw")

// A rule that allows more by a Service's label is refused, with a suggestion; one that allows less is accepted.
func TestLabelRules(t *testing.T) {
	t.Parallel()
	const instead = "labels of a Service only make the policy stricter, because its owner sets them: to allow more, label the namespace, and write " +
		`namespaceLabels: {tier: "test"} in place of labels`
	for text, want := range map[string]string{
		"rules: [{labels: {tier: test}, risk: medium}]":                     "line 1: rules[0].risk: it is medium, and without the rule it can be low; " + instead,
		"rules: [{labels: {tier: test}, mode: fix}]":                        "line 1: rules[0].mode: " + instead,
		"mode: fix\nrules: [{labels: {tier: test}, mode: fix}]":             "line 2: rules[0].mode: ",
		"risk: high\nrules: [{labels: {tier: test}, mode: fix, risk: low}]": "line 2: rules[0].mode: ",
		"rules: [{labels: {tier: test}, namespaces: [a], risk: medium}]":    "it is medium, and without the rule it can be low",
		"rules: [{labels: {a: b}, namespaceLabels: {c: d}, risk: medium}]":  `write namespaceLabels: {a: "b", c: "d"} in place`,
		"classes: {tag-missing: {risk: high}}\nrules: [{labels: {a: b}, risk: high}]": "line 2: rules[0].risk: it is high, and without the rule " +
			"it can be low",
		"risk: high\nclasses: {tag-missing: {risk: low}}\nrules: [{labels: {a: b}, risk: medium}]":                            "it can be low",
		"risk: high\nrules: [{namespaces: [x], risk: low}, {labels: {a: b}, risk: medium}]":                                   "rules[1].risk: it is medium",
		"rules: [{namespaceLabels: {a: b}, mode: fix}, {namespaceLabels: {a: b}, risk: high}]":                                "rules[1]: it is about the same",
		"mode: fix\nrules: [{namespaceLabels: {a: b}, risk: high}]":                                                           "",
		"mode: fix\nrules: [{labels: {a: b}, namespaceLabels: {c: d}, mode: observe}]":                                        "",
		"rules: [{labels: {tier: test}, mode: observe}]":                                                                      "",
		"risk: high\nrules: [{labels: {tier: test}, risk: medium}]":                                                           "",
		"risk: high\nrules: [{labels: {tier: test}, risk: high}]":                                                             "",
		"risk: high\nrules: [{labels: {a: b}, risk: medium}, {namespaces: [x], risk: low}]":                                   "",
		"risk: high\nrules: [{labels: {a: b}, risk: low}, {labels: {c: d}, risk: medium}]":                                    "",
		"classes: {tag-missing: {risk: high}}\nrules: [{labels: {a: b}, classes: [tag-missing], risk: medium}]":               "",
		"risk: high\nrules: [{classes: [ram-permission], risk: low}, {labels: {a: b}, classes: [tag-missing], risk: medium}]": "",
	} {
		_, err := Parse([]byte(text), classes)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// For every policy: labels never allow a Service more, whatever the order of rules, and unknown namespace labels never more than any.
// An accepted policy is read back the same.
func TestLabelLaw(t *testing.T) {
	t.Parallel()
	t.Logf("-labels=%d plays this again", *seed)
	r := rand.New(rand.NewPCG(*seed, 0))
	taken := 0
	for range 3000 {
		p := anyPolicy(r)
		if text, err := json.Marshal(p); err != nil {
			t.Fatal(err)
		} else if q, err := Parse(text, classes); err == nil {
			p, taken = q.Policy, taken+1
		}
		class := pick(r, "ram-permission", "tag-missing", "another")
		place := remedy.Place{Cluster: pick(r, "c1", "c2"), Namespace: pick(r, "", "x", "y"), Around: anyLabels(r)}
		labelled, both, blind := place, place, place
		labelled.Labels, both.Labels, blind.Around = anyLabels(r), map[string]string{}, nil
		maps.Copy(both.Labels, anyLabels(r))
		maps.Copy(both.Labels, labelled.Labels)
		if place.Namespace == "" {
			place.Around, labelled.Around, both.Around = nil, nil, nil
		}
		for _, tt := range []struct {
			said       string
			is, allows remedy.Permission
		}{
			{"a label of the Service", p.At(class, labelled), p.At(class, place)},
			{"a label on a Service with another one", p.At(class, both), p.At(class, labelled)},
			{"a namespace that cannot be read", p.At(class, blind), p.At(class, place)},
		} {
			if looser(tt.is, tt.allows) {
				t.Fatalf("%s allows class %s at %+v %+v, more than %+v, by %+v", tt.said, class, labelled, tt.is, tt.allows, p)
			}
		}
	}
	if taken < 150 {
		t.Errorf("%d policies were taken: too few to tell", taken)
	}
}

func looser(is, than remedy.Permission) bool {
	for _, risk := range []remedy.Risk{remedy.Low, remedy.Medium, remedy.High} {
		for _, oneWay := range []say.Text{nil, say.Literal("it")} {
			for _, optIn := range []bool{false, true} {
				class := &remedy.Remedy{OptIn: optIn}
				may, _ := is.Allows(class, risk, oneWay)
				might, _ := than.Allows(class, risk, oneWay)
				if may && !might {
					return true
				}
			}
		}
	}
	return is.Mode == remedy.Fix && (than.Mode != remedy.Fix || is.Risk > than.Risk || is.OneWay && !than.OneWay || is.Named && !than.Named)
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func some[T any](r *rand.Rand, v T) T { return pick(r, v, *new(T)) }

func anyRisk(r *rand.Rand) *remedy.Risk {
	return pick(r, nil, new(remedy.Low), new(remedy.Medium), new(remedy.High))
}

func anyLabels(r *rand.Rand) map[string]string {
	all := map[string]string{"kubernetes.io/metadata.name": "x"}
	for _, key := range []string{"a", "b"} {
		if r.IntN(2) == 0 {
			all[key] = pick(r, "1", "2")
		}
	}
	for key, values := range map[string][]string{remedy.ModeLabel: {"observe", "fix"}, remedy.MuteLabel: {"true", "false"}} {
		if r.IntN(8) == 0 {
			all[key] = pick(r, values...)
		}
	}
	return all
}

func anyPolicy(r *rand.Rand) remedy.Policy {
	p := remedy.Policy{Mode: pick(r, remedy.Observe, remedy.Fix), Risk: *pick(r, new(remedy.Low), new(remedy.Medium), new(remedy.High))}
	for _, id := range classes {
		if r.IntN(3) == 0 {
			if p.Classes == nil {
				p.Classes = map[string]remedy.Class{}
			}
			p.Classes[id] = remedy.Class{Mode: some(r, remedy.Fix), Risk: anyRisk(r), OneWay: r.IntN(2) == 0}
		}
	}
	for range r.IntN(5) {
		rule := remedy.Rule{Clusters: some(r, []string{pick(r, "c1", "c?")}), Namespaces: some(r, []string{pick(r, "x", "*")}),
			Classes: some(r, []string{pick(r, classes...)}), Mode: pick(r, "", remedy.Observe, remedy.Fix)}
		if r.IntN(2) == 0 {
			rule.NamespaceLabels = map[string]string{pick(r, "a", "b"): pick(r, "1", "2")}
		}
		if r.IntN(2) == 0 {
			rule.Labels = map[string]string{pick(r, "a", "b"): pick(r, "1", "2")}
		}
		if rule.Risk = anyRisk(r); rule.Mode == remedy.Observe {
			rule.Risk = nil
		} else if rule.Mode == "" && rule.Risk == nil {
			rule.Mode = remedy.Observe
		}
		p.Rules = append(p.Rules, rule)
	}
	return p
}
