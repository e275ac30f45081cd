package journal

import (
	"slices"
	"strings"
	"unicode"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/say"
)

// mostWords limits the words before a report's first command, which a person called at night looks for.
const mostWords = 60

// printFields prints at most mostWords words before the first command, unless -o wide.
func printFields(p *cli.Program, list []Field) {
	if !p.Wide() {
		list = commandFirst(p.Language(), slices.DeleteFunc(list, func(f Field) bool { return f.Wide }))
	}
	for _, f := range list {
		p.Quoted(f.Name, f.Text, f.Quote)
	}
}

// commandFirst brings a command early: a finding that is too long continues under Details, and Next moves before To do if its command comes too late.
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
	return slices.Insert(list, max(finding, todo, next)+1, Field{Name: l.Phrase("Details"), Quote: rest}) // it may begin inside a quote
}

func names(text string) bool {
	return slices.ContainsFunc(say.Segments(text), func(p say.Segment) bool { return p.Command })
}

func wordsToCommand(list []Field) (n int, found bool) {
	n = 3 // a node has two words
	for _, f := range list {
		if strings.TrimSpace(f.Text+f.Quote) != "" {
			n += words(f.Name)
		}
		for _, piece := range say.Segments(f.Text) {
			if piece.Command {
				return n, true
			}
			n += words(piece.Text)
		}
		n += words(f.Quote)
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

// lead begins with whole sentences of at most room words; if even the first is too long, it is cut, and rest is the whole text.
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
