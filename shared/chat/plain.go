package chat

import (
	"strings"
	"unicode"

	"github.com/lbremedy/lbremedy/shared/regex"
)

// Plain returns a text without line breaks and without what a chat reads as markup for
// links, mentions and code, or as an address. Names such as example.com stay as they are.
//
// A person pastes the commands in it. So nothing becomes a quote, neither here nor in the
// chat, which may show a character reference of HTML as the character, and what stands
// for something in a shell becomes nothing that stands for something else there.
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

// reference is how a character reference of HTML begins.
var reference = regex.New(`^&(?:#|[A-Za-z][A-Za-z0-9]*;)`)
