package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/lbremedy/lbremedy/shared/event/schema"
	"github.com/lbremedy/lbremedy/shared/policy/policyfile"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// policyLimits are the policy reader's checks of single values, for editors and Helm. Only the reader compares values, such as two rules.
func policyLimits(all []*remedy.Remedy) []schema.Limit {
	var ids []string
	for _, r := range readers(all) {
		ids = append(ids, r.Class)
	}
	limits := []schema.Limit{
		{At: "classes{}", Words: ids}, {At: "Rule.classes[]", Words: ids},
		{At: "Rule.clusters[]", Pattern: "."}, {At: "Rule.namespaces[]", Pattern: "."}, {At: "Doctor.protect[]", Pattern: "."},
		{At: "unsettled", Words: []string{"leave", "undo", ""}},
		{At: "Freeze.name", Pattern: "."},
		{At: "Freeze.days[]", Words: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
		{At: "Freeze.from", Pattern: `^([0-9]{1,2}:[0-9]{2}|[0-9]{4}-[0-9]{2}-[0-9]{2}T.+)$`},
		{At: "Freeze.until", Pattern: `^([0-9]{1,2}:[0-9]{2}|[0-9]{4}-[0-9]{2}-[0-9]{2}T.+)$`},
		{At: "ApprovalRule.needs", Least: "0"}, {At: "ApprovalRule.from[]", Pattern: "^(user|group):."},
		{At: "Budgets.attempts", Least: "1"}, {At: "Budgets.class", Least: "1"}, {At: "Budgets.least", Least: "1"},
		{At: "Budgets.share", Pattern: `^([+]?0*([1-9][0-9]?|100)%)?$`},
		{At: "Doctor.target", Pattern: `^(v[0-9]+[.][0-9]+[.][0-9]+.*)?$`},
		{At: "Doctor.localPorts", Pattern: `^([0-9]+-[0-9]+)?$`},
		{At: "Person.user", Pattern: "."}, {At: "Person.groups[]", Pattern: "."},
		{At: "Sink.name", Pattern: policyfile.SinkName}, {At: "Sink.classes[]", Words: ids}, {At: "Sink.namespaces[]", Pattern: "."},
	}
	for field, words := range policyfile.SinkWords() {
		limits = append(limits, schema.Limit{At: "Sink." + field, Words: words})
	}
	return limits
}

// valuesFile is handwritten except for the definitions of the policy and the routes, since Helm reads no other file.
const valuesFile = "infra/cluster/values.schema.json"

func chartValues(dir string, policy, routes []byte) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(dir, valuesFile))
	if err != nil {
		return nil, fmt.Errorf("read the schema of the chart's values: %w", err)
	}
	for name, of := range map[string][]byte{"policy": policy, "routes": routes} {
		if text, err = define(text, name, of); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// define replaces a definition, which ends with the first brace of the same indentation.
func define(text []byte, name string, of []byte) ([]byte, error) {
	begin := fmt.Sprintf("\n    %q: { \"$comment\": \"From the schema of the %s file.\",\n", name, name)
	before, rest, begins := strings.Cut(string(text), begin)
	_, after, ends := strings.Cut(rest, "\n    }")
	if !begins || !ends {
		return nil, fmt.Errorf("%s lacks the definition of the %s, which begins with %q", valuesFile, name, begin)
	}
	var lines []string
	for line := range strings.Lines(strings.ReplaceAll(string(of), `"#/$defs/`, `"#/$defs/`+name+`/$defs/`)) {
		// An ID would begin a separate document, in which references would be resolved.
		if strings.HasPrefix(line, `  "$id"`) || strings.HasPrefix(line, `  "$schema"`) {
			continue
		}
		lines = append(lines, "    "+line)
	}
	return []byte(before + begin + strings.TrimSuffix(strings.Join(lines[1:], ""), "\n") + after), nil
}
