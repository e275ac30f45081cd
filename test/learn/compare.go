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

// Verdicts say, by kind and difference, why it does not matter to this project. A * in a difference stands for any text.
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

// of returns the verdict on a difference, and the words by which it is in the file.
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

// A Difference is what the source has and the tables do not (+), or the other way round (-).
type Difference struct {
	What    string   `json:"what"`
	Where   []string `json:"where"`             // in the source, or in the tables
	Verdict string   `json:"verdict,omitempty"` // empty: it is open
	as      string
}

// A Result is what came out for a kind of facts.
type Result struct {
	Kind        string       `json:"kind"`
	Source      int          `json:"source"` // how many the source has
	Tables      int          `json:"tables"` // how many the tables have
	Verdicts    int          `json:"verdicts"`
	Open        int          `json:"open"`
	Differences []Difference `json:"differences,omitempty"`
}

// compare puts the facts of a source beside the tables.
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
	// outermost is what the controller puts before the error of a sync.
	outermost = regexp.MustCompile(`^(?:DryRun: )?Error (?:syncing|deleting) load balancer(?: \[[^\]]*\])?: `)
	// foreign is where the text of something else begins in a message: a cloud's answer, or a connection that failed.
	foreign = regexp.MustCompile(`Message: |(?:Get|Post) "|SDK\.|lookup |dial tcp|context deadline exceeded$`)
)

// compareTexts notes the formats that neither the corpus nor a class knows, and the messages of the corpus that no format makes.
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
