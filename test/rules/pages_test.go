package rules

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/test/pages"
)

// shown checks that a test runs each command that a page shows, or that its block says what it needs and no test has.
func shown(tr *tree) []string {
	var out []string
	runs := map[string]bool{}
	for _, f := range tr.files {
		calls := strings.Contains(string(f.text), "pages.Of(") && strings.Contains(string(f.text), fmt.Sprintf("%q)", f.dir()))
		runs[f.dir()] = runs[f.dir()] || calls && strings.HasSuffix(f.name, "_test.go")
		if path.Ext(f.name) != ".md" {
			continue
		}
		commands, wrong := pages.Read(f.name, string(f.text))
		out = append(out, wrong...)
		for _, c := range commands {
			if c.Needs == "" && c.Runner() == "" {
				out = append(out, c.String()+": no test runs it: let one do so (test/pages), or begin the block with a line such as \"# Needs an account.\"")
			}
		}
	}
	for _, folder := range pages.Runners() {
		if tr.file("test/pages/pages.go") != nil && !runs[folder] {
			out = append(out, fmt.Sprintf("%s: test/pages says that a test here runs commands of the pages: call pages.Of(…, %q) in one", folder, folder))
		}
	}
	return out
}

var installs = []string{"infra/cluster/README.md", "infra/fc/README.md", "infra/knative/README.md"}

var (
	variable = regexp.MustCompile(`\$\{?([A-Z][A-Z0-9_]*)`)
	assigned = regexp.MustCompile(`[ "]([A-Z][A-Z0-9_]*)=`)
	blank    = regexp.MustCompile(`…|<[a-z][a-z ]*>|(?:^|[ =/])(?:ACCOUNT|CASE|CLUSTER|DIR|FILE|ID|NAMESPACE|REGION|REGISTRY|TAG)(?:$|[ /,:])`)
)

// copied checks that the commands of the installation pages can be copied unchanged: values that differ between installations are
// variables that an earlier command sets.
func copied(tr *tree) []string {
	var out []string
	for _, name := range installs {
		f := tr.file(name)
		if f == nil {
			continue
		}
		set := map[string]bool{"USER": true}
		commands, _ := pages.Read(name, string(f.text))
		for _, c := range commands {
			text, _, _ := strings.Cut(c.Text, " #")
			if found := blank.FindString(text); found != "" {
				out = append(out, fmt.Sprintf("%s: %q has to be filled in: use a variable that the page sets before", c, strings.TrimSpace(found)))
			}
			if strings.HasPrefix(c.Text, "export ") {
				for _, m := range assigned.FindAllStringSubmatch(c.Text, -1) {
					set[m[1]] = true
				}
			}
			for _, m := range variable.FindAllStringSubmatch(c.Text, -1) {
				if !set[m[1]] {
					out = append(out, fmt.Sprintf("%s: nothing on this page sets %s before", c, m[1]))
				}
			}
		}
	}
	return out
}

var forWhom = regexp.MustCompile(`(?i)\bfor (?:those|operators|(?:platform )?engineers)\b|面向`)

// readers checks that a page's first paragraph says for whom it is. Pages of classes and checks begin with the message that people met.
func readers(tr *tree) []string {
	var out []string
	for _, f := range tr.files {
		base := path.Base(f.name)
		if path.Ext(base) != ".md" || matches(f.name, "functions/*/doc.md", "functions/*/doc.zh.md") || f.dir() == "functions/doctor" && base != "README.md" ||
			strings.Contains(f.name, "/testdata/") {
			continue
		}
		_, text, _ := strings.Cut("\n"+string(f.text), "\n# ")
		_, text, _ = strings.Cut(text, "\n\n")
		if first, _, _ := strings.Cut(text, "\n\n"); !forWhom.MatchString(first) {
			out = append(out, f.name+": the first paragraph doesn't say for whom the page is, such as \"For operators\"")
		}
	}
	return out
}

var benchmark = regexp.MustCompile(`-bench '?(\w+)\S* .*(\./\S+)`)

// TestShown checks that the make targets and benchmarks that pages mention exist. make -n also checks the prerequisites. Nothing
// runs here: this test is part of "make check" and "make test", and the rest takes minutes.
func TestShown(t *testing.T) {
	const root = "../.."
	for _, c := range pages.Of(t, root, "test/rules") {
		text, _, _ := strings.Cut(c.Text, " #")
		if m := benchmark.FindStringSubmatch(text); m != nil {
			sources, err := os.ReadDir(root + "/" + m[2])
			if err != nil || !slices.ContainsFunc(sources, func(e os.DirEntry) bool {
				text, err := os.ReadFile(root + "/" + m[2] + "/" + e.Name())
				return err == nil && strings.Contains(string(text), "\nfunc Benchmark"+m[1]+"(")
			}) {
				t.Errorf("%s: there is no such benchmark (%v)", c, err)
			}
			continue
		}
		words := strings.Fields(text)
		if words[0] != "make" {
			t.Errorf("%s: what does this run?", c)
			continue
		}
		cmd := exec.CommandContext(t.Context(), "make", append([]string{"-n", "-C", root}, words[1:]...)...)
		cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", c, err, out)
		}
	}
}
