package journal

import (
	"fmt"
	"strings"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
)

// markdown prints a case for a colleague who has no lbremedy at hand.
func markdown(p *cli.Program, h History, parts []Field, whole bool) {
	fmt.Fprintf(p.Out, "# %s: %s\n", command.Clean(h.Last().Service.String()), h.Last().Status())
	if whole {
		parts = append(parts, Field{p.Phrase("History"), strings.Join(lines(p, h), "\n")})
	}
	for _, f := range parts {
		if text := strings.TrimSpace(command.Clean(f.Text)); text != "" {
			fmt.Fprintf(p.Out, "\n**%s**\n\n%s\n", f.Name, verbatim(text))
		}
	}
}

// verbatim returns a text as Markdown that shows it as it is. What has lines of its own,
// or could be taken for markup, stands in a block.
func verbatim(text string) string {
	if !strings.ContainsAny(text, "\n`*_~<>[]{}()|#\\&!") {
		return text
	}
	return "```text\n" + strings.ReplaceAll(text, "```", "'''") + "\n```"
}
