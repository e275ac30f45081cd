// Package contexts is the commands on the contexts of the configuration file: named values
// of the global flags, for who works with several clusters.
package contexts

import (
	"fmt"
	"maps"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// Command returns the command context.
func Command(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "context",
		Short: "Keep values of the global flags by name, for several clusters",
		Long: `Keep values of the global flags by name, for several clusters. They are in the
configuration file, under contexts; its field current-context is the chosen one, and
--use or LBREMEDY_USE chooses another for one call.

Flags override variables, which override the context, which overrides the values at the
top of the file. --context is another thing: the context in the kubeconfig.`,
		Example: `  lbremedy context add prod --cluster c1234 --region cn-hangzhou --nats tls://nats.example:4222
  lbremedy context use prod
  lbremedy ls --use test`,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return p.SettleAlone(cmd) },
	}
	return command.Parent(cmd, add(p), use(p), ls(p), rm(p))
}

func add(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:   "add NAME",
		Short: "Add a context with the global flags of this call",
		Long: `Add a context with the global flags of this call, but --output. Variables are not taken.
Names of files are kept as absolute paths. Secrets are refused: use --nats-creds or --nats-nkey, or set
LBREMEDY_NATS_TOKEN. Only you can read the file afterwards.`,
		Example: `  lbremedy context add prod --cluster c1234 --region cn-hangzhou --nats tls://nats.example:4222 --nats-creds prod.creds`,
		Args:    command.Exactly(1, 1, "a name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			values, err := p.GivenFlags(name)
			if err != nil {
				return err
			}
			f, err := p.ConfigFile(cmd)
			if err != nil {
				return err
			}
			if _, ok := f.Contexts[name]; ok {
				return command.Wrong("there already is a context %s in %s: choose another name, or remove it with \"lbremedy context rm %s\"", name, f.Path, name)
			}
			if err := f.Set(name, values); err != nil {
				return err
			}
			return p.Print(entryOf(name, f.Current == name, values), func() {
				fmt.Fprintln(p.Out, p.Phrase("Added context %s to %s.", name, f.Path))
				p.Note("To use it from now on: lbremedy context use %s", name)
			})
		},
	}
}

// having returns the configuration file, which must have a context of this name.
func having(p *cli.Program, cmd *cobra.Command, name string) (cli.ConfigFile, error) {
	f, err := p.ConfigFile(cmd)
	if err != nil {
		return f, err
	}
	return f, f.Check(name)
}

func use(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:               "use NAME",
		Short:             "Choose the context of later calls",
		Args:              command.Exactly(1, 1, "the name of a context"),
		ValidArgsFunction: cli.OnlyFirst(p.CompleteContexts),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := having(p, cmd, args[0])
			if err != nil {
				return err
			}
			if err := f.Use(args[0]); err != nil {
				return err
			}
			return p.Print(entryOf(args[0], true, f.Contexts[args[0]]), func() {
				fmt.Fprintln(p.Out, p.Phrase("Using context %s: %s.", args[0], place(f.Contexts[args[0]])))
			})
		},
	}
}

func ls(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:   "ls",
		Short: "List the contexts",
		Args:  command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := p.ConfigFile(cmd)
			if err != nil {
				return err
			}
			list := []entry{}
			for _, name := range f.Names() {
				list = append(list, entryOf(name, name == f.Current, f.Contexts[name]))
			}
			return p.Print(list, func() {
				if len(list) == 0 {
					p.Note("No context. To add one: lbremedy context add NAME --cluster ID --region REGION --nats URL")
					return
				}
				t := p.Table("current", "name", "cluster", "region", "nats")
				for _, e := range list {
					mark := ""
					if e.Current {
						mark = "*"
					}
					t.AppendRow([]any{mark, e.Name, e.value("cluster"), e.value("region"), e.value("nats")})
				}
				t.Render()
			})
		},
	}
}

func rm(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:               "rm NAME",
		Short:             "Remove a context",
		Args:              command.Exactly(1, 1, "the name of a context"),
		ValidArgsFunction: cli.OnlyFirst(p.CompleteContexts),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := having(p, cmd, args[0])
			if err != nil {
				return err
			}
			if err := f.Remove(args[0]); err != nil {
				return err
			}
			return p.Print(entryOf(args[0], false, f.Contexts[args[0]]), func() {
				fmt.Fprintln(p.Out, p.Phrase("Removed context %s from %s.", args[0], f.Path))
				if f.Current == args[0] {
					p.Note("It was the chosen one: now none is.")
				}
			})
		},
	}
}

// An entry is a context as it is printed.
type entry struct {
	Name    string         `json:"name"`
	Current bool           `json:"current"`
	Values  map[string]any `json:"values"` // of global flags, none of them secret
}

// entryOf returns a context as it is printed: the file may hold secrets, and what is printed goes into logs.
func entryOf(name string, current bool, values map[string]any) entry {
	values = maps.Clone(values)
	delete(values, "nats-token")
	if list, ok := values["nats"].(string); ok {
		values["nats"] = stream.Redact(list)
	}
	return entry{name, current, values}
}

// value returns the value of a flag on a line.
func (e entry) value(flag string) string {
	v, ok := e.Values[flag]
	if !ok {
		return "-"
	}
	return command.Clean(fmt.Sprint(v))
}

// place says to which cluster a context leads.
func place(values map[string]any) say.Text {
	e := entry{Values: values}
	switch {
	case e.value("cluster") == "-":
		return say.F("no cluster")
	case e.value("region") == "-":
		return say.F("cluster %s", e.value("cluster"))
	}
	return say.F("cluster %s in %s", e.value("cluster"), e.value("region"))
}
