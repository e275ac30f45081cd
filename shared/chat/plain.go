package chat

import (
	"strings"
	"unicode"

	"github.com/lbremedy/lbremedy/shared/regex"
)

// Plain returns a text without line breaks and without anything that a chat shows as a link, mention, code or address. Names such as
// example.com stay. People paste commands from it: no character becomes a quote, even in a chat that renders HTML character references, and
// no shell metacharacter turns into another.
func Plain(s string) string {
	var out strings.Builder
	for i, r := range s {
		rest := s[i:]
		switch {
		case r == '<':
			r = '‹'
		case r == '>':
			r = '›'
		case r == '`':
			r = 'ˋ'
		case r == '@':
			r = '＠'
		case r == ']' && strings.HasPrefix(rest, "]("):
			r = '］'
		case r == ':' && strings.HasPrefix(rest, "://"):
			r = '：'
		case r == '&' && reference().MatchString(rest):
			r = '＆'
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			r = ' '
		}
		out.WriteRune(r)
	}
	return out.String()
}

var reference = regex.New(`^&(?:#|[A-Za-z][A-Za-z0-9]*;)`)
