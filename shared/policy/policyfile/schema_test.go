package policyfile

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

var right = []string{
	"{}", "mode: observe", "mode: fix", "mode: fix\nrisk: high", "classes: {tag-missing: {}}",
	"mode: fix\nclasses: {ram-permission: {risk: low}, tag-missing: {mode: fix, risk: high, oneWay: true}}",
	"rules: [{namespaces: ['prod-*', 'on', '012'], risk: low}, {clusters: ['*'], namespaceLabels: {'a/b.c': 'true'}, classes: [tag-missing], mode: fix, " +
		"risk: high}, {labels: {'c/d': 'on'}, mode: observe}]",
	"freezes: [{name: 'yes', days: [fri, mon], from: '09:00', until: '24:00', zone: Asia/Shanghai}, {name: 'a: b', from: '22:30', until: '06:00'}]",
	"freezes: [{name: s, from: 2026-11-10T20:00:00.5+08:00, until: 2026-11-12T02:00:00+08:00}]",
	"freezes: [{name: summer, from: '08:00', until: '09:00', zone: Europe/Berlin}]",
	"budgets: {attempts: 1, class: 50, share: 100%, least: 10}\nunsettled: undo",
	"vswitches: {allow: [vsw-1], reserve: 0, replaceMissing: true}\nramDelay: 90s\npayBySpec: true",
	"doctor: {protect: ['prod-*'], target: v1.9.3.380, localPorts: 20000-60999}",
	"mode: fix\ntell: [{name: e, kind: event, results: [needs-action]}, {name: ops, kind: webhook, url: 'https://x/y', secretFrom: {env: 'NO'}}]",
}

// Editors and Helm use the schema. It accepts what the reader accepts, and refuses values that the reader refuses on their own.
func TestSchema(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("policy.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("policy.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("policy.json")
	if err != nil {
		t.Fatal(err)
	}
	judge := func(text string) error {
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		data, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if value, err = jsonschema.UnmarshalJSON(bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		return schema.Validate(value)
	}
	for _, text := range append(right, "mode: ''\nrisk: ''\nramDelay: ''\nbudgets: {share: ''}\nclasses: {tag-missing: {mode: '', risk: ''}}") {
		if err := judge(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if _, err := Parse([]byte(text), classes); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{
		"mode: fixx", "mod: fix", "risk: lowish", "risk: 3", "classes: {tag-mising: {}}", "classes: {tag-missing: {mode: never}}",
		"classes: {tag-missing: {risk: 5}}",
		"rules: [{namespace: [a], mode: fix}]", "rules: [{namespaces: a, mode: fix}]", "rules: [{mode: never}]", "rules: [{classes: [x], mode: fix}]",
		"rules: [{namespaces: [''], risk: low}]", "budgets: {attempts: -1}", "budgets: {attempts: 0}", "budgets: {class: 0}", "budgets: {least: 0}",
		"budgets: {attempts: many}", "budgets: {share: 120%}", "budgets: {share: 20}",
		"budgets: {share: 0%}", "unsettled: undoo", "freezes: [{from: '09:00', until: '10:00'}]", "freezes: [{name: '', from: '09:00', until: '10:00'}]",
		"freezes: [{name: a, from: '9', until: '10:00'}]", "freezes: [{name: a, days: [monday], from: '09:00', until: '10:00'}]",
		"doctor: {target: newest}", "doctor: {localPorts: '9-'}", "vswitches: {reserved: 2}", "vswitches: {reserve: some}", "payBySpec: perhaps", "ramDelay: 60",
		"tell: [{name: e, kind: pager}]", "tell: [{name: 'A b', kind: event}]", "tell: [{kind: event}]", "tell: [{name: e, kind: event, results: [gone]}]",
		"tell: [{name: e, kind: event, risks: [some]}]", "tell: [{name: e, kind: event, namespaces: ['']}]", "tell: [{name: e, kind: event, classes: [nope]}]",
	} {
		if err := judge(text); err == nil {
			t.Errorf("%s: the schema takes it", text)
		}
		if _, err := Parse([]byte(text), classes); err == nil {
			t.Errorf("%s: the reader takes it", text)
		}
	}
}
