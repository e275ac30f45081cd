package journal

import (
	"slices"
	"strings"
	"unicode"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/say"
)

// mostWords is the most words of a report before its first command, which a person called at night looks for.
const mostWords = 60

// printFields prints the parts of a report under its headline. Without -o wide at most mostWords words come before the first command.
func printFields(p *cli.Program, list []Field) {
	if !p.Wide() {
		list = commandFirst(p.Language(), slices.DeleteFunc(list, func(f Field) bool { return f.Wide }))
	}
	for _, f := range list {
		p.Field(f.Name, f.Text)
	}
}

// commandFirst orders the parts to bring a command early: a finding that is too long continues under Details, and if the command
// in To do comes too late, Next moves before it.
func commandFirst(l *say.Language, list []Field) []Field {
	at := func(name string) int {
		return slices.IndexFunc(list, func(f Field) bool { return f.Name == l.Format(name) })
	}
	finding, todo, next := at("Finding"), at("To do"), at("Next")
	n, found := wordsToCommand(list)
	if !found || n <= mostWords || finding < 0 {
		return list
	}
	list = slices.Clone(list)
	room := mostWords - (n - words(list[finding].Text))
	begin, _ := lead(list[finding].Text, room)
	if next > todo && names(list[next].Text) && (words(begin) > room || strings.HasSuffix(begin, "…")) {
		step := list[next]
		step.Text = strings.TrimSpace(strings.TrimPrefix(step.Text, l.Phrase("Run one of the commands above.")))
		list = slices.Insert(slices.Delete(list, next, next+1), todo, step)
		n, _ = wordsToCommand(list)
		room = mostWords - (n - words(list[finding].Text))
	}
	begin, rest := lead(list[finding].Text, room)
	list[finding].Text = begin
	return slices.Insert(list, max(finding, todo, next)+1, Field{Name: l.Phrase("Details"), Text: rest})
}

func names(text string) bool {
	return slices.ContainsFunc(say.Segments(text), func(p say.Segment) bool { return p.Command })
}

// wordsToCommand counts the words before the first command, including the headline's, and reports whether there is a command.
func wordsToCommand(list []Field) (n int, found bool) {
	n = 3 // a node has two words
	for _, f := range list {
		for i, piece := range say.Segments(strings.TrimSpace(f.Text)) {
			if i == 0 {
				n += words(f.Name)
			}
			if piece.Command {
				return n, true
			}
			n += words(piece.Text)
		}
	}
	return n, false
}

// words counts words; two Chinese characters count as one.
func words(text string) int {
	han := 0
	for _, r := range text {
		if unicode.Is(unicode.Han, r) {
			han++
		}
	}
	return len(strings.Fields(text)) + han/2
}

var sentenceEnd = regex.New(`[.!?]\s|。`)

// lead splits a text. The beginning is whole sentences of at most room words; if even the first one is too long, it is cut, and
// the rest is the whole text.
func lead(text string, room int) (begin, rest string) {
	if room = max(room, 12); words(text) <= room {
		return text, ""
	}
	cut := 0
	for _, end := range sentenceEnd().FindAllStringIndex(text, -1) {
		if words(text[:end[1]]) <= room {
			cut = end[1]
		}
	}
	if cut > 0 {
		return strings.TrimSpace(text[:cut]), text[cut:]
	}
	all := strings.Fields(text)
	return strings.Join(all[:min(room-1, len(all))], " ") + " …", text
}
