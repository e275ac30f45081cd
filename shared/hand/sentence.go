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
	return !slices.ContainsFunc(strings.Split(text, " "), func(one string) bool { return !word.MatchString(one) || strings.Contains(one, "://") })
}

// argument returns why a text may not be part of a sentence.
func argument(text string) error {
	switch {
	case len(text) > mostText:
		return wrong("a text has more than %d bytes", mostText)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, hidden):
		return wrong("a text has characters that hide what it says: %.100q", text)
	case (command(strings.ReplaceAll(text, "\n", " ")) || quoted.MatchString(bare.Replace(text))) && (strings.Contains(text, "\n") || !harmless(text)),
		pipes.MatchString(text):
		return wrong("a command has a part that a shell would run, or a word that may send it elsewhere: %.100q", text)
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

// quoted matches a command whose name had quotes, as in kube'ctl', which bare removes.
var (
	quoted = regexp.MustCompile(`\b(kubectl|aliyun) `)
	bare   = strings.NewReplacer("'", "", `"`, "", "\n", " ")
)

// option matches the options that commands have. The parameters of aliyun begin with a capital letter. Others direct a command to another
// server or identity.
var option = regexp.MustCompile(`^(-[nolp]|--overwrite|--open|--type=(json|merge)|--subresource=status|--tail=-1|--(clusterrole|serviceaccount)=.+|` +
	`--[A-Z][A-Za-z0-9.]*)$`)

// annotation matches the assignment of an annotation. Its value may be a URL, as may a part of a patch.
var annotation = regexp.MustCompile(`^[A-Za-z0-9.-]+/[A-Za-z0-9._-]+=`)

// configures matches words, one a line, that change to which server and as whom later commands go.
var configures = regexp.MustCompile(`\b(kubectl|aliyun)(\n-.*(\n.*)?)*\nconfig(ure)?(\n|$)`)

// home reports whether a command of these words goes to the person's own cluster and account.
func home(words []string) bool {
	patch := func(w string) bool { return w[0] == '{' || w[0] == '[' }
	for i, w := range words {
		switch {
		case w == "-p" && (i+1 == len(words) || !patch(words[i+1])), // the profile of aliyun
			w[0] == '-' && w != "-" && !option.MatchString(w),
			strings.Contains(w, "://") && !patch(w) && !annotation.MatchString(w):
			return false
		}
	}
	return !configures.MatchString(strings.Join(words, "\n"))
}

// search matches the only pipe that commands have: the output is searched for a word.
var search = regexp.MustCompile(` \| grep [A-Za-z0-9./_-]+$`)

// harmless reports whether all commands of a text are inert and go to the person's own cluster and account. Several commands are
// joined by &&, and a value may contain the time.
func harmless(text string) bool {
	text = strings.ReplaceAll(text, "-$(date +%s) ", "-1 ")
	for i, part := range strings.Split(text, " && ") {
		if words, ok := inert(search.ReplaceAllString(part, "")); !ok || !home(words) || i > 0 && !command(part) {
			return false
		}
	}
	return true
}

// inert returns the words of a text, and whether a shell that is given the text runs only its first command and opens no file: outside
// of single quotes it contains no character that would make a POSIX shell do so. In double quotes only the characters that stay special
// there count.
func inert(text string) (words []string, ok bool) {
	const plain, single, double = 0, '\'', '"'
	in, one := rune(plain), ""
	for _, r := range text + " " {
		switch {
		case in == single && r != single, in == double && r != double && !strings.ContainsRune("$`\\", r):
			one += string(r)
		case in == r:
			in = plain
		case strings.ContainsRune("$`\\;&|<>(){}*?[]!#~", r):
			return nil, false
		case r == single || r == double:
			in = r
		case r != ' ':
			one += string(r)
		case one != "":
			words, one = append(words, one), ""
		}
	}
	return words, in == plain
}
