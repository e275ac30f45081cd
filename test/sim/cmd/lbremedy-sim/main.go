// Lbremedy-sim runs the simulated cloud, and a controller if it has a cluster, for a person who wants to break things, watch, and
// repair them. "lbremedy-sim up" is the cloud: it listens on loopback until it is stopped. All other commands use its admin API,
// whose address they find in a state directory or in the environment that up prints. Commands print data to standard output as a
// table, JSON or YAML, and messages to standard error.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lbremedy/lbremedy/shared/command"
)

var version = "dev"

func main() {
	command.Main(func(ctx context.Context, args []string) int {
		p := &program{in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv}
		return p.run(ctx, args)
	})
}

type program struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string

	name, server, state, output string // global flags
}

func (p *program) run(ctx context.Context, args []string) int {
	root := p.root()
	root.SetIn(p.in)
	root.SetOut(p.out)
	root.SetErr(p.err)
	return command.Run(ctx, root, args, "error:")
}

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "lbremedy-sim",
		Short: "Run a simulated Alibaba Cloud, break it, and repair it",
		Long: `lbremedy-sim runs a simulated Alibaba Cloud on a loopback address, and beside it the
simulated controller that syncs the Services of a cluster with it.

Begin with "lbremedy-sim up" in one terminal. In another, eval "$(lbremedy-sim env)"
makes lbremedy and the SDKs talk to it; "ls", "set" and "fault" look at what there is,
change it, and inject faults into calls; "calls --follow" shows the calls.

Each global flag has a variable: --server is LBREMEDY_SIM, --name LBREMEDY_SIM_NAME and
--state-dir LBREMEDY_SIM_STATE_DIR.

Exit codes: 0 all went well; 1 something failed or is not there; 2 the usage or the
input is wrong.`,
		Example: `  lbremedy-sim up --world world.yaml &
  eval "$(lbremedy-sim env --wait 5s)"
  lbremedy-sim set vswitches vsw-1 free=0
  lbremedy-sim fault add slb:Create* --code Throttling.User --count 3
  lbremedy-sim calls --follow`,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return p.settle(cmd.Root().PersistentFlags()) },
	}
	f := root.PersistentFlags()
	f.StringVar(&p.name, "name", "default", "`name` of the simulation, where several run")
	f.StringVar(&p.server, "server", "", "`host:port` of the simulation (default the one that the state directory names)")
	f.StringVar(&p.state, "state-dir", "", "`directory` where up leaves its address (default $XDG_STATE_HOME/lbremedy-sim)")
	f.StringVarP(&p.output, "output", "o", "table", "`form` of the data: table, json or yaml")
	command.Complete(root, "output", cobra.FixedCompletions([]string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	command.Complete(root, "server", cobra.NoFileCompletions)
	command.Complete(root, "name", p.completeNames)
	return command.Root(root,
		command.Group{ID: "run", Title: "Run it:", Commands: []*cobra.Command{p.up(), p.env(), p.status()}},
		command.Group{ID: "things", Title: "Look at things and change them:", Commands: []*cobra.Command{
			p.ls(), p.get(), p.add(), p.set(), p.edit(), p.rm(), p.dump(), p.load(), p.reset(),
		}},
		command.Group{ID: "calls", Title: "Calls and faults:", Commands: []*cobra.Command{p.calls(), p.fault(), p.actions()}},
		command.Group{ID: "about", Title: "About lbremedy-sim:", Commands: []*cobra.Command{p.versionCommand()}},
	)
}

// settle sets global flags from their variables if they were not given, and validates some.
func (p *program) settle(flags *pflag.FlagSet) error {
	for _, f := range []struct{ flag, variable string }{{"server", "LBREMEDY_SIM"}, {"name", "LBREMEDY_SIM_NAME"}, {"state-dir", "LBREMEDY_SIM_STATE_DIR"}} {
		value := p.getenv(f.variable)
		// A named simulation takes precedence over the address in the environment.
		if value == "" || flags.Changed(f.flag) || f.flag == "server" && (flags.Changed("name") || flags.Changed("state-dir")) {
			continue
		}
		if err := flags.Lookup(f.flag).Value.Set(value); err != nil {
			return command.Wrong("%s: %w", f.variable, err)
		}
	}
	if !slices.Contains([]string{"table", "json", "yaml"}, p.output) {
		return command.Wrong("--output: %q is not one of table, json, yaml", p.output)
	}
	if !nameForm.MatchString(p.name) {
		return command.Wrong("--name: %q is not 1 to 32 letters, digits, hyphens and underscores", p.name)
	}
	return nil
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

func (p *program) note(format string, args ...any) {
	_, _ = fmt.Fprintln(p.err, command.Clean(fmt.Sprintf(format, args...)))
}
