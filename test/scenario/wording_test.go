package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/lbremedy/lbremedy/functions"
)

const wordingFile = "testdata/wording.txt"

// TestWording keeps what all scenarios of all classes say to people in one file,
// so that it can be read side by side; -update writes it. It also holds the
// rules of style that every such text follows.
func TestWording(t *testing.T) {
	var b strings.Builder
	b.WriteString("What lbremedy says to people, in each scenario of each class.\n")
	for _, r := range functions.All {
		files, err := filepath.Glob(filepath.Join("../../functions", strings.ReplaceAll(r.Class, "-", ""), "testdata/*.txtar"))
		if err != nil || len(files) == 0 {
			t.Fatalf("class %s has no scenario: %v", r.Class, err)
		}
		fmt.Fprintf(&b, "\n== %s: %s\n", r.Class, r.Title())
		slices.Sort(files)
		for _, file := range files {
			story, want := wording(t, file)
			fmt.Fprintf(&b, "\n%s\n", story)
			for line := range strings.SplitSeq(want, "\n") {
				fmt.Fprintf(&b, "    %s\n", line)
			}
			for _, text := range spoken(want) {
				if fault := faulty(text); fault != "" {
					t.Errorf("%s: %s: %q", file, fault, text)
				}
			}
		}
	}
	if *update {
		if err := os.WriteFile(wordingFile, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(wordingFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("%s differs from what the scenarios say (-file +scenarios; run with -update to write it):\n%s", wordingFile, diff)
	}
}

// wording returns the sentence and the want section of a scenario.
func wording(t *testing.T, file string) (story, want string) {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range a.Files {
		if f.Name == "want" {
			want = strings.TrimSpace(string(f.Data))
		}
	}
	if want == "" {
		t.Errorf("%s has no want section: run its class's test with -update", file)
	}
	return strings.TrimSpace(string(a.Comment)), want
}

// spoken returns of a want section what is said to a person: the finding and the ask.
func spoken(want string) []string {
	var out []string
	keys := []string{"do:", "note:", "cause:", "wait:", "error:", "end:"}
	for line := range strings.SplitSeq(want, "\n") {
		if ask, ok := strings.CutPrefix(line, "ask:"); ok {
			out = append(out, strings.TrimSpace(ask))
		} else if !slices.ContainsFunc(keys, func(k string) bool { return strings.HasPrefix(line, k) }) {
			out = append(out, line)
		}
	}
	return out
}

// odd are traces of a value that was not there, or of a text put together badly.
var odd = regexp.MustCompile(`%!|<nil>|map\[|\bfailed to\b|  |\(\)|\[\]\.| ,| \.( |$)|\.\.( |$)|,,|\ba 1 |(^|[^/])\b1 (addresses|nodes|backends|Services|vSwitches|listeners|zones|Pods|load balancers)\b`)

// names are words in lower case that a sentence may begin with: an ID, and a program.
var names = regexp.MustCompile(`^([a-z]+-[\w-]+|kubectl|lbremedy) `)

// faulty returns the rule of style that a text breaks, or "".
func faulty(text string) string {
	switch {
	case text == "":
		return "an empty line"
	case unicode.IsLower([]rune(text)[0]) && !names.MatchString(text):
		return "it does not begin as a sentence does"
	case !strings.ContainsRune(`.:"'}`, []rune(text)[len([]rune(text))-1]):
		return "it does not end as a sentence does"
	case odd.MatchString(text):
		return fmt.Sprintf("it holds %q", odd.FindString(text))
	}
	return ""
}
