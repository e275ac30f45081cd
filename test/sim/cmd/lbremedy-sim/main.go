// Lbremedy-sim runs the simulated cloud alone, and a controller where it is
// given a cluster, so that a person can break things by hand, watch what
// happens, and heal them.
//
// "lbremedy-sim up" is the cloud: it listens on loopback until it is told to
// end. All other commands talk to one that runs, over its admin API, and find it
// by themselves: up leaves its address in a state directory, and the environment
// that it prints names it. What a command prints as data goes to standard output,
// as a table, JSON or YAML; what it says beside that goes to standard error.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// version is set by the build.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends at once
	p := &program{in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv}
	os.Exit(p.run(ctx, os.Args[1:]))
}

// A program is one call of lbremedy-sim: what it is given, and where it writes.
type program struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string

	name, server, state, output string // the global flags
}

// The exit codes.
const (
	codeFailed = 1 // something failed, or is not there
	codeWrong  = 2 // usage or input is wrong
)

// A mistake is an error of whoever called the program, in the usage or the input.
type mistake struct{ error }

func (m mistake) Unwrap() error { return m.error }

func wrong(format string, args ...any) error { return mistake{fmt.Errorf(format, args...)} }

// run runs the command that the arguments name and returns the exit code.
func (p *program) run(ctx context.Context, args []string) int {
	root := p.root()
	root.SetArgs(args)
	root.SetIn(p.in)
	root.SetOut(p.out)
	root.SetErr(p.err)
	err := root.ExecuteContext(ctx)
	var m mistake
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		_, _ = fmt.Fprintln(p.err, "error: interrupted")
		return codeFailed
	}
	for line := range strings.Lines(err.Error()) { // joined errors stand on a line each
		_, _ = fmt.Fprintln(p.err, "error:", clean(strings.TrimSpace(line)))
	}
	if errors.As(err, &m) {
		return codeWrong
	}
	return codeFailed
}

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "lbremedy-sim",
		Short: "Run a simulated Alibaba Cloud, break it, and heal it",
		Long: `lbremedy-sim runs a simulated Alibaba Cloud on a loopback address, and beside it the
simulated controller that syncs the Services of a cluster with it.

Begin with "lbremedy-sim up" in one terminal. In another, eval "$(lbremedy-sim env)"
makes lbremedy and the SDKs talk to it; "ls", "set" and "fault" look at what there is,
change it, and put faults in the way of calls; "calls --follow" shows what is called.

Each global flag has a variable: --server is LBREMEDY_SIM, --name LBREMEDY_SIM_NAME and
--state-dir LBREMEDY_SIM_STATE_DIR.

Exit codes: 0 all went well; 1 something failed or is not there; 2 the usage or the
input is wrong.`,
		Example: `  lbremedy-sim up --world world.yaml &
  eval "$(lbremedy-sim env --wait 5s)"
  lbremedy-sim set vswitches vsw-1 free=0
  lbremedy-sim fault add slb:Create* --code Throttling.User --count 3
  lbremedy-sim calls --follow`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs, // so that RunE names what is unknown, in our words
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				return wrong("there is no command %q: did you mean %s", args[0], strings.Join(near, " or "))
			}
			return wrong("there is no command %q: see lbremedy-sim --help", args[0])
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return p.settle(cmd.Root().PersistentFlags()) },
	}
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return wrong("%w: see %s --help", noStrconv(err), cmd.CommandPath())
	})
	f := root.PersistentFlags()
	f.StringVar(&p.name, "name", "default", "`name` of the simulation, where several run")
	f.StringVar(&p.server, "server", "", "`host:port` of the simulation (default the one that the state directory names)")
	f.StringVar(&p.state, "state-dir", "", "`directory` where up leaves its address (default $XDG_STATE_HOME/lbremedy-sim)")
	f.StringVarP(&p.output, "output", "o", "table", "`form` of the data: table, json or yaml")
	mustComplete(root, "output", cobra.FixedCompletions([]string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	mustComplete(root, "server", cobra.NoFileCompletions)
	mustComplete(root, "name", p.completeNames)
	root.AddGroup(
		&cobra.Group{ID: "run", Title: "Run it:"},
		&cobra.Group{ID: "things", Title: "Look at things and change them:"},
		&cobra.Group{ID: "calls", Title: "Calls and faults:"},
		&cobra.Group{ID: "about", Title: "About lbremedy-sim:"},
	)
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("run", p.up(), p.env(), p.status())
	add("things", p.ls(), p.get(), p.add(), p.set(), p.edit(), p.rm(), p.dump(), p.load(), p.reset())
	add("calls", p.calls(), p.fault(), p.actions())
	add("about", p.versionCommand())
	root.SetHelpCommandGroupID("about")
	root.SetCompletionCommandGroupID("about")
	return root
}

// settle gives each global flag that wasn't set the value of its variable, and
// checks what has a certain form.
func (p *program) settle(flags *pflag.FlagSet) error {
	for _, f := range []struct{ flag, variable string }{{"server", "LBREMEDY_SIM"}, {"name", "LBREMEDY_SIM_NAME"}, {"state-dir", "LBREMEDY_SIM_STATE_DIR"}} {
		value := p.getenv(f.variable)
		// A simulation that is named goes before the address in the environment.
		if value == "" || flags.Changed(f.flag) || f.flag == "server" && (flags.Changed("name") || flags.Changed("state-dir")) {
			continue
		}
		if err := flags.Lookup(f.flag).Value.Set(value); err != nil {
			return wrong("%s: %w", f.variable, err)
		}
	}
	if !slices.Contains([]string{"table", "json", "yaml"}, p.output) {
		return wrong("--output: %q is not one of table, json, yaml", p.output)
	}
	if !nameForm.MatchString(p.name) {
		return wrong("--name: %q is not 1 to 32 letters, digits, hyphens and underscores", p.name)
	}
	return nil
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

// exactly returns a check that a command has its arguments; most < 0: any number.
func exactly(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return wrong("%s needs %s: see %s --help", cmd.Name(), what, cmd.CommandPath())
		case most == 0 && len(args) > 0:
			return wrong("%s takes no argument, and %q is one: see %s --help", cmd.Name(), args[0], cmd.CommandPath())
		case most >= 0 && len(args) > most:
			return wrong("%s takes %s, and %q is one too many: see %s --help", cmd.Name(), what, args[most], cmd.CommandPath())
		}
		return nil
	}
}

var strconvNoise = regexp.MustCompile(`: (?:strconv\.\w+: parsing|time: invalid) .*`)

// noStrconv returns the error without the names of Go's own functions.
func noStrconv(err error) error { return errors.New(strconvNoise.ReplaceAllString(err.Error(), "")) }

// note says something to a person.
func (p *program) note(format string, args ...any) {
	_, _ = fmt.Fprintln(p.err, clean(fmt.Sprintf(format, args...)))
}
