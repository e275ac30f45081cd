package answer

import (
	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/host"
)

func runCommand(p *cli.Program) *cobra.Command {
	var file string
	var a Flags
	cmd := &cobra.Command{
		Use:   "run NAMESPACE/SERVICE|FILE|-...",
		Short: "Handle a failure now, under the journal; writes with --apply",
		Long: `Handle the newest failure of Services, or failures from a file, now and with your own
credentials. It uses the journal, so no other run works on the same Service at the same
time. The policy in force decides what is done, or that of --policy.

Without --apply it only shows what would be done: by the same checks, and the API server
tries the writes to the cluster. With it a waiting case is retried until it is settled or
--wait is over; a worker continues from there.

With --apply --approve DIGEST you approve the plan that was shown, in your own name, if it
is still the same. Your approval counts as one that "lbremedy approve" creates, but in this
run alone; it needs no Approvals in the cluster.`,
		Example: `  lbremedy run shop/web
  lbremedy run shop/web --policy fix.yaml --apply
  lbremedy run shop/web --apply --approve 0f8e12ab`,
		Args: command.Exactly(1, -1, "a Service as NAMESPACE/NAME, a file, or - for standard input"),
		RunE: func(cmd *cobra.Command, args []string) error {
			items, env, err := readItems(cmd.Context(), p, args, func() (*host.Connection, error) { return p.Connect(cmd.Context(), file) })
			if env != nil {
				defer env.Stream.Close()
			}
			if err != nil {
				return err
			}
			return Failures(cmd.Context(), p, env, items, a)
		},
	}
	cmd.Flags().StringVar(&file, "policy", "", "policy instead of the one in force: a `file` or configmap:NAMESPACE/NAME")
	a.Add(cmd)
	a.AddApprove(cmd)
	return cmd
}
