package say

import (
	"strings"

	"github.com/lbremedy/lbremedy/shared/regex"
)

// Parts of a template that are not words: actions, comments, and tags up to an attribute's value or their end.
var (
	action = regex.New(`^\{\{(?:"(?:[^"\\]|\\.)*"|[^}"])*\}\}`)
	named  = regex.New(`([a-z-]+)="$`)
	letter = regex.New(`[A-Za-z]`)
)

var spoken = map[string]bool{
	"aria-label": true, "data-live": true, "data-dead": true, "data-mute": true, "data-copied": true, "data-uncopied": true,
}

// Markup returns an HTML template with f applied to each run of words and to the attributes in spoken: a page's words are in its
// template alone, translated.
func Markup(source string, f func(string) string) string {
	var out, run strings.Builder
	flush := func(words bool) {
		text := run.String()
		run.Reset()
		inner := strings.TrimSpace(text)
		if !words || !letter().MatchString(strings.ReplaceAll(strings.ReplaceAll(inner, "&amp;", ""), "&nbsp;", "")) {
			out.WriteString(text)
			return
		}
		at := strings.Index(text, inner)
		out.WriteString(text[:at] + f(inner) + text[at+len(inner):])
	}
	tag, value, words := false, false, true // inside a tag, in an attribute's value, and whether the current part is words
	for i := 0; i < len(source); {
		rest := source[i:]
		switch {
		case strings.HasPrefix(rest, "{{") && action().MatchString(rest):
			flush(words)
			a := action().FindString(rest)
			out.WriteString(a)
			i += len(a)
			continue
		case !tag && rest[0] == '<':
			flush(words)
			tag, words = true, false
		case tag && !value && rest[0] == '>':
			run.WriteByte('>')
			flush(false)
			tag, words = false, true
			i++
			continue
		case tag && !value && rest[0] == '"':
			run.WriteByte('"')
			m := named().FindStringSubmatch(run.String())
			flush(false)
			value, words = true, m != nil && spoken[m[1]]
			i++
			continue
		case value && rest[0] == '"':
			flush(words)
			value, words = false, false
		}
		run.WriteByte(rest[0])
		i++
	}
	flush(words)
	return out.String()
}
