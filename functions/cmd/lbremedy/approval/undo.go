package approval

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/journal"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
)

func undo(p *cli.Program) *cobra.Command {
	var apply bool
	cmd := &cobra.Command{
		Use:   "undo CASE",
		Short: "Undo what was done in a case; writes with --apply",
		Long: `Undo the steps of all attempts of a case, the last step first. It stops before the first
step whose target has changed since lbremedy wrote it, and says what differs. Without
--apply it only shows what would be undone.

A plan that was undone needs approval if the failure returns. A pause, a freeze and
observe mode stop an automatic undo (unsettled: undo), but not this command.`,
		Example:           `  lbremedy undo 3f9a12bc-20260102T150405 --apply`,
		Args:              journal.CaseID,
		ValidArgsFunction: journal.CompleteCases(p),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			s, err := p.Stream(ctx)
			if err != nil {
				return err
			}
			defer s.Close()
			h, err := journal.SingleCase(ctx, p, s, args[0])
			if err != nil {
				return err
			}
			steps, err := applied(h)
			if err != nil {
				return err
			}
			if !apply {
				return p.Print(steps, func() { printUndo(p, steps) })
			}
			class, err := cli.ClassOf(steps[0].Class)
			if err != nil {
				return err
			}
			if p.Cluster == "" {
				p.Cluster = steps[0].Cluster
			}
			env, err := p.Look(ctx, p.Host())
			if err != nil {
				return err
			}
			env.Stream = s
			rec, err := engine.Undo(ctx, env, class, steps)
			if err != nil {
				return err
			}
			return p.Print(journal.Printed(rec), func() { journal.Report(p, rec) })
		},
	}
	cmd.Flags().BoolVar(&apply, "apply", false, "undo the steps; without it nothing is written")
	return cmd
}

// applied returns what a case has applied and not taken back: a record of each
// attempt, the newest first.
func applied(h journal.History) ([]event.Record, error) {
	steps, back := engine.Applied(h)
	switch {
	case !back.IsZero():
		return nil, command.Wrong("case %s was already undone at %s", h.Last().Case, cli.Clock(back))
	case len(steps) == 0:
		return nil, command.Wrong("case %s: no step was applied, so there is nothing to undo", h.Last().Case)
	}
	return steps, nil
}

// printUndo tells what undo would do.
func printUndo(p *cli.Program, attempts []event.Record) {
	fmt.Fprintf(p.Out, "%s of %s:\n", attempts[0].Case, command.Clean(attempts[0].Service.String()))
	for _, r := range attempts {
		for i := min(r.Next, len(r.Steps)) - 1; i >= 0; i-- {
			text := "nothing to undo for: " + r.Steps[i].Text
			switch {
			case r.Steps[i].Undo != nil:
				text = r.Steps[i].Undo.Text
			case !r.Steps[i].Wakes:
				text = "cannot be undone: " + r.Steps[i].Text
			}
			fmt.Fprintf(p.Out, "  %s\n", command.Clean(text))
		}
	}
	p.Note("Nothing was written; --apply undoes the steps.")
}
