// Lbremedy is the operator's program: it heals load-balancer Services on ACK whose
// sync fails, and shows what was found out and done.
//
// What it prints as data goes to standard output, as a table, JSON or YAML; what
// it says beside that, progress and errors, goes to standard error. An error is one
// sentence that names the culprit and the way out.
//
// Two decisions shape the commands. What may write says so: plan never does, and
// run, replay and undo do only with --apply. And the commands that look at a case
// find the stream by themselves: "up" leaves its address and token in the state
// directory, so that nothing has to be set on the machine where it runs.
package main

import (
	"context"
	"io"
	"os"
	"time"
	_ "time/tzdata" // policy files name time zones, and an image may know none

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/command"
)

// version is set by the build.
var version = "dev"

func main() {
	command.Main(func(ctx context.Context, args []string) int {
		p := &program{in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv, now: time.Now, terminal: terminal, keys: cloud.DefaultChain()}
		return p.run(ctx, args)
	})
}

// terminal returns the width of the terminal behind a reader or writer; 0 if there is none.
func terminal(stream any) int {
	f, ok := stream.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 {
		return 80
	}
	return width
}

// A program is one call of lbremedy: what it is given, and where it writes.
type program struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
	now      func() time.Time
	terminal func(stream any) int // width; 0: no terminal
	keys     cloud.Credentials    // for Alibaba Cloud
	settings
}

// codeOpen is the exit code, beside those of all programs, for what went well while a
// case is not settled.
const codeOpen = 3

const exitCodes = `Exit codes: 0 all went well; 1 something failed; 2 the usage, the configuration or
the input is wrong; 3 all went well, and at least one case is not settled: a person
must act or agree (asked), it is looked at again later (waiting, unsettled), or it
was to be applied and the policy only observes (planned).`

// run runs the command that the arguments name and returns the exit code.
func (p *program) run(ctx context.Context, args []string) int {
	root := p.root()
	root.SetIn(p.in)
	root.SetOut(p.out)
	root.SetErr(p.err)
	return command.Run(ctx, root, args, p.paintOn(p.err, red, "error:"))
}

func (p *program) root() *cobra.Command {
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
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return p.settle(cmd) },
	}
	p.settings.flags(root)
	return command.Root(root,
		command.Group{ID: "run", Title: "Watch a cluster:", Commands: []*cobra.Command{p.up(), p.pause(), p.resume(), p.breaker(), p.policyCommand(), p.setup(), p.backup(), p.restore()}},
		command.Group{ID: "cases", Title: "Look at cases:", Commands: []*cobra.Command{p.ls(), p.show(), p.tickets(), p.watch(), p.approve(), p.undo(), p.dead(), p.export(), p.ledger()}},
		command.Group{ID: "decide", Title: "Decide by hand:", Commands: []*cobra.Command{p.classify(), p.plan(), p.runCommand(), p.replay()}},
		command.Group{ID: "look", Title: "Look at a cluster:", Commands: []*cobra.Command{p.doctor(), p.lb(), p.ram()}},
		command.Group{ID: "about", Title: "About lbremedy:", Commands: []*cobra.Command{p.catalog(), p.version()}},
	)
}
