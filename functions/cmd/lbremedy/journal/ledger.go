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
		Short: "Draw the balance: seen, published, delivered, settled",
		Long: `Draw the balance of a cluster. What the exporters have seen must be published or have
come to another end; each failure that the stream keeps must be settled, dead, waiting,
or not yet due. A failure that was published and that nobody settles is listed, with
since when somebody should have looked at it.

PUBLISHED is what the stream keeps of a class, the newest failure of each Service, and
is the sum of QUEUED, WAITING, SETTLED, DEAD and LOST. UNDELIVERED and IN-HAND are what
NATS says of the deliveries of the class, over all clusters.

The exit code is 0 if all balances, 1 if anything is lost or an exporter is silent.`,
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
	cmd.Flags().DurationVar(&late, "late", late, "how long after it is due a failure is lost")
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
		fmt.Fprintln(p.Out, p.Paint(cli.Green, "It balances."))
		return
	}
	fmt.Fprintln(p.Out, p.Paint(cli.Red, fmt.Sprintf("It does not balance: %d failures are lost, and %d other things are wrong.", len(l.Lost), len(l.Problems))))
}
