package journal

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
)

func watch(p *cli.Program) *cobra.Command {
	var f Filter
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Follow cases as they change",
		Long: `Follow the journal until interrupted: one line per record, from now or from --since on.
-o json prints a line of JSON per record, -o yaml a document.`,
		Example: `  lbremedy watch --class tag-missing --result needs-approval,failed
  lbremedy watch --case 3f9a12bc-20260102T150405 --since 1h`,
		Args: command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.Check(); err != nil {
				return err
			}
			s, err := p.CaseStream(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			if said, err := cli.Unseen(cmd.Context(), s, p.Cluster); err != nil {
				return err
			} else if said != nil {
				p.Note("%s.", said)
			}
			if p.Terminal(p.Err) > 0 {
				p.Note("Following the journal; Ctrl-C ends it.")
			}
			return s.FollowSince(cmd.Context(), stream.Cases, caseFilter(p, f.classes), f.since.Time, func(m stream.Message) error {
				r, err := event.DecodeRecord(m.Subject, m.Header, m.Data)
				if err != nil {
					p.Note("a record can't be read: %s", command.Clean(err.Error()))
					return nil
				}
				if !f.record(r) {
					return nil
				}
				return p.Line(Printed(r), func() { Live(p, r) })
			})
		},
	}
	f.FailureFlags(p, cmd)
	f.outcomeFlags(p, cmd)
	f.SinceFlag(cmd, "also what was written since this `time`: 90m, 7d or 2006-01-02T15:04")
	return cmd
}

// Live prints a record in one line.
func Live(p *cli.Program, r event.Record) {
	r = r.In(p.Language())
	said := r.Finding
	switch {
	case r.Phase == event.Intent, r.Phase == event.Step:
		if r.Next < len(r.Steps) {
			said = r.Steps[r.Next].Text
		}
	case r.Error != "":
		said = r.Error
	case r.Result.Worked() && len(r.Steps) > 0:
		said = p.Phrase("%s (%s after the failure)", r.Steps[0].Text, cli.Short(r.At.Sub(r.FirstFailure())))
	}
	word := pad(Outcome(p, r), string(r.Status()), len(event.NeedsApproval))
	head := fmt.Sprintf("%s  %s  %s  %s  ", r.At.Local().Format("15:04:05"), word, command.Clean(r.Service.String()), r.Class)
	fmt.Fprintln(p.Out, head+p.Cell(said, len(head)))
}

// pad fills a painted word up to a width.
func pad(painted, word string, width int) string {
	return fmt.Sprintf("%s%*s", painted, max(0, width-len(word)), "")
}
