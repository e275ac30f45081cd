package answer

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/journal"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/host"
	"github.com/lbremedy/lbremedy/shared/stream"
)

func planCommand(p *cli.Program) *cobra.Command {
	return new(Flags).command(p, &cobra.Command{
		Use:   "plan " + cli.ObjectArg + "...",
		Short: "Diagnose a failure now, and show what would be done",
		Long: `Diagnose the newest failure of a Service, a node or the cluster with your own credentials for the cluster and
the cloud, and show what would be done. Nothing is written, and no NATS is needed.
With NATS, the plan is checked against the policy in force and the journal; without it,
against observe mode. --policy replaces that policy.`,
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

func (a *Flags) answer(ctx context.Context, p *cli.Program, args []string, journalled bool, choose func(*host.Connection, []Item) ([]Item, error)) error {
	items, env, err := readItems(ctx, p, args, func() (*host.Connection, error) { return p.Prepare(ctx, a.policy, journalled) })
	defer func() { cli.Close(env) }()
	if err != nil {
		return err
	}
	if items, err = choose(env, items); err != nil {
		return err
	}
	return Failures(ctx, p, env, items, *a)
}

func replayCommand(p *cli.Program) *cobra.Command {
	var f journal.Filter
	var all bool
	a := Flags{replay: true}
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Diagnose stored failures again and compare the results; writes with --apply",
		Long: `Diagnose failures again that the stream keeps for a week: classify them with the table of
this version, find the cause now, and show the old and new class and verdict. With --apply
they are handled as if they were new, even if they were settled, under the journal and by
the policy in force or that of --policy.`,
		Example: `  lbremedy replay --class unclassified
  lbremedy replay --namespace shop --since 24h --apply`,
		Args: command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if err := f.Check(p); err != nil {
				return err
			}
			if a.Apply && f.Empty() && !all {
				return command.Wrong("replay --apply without a selection would handle all stored failures: " +
					"select some with --class, --namespace, --service or --since, or give --all")
			}
			return a.answer(ctx, p, nil, true, func(env *host.Connection, _ []Item) ([]Item, error) {
				items, err := keptFailures(ctx, p, env)
				if err != nil {
					return nil, err
				}
				items = slices.DeleteFunc(items, func(it Item) bool { return !f.Failure(it.Event.Failure) })
				if len(items) == 0 {
					p.Note("No failure is selected: there is nothing to do.")
				}
				return items, again(ctx, p, env, items)
			})
		},
	}
	f.FailureFlags(p, cmd)
	f.SinceFlag(cmd, "only what failed since this `time`: 90m, 7d or 2006-01-02T15:04")
	a.addPolicy(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "with --apply: all that the stream keeps")
	a.Add(cmd)
	return cmd
}

func keptFailures(ctx context.Context, p *cli.Program, env *host.Connection) ([]Item, error) {
	var list []Item
	g := p.Progress()
	defer g.Done()
	err := env.Stream.Each(ctx, stream.Failed, "lbremedy.failed."+env.Cluster+".>", time.Time{}, func(m stream.Message) error {
		it, err := Kept(p, m)
		if err != nil && !errors.As(err, new(command.Mistake)) { // a class that no longer exists is classified anew
			p.Note("message %d of the stream can't be read and is skipped: %s", m.Sequence, command.Clean(err.Error()))
			return nil
		}
		list = append(list, it)
		g.Say("reading the stream: %d failures", len(list))
		return nil
	})
	return list, err
}

func again(ctx context.Context, p *cli.Program, env *host.Connection, items []Item) error {
	by := p.Classifier()
	for i := range items {
		f := &items[i].Event.Failure
		was := &verdictThen{Class: f.Class}
		m, err := env.Stream.Last(ctx, stream.Cases, event.CaseSubject(f.Cluster, f.Service.UID, f.Class))
		switch {
		case err == nil:
			if r, err := event.DecodeRecord(m.Subject, m.Header, m.Data); err == nil {
				was.Result = r.Status()
			} else {
				p.Note("message %d of the journal can't be read and is skipped: %s", m.Sequence, command.Clean(err.Error()))
			}
		case !errors.Is(err, stream.ErrNotFound):
			return err
		}
		items[i].was = was
		now := by.Classify(event.Input{Reason: f.Reason, Type: f.Type, Component: f.Component, Message: f.Message})
		if now.Class != event.Ignored { // the stream holds only this cloud's failures; cut or redacted text must not change that
			f.Class = now.Class
		}
		r, err := p.ClassOf(f.Class)
		if err != nil {
			return err
		}
		items[i].Remedy = r
	}
	return nil
}
