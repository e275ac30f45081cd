package journal

import (
	_ "embed"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
)

// SchemaFile is where the JSON Schema of a Case lies, from the root of the module.
const SchemaFile = "functions/cmd/lbremedy/journal/case.v1.json"

//go:embed case.v1.json
var caseSchema string

func schema(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:   "schema case",
		Short: "Print the JSON Schema of a case as commands print it",
		Long: `Print the JSON Schema of a case: what "lbremedy show -o json" prints, and "lbremedy ls -o
json" a list of. Times are those of RFC 3339. Fields whose names end in Ms hold
milliseconds. What stands in "step" is as the journal keeps it. Readers must ignore unknown
fields.`,
		Example:   `  lbremedy schema case > case.schema.json`,
		Args:      command.Exactly(1, 1, "what to describe: case"),
		ValidArgs: []cobra.Completion{"case"},
		RunE: func(_ *cobra.Command, args []string) error {
			if args[0] != "case" {
				return command.Wrong("there is no schema of %q; there is one of case", args[0])
			}
			_, err := fmt.Fprint(p.Out, caseSchema)
			return err
		},
	}
}
