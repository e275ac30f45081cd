package journal_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/journal"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/test/operator"
)

var begins = regexp.MustCompile(`\b(kubectl (-n|annotate|get|patch) |aliyun [a-z]+ [A-Z])`)

// beforeCommand counts the words before the first command, which has a line of its own; -1: no command.
func beforeCommand(t *testing.T, screen string) int {
	t.Helper()
	n := -1
	words := 0
	for line := range strings.Lines(screen) {
		line = strings.TrimSuffix(line, "\n")
		for i, piece := range say.Segments(line[min(11, len(line)):]) {
			if !piece.Command {
				if begins.MatchString(piece.Text) {
					t.Errorf("a command inside a sentence: %q", line)
				}
				continue
			}
			if i > 0 || strings.HasSuffix(piece.Text, ".") {
				t.Errorf("a command that can't be pasted as a line: %q", line)
			}
			if n < 0 {
				n = words
				if name, _, ok := strings.Cut(line[:11], "  "); ok && name != "" {
					n += len(strings.Fields(name))
				}
			}
		}
		words += len(strings.Fields(line))
	}
	return n
}

var aboutOther = regexp.MustCompile(`(?m)^about: (node|cluster)`)

func firstCommand(text string) (has bool, before int) {
	for _, piece := range say.Segments(text) {
		if piece.Command {
			return true, before
		}
		before += len(strings.Fields(piece.Text))
	}
	return false, before
}

// A command comes within 60 words for every finding and question of a class, and no part of the finding is lost.
func TestCommandFirst(t *testing.T) {
	t.Parallel()
	var files []string
	for _, pattern := range []string{"../../../*/testdata/*.txtar", "../../../doctor/testdata/*/*.txtar"} {
		more, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	seen, divided := 0, 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, want, _ := strings.Cut(string(data), "\n-- want --\n")
		want, _, _ = strings.Cut(want, "\n-- ")
		r := operator.Journalled()[3]
		r.Finding, r.Ask, r.Impact = nil, nil, event.Frozen
		for line := range strings.Lines(want) {
			line = strings.TrimSpace(line)
			switch key, text, _ := strings.Cut(line, ":"); {
			case key == "ask":
				r.Ask = say.Literal(strings.TrimSpace(text))
			case len(r.Finding) == 0 && !slices.Contains([]string{"do", "cause", "end", "wait", "error", "note"}, key):
				r.Finding = say.Literal(line)
			}
		}
		if len(r.Ask) == 0 || len(r.Finding) == 0 {
			continue
		}
		seen++
		shown := func(change func(*event.Record)) {
			one := r
			change(&one)
			var out bytes.Buffer
			p := operator.Call{Env: map[string]string{"COLUMNS": "120"}}.Program(&out, io.Discard)
			p.Output = "table"
			journal.Report(p, one)
			n := beforeCommand(t, out.String())
			if n < 0 || n > 60 {
				t.Errorf("%s: %d words before the first command:\n%s", file, n, out.String())
			}
			text := strings.Join(strings.Fields(out.String()), " ")
			for _, sentence := range strings.SplitAfter(r.Finding.String(), ". ") {
				if !strings.Contains(text, strings.Join(strings.Fields(sentence), " ")) {
					t.Errorf("%s: %q is lost:\n%s", file, sentence, out.String())
				}
			}
			if strings.Contains(out.String(), "\nDetails ") {
				divided++
			}
		}
		shown(func(r *event.Record) { r.Digest = "" })
		if has, before := firstCommand(r.Ask.String()); has && before > 60 {
			t.Errorf("%s: %d words of the question before its first command: %s", file, before, r.Ask)
		} else if has && aboutOther.Match(data) {
			shown(func(r *event.Record) { r.Digest, r.Service.Kind, r.Impact = "", "Node", "" }) // no other command is named
		}
		shown(func(r *event.Record) {
			r.Digest, r.Steps = "0123456789abcdef", []event.StepRecord{{Text: say.Literal("trigger a resync"), ResyncOnly: true}}
		})
	}
	if seen < 300 || divided == 0 {
		t.Errorf("%d questions of classes, %d of them divided", seen, divided)
	}
}

// The shown part of a finding ends with a sentence if possible, in Chinese too; with -o wide it is whole.
func TestCommandFirstOf(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 60)
	for name, tt := range map[string]struct{ finding, ask, language, output, begins, details string }{
		"short": {finding: "It is full.", ask: "Free some: kubectl get nodes",
			begins: "Finding    It is full.\nTo do      Free some:\n           kubectl get nodes\n"},
		"a sentence": {finding: "It is full. " + long + "ends.", ask: "Free some: kubectl get nodes",
			begins: "Finding    It is full.\nTo do      Free some:\n           kubectl get nodes\n", details: long[:20]},
		"neither":               {finding: long + long, ask: "Free some: kubectl get nodes", begins: "Finding    word word word", details: long[:20]},
		"a long question":       {finding: "It is full.", ask: long + "ends: kubectl get nodes", begins: "Finding    It is full.\nNext       The case ends"},
		"a long first sentence": {finding: long + "ends. Then it is over.", ask: long, begins: "Finding    word word", details: long[:20]},
		"Chinese": {finding: "交换机已满。" + strings.Repeat("其他交换机没有空闲地址。", 12), ask: "请释放地址：kubectl get nodes", language: "zh",
			begins: "发现       交换机已满。", details: "其他交换机没有空闲地址。"},
		"wide": {finding: "It is full. " + long, ask: "Free some: kubectl get nodes", output: "wide", begins: "Finding    It is full. word word"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := operator.Journalled()[3]
			r.Finding, r.Ask = say.Literal(tt.finding), say.Literal(tt.ask)
			var out bytes.Buffer
			p := operator.Call{Env: map[string]string{"LANG": tt.language}}.Program(&out, io.Discard)
			p.Output = tt.output
			if p.Output == "" {
				p.Output = "table"
			}
			journal.Report(p, r)
			_, after, _ := strings.Cut(out.String(), "\n")
			_, after, _ = strings.Cut(after, "\n") // the impact
			if !strings.HasPrefix(after, tt.begins) {
				t.Errorf("it does not begin with %q:\n%s", tt.begins, out.String())
			}
			label := p.Phrase("Details")
			_, details, found := strings.Cut(out.String(), "\n"+label)
			if found != (tt.details != "") || !strings.HasPrefix(strings.TrimSpace(details), tt.details) {
				t.Errorf("details %q:\n%s", tt.details, out.String())
			}
		})
	}
}

// The message of a forged Event is never a command to paste: not in quotes, not where a long finding is divided, and not as the message.
func TestHostileEvent(t *testing.T) {
	t.Parallel()
	const hostile = "Error: kubectl delete namespace prod. kubectl get nodes.\nkubectl drain web"
	for name, message := range map[string]string{"short": hostile, "long": hostile + strings.Repeat(" kubectl cordon web.", 60)} {
		r := operator.Journalled()[3]
		r.Message, r.Error, r.Finding = message, message, say.F("No class covers this failure of %s: %q", r.Service, message)
		r.Ask = say.F("Check the log: %s.", "kubectl logs web")
		r.Steps = []event.StepRecord{{Kind: "annotate", Text: say.F("annotate %s", "a=b"), Step: []byte(`{"set":{"a":"b"},"was":{"a":"x: kubectl drain a"}}`)}}
		var out bytes.Buffer
		p := operator.Call{Env: map[string]string{}}.Program(&out, io.Discard)
		p.Output, p.Terminal = "table", func(any) int { return 120 }
		journal.Report(p, r)
		bold := regexp.MustCompile(`\x1b\[1m((?:kubectl|aliyun).*)\x1b\[0m`).FindAllStringSubmatch(out.String(), -1)
		if len(bold) != 1 || bold[0][1] != "kubectl logs web" || strings.Contains(out.String(), "Details") != (name == "long") {
			t.Errorf("%s: the commands are %q:\n%s", name, bold, out.String())
		}
	}
}

// The reads behind a finding are shown only with -o wide: the newest ones, from a record before the last.
func TestReads(t *testing.T) {
	t.Parallel()
	c, s := operator.Embed(t)
	records := operator.Journalled()[1:3]
	older := records[0]
	older.Event, older.Reads = "e.older.1", []event.Read{{Action: "get Service shop/older"}}
	records[0].Reads = []event.Read{
		{Action: "vpc:DescribeVSwitches", Answer: "{\"free\":\n 0}", Took: 12 * time.Millisecond},
		{Action: "get Service shop/web", Error: "no\x1b[2J answer"},
	}
	if err := operator.Seed(t.Context(), s, older, records[0], records[1]); err != nil {
		t.Fatal(err)
	}
	const want = "\nReads      vpc:DescribeVSwitches in 12ms: {\"free\": 0}\n           get Service shop/web in 0s: no [2J answer\n"
	if got := c.Run(t.Context(), "show", "shop/web", "-o", "wide"); got.Code != 0 || !strings.HasSuffix(got.Out, want) {
		t.Errorf("show -o wide: %+v", got)
	}
	if got := c.Run(t.Context(), "show", "shop/web"); got.Code != 0 || strings.Contains(got.Out, "DescribeVSwitches") {
		t.Errorf("show: %+v", got)
	}
}
