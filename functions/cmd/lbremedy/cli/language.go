package cli

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/text/language"

	"github.com/lbremedy/lbremedy/functions"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/say/chinese"
)

var inChinese = functions.Chinese(chinese.Language)

var languages = []string{"en", "zh"}

// Tongue returns the language with this tag, such as zh, zh-CN or the zh_CN.UTF-8 of a locale; nil, which is English, without a catalogue.
func Tongue(tag string) *say.Language {
	base := strings.FieldsFunc(strings.ToLower(tag), func(r rune) bool { return r == '-' || r == '_' || r == '.' || r == '@' })
	if len(base) > 0 && base[0] == "zh" {
		return inChinese()
	}
	return nil
}

// Language returns the language for people: --language, otherwise the locale's for messages.
func (p *Program) Language() *say.Language {
	return Tongue(cmp.Or(p.language, p.Getenv("LC_ALL"), p.Getenv("LC_MESSAGES"), p.Getenv("LANG")))
}

// Reader returns a function for the language of help and usage errors: it honours the global flags and variables, even if these contain mistakes.
func (p *Program) Reader(root *cobra.Command) func() *say.Language {
	return func() *say.Language {
		_ = p.Settle(root) // its errors don't matter to the help
		return p.Language()
	}
}

// Phrase returns a text in the reader's language: a format as of fmt.Sprintf, whose arguments may be texts.
func (p *Program) Phrase(format string, args ...any) string {
	return p.Language().Phrase(format, args...)
}

// Tell returns a text in the reader's language.
func (p *Program) Tell(t say.Text) string { return t.In(p.Language()) }

// Reads returns the program in the first available language that a browser's request asks for, otherwise in its own.
func (p *Program) Reads(h http.Header) *Program {
	tags, _, _ := language.ParseAcceptLanguage(h.Get("Accept-Language")) // an invalid header asks for nothing
	for _, tag := range tags {
		if base, _ := tag.Base(); slices.Contains(languages, base.String()) {
			own := *p
			own.language = base.String()
			return &own
		}
	}
	return p
}
