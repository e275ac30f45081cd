package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// print writes a value as the flags ask for; in the form of a table, show does it.
func (p *program) print(value any, show func() error) error {
	switch p.output {
	case "json":
		enc := json.NewEncoder(p.out)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(value)
	case "yaml":
		return p.yaml(value)
	}
	return show()
}

// yaml writes a value as YAML.
func (p *program) yaml(value any) error {
	b, err := yaml.Marshal(value)
	if err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	_, err = p.out.Write(b)
	return err
}

// line writes a text.
func (p *program) line(format string, args ...any) error {
	_, err := fmt.Fprintf(p.out, format+"\n", args...)
	return err
}

// table prints rows under these columns.
func (p *program) table(columns []any, rows [][]any) error {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "   "
	style.Format.Header = text.FormatUpper
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	t.AppendHeader(columns)
	for _, r := range rows {
		for i, cell := range r {
			if s, ok := cell.(string); ok {
				r[i] = strings.Join(strings.Fields(clean(s)), " ")
			}
		}
		t.AppendRow(r)
	}
	return p.line("%s", t.Render())
}

// clean returns a text from outside without what moves a terminal's cursor or
// changes its colours; line breaks stay.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return ' '
		}
		return r
	}, s)
}

// A build is what the program was built from.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "version",
		Short:             "Show the version",
		Args:              exactly(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			b := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						b.Revision = s.Value
					}
				}
			}
			return p.print(b, func() error { return p.line("lbremedy-sim %s (%s, %s)", b.Version, b.Go, b.Platform) })
		},
	}
}
