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
the sum of QUEUED, WAITING, SETTLED, DEAD and LOST. UNDELIVERED and IN-HAND are what NATS
reports for the class, over all clusters.

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
			if err := p.Print(l, func() { printLedger(p, l) }); err != nil {
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

func printLedger(p *cli.Program, l stream.Ledger) {
	if len(l.Exporters) > 0 {
		t := p.Table("exporter", "age", "seen", "ignored", "reported", "overtaken", "published", "kept", "dead", "strange", "released", "waiting")
		for _, x := range l.Exporters {
			t.AppendRow([]any{x.Exporter, p.Ago(x.At), x.Seen, x.Ignored, x.Reported, x.Overtaken, x.Published, x.Kept, x.Dead, x.Strange, x.Released, x.Waiting()})
		}
		t.Render()
		fmt.Fprintln(p.Out)
	}
	if len(l.Classes) > 0 {
		t := p.Table("class", "published", "queued", "waiting", "settled", "dead", "lost", "undelivered", "in-hand")
		for _, a := range l.Classes {
			t.AppendRow([]any{a.Class, a.Published, a.Queued, a.Waiting, a.Settled, a.Dead, a.Lost, a.Undelivered, a.InHand})
		}
		t.Render()
		fmt.Fprintln(p.Out)
	}
	if len(l.Lost) > 0 {
		t := p.Table("lost", "class", "event", "since", "case", "why")
		for _, x := range l.Lost {
			name := x.Service.UID
			if x.Service.Name != "" {
				name = x.Service.String()
			}
			t.AppendRow([]any{command.Clean(name), x.Class, command.Clean(cmp.Or(x.Event, "-")), cli.Clock(x.Since), cmp.Or(x.Case, "-"), x.Why})
		}
		t.Render()
		fmt.Fprintln(p.Out)
	}
	for _, said := range l.Problems {
		fmt.Fprintln(p.Out, p.Paint(cli.Red, command.Clean(said)))
	}
	if l.Balanced() {
		fmt.Fprintln(p.Out, p.Paint(cli.Green, "All accounted for."))
		return
	}
	fmt.Fprintln(p.Out, p.Paint(cli.Red, fmt.Sprintf("Not all accounted for: %d failures are lost, and there are %d other problems.", len(l.Lost),
		len(l.Problems))))
}
