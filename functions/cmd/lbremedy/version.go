package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/shared/command"
)

func (p *program) version() *cobra.Command {
	var modules bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version, and with -o json those of all modules",
		Args:  command.Exactly(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			b := command.Built(version)
			return p.print(b, func() {
				fmt.Fprintln(p.out, "lbremedy", b)
				if !modules {
					return
				}
				t := p.table("module", "version")
				for _, path := range slices.Sorted(maps.Keys(b.Modules)) {
					t.AppendRow([]any{path, b.Modules[path]})
				}
				t.Render()
			})
		},
	}
	cmd.Flags().BoolVar(&modules, "modules", false, "list the modules that the program was built from, too")
	return cmd
}
