package event

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// fold appends the text to buf in the form in which messages are compared:
// ASCII letters in lower case, white space of any kind and length as one space
// and none at the ends, the escapes \n, \r, \t and \" of logs undone,
// full-width and curly forms as their ASCII ones.
func fold(buf []byte, s string) []byte {
	first, n := len(buf), len(buf)
	buf = slices.Grow(buf, len(s))[:len(buf)+len(s)] // folding never makes a text longer
	for i := 0; i < len(s); i++ {
		b := folded[s[i]]
		if b == odd {
			var r rune
			var size int
			if r, size = oddRune(s[i:]); size > 1 {
				i += size - 1
			}
			switch {
			case r == 0:
				continue
			case r >= utf8.RuneSelf:
				n += utf8.EncodeRune(buf[n:], r)
				continue
			}
			b = byte(r)
		}
		if b == ' ' && (n == first || buf[n-1] == ' ') {
			continue
		}
		buf[n] = b
		n++
	}
	if n > first && buf[n-1] == ' ' {
		n--
	}
	return buf[:n]
}

// folded maps a byte to its folded form, or to odd if that takes a closer look.
var folded = func() (table [256]byte) {
	for i := range table {
		switch b := byte(i); {
		case b >= utf8.RuneSelf || b == '\\':
			table[i] = odd
		case b <= ' ' || b == 0x7f:
			table[i] = ' '
		case b >= 'A' && b <= 'Z':
			table[i] = b + 'a' - 'A'
		default:
			table[i] = b
		}
	}
	return table
}()

const odd = 0

// oddRune returns the folded form of what s begins with, 0 for nothing, and its size.
func oddRune(s string) (r rune, size int) {
	if s[0] != '\\' {
		r, size = utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && size == 1 {
			return '?', 1
		}
		return plainRune(r), size
	}
	if len(s) > 1 {
		switch s[1] {
		case 'n', 'r', 't':
			return ' ', 2
		case '"':
			return '"', 2
		}
	}
	return '\\', 1
}

// plainRune returns the ASCII form of a character in lower case, a space for
// white space, 0 for what is invisible, and else the character itself.
func plainRune(r rune) rune {
	switch {
	case unicode.IsSpace(r):
		return ' '
	case r == '\u2018' || r == '\u2019':
		return '\''
	case r == '\u201c' || r == '\u201d':
		return '"'
	case r >= '\uff01' && r <= '\uff5e':
		return unicode.ToLower(r - '\uff01' + '!')
	case r == '\u200b' || r == '\ufeff':
		return 0
	}
	return r
}

// foldText folds a text of the table, without its trailing punctuation.
func foldText(s string) string {
	return strings.TrimRight(string(fold(nil, s)), " .,;:!。")
}

// What Kubernetes and the controller put before a message, folded.
const (
	prefixCombined = "(combined from similar events):"
	prefixDryRun   = "dryrun:"
)

// start returns where a folded message begins, without what Kubernetes and the
// controller put before it.
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
