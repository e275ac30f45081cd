package root

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
)

func versionCommand(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version, and with -o json those of all modules",
		Args:  command.Exactly(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			b := command.Built(p.Version)
			return p.Print(b, func() { fmt.Fprintln(p.Out, "lbremedy", b) })
		},
	}
}
