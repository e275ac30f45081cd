package rules

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// A word is forbidden in every file. It is concatenated from parts, so this file does not contain it.
type word struct {
	parts   []string // in lower case: only texts that contain one are matched with the pattern
	pattern string
	why     string
}

var forbidden = []word{
	{[]string{"to" + "do", "fix" + "me", "xx" + "x"}, `\b(?:TO` + `DO|FIX` + `ME|XX` + `X)\b`, "do it, or leave it out"},
	{[]string{"not implem" + "ented", "place" + "holder", "for n" + "ow"}, `(?i)\b(?:not implem` + `ented|place` + `holder|for n` + `ow)\b`,
		"do it, or say it otherwise"},
	{[]string{".sk" + "ip"}, `\b(?:t|b|f|tb)\.Sk` + `ip(?:f|Now)?\(`, "a test that does not run proves nothing: give it what it needs"},
	{[]string{"/wo" + "rk/", "/ro" + "ot/", "/ho" + "me/", "/us" + "ers/"}, `(?:^|[^\w.~})/-])/(?:wo` + `rk|ro` + `ot|ho` + `me|Us` + `ers)/\w`,
		"a path of one machine: make it relative, or ask the system"},
	{[]string{"proxy", "sum.golang", "npmjs", "pypi", "rubygems", "crates"},
		`\b(?:proxy\.golang|sum\.golang|registry\.npmjs|pypi|rubygems|crates)\.(?:org|io)\b|\bgoproxy\.(?:cn|io)\b`,
		"a package registry's host: GOPROXY and its like say where packages come from"},
}

func words(tr *tree) []string {
	var out []string
	for _, f := range tr.files {
		if f.binary() || path.Ext(f.name) == ".sum" {
			continue
		}
		lower := strings.ToLower(string(f.text))
		for _, w := range forbidden {
			if !slices.ContainsFunc(w.parts, func(part string) bool { return strings.Contains(lower, part) }) {
				continue
			}
			pattern := regexp.MustCompile(w.pattern)
			for i, line := range strings.Split(string(f.text), "\n") {
				if found := pattern.FindString(line); found != "" {
					out = append(out, fmt.Sprintf("%s:%d: %q: %s", f.name, i+1, strings.TrimSpace(found), w.why))
				}
			}
		}
	}
	return out
}

// moving finds a tag that will mean another image tomorrow, of an image or as a value.
var moving = regexp.MustCompile(`(?i):late` + `st\b|\b(?:tag|appversion)\b\W{1,6}late` + `st\b`)

// tags checks that images are not named, or defaulted, by such a tag. Test data may use one, because clusters have such images.
func tags(tr *tree) []string {
	var out []string
	for _, f := range tr.files {
		if f.binary() || strings.Contains("/"+f.name, "/testdata/") {
			continue
		}
		for i, line := range strings.Split(string(f.text), "\n") {
			if found := moving.FindString(line); found != "" {
				out = append(out, fmt.Sprintf("%s:%d: %q: this tag is another image tomorrow: require a version, or a digest", f.name, i+1, found))
			}
		}
	}
	return out
}

// columns is the maximum number of columns of a line of Go. A tab counts as one.
const columns = 160

func lines(tr *tree) []string {
	var out []string
	for _, f := range tr.files {
		if path.Ext(f.name) != ".go" {
			continue
		}
		for i, line := range strings.Split(string(f.text), "\n") {
			if n := utf8.RuneCountInString(line); n > columns {
				out = append(out, fmt.Sprintf("%s:%d: %d columns, and at most %d: break it after a comma or an operator", f.name, i+1, n, columns))
			}
		}
	}
	return out
}

var roots = []string{
	"functions", "shared", "events", "infra", "test",
	"go.mod", "go.sum", "Makefile", "s.yaml", "README.md", "README.zh-CN.md", "SECURITY.md", "CONTRIBUTING.md", "LICENSE", "CHANGELOG.md",
}

var vague = []string{
	"pkg", "internal", "util", "utils", "common", "docs", "helper", "helpers", "base", "manager", "types", "misc", "lib", "vendor",
}

func shape(tr *tree) []string {
	seen := map[string]bool{}
	var out []string
	for _, f := range tr.files {
		parts := strings.Split(f.name, "/")
		if top := parts[0]; !seen[top] && !strings.HasPrefix(top, ".") && !slices.Contains(roots, top) {
			seen[top] = true
			out = append(out, top+": the root holds nothing but "+strings.Join(roots, ", ")+" and dot files: find it a place below them")
		}
		for i, dir := range parts[:len(parts)-1] {
			at := strings.Join(parts[:i+1], "/")
			if !seen[at] && slices.Contains(vague, dir) {
				seen[at] = true
				out = append(out, at+": the name says nothing: name the folder after what it holds; design decisions belong to package comments")
			}
		}
	}
	return out
}

func scripts(tr *tree) []string {
	var out []string
	for _, f := range tr.files {
		if strings.HasPrefix(string(f.text), "#!") && f.mode&0o111 == 0 {
			out = append(out, f.name+": a script that can't be run: chmod +x "+f.name)
		}
	}
	return out
}

var (
	link     = regexp.MustCompile(`\]\(([^)#:\s]*)(?:#([^)\s]*))?\)`)
	heading  = regexp.MustCompile(`(?m)^#+ (.+)$`)
	unlinked = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

func anchors(text []byte) map[string]bool {
	out := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(string(text), -1) {
		out[strings.ReplaceAll(unlinked.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return out
}

func links(tr *tree) []string {
	there := map[string]bool{}
	for _, f := range tr.files {
		for name := f.name; name != "."; name = path.Dir(name) {
			there[name] = true
		}
	}
	var out []string
	for _, f := range tr.files {
		if path.Ext(f.name) != ".md" {
			continue
		}
		for i, line := range strings.Split(string(f.text), "\n") {
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				to := f.name
				if m[1] != "" {
					to = path.Join(path.Dir(f.name), m[1])
				}
				switch page := tr.file(to); {
				case !there[to]:
					out = append(out, fmt.Sprintf("%s:%d: the link leads to %s, which does not exist", f.name, i+1, to))
				case m[2] != "" && page != nil && path.Ext(to) == ".md" && !anchors(page.text)[m[2]]:
					out = append(out, fmt.Sprintf("%s:%d: the link leads to the heading #%s of %s, which has none", f.name, i+1, m[2], to))
				}
			}
		}
	}
	return out
}

var promised = []string{"help", "new", "gen", "check", "test", "race", "demo", "e2e", "bench", "build", "clean"}

var target = regexp.MustCompile(`(?m)^([a-z0-9][a-z0-9-]*):([^=\n].*)?$`)

func targets(tr *tree) map[string]string {
	out := map[string]string{}
	if f := tr.file("Makefile"); f != nil {
		for _, m := range target.FindAllStringSubmatch(string(f.text), -1) {
			out[m[1]] = m[0]
		}
	}
	return out
}

func (tr *tree) file(name string) *file {
	i := slices.IndexFunc(tr.files, func(f *file) bool { return f.name == name })
	if i < 0 {
		return nil
	}
	return tr.files[i]
}

func makefile(tr *tree) []string {
	have := targets(tr)
	var out []string
	for _, name := range promised {
		if _, ok := have[name]; !ok {
			out = append(out, "Makefile: no target "+name)
		}
	}
	for _, name := range sorted(have) {
		if _, help, ok := strings.Cut(have[name], "## "); !ok || !strings.HasSuffix(help, ".") {
			out = append(out, "Makefile: target "+name+" has no help: write ## and a sentence behind it")
		}
	}
	return out
}

var mention = regexp.MustCompile("(?m)(?:^\\$? ?|`)make ([a-z0-9][a-z0-9 -]*)")

// commands checks that pages mention only existing targets, the README what a newcomer needs, and that CI runs the same targets.
func commands(tr *tree) []string {
	have := targets(tr)
	var out []string
	for _, f := range tr.files {
		if path.Ext(f.name) != ".md" {
			continue
		}
		for _, m := range mention.FindAllStringSubmatch(string(f.text), -1) {
			for _, name := range strings.Fields(m[1]) {
				if _, ok := have[name]; !ok {
					out = append(out, f.name+": names make "+name+", which the Makefile does not have")
				}
			}
		}
	}
	for name, lines := range map[string][]string{
		"README.md": {"make demo", "make test"},
		".ci/run":   {"make check", "make race", "make test"},
	} {
		f := tr.file(name)
		if f == nil {
			out = append(out, name+": missing")
			continue
		}
		rest := string(f.text)
		for _, line := range lines {
			at := regexp.MustCompile(`(?m)^(?:\$ )?` + line + `\b`).FindStringIndex(rest)
			if at == nil {
				out = append(out, fmt.Sprintf("%s: no line %q where it belongs: %s, in this order", name, line, strings.Join(lines, ", ")))
				break
			}
			rest = rest[at[1]:]
		}
	}
	slices.Sort(out)
	return out
}

var (
	uses   = regexp.MustCompile(`\buses:\s*(.*)$`)
	pinned = regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40} # v[0-9]+\.[0-9]+\.[0-9]+$`)
	script = regexp.MustCompile(`^\s*(?:- )?run:.*?(\$\{\{[^}]*\}\})|^\s{10,}[^#\s:]+ .*?(\$\{\{[^}]*\}\})`)
)

// workflows checks that workflows pin the code that they run, request the fewest permissions, and insert no expression into a script: values
// reach it as variables, which neither the log nor the shell interprets.
func workflows(tr *tree) []string {
	var out []string
	for _, f := range tr.files {
		if !strings.HasPrefix(f.name, ".github/workflows/") {
			continue
		}
		text := string(f.text)
		if !strings.Contains(text, "\npermissions:") {
			out = append(out, f.name+": it begins with the rights of the repository's settings: write permissions: at the top")
		}
		for i, line := range strings.Split(text, "\n") {
			at := fmt.Sprintf("%s:%d: ", f.name, i+1)
			if strings.Contains(line, "pull_request"+"_target") {
				out = append(out, at+"pull_request"+"_target gives the secrets to who sends a change: use pull_request")
			}
			if m := uses.FindStringSubmatch(line); m != nil && !pinned.MatchString(m[1]) {
				out = append(out, at+"pin it to a whole commit, with its version behind it: uses: a/b@<40 digits> # v1.2.3")
			}
			if m := script.FindStringSubmatch(line); m != nil {
				out = append(out, at+m[1]+m[2]+" stands in a script: hand it over by env, and write \"$NAME\"")
			}
		}
	}
	return out
}
