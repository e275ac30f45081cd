package journal

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/tickets"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
)

func show(p *cli.Program) *cobra.Command {
	var whole, kept bool
	cmd := &cobra.Command{
		Use:   "show CASE|NAMESPACE/SERVICE",
		Short: "Show a case: what failed, why, what was done and how it ended",
		Long: `Show a case: what failed, the finding, what was written and what was there before, how
to undo it, and the outcome.

Name a case by its ID or the start of it, or a Service for its newest case. Next says what
you do about a case that is not over, with the command.

-o json and -o yaml print the newest record of the case, or all of them with --history, as
"lbremedy schema case" describes it. -o markdown prints the case for a colleague.

Before a plan of medium or high risk is applied, the journal keeps the state of the load
balancers: --snapshot shows it instead, with listeners, groups and backends.`,
		Example: `  lbremedy show shop/web
  lbremedy show 3f9a12bc
  lbremedy show shop/web -o markdown
  lbremedy show shop/web -o jsonpath='{.nextStep}'`,
		Args:              command.Exactly(1, 1, "a case ID or NAMESPACE/SERVICE"),
		ValidArgsFunction: completeShown(p),
		Annotations:       map[string]string{cli.HasMarkdown: "yes"},
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := p.CaseStream(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			found, err := find(cmd.Context(), p, s, args[0])
			if err != nil {
				return err
			}
			h := found[0]
			if kept {
				return showSnapshots(cmd.Context(), p, s, h.Last())
			}
			seen, err := countSeen(cmd.Context(), p, s, h.Last().Service.UID, h)
			if err != nil {
				return err
			}
			if err := tellLost(cmd.Context(), p, s, seen[len(seen)-1:]); err != nil {
				return err
			}
			last := seen[len(seen)-1]
			for i := range seen[:len(seen)-1] {
				seen[i].NextStep = "" // it is past
			}
			var value any = last
			if whole {
				value = seen
			}
			told, err := tickets.Of(cmd.Context(), s, h.Last())
			if err != nil {
				return err
			}
			return p.Print(value, func() {
				parts := append(fields(p, h.Last(), last.Seen), field{"Fix", last.lostFix()}, field{"Seen", last.Seen.in(p)}, field{"Tickets", told})
				if p.Markdown() {
					markdown(p, h, parts, whole)
					return
				}
				fmt.Fprintf(p.Out, "%s  %s\n", p.Paint(cli.Bold, command.Clean(h.Last().Service.String())), paint(p, last.Result))
				for _, f := range parts {
					p.Field(f.name, f.text)
				}
				undonePlan(p, h)
				if whole {
					fmt.Fprintf(p.Out, "\n%s\n", p.Paint(cli.Bold, "History"))
					for _, line := range timeline(h) {
						fmt.Fprintln(p.Out, "  "+line)
					}
				}
				if len(found) > 1 {
					fmt.Fprintln(p.Out)
					p.Field("Others", others(p, found[1:]))
				}
			})
		},
	}
	cmd.Flags().BoolVar(&whole, "history", false, "show all records of the case")
	cmd.Flags().BoolVar(&kept, "snapshot", false, "show the load balancers as they were before the write")
	return cmd
}

// timeline tells when what happened to the case, a line each.
func timeline(h History) []string {
	var lines []string
	for _, r := range h {
		line := string(r.Phase)
		switch r.Phase {
		case event.Step:
			line = stepLine(r)
		case event.Intent:
			line = fmt.Sprintf("plan of %s decided, attempt %d", say.Count(len(r.Steps), "step"), r.Attempt)
			if r.Undoing {
				line = fmt.Sprintf("undo of %s begun, attempt %d", say.Count(len(r.Steps), "step"), r.Attempt)
			}
		case event.Settled:
			line = string(r.Status())
		}
		if r.Error != "" {
			line += ": " + command.Clean(r.Error)
		}
		lines = append(lines, fmt.Sprintf("%s  %-6s  %s", cli.Clock(r.At), r.Who, line))
	}
	return lines
}

// stepLine tells how far the plan of a record is applied.
func stepLine(r event.Record) string {
	if r.Next == 0 || r.Next > len(r.Steps) {
		return fmt.Sprintf("%d of %s applied", r.Next, say.Count(len(r.Steps), "step"))
	}
	s, how := r.Steps[r.Next-1], "applied"
	if s.Found {
		how = "found applied"
	}
	return fmt.Sprintf("step %d of %d %s: %s", r.Next, len(r.Steps), how, command.Clean(Brief(s.Text)))
}

// undonePlan prints what an undo has taken back, which the newest record does not hold.
func undonePlan(p *cli.Program, h History) {
	if !h.Last().Undoing {
		return
	}
	applied, _ := engine.Applied(slices.DeleteFunc(slices.Clone(h), func(r event.Record) bool { return r.Undoing }))
	for _, r := range applied {
		fmt.Fprintln(p.Out)
		fmt.Fprintln(p.Out, p.Paint(cli.Bold, fmt.Sprintf("What was undone: attempt %d, %s", r.Attempt, r.Status())))
		p.Field("Finding", r.Finding)
		p.Field("Plan", plan(r, false))
		p.Field("Rule", cmp.Or(r.Decided, r.Rule))
		p.Field("Written", cli.Clock(r.Written)+" by "+byWhom(r))
	}
}

// others lists cases in one line each.
func others(p *cli.Program, rest []History) string {
	const most = 5
	var text string
	for i, h := range rest {
		if i == most {
			return text + fmt.Sprintf("and %d more", len(rest)-most)
		}
		r := h.Last()
		text += fmt.Sprintf("%s  %s  %s  %s ago\n", r.Case, r.Class, r.Status(), p.Ago(r.At))
	}
	return text
}
