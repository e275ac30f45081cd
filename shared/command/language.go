package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lbremedy/lbremedy/shared/say"
)

type speaks struct{}

// Speak returns a context whose help and usage errors appear in a language. language is called only before printing, since flags and files select it.
func Speak(ctx context.Context, language func() *say.Language) context.Context {
	return context.WithValue(ctx, speaks{}, language)
}

// spoken returns the language of the context; nil, which is English, if none was set.
func spoken(ctx context.Context) *say.Language {
	if ctx == nil { // of a command that does not run
		return nil
	}
	language, ok := ctx.Value(speaks{}).(func() *say.Language)
	if !ok {
		return nil
	}
	return language()
}

func help(cmd *cobra.Command, _ []string) {
	text := cmd.Long
	if text == "" {
		text = cmd.Short
	}
	if text = paragraphs(strings.TrimRight(text, " \n"), spoken(cmd.Root().Context())); text != "" {
		text += "\n\n"
	}
	_, _ = fmt.Fprint(cmd.OutOrStdout(), text+cmd.UsageString())
}

// paragraphs translates each paragraph by its text on one line. Paragraphs without a translation, such as commands, stay.
func paragraphs(text string, l *say.Language) string {
	if l == nil {
		return text
	}
	parts := strings.Split(text, "\n\n")
	for i, part := range parts {
		if twin, ok := l.Twins[strings.Join(strings.Fields(part), " ")]; ok {
			parts[i] = strings.Join(Fold(twin, columns), "\n")
		}
	}
	return strings.Join(parts, "\n\n")
}

func flagUsages(flags *pflag.FlagSet, l *say.Language) string {
	if l == nil {
		return flags.FlagUsagesWrapped(columns)
	}
	var heads, texts []string
	widest := 0
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		own := *f
		own.Usage = l.Format(f.Usage)
		if name, ok := strings.CutPrefix(f.Usage, "help for "); ok {
			own.Usage = l.Phrase("help for %s", name)
		}
		one := pflag.NewFlagSet("", pflag.ContinueOnError)
		one.AddFlag(&own)
		line := strings.TrimRight(one.FlagUsages(), "\n")
		_, text := pflag.UnquoteUsage(&own)
		at := strings.LastIndex(line, text)
		rest, ok := strings.CutPrefix(line[at+len(text):], " (default ")
		if ok {
			rest = l.Phrase(" (default %s)", strings.TrimSuffix(rest, ")"))
		}
		head := strings.TrimRight(line[:at], " ")
		heads, texts = append(heads, head), append(texts, text+rest)
		widest = max(widest, width(head))
	})
	var b strings.Builder
	for i, head := range heads {
		between := strings.Repeat(" ", widest-width(head)+3)
		b.WriteString(head + between + strings.Join(Fold(texts[i], max(columns-widest-3, 24)), "\n"+strings.Repeat(" ", widest+3)) + "\n")
	}
	return b.String()
}

// Fold breaks a text into lines of at most that many columns, at spaces and between wide letters, not before closing or after opening punctuation.
func Fold(s string, most int) []string {
	const closes, opens = "，。；：！？、）”*", "（“*"
	var lines []string
	line, piece := "", ""
	put := func() {
		if line != "" && width(line+strings.TrimRight(piece, " ")) > most {
			lines, line = append(lines, strings.TrimRight(line, " ")), ""
		}
		line, piece = line+piece, ""
	}
	last := rune(0)
	for _, r := range s {
		if last == ' ' || last != 0 && !strings.ContainsRune(closes, r) && !strings.ContainsRune(opens, last) &&
			(wide(r) || wide(last) || strings.ContainsRune(opens, r) || strings.ContainsRune(closes, last)) && r != ' ' {
			put()
		}
		piece += string(r)
		last = r
	}
	put()
	return append(lines, strings.TrimRight(line, " "))
}

func wide(r rune) bool { return r >= 0x2e80 }

func width(s string) int { return text.StringWidthWithoutEscSequences(s) }
