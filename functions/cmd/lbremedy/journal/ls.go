package journal

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/stream"
)

func ls(p *cli.Program) *cobra.Command {
	var f Filter
	var all, writes bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List cases: the newest of each Service and class",
		Long: `List the newest case of each Service and class, most recently changed first. With --all
older cases too, which reads the whole journal.

RESULT is how the last run on the case ended, or "looking" and "writing" during a run. A
case that returns unchanged adds nothing to the journal: SEEN counts how often it was
diagnosed, if more than once. -o json and -o yaml print the records of the journal with
that count. "fix undone" is a fixed case whose fix was taken away by the undo of another.

--writes lists all that the steps of cases wrote to the account and the cluster instead,
one line for each request, with what to look for in ActionTrail and in the audit log of
the cluster: the request ID, or the resource version after the write. Tickets are not
among them: "lbremedy tickets ls" lists these.`,
		Example: `  lbremedy ls --open
  lbremedy ls --class vswitch-ip-exhausted --since 24h
  lbremedy ls --writes --since 24h
  lbremedy ls -o json | jq -r '.[] | select(.result == "asked") | .ask'`,
		Args: command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.Check(); err != nil {
				return err
			}
			switch {
			case writes && (all || f.open || len(f.results) > 0):
				return command.Wrong("--writes lists writes and not cases: leave out --all, --open and --result")
			case !writes && !f.Until.IsZero():
				return command.Wrong("--until is for --writes")
			}
			s, err := p.CaseStream(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			if writes {
				return listWrites(cmd.Context(), p, s, &f)
			}
			var cases []History
			if all {
				cases, err = allCases(cmd.Context(), p, s, &f)
			} else {
				cases, err = latestCases(cmd.Context(), p, s, &f)
			}
			if err != nil {
				return err
			}
			list := []event.Record{}
			for _, h := range cases {
				list = append(list, h.Last())
			}
			seen, err := countSeen(cmd.Context(), p, s, "*", list)
			if err == nil {
				err = tellLost(cmd.Context(), p, s, seen)
			}
			if err != nil {
				return err
			}
			if len(seen) == 0 {
				if err := noteNone(cmd.Context(), p, s, f); err != nil {
					return err
				}
			}
			return p.Print(seen, func() { printCases(p, seen) })
		},
	}
	f.FailureFlags(cmd)
	f.outcomeFlags(p, cmd)
	f.SinceFlag(cmd, "only what changed, or was written, since this `time`: 90m, 7d or 2006-01-02T15:04")
	cmd.Flags().Var(&f.Until, "until", "with --writes: only what was written until this `time`")
	cmd.Flags().BoolVar(&writes, "writes", false, "list what was written to the account and the cluster")
	cmd.Flags().BoolVar(&all, "all", false, "also older cases of a Service and class")
	return cmd
}

// noteNone says that no case passes the filter, and what of the filter the journal does not know.
func noteNone(ctx context.Context, p *cli.Program, s *stream.Stream, f Filter) error {
	if err := p.NoteNone(ctx, s, "case"+f.words()); err != nil || f.scope == (cli.Scope{}) {
		return err
	}
	all, err := latestCases(ctx, p, s, &Filter{})
	if err != nil {
		return err
	}
	var namespaces, services []string
	for _, h := range all {
		svc := h.Last().Service
		namespaces = append(namespaces, svc.Namespace)
		if f.scope.Namespace == "" || svc.Namespace == f.scope.Namespace {
			services = append(services, svc.Name)
		}
	}
	unknown := func(what, name string, known []string) bool {
		if name == "" || slices.Contains(known, name) {
			return false
		}
		text := fmt.Sprintf("The journal holds no case of a %s %q%s", what, name, cli.InCluster(p.Cluster))
		if near := command.Nearest(name, known); near != "" {
			text += ": did you mean " + near + "?"
		} else {
			text += "."
		}
		p.Note("%s", text)
		return true
	}
	if !unknown("namespace", f.scope.Namespace, namespaces) {
		unknown("Service", f.scope.Service, services)
	}
	return nil
}

func printCases(p *cli.Program, records []seenRecord) {
	if len(records) == 0 {
		return
	}
	first := records[0].Cluster
	several := slices.ContainsFunc(records, func(r seenRecord) bool { return r.Cluster != first })
	again := slices.ContainsFunc(records, func(r seenRecord) bool { return r.Seen != nil })
	columns := []any{"case", "service", "class", "result", "age", "finding"}
	if several {
		columns = append([]any{"cluster"}, columns...)
	}
	if again {
		columns = append(columns, "seen")
	}
	t := p.Table(columns...)
	used := 0
	for _, r := range records {
		used = max(used, len(r.Case)+len(r.Service.String())+len(r.Class))
	}
	for _, r := range records {
		row := []any{r.Case, command.Clean(r.Service.String()), r.Class, r.outcome(p), p.Ago(r.At), p.Cell(r.Finding, used+40)}
		if several {
			row = append([]any{r.Cluster}, row...)
		}
		if again {
			times := 1
			if r.Seen != nil {
				times = r.Seen.Times
			}
			row = append(row, times)
		}
		t.AppendRow(row)
	}
	t.Render()
}
