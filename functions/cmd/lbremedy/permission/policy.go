// Package permission holds the commands about what may be written: policy, pause of all writes, and breakers of classes. Begin with Commands.
package permission

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/shared/ticket"
)

// Commands returns the commands of this package.
func Commands(p *cli.Program) []*cobra.Command {
	return []*cobra.Command{policyCommand(p), pause(p), resume(p), breaker(p)}
}

// Fixes reports whether a policy ever applies a plan.
func Fixes(p remedy.Policy) bool {
	return p.Mode == remedy.Fix || slices.ContainsFunc(p.Rules, func(r remedy.Rule) bool { return r.Mode == remedy.Fix }) ||
		slices.ContainsFunc(slices.Collect(maps.Values(p.Classes)), func(c remedy.Class) bool { return c.Mode == remedy.Fix })
}

// Describe says what a policy allows.
func Describe(allowed remedy.Policy) say.Text {
	text := []say.Text{say.F("observe: plans are shown and never applied")}
	switch {
	case allowed.Mode == remedy.Fix:
		text[0] = say.F("fix: plans up to %s risk are applied", allowed.Risk)
	case Fixes(allowed):
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
		Short: "Check a policy file, or show the policy in force",
	}
	return command.Parent(cmd, check(p), show(p))
}

type checked struct {
	Policy  remedy.Policy   `json:"policy"`
	Version string          `json:"version"`
	InForce *policy.InForce `json:"inForce,omitempty"` // compared with this one
	Diff    string          `json:"diff,omitempty"`    // difference between their texts
	Loosens []string        `json:"loosens,omitempty"` // fields that allow more writes than that one
}

func check(p *cli.Program) *cobra.Command {
	var secrets []string
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a policy, and say what it allows and what it would change",
		Long: `Read a policy file as "lbremedy up" does, and say what it allows and what each rule says,
or what is wrong with it, one sentence with file, line and field for each mistake. Its
templates are checked too, from the directories of --secrets. FILE may also be
configmap:NAMESPACE/NAME.

Where --cluster names a cluster and NATS is known, it also shows the lines in which the
file differs from the policy in force there, and names the fields by which more could be
written. The policy in force does not change.`,
		Example: `  lbremedy policy check fix.yaml
  lbremedy policy check fix.yaml --cluster c1234`,
		Args: command.Exactly(1, 1, "a policy file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			v, err := p.ReadPolicy(ctx, args[0])
			if err != nil {
				return err
			}
			if err := ticket.CheckTexts(v.Sinks, secrets); err != nil {
				return command.Mistake{Err: err}
			}
			c := checked{Policy: v.Policy, Version: v.Digest}
			if p.Cluster != "" && p.Known() {
				if err := compare(ctx, p, v, &c); err != nil {
					p.Note("It was not compared with the policy in force: %s.", command.Clean(event.Redact(err.Error())))
				}
			}
			return p.Print(c, func() {
				fmt.Fprint(p.Out, cli.Wrap(p.Phrase("%s.", Describe(v.Policy)), "", p.Width()))
				rules(p, v.Policy)
				if c.InForce != nil {
					differences(p, c)
				}
			})
		},
	}
	p.SecretFlag(cmd, &secrets)
	return cmd
}

func compare(ctx context.Context, p *cli.Program, v policy.Version, c *checked) error {
	s, err := p.Stream(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if said, err := cli.Unseen(ctx, s, p.Cluster); err != nil {
		return err
	} else if said != nil {
		p.Note("%s.", said)
	}
	now, told, err := p.InForce(ctx, s, p.Cluster)
	if err != nil {
		return err
	}
	if c.Diff, err = policy.Diff(now.Text, v.Text); err != nil {
		return err
	}
	c.InForce = &told
	c.Loosens = policy.Loosens(now.Policy, v.Policy, func(class string) bool {
		r, err := p.ClassOf(class)
		return err == nil && r.OptIn
	})
	return nil
}

func differences(p *cli.Program, c checked) {
	if c.Diff == "" {
		fmt.Fprintln(p.Out, p.Phrase("It says the same as the policy in force in cluster %s.", p.Cluster))
		return
	}
	fmt.Fprintln(p.Out, p.Phrase("It changes the policy in cluster %s:", p.Cluster))
	for line := range strings.Lines(c.Diff) {
		fmt.Fprintln(p.Out, "  "+command.Clean(strings.TrimSuffix(line, "\n")))
	}
	if len(c.Loosens) == 0 {
		fmt.Fprintln(p.Out, p.Phrase("lbremedy can write no more by it than before."))
		return
	}
	looser := p.Phrase("lbremedy could write more by it than before, because of %s.", strings.Join(c.Loosens, ", "))
	fmt.Fprint(p.Out, p.Paint(cli.Yellow, cli.Wrap(looser, "", p.Width())))
}

type shown struct {
	Policy  remedy.Policy   `json:"policy"`
	InForce policy.InForce  `json:"inForce"`
	Pauses  []control.Pause `json:"pauses"`
}

func show(p *cli.Program) *cobra.Command {
	return &cobra.Command{
		Use:   "show",
		Short: "Show the policy in force in a cluster, and what is paused",
		Long: `Show the policy in force in a cluster, as the engine there reports it: what it allows,
where it is kept, since when it is in force, and what is paused. -o yaml prints its text. The
cluster is that of --cluster, or else the only one that NATS knows.

Git, or the audit log of the API server, says who changed it and what it was before.`,
		Example: `  lbremedy policy show
  lbremedy policy show --cluster c1234 -o yaml > policy.yaml`,
		Args: command.Exactly(0, 0, ""),
		RunE: p.OnStream(func(ctx context.Context, s *stream.Stream, _ []string) error {
			var err error
			if p.Cluster, err = p.OneCluster(ctx, s); err != nil {
				return err
			}
			now, told, err := p.InForce(ctx, s, p.Cluster)
			if err != nil {
				return err
			}
			if said, err := cli.Unseen(ctx, s, p.Cluster); err != nil {
				return err
			} else if said != nil {
				p.Note("%s.", said)
			}
			if p.Output == "yaml" {
				p.NotePause(ctx, s)
				_, err = fmt.Fprint(p.Out, now.Text)
				return err
			}
			paused, err := control.PausesIn(ctx, s, p.Cluster)
			if err != nil {
				return err
			}
			return p.Print(shown{now.Policy, told, paused}, func() {
				fmt.Fprint(p.Out, cli.Wrap(p.Phrase("In force: %s.", Describe(now.Policy)), "", p.Width()))
				rules(p, now.Policy)
				if told.Version != "" {
					fmt.Fprint(p.Out, cli.Wrap(command.Clean(p.Tell(Origin(told))), "", p.Width()))
				}
				if frozen, _ := now.Policy.Frozen(p.Now()); len(frozen) > 0 {
					fmt.Fprintln(p.Out, command.Clean(p.Tell(frozen)))
				}
				pauses(p, paused)
			})
		}),
	}
}

// Origin says where the policy in force is stored.
func Origin(f policy.InForce) say.Text {
	return say.F("Version %s of %s, in force since %s.", f.Version, f.Source, cli.Clock(f.Since))
}

func rules(p *cli.Program, allowed remedy.Policy) {
	for _, r := range allowed.Rules {
		fmt.Fprintln(p.Out, "  "+p.Phrase("%s: %s", command.Clean(r.String()), command.Clean(p.Tell(RuleText(r)))))
	}
	for _, r := range allowed.Approvals {
		fmt.Fprintln(p.Out, "  "+command.Clean(p.Tell(r.Text())))
	}
}

// RuleText says what a rule changes.
func RuleText(r remedy.Rule) say.Text {
	var text []say.Text
	if r.Mode != "" {
		text = append(text, say.Literal(string(r.Mode)))
	}
	if r.Risk != nil {
		text = append(text, say.F("plans up to %s risk", r.Risk))
	}
	return say.Items(text, len(text))
}
