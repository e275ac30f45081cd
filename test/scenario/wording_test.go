package scenario

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/tools/txtar"

	"github.com/lbremedy/lbremedy/functions"
)

// TestWording checks the style of all texts in all scenarios; testdata/wording.txt has them side by side.
func TestWording(t *testing.T) {
	for _, r := range functions.All {
		files, err := filepath.Glob(filepath.Join("../../functions", strings.ReplaceAll(r.Class, "-", ""), "testdata/*.txtar"))
		if err != nil || len(files) == 0 {
			t.Fatalf("class %s has no scenario: %v", r.Class, err)
		}
		for _, file := range files {
			for _, text := range spoken(wanted(t, file)) {
				if fault := faulty(text); fault != "" {
					t.Errorf("%s: %s: %q", file, fault, text)
				}
			}
		}
	}
}

func wanted(t *testing.T, file string) string {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range a.Files {
		if f.Name == "want" && len(f.Data) > 0 {
			return strings.TrimSpace(string(f.Data))
		}
	}
	t.Errorf("%s has no want section: run its class's test with -update", file)
	return ""
}

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

var odd = regexp.MustCompile(`%!|<nil>|map\[|\bfailed to\b|  |\(\)|\[\]\.| ,| \.( |$)|\.\.( |$)|,,|\ba 1 |(^|[^/])\b1 ` +
	`(addresses|nodes|backends|Services|vSwitches|listeners|zones|Pods|load balancers)\b`)

var quoted = regexp.MustCompile(`The message is "(\\.|[^"\\])*"`)

// names matches lower-case words that may begin a sentence: an ID or a program.
var names = regexp.MustCompile(`^([a-z]+-[\w-]+|kubectl|lbremedy) `)

func faulty(text string) string {
	switch {
	case text == "":
		return "an empty line"
	case unicode.IsLower([]rune(text)[0]) && !names.MatchString(text):
		return "it does not begin as a sentence does"
	case !strings.ContainsRune(`.:"'}`, []rune(text)[len([]rune(text))-1]):
		return "it does not end as a sentence does"
	}
	if trace := odd.FindString(quoted.ReplaceAllString(text, "The message is quoted")); trace != "" {
		return fmt.Sprintf("it holds %q", trace)
	}
	return ""
}
