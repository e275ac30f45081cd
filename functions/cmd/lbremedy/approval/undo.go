package approval

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/journal"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/control"
	"github.com/lbremedy/lbremedy/shared/document"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

type undoing struct {
	apply, shared, yes bool
	by                 string
}

func undo(p *cli.Program) *cobra.Command {
	var u undoing
	cmd := &cobra.Command{
		Use:   "undo CASE|NAMESPACE/SERVICE",
		Short: "Undo what was done in a case; writes with --apply",
		Long: `Undo the steps of all attempts of a case, the last step first. It stops before the first
step whose target has changed since lbremedy wrote it, and says what differs. A
value that no longer fits, because a load balancer was created in the meantime, is not
restored. A step that is already undone, or whose target is gone, is not written again, and
the journal says so.

Without --apply nothing is written: the same is checked, the API server tries the writes
to the cluster, and the exit code is that of --apply with --shared. At a terminal, --apply
shows the steps and asks before it writes; --yes doesn't ask.

The failure that was fixed comes back. Other cases may depend on what is undone, such as a
RAM policy that all Services need. They are listed. --apply then needs --shared, or asks
you to type the ID of the case.

Name a case by its ID or the start of it, or a Service of which one case has steps to
undo. A plan that was undone needs approval if the failure returns. A pause, a freeze and
observe mode stop an automatic undo (unsettled: undo), but not this command: with --apply
it writes during a pause too, and says so.`,
		Example: `  lbremedy undo shop/web
  lbremedy undo 3f9a12bc-20260102T150405 --apply`,
		Args:              command.Exactly(1, 1, "a case ID or NAMESPACE/SERVICE"),
		ValidArgsFunction: undoable.Complete(p),
		RunE: p.OnStream(func(ctx context.Context, s *stream.Stream, args []string) error {
			p.NotePause(ctx, s)
			return u.run(ctx, p, s, args[0])
		}),
	}
	cmd.Flags().BoolVar(&u.apply, "apply", false, "undo the steps; without it nothing is written")
	cmd.Flags().BoolVar(&u.shared, "shared", false, "with --apply: also what fixes other cases")
	cmd.Flags().BoolVarP(&u.yes, "yes", "y", false, "with --apply: don't ask at a terminal")
	cmd.Flags().StringVar(&u.by, "by", cli.Whoami(), "`who` undoes it, for the journal")
	return cmd
}

var undoable = journal.Want{What: say.F("has steps to undo"), Is: func(h journal.History) bool {
	return slices.ContainsFunc(event.Attempts(h), event.Record.Wrote)
}}

func (u undoing) run(ctx context.Context, p *cli.Program, s *stream.Stream, name string) error {
	h, err := undoable.Single(ctx, p, s, name)
	if err != nil {
		return err
	}
	steps, err := applied(ctx, s, h)
	if err != nil {
		return err
	}
	class, err := p.ClassOf(steps[0].Class)
	if err != nil {
		return err
	}
	if p.Cluster == "" {
		p.Cluster = steps[0].Cluster
	}
	env, err := p.ConnectReads(ctx, p.Host())
	if err != nil {
		return err
	}
	env.Stream = s
	sharing, err := journal.Sharing(ctx, p, s, steps)
	if err != nil {
		return err
	}
	asks := u.apply && !u.yes && p.Terminal(p.In) > 0
	if !u.apply || asks {
		rec, stops := engine.LookUndo(ctx, env.Env, class, steps)
		if len(rec.Steps) == 0 {
			return stops
		}
		back := h.Last().Result.Worked()
		if !u.apply {
			return cmp.Or(p.Print(newUndoPlan(rec, sharing), func() { would(p, rec, sharing, back, stops) }), stops)
		}
		printUndo(p, p.Err, rec, back, stops)
	}
	shared := len(sharing) > 0 && !u.shared
	if asks || shared {
		printSharing(p, sharing)
	}
	switch {
	case shared:
		err = p.Typed(steps[0].Case, "--shared")
	case asks:
		err = p.Typed("yes", "--yes")
	}
	if err != nil {
		return err
	}
	paused, err := control.Paused(ctx, s, steps[0].Cluster)
	if err != nil {
		return err
	}
	if paused != nil {
		p.Note("This undo writes although writes are paused: a pause does not stop a person's undo.")
	}
	env.Person = new(p.Person(ctx, u.by))
	rec, err := engine.Undo(ctx, env.Env, class, steps)
	if err != nil {
		return err
	}
	return p.Print(journal.Printed(rec), func() { journal.Report(p, rec) })
}

// applied returns a record of each attempt that is not undone, the newest first.
func applied(ctx context.Context, s *stream.Stream, h journal.History) ([]event.Record, error) {
	steps, back, err := (document.Store{Stream: s, Cluster: h.Last().Cluster}).Applied(ctx, h.Last())
	switch {
	case err != nil:
		return nil, err
	case !back.IsZero():
		return nil, command.Wrong("case %s was already undone at %s", h.Last().Case, cli.Clock(back))
	case len(steps) == 0:
		return nil, command.Wrong("case %s: no step was applied, so there is nothing to undo", h.Last().Case)
	case !slices.ContainsFunc(steps, event.Record.Wrote):
		return nil, command.Wrong("case %s wrote nothing but a resync, so there is nothing to undo", h.Last().Case)
	}
	return steps, nil
}

type undoPlan struct {
	event.Record
	Sharing []event.Record `json:"sharing"`
}

func newUndoPlan(r event.Record, sharing []event.Record) undoPlan {
	plan := undoPlan{r.In(nil), slices.Clone(sharing)}
	for i, other := range plan.Sharing {
		plan.Sharing[i] = other.In(nil)
	}
	return plan
}

func printUndo(p *cli.Program, to io.Writer, r event.Record, back bool, stops error) {
	fmt.Fprintln(to, p.Phrase("%s of %s:", r.Case, command.Clean(r.Service.String())))
	for i, s := range r.In(p.Language()).Steps {
		text := journal.Brief(s.Text.String())
		switch {
		case stops != nil && i == r.Next:
			text = p.Phrase("stops here: %s", text)
		case stops != nil && i > r.Next:
			text = p.Phrase("not reached: %s", text)
		case s.Found:
			text = p.Phrase("already undone, or no longer there: %s", text)
		}
		fmt.Fprint(to, cli.Wrap(text, "  ", p.Width()))
	}
	if back {
		p.Note("The failure that was fixed comes back, and its plan then needs approval.")
	}
}

func would(p *cli.Program, r event.Record, sharing []event.Record, back bool, stops error) {
	printUndo(p, p.Out, r, back, stops)
	printSharing(p, sharing)
	if stops != nil {
		return
	}
	if len(r.Note) > 0 {
		p.Note("%s", command.Clean(p.Tell(r.Note)))
	}
	if len(sharing) > 0 {
		p.Note("Nothing was written; --apply --shared undoes the steps.")
		return
	}
	p.Note("Nothing was written; --apply undoes the steps.")
}

func printSharing(p *cli.Program, sharing []event.Record) {
	if len(sharing) == 0 {
		return
	}
	p.Note("Other cases are fixed by the same, and may fail again:")
	for _, r := range sharing {
		p.Note("  %s  %s  %s", r.Case, command.Clean(r.Service.String()), r.Class)
	}
}
