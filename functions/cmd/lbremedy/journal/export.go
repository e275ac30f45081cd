package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
)

func export(p *cli.Program) *cobra.Command {
	var f Filter
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write the journal as lines of JSON",
		Long: `Write the records of the journal as JSON lines, oldest first: every start, intent, step
and outcome as it was stored. The schema of a line is shared/event/schema/record.v1.json
in the source of lbremedy; readers must ignore unknown keys. Lines are raw: durations are
in nanoseconds, and "result" has the words of the journal. "asked" stands for needs-approval
and needs-action, "gone" for recovered and "ignored" for foreign.

The flags select records, not cases. If a record can't be read, the others are written
and the exit code is 1. An export is for analysis and archives: to restore a journal, use
"lbremedy backup".`,
		Example: `  lbremedy export --since 30d > journal.jsonl
  lbremedy export --result fixed,failed --since 24h | jq -r '[.at, .service.name, .class, .result] | @tsv'`,
		Args: command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.Check(); err != nil {
				return err
			}
			s, err := p.Stream(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			r := newReader(p)
			var line bytes.Buffer
			err = s.Each(cmd.Context(), stream.Cases, caseFilter(p, f.classes), f.stored(), func(m stream.Message) error {
				return r.each(func(rec event.Record) error {
					if !f.record(rec) {
						return nil
					}
					line.Reset()
					if err := json.Compact(&line, m.Data); err != nil {
						return fmt.Errorf("write the record of %s: %w", rec.Case, err)
					}
					line.WriteByte('\n')
					_, err := p.Out.Write(line.Bytes())
					return err
				})(m)
			})
			r.end()
			if err != nil {
				return err
			}
			if r.broken > 0 {
				return command.Exit(command.CodeFailed)
			}
			return nil
		},
	}
	f.FailureFlags(p, cmd)
	f.outcomeFlags(p, cmd)
	f.SinceFlag(cmd, "only what was written since this `time`: 90m, 7d or 2006-01-02T15:04")
	return cmd
}

// stored returns since when the server may have stored what the filter means: a
// record is stored after the moment that it names, by a clock that may be another.
func (f *Filter) stored() time.Time {
	if f.since.IsZero() {
		return time.Time{}
	}
	return f.since.Add(-time.Hour)
}
