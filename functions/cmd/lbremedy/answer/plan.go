package answer

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
)

func planCommand(p *cli.Program) *cobra.Command {
	return new(Flags).command(p, &cobra.Command{
		Use:   "plan " + cli.ObjectArg + "...",
		Short: "Diagnose a failure now, and show what would be done",
		Long: `Diagnose the newest failure of a Service, a node or the cluster with your own credentials for the cluster and
the cloud, and show what would be done. Nothing is written, and no NATS is needed. Where
one is known, the plan is judged by the policy in force and the journal; without it and
without --policy, for observe mode.`,
		Example: "  lbremedy plan shop/web\n  lbremedy plan node/cn-hangzhou.10.0.0.7\n  lbremedy plan cluster",
	})
}

func runCommand(p *cli.Program) *cobra.Command {
	a := &Flags{}
	cmd := a.command(p, &cobra.Command{
		Use:   "run " + cli.ObjectArg + "...",
		Short: "Handle a failure now, under the journal; writes with --apply",
		Long: `Handle the newest failure of Services, of nodes or of the cluster now and with your own
credentials. It uses the journal, so no other run works on the same object at the same time. The policy in force
decides what is done, or that of --policy.

Without --apply it only shows what would be done, as plan does. With it a waiting case is
retried until it is settled or --wait is over; a worker continues from there.

With --apply --approve DIGEST you approve the plan that was shown, in your own name, if it
is still the same. Your approval counts as one that "lbremedy approve" creates, but in this
run alone; it needs no Approvals in the cluster.`,
		Example: `  lbremedy run shop/web
  lbremedy run shop/web --policy fix.yaml --apply
  lbremedy run shop/web --apply --approve 0f8e12ab`,
	})
	a.Add(cmd)
	a.AddApprove(cmd)
	return cmd
}

func (a *Flags) command(p *cli.Program, cmd *cobra.Command) *cobra.Command {
	cmd.Args = command.Exactly(1, -1, "a Service as NAMESPACE/NAME, a node as node/NAME, or cluster")
	cmd.ValidArgsFunction = p.CompleteObjects
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.answer(cmd.Context(), p, args, a.Apply, func(_ *host.Connection, items []Item) ([]Item, error) { return items, nil })
	}
	a.addPolicy(cmd)
	return cmd
}

func (a *Flags) addPolicy(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.policy, "policy", "", "policy instead of the one in force: a `file` or configmap:NAMESPACE/NAME")
}

// Plan returns what would be done about an object's newest failure, and whether it has one. It writes nothing.
func Plan(ctx context.Context, p *cli.Program, object string) (event.Record, bool, error) {
	items, env, err := readItems(ctx, p, []string{object}, func() (*host.Connection, error) { return p.Prepare(ctx, "", false) })
	defer func() { cli.Close(env) }()
	if err != nil || len(items) == 0 {
		return event.Record{}, false, err
	}
	rec, err := one(ctx, p, env, items[0], Flags{})
	return rec, err == nil, err
}

func (a *Flags) answer(ctx context.Context, p *cli.Program, args []string, stream bool, choose func(*host.Connection, []Item) ([]Item, error)) error {
	items, env, err := readItems(ctx, p, args, func() (*host.Connection, error) { return p.Prepare(ctx, a.policy, stream) })
	defer func() { cli.Close(env) }()
	if err != nil {
		return err
	}
	if items, err = choose(env, items); err != nil {
		return err
	}
	return Failures(ctx, p, env, items, *a)
}
