package rules

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

var (
	goLine      = regexp.MustCompile(`(?m)^go (\S+)$`)
	toolchain   = regexp.MustCompile(`(?m)^toolchain (\S+)$`)
	requirement = regexp.MustCompile(`(?m)^(?:require )?\t?([\w.-]+\.[\w./~-]+) (v\S+)( // indirect)?$`)
	toolLine    = regexp.MustCompile(`(?m)^(?:tool )?\t?([\w.-]+\.[\w./~-]+)$`)
	replacement = regexp.MustCompile(`(?m)^(?:replace )?\t?(\S+)(?: v\S+)? => \S+ (v\S+)$`)
)

// namedIn returns the versions that a go.mod file chooses itself: of modules that its code or tools import, and of replacements.
// All others follow from these.
func namedIn(text string) map[string]string {
	versions, all := map[string]string{}, map[string]string{}
	for _, m := range requirement.FindAllStringSubmatch(text, -1) {
		all[m[1]] = m[2]
		if m[3] == "" {
			versions[m[1]] = m[2]
		}
	}
	for _, m := range toolLine.FindAllStringSubmatch(text, -1) {
		for of := m[1]; of != "."; of = path.Dir(of) {
			if version, ok := all[of]; ok {
				versions[of] = version
				break
			}
		}
	}
	for _, m := range replacement.FindAllStringSubmatch(text, -1) {
		versions[m[1]] = m[2]
	}
	return versions
}

// modules checks that all modules use one Go version and the same versions of modules, so tests run with the versions that are shipped.
func modules(tr *tree) []string {
	type place struct{ file, version string }
	var out []string
	var goes, chain string // of the first
	seen := map[string]place{}
	for _, f := range tr.files {
		if path.Ext(f.name) != ".mod" || strings.Contains("/"+f.name, "/testdata/") {
			continue
		}
		text := string(f.text)
		version := func(line *regexp.Regexp) string {
			if m := line.FindStringSubmatch(text); m != nil {
				return m[1]
			}
			return ""
		}
		g, c := version(goLine), version(toolchain)
		if goes == "" {
			goes, chain = g, c
		}
		if g == "" || g != goes {
			out = append(out, fmt.Sprintf("%s: the line \"go %s\": write \"go %s\", as in all modules", f.name, g, goes))
		}
		if c == "" || c != chain {
			out = append(out, fmt.Sprintf("%s: the line \"toolchain %s\": write one line for all modules, with the newest patch of Go", f.name, c))
		}
		versions := namedIn(text)
		for _, name := range sorted(versions) {
			first, ok := seen[name]
			switch {
			case !ok:
				seen[name] = place{f.name, versions[name]}
			case first.version != versions[name]:
				out = append(out, fmt.Sprintf("%s: %s %s: %s has %s: require one version", f.name, name, versions[name], first.file, first.version))
			}
		}
	}
	return out
}

func TestModules(t *testing.T) {
	const first = "module m\n\ngo 1.26.0\n\ntoolchain go1.26.11\n\n" +
		"require (\n\ta.io/a v1.0.0\n\ta.io/b v1.0.0 // indirect\n\ta.io/c/v2 v2.0.0\n\tk8s.io/api v0.37.2\n)\n"
	head := strings.Split(first, "require")[0]
	for name, tt := range map[string]struct {
		second string
		want   []string
	}{
		"the same":              {first, nil},
		"other indirect ones":   {head + "require (\n\ta.io/a v1.0.1 // indirect\n\ta.io/b v1.0.1\n)\n", nil},
		"no toolchain":          {"module n\n\ngo 1.26.0\n", []string{"x/go.mod: the line \"toolchain \""}},
		"another toolchain":     {"module n\n\ngo 1.26.0\n\ntoolchain go1.26.8\n", []string{"\"toolchain go1.26.8\""}},
		"another Go":            {"module n\n\ngo 1.26.1\n\ntoolchain go1.26.11\n", []string{"write \"go 1.26.0\""}},
		"another version":       {head + "require a.io/a v1.0.1\n", []string{"x/go.mod: a.io/a v1.0.1: go.mod has v1.0.0"}},
		"of a tool":             {head + "tool a.io/c/v2/cmd/c\n\nrequire a.io/c/v2 v2.0.1 // indirect\n", []string{"a.io/c/v2 v2.0.1"}},
		"of tools":              {head + "tool (\n\ta.io/c/v2\n)\n\nrequire (\n\ta.io/c/v2 v2.0.1 // indirect\n)\n", []string{"a.io/c/v2 v2.0.1"}},
		"a replaced one":        {head + "require k8s.io/api v0.0.0\n\nreplace (\n\tk8s.io/api => k8s.io/api v0.37.1\n)\n", []string{"k8s.io/api v0.37.1"}},
		"a good replaced one":   {head + "require k8s.io/api v0.0.0\n\nreplace k8s.io/api => k8s.io/api v0.37.2\n", nil},
		"two other versions":    {head + "require (\n\ta.io/a v1.1.0\n\ta.io/c/v2 v2.1.0\n)\n", []string{"a.io/a", "a.io/c/v2"}},
		"another major version": {head + "require (\n\ta.io/c/v3 v3.0.0\n)\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			tr, err := read(fstest.MapFS{"go.mod": {Data: []byte(first)}, "x/go.mod": {Data: []byte(tt.second)}})
			if err != nil {
				t.Fatal(err)
			}
			got := modules(tr)
			if len(got) != len(tt.want) {
				t.Fatalf("got %q, want %q", got, tt.want)
			}
			for i, want := range tt.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("complaint %d is %q, want %q in it", i, got[i], want)
				}
			}
		})
	}
}
