package answer

import (
	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/host"
)

func planCommand(p *cli.Program) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "plan NAMESPACE/SERVICE|FILE|-...",
		Short: "Diagnose a failure now, and show what would be done",
		Long: `Diagnose the newest failure of a Service, or failures from a file, with your own
credentials for the cluster and the cloud, and show what would be done. Nothing is
written, and no NATS is needed. Without --policy the plan is made for observe mode.

A file holds CloudEvents in JSON, Kubernetes Events, or what "kubectl get events -o
json" or "-o yaml" prints; - is standard input.`,
		Example: `  lbremedy plan shop/web
  kubectl get events -n shop -o json | lbremedy plan -`,
		Args: command.Exactly(1, -1, "a Service as NAMESPACE/NAME, a file, or - for standard input"),
		RunE: func(cmd *cobra.Command, args []string) error {
			items, env, err := readItems(cmd.Context(), p, args, func() (*host.Connection, error) {
				if file != "" {
					if _, err := p.ReadPolicy(cmd.Context(), file); err != nil {
						return nil, err
					}
				}
				return p.Look(cmd.Context(), p.Host())
			})
			if err != nil {
				return err
			}
			if err := p.SetPolicy(env, file, nil); err != nil {
				return err
			}
			return Failures(cmd.Context(), p, env, items, Flags{})
		},
	}
	cmd.Flags().StringVar(&file, "policy", "", "policy to plan by: a `file` or configmap:NAMESPACE/NAME")
	return cmd
}
