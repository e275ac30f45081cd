package say

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/lbremedy/lbremedy/shared/regex"
)

// A Language translates texts. Nil is English.
type Language struct {
	Tag   string            // of BCP 47, such as zh-CN
	Twins map[string]string // formats by their English twins; a twin has the same verbs
	// Tight reports whether messages that end and begin so have no space between them.
	Tight func(end, begin rune) bool
}

// Name returns the tag of the language.
func (l *Language) Name() string {
	if l == nil {
		return "en"
	}
	return l.Tag
}

// Format returns the translation of an English format, or the format.
func (l *Language) Format(english string) string {
	if l == nil {
		return english
	}
	if twin, ok := l.Twins[english]; ok {
		return twin
	}
	if list().MatchString(english) { // the list's length varies, and its parts are translated
		return between().ReplaceAllStringFunc(english, func(part string) string {
			if twin, ok := l.Twins[part]; ok {
				return twin
			}
			return part
		})
	}
	return english
}

// Has reports whether the language has a translation of an English format.
func (l *Language) Has(english string) bool {
	_, ok := l.Twins[english]
	return ok
}

// IsList reports whether a format is one of Items, Clauses or Literal, which contain no words of their own.
func IsList(format string) bool { return list().MatchString(format) }

// list matches formats of Items and Clauses, and between what separates their verbs.
var (
	list    = regex.New(`^%s(?:, %s)*(?:; %s)*(?: and %d more|; and %d more)?$`)
	between = regex.New(`, | and %d more|; and %d more|; `)
)

// Phrase is fmt.Sprintf in the language: it translates the format and arguments that are texts.
func (l *Language) Phrase(format string, args ...any) string {
	if l == nil {
		return fmt.Sprintf(format, args...)
	}
	format = l.Format(format)
	return l.fit(fmt.Sprintf(format, l.args(format, args)...))
}

// args puts each text between seams, unless the format quotes some.
func (l *Language) args(format string, args []any) []any {
	edge := seam
	if strings.Contains(format, "q") {
		edge = ""
	}
	out := make([]any, len(args))
	for i, a := range args {
		if t, ok := a.(Text); ok {
			a = edge + t.In(l) + edge
		}
		out[i] = a
	}
	return out
}

// seam, a Unicode noncharacter, marks both ends of an inserted text until fit removes it.
const seam = "\uFDD0"

// Arguments have spaces on both sides, since most are not words of the language.
var (
	before = regex.New(`(.) ` + seam + `(.)`)
	after  = regex.New(`(.)` + seam + ` (.)`)
)

// fit removes seams, with adjacent spaces if the language has none there.
func (l *Language) fit(text string) string {
	if !strings.Contains(text, seam) {
		return text
	}
	for _, at := range []*regexp.Regexp{before(), after()} {
		text = at.ReplaceAllStringFunc(text, func(s string) string {
			bare := strings.NewReplacer(seam, "", " ", "").Replace(s)
			end, n := utf8.DecodeRuneInString(bare)
			begin, _ := utf8.DecodeRuneInString(bare[n:])
			if l.Tight == nil || !l.Tight(end, begin) {
				return strings.Replace(s, seam, "", 1)
			}
			return bare
		})
	}
	return strings.ReplaceAll(text, seam, "")
}

// In returns the text in a language. Messages without a translation stay English.
func (t Text) In(l *Language) string {
	if l == nil {
		return t.String()
	}
	var b strings.Builder
	var end rune
	for _, m := range t {
		format := l.Format(m.Format)
		said := l.fit(sprint(format, l.args(format, m.Args)...))
		if begin, n := utf8.DecodeRuneInString(said); b.Len() > 0 && n > 0 && !(l.Tight != nil && l.Tight(end, begin)) {
			b.WriteByte(' ')
		}
		b.WriteString(said)
		if last, n := utf8.DecodeLastRuneInString(said); n > 0 {
			end = last
		}
	}
	return b.String()
}
