package main

import (
	"github.com/spf13/cobra"

	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/engine"
)

func (p *program) plan() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "plan NAMESPACE/SERVICE|FILE|-...",
		Short: "Find the cause of a failure here and now, and say what would be done",
		Long: `Look at the newest failure of a Service, or at failures from a file, with your own
credentials for the cluster and the cloud, and say what would be done. Nothing is
written, and no NATS is needed. Without --policy the plan is made for observing.

A file holds CloudEvents in JSON, Kubernetes Events, or what "kubectl get events -o
json" or "-o yaml" prints; - is standard input.`,
		Example: `  lbremedy plan shop/web
  kubectl get events -n shop -o json | lbremedy plan -`,
		Args: command.Exactly(1, -1, "a Service as NAMESPACE/NAME, a file, or - for standard input"),
		RunE: func(cmd *cobra.Command, args []string) error {
			items, env, err := p.items(cmd.Context(), args, func() (*engine.Env, error) {
				if file != "" {
					if _, err := policyFile(file); err != nil {
						return nil, err
					}
				}
				return p.look(cmd.Context(), p.host())
			})
			if err != nil {
				return err
			}
			if err := setPolicy(env, file, nil); err != nil {
				return err
			}
			return p.answer(cmd.Context(), env, items, answering{})
		},
	}
	cmd.Flags().StringVar(&file, "policy", "", "policy `file` to plan by")
	return cmd
}
