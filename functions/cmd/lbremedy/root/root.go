// Package root puts the commands of lbremedy together: their groups in the help, the
// global flags, and how a call ends.
package root

import (
	"context"
	"slices"
	_ "time/tzdata" // policy files name time zones, and an image may know none

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/about"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/answer"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/approval"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/backup"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/balancer"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/deadletter"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/doctor"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/journal"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/permission"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/ram"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/tickets"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/up"
	"github.com/lbremedy/lbremedy/shared/command"
)

const exitCodes = `Exit codes: 0 all went well; 1 something failed; 2 the usage, the configuration or
the input is wrong; 3 all went well, and at least one case is not settled: a person
must act or agree (asked), it is looked at again later (waiting, unsettled), or it
was to be applied and the policy only observes (planned).`

// Main runs the program of this version, and ends the process.
func Main(version string) {
	command.Main(func(ctx context.Context, args []string) int { return Run(ctx, cli.New(version), args) })
}

// Run runs the command that the arguments name and returns the exit code.
func Run(ctx context.Context, p *cli.Program, args []string) int {
	root := rootCommand(p)
	root.SetIn(p.In)
	root.SetOut(p.Out)
	root.SetErr(p.Err)
	return command.Run(ctx, root, args, p.PaintOn(p.Err, cli.Red, "error:"))
}

func rootCommand(p *cli.Program) *cobra.Command {
	root := &cobra.Command{
		Use:   "lbremedy",
		Short: "Heal load-balancer Services on ACK whose sync fails",
		Long: `lbremedy heals Services of type LoadBalancer on Alibaba Cloud ACK whose sync fails.

Begin with "lbremedy up": it watches a cluster, finds the cause of each failure and
says what it would do. With --policy FILE it does so. "lbremedy ls" and "lbremedy
show" tell what was found out and done.

Every global flag has a variable (--state-dir is LBREMEDY_STATE_DIR) and a line in the
configuration file (state-dir: …). A flag goes before the variable, the variable
before the file.

` + exitCodes,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return p.Settle(cmd) },
	}
	p.AddFlags(root)
	return command.Root(root,
		command.Group{ID: "run", Title: "Watch a cluster:", Commands: slices.Concat(up.Commands(p), permission.Commands(p), backup.Commands(p))},
		command.Group{
			ID: "cases", Title: "Look at cases:",
			Commands: slices.Concat(journal.Commands(p), approval.Commands(p), []*cobra.Command{tickets.Command(p), deadletter.Command(p)}),
		},
		command.Group{ID: "decide", Title: "Decide by hand:", Commands: answer.Commands(p)},
		command.Group{ID: "look", Title: "Look at a cluster:", Commands: []*cobra.Command{doctor.Command(p), balancer.Command(p), ram.Command(p)}},
		command.Group{ID: "about", Title: "About lbremedy:", Commands: about.Commands(p)},
	)
}
