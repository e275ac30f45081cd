package hand

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lbremedy/lbremedy/shared/say"
)

// sentences returns why a text may not reach a person. Each format must be one of the program's sentences or of the class's
// declaration: a function chooses among sentences and fills in its findings. A list, and free text such as a name, may only be inside
// a sentence.
func (r *Remote) sentences(t say.Text, nested bool) error {
	for _, m := range t {
		if !(nested && say.IsList(m.Format)) && !r.Known(m.Format) && !slices.Contains(r.Class.Formats, m.Format) {
			return wrong("it has a sentence that its class does not have: %.100q", m.Format)
		}
		places := verbs.FindAllStringIndex(m.Format, -1)
		if text := (say.Text{m}).String(); strings.Contains(text, "%!") {
			return wrong("a sentence has arguments that do not fit: %.100q", text)
		}
		for i, a := range m.Args {
			text, ok := a.(string)
			pieces := true // of free text; sentences were checked
			if inner, is := a.(say.Text); is {
				if err := r.sentences(inner, true); err != nil {
					return err
				}
				text, ok = inner.String(), true
				pieces = !slices.ContainsFunc(inner, func(m say.Message) bool { return !say.IsList(m.Format) })
			}
			if !ok {
				continue // a number or a boolean
			}
			if err := argument(text); pieces && err != nil {
				return err
			}
			// If a format may repeat or reorder its arguments, each must be fit for a command.
			if indexed := strings.Contains(m.Format, "%["); command(m.Format) && (indexed || i < len(places) && within(m.Format[:places[i][0]])) && !words(text) {
				return wrong("an argument of a command is not a word: %.100q", text)
			}
		}
	}
	return nil
}

var verbs = regexp.MustCompile(`%(\[\d+\])?[-+# 0-9.]*[a-zA-Z]`)

// within reports whether a format continues here in the middle of a command.
func within(before string) bool {
	at := commands.FindAllStringIndex(before, -1)
	return len(at) > 0 && !strings.Contains(before[at[len(at)-1][0]:], ". ")
}

// word matches what a shell takes as one word that is not an option.
var word = regexp.MustCompile(`^[A-Za-z0-9_./:@%+][A-Za-z0-9_./:=,@%+-]*$`)

func words(text string) bool {
	return !slices.ContainsFunc(strings.Split(text, " "), func(one string) bool { return !word.MatchString(one) })
}

// argument returns why a text may not be part of a sentence.
func argument(text string) error {
	switch {
	case len(text) > mostText:
		return wrong("a text has more than %d bytes", mostText)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, hidden):
		return wrong("a text has characters that hide what it says: %.100q", text)
	case command(strings.ReplaceAll(text, "\n", " ")) && (strings.Contains(text, "\n") || !harmless(text)), pipes.MatchString(text):
		return wrong("a command has a part that a shell would run, or an option that sends it elsewhere: %.100q", text)
	}
	return nil
}

// hidden reports whether a rune is invisible, looks like a space, or changes how others are displayed. Line ends are allowed: messages
// of the controller have them.
func hidden(r rune) bool {
	return r != '\n' && !unicode.IsPrint(r) || strings.ContainsRune("\u034f\u115f\u1160\u2800\u3164\uffa0", r) || unicode.Is(unicode.Variation_Selector, r)
}

var commands = regexp.MustCompile(`\b(kubectl|lbremedy|aliyun|nats|helm) `)

func command(text string) bool { return commands.MatchString(text) }

// pipes matches what makes a shell run its input.
var pipes = regexp.MustCompile("\\| *(sudo +)?(ba|z|da|k)?sh\\b|`")

// elsewhere matches the options that direct a command to another server or identity.
var elsewhere = regexp.MustCompile(` --?(server|s|kubeconfig|token|as|as-group|as-uid|context|cluster|user|insecure[a-z-]*|` +
	`certificate-authority|tls-server-name|endpoint|profile|access-key-[a-z]+|sts-token|proxy-url|f|filename|k|kustomize|raw)([ =]|$)`)

// search matches the only pipe that commands have: the output is searched for a word.
var search = regexp.MustCompile(` \| grep [A-Za-z0-9./_-]+$`)

// harmless reports whether all commands of a text are inert and go to the person's own cluster and account. Several commands are
// joined by &&, and a value may contain the time.
func harmless(text string) bool {
	text = strings.ReplaceAll(text, "-$(date +%s) ", "-1 ")
	if elsewhere.MatchString(text) {
		return false
	}
	for i, part := range strings.Split(text, " && ") {
		if !inert(search.ReplaceAllString(part, "")) || i > 0 && !command(part) {
			return false
		}
	}
	return true
}

// inert reports whether a shell that is given the text runs only its first command and opens no file: outside of single quotes it
// contains no character that would make a POSIX shell do so. In double quotes only the characters that stay special there count.
func inert(text string) bool {
	const plain, single, double = 0, '\'', '"'
	in := rune(plain)
	for _, r := range text {
		switch {
		case in == single:
			if r == single {
				in = plain
			}
		case strings.ContainsRune("$`\\", r):
			return false
		case in == double:
			if r == double {
				in = plain
			}
		case r == single || r == double:
			in = r
		case strings.ContainsRune(";&|<>(){}*?[]!#~", r):
			return false
		}
	}
	return in == plain
}
