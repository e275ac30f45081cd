package journal

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/stream"
)

func ledger(p *cli.Program) *cobra.Command {
	late := stream.Late
	cmd := &cobra.Command{
		Use:   "ledger",
		Short: "Reconcile failures: seen, published, delivered, settled",
		Long: `Check that every failure of a cluster has an outcome. Each Event that an exporter has seen
must be published or accounted for otherwise; each failure that the stream keeps must be
settled, dead, waiting or not yet due. Published failures that are never settled are
listed, with the time since when they are overdue.

PUBLISHED counts the failures of a class in the stream, the newest of each Service. It is
the sum of QUEUED, WAITING, SETTLED, DEAD and LOST. Of an exporter, OTHER is what it did not
have to publish. -o wide splits it up, and adds UNDELIVERED and IN-HAND: what NATS reports
for the class, over all clusters.

The exit code is 0 if every failure is accounted for, 1 if any is lost or an exporter is
silent.`,
		Example: `  lbremedy ledger --cluster c1234
  lbremedy ledger --cluster c1234 -o json | jq '.lost[] | [.service.name, .why]'`,
		Args: command.Exactly(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if p.Cluster == "" {
				return command.Wrong("no cluster is named: set --cluster or LBREMEDY_CLUSTER to the ID of the ACK cluster")
			}
			if late < 0 {
				return command.Wrong("--late: %s is negative", late)
			}
			s, err := p.Stream(cmd.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			l, err := s.Ledger(cmd.Context(), p.Cluster, p.Now(), late)
			if err != nil {
				return err
			}
			if err := p.Print(inMs(l), func() { printLedger(p, l) }); err != nil {
				return err
			}
			if !l.Balanced() {
				return command.Exit(command.CodeFailed)
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&late, "late", late, "how long after it is due a failure counts as lost")
	return cmd
}

// A printedLedger is a ledger as it is printed: in the units of people.
type printedLedger struct {
	stream.Ledger
	Exporters []printedPage `json:"exporters"`
}

type printedPage struct {
	stream.Page
	LagMs float64   `json:"lagMs"`
	Lag   *struct{} `json:"lag,omitempty"` // left out: it is in nanoseconds
}

func inMs(l stream.Ledger) printedLedger {
	out := printedLedger{Ledger: l, Exporters: []printedPage{}}
	for _, x := range l.Exporters {
		out.Exporters = append(out.Exporters, printedPage{Page: x, LagMs: ms(x.Lag)})
	}
	return out
}

func printLedger(p *cli.Program, l stream.Ledger) {
	if len(l.Exporters) > 0 {
		columns := []any{"exporter", "age", "seen", "published", "kept", "dead", "waiting", "other"}
		if p.Wide() {
			columns = append(columns[:7], "ignored", "reported", "overtaken", "strange", "released")
		}
		t := p.Table(columns...)
		t.Fit()
		for _, x := range l.Exporters {
			row := []any{x.Exporter, p.Ago(x.At), x.Seen, x.Published, x.Kept, x.Dead, x.Waiting()}
			if p.Wide() {
				t.AppendRow(append(row, x.Ignored, x.Reported, x.Overtaken, x.Strange, x.Released))
				continue
			}
			t.AppendRow(append(row, x.Ignored+x.Reported+x.Overtaken+x.Strange+x.Released))
		}
		t.Render()
		fmt.Fprintln(p.Out)
	}
	if len(l.Classes) > 0 {
		columns := []any{"class", "published", "queued", "waiting", "settled", "dead", "lost"}
		if p.Wide() {
			columns = append(columns, "undelivered", "in-hand")
		}
		t := p.Table(columns...)
		t.Fit()
		for _, a := range l.Classes {
			row := []any{a.Class, a.Published, a.Queued, a.Waiting, a.Settled, a.Dead, a.Lost}
			if p.Wide() {
				row = append(row, a.Undelivered, a.InHand)
			}
			t.AppendRow(row)
		}
		t.Render()
		fmt.Fprintln(p.Out)
	}
	if len(l.Lost) > 0 {
		columns := []any{"lost", "class", "overdue", "why"}
		if p.Wide() {
			columns = []any{"lost", "class", "event", "since", "case", "why"}
		}
		t := p.Table(columns...)
		t.FitProse("why")
		for _, x := range l.Lost {
			name := x.Service.UID
			if x.Service.Name != "" {
				name = x.Service.String()
			}
			row := []any{command.Clean(name), x.Class, p.Ago(x.Since), x.Why}
			if p.Wide() {
				row = []any{command.Clean(name), x.Class, command.Clean(cmp.Or(x.Event, "-")), cli.Clock(x.Since), cmp.Or(x.Case, "-"), x.Why}
			}
			t.AppendRow(row)
		}
		t.Render()
		fmt.Fprintln(p.Out)
	}
	for _, said := range l.Problems {
		fmt.Fprintln(p.Out, p.Paint(cli.Red, command.Clean(said)))
	}
	if l.Balanced() {
		fmt.Fprintln(p.Out, p.Paint(cli.Green, p.Phrase("All accounted for.")))
		return
	}
	fmt.Fprintln(p.Out, p.Paint(cli.Red, p.Phrase("Not all accounted for: %d failures are lost, and there are %d other problems.", len(l.Lost),
		len(l.Problems))))
}
