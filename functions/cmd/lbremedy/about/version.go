package about

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
)

func versionCommand(p *cli.Program) *cobra.Command {
	var modules bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Show the version, and with -o json those of all modules",
		Args:  command.Exactly(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			b := command.Built(p.Version)
			return p.Print(b, func() {
				fmt.Fprintln(p.Out, "lbremedy", b)
				if !modules {
					return
				}
				t := p.Table("module", "version")
				for _, path := range slices.Sorted(maps.Keys(b.Modules)) {
					t.AppendRow([]any{path, b.Modules[path]})
				}
				t.Render()
			})
		},
	}
	cmd.Flags().BoolVar(&modules, "modules", false, "also list the modules that the program was built from")
	return cmd
}
