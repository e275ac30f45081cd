package say_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/test/fixture"
)

// A command is a piece of its own, without the full stop of its sentence.
func TestPieces(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]say.Segment{
		"":                                   nil,
		"lbremedy makes no further attempt.": {{Text: "lbremedy makes no further attempt."}},
		"Approve the plan: lbremedy approve 3f9a12bc-20260101T000000. Or allow it in the policy file.": {
			{Text: "Approve the plan:"}, {Text: "lbremedy approve 3f9a12bc-20260101T000000", Command: true}, {Text: "Or allow it in the policy file."},
		},
		`Clear it: kubectl -n shop patch service web --subresource=status -p '{"a": "b. C"}', ` +
			`then trigger a resync: kubectl -n shop annotate service web a/b=by-hand-$(date +%s) --overwrite.`: {
			{Text: "Clear it:"}, {Text: `kubectl -n shop patch service web --subresource=status -p '{"a": "b. C"}'`, Command: true},
			{Text: "then trigger a resync:"}, {Text: "kubectl -n shop annotate service web a/b=by-hand-$(date +%s) --overwrite", Command: true},
		},
		"删除该注解：kubectl -n shop annotate service web a/b-。然后重试。": {
			{Text: "删除该注解："}, {Text: "kubectl -n shop annotate service web a/b-", Command: true}, {Text: "然后重试。"},
		},
		"Set both: kubectl a b, then kubectl c d, and kubectl e f. Then wait.": {
			{Text: "Set both:"}, {Text: "kubectl a b", Command: true}, {Text: "then"}, {Text: "kubectl c d", Command: true},
			{Text: "and"}, {Text: "kubectl e f", Command: true}, {Text: "Then wait."},
		},
		"请设置：kubectl a b，然后 kubectl c d，以及 kubectl e f。": {
			{Text: "请设置："}, {Text: "kubectl a b", Command: true}, {Text: "然后"}, {Text: "kubectl c d", Command: true},
			{Text: "以及"}, {Text: "kubectl e f", Command: true},
		},
		`No class covers it: "Error: kubectl delete namespace prod. \"Done\": kubectl a b". Look: kubectl c d "e: f".`: {
			{Text: `No class covers it: "Error: kubectl delete namespace prod. \"Done\": kubectl a b". Look:`}, {Text: `kubectl c d "e: f"`, Command: true},
		},
		"Its newest Event says: \"Error: kubectl a b…\nkubectl c d": { // cut
			{Text: "Its newest Event says: \"Error: kubectl a b…"}, {Text: "kubectl c d", Command: true},
		},
		"It changes and kubectl shows it.": {{Text: "It changes and kubectl shows it."}},
		"lbremedy approve x\nlbremedy doctor --fix a b --apply": {
			{Text: "lbremedy approve x", Command: true}, {Text: "lbremedy doctor --fix a b --apply", Command: true},
		},
	} {
		fixture.Equal(t, say.Segments(text), want)
	}
}

// In all classes' scenarios, each command is found and contains nothing else.
func TestPiecesOfWording(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../../test/scenario/testdata/wording.txt")
	if err != nil {
		t.Fatal(err)
	}
	begins, more := regexp.MustCompile(`: (kubectl|aliyun) `), regexp.MustCompile(`[.;,] [A-Z]|\.$`)
	n := 0
	for line := range strings.Lines(string(data)) {
		found := 0
		for _, p := range say.Segments(strings.TrimSpace(line)) {
			if p.Command {
				found, n = found+1, n+1
				if bare := regexp.MustCompile(`'[^']*'|"[^"]*"`).ReplaceAllString(p.Text, "''"); more.MatchString(bare) {
					t.Errorf("the command holds more than itself: %s", p.Text)
				}
			}
		}
		if want := len(begins.FindAllString(line, -1)); found < want {
			t.Errorf("%d of %d commands are found in: %s", found, want, line)
		}
	}
	if n < 100 {
		t.Errorf("%d commands are found", n)
	}
}

func FuzzPieces(f *testing.F) {
	f.Add("Do it: kubectl -n a b 'c. D'. E.")
	f.Fuzz(func(t *testing.T, text string) {
		for _, p := range say.Segments(text) {
			if p.Text == "" || !strings.Contains(text, p.Text) {
				t.Errorf("of %q there is the piece %q", text, p.Text)
			}
		}
	})
}
