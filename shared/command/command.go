// Package command holds what the exporter and the programs with commands share: checks of arguments, mistakes and how they are printed, exit
// codes, and output formats. Function programs must not import it, to stay small. Begin with Main and Run.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
)

// An Exit is an error that ends a program with this code and without a message: the output has already said everything.
type Exit int

const (
	CodeFailed = 1 // something failed
	CodeWrong  = 2 // usage, configuration or input is wrong
)

// Error returns the code as text.
func (e Exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// A Mistake is an error of the caller of the program: in the usage, the configuration or the input.
type Mistake struct{ Err error }

// Error returns the error's text.
func (m Mistake) Error() string { return m.Err.Error() }

// Unwrap returns the error.
func (m Mistake) Unwrap() error { return m.Err }

// Wrong returns a Mistake with a text as in say.Errorf.
func Wrong(format string, args ...any) error { return Mistake{say.Errorf(format, args...)} }

// Main runs a program until it ends or gets a signal, and exits with its exit code. A second signal exits at once.
func Main(run func(ctx context.Context, args []string) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:]))
}

// Run runs the command that the arguments name and returns the exit code. It prints errors after the mark: joined errors on a line each,
// redacted, in the language of the context and with local times. Indented lines belong to the line before them.
func Run(ctx context.Context, root *cobra.Command, args []string, mark string) int {
	root.SetArgs(args)
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			Parent(c) // cobra's own shows its help for an unknown shell
		}
	}
	err := root.ExecuteContext(ctx)
	var silent Exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &silent):
		return int(silent)
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		_, _ = fmt.Fprintln(root.ErrOrStderr(), mark, spoken(ctx).Phrase("interrupted"))
		return CodeFailed
	}
	for line := range strings.Lines(Local(event.Redact(say.Of(err).In(spoken(ctx))))) {
		if line = Clean(line); !strings.HasPrefix(line, "  ") { // otherwise it is an item of the list begun before
			line = mark + " " + strings.TrimLeft(line, " ")
		}
		_, _ = fmt.Fprintln(root.ErrOrStderr(), strings.TrimRight(line, " \n"))
	}
	if errors.As(err, new(Mistake)) {
		return CodeWrong
	}
	return CodeFailed
}

// A Group is a group of commands in the help.
type Group struct {
	ID, Title string
	Commands  []*cobra.Command
}

// Alone completes the only command of a program.
func Alone(cmd *cobra.Command) *cobra.Command {
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetFlagErrorFunc(flagError)
	cmd.SetUsageFunc(usage)
	cmd.SetHelpFunc(help)
	return cmd
}

// Variables sets each flag that was not given from its variable, such as --state-dir from LBREMEDY_STATE_DIR.
func Variables(flags *pflag.FlagSet, env func(string) string) error {
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		variable := "LBREMEDY_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value := env(variable)
		if f.Changed || value == "" {
			return
		}
		if err := f.Value.Set(value); err != nil {
			errs = append(errs, Wrong("%s: %q is not a value for %s, which is a %s", variable, value, f.Name, f.Value.Type()))
		}
		f.Changed = true
	})
	return errors.Join(errs...)
}

// Root completes the root of a program with its commands and shared behavior: without arguments it shows the help, and a usage error is a
// Mistake that names the way out. The commands for help, completion and the global flags are in the last group.
func Root(root *cobra.Command, groups ...Group) *cobra.Command {
	Parent(Alone(root))
	if root.HasAvailablePersistentFlags() && len(groups) > 0 {
		last := &groups[len(groups)-1]
		last.Commands = append(slices.Clone(last.Commands), optionsCommand())
	}
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.ID, Title: g.Title})
		for _, c := range g.Commands {
			c.GroupID = g.ID
			root.AddCommand(c)
		}
		root.SetHelpCommandGroupID(g.ID)
		root.SetCompletionCommandGroupID(g.ID)
	}
	settleHelp(root)
	return root
}

// Parent adds subcommands to a command, which shows its help when called without one.
func Parent(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return noCommand(cmd, args[0])
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(commands...)
	return cmd
}

// Exactly returns a check of the number of arguments; most < 0: no limit. The Mistake names them by what.
func Exactly(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		what := say.Text{{Format: what}}
		switch {
		case len(args) < least:
			return Wrong("%s needs %s: see %s --help", cmd.Name(), what, cmd.CommandPath())
		case most == 0 && len(args) > 0:
			return Wrong("%s takes no argument, and %q is one: see %s --help", cmd.Name(), args[0], cmd.CommandPath())
		case most >= 0 && len(args) > most:
			return Wrong("%s takes %s, and %q is one too many: see %s --help", cmd.Name(), what, args[most], cmd.CommandPath())
		}
		return nil
	}
}

// Complete sets the completion of a flag's value. It panics if the flag doesn't exist.
func Complete(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(fmt.Sprintf("complete --%s: %v", flag, err))
	}
}

// ReadAtMost reads everything, or fails after n bytes.
func ReadAtMost(n int64, r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, n+1))
	if err == nil && int64(len(data)) > n {
		return nil, fmt.Errorf("it has more than %d MB: give it in parts", n>>20)
	}
	return data, err
}

// Clean returns a text without control sequences that move a terminal's cursor or change its colours; line breaks stay.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			return ' '
		}
		return r
	}, s)
}
