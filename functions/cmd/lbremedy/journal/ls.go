package journal

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
)

func ls(p *cli.Program) *cobra.Command {
	var f Filter
	var all, writes, watch bool
	order := cli.Order[Case]{Columns: map[string]func(a, b Case) int{
		"case":    func(a, b Case) int { return strings.Compare(a.Case, b.Case) },
		"cluster": func(a, b Case) int { return strings.Compare(a.Cluster, b.Cluster) },
		"service": func(a, b Case) int { return strings.Compare(a.Service.String(), b.Service.String()) },
		"class":   func(a, b Case) int { return strings.Compare(a.Class, b.Class) },
		"result":  func(a, b Case) int { return strings.Compare(string(a.Result), string(b.Result)) },
		"age":     func(a, b Case) int { return b.FirstSeen.Compare(a.FirstSeen) },
		"finding": func(a, b Case) int { return strings.Compare(a.Finding.String(), b.Finding.String()) },
		"time":    func(a, b Case) int { return b.At.Compare(a.At) },
	}}
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List cases: the newest of each Service and class",
		Long: `List the newest case of each Service and class. Cases that need a person come first, then
the latest change. With --all older cases too, which reads the whole journal.

RESULT is how the last run on the case ended, or "writing" while a plan is applied: a case
that needs approval has a plan to approve, one that needs action has none. AGE counts from
the first failure of the case, through pauses and retries. A case that returns unchanged
adds nothing to the journal: SEEN counts how often it was diagnosed, if more than once.

The table shows the start of a case ID, which every command accepts. At a terminal it fits
the screen and cuts long texts; in a pipe it cuts nothing. -o wide shows everything, with
the times of the first and the last failure. -o json and -o yaml print the newest record of
each case.

--watch follows the journal until it is interrupted: one line for each record, from now or
from --since on. -o json prints a line of JSON per record, -o yaml a document.

--writes lists all that the steps of cases wrote to the account and the cluster instead,
one line for each request. -o wide also says who, and what to look for in ActionTrail and in
the audit log of the cluster: the request ID, or the resource version after the write.
Tickets are not among them: "lbremedy tickets ls" lists these.`,
		Example: `  lbremedy ls --open
  lbremedy ls --class vswitch-ip-exhausted --since 24h --sort-by age
  lbremedy ls --writes --since 24h
  lbremedy ls --watch --result needs-approval,failed
  lbremedy ls --result needs-approval -o jsonpath='{range [*]}{.case}{"\n"}{end}'
  lbremedy ls -o json | jq -r '.[] | select(.result == "needs-action") | .ask'`,
		Args: command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.Check(p); err != nil {
				return err
			}
			switch {
			case writes && (all || f.open || len(f.results) > 0):
				return command.Wrong("--writes lists writes and not cases: leave out --all, --open and --result")
			case order.String() != "" && (watch || writes):
				return command.Wrong("--sort-by sorts cases: leave out --watch and --writes")
			case watch && (all || writes):
				return command.Wrong("--watch follows the newest records: leave out --all and --writes")
			}
			s, err := p.Stream(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			p.NotePause(cmd.Context(), s)
			if writes {
				return listWrites(cmd, p, s, &f)
			}
			if watch {
				return follow(cmd.Context(), p, s, &f)
			}
			seen, err := list(cmd.Context(), p, s, &f, all)
			if err != nil {
				return err
			}
			order.Sort(seen)
			if len(seen) == 0 {
				if err := p.NoteNone(cmd.Context(), s, cli.Chosen(cmd, say.F("case"))); err != nil {
					return err
				}
			}
			return p.Print(english(seen), func() { printCases(p, seen) })
		},
	}
	f.FailureFlags(p, cmd)
	f.outcomeFlags(cmd)
	f.SinceFlag(cmd, "only what changed, or was written, since this `time`: 90m, 7d or 2006-01-02T15:04")
	cmd.Flags().BoolVar(&writes, "writes", false, "list what was written to the account and the cluster")
	order.Add(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "also older cases of a Service and class")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "follow cases as they change, until interrupted")
	return cmd
}

// List returns the newest selected case of each Service and class: first those that need a person, then the latest change.
func List(ctx context.Context, p *cli.Program, s *stream.Stream, f *Filter) ([]Case, error) {
	seen, err := list(ctx, p, s, f, false)
	return english(seen), err
}

func list(ctx context.Context, p *cli.Program, s *stream.Stream, f *Filter, all bool) ([]Case, error) {
	read := latestCases
	if all {
		read = allCases
	}
	cases, err := read(ctx, p, s, f)
	if err != nil {
		return nil, err
	}
	records := []event.Record{}
	for _, h := range cases {
		records = append(records, h.Last())
	}
	seen, err := countSeen(ctx, p, s, "*", records)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(seen, func(a, b Case) int { return cmp.Compare(urgency(a.Result), urgency(b.Result)) })
	return seen, nil
}

func follow(ctx context.Context, p *cli.Program, s *stream.Stream, f *Filter) error {
	if said, err := cli.Unseen(ctx, s, p.Cluster); err != nil {
		return err
	} else if said != nil {
		p.Note("%s.", said)
	}
	if p.Terminal(p.Err) > 0 {
		p.Note("Following the journal; Ctrl-C ends it.")
	}
	return s.FollowSince(ctx, stream.Cases, caseFilter(p, f.classes), f.since.Time, func(m stream.Message) error {
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
		said = say.Literal(r.Error)
	case r.Result.Worked() && len(r.Steps) > 0:
		said = say.Literal(p.Phrase("%s (%s after the failure)", r.Steps[0].Text, cli.Short(r.At.Sub(r.FirstFailure()))))
	}
	word := Outcome(p, r) + strings.Repeat(" ", max(0, len(event.NeedsApproval)-cli.Columns(p.Tell(r.Status().Word()))))
	head := fmt.Sprintf("%s  %s  %s  %s  ", r.At.Local().Format("15:04:05 MST"), word, command.Clean(r.Service.String()), r.Class)
	fmt.Fprintln(p.Out, head+p.Cell(command.Local(said.String()), len(head)))
}

func printCases(p *cli.Program, cases []Case) {
	several := slices.ContainsFunc(cases, func(c Case) bool { return c.Cluster != cases[0].Cluster })
	again := slices.ContainsFunc(cases, func(c Case) bool { return c.Repeats != nil })
	t := p.Table("cluster", "case", "service", "class", "result", "age", "first seen", "last seen", "seen", "finding")
	t.Show(several, "cluster")
	t.Show(!p.Wide(), "age")
	t.Show(p.Wide(), "first seen", "last seen")
	t.Show(again, "seen")
	ids := shortIDs(p, cases, func(c Case) string { return c.Case })
	for _, c := range cases {
		times := 1
		if c.Repeats != nil {
			times = c.Repeats.Times
		}
		t.AppendRow([]any{c.Cluster, ids[c.Case], command.Clean(c.Service.String()), c.Class, paint(p, c.Result), p.Ago(c.FirstSeen),
			cli.Clock(c.FirstSeen), cli.Clock(c.LastSeen), times, cli.Plain(c.In(p.Language()).Finding.String())})
	}
	t.Render()
}

// shortIDs returns the shortest unique beginning of case IDs, or the whole ID in a wide table.
func shortIDs[T any](p *cli.Program, list []T, id func(T) string) map[string]string {
	short := map[string]string{}
	for _, one := range list {
		short[id(one)] = id(one)
	}
	all := slices.Sorted(maps.Keys(short))
	for i, id := range all {
		n := min(8, len(id)) // digits of the UID
		alike := func(other string) bool { return other != id && strings.HasPrefix(other, id[:n]) }
		for n < len(id) && slices.ContainsFunc(all[max(0, i-1):min(i+2, len(all))], alike) {
			n++
		}
		if !p.Wide() {
			short[id] = id[:n]
		}
	}
	return short
}
