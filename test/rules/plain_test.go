package rules

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

var (
	// sentenceEnd finds where a sentence ends and another part of the text begins.
	sentenceEnd = regexp.MustCompile(`[.:;!?][)"”*]*\s+`)
	// headless finds a statement whose subject is a clause without a noun: "Who reads this knows".
	headless = regexp.MustCompile(`^\(?(?:Who|What|Whoever|Whatever)\b`)
	// denied finds a verb whose complement is negated: "it is `no` page".
	denied = regexp.MustCompile(`\b(?:is|are|was|were) (?:no|none)\b(?:[ -]\w+)?`)
	// comparison finds the matches of denied that are plain: "is no longer", "is no more than".
	comparison = regexp.MustCompile(` no (?:longer|more|less|later|earlier|larger|smaller)$`)
	// codeSpan finds code and quotations of others in a page.
	codeSpan = regexp.MustCompile("`[^`]*`")
	// soThatNot finds a purpose that is put as a negation.
	soThatNot = regexp.MustCompile(`\bso that\b[^.:;]*\b(?:not|never|nothing|nobody)\b`)
)

// plain checks that comments and pages avoid a clause without a noun as the subject, a negated complement, and a negated purpose.
func plain(tr *tree) []string {
	var out []string
	for _, f := range tr.files {
		for _, p := range paragraphs(tr, f) {
			for _, fault := range notPlain(p.text) {
				out = append(out, fmt.Sprintf("%s:%d: %q: %s", f.name, p.line, fault.text, fault.instead))
			}
		}
	}
	return out
}

type fault struct{ text, instead string }

func notPlain(text string) []fault {
	var out []fault
	text = codeSpan.ReplaceAllString(text, "``")
	rest := text
	for rest != "" {
		s, end := rest, ""
		if at := sentenceEnd.FindStringIndex(rest); at != nil {
			s, end, rest = rest[:at[0]], rest[at[0]:at[1]], rest[at[1]:]
		} else {
			rest = ""
		}
		question := strings.Contains(s+end, "?")
		if found := headless.FindString(s); found != "" && !question {
			out = append(out, fault{firstWords(s), "name the subject: a noun, then the verb"})
		}
	}
	for _, found := range denied.FindAllString(text, -1) {
		if !comparison.MatchString(found) {
			out = append(out, fault{found, "negate the verb: \"is not a\", \"has no\""})
		}
	}
	for _, found := range soThatNot.FindAllString(text, -1) {
		out = append(out, fault{found, "say what it prevents or avoids"})
	}
	return out
}

type paragraph struct {
	line int // the first line of its comment, or of itself in a page
	text string
}

var listItem = regexp.MustCompile(`^\s*(?:[-*•]|\d+\.)\s+`)

// paragraphs returns the paragraphs of a Go file's comments or of a page, without code, headings, front matter and translations.
func paragraphs(tr *tree, f *file) []paragraph {
	var out []paragraph
	add := func(line int, text string, step int) {
		var words []string
		start := line
		flush := func() {
			if len(words) > 0 {
				out = append(out, paragraph{start, strings.Join(words, " ")})
			}
			words = nil
		}
		fenced := false
		for i, l := range strings.Split(text, "\n") {
			fence := strings.HasPrefix(strings.TrimSpace(l), "```")
			if fence {
				fenced = !fenced
			}
			item := listItem.FindString(l)
			if item != "" || fence || strings.TrimSpace(l) == "" || strings.HasPrefix(l, "|") {
				flush()
			}
			if fence || fenced || strings.HasPrefix(l, "#") || item == "" && strings.HasPrefix(l, "\t") {
				continue
			}
			if len(words) == 0 {
				start = line + i*step
			}
			words = append(words, strings.Fields(l[len(item):])...)
		}
		flush()
	}
	switch {
	case f.ast != nil:
		for _, group := range f.ast.Comments {
			add(tr.fset.Position(group.Pos()).Line, group.Text(), 0)
		}
	case path.Ext(f.name) == ".md" && !strings.HasSuffix(f.name, ".zh.md"):
		add(1, string(f.text), 1)
	}
	return out
}
