package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/event/table"
	"github.com/lbremedy/lbremedy/shared/stream"
)

func (p *program) replay() *cobra.Command {
	var f filter
	var files []string
	var file string
	var all bool
	a := answering{replay: true}
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Answer kept failures again, and compare with what was said then; writes with --apply",
		Long: `Answer failures again that the stream keeps for a week, or that a file holds: classify
them by the table of this version, look for the cause here and now, and show class and
verdict of then beside those of now. With --apply they are answered as if they had
just come, also those that were settled, under the journal and by the policy in force
or that of --policy.

A file is read as by "lbremedy plan". With one, and without --apply, no NATS is needed.`,
		Example: `  lbremedy replay --class unclassified
  lbremedy replay --namespace shop --since 24h --apply
  kubectl get events -A -o json | lbremedy replay -f -`,
		Args: command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if err := f.check(); err != nil {
				return err
			}
			if a.apply && f.empty() && len(files) == 0 && !all {
				return command.Wrong("replay --apply without a choice would answer all that the stream keeps: choose with --class, --namespace, --service, --since or -f, or say --all")
			}
			fromStream := len(files) == 0
			items, env, err := p.items(ctx, files, func() (*engine.Env, error) {
				if fromStream || a.apply || p.known() {
					return p.connect(ctx, file)
				}
				env, err := p.look(ctx, p.host())
				if err != nil {
					return nil, err
				}
				return env, setPolicy(env, file, nil)
			})
			if err != nil {
				return err
			}
			if env.Stream != nil {
				defer env.Stream.Close()
			}
			if fromStream {
				if items, err = p.kept(ctx, env); err != nil {
					return err
				}
			}
			chosen := items[:0]
			for _, it := range items {
				if f.failure(it.event.Failure) {
					chosen = append(chosen, it)
				}
			}
			if len(chosen) == 0 {
				p.note("No failure is chosen: there is nothing to answer.")
			}
			if err := p.again(ctx, env, chosen); err != nil {
				return err
			}
			return p.answer(ctx, env, chosen, a)
		},
	}
	f.failures(cmd)
	f.sinceFlag(cmd, "only what failed since this `time`: 90m, 7d or 2006-01-02T15:04")
	cmd.Flags().Var(&f.until, "until", "only what failed until this `time`")
	cmd.Flags().StringSliceVarP(&files, "file", "f", nil, "`file` with failures instead of those in the stream; - is standard input")
	cmd.Flags().StringVar(&file, "policy", "", "policy `file` instead of the policy in force")
	cmd.Flags().BoolVar(&all, "all", false, "with --apply: all that the stream keeps")
	a.flags(cmd)
	return cmd
}

// kept returns the failures of the cluster that the stream keeps, as they were classified.
func (p *program) kept(ctx context.Context, env *engine.Env) ([]item, error) {
	var list []item
	g := p.progress()
	defer g.done()
	err := env.Stream.Each(ctx, stream.Failed, "lbremedy.failed."+env.Cluster+".>", time.Time{}, func(m stream.Message) error {
		it, err := kept(m)
		var m0 command.Mistake
		if err != nil && !errors.As(err, &m0) { // a class that is gone is classified anew
			p.note("message %d of the stream can't be read and is passed over: %s", m.Sequence, command.Clean(err.Error()))
			return nil
		}
		list = append(list, it)
		g.say("reading the stream: %d failures", len(list))
		return nil
	})
	return list, err
}

// again classifies the failures anew and adds what was said of them then.
func (p *program) again(ctx context.Context, env *engine.Env, items []item) error {
	by := event.NewClassifier(table.Table())
	for i := range items {
		f := &items[i].event.Failure
		was := &verdictThen{Class: f.Class}
		if env.Stream != nil {
			m, err := env.Stream.Last(ctx, stream.Cases, event.CaseSubject(f.Cluster, f.Service.UID, f.Class))
			if err != nil && !errors.Is(err, stream.ErrNotFound) {
				return err
			}
			if err == nil {
				r, err := event.DecodeRecord(m.Header, m.Data)
				if err != nil {
					return err
				}
				was.Result = r.Result
			}
		}
		items[i].was = was
		m := by.Classify(event.Input{Reason: f.Reason, Type: f.Type, Component: f.Component, Message: f.Message})
		if m.Class != event.Ignored { // the stream holds no foreign ones; a cut or redacted text must not make it one
			f.Class = m.Class
		}
		r, err := classOf(f.Class)
		if err != nil {
			return err
		}
		items[i].remedy = r
	}
	return nil
}
