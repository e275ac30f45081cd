package rules

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// chinesePage is the suffix of a Chinese page, which is next to the English one.
const chinesePage = ".zh.md"

// Alibaba Cloud has the same documentation in both languages; Chinese pages link to the Chinese one.
const (
	englishHelp = "alibabacloud.com/help/en/"
	chineseHelp = "alibabacloud.com/help/zh/"
)

// translated checks that every page of a class or check has a Chinese twin of the same headings, paragraphs, items, code and links.
func translated(tr *tree) []string {
	var out []string
	for _, f := range tr.files {
		page := matches(f.name, "functions/*/*.md") && path.Base(f.name) != "README.md"
		if !page {
			continue
		}
		if english, ok := strings.CutSuffix(f.name, chinesePage); ok {
			if tr.file(english+".md") == nil {
				out = append(out, fmt.Sprintf("%s: there is no %s.md: remove it", f.name, path.Base(english)))
			}
			continue
		}
		name := strings.TrimSuffix(f.name, ".md") + chinesePage
		twin := tr.file(name)
		if twin == nil {
			out = append(out, fmt.Sprintf("%s: it has no Chinese page: write %s beside it", f.name, path.Base(name)))
			continue
		}
		english, chinese := partsOf(strings.ReplaceAll(string(f.text), englishHelp, chineseHelp)), partsOf(string(twin.text))
		for _, what := range sorted(english) {
			if !slices.Equal(english[what], chinese[what]) {
				out = append(out, fmt.Sprintf("%s: its %s differ from those of %s: %q and %q", name, what, path.Base(f.name), chinese[what], english[what]))
			}
		}
	}
	return out
}

var (
	fence  = regexp.MustCompile("(?ms)^```.*?^```")
	quoted = regexp.MustCompile("`([^`]+)`")
	linked = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	counts = map[string]*regexp.Regexp{
		"headings": regexp.MustCompile(`(?m)^#+ `), "paragraphs": regexp.MustCompile(`\n\n`),
		"items": regexp.MustCompile(`(?m)^- `), "words in bold": regexp.MustCompile(`\*\*[^*]+\*\*`),
	}
)

func partsOf(page string) map[string][]string {
	text := fence.ReplaceAllString(page, "")
	parts := map[string][]string{"blocks of code": fence.FindAllString(page, -1)}
	for what, part := range counts {
		parts[what] = []string{fmt.Sprint(len(part.FindAllString(text, -1)))}
	}
	for what, part := range map[string]*regexp.Regexp{"words in code": quoted, "links": linked} {
		for _, m := range part.FindAllStringSubmatch(text, -1) {
			parts[what] = append(parts[what], strings.Replace(strings.Join(strings.Fields(m[1]), " "), chinesePage, ".md", 1))
		}
		slices.Sort(parts[what])
		parts[what] = slices.Compact(parts[what])
	}
	return parts
}

func TestTranslated(t *testing.T) {
	const english = "# Busy\n\nIt says `busy`.\n\n- **Wait**, see [more](../quota/doc.md), " +
		"[help](https://www.alibabacloud.com/help/en/ack).\n\n```yaml\na: b\n```\n"
	const chinese = "# 正忙\n\n它报告 `busy`。\n\n- **等待**，参见[更多](../quota/doc.zh.md)、[帮助](https://www.alibabacloud.com/help/zh/ack)。\n\n```yaml\na: b\n```\n"
	for _, c := range []struct {
		name, old, new string
		want           string
	}{
		{name: "whole"},
		{name: "a heading", old: "它报告", new: "## 它\n\n它报告", want: "headings differ"},
		{name: "a paragraph", old: "。\n\n- ", new: "。\n- ", want: "paragraphs differ"},
		{name: "an item", old: "- **", new: "**", want: "items differ"},
		{name: "bold", old: "**等待**", new: "等待", want: "words in bold differ"},
		{name: "a code word", old: "`busy`", new: "`忙`", want: "words in code differ"},
		{name: "a link to an English page", old: "/zh/", new: "/en/", want: "links differ"},
		{name: "a link", old: "../quota", new: "../busy", want: "links differ"},
		{name: "a block", old: "a: b", new: "a: c", want: "blocks of code differ"},
	} {
		t.Run(c.name, func(t *testing.T) {
			twin := strings.Replace(chinese, c.old, c.new, 1)
			tr, err := read(fstest.MapFS{"functions/busy/doc.md": {Data: []byte(english)}, "functions/busy/doc.zh.md": {Data: []byte(twin)}})
			if err != nil {
				t.Fatal(err)
			}
			got := translated(tr)
			if c.want == "" && len(got) > 0 || c.want != "" && !strings.Contains(strings.Join(got, "\n"), c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	tr, err := read(fstest.MapFS{"functions/doctor/room.md": {Data: []byte(english)}, "functions/busy/doc.zh.md": {Data: []byte(chinese)}})
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(translated(tr), "\n")
	if !strings.Contains(got, "functions/busy/doc.zh.md: there is no doc.md") ||
		!strings.Contains(got, "functions/doctor/room.md: it has no Chinese page: write room.zh.md beside it") {
		t.Errorf("got %q", got)
	}
}
