package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lbremedy/lbremedy/shared/near"
	"github.com/lbremedy/lbremedy/shared/say"
)

const columns = 80

// usage prints how to call a command, as cobra does, but without the global flags, which would hide the command's few.
func usage(cmd *cobra.Command) error {
	var b strings.Builder
	l := spoken(cmd.Root().Context())
	part := func(title, text string) {
		if text = strings.TrimRight(text, " \n"); text != "" {
			b.WriteString("\n\n" + title + "\n" + text)
		}
	}
	b.WriteString(l.Phrase("Usage:"))
	if cmd.Runnable() {
		b.WriteString("\n  " + cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\n  " + cmd.CommandPath() + " [command]")
	}
	if len(cmd.Aliases) > 0 {
		part(l.Phrase("Aliases:"), "  "+cmd.NameAndAliases())
	}
	part(l.Phrase("Examples:"), cmd.Example)
	for _, g := range cmd.Groups() {
		part(l.Format(g.Title), listed(cmd, g.ID, l))
	}
	part(l.Phrase("Commands:"), listed(cmd, "", l))
	own := cmd.LocalFlags()
	if !cmd.HasParent() {
		own = cmd.LocalNonPersistentFlags()
	}
	part(l.Phrase("Flags:"), flagUsages(own, l))
	b.WriteString("\n")
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\n" + l.Phrase("Use \"%s [command] --help\" for more information about a command.", cmd.CommandPath()))
	}
	if root := cmd.Root(); root.HasAvailablePersistentFlags() {
		b.WriteString("\n" + l.Phrase("Use \"%s options\" for the global flags.", root.Name()))
	}
	_, err := fmt.Fprintln(cmd.OutOrStderr(), strings.TrimRight(b.String(), "\n"))
	return err
}

func listed(in *cobra.Command, group string, l *say.Language) string {
	var b strings.Builder
	for _, c := range in.Commands() {
		if c.GroupID == group && (c.IsAvailableCommand() || c.Name() == "help") {
			fmt.Fprintf(&b, "  %-*s %s\n", c.NamePadding(), c.Name(), l.Format(c.Short))
		}
	}
	return b.String()
}

// unsettled is the hook of commands that work whatever the global flags are.
func unsettled(*cobra.Command, []string) error { return nil }

func optionsCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "options",
		Short:             "List the global flags",
		Args:              Exactly(0, 0, ""),
		PersistentPreRunE: unsettled,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l := spoken(cmd.Context())
			_, err := fmt.Fprint(cmd.OutOrStdout(), l.Phrase("Every command takes these flags:"), "\n\n", flagUsages(cmd.Root().PersistentFlags(), l))
			return err
		},
	}
}

// helpCommand returns the command that shows the help of another. For an unknown command, cobra's own shows the root's help and succeeds.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "help [COMMAND]",
		Short:             "Show the help of a command",
		PersistentPreRunE: unsettled,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			of, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var all []cobra.Completion
			for _, c := range of.Commands() {
				if c.IsAvailableCommand() {
					all = append(all, cobra.CompletionWithDesc(c.Name(), c.Short))
				}
			}
			return all, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, err := cmd.Root().Find(args)
			switch {
			case err != nil:
				return Mistake{Err: err}
			case len(rest) > 0:
				return noCommand(of, rest[0])
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	}
}

func noCommand(in *cobra.Command, name string) error {
	var names []string
	for _, c := range in.Commands() {
		if c.IsAvailableCommand() {
			names = append(append(names, c.Name()), c.Aliases...)
		}
	}
	path := strings.TrimPrefix(in.CommandPath()+" ", in.Root().Name()+" ")
	if meant := near.One(name, names); meant != "" {
		return Wrong("unknown command %q: did you mean %s?", path+name, path+meant)
	}
	return Wrong("unknown command %q: see %s --help", path+name, in.CommandPath())
}

func flagError(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && unknown.GetSpecifiedShortnames() == "" {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		if meant := near.One(unknown.GetSpecifiedName(), names); meant != "" {
			return Wrong("unknown flag --%s: did you mean --%s?", unknown.GetSpecifiedName(), meant)
		}
	}
	return Wrong("%w: see %s --help", ofFlag(err), cmd.CommandPath())
}

// ofFlag returns pflag's error about a flag as a mistake, without the names of Go's own functions.
func ofFlag(err error) error {
	var (
		unknown *pflag.NotExistError
		missing *pflag.ValueRequiredError
		value   *pflag.InvalidValueError
		syntax  *pflag.InvalidSyntaxError
		plain   = noStrconv(err)
		same    error
	)
	switch {
	case errors.As(err, &unknown):
		if short := unknown.GetSpecifiedShortnames(); short != "" {
			same = Wrong("unknown shorthand flag: %q in -%s", rune(unknown.GetSpecifiedName()[0]), short)
		} else {
			same = Wrong("unknown flag: --%s", unknown.GetSpecifiedName())
		}
	case errors.As(err, &missing):
		if short := missing.GetSpecifiedShortnames(); short != "" {
			same = Wrong("flag needs an argument: %q in -%s", rune(missing.GetSpecifiedName()[0]), short)
		} else {
			same = Wrong("flag needs an argument: --%s", missing.GetSpecifiedName())
		}
	case errors.As(err, &value):
		name := "--" + value.GetFlag().Name
		if short := value.GetFlag().Shorthand; short != "" {
			name = "-" + short + ", " + name
		}
		same = Wrong("invalid argument %q for %q flag", value.GetValue(), name)
		if why, ok := strings.CutPrefix(plain.Error(), same.Error()+": "); ok {
			same = Wrong("invalid argument %q for %q flag: %s", value.GetValue(), name, reason(why))
		}
	case errors.As(err, &syntax):
		same = Wrong("bad flag syntax: %s", syntax.GetSpecifiedFlag())
	}
	if same == nil || same.Error() != plain.Error() {
		return plain
	}
	return same
}

// reason returns pflag's reason for refusing a value (v1.1, one file for each type of value).
func reason(why string) say.Text {
	for _, known := range []say.Text{say.F("must be an integer"), say.F("must be a non-negative integer"), say.F("must be a number"),
		say.F("must be true or false"), say.F("must be a duration like \"30s\" or \"5m\"")} {
		if known.String() == why {
			return known
		}
	}
	return say.Literal(why)
}
