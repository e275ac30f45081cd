package say

import (
	"strings"
	"unicode"

	"github.com/lbremedy/lbremedy/shared/regex"
)

// A Segment is a part of a sentence for people: prose, or a command to paste.
type Segment struct {
	Text    string
	Command bool
}

// commands matches the beginning of a command: after a colon, at the beginning of a line, or after another command and a joining word.
// lbremedy counts only before one of its commands: a sentence may begin with the name.
var commands = regex.New(`(?:^(?:then |and |or |然后 |以及 )?|\n|: ?|：)((?:kubectl|aliyun|helm|nats)|lbremedy (?:` + strings.Join(Commands, "|") + `))(?: |\.|。|$)`)

// quoted matches a foreign text in a sentence, as %q writes it; it may be cut. No command begins in it.
var quoted = regex.New(`"(?:[^"\\\n]|\\.)*"?`)

// Commands are lbremedy's commands that texts name.
var Commands = []string{
	"approve", "breaker", "classify", "console", "dead", "doctor", "hand", "keys", "lb", "ls", "mcp", "pause", "plan", "policy", "preflight", "reject",
	"replay", "resume", "run", "show", "status", "tickets", "undo", "up",
}

// Segments splits a text. A command ends with its sentence; quoted text belongs to it.
func Segments(text string) []Segment {
	var all []Segment
	add := func(s string, command bool) {
		if s = strings.TrimSpace(s); s != "" {
			all = append(all, Segment{s, command})
		}
	}
	for {
		bare := quoted().ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat("_", len(s)) })
		at := commands().FindStringSubmatchIndex(bare)
		if at == nil {
			add(text, false)
			return all
		}
		end := endOfCommand(text, at[2])
		add(text[:at[2]], false)
		add(text[at[2]:end], true)
		text = strings.TrimLeft(text[end:], ".,; 。，；")
	}
}

func endOfCommand(text string, from int) int {
	var quote rune
	for i, c := range text[from:] {
		i += from
		rest := text[i+len(string(c)):]
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '\n', c == '。', c == '；', c == '，':
			return i
		case c == '.' && (rest == "" || strings.HasPrefix(rest, "\n") || strings.HasPrefix(rest, " ") && begins(rest[1:])):
			return i
		case (c == ';' || c == ',') && strings.HasPrefix(rest, " "), c == ' ' && strings.HasPrefix(rest, "("):
			return i
		}
	}
	return len(text)
}

func begins(text string) bool {
	for _, c := range text {
		return unicode.IsUpper(c) || unicode.Is(unicode.Han, c) || c == '"' || c == '(' || strings.HasPrefix(text, "lbremedy ")
	}
	return true
}
