package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
)

func (p *program) undo() *cobra.Command {
	var apply bool
	cmd := &cobra.Command{
		Use:   "undo CASE",
		Short: "Take back what was done in a case; writes with --apply",
		Long: `Take back the steps of a case, of all its attempts, the last one first. It stops
before the first step whose target is not as lbremedy left it: then somebody has moved
on, and it says what differs. Without --apply it says what would be taken back.

What was taken back is not done again by itself: if the failure comes back, the plan
asks for an approval. A pause, a freeze and observe mode hold back the take-back by the
policy (unsettled: undo), and not a person's.`,
		Example:           `  lbremedy undo 3f9a12bc-20260102T150405 --apply`,
		Args:              caseID,
		ValidArgsFunction: p.completeCases,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			s, err := p.stream(ctx)
			if err != nil {
				return err
			}
			defer s.Close()
			h, err := p.singleCase(ctx, s, args[0])
			if err != nil {
				return err
			}
			steps, err := applied(h)
			if err != nil {
				return err
			}
			if !apply {
				return p.print(steps, func() { p.back(steps) })
			}
			class, err := classOf(steps[0].Class)
			if err != nil {
				return err
			}
			if p.cluster == "" {
				p.cluster = steps[0].Cluster
			}
			env, err := p.look(ctx, p.host())
			if err != nil {
				return err
			}
			env.Stream = s
			rec, err := engine.Undo(ctx, env, class, steps)
			if err != nil {
				return err
			}
			return p.print(rec, func() { p.report(rec) })
		},
	}
	cmd.Flags().BoolVar(&apply, "apply", false, "take it back; without it nothing is written")
	return cmd
}

// applied returns what a case has applied and not taken back: a record of each
// attempt, the newest first.
func applied(h history) ([]event.Record, error) {
	steps, back := engine.Applied(h)
	switch {
	case !back.IsZero():
		return nil, command.Wrong("case %s was taken back at %s already", h.last().Case, clock(back))
	case len(steps) == 0:
		return nil, command.Wrong("case %s: no step was applied, so there is nothing to take back", h.last().Case)
	}
	return steps, nil
}

// back tells what undo would do.
func (p *program) back(attempts []event.Record) {
	fmt.Fprintf(p.out, "%s of %s:\n", attempts[0].Case, command.Clean(attempts[0].Service.String()))
	for _, r := range attempts {
		for i := min(r.Next, len(r.Steps)) - 1; i >= 0; i-- {
			text := "nothing to take back for: " + r.Steps[i].Text
			switch {
			case r.Steps[i].Undo != nil:
				text = r.Steps[i].Undo.Text
			case !r.Steps[i].Wakes:
				text = "there is no way back from: " + r.Steps[i].Text
			}
			fmt.Fprintf(p.out, "  %s\n", command.Clean(text))
		}
	}
	p.note("Nothing was written; --apply takes it back.")
}
