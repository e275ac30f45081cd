package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/shared/command"
)

func (p *program) print(value any, show func() error) error {
	switch p.output {
	case "json":
		return command.JSON(p.out, value, "  ")
	case "yaml":
		return command.YAML(p.out, value)
	}
	return show()
}

func (p *program) line(format string, args ...any) error {
	_, err := fmt.Fprintf(p.out, format+"\n", args...)
	return err
}

func (p *program) table(columns []any, rows [][]any) error {
	t := command.Table(columns...)
	for _, r := range rows {
		for i, cell := range r {
			if s, ok := cell.(string); ok {
				r[i] = strings.Join(strings.Fields(command.Clean(s)), " ")
			}
		}
		t.AppendRow(r)
	}
	return p.line("%s", t.Render())
}

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "version",
		Short:             "Show the version",
		Args:              command.Exactly(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			b := command.Built(version)
			b.Modules = nil // they are those of lbremedy
			return p.print(b, func() error { return p.line("lbremedy-sim %s", b) })
		},
	}
}
