package event

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// fold returns the text in the form in which messages are compared: ASCII letters in lower case; white space as one space, and none at
// the ends; the escapes \n, \r, \t and \" of logs undone; full-width and curly forms as ASCII.
func fold(s string) []byte {
	return []byte(strings.Join(strings.Fields(strings.Map(plainRune, escapes.Replace(s))), " "))
}

var escapes = strings.NewReplacer(`\n`, " ", `\r`, " ", `\t`, " ", `\"`, `"`)

// plainRune returns a character in lower-case ASCII, a space for white space, -1 if invisible, or the character itself.
func plainRune(r rune) rune {
	switch {
	case r >= 'A' && r <= 'Z':
		return r + 'a' - 'A'
	case r < ' ' || r == 0x7f || unicode.IsSpace(r):
		return ' '
	case r == utf8.RuneError:
		return '?'
	case r == '\u2018' || r == '\u2019':
		return '\''
	case r == '\u201c' || r == '\u201d':
		return '"'
	case r >= '\uff01' && r <= '\uff5e':
		return unicode.ToLower(r - '\uff01' + '!')
	case r == '\u200b' || r == '\ufeff':
		return -1
	}
	return r
}

func foldText(s string) string {
	return strings.TrimRight(string(fold(s)), " .,;:!。")
}

// Prefixes that Kubernetes and the controller put before a message, folded.
const (
	prefixCombined = "(combined from similar events):"
	prefixDryRun   = "dryrun:"
)

func start(text []byte) int32 {
	i := 0
	for {
		rest := text[i:]
		n := len(rest)
		rest = bytes.TrimLeft(rest, " ")
		rest = bytes.TrimPrefix(rest, []byte(prefixCombined))
		rest = bytes.TrimPrefix(rest, []byte(prefixDryRun))
		if len(rest) == n {
			return int32(i)
		}
		i = len(text) - len(rest)
	}
}
