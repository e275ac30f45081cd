package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/policy/policyfile"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/ticket"
)

func (p *program) policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Check a policy file, put one in force, or show what is in force",
	}
	check := &cobra.Command{
		Use:   "check FILE",
		Short: "Say what a policy file allows, or what is wrong with it",
		Long: `Read a policy file as "lbremedy up" does, and say what it allows, or what is wrong with
it, one sentence for each mistake. The templates that it names are tried too. Nothing comes
into force.`,
		Args: command.Exactly(1, 1, "a policy file"),
		RunE: func(_ *cobra.Command, args []string) error {
			allowed, err := policyFile(args[0])
			if err != nil {
				return err
			}
			sinks, err := policyfile.LoadTell(args[0], classes())
			if err == nil {
				err = ticket.CheckTexts(sinks)
			}
			if err != nil {
				return command.Mistake{Err: err}
			}
			return p.print(allowed, func() { fmt.Fprintln(p.out, describe(allowed)+".") })
		},
	}
	apply := &cobra.Command{
		Use:   "apply FILE",
		Short: "Put a policy file in force in the cluster that --cluster names",
		Args:  command.Exactly(1, 1, "a policy file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			allowed, err := policyFile(args[0])
			if err != nil {
				return err
			}
			cluster, err := p.ofCluster()
			if err != nil {
				return err
			}
			s, err := p.stream(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			if err := policy.Publish(cmd.Context(), s, cluster, allowed); err != nil {
				return err
			}
			if err := publishTell(cmd.Context(), s, cluster, args[0]); err != nil {
				return err
			}
			return p.print(allowed, func() { fmt.Fprintln(p.out, "In force: "+describe(allowed)+".") })
		},
	}
	show := &cobra.Command{
		Use:   "show",
		Short: "Show the policy in force in the cluster that --cluster names, and what is paused",
		Args:  command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			cluster, err := p.ofCluster()
			if err != nil {
				return err
			}
			s, err := p.stream(ctx)
			if err != nil {
				return err
			}
			defer s.Close()
			allowed, err := policy.InForce(ctx, s, cluster)
			if err != nil {
				return err
			}
			paused, err := engine.Pauses(ctx, s)
			if err != nil {
				return err
			}
			return p.print(map[string]any{"policy": allowed, "pauses": paused}, func() {
				fmt.Fprintln(p.out, "In force: "+describe(allowed)+".")
				for _, r := range allowed.Rules {
					fmt.Fprintln(p.out, "  "+command.Clean(r.String())+": "+command.Clean(told(r)))
				}
				if frozen, _ := allowed.Frozen(p.now()); len(frozen) > 0 {
					fmt.Fprintln(p.out, command.Clean(frozen))
				}
				p.pauses(paused)
			})
		},
	}
	schema := &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of policy files, for editors",
		Args:  command.Exactly(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			_, err := p.out.Write(policyfile.Schema)
			return err
		},
	}
	return command.Parent(cmd, check, apply, show, schema)
}

// ofCluster returns the cluster whose policy is meant.
func (p *program) ofCluster() (string, error) {
	if p.cluster == "" {
		return "", command.Wrong("no cluster is named, and each has a policy of its own: set --cluster or LBREMEDY_CLUSTER")
	}
	return p.cluster, nil
}

// told says what a rule changes.
func told(r remedy.Rule) string {
	text := string(r.Mode)
	if r.Risk != nil {
		if text != "" {
			text += ", "
		}
		text += "plans up to " + r.Risk.String() + " risk"
	}
	return text
}
