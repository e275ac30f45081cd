package rules

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// wordPattern finds the words of prose and of identifiers: ThePeersOf consists of three.
var wordPattern = regexp.MustCompile(`[A-Z]?[a-z]+`)

// retired returns the words of the last column of the glossary in CONTRIBUTING.md, each with its replacement.
func retired(contributing string) map[string]string {
	out := map[string]string{}
	_, table, found := strings.Cut(contributing, "\n## Words\n")
	if !found {
		return out
	}
	table, _, _ = strings.Cut(table, "\n## ")
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 || strings.Contains(cells[2], "--") || strings.TrimSpace(cells[0]) == "say" {
			continue
		}
		for _, w := range wordPattern.FindAllString(cells[2], -1) {
			out[strings.ToLower(w)] = strings.TrimSpace(cells[0])
		}
	}
	return out
}

// glossary checks that no prose and no name uses a word that the glossary replaced.
func glossary(tr *tree) []string {
	var instead map[string]string
	for _, f := range tr.files {
		if f.name == "CONTRIBUTING.md" {
			instead = retired(string(f.text))
		}
	}
	var out []string
	for _, f := range tr.files {
		ext := path.Ext(f.name) // other projects chose the names of modules
		if f.binary() || f.name == "CHANGELOG.md" || ext == ".mod" || ext == ".sum" || len(instead) == 0 {
			continue
		}
		for i, line := range strings.Split(string(f.text), "\n") {
			if f.name == "CONTRIBUTING.md" && strings.HasPrefix(line, "|") {
				continue
			}
			for _, w := range wordPattern.FindAllString(line, -1) {
				say, gone := instead[strings.ToLower(w)]
				if !gone {
					say, gone = instead[strings.TrimSuffix(strings.ToLower(w), "s")]
				}
				if gone {
					out = append(out, fmt.Sprintf("%s:%d: %q: say %s: see the words of CONTRIBUTING.md", f.name, i+1, strings.ToLower(w), say))
				}
			}
		}
	}
	return out
}

func TestGlossary(t *testing.T) {
	const old = "surve" + "y"
	const table = "# C\n\n## Words\n\n| say | for | not |\n|---|---|---|\n| case | a failure in hand | widget, " + old + " |\n\n## Next\n\n| a | b | other |\n"
	for text, want := range map[string]string{
		"package x\n\nfunc TheWidgets() {}\n":                       "say case",
		"package x\n\n// A widget is in hand.\n":                    "say case",
		"package x\n\n// The " + old + " is in hand.\n":             "say case",
		"package x\n\nvar matters, other, wide, get = 1, 2, 3, 4\n": "",
		"package x\n\nconst old = \"widget\"\n":                     "say case",
	} {
		tr, err := read(fstest.MapFS{"CONTRIBUTING.md": {Data: []byte(table)}, "shared/x/x.go": {Data: []byte(text)}})
		if err != nil {
			t.Fatal(err)
		}
		switch got := glossary(tr); {
		case want == "" && len(got) > 0, want != "" && (len(got) != 1 || !strings.Contains(got[0], want)):
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}
