// Package permission is the commands for what may be written: the policy in force, the
// pause that stops all writes, and the breakers of classes.
package permission

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/engine/control"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/policy/policyfile"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/ticket"
)

// Commands returns the commands of this package.
func Commands(p *cli.Program) []*cobra.Command {
	return []*cobra.Command{policyCommand(p), pause(p), resume(p), breaker(p)}
}

// Describe says what a policy allows.
func Describe(allowed remedy.Policy) say.Text {
	text := []say.Text{say.F("observe: plans are shown and never applied")}
	fixes := slices.ContainsFunc(slices.Collect(maps.Values(allowed.Classes)), func(c remedy.Class) bool { return c.Mode == remedy.Fix }) ||
		slices.ContainsFunc(allowed.Rules, func(r remedy.Rule) bool { return r.Mode == remedy.Fix })
	switch {
	case allowed.Mode == remedy.Fix:
		text[0] = say.F("fix: plans up to %s risk are applied", allowed.Risk)
	case fixes:
		text[0] = say.F("observe: plans are shown, and applied only where classes or rules say fix")
	}
	if n := len(allowed.Classes); n > 0 {
		text = append(text, say.F("with rules of their own for %s", say.Count(n, "class")))
	}
	if len(allowed.Rules) > 0 {
		text = append(text, say.F("rules differ for some places or classes"))
	}
	return say.Clauses(text, len(text))
}

func policyCommand(p *cli.Program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Check a policy file, put one in force, or show what is and was in force",
	}
	return command.Parent(cmd, check(p), apply(p), show(p), history(p), rollback(p), schema(p))
}

func check(p *cli.Program) *cobra.Command {
	var secrets func() []string
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a policy file and say what it allows",
		Long: `Read a policy file as "lbremedy up" does, and say what it allows and what each rule says,
or what is wrong with it, one sentence with file, line and field for each mistake. Its
templates are checked too, from the directories of --secrets. The policy in force does not
change.`,
		Args: command.Exactly(1, 1, "a policy file"),
		RunE: func(_ *cobra.Command, args []string) error {
			v, err := cli.PolicyVersion(args[0])
			if err != nil {
				return err
			}
			if err := ticket.CheckTexts(v.Sinks, secrets()); err != nil {
				return command.Mistake{Err: err}
			}
			return p.Print(v.Policy, func() {
				fmt.Fprintln(p.Out, p.Phrase("%s.", Describe(v.Policy)))
				rules(p, v.Policy)
			})
		},
	}
	secrets = p.SecretFlag(cmd)
	return cmd
}

func show(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Show the policy in force in the cluster that --cluster names, and what is paused",
		Long: `Show the policy in force in the cluster that --cluster names, and what is paused. -o yaml
prints a policy file that says the same, with its sinks; comments and people of the file
that was applied are not kept.`,
		Example: `  lbremedy policy show --cluster c1234
  lbremedy policy show --cluster c1234 -o yaml > policy.yaml`,
		Args: command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			cluster, err := ofCluster(p)
			if err != nil {
				return err
			}
			s, err := p.Stream(ctx)
			if err != nil {
				return err
			}
			defer s.Close()
			now, err := policy.InForceNow(ctx, s, cluster)
			if err != nil {
				return err
			}
			if said, err := cli.Unseen(ctx, s, cluster); err != nil {
				return err
			} else if said != nil {
				p.Note("%s.", said)
			}
			if p.Output == "yaml" {
				p.NotePause(ctx, s)
				text, err := policyfile.Document(now, cli.Sections()...)
				if err != nil {
					return err
				}
				_, err = p.Out.Write(text)
				return err
			}
			paused, err := control.Pauses(ctx, s)
			if err != nil {
				return err
			}
			return p.Print(map[string]any{"policy": now.Policy, "pauses": paused}, func() {
				fmt.Fprintln(p.Out, p.Phrase("In force: %s.", Describe(now.Policy)))
				rules(p, now.Policy)
				if now.Number > 0 {
					fmt.Fprintln(p.Out, command.Clean(p.Tell(Origin(now))))
				}
				if frozen, _ := now.Policy.Frozen(p.Now()); len(frozen) > 0 {
					fmt.Fprintln(p.Out, command.Clean(p.Tell(frozen)))
				}
				pauses(p, paused)
			})
		},
	}
}

func schema(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of policy files, for editors",
		Args:  command.Exactly(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			_, err := p.Out.Write(policyfile.Schema)
			return err
		},
	}
}

// rules prints what each rule of a policy says.
func rules(p *cli.Program, allowed remedy.Policy) {
	for _, r := range allowed.Rules {
		fmt.Fprintln(p.Out, "  "+p.Phrase("%s: %s", command.Clean(r.String()), command.Clean(p.Tell(Told(r)))))
	}
	for _, r := range allowed.Approvals {
		fmt.Fprintln(p.Out, "  "+command.Clean(p.Tell(r.Text())))
	}
}

// ofCluster returns the cluster whose policy is meant.
func ofCluster(p *cli.Program) (string, error) {
	if p.Cluster == "" {
		return "", command.Wrong("no cluster is named, and each has a policy of its own: set --cluster or LBREMEDY_CLUSTER")
	}
	return p.Cluster, nil
}

// Told says what a rule changes.
func Told(r remedy.Rule) say.Text {
	var text []say.Text
	if r.Mode != "" {
		text = append(text, say.Literal(string(r.Mode)))
	}
	if r.Risk != nil {
		text = append(text, say.F("plans up to %s risk", r.Risk))
	}
	return say.Items(text, len(text))
}
