package main

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Verdicts say, by kind and difference, why a difference does not matter. A * in a difference matches any text.
type Verdicts map[string]map[string]string

func readVerdicts(name string) (Verdicts, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var v Verdicts
	if err := yaml.UnmarshalStrict(data, &v); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	for kind, list := range v {
		if !slices.Contains(kinds, kind) {
			return nil, fmt.Errorf("%s: the kind %s is unknown; the kinds are: %s", name, kind, strings.Join(kinds, ", "))
		}
		for what, why := range list {
			if strings.TrimLeft(what, "+-") == what || strings.TrimSpace(why) == "" {
				return nil, fmt.Errorf("%s: %q begins with + or -, and has a reason", name, what)
			}
		}
	}
	return v, nil
}

func (v Verdicts) of(kind, what string) (as, why string) {
	if why := v[kind][what]; why != "" {
		return what, why
	}
	for _, as := range slices.Sorted(maps.Keys(v[kind])) {
		parts := strings.Split(as, "*")
		for i, p := range parts {
			parts[i] = regexp.QuoteMeta(p)
		}
		if regexp.MustCompile("^(?s:" + strings.Join(parts, ".*") + ")$").MatchString(what) {
			return as, v[kind][as]
		}
	}
	return "", ""
}

// A Difference is a fact of the source that the tables lack (+), or the reverse (-).
type Difference struct {
	What    string   `json:"what"`
	Where   []string `json:"where"`             // in the source, or in the tables
	Verdict string   `json:"verdict,omitempty"` // empty: open
	as      string
}

// A Result is the comparison of one kind of facts.
type Result struct {
	Kind        string       `json:"kind"`
	Source      int          `json:"source"` // number in the source
	Tables      int          `json:"tables"` // number in the tables
	Verdicts    int          `json:"verdicts"`
	Open        int          `json:"open"`
	Differences []Difference `json:"differences,omitempty"`
}

func compare(source Facts, ours Tables, verdicts Verdicts) ([]Result, error) {
	var all []Result
	for _, kind := range kinds {
		r := Result{Kind: kind, Source: len(source[kind]), Tables: len(ours.Facts[kind])}
		found := source[kind]
		if kind == actions {
			found = grouped(found)
		}
		note := func(sign, name string, where []string) {
			d := Difference{What: sign + name, Where: where}
			if d.as, d.Verdict = verdicts.of(kind, d.What); d.Verdict != "" {
				r.Verdicts++
			} else {
				r.Open++
			}
			r.Differences = append(r.Differences, d)
		}
		if kind == texts {
			r.Tables = len(ours.messages)
			if err := compareTexts(found, source[wrappers], ours, note); err != nil {
				return nil, err
			}
			all = append(all, r)
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(found)) {
			about, reason := name[:strings.IndexByte(name+" ", ' ')], name[strings.LastIndexByte(name, ' ')+1:]
			if ours.Facts[kind][name] == nil && !(kind == events && ours.watched(about, reason)) {
				note("+", name, found[name])
			}
		}
		for _, name := range slices.Sorted(maps.Keys(ours.Facts[kind])) {
			if found[name] == nil {
				note("-", name, ours.Facts[kind][name])
			}
		}
		all = append(all, r)
	}
	return all, nil
}

var (
	// outermost matches the controller's prefix of a sync's error.
	outermost = regexp.MustCompile(`^(?:DryRun: )?Error (?:syncing|deleting) load balancer(?: \[[^\]]*\])?: `)
	// foreign finds the beginning of text from elsewhere in a message: a cloud's answer, or a failed connection.
	foreign = regexp.MustCompile(`Message: |(?:Get|Post) "|SDK\.|lookup |dial tcp|context deadline exceeded$`)
)

// compareTexts reports formats that neither the corpus nor a class knows, and messages of the corpus that no format produces.
func compareTexts(found, wraps map[string][]string, ours Tables, note func(sign, name string, where []string)) error {
	made := make([]bool, len(ours.messages))
	for i, formats := range []map[string][]string{wraps, found} {
		decides := i == 1
		for _, format := range slices.Sorted(maps.Keys(formats)) {
			re, err := pattern(format)
			if err != nil {
				return err
			}
			known := slices.ContainsFunc(ours.samples, re.MatchString) || slices.ContainsFunc(ours.messages, re.MatchString)
			for i, m := range ours.messages {
				made[i] = made[i] || re.MatchString(outermost.ReplaceAllString(m, ""))
			}
			if decides && !known && !ours.class(verb.ReplaceAllString(format, "x")) {
				note("+", format, found[format])
			}
		}
	}
	for i, m := range ours.messages {
		if !made[i] && !foreign.MatchString(m) {
			note("-", m, []string{"functions/*/testdata/corpus.jsonl"})
		}
	}
	return nil
}
