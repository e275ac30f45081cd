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
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/lbremedy/lbremedy/events"
)

// version is set by the build.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends at once
	p := &program{in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv, now: time.Now, terminal: terminal}
	os.Exit(p.run(ctx, os.Args[1:]))
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
	settings
}

// The exit codes.
const (
	codeFailed = 1 // something failed
	codeWrong  = 2 // usage, configuration or input is wrong
	codeOpen   = 3 // all went well, and a case is not settled
)

const exitCodes = `Exit codes: 0 all went well; 1 something failed; 2 the usage, the configuration or
the input is wrong; 3 all went well, and at least one case is not settled: a person
must act or agree (asked), it is looked at again later (waiting, unsettled), or it
was to be applied and the policy only observes (planned).`

// A mistake is an error of whoever called the program: in the usage, the
// configuration or the input.
type mistake struct{ error }

func (m mistake) Unwrap() error { return m.error }

func wrong(format string, args ...any) error { return mistake{fmt.Errorf(format, args...)} }

// errOpen says that a case is not settled; the output has said so already.
var errOpen = errors.New("a case is not settled")

// errSaid says that something failed that the output has told of already.
var errSaid = errors.New("it was said")

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
	case errors.Is(err, errOpen):
		return codeOpen
	case errors.Is(err, errSaid):
		return codeFailed
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		fmt.Fprintln(p.err, "error: interrupted")
		return codeFailed
	}
	// Joined errors stand on a line each.
	for line := range strings.Lines(events.Redact(err.Error())) {
		fmt.Fprintln(p.err, p.paintOn(p.err, red, "error:"), clean(strings.TrimSpace(line)))
	}
	if errors.As(err, &m) {
		return codeWrong
	}
	return codeFailed
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
			return wrong("there is no command %q: see lbremedy --help", args[0])
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return p.settle(cmd) },
	}
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return wrong("%w: see %s --help", noStrconv(err), cmd.CommandPath())
	})
	p.settings.flags(root)
	root.AddGroup(
		&cobra.Group{ID: "run", Title: "Watch a cluster:"},
		&cobra.Group{ID: "cases", Title: "Look at cases:"},
		&cobra.Group{ID: "decide", Title: "Decide by hand:"},
		&cobra.Group{ID: "about", Title: "About lbremedy:"},
	)
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("run", p.up(), p.setup())
	add("cases", p.ls(), p.show(), p.watch(), p.undo(), p.dead())
	add("decide", p.classify(), p.plan(), p.runCommand(), p.replay())
	add("about", p.catalog(), p.version())
	root.SetHelpCommandGroupID("about")
	root.SetCompletionCommandGroupID("about")
	return root
}

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
