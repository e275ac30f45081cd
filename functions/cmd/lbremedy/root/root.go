// Package root assembles the commands of lbremedy: their groups in the help, the global flags, and the end of a call. Begin with Run.
package root

import (
	"context"
	"fmt"
	"slices"
	"strings"
	_ "time/tzdata" // policy files name time zones, and an image may lack them

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/answer"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/approval"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/balancer"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/console"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/deadletter"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/doctor"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/hands"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/journal"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/mcp"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/permission"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/status"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/tickets"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/up"
	"github.com/lbremedy/lbremedy/shared/command"
)

const exitCodes = `Exit codes: 0 success; 1 something failed; 2 the usage, the configuration or the input
is wrong; 3 success, but at least one case is not settled: a person must approve or act
(needs-approval, needs-action), it is retried later (waiting, unsettled), or the policy only
observes (planned).`

// Main runs the program of this version, and ends the process.
func Main(version string) {
	command.Main(func(ctx context.Context, args []string) int { return Run(ctx, cli.New(version), args) })
}

// Run runs the command in the arguments and returns the exit code.
func Run(ctx context.Context, p *cli.Program, args []string) int {
	p, failed := p.Call(ctx)
	root := rootCommand(p)
	root.SetIn(p.In)
	root.SetOut(p.Out)
	root.SetErr(p.Err)
	mark := p.PaintOn(p.Err, cli.Red, "error:")
	code := command.Run(command.Speak(ctx, p.Reader(root)), root, args, mark)
	if err := failed(); err != nil && code != command.CodeFailed && code != command.CodeWrong { // it has already said so, or worse
		fmt.Fprintln(p.Err, mark, p.Phrase("the output could not be written: %s", command.Clean(err.Error())))
		return command.CodeFailed
	}
	return code
}

func rootCommand(p *cli.Program) *cobra.Command {
	root := &cobra.Command{
		Use:   "lbremedy",
		Short: "Repair load-balancer Services on ACK that fail to sync",
		Long: `lbremedy repairs Services of type LoadBalancer on Alibaba Cloud ACK that fail to sync.

Start with "lbremedy up": it watches a cluster, finds the cause of each failure and
reports what it would do. With --policy FILE it does it. "lbremedy ls" and "lbremedy
show" report what was found and done.

Every global flag can also be set by a variable: --state-dir by LBREMEDY_STATE_DIR. Flags
override variables. --context chooses one of several clusters in the kubeconfig.

` + exitCodes,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return p.Settle(cmd) },
	}
	p.AddFlags(root)
	root.Version = command.Built(p.Version).String()
	root.SetVersionTemplate("lbremedy {{.Version}}\n")
	root.Flags().Bool("version", false, "show the version")
	command.Root(root,
		command.Group{ID: "run", Title: "Watch a cluster:", Commands: slices.Concat(up.Commands(p), permission.Commands(p))},
		command.Group{
			ID: "cases", Title: "Look at cases:",
			Commands: slices.Concat(journal.Commands(p), approval.Commands(p), []*cobra.Command{tickets.Command(p), deadletter.Command(p)}),
		},
		command.Group{ID: "decide", Title: "Decide by hand:", Commands: answer.Commands(p)},
		command.Group{
			ID: "look", Title: "Look at a cluster:",
			Commands: append(status.Commands(p), console.Command(p), mcp.Command(p), doctor.Command(p), balancer.Command(p)),
		},
		command.Group{ID: "about", Title: "About lbremedy:", Commands: []*cobra.Command{hands.Command(p), versionCommand(p)}},
	)
	p.NameServices(root)
	if p.Plugin {
		asPlugin(root)
	}
	return root
}

func asPlugin(cmd *cobra.Command) {
	if !cmd.HasParent() {
		cmd.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl lbremedy"}
	}
	cmd.Example = strings.ReplaceAll(cmd.Example, "lbremedy ", "kubectl lbremedy ")
	for _, c := range cmd.Commands() {
		asPlugin(c)
	}
}
